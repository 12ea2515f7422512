//! Azurite, the emulator: one version of it from npm, installed once under the target
//! directory, on ports that it chooses, with its data on the disk.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use lazurite_bench_common::Outcome;

use crate::client::Account;
use crate::installed::{call, target_directory};
use lazurite_bench_common::process::Process;

const PACKAGE: &str = include_str!("../azurite/package.json");
const LOCK: &str = include_str!("../azurite/package-lock.json");
const PROGRAM: &str = "node_modules/azurite/dist/src/azurite.js";

/// A running Azurite, killed when dropped.
pub(crate) struct Azurite {
    child: Child,
    account: Account,
    /// Not read any further. If it were closed, Azurite would end at the next line that it prints.
    _stdout: BufReader<ChildStdout>,
}

/// Makes sure that Azurite is installed. The first time, blocks while npm installs it. Errors name
/// the requirements.
pub(crate) fn install() -> Outcome<PathBuf> {
    let directory = target_directory().join(format!("azurite-{}", version()?));
    if !directory.exists() {
        eprintln!(
            "installing Azurite from npm into {} (once)",
            directory.display()
        );
        install_into(&directory).map_err(|error| {
            format!(
                "Azurite cannot be installed: {error}. It needs Node.js 20 or newer with npm, and the npm registry"
            )
        })?;
    }
    Ok(directory)
}

/// The pinned version.
pub(crate) fn version() -> Outcome<String> {
    let package: serde_json::Value = serde_json::from_str(PACKAGE)?;
    let version = package["dependencies"]["azurite"].as_str();
    Ok(version.ok_or("package.json names no azurite")?.to_owned())
}

/// Installs into a temporary directory and renames that at the end, so that two runs at a time do
/// not see each other's files.
fn install_into(directory: &Path) -> Outcome<()> {
    let parent = directory.parent().ok_or("no target directory")?;
    fs::create_dir_all(parent)?;
    let scratch = tempfile::tempdir_in(parent)?;
    fs::write(scratch.path().join("package.json"), PACKAGE)?;
    fs::write(scratch.path().join("package-lock.json"), LOCK)?;
    call(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .arg("--loglevel=error")
            .current_dir(scratch.path()),
    )?;
    fs::rename(scratch.keep(), directory)?;
    Ok(())
}

impl Azurite {
    /// Starts Azurite on the empty directory `data` and waits until all three services listen.
    pub(crate) fn start(data: &Path) -> Outcome<Azurite> {
        let program = install()?.join(PROGRAM);
        let mut child = Command::new("node")
            .arg(program)
            .args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"])
            .args(["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"])
            .arg("--location")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("node cannot be run: {error}"))?;
        let stdout = child.stdout.take().ok_or("Azurite has no output")?;
        let mut stdout = BufReader::new(stdout);
        let ports = ["Blob", "Queue", "Table"].map(|service| read_port(&mut stdout, service));
        let [blob, queue, table] = ports;
        Ok(Azurite {
            account: Account::development(blob?, queue?, table?),
            child,
            _stdout: stdout,
        })
    }

    pub(crate) fn account(&self) -> Account {
        self.account.clone()
    }

    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // An error means that the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port on which `service` listens, read from the output of Azurite.
fn read_port(stdout: &mut impl BufRead, service: &str) -> Outcome<u16> {
    let begins = format!("Azurite {service} service is successfully listening at ");
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line)? == 0 {
            return Err("Azurite ended before it listened".into());
        }
        if let Some(url) = line.strip_prefix(&begins) {
            let port = url.trim().rsplit(':').next().unwrap_or_default();
            return Ok(port.parse()?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_output_of_azurite() {
        let said = "Azurite Blob service is starting at http://127.0.0.1:0\n\
                    Azurite Blob service is successfully listening at http://127.0.0.1:33411\n";
        assert_eq!(read_port(&mut said.as_bytes(), "Blob").unwrap(), 33411);
        assert!(read_port(&mut said.as_bytes(), "Queue").is_err());
        assert_eq!(version().unwrap(), "3.37.0");
    }
}

//! Runs real Azurite, in the releases in common use, installed from the pinned list in
//! `tests/clients/azurite`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::clients::{INSTALL_TIME_MAX, finish, made_once, succeed};
use crate::server::{PATIENCE, Ports, lines_of};

const MISSING: &str = "The tests of Azurite need Node.js 20 or newer with npm.";
pub(crate) const RELEASES: [&str; 3] = ["azurite-3-31", "azurite-3-34", NEWEST_RELEASE];
pub(crate) const NEWEST_RELEASE: &str = "azurite-3-37";

/// A running Azurite, killed when dropped.
pub(crate) struct Azurite {
    child: Child,
    ports: Ports,
}

impl Azurite {
    /// Starts `release`, one of [`RELEASES`], on the directory `location`.
    pub(crate) fn start(release: &str, location: &Path) -> Azurite {
        let program = format!("node_modules/{release}/dist/src/azurite.js");
        // An Azurite that cannot send its telemetry ends two minutes later. The oldest release has
        // no telemetry, and no such flag.
        let telemetry = (release != RELEASES[0]).then_some("--disableTelemetry");
        let mut child = Command::new("node")
            .arg(install().join(program))
            .args(["--silent", "--skipApiVersionCheck"])
            .args(telemetry)
            .args(["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"])
            .arg("--location")
            .arg(location)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(MISSING);
        let printed = lines_of(child.stdout.take().unwrap());
        let mut lines = Vec::new();
        while lines
            .iter()
            .filter(|line: &&String| line.contains(" successfully listening at "))
            .count()
            < 3
        {
            lines.push(printed.recv_timeout(PATIENCE).expect("Azurite listens"));
        }
        let ports = Ports::in_lines(&lines);
        // Must be read: a full pipe would end Azurite.
        std::thread::spawn(move || while printed.recv().is_ok() {});
        Azurite { child, ports }
    }

    pub(crate) fn connection_string(&self) -> String {
        self.ports.connection_string("http")
    }

    /// Ends Azurite in order, because it writes its databases only then.
    pub(crate) fn stop(mut self) {
        let stopped = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(stopped.unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The directory whose `node_modules` holds all releases.
fn install() -> PathBuf {
    let version = finish(
        Command::new("node").arg("--version"),
        INSTALL_TIME_MAX,
        MISSING,
    );
    let lists = ["azurite/package.json", "azurite/package-lock.json"];
    let made = made_once("azurite", &lists, &version, |directory| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        succeed(npm.arg("--loglevel=error").current_dir(directory), MISSING)
    });
    made.unwrap_or_else(|reason| panic!("{reason}"))
}

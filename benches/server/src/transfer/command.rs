//! A command of our program as a process of its own, with its time and its highest memory.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;
use lazurite_bench_common::process::Process;

/// Between two looks at the memory and the state of a process.
const POLL: Duration = Duration::from_millis(2);

/// What a command took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) time: Duration,
    /// The highest resident memory.
    pub(super) peak_kib: u64,
}

/// Runs `binary` with these arguments until it ends. Its progress and its errors go to standard error. Error: it failed.
pub(super) fn run<S: AsRef<OsStr>>(binary: &Path, arguments: &[S]) -> Outcome<Taken> {
    let started = Instant::now();
    let child = Command::new(binary)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child =
        child.map_err(|error| format!("{} cannot be run: {error}", binary.display()))?;
    let peak_kib = watch(&mut child)?;
    let time = started.elapsed();
    let status = child.wait()?;
    if status.success() {
        return Ok(Taken { time, peak_kib });
    }
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said)?;
    }
    let command = arguments
        .first()
        .map_or("", |command| command.as_ref().to_str().unwrap_or_default());
    Err(format!("`lazurite {command}` failed ({status}): {}", said.trim()).into())
}

/// The highest memory of a process until it ends. Its output is a line or two, which the pipe holds.
fn watch(child: &mut Child) -> Outcome<u64> {
    let process = Process(child.id());
    let mut peak_kib = 0;
    while child.try_wait()?.is_none() {
        peak_kib = process.memory().peak_kib.max(peak_kib);
        thread::sleep(POLL);
    }
    Ok(peak_kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_has_its_time_and_memory_and_a_failure_has_its_output() {
        let shell = Path::new("/bin/sh");
        let taken = run(shell, &["-c", "sleep 0.05"]).unwrap();
        assert!(taken.peak_kib > 0 && taken.time >= Duration::from_millis(50));
        let failed = run(shell, &["-c", "echo nothing there; exit 3"]).unwrap_err();
        let failed = failed.to_string();
        assert!(
            failed.contains("nothing there") && failed.contains("3"),
            "{failed}"
        );
    }
}

//! Runs one step of a workload in a separate process, so that its memory, CPU time and writes are
//! the engine's alone.
//!
//! The child prints one line of JSON: its figures, and the wrong answers.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lazurite_bench_common::process::{Process, watching_memory};
use lazurite_bench_common::{Findings, Outcome};

use crate::cli::StepArgs;
use crate::context::Context;
use crate::findings;
use crate::peers::Peer;
use crate::usage::Usage;
use crate::workloads::Step;

const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the step in the child process and prints its line. Returns 0 even if answers were wrong,
/// because the parent reads them from the line.
pub(crate) fn run(args: &StepArgs) -> Outcome<usize> {
    let context = Context::new(args.engine, args.dir.clone(), args.scale);
    let before = Usage::now();
    let work = || (args.step.run)(&context);
    let (done, anonymous_kib) = watching_memory(Process::own(), MEMORY_INTERVAL, work);
    done?;
    let peak_kib = Process::own().memory().peak_kib;
    context.figure("peak_resident_mib", peak_kib as f64 / 1024.0);
    context.figure("peak_anonymous_mib", anonymous_kib as f64 / 1024.0);
    context.figure("other_cores", before.since().other_cores);
    println!("{}", findings::to_json(&context.findings()));
    Ok(0)
}

/// A step that runs in a child process.
pub(crate) struct Child<'a> {
    pub(crate) engine: Peer,
    pub(crate) step: &'a Step,
    pub(crate) scale: f64,
    pub(crate) directory: &'a Path,
}

impl Child<'_> {
    /// Runs the step in a child process, kills the child if the step asks for that, and returns its
    /// findings.
    pub(crate) fn run(&self) -> Outcome<Findings> {
        let mut child = self.command()?.spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the child has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        if self.step.is_killed {
            child.kill()?;
        }
        let status = child.wait()?;
        if !self.step.is_killed && !status.success() {
            return Err(format!("{self} failed").into());
        }
        findings::from_json(&line).ok_or_else(|| format!("{self} printed {line:?}").into())
    }

    fn command(&self) -> Outcome<Command> {
        let mut command = Command::new(program()?);
        command.arg("step").arg(self.directory);
        command.args(["--engine", self.engine.name()]);
        command.args(["--step", self.step.name]);
        command.args(["--scale", &self.scale.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }
}

impl fmt::Display for Child<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.step.name, self.engine.name())
    }
}

/// This program. On Linux it can be started even after the file was replaced by a newer build.
fn program() -> Outcome<PathBuf> {
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        return Ok(link.to_owned());
    }
    Ok(std::env::current_exe()?)
}

//! One step of a workload in a process of its own, so that its memory, CPU time and writes are the engine's alone.
//!
//! The child prints one line of JSON: its figures, and what was wrong.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::context::Context;
use super::measure::{Usage, watching_memory};
use super::peers::Peer;
use super::workloads::Step;
use crate::cli::EngineStepArgs;
use crate::report::Outcome;

/// What a step found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Findings {
    pub(super) figures: BTreeMap<String, f64>,
    /// Wrong answers.
    pub(super) mismatches: usize,
    /// The first few of them in words.
    pub(super) wrong: Vec<String>,
}

impl Findings {
    /// Adds those of the next step; of memory and load the highest counts.
    pub(super) fn merge(&mut self, next: Findings) {
        for (name, figure) in next.figures {
            let known = self.figures.entry(name.clone()).or_insert(figure);
            let is_highest_asked = name.starts_with("peak_") || name == "other_cores";
            *known = if is_highest_asked {
                known.max(figure)
            } else {
                figure
            };
        }
        self.mismatches += next.mismatches;
        self.wrong.extend(next.wrong);
    }

    fn to_json(&self) -> Value {
        json!({ "figures": self.figures, "mismatches": self.mismatches, "wrong": self.wrong })
    }

    fn from_json(line: &str) -> Option<Findings> {
        let value: Value = serde_json::from_str(line).ok()?;
        let figures = value["figures"].as_object()?.iter();
        let wrong = value["wrong"].as_array()?.iter();
        Some(Findings {
            figures: figures
                .map(|(name, figure)| Some((name.clone(), figure.as_f64()?)))
                .collect::<Option<_>>()?,
            mismatches: value["mismatches"].as_u64()? as usize,
            wrong: wrong
                .filter_map(|text| Some(text.as_str()?.to_owned()))
                .collect(),
        })
    }
}

/// The child: runs the step and prints its line. Answers how many answers were wrong.
pub(crate) fn run(args: &EngineStepArgs) -> Outcome<usize> {
    let context = Context::new(args.engine, args.dir.clone(), args.scale);
    let before = Usage::now();
    let (done, memory) = watching_memory(|| args.step.run(&context));
    done?;
    context.figure("peak_resident_mib", memory.resident);
    context.figure("peak_anonymous_mib", memory.anonymous);
    context.figure("other_cores", before.since().other_cores);
    println!("{}", context.findings().to_json());
    // The parent looks at the line, not at the status: a wrong answer is no failure to run.
    Ok(0)
}

/// The child, where it is to be killed: prints its line and waits. Never returns.
pub(super) fn wait_to_be_killed(context: &Context) -> ! {
    println!("{}", context.findings().to_json());
    // Ends when the parent does.
    let _ = stdin().read(&mut [0]);
    std::process::exit(1)
}

/// What to run as a child.
pub(super) struct Child<'a> {
    pub(super) engine: Peer,
    pub(super) step: Step,
    pub(super) scale: f64,
    pub(super) directory: &'a Path,
}

impl Child<'_> {
    /// The parent: runs the step in a process of its own, kills it where that is the point, and answers its findings.
    pub(super) fn run(&self) -> Outcome<Findings> {
        let mut child = self.command()?.spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the child has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        if self.step.is_killed() {
            child.kill()?;
        }
        let status = child.wait()?;
        if !self.step.is_killed() && !status.success() {
            return Err(format!("{self} failed").into());
        }
        Findings::from_json(&line).ok_or_else(|| format!("{self} said {line:?}").into())
    }

    fn command(&self) -> Outcome<Command> {
        let mut command = Command::new(program()?);
        command.arg("engine-step").arg(self.directory);
        command.args(["--engine", self.engine.name()]);
        command.args(["--step", &self.step.to_string()]);
        command.args(["--scale", &self.scale.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }
}

impl std::fmt::Display for Child<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.step, self.engine.name())
    }
}

/// This program. On Linux it can be started even after the file was replaced by a newer build.
fn program() -> Outcome<PathBuf> {
    let link = Path::new("/proc/self/exe");
    match link.exists() {
        true => Ok(link.to_owned()),
        false => Ok(std::env::current_exe()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_the_same_after_their_way_through_a_pipe() {
        let findings = Findings {
            figures: [("per_s".to_owned(), 1234.5), ("p99_us".to_owned(), 0.25)].into(),
            mismatches: 7,
            wrong: vec!["row 3 is \"missing\"".to_owned()],
        };
        let line = findings.to_json().to_string();
        assert_eq!(Findings::from_json(&line), Some(findings));
        assert_eq!(Findings::from_json(""), None);
    }
}

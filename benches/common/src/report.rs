//! The report of a run: its verdict, and its figures as JSON.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::MachineUse;
use crate::measurements::{self, Measurement, OldRun};
use crate::results::Results;
use crate::statistics::median;
use crate::text::counted;

/// Maximum number of cores that other processes may use: the median over the cases.
const OTHER_CORES_MAX: f64 = 0.4;

/// The results of a run.
#[derive(Default)]
pub struct RunReport {
    /// The command that was run.
    pub title: String,
    /// The verdict, in one sentence.
    pub verdict: String,
    /// The reasons why the figures are not to be quoted; empty on a quiet machine.
    pub noisy: Vec<String>,
    /// The changes since an older run.
    pub comparison: Vec<String>,
    /// Every figure, also for comparison with a later run.
    pub measurements: Vec<Measurement>,
}

impl RunReport {
    /// Returns a report whose verdict counts the wrong answers in `results`, and which is marked as
    /// noisy if the machine was busy. `noun` names a case.
    pub fn of(title: &str, results: &Results, noun: &str, machine: &MachineUse) -> RunReport {
        let cases: Vec<&str> = results.cases().collect();
        let mut noisy = machine.reasons();
        let others: Vec<f64> = cases.iter().map(|case| results.other_cores(case)).collect();
        if let Some(others) = median(&others).filter(|others| *others > OTHER_CORES_MAX) {
            noisy.push(format!(
                "other processes kept {others:.1} cores busy in the middle {noun}"
            ));
        }
        let measured = counted(cases.len(), noun);
        let verdict = match results.mismatches() {
            0 => format!("{measured}, every answer was right"),
            wrong => format!("{wrong} wrong answers in {measured}"),
        };
        RunReport {
            title: title.to_owned(),
            verdict,
            noisy,
            ..RunReport::default()
        }
    }

    /// Compares the run with `old`, if there is one, and judges the spread of the measurements.
    pub fn judge(&mut self, old: Option<&OldRun>) {
        self.noisy
            .extend(measurements::spread_reason(&self.measurements));
        self.comparison = old.map_or_else(Vec::new, |old| old.compare(&self.measurements));
    }

    /// The comparison, the warning of a busy machine and the verdict, for the terminal.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.comparison.clone();
        lines.extend(noise(&self.noisy));
        lines.push(self.verdict.clone());
        lines
    }

    /// The whole report.
    pub fn to_json(&self) -> Value {
        json!({
            "title": self.title,
            "verdict": self.verdict,
            "noisy": self.noisy,
            "comparison": self.comparison,
            "measurements": measurements::to_json(&self.measurements),
        })
    }
}

/// The warning of a run on a busy machine; `None` on a quiet one.
pub fn noise(reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| format!("noisy: do not quote: {}", reasons.join("; ")))
}

/// Writes a file, if one is requested. The error names the file.
pub fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Outcome<()> {
    let Some(path) = path else { return Ok(()) };
    let shown = path.display();
    Ok(fs::write(path, text()).map_err(|error| format!("{shown} cannot be written: {error}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Findings, OURS};

    #[test]
    fn report_says_that_the_machine_was_busy_and_counts_wrong_answers() {
        let mut results = Results::default();
        let mut findings = Findings::default();
        findings.set("other_cores", 0.9);
        findings.mismatches = 2;
        results.add("get", OURS, findings);
        let report = RunReport::of("get", &results, "case", &MachineUse::default());
        assert_eq!(report.verdict, "2 wrong answers in 1 case");
        let lines = report.lines();
        assert!(lines[0].starts_with("noisy: do not quote: other processes kept 0.9 cores busy"));
        assert_eq!(lines[1], report.verdict);
    }
}

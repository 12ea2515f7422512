//! The file for the report of a run, and the older run to compare with: arguments of several
//! commands.

use std::path::PathBuf;

use crate::report::{self, RunReport};
use crate::{OldRun, Outcome};

/// The flags `--json` and `--compare`.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ReportFiles {
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare with the figures that an older run wrote with --json
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

impl ReportFiles {
    /// Returns the older run to compare with. Call it before the run: if the file cannot be used,
    /// the work of the run would be lost.
    pub fn old(&self) -> Outcome<Option<OldRun>> {
        self.compare.as_deref().map(OldRun::read).transpose()
    }

    /// Compares, prints the lines after the tables, and writes the file.
    pub fn finish(&self, mut report: RunReport, old: Option<&OldRun>) -> Outcome<()> {
        report.judge(old);
        println!();
        for line in report.lines() {
            println!("{line}");
        }
        report::write(self.json.as_deref(), || format!("{:#}\n", report.to_json()))
    }
}

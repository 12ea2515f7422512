//! The state of a job, and the phases that it runs.

use lazurite_bench_common::{Outcome, Random};

use crate::client::{Client, Error};
use crate::job::kills::Kills;
use crate::job::ledger::Ledger;
use crate::job::report::Report;
use crate::job::stage::Stage;

/// The state that all parts share.
pub(super) struct Job {
    pub(super) client: Client,
    pub(super) connections: usize,
    pub(super) scale: f64,
    pub(super) seed: u64,
    /// Distinguishes the names of this run from those of others on the same server: digits.
    pub(super) run: String,
    pub(super) kills: Kills,
    pub(super) report: Report,
}

impl Job {
    /// Runs one phase of about `expected` items, with its share of the kills, and keeps its
    /// figures. An error means that the server stayed away; every other failure is a mismatch.
    pub(super) fn phase(
        &mut self,
        name: &'static str,
        unit: &'static str,
        expected: usize,
        work: impl FnOnce(&Job, &Stage) -> Result<(), Error>,
    ) -> Outcome<()> {
        let stage = Stage::start(name, unit, expected, &self.kills);
        let result = stage.absorb(work(self, &stage));
        let phase = stage.into_phase();
        self.report.finish(phase);
        Ok(result?)
    }

    /// A generator for the samples of one phase.
    pub(super) fn random(&self, phase: &str) -> Random {
        let salt = phase
            .bytes()
            .fold(0u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        Random::new(self.seed ^ salt)
    }

    /// `count` at this run's scale, at least one.
    pub(super) fn scaled(&self, count: usize) -> usize {
        ((count as f64 * self.scale) as usize).max(1)
    }

    pub(super) fn remark_ledger(&mut self, ledger: &Ledger) {
        self.report.remark(ledger.to_string());
    }
}

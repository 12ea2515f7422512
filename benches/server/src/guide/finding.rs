//! The results of one pattern.

use crate::guide::advice::Advice;
use crate::guide::pattern::Pattern;
use crate::guide::prices::{Asked, QuestionGrowth, Stored};
use crate::guide::usage::Usage;

/// The measurements of one design.
pub(super) struct Measured {
    pub(super) design: &'static str,
    pub(super) build: Usage,
    pub(super) ask: Usage,
    pub(super) stored: Stored,
    /// How `ask` grows with the items.
    pub(super) growth: QuestionGrowth,
    /// Seconds of each run to build and to ask. The usage above is that of the first run with the
    /// medians of these.
    pub(super) build_seconds: Vec<f64>,
    pub(super) ask_seconds: Vec<f64>,
}

/// The results of one pattern.
pub(super) struct Finding {
    pub(super) pattern: &'static Pattern,
    pub(super) designs: Vec<Measured>,
    /// The wrong answers; empty if every design gave the right ones.
    pub(super) wrong: Vec<String>,
    /// The advice of the server's advisor; empty if it has none.
    pub(super) advice: Vec<Advice>,
    pub(super) writes: usize,
    pub(super) questions: usize,
}

impl Finding {
    /// Fits the growth of each design to this run and to those with smaller data.
    pub(super) fn fit_growth(&mut self, smaller: &[Finding]) {
        for at in 0..self.designs.len() {
            let runs = smaller.iter().chain([&*self]).filter_map(|finding| {
                Some(Asked {
                    items: finding.writes,
                    questions: finding.questions,
                    usage: &finding.designs.get(at)?.ask,
                })
            });
            let growth = QuestionGrowth::fit(&runs.collect::<Vec<_>>());
            self.designs[at].growth = growth;
        }
    }
}

//! The results of one pattern.

use lazurite_bench_common::{number, thousands};

use crate::guide::advice::Advice;
use crate::guide::pattern::{Measure, Pattern, Tally, Trial};
use crate::guide::prices::{Asked, Counted, QuestionGrowth, Stored};
use crate::guide::usage::Usage;
use crate::guide::words::saving;

/// The measurements of one design.
pub(super) struct Measured {
    pub(super) design: &'static str,
    pub(super) build: Usage,
    pub(super) ask: Usage,
    pub(super) stored: Stored,
    /// The growth of `ask` with the number of items.
    pub(super) growth: QuestionGrowth,
    /// The result of the run with the name of this design in the first trial of the pattern; `None`
    /// if there is no such run.
    pub(super) tally: Option<Tally>,
    /// The seconds that each run took to build and to ask. `build` and `ask` are those of the first
    /// run, with the medians of these seconds.
    pub(super) build_seconds: Vec<f64>,
    pub(super) ask_seconds: Vec<f64>,
}

/// The results of the runs of a trial, in their order.
pub(super) struct Tried {
    pub(super) trial: &'static Trial,
    pub(super) runs: Vec<TriedRun>,
}

/// The result of one run of a trial.
pub(super) struct TriedRun {
    pub(super) name: &'static str,
    pub(super) tally: Tally,
    pub(super) usage: Usage,
}

/// The results of one pattern.
pub(super) struct Finding {
    pub(super) pattern: &'static Pattern,
    pub(super) designs: Vec<Measured>,
    pub(super) trials: Vec<Tried>,
    /// The wrong answers; empty if every design gave the right ones.
    pub(super) wrong: Vec<String>,
    /// The advice of the server's advisor; empty if there is none.
    pub(super) advice: Vec<Advice>,
    pub(super) writes: usize,
    pub(super) questions: usize,
    /// The smallest number of items among the runs to which the growth is fitted.
    pub(super) items_least: usize,
}

impl Measured {
    pub(super) fn new(design: &'static str, build: Usage, ask: Usage, stored: Stored) -> Measured {
        Measured {
            design,
            build_seconds: vec![build.seconds],
            ask_seconds: vec![ask.seconds],
            build,
            ask,
            stored,
            growth: QuestionGrowth::default(),
            tally: None,
        }
    }

    /// A figure; `None` if it was not measured.
    pub(super) fn figure(&self, measure: Measure) -> Option<f64> {
        let (build, ask) = (&self.build, &self.ask);
        match measure {
            Measure::Examined => ask.examined.map(|_| ask.rows_of_queries() as f64),
            Measure::Requests => Some(ask.requests as f64),
            Measure::WriteRequests => Some(build.requests as f64),
            Measure::Sent => Some(ask.sent_bytes as f64),
            Measure::Received => Some(ask.received_bytes as f64),
            Measure::HottestPartition => Some(build.hottest_partition() as f64),
            Measure::Refused => Some((build.refused + ask.refused) as f64),
            Measure::Seconds => Some(ask.seconds),
            Measure::HalfDone => self.tally.map(|tally| tally.harmed as f64),
        }
    }

    /// A figure with its unit; `-` if it was not measured.
    pub(super) fn text(&self, measure: Measure) -> String {
        let Some(figure) = self.figure(measure) else {
            return "-".into();
        };
        match measure {
            Measure::Sent | Measure::Received => bytes(figure as u64),
            Measure::Seconds => format!("{} ms", number(figure * 1e3)),
            Measure::Examined => self.ask.rows_text(),
            _ => thousands(figure as u64),
        }
    }
}

impl Finding {
    /// A finding without measurements.
    pub(super) fn new(pattern: &'static Pattern, writes: usize, questions: usize) -> Finding {
        Finding {
            pattern,
            designs: Vec::new(),
            trials: Vec::new(),
            wrong: Vec::new(),
            advice: Vec::new(),
            writes,
            questions,
            items_least: writes,
        }
    }

    /// The naive design and the advised one; `None` if the server could not run them.
    pub(super) fn naive_and_advised(&self) -> Option<(&Measured, &Measured)> {
        Some((self.designs.first()?, self.designs.last()?))
    }

    /// The change of the measure that the pattern is about.
    pub(super) fn change(&self) -> Option<String> {
        let (naive, advised) = self.naive_and_advised()?;
        let goal = self.pattern.goal;
        let (before, after) = (naive.figure(goal)?, advised.figure(goal)?);
        Some(saving(before, after, goal.fewer()))
    }

    /// The change of the measure that the pattern is about; `None` if the measure is on the bill,
    /// or depends on the machine or on chance.
    pub(super) fn change_beside_price(&self) -> Option<String> {
        let is_beside = !self.pattern.goal.is_billed() && !self.depends_on_machine();
        self.change().filter(|_| is_beside)
    }

    /// Fits the growth of each design to this run and to those with smaller data.
    pub(super) fn fit_growth(&mut self, smaller: &[Finding]) {
        let items = smaller.iter().map(|finding| finding.writes);
        self.items_least = items.min().unwrap_or(self.writes);
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

    /// Adds the results of a trial. Adds a wrong answer if its last run, which has the remedy,
    /// harmed anything.
    pub(super) fn add_trial(&mut self, tried: Tried) {
        let harm = tried.trial.harm;
        if self.trials.is_empty() {
            for design in &mut self.designs {
                let mut runs = tried.runs.iter();
                let run = runs.find(|run| run.name == design.design);
                design.tally = run.map(|run| run.tally);
            }
        }
        let last = tried.runs.last();
        if let Some(TriedRun { name, tally, .. }) = last.filter(|run| run.tally.harmed > 0) {
            let Tally {
                harmed, objects, ..
            } = tally;
            let (circumstance, title) = (tried.trial.circumstance, harm.title());
            self.wrong.push(format!(
                "{name}: {harmed} of {objects} are {title} if {circumstance}"
            ));
        }
        self.trials.push(tried);
    }

    /// A design in the form of the cost model.
    pub(super) fn priced(&self, design: &Measured) -> lazurite_cost::Design {
        let counted = Counted {
            build: &design.build,
            ask: &design.ask,
            growth: &design.growth,
            stored: design.stored,
            writes: self.writes,
            questions: self.questions,
        };
        counted.design()
    }

    /// Whether the figure of the pattern depends on chance or on the machine.
    pub(super) fn depends_on_machine(&self) -> bool {
        self.price_depends_on_chance() || self.pattern.goal == Measure::Seconds
    }

    /// Whether chance decides the number of requests, as in a race.
    pub(super) fn price_depends_on_chance(&self) -> bool {
        self.pattern.goal == Measure::Refused
    }
}

/// `1234567` bytes as `1.23 MB`.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{} kB", number(count as f64 / 1e3)),
        _ => format!("{} MB", number(count as f64 / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::pattern::Harm;

    #[test]
    fn harm_in_the_last_run_of_a_trial_is_wrong_and_harm_before_it_is_not() {
        static TRIAL: Trial = Trial {
            circumstance: "programs die",
            harm: Harm::HalfDone,
            runs: &[],
        };
        let tried = |harmed: [usize; 2]| {
            let run = |(name, harmed)| TriedRun {
                name,
                tally: Tally {
                    harmed,
                    objects: 9,
                    rounds: 0,
                },
                usage: Usage::default(),
            };
            let runs = ["naive", "advised"].into_iter().zip(harmed).map(run);
            Tried {
                trial: &TRIAL,
                runs: runs.collect(),
            }
        };
        let mut finding = Finding::new(crate::guide::patterns::PATTERNS[0], 1, 1);
        finding.add_trial(tried([3, 0]));
        assert!(finding.wrong.is_empty());
        finding.add_trial(tried([0, 2]));
        let expected = "advised: 2 of 9 are half done if programs die";
        assert_eq!(finding.wrong, [expected]);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [0, 999, 12_345, 2_500_000].map(bytes),
            ["0 B", "999 B", "12.3 kB", "2.50 MB"]
        );
    }
}

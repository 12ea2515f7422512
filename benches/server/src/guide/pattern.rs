//! A pattern of the guide as plain data.

use crate::client::Error;
use crate::guide::data::Data;
use crate::guide::lab::Lab;

/// Answers in words, one line for each question or entity, in an order that the pattern defines.
pub(super) type Answers = Vec<String>;

/// One pattern.
pub(super) struct Pattern {
    /// The name for `--only` and in the names of tables: lower-case letters and hyphens.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The problem that the guide states, its advice, and its warning.
    pub(super) problem: &'static str,
    pub(super) advice: &'static str,
    pub(super) caution: &'static str,
    /// The question, as the subject of a sentence.
    pub(super) question: &'static str,
    /// The figure that the advised design should lower.
    pub(super) goal: Measure,
    /// The naive design first, the advised one last.
    pub(super) designs: &'static [Design],
    /// Further runs, each under one circumstance; empty if there are none.
    pub(super) trials: &'static [Trial],
    /// The right answers, computed from the data alone.
    pub(super) truth: fn(&Data) -> Answers,
    /// Number of writes of the application in `build`, and of questions in `ask`.
    pub(super) writes: fn(&Data) -> usize,
    pub(super) questions: fn(&Data) -> usize,
    pub(super) rate: Rate,
}

/// How often a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    /// By each user: as often as the load of the price file says.
    Page,
    /// As often as a list or a report of many entities is wanted.
    Report,
    /// By a program that reads everything.
    Job,
}

impl Rate {
    /// Number of questions for each question of the load of the price file.
    pub(super) fn share(self) -> f64 {
        match self {
            Rate::Page => 1.0,
            Rate::Report => 1e-3,
            Rate::Job => 1e-5,
        }
    }

    /// The reason for a share other than 1, as a sentence.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Rate::Page => None,
            Rate::Report => Some(
                "The question is a report on many entities: it is priced for 1/1,000 of the questions of the load.",
            ),
            Rate::Job => Some(
                "The question is a job that reads everything: it is priced for 1/100,000 of the questions of the load.",
            ),
        }
    }
}

/// One way to store the data and to answer the question.
pub(super) struct Design {
    pub(super) name: &'static str,
    pub(super) build: fn(&Lab) -> Result<(), Error>,
    pub(super) ask: fn(&Lab) -> Result<Answers, Error>,
    /// Breaks the design after it was built, so that its verification must fail.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests break designs"))]
    pub(super) sabotage: fn(&Lab) -> Result<(), Error>,
}

/// Runs under one circumstance, such as the deaths of programs. The last run has the remedy: it
/// must harm nothing.
pub(super) struct Trial {
    /// The circumstance, as a clause after "if".
    pub(super) circumstance: &'static str,
    pub(super) harm: Harm,
    pub(super) runs: &'static [TrialRun],
}

/// One run of a trial.
pub(super) struct TrialRun {
    /// The name of a design, or of a variant of one.
    pub(super) name: &'static str,
    /// Stores what the run begins with. Its requests are not counted.
    pub(super) build: fn(&Lab) -> Result<(), Error>,
    pub(super) run: fn(&Lab) -> Result<Tally, Error>,
}

/// The harm that a trial looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    HalfDone,
    /// A change without effect, because another program overwrote it.
    Lost,
    /// Counted twice or not at all.
    Miscounted,
    /// Shown as it was before.
    Outdated,
    /// Readable by a program that must not read it.
    Exposed,
    /// Found in two places at once.
    SeenTwice,
    Wrong,
}

impl Harm {
    /// The heading of its column.
    pub(super) fn title(self) -> &'static str {
        match self {
            Harm::HalfDone => "half done",
            Harm::Lost => "lost",
            Harm::Miscounted => "miscounted",
            Harm::Outdated => "outdated",
            Harm::Exposed => "exposed",
            Harm::SeenTwice => "seen twice",
            Harm::Wrong => "wrong",
        }
    }
}

/// How many objects a trial had, and how many of them it harmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) harmed: usize,
    pub(super) objects: usize,
    /// Number of rounds, in each of which all workers do a step; 0 if the run has no rounds.
    pub(super) rounds: usize,
}

impl Tally {
    /// Counts the objects for which `is_harmed` is true.
    pub(super) fn count<T>(
        objects: impl IntoIterator<Item = T>,
        mut is_harmed: impl FnMut(T) -> Result<bool, Error>,
    ) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        for object in objects {
            tally.objects += 1;
            tally.harmed += usize::from(is_harmed(object)?);
        }
        Ok(tally)
    }
}

/// The figures that a design may lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Rows that the hosted service would examine to answer.
    Examined,
    /// Requests to answer.
    Requests,
    /// Requests to store.
    WriteRequests,
    /// Bytes of requests that ask.
    Sent,
    /// Bytes of answers.
    Received,
    /// Writes to the partition with the most writes.
    HottestPartition,
    /// Requests that lost a race and had to be repeated.
    Refused,
    /// Time to answer.
    Seconds,
    /// Objects that are half done after the deaths of programs.
    HalfDone,
}

impl Measure {
    /// The heading of a column or a chart.
    pub(super) fn title(self) -> &'static str {
        match self {
            Measure::Examined => "rows examined by the hosted service",
            Measure::Requests => "requests to answer",
            Measure::WriteRequests => "requests to write",
            Measure::Sent => "sent",
            Measure::Received => "received",
            Measure::HottestPartition => "writes to the hottest partition",
            Measure::Refused => "refused requests",
            Measure::Seconds => "ms to answer",
            Measure::HalfDone => "half done after deaths",
        }
    }

    /// Whether the figure is on the bill, and so in the price.
    pub(super) fn is_billed(self) -> bool {
        matches!(self, Measure::Requests | Measure::WriteRequests)
    }

    /// The words after a factor, as in "40x fewer requests".
    pub(super) fn fewer(self) -> &'static str {
        match self {
            Measure::Examined => "fewer rows examined",
            Measure::Requests => "fewer requests",
            Measure::WriteRequests => "fewer requests to write",
            Measure::Sent => "fewer bytes sent",
            Measure::Received => "fewer bytes received",
            Measure::HottestPartition => "fewer writes to the hottest partition",
            Measure::Refused => "fewer refused requests",
            Measure::Seconds => "less time",
            Measure::HalfDone => "fewer objects half done after the deaths of programs",
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.name == other.name
    }
}

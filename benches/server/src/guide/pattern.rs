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
    /// Runs of the designs in which programs die; empty if no design can leave anything half done.
    pub(super) deaths: &'static [Deaths],
    /// The right answers, computed from the data alone.
    pub(super) truth: fn(&Data) -> Answers,
    /// Number of writes of the application in `build`, and of questions in `ask`.
    pub(super) writes: fn(&Data) -> usize,
    pub(super) questions: fn(&Data) -> usize,
    /// Breaks the advised design after it was built, so that the verification must fail.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests break patterns"))]
    pub(super) sabotage: fn(&Lab) -> Result<(), Error>,
}

/// One way to store the data and to answer the question.
pub(super) struct Design {
    pub(super) name: &'static str,
    pub(super) build: fn(&Lab) -> Result<(), Error>,
    pub(super) ask: fn(&Lab) -> Result<Answers, Error>,
}

/// A run of a design in which programs die.
pub(super) struct Deaths {
    /// The name of the design.
    pub(super) design: &'static str,
    /// Builds the design anew. Its programs die at each of their steps in turn, and are started
    /// again.
    pub(super) run: fn(&Lab) -> Result<Losses, Error>,
}

/// Objects that are half done after the deaths of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Losses {
    pub(super) half_done: usize,
    pub(super) objects: usize,
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

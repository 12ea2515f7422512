//! A pattern of the guide as plain data.

use crate::client::Error;
use crate::guide::data::Data;
use crate::guide::lab::Lab;
use crate::guide::usage::Usage;

/// Answers in words, one line for each question or entity, in an order that the pattern defines.
pub(super) type Answers = Vec<String>;

/// One pattern.
pub(super) struct Pattern {
    /// For `--only` and the names of tables: lower-case letters and hyphens.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The problem that the guide states, its advice, and what it warns of.
    pub(super) problem: &'static str,
    pub(super) advice: &'static str,
    pub(super) caution: &'static str,
    /// The question, as the subject of a sentence.
    pub(super) question: &'static str,
    /// The figure that the advised design should lower.
    pub(super) goal: Measure,
    /// The naive design first, the advised one last.
    pub(super) designs: &'static [Design],
    /// The right answers, computed from the data alone.
    pub(super) truth: fn(&Data) -> Answers,
    /// Writes of the application in `build`, and questions in `ask`.
    pub(super) writes: fn(&Data) -> usize,
    pub(super) questions: fn(&Data) -> usize,
    /// Breaks the advised design after it was built: the verification must then fail.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests break patterns"))]
    pub(super) sabotage: fn(&Lab) -> Result<(), Error>,
}

/// One way to store the data and to answer the question.
pub(super) struct Design {
    pub(super) name: &'static str,
    pub(super) build: fn(&Lab) -> Result<(), Error>,
    pub(super) ask: fn(&Lab) -> Result<Answers, Error>,
}

/// The figures that a design may lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Rows that the server examined to answer.
    Examined,
    /// Requests to answer.
    Requests,
    /// Requests to store.
    WriteRequests,
    /// Bytes of answers.
    Received,
    /// Writes to the partition that gets most.
    HottestPartition,
    /// Requests that lost a race and had to be repeated.
    Refused,
    /// Time to answer.
    Seconds,
    /// Requests that the advised design needs in addition, to survive what the naive one does not.
    Safety,
}

impl Measure {
    /// The figure; `None` if the server does not report it.
    pub(super) fn of(self, build: &Usage, ask: &Usage) -> Option<f64> {
        match self {
            Measure::Examined => ask.examined.map(|rows| rows as f64),
            Measure::Requests | Measure::Safety => Some(ask.requests as f64),
            Measure::WriteRequests => Some(build.requests as f64),
            Measure::Received => Some(ask.received_bytes as f64),
            Measure::HottestPartition => Some(build.hottest_partition() as f64),
            Measure::Refused => Some((build.refused + ask.refused) as f64),
            Measure::Seconds => Some(ask.seconds),
        }
    }

    /// After a factor: "40x fewer …".
    pub(super) fn fewer(self) -> &'static str {
        match self {
            Measure::Examined => "fewer rows examined",
            Measure::Requests | Measure::Safety => "fewer requests",
            Measure::WriteRequests => "fewer requests to write",
            Measure::Received => "fewer bytes received",
            Measure::HottestPartition => "fewer writes to the hottest partition",
            Measure::Refused => "fewer refused requests",
            Measure::Seconds => "less time",
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.name == other.name
    }
}

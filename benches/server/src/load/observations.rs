//! The observations of a load: times, latencies by kind of response, samples, wrong responses.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::load::answer::Answer;

/// Wrong answers that are kept in words.
const WRONG_MAX: usize = 5;

/// The observations of a load.
pub(crate) struct Observations {
    pub(crate) elapsed: Duration,
    /// The part of it in which there was no upkeep.
    pub(crate) measured: Duration,
    /// By kind, in nanoseconds.
    pub(crate) latencies: Vec<Histogram<u64>>,
    /// By kind, the first answer.
    pub(crate) samples: Vec<Option<Sample>>,
    /// Wrong answers.
    pub(crate) mismatches: usize,
    /// The first few of them in words.
    pub(crate) wrong: Vec<String>,
}

/// An answer, and what it answered.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) method: String,
    pub(crate) answer: Answer,
}

impl Observations {
    pub(super) fn new() -> Observations {
        Observations {
            elapsed: Duration::ZERO,
            measured: Duration::ZERO,
            latencies: Vec::new(),
            samples: Vec::new(),
            mismatches: 0,
            wrong: Vec::new(),
        }
    }

    /// Answers of that kind.
    pub(crate) fn count(&self, kind: usize) -> u64 {
        self.latencies.get(kind).map_or(0, Histogram::len)
    }

    pub(super) fn record(&mut self, kind: usize, latency: Duration) {
        while self.latencies.len() <= kind {
            let latencies = Histogram::new(3);
            self.latencies
                .push(latencies.expect("three digits are a valid precision"));
        }
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies[kind]
            .record(nanos)
            .expect("the histogram grows as it must");
    }

    pub(super) fn sample(&mut self, kind: usize) -> &mut Option<Sample> {
        while self.samples.len() <= kind {
            self.samples.push(None);
        }
        &mut self.samples[kind]
    }

    pub(super) fn mismatch(&mut self, what: String) {
        self.mismatches += 1;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(what);
        }
    }
}

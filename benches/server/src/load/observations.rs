//! The observations of a load: times, latencies by kind of response, wrong responses.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Wrong answers that are kept in words.
const WRONG_MAX: usize = 5;

/// The observations of a load.
pub(crate) struct Observations {
    pub(crate) elapsed: Duration,
    /// By kind, in nanoseconds.
    pub(crate) latencies: Vec<Histogram<u64>>,
    /// Wrong answers.
    pub(crate) mismatches: usize,
    /// The first few of them in words.
    pub(crate) wrong: Vec<String>,
}

impl Observations {
    pub(crate) fn new() -> Observations {
        Observations {
            elapsed: Duration::ZERO,
            latencies: Vec::new(),
            mismatches: 0,
            wrong: Vec::new(),
        }
    }

    /// Adds those of another part of the same load.
    pub(crate) fn add(&mut self, other: Observations) {
        self.elapsed += other.elapsed;
        for (kind, latencies) in other.latencies.iter().enumerate() {
            let of_kind = self.latencies_of(kind);
            of_kind.add(latencies).expect("the histogram grows");
        }
        self.add_mismatches(other.mismatches, other.wrong);
    }

    /// Adds wrong answers of another load.
    pub(crate) fn add_mismatches(&mut self, mismatches: usize, wrong: Vec<String>) {
        self.mismatches += mismatches;
        self.wrong.extend(wrong);
        self.wrong.truncate(WRONG_MAX);
    }

    /// Answers of that kind.
    pub(crate) fn count(&self, kind: usize) -> u64 {
        self.latencies.get(kind).map_or(0, Histogram::len)
    }

    pub(super) fn record(&mut self, kind: usize, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let recorded = self.latencies_of(kind).record(nanos);
        recorded.expect("the histogram grows as it must");
    }

    fn latencies_of(&mut self, kind: usize) -> &mut Histogram<u64> {
        while self.latencies.len() <= kind {
            let latencies = Histogram::new(3);
            self.latencies
                .push(latencies.expect("three digits are a valid precision"));
        }
        &mut self.latencies[kind]
    }

    pub(super) fn mismatch(&mut self, what: String) {
        self.mismatches += 1;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(what);
        }
    }
}

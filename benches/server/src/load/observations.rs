//! The observations of a load: times, latencies by kind of response, wrong responses.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Maximum number of wrong responses that are described.
const WRONG_MAX: usize = 5;

pub(crate) struct Observations {
    pub(crate) elapsed: Duration,
    /// The latencies by kind of response, in nanoseconds.
    pub(crate) latencies: Vec<Histogram<u64>>,
    /// Number of wrong responses.
    pub(crate) mismatches: usize,
    /// Descriptions of the first wrong responses.
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

    /// Adds the observations of another part of the same load.
    pub(crate) fn add(&mut self, other: Observations) {
        self.elapsed += other.elapsed;
        for (kind, latencies) in other.latencies.iter().enumerate() {
            let of_kind = self.latencies_of(kind);
            of_kind.add(latencies).expect("the histogram grows");
        }
        self.add_mismatches(other.mismatches, other.wrong);
    }

    /// Adds the wrong responses of another load.
    pub(crate) fn add_mismatches(&mut self, mismatches: usize, wrong: Vec<String>) {
        self.mismatches += mismatches;
        self.wrong.extend(wrong);
        self.wrong.truncate(WRONG_MAX);
    }

    /// Number of responses of this kind.
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

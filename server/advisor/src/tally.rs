//! A counter that keeps the last requests it counted, and says when it reaches its threshold.

use crate::evidence::Evidence;
use crate::request::Request;
use std::collections::VecDeque;

/// Maximum number of requests that are kept with each piece of advice.
pub const EVIDENCE_MAX: usize = 5;

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    /// The count at which the rule fires, or fires again.
    fires_at: u64,
    recent: VecDeque<Evidence>,
}

impl Tally {
    pub(crate) fn new(threshold: u64) -> Tally {
        Tally {
            count: 0,
            fires_at: threshold,
            recent: VecDeque::new(),
        }
    }

    /// Counts `weight` requests, of which `request` is one.
    pub(crate) fn add(&mut self, request: &Request, weight: u64) {
        self.count += weight;
        if self.recent.len() == EVIDENCE_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Evidence::of(request));
    }

    /// Returns `true` when the count reaches the threshold, and then each time that it has doubled,
    /// so that advice stays current at little cost.
    pub(crate) fn fires(&mut self) -> bool {
        let reached = self.count >= self.fires_at;
        while self.fires_at <= self.count {
            self.fires_at *= 2;
        }
        reached
    }

    pub(crate) fn recent(&self) -> impl Iterator<Item = &Evidence> {
        self.recent.iter()
    }

    pub(crate) fn restart(&mut self, threshold: u64) {
        *self = Tally::new(threshold);
    }
}

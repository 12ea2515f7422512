//! The counters of one resource between requests, and the rules applied to them.

pub(crate) mod blob;
mod entities;
mod key_order;
mod numbers;
mod partition_load;
pub(crate) mod queue;
mod scans;
pub(crate) mod table;

use crate::advice::Finding;
use crate::request::Request;
use crate::rules::{CONFLICT_PERCENT, CONFLICTS, Rule, WINDOW_SECONDS};
use crate::tally::Tally;
use std::time::{Duration, SystemTime};

/// Counters start again when the window is over, so that old requests do not count towards a rule.
#[derive(Debug, Default)]
pub(crate) struct Window {
    started_at: Option<SystemTime>,
}

impl Window {
    /// Begins a new window if the last one is over when a request arrives at `at`. Returns whether
    /// it did.
    pub(crate) fn begins(&mut self, at: SystemTime) -> bool {
        let length = Duration::from_secs(WINDOW_SECONDS);
        let is_over = self
            .started_at
            .is_none_or(|start| at.duration_since(start).is_ok_and(|age| age >= length));
        if is_over {
            self.started_at = Some(at);
        }
        is_over
    }
}

/// `part` of `whole` is at least `percent`.
pub(crate) fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    part.saturating_mul(100) >= whole.saturating_mul(percent)
}

/// Counts writes with `If-Match`, and the refused ones among them.
#[derive(Debug)]
pub(crate) struct Contention {
    writes: u64,
    refused: Tally,
}

impl Default for Contention {
    fn default() -> Contention {
        Contention {
            writes: 0,
            refused: Tally::new(CONFLICTS),
        }
    }
}

impl Contention {
    pub(crate) fn write(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        if !request.is_conditional {
            return;
        }
        self.writes += weight;
        if request.status != 412 {
            return;
        }
        self.refused.add(request, weight);
        if is_share(self.refused.count, self.writes, CONFLICT_PERCENT) && self.refused.fires() {
            let text = format!(
                "{} of {} writes with an ETag were refused because the data had changed",
                self.refused.count, self.writes
            );
            findings.push(Finding::of(
                Rule::EtagContention,
                request,
                &self.refused,
                text,
            ));
        }
    }
}

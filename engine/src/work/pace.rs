//! The rate of writes, measured over a short period.

use crate::base::key::SequenceNumber;
use std::time::Duration;

/// The period over which the rate of writes is measured.
pub(super) const REST: Duration = Duration::from_millis(250);

/// Number of changes in [`REST`] up to which the store is at rest.
const REST_CHANGES_MAX: u64 = 100;

/// Measures the rate of changes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    since: Duration,
    sequence: SequenceNumber,
    is_slow: bool,
    /// The time at which the last change was noticed.
    changed_at: Duration,
}

impl Pace {
    /// Measures anew once a period is over. Returns whether the store came to rest in that period.
    pub(super) fn measure(&mut self, now: Duration, published: SequenceNumber) -> bool {
        let elapsed = now.saturating_sub(self.since);
        if elapsed < REST {
            return false;
        }
        let changes = u128::from(published - self.sequence);
        let changed_at = if changes > 0 { now } else { self.changed_at };
        let is_slow =
            changes * REST.as_micros() <= u128::from(REST_CHANGES_MAX) * elapsed.as_micros();
        let comes_to_rest = is_slow && !self.is_slow;
        *self = Pace {
            since: now,
            sequence: published,
            is_slow,
            changed_at,
        };
        comes_to_rest
    }

    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// The time at which the last change was noticed.
    pub(super) fn changed_at(&self) -> Duration {
        self.changed_at
    }
}

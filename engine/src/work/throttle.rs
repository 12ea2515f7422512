//! Throttle: how fast writers may be while flushes or compactions lag behind. Pure: time and debt
//! are arguments.
//!
//! The rate follows two figures: how much background work has got done lately, and the debt, which
//! is 0 where it keeps up and 1 where writers have to stop. At half of the debt writers are as fast
//! as the work; so the debt comes to rest between the two ends instead of swinging from one to the
//! other. Writers pay after they have written: their bytes are owed, and the next writer waits
//! until the rate has paid for them.

use std::time::Duration;

/// The debt of a writer who must stop.
pub(super) const DEBT_MAX: u64 = 1000;

/// Bytes a second before any background work was measured.
const RATE_UNKNOWN: u64 = 64 << 20;

/// No writer is slower than this, whatever was measured.
const RATE_MIN: u64 = 256 << 10;

/// Less work says nothing about the rate: most of its time goes to files and syncs.
const MEASURED_MIN: u64 = 1 << 20;

/// The longest wait of one write: the debt may be another one by then.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// A shorter wait is not begun: it would take longer than it should. The bytes stay owed.
const WAIT_MIN: Duration = Duration::from_micros(200);

/// The work that writers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lag {
    /// Memtables fill the memory.
    Flush,
    /// Level 0 has many files.
    Merge,
}

/// How far work lags behind: 0 where it keeps up, [`DEBT_MAX`] where writers stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Debt {
    pub(super) lag: Lag,
    pub(super) amount: u64,
}

#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// By [`Lag`]: bytes that the work can take in a second; 0 while that is not known.
    pub(super) capacity: [u64; 2],
    /// For how long merges have run since the last of level 0: they take turns.
    merged: Duration,
    owed: u64,
    paid_at: Duration,
}

impl Throttle {
    /// A flush took so many bytes that writers had put.
    pub(super) fn note_flush(&mut self, bytes: u64, took: Duration) {
        self.note(Lag::Flush, bytes, took);
    }

    /// A merge took so many bytes that writers had put off level 0; 0 if it was of deeper levels.
    pub(super) fn note_merge(&mut self, bytes: u64, took: Duration) {
        self.merged += took;
        if bytes > 0 {
            let took = std::mem::take(&mut self.merged);
            self.note(Lag::Merge, bytes, took);
        }
    }

    fn note(&mut self, lag: Lag, bytes: u64, took: Duration) {
        if bytes < MEASURED_MIN {
            return;
        }
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let measured = bytes.saturating_mul(1_000_000) / took;
        let capacity = &mut self.capacity[lag as usize];
        *capacity = match *capacity {
            0 => measured,
            // One merge may be far from the usual one.
            known => (known / 4).saturating_mul(3).saturating_add(measured / 4),
        };
    }

    /// Bytes a second at this debt.
    fn rate(&self, debt: Debt) -> u64 {
        let capacity = match self.capacity[debt.lag as usize] {
            0 => RATE_UNKNOWN,
            known => known,
        };
        let amount = debt.amount.min(DEBT_MAX);
        // From one and a half times what the work can take to as much, and then to nearly nothing:
        // a merge may take long, and writers who crawl meanwhile are better off than writers who
        // stop.
        let share = if amount <= DEBT_MAX / 2 {
            DEBT_MAX + DEBT_MAX / 2 - amount
        } else {
            let left = 2 * (DEBT_MAX - amount);
            left * left / DEBT_MAX
        };
        (capacity / DEBT_MAX).saturating_mul(share).max(RATE_MIN)
    }

    /// Notes that a writer puts so many bytes.
    pub(super) fn charge(&mut self, bytes: u64) {
        self.owed = self.owed.saturating_add(bytes);
    }

    /// How long the next writer is to wait at this debt. Zero without one, and then nothing is
    /// owed.
    pub(super) fn wait(&mut self, debt: Debt, now: Duration) -> Duration {
        if debt.amount == 0 {
            self.owed = 0;
            self.paid_at = now;
            return Duration::ZERO;
        }
        let rate = self.rate(debt);
        let elapsed = now.saturating_sub(self.paid_at).as_micros();
        let paid = u128::from(rate) * elapsed / 1_000_000;
        self.paid_at = now;
        self.owed = self
            .owed
            .saturating_sub(u64::try_from(paid).unwrap_or(u64::MAX));
        let wait = Duration::from_micros(self.owed.saturating_mul(1_000_000) / rate);
        if wait < WAIT_MIN {
            return Duration::ZERO;
        }
        wait.min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt(amount: u64) -> Debt {
        let lag = Lag::Merge;
        Debt { lag, amount }
    }

    /// Bytes that writers of 4 KiB put in a second at this debt, if merges take `capacity` bytes a
    /// second.
    fn put_in_a_second(capacity: u64, amount: u64) -> u64 {
        let mut throttle = Throttle::default();
        throttle.note_merge(0, Duration::from_millis(400));
        throttle.note_merge(capacity, Duration::from_millis(600));
        let (mut now, mut put) = (Duration::ZERO, 0);
        throttle.wait(debt(0), now);
        while now < Duration::from_secs(1) {
            throttle.charge(4096);
            put += 4096;
            now += throttle.wait(debt(amount), now) + Duration::from_micros(10);
        }
        put
    }

    #[test]
    fn writers_are_as_fast_as_the_work_at_half_of_the_debt_and_slower_beyond() {
        let capacity = 20 << 20;
        for (amount, percent) in [(1, 150), (250, 125), (500, 100), (750, 25)] {
            let expected = capacity / 100 * percent;
            let put = put_in_a_second(capacity, amount);
            let bounds = expected - expected / 10..expected + expected / 10;
            assert!(bounds.contains(&put), "debt {amount}: {put} of {expected}");
        }
    }

    #[test]
    fn without_a_debt_no_writer_waits_and_nothing_is_owed() {
        let mut throttle = Throttle::default();
        throttle.charge(1 << 40);
        assert_eq!(throttle.wait(debt(0), Duration::ZERO), Duration::ZERO);
        assert_eq!(throttle.wait(debt(500), Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn no_wait_is_long_and_work_that_takes_for_ever_does_not_stop_writers() {
        let mut throttle = Throttle::default();
        throttle.note_merge(MEASURED_MIN, Duration::from_secs(1_000_000));
        throttle.charge(u64::MAX);
        assert_eq!(throttle.wait(debt(1000), Duration::ZERO), WAIT_MAX);
        assert!(throttle.rate(debt(1000)) >= RATE_MIN);
    }
}

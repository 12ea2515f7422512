//! Throttle: how fast writers may be while flushes or compactions lag behind. Pure: time and debts
//! are arguments.
//!
//! Each kind of work has an account. The rate of writers follows from the speed of the work lately
//! and from the debt. The debt is 0 while the work keeps up, and [`DEBT_MAX`] where writers have to
//! stop. At half of this maximum, writers are as fast as the work, so the debt settles between the
//! two ends instead of swinging from one to the other.
//!
//! If the average of the last seconds is higher than the current debt, the average counts. Level 0
//! fills and is merged in turns of some seconds: writers that followed each turn would be ten times
//! as fast in one second as in another.
//!
//! Writers pay after they have written: their bytes are owed, and the next writer waits until the
//! rate has paid for these bytes.

use std::time::Duration;

/// The debt at which writers stop.
pub(super) const DEBT_MAX: u64 = 1000;

/// Bytes a second that are assumed until background work was measured.
const RATE_UNKNOWN: u64 = 32 << 20;

/// Least rate of writers, in bytes a second, whatever was measured.
const RATE_MIN: u64 = 256 << 10;

/// Work on fewer bytes is not measured: most of its time goes to files and syncs.
const MEASURED_MIN: u64 = 1 << 20;

/// The longest wait before a writer asks again: the debt may have changed by then.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// A shorter wait is skipped, because sleeping would take longer. The bytes stay owed.
const WAIT_MIN: Duration = Duration::from_micros(200);

/// The time over which the strain is averaged.
const FOLLOW: Duration = Duration::from_secs(6);

/// Writers without a debt wait only above this pressure.
const PRESSURE_MIN: f64 = 50.0;

/// The work that writers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lag {
    /// Memtables fill the memory.
    Flush,
    /// Level 0 has many files.
    Merge,
}

/// Number of kinds of [`Lag`].
pub(super) const LAGS: usize = 2;

/// How far work lags behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Debt {
    /// 0 if the work keeps up, [`DEBT_MAX`] if writers must stop.
    pub(super) amount: u64,
    /// The amount, or the lag of work that never stops writers, if that is more.
    pub(super) strain: u64,
}

/// A [`Debt`] for each [`Lag`], in the order of its variants.
pub(super) type Debts = [Debt; LAGS];

/// The measured capacity, the pressure and the unpaid bytes of one [`Lag`].
#[derive(Debug, Default)]
struct Account {
    /// Bytes that the work can take in a second; 0 while that is not known.
    capacity: u64,
    /// Moving average of the strain. A float: with thousands of updates a second, one update
    /// changes it by less than 1 of `DEBT_MAX`.
    pressure: f64,
    /// Bytes that writers have put and not waited for yet.
    owed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Throttle {
    accounts: [Account; LAGS],
    /// Time that merges took since the last one of level 0: merges run one at a time.
    merged: Duration,
    paid_at: Duration,
}

impl Account {
    fn note(&mut self, bytes: u64, took: Duration) {
        if bytes < MEASURED_MIN {
            return;
        }
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let measured = bytes.saturating_mul(1_000_000) / took;
        self.capacity = match self.capacity {
            0 => measured,
            // One piece of work may be far from the usual one, so it counts for a quarter.
            known => (known / 4).saturating_mul(3).saturating_add(measured / 4),
        };
    }

    /// The rate of writers at this debt, in bytes a second.
    fn rate(&self, amount: u64) -> u64 {
        let capacity = match self.capacity {
            0 => RATE_UNKNOWN,
            known => known,
        };
        // As the debt or the pressure grows, the rate falls from one and a half times the capacity
        // to half of it. A debt of more than half of the maximum lowers it further, to nearly
        // nothing.
        let share = DEBT_MAX + DEBT_MAX / 2 - amount.max(self.pressure as u64);
        let left = (2 * (DEBT_MAX - amount)).min(DEBT_MAX);
        let share = share * left / DEBT_MAX;
        (capacity / DEBT_MAX).saturating_mul(share).max(RATE_MIN)
    }

    fn is_pressed(&self) -> bool {
        self.pressure > PRESSURE_MIN
    }

    /// Averages the strain of the elapsed time into the pressure.
    fn follow(&mut self, strain: u64, elapsed: Duration) {
        let part = elapsed.min(FOLLOW).div_duration_f64(FOLLOW);
        self.pressure += (strain as f64 - self.pressure) * part;
    }

    /// How long a writer is to wait, `elapsed` after the last writer asked.
    fn wait(&mut self, amount: u64, elapsed: Duration) -> Duration {
        if amount == 0 && !self.is_pressed() {
            self.owed = 0;
            return Duration::ZERO;
        }
        let rate = self.rate(amount);
        let paid = u128::from(rate) * elapsed.as_micros() / 1_000_000;
        let paid = u64::try_from(paid).unwrap_or(u64::MAX);
        // At most the bytes of one second are owed: when they became more, the rate was another.
        self.owed = self.owed.saturating_sub(paid).min(rate);
        Duration::from_micros(self.owed.saturating_mul(1_000_000) / rate)
    }
}

impl Throttle {
    /// Notes how long a flush took, and how many bytes of writers it flushed.
    pub(super) fn note_flush(&mut self, bytes: u64, took: Duration) {
        self.accounts[Lag::Flush as usize].note(bytes, took);
    }

    /// Notes a merge and the bytes of writers that it took off level 0; 0 for a merge of deeper
    /// levels.
    pub(super) fn note_merge(&mut self, bytes: u64, took: Duration) {
        self.merged += took;
        if bytes > 0 {
            let took = std::mem::take(&mut self.merged);
            self.accounts[Lag::Merge as usize].note(bytes, took);
        }
    }

    /// The rate at which merges take bytes off level 0, in bytes a second.
    #[cfg(test)]
    pub(super) fn merge_rate(&self) -> u64 {
        self.accounts[Lag::Merge as usize].capacity
    }

    /// Whether writers wait without a debt too, because of the strain of the last seconds.
    pub(super) fn is_pressed(&self) -> bool {
        self.accounts.iter().any(Account::is_pressed)
    }

    /// Notes that a writer puts `bytes` bytes.
    pub(super) fn charge(&mut self, bytes: u64) {
        for account in &mut self.accounts {
            account.owed = account.owed.saturating_add(bytes);
        }
    }

    /// Returns how long the next writer must wait at these debts before it asks again; zero if it
    /// may write. An account without debt and pressure makes no writer wait, and forgives the bytes
    /// owed.
    pub(super) fn wait(&mut self, debts: &Debts, now: Duration) -> Duration {
        let elapsed = now.saturating_sub(self.paid_at);
        self.paid_at = now;
        let waits = self.accounts.iter_mut().zip(debts).map(|(account, debt)| {
            account.follow(debt.strain.min(DEBT_MAX), elapsed);
            account.wait(debt.amount.min(DEBT_MAX), elapsed)
        });
        let wait = waits.max().unwrap_or_default();
        if wait < WAIT_MIN {
            return Duration::ZERO;
        }
        wait.min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt(amount: u64) -> Debts {
        let strain = amount;
        let mut debts = Debts::default();
        debts[Lag::Merge as usize] = Debt { amount, strain };
        debts
    }

    /// Returns the bytes that writers of 4 KiB put in a second at this debt, if merges take
    /// `capacity` bytes a second.
    fn put_in_a_second(capacity: u64, amount: u64) -> u64 {
        let mut throttle = Throttle::default();
        throttle.note_merge(0, Duration::from_millis(400));
        throttle.note_merge(capacity, Duration::from_millis(600));
        put(&mut throttle, Duration::ZERO, amount)
    }

    /// Bytes that writers of 4 KiB put in a second from `start` on.
    fn put(throttle: &mut Throttle, start: Duration, amount: u64) -> u64 {
        let (mut now, mut put) = (start, 0);
        throttle.wait(&debt(0), now);
        while now < start + Duration::from_secs(1) {
            throttle.charge(4096);
            put += 4096;
            now += throttle.wait(&debt(amount), now) + Duration::from_micros(10);
        }
        put
    }

    #[test]
    fn writers_are_as_fast_as_the_work_at_half_of_the_debt_and_slower_beyond() {
        let capacity = 20 << 20;
        for (amount, percent) in [(1, 150), (250, 125), (500, 100), (750, 37), (900, 12)] {
            let expected = capacity / 100 * percent;
            let put = put_in_a_second(capacity, amount);
            let bounds = expected - expected / 10..expected + expected / 10;
            assert!(bounds.contains(&put), "debt {amount}: {put} of {expected}");
        }
    }

    #[test]
    fn writers_are_slowed_for_a_while_after_a_long_debt() {
        let capacity = 20 << 20;
        let mut throttle = Throttle::default();
        throttle.note_merge(capacity, Duration::from_secs(1));
        for second in 0..60 {
            throttle.wait(&debt(500), Duration::from_secs(second));
        }
        let put_at = |throttle: &mut Throttle, second| {
            put(throttle, Duration::from_secs(second), 0) * 100 / capacity
        };
        let soon = put_at(&mut throttle, 60);
        assert!((95..115).contains(&soon), "{soon} % of what merges take");
        let later = put_at(&mut throttle, 75);
        assert!(later > 200, "{later} % of what merges take");
    }

    #[test]
    fn without_a_debt_no_writer_waits_and_nothing_is_owed() {
        let mut throttle = Throttle::default();
        throttle.charge(1 << 40);
        assert_eq!(throttle.wait(&debt(0), Duration::ZERO), Duration::ZERO);
        assert_eq!(throttle.wait(&debt(500), Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn no_wait_is_long_and_work_that_takes_for_ever_does_not_stop_writers() {
        let mut throttle = Throttle::default();
        throttle.note_merge(MEASURED_MIN, Duration::from_secs(1_000_000));
        throttle.charge(u64::MAX);
        assert_eq!(throttle.wait(&debt(1000), Duration::ZERO), WAIT_MAX);
        assert!(throttle.accounts[Lag::Merge as usize].rate(1000) >= RATE_MIN);
    }
}

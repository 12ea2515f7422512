//! When the log is synced: the next task of the sync thread, and how far writers may run ahead of
//! it.

use crate::Result;
use crate::base::config::Durability;
use crate::base::counter::count;
use crate::base::mutex::lock;
use crate::base::sync::{Condvar, MutexGuard, Ordering};
use crate::write::shared_sync::{End, NEVER, Progress, SharedSync};
use std::sync::PoisonError;
use std::time::Duration;

/// Time without a write after which the store is at rest: spare log segments are removed, and the
/// log is marked as durable.
const REST: Duration = Duration::from_millis(250);

/// A change is synced when it is one interval old. If it is still unsynced after this many
/// intervals, because syncs take long, writes wait: a power cut loses at most this much.
const INTERVALS_MAX: u32 = 4;

/// The least time after which writes wait, however short the interval.
const UNSYNCED_MIN: Duration = Duration::from_millis(20);

/// The next task of the sync thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Make a log segment ready.
    Segment,
    /// Sync the changes that were appended.
    Sync,
    /// Everything is synced, and nothing was written for a while. Returned once for each rest.
    Rest,
}

impl SharedSync {
    /// Waits for the next task of the sync thread; `None` once the thread must end. A segment comes
    /// first, because a commit may need it. Making it does not postpone the sync of a change.
    pub(crate) fn wait_for_due(&self) -> Option<Due> {
        let interval = Duration::from_millis(self.config.sync_milliseconds);
        let mut progress = lock(&self.progress);
        while progress.end == End::Open && self.health.failure().is_none() {
            if std::mem::take(&mut progress.wants_segment) {
                return Some(Due::Segment);
            }
            if progress.appended == progress.durable {
                let limit = (!progress.is_at_rest).then_some(REST);
                progress.awaits_write = true;
                let is_over;
                (progress, is_over) = wait(&self.changed, progress, limit);
                progress.awaits_write = false;
                if is_over && progress.appended == progress.durable {
                    progress.is_at_rest = true;
                    return Some(Due::Rest);
                }
                continue;
            }
            progress.is_at_rest = false;
            let awaited =
                self.config.durability == Durability::Disk && !progress.waiters.is_empty();
            let age = progress.unsynced_since.map_or(Duration::ZERO, |since| {
                self.clock.now().saturating_sub(since)
            });
            let left = interval.saturating_sub(age);
            if awaited || left.is_zero() {
                return Some(Due::Sync);
            }
            let is_over;
            (progress, is_over) = wait(&self.changed, progress, Some(left));
            if is_over {
                return Some(Due::Sync);
            }
        }
        None
    }

    /// True if the age of the oldest change that is not durable has reached three quarters of the
    /// limit at which writers wait.
    pub(crate) fn is_nearly_late(&self) -> bool {
        self.oldest_age() >= self.lateness() / 4 * 3
    }

    fn is_late(&self) -> bool {
        self.oldest_age() >= self.lateness()
    }

    /// Age of a change that is not durable from which writers wait for a sync.
    fn lateness(&self) -> Duration {
        let interval = Duration::from_millis(self.config.sync_milliseconds);
        interval.saturating_mul(INTERVALS_MAX).max(UNSYNCED_MIN)
    }

    /// The age of the oldest change that is not durable; zero except at `Process`, because only
    /// there writers wait for late syncs.
    fn oldest_age(&self) -> Duration {
        let oldest = self.oldest_unsynced.load(Ordering::Acquire);
        if oldest == NEVER || self.config.durability != Durability::Process {
            return Duration::ZERO;
        }
        let since = Duration::from_nanos(oldest);
        self.clock.now().saturating_sub(since)
    }

    /// If the oldest change that is not durable is too old, waits for the running sync or leads
    /// one. The caller must hold no lock.
    pub(crate) fn await_late_sync(&self) -> Result<()> {
        if !self.is_late() {
            return Ok(());
        }
        let began = self.clock.now();
        let synced = self.end_late_syncs();
        self.count_stall(began);
        synced
    }

    fn end_late_syncs(&self) -> Result<()> {
        while self.is_late() {
            self.health.check_writable()?;
            let progress = lock(&self.progress);
            if progress.running {
                // A sync that panicked does not end, but fails the store.
                let is_running =
                    |progress: &mut Progress| progress.running && self.health.failure().is_none();
                let waited = self.ended.wait_while(progress, is_running);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            } else {
                self.lead_sync(progress)?;
            }
        }
        Ok(())
    }

    /// Counts a stall of a writer that has waited since `began`.
    pub(crate) fn count_stall(&self, began: Duration) {
        let waited = self.clock.now().saturating_sub(began);
        count(&self.counters.stalls, 1);
        count(
            &self.counters.stalled_microseconds,
            waited.as_micros() as u64,
        );
    }
}

/// Waits to be notified, at most `limit`. Returns whether the time is over.
fn wait<'a>(
    condition: &Condvar,
    progress: MutexGuard<'a, Progress>,
    limit: Option<Duration>,
) -> (MutexGuard<'a, Progress>, bool) {
    match limit {
        None => {
            let waited = condition.wait(progress);
            (waited.unwrap_or_else(PoisonError::into_inner), false)
        }
        Some(limit) => {
            let waited = condition.wait_timeout(progress, limit);
            let (progress, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            (progress, timeout.timed_out())
        }
    }
}

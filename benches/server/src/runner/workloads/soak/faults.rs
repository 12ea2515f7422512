//! Injects the faults: syncs that hang, slow down or fail, steps of the system clock, reopened
//! stores.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_base::wall_clock::ClockSteps;
use lazurite_engine::Durability;
use lazurite_engine::fs::{Failure, Fault, FaultFs, Operation};

use lazurite_bench_common::{Outcome, Random};

use crate::runner::workloads::soak::services::Services;
use crate::runner::workloads::soak::stalls::{SLOW_SYNC, StallKind};
use crate::runner::workloads::soak::state::Soak;

/// Maximum step of the clock in seconds, in either direction.
const STEP_SECONDS_MAX: i64 = 120;
/// Time for which syncs fail before the store is reopened.
const FAILING: Duration = Duration::from_millis(500);

/// The duration of faults, and of the intervals between them.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) interval: Duration,
    pub(super) held_max: Duration,
    pub(super) slow: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    SetClock,
    HoldSyncs,
    SlowSyncs,
    FailSyncs,
    Reopen,
}

use FaultKind::{FailSyncs, HoldSyncs, Reopen, SetClock, SlowSyncs};

/// Faults in a deck that is shuffled: each kind occurs this often before the next deck.
const DECK: [FaultKind; 10] = [
    SetClock, SetClock, SetClock, HoldSyncs, HoldSyncs, HoldSyncs, SlowSyncs, SlowSyncs, FailSyncs,
    Reopen,
];

/// Number of faults injected of each kind.
#[derive(Default)]
pub(super) struct Counts {
    clock_set: usize,
    held: usize,
    slow: usize,
    failed: usize,
    reopened: usize,
}

impl Counts {
    pub(super) fn line(&self) -> String {
        format!(
            "clock set {} times, syncs held {}, slow {}, failed {}; store reopened {} times",
            self.clock_set, self.held, self.slow, self.failed, self.reopened
        )
    }

    /// Whether each kind of fault was injected at least once.
    #[cfg(test)]
    pub(super) fn is_each_injected(&self) -> bool {
        [
            self.clock_set,
            self.held,
            self.slow,
            self.failed,
            self.reopened,
        ]
        .iter()
        .all(|count| *count > 0)
    }
}

/// Injects faults into the disk and the clock.
pub(super) struct FaultInjector<'a> {
    pub(super) soak: &'a Soak,
    pub(super) directory: &'a Path,
    pub(super) fault: &'a FaultFs,
    pub(super) steps: &'a Arc<ClockSteps>,
    pub(super) random: Random,
    pub(super) pace: Pace,
    pub(super) counts: Counts,
}

impl FaultInjector<'_> {
    /// Injects faults in random order, with calm between them, until the time is over. Ends with
    /// syncs that work.
    pub(super) fn inject(&mut self, time: Duration) -> Outcome<()> {
        let end = Instant::now() + time;
        let mut deck = Vec::new();
        while Instant::now() < end {
            thread::sleep(self.pace.interval);
            if deck.is_empty() {
                deck = DECK.to_vec();
            }
            let next = self.random.below(deck.len() as u64) as usize;
            match deck.swap_remove(next) {
                SetClock => self.set_clock(),
                HoldSyncs => self.hold_syncs(),
                SlowSyncs => self.slow_syncs(),
                FailSyncs => self.fail_syncs()?,
                Reopen => self.reopen()?,
            }
        }
        Ok(())
    }

    fn set_clock(&mut self) {
        self.counts.clock_set += 1;
        let step = self.random.below(2 * STEP_SECONDS_MAX as u64) as i64;
        self.steps.step(step - STEP_SECONDS_MAX);
    }

    fn hold_syncs(&mut self) {
        self.counts.held += 1;
        self.soak.stalls.begin(StallKind::Held);
        self.fault.hold(Some(Operation::Sync));
        let held = self.random.below(self.pace.held_max.as_millis() as u64);
        thread::sleep(Duration::from_millis(held));
        self.fault.hold(None);
        self.soak.stalls.end();
    }

    fn slow_syncs(&mut self) {
        self.counts.slow += 1;
        self.soak.stalls.begin(StallKind::Slow);
        self.fault.slow(Some((Operation::Sync, SLOW_SYNC)));
        thread::sleep(self.pace.slow);
        self.fault.slow(None);
        self.soak.stalls.end();
    }

    fn fail_syncs(&mut self) -> Outcome<()> {
        self.counts.failed += 1;
        self.soak.services().disk_fails();
        self.fault.set(Some(Fault {
            operation: Some(Operation::Sync),
            path: String::new(),
            nth: 1,
            failure: Failure::Error(std::io::ErrorKind::Other),
            sticky: true,
        }));
        thread::sleep(FAILING);
        self.fault.set(None);
        self.reopen()
    }

    /// Closes the store, and opens it with the other level of durability. The store then begins
    /// with the current time of the clock.
    pub(super) fn reopen(&mut self) -> Outcome<()> {
        self.counts.reopened += 1;
        let durability = if self.counts.reopened.is_multiple_of(2) {
            Durability::Process
        } else {
            Durability::Disk
        };
        let mut services = self.soak.services.write().expect("no request panics");
        // After a failure of its disk, closing the store reports the error again.
        let closed = services.close();
        if !services.is_disk_failed() {
            closed?;
        }
        *services = Services::open(self.directory, durability, self.fault, self.steps)?;
        self.soak.ledger.reopened();
        Ok(())
    }
}

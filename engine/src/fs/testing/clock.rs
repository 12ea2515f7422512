//! Clocks that a test moves.
#![allow(
    clippy::disallowed_types,
    reason = "a clock of tests answers the time of day that it was set to"
)]

use crate::base::mutex::lock;
use crate::fs::Clock;
use crate::fs::wall_clock::WallClock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A clock that a test moves by hand.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A clock that a test sets. It stands still in between, and can be set back, as between two runs of a process.
#[derive(Debug)]
pub struct ManualWallClock(Mutex<SystemTime>);

impl ManualWallClock {
    /// A clock that stands at `now`.
    pub fn new(now: SystemTime) -> ManualWallClock {
        ManualWallClock(Mutex::new(now))
    }

    /// Sets the time.
    pub fn set(&self, now: SystemTime) {
        *lock(&self.0) = now;
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *lock(&self.0) += by;
    }
}

impl WallClock for ManualWallClock {
    fn now(&self) -> SystemTime {
        *lock(&self.0)
    }
}

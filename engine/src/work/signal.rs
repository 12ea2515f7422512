//! The signal that writers, background threads and the close of the store send to each other.

use crate::base::health::Wakes;
use crate::base::mutex::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Wakes threads that wait for work, or for work to be done.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    round: Mutex<u64>,
    changed: Condvar,
}

impl Wakes for Signal {
    fn wake_everyone(&self) {
        self.notify();
    }
}

impl Signal {
    pub(crate) fn notify(&self) {
        *lock(&self.round) += 1;
        self.changed.notify_all();
    }

    pub(super) fn round(&self) -> u64 {
        *lock(&self.round)
    }

    /// Waits until notified since `seen`, at most `limit`.
    pub(super) fn wait(&self, seen: u64, limit: Duration) {
        let round = lock(&self.round);
        let waited = self
            .changed
            .wait_timeout_while(round, limit, |round| *round == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

//! ValueSync: the value log's part in a sync of the log.
//!
//! The value log is synced at the same time as the log, on a thread of its own if there is one. A
//! power cut may therefore leave a frame without its value: then the log ends before that frame.

use crate::Result;
use crate::base::health::Health;
use crate::base::mutex::lock;
use crate::base::sync::{Condvar, Mutex};
use std::fmt;
use std::sync::{Arc, PoisonError};

/// The values that the log points to.
pub(crate) trait Values: Send + Sync + fmt::Debug {
    /// Whether anything was written that is not durable.
    fn is_unsynced(&self) -> bool;
    /// Makes everything written so far durable. A failed sync fails the store, and is never tried
    /// again.
    fn sync(&self) -> Result<()>;
}

/// The sync that the leader of a sync of the log has asked for.
#[derive(Debug, Default)]
enum Request {
    #[default]
    Unwanted,
    Wanted,
    Running,
    Ended(Result<()>),
}

#[derive(Debug)]
pub(super) struct ValueSync {
    values: Arc<dyn Values>,
    health: Arc<Health>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    request: Request,
    closed: bool,
}

impl ValueSync {
    pub(super) fn new(values: Arc<dyn Values>, health: Arc<Health>) -> ValueSync {
        ValueSync {
            values,
            health,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Asks the thread for a sync, if one is needed. The leader then calls `finish`.
    pub(super) fn begin(&self) {
        if self.values.is_unsynced() {
            lock(&self.state).request = Request::Wanted;
            self.changed.notify_all();
        }
    }

    /// Waits for the sync that was asked for, or syncs the values itself if no thread has begun.
    pub(super) fn finish(&self) -> Result<()> {
        let is_running = |state: &mut State| {
            matches!(state.request, Request::Running) && self.health.failure().is_none()
        };
        let waited = self.changed.wait_while(lock(&self.state), is_running);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut state.request) {
            Request::Unwanted => Ok(()),
            Request::Wanted => {
                drop(state);
                self.values.sync()
            }
            Request::Ended(synced) => synced,
            // The thread that syncs has panicked, or another sync has failed.
            Request::Running => self.health.check_writable(),
        }
    }

    /// The loop of the thread that syncs values. It ends when the store closes or has failed.
    pub(super) fn serve(&self) {
        loop {
            let is_idle = |state: &mut State| {
                !matches!(state.request, Request::Wanted)
                    && !state.closed
                    && self.health.failure().is_none()
            };
            let waited = self.changed.wait_while(lock(&self.state), is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            if !matches!(state.request, Request::Wanted) || self.health.failure().is_some() {
                return;
            }
            state.request = Request::Running;
            drop(state);
            let synced = self.values.sync();
            lock(&self.state).request = Request::Ended(synced);
            self.changed.notify_all();
        }
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Makes all waiters check whether the store has failed.
    pub(super) fn wake(&self) {
        // A waiter holds the lock from its check until it waits, so it cannot miss the wake-up.
        drop(lock(&self.state));
        self.changed.notify_all();
    }
}

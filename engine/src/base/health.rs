//! Health: the failure that stopped all writing, if any, and the waking of everyone whom it concerns.

use crate::Error;
use crate::work::store::Signal;
use crate::write::durability::SyncState;
use std::sync::{Arc, OnceLock};

/// Whether a store may be written to. Shared by every part that may find out that it may not.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failure: OnceLock<Error>,
    /// Waits of writers for syncs.
    pub(crate) sync: Arc<SyncState>,
    /// Waits of background work, and for it.
    pub(crate) signal: Arc<Signal>,
}

impl Health {
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Stops all writing until the store is reopened, and wakes everyone who waits for it. The first failure is the one
    /// remembered.
    pub(crate) fn fail(&self, error: &Error) {
        if self.failure.set(error.clone()).is_ok() {
            tracing::error!(%error, "the store is read-only until it is reopened");
        }
        self.sync.wake_everyone();
        self.signal.notify();
    }
}

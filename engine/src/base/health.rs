//! Health: the failure that stopped all writing, if any. A failure wakes every thread that waits
//! for work, because that work will not be done.

use crate::base::mutex::lock;
use crate::base::sync::{AtomicBool, Mutex, Ordering};
use crate::{Error, Result};
use std::fmt::Debug;
use std::sync::{Arc, OnceLock, Weak};

/// Something that threads or tasks wait for, and that a failure of the store must wake.
pub(crate) trait Wakes: Send + Sync + Debug {
    /// Wakes all waiters, so that they check again whether to wait.
    fn wake_everyone(&self);
}

/// Whether a store accepts writes. Shared by all parts of the store, because a failure in any of
/// them may stop all writing.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failure: OnceLock<Error>,
    closed: AtomicBool,
    /// The objects to wake. Weak references, because each of these objects holds the health.
    waits: Mutex<Vec<Weak<dyn Wakes>>>,
}

impl Health {
    /// Makes a failure wake `waits`. Keeps only a weak reference.
    pub(crate) fn add(&self, waits: Arc<dyn Wakes>) {
        lock(&self.waits).push(Arc::downgrade(&waits));
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Makes all later checks fail with `Closed`.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Errors: `Closed` after the close, `ReadOnly` after a failure.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        match self.failure() {
            Some(failure) => Err(Error::ReadOnly {
                reason: failure.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Stops all writing until the store is reopened, and wakes all waiters. Only the first failure
    /// is remembered.
    pub(crate) fn fail(&self, error: &Error) {
        if self.failure.set(error.clone()).is_ok() {
            tracing::error!(%error, "the store is read-only until it is reopened");
        }
        let waits = lock(&self.waits).clone();
        let waits = waits.iter().filter_map(Weak::upgrade);
        waits.for_each(|waits| waits.wake_everyone());
    }

    /// Like `fail`, but ignores `Closed` and errors that pass, such as a full disk.
    pub(crate) fn note(&self, error: &Error) {
        if !error.is_passing() && !matches!(error, Error::Closed) {
            self.fail(error);
        }
    }
}

/// Stops all writing if the thread panics while the guard exists: its work may be half done, and
/// other threads may be waiting for the work.
pub(crate) struct PanicGuard<'a> {
    health: &'a Health,
    work: &'static str,
}

impl<'a> PanicGuard<'a> {
    pub(crate) fn new(health: &'a Health, work: &'static str) -> PanicGuard<'a> {
        PanicGuard { health, work }
    }
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = format!("{} was broken off by a panic", self.work);
            self.health.fail(&Error::ReadOnly { reason });
        }
    }
}

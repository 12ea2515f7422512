//! Amid: an action that is carried out while a store writes an SSTable, as if by another thread.

use lazurite_engine::fs::{FaultFs, HookFs, Operation};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An action, and the number of the call at which it is carried out.
struct Plan {
    calls: u64,
    action: Box<dyn FnOnce() + Send>,
}

/// The next action that is planned on a disk. A cheap handle.
#[derive(Clone, Default)]
pub struct Amid(Arc<Mutex<Option<Plan>>>);

impl fmt::Debug for Amid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amid").finish_non_exhaustive()
    }
}

impl Amid {
    /// Wraps `disk`, so that it carries out the planned action.
    pub fn over(&self, disk: FaultFs) -> HookFs {
        let amid = self.clone();
        HookFs::new(disk, move |operation, path| {
            amid.pass(operation, path);
            Ok(())
        })
    }

    /// Plans `action` for the `nth` write or sync of an SSTable from now on. At that point, the
    /// engine holds no lock that a writer takes.
    pub fn plan(&self, nth: u64, action: impl FnOnce() + Send + 'static) {
        let action = Box::new(action);
        *self.planned() = Some(Plan { calls: nth, action });
    }

    /// Drops the plan, if it was not carried out.
    pub fn clear(&self) {
        self.planned().take();
    }

    fn planned(&self) -> MutexGuard<'_, Option<Plan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, operation: Operation, path: &Path) {
        let is_write = matches!(operation, Operation::Write | Operation::Sync);
        if !is_write || path.extension().is_none_or(|extension| extension != "sst") {
            return;
        }
        let mut plan = self.planned();
        let Some(next) = &mut *plan else { return };
        next.calls -= 1;
        if next.calls > 0 {
            return;
        }
        let due = plan.take();
        drop(plan);
        if let Some(due) = due {
            (due.action)();
        }
    }
}

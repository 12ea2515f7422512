//! The path of a write: batch, group commit, log, shared syncs.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod key_locks;
pub(crate) mod log;
pub(crate) mod queue;
pub(crate) mod shared_sync;
pub(crate) mod sync_schedule;
pub(crate) mod ticket;
pub(crate) mod value_sync;

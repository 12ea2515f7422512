//! The path of a write: batch, group commit, log, shared syncs.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod durability;
pub(crate) mod key_locks;
pub(crate) mod log;
pub(crate) mod queue;

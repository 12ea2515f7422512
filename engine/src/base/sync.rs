//! Locks, atomics and threads, imported from here by files whose interleavings are tested:
//! `tests/interleavings.rs` and `tests/orders.rs` compile those files with replacements.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread_local;

/// Parking, and handles of parked threads.
pub(crate) mod thread {
    pub(crate) use std::thread::{Thread, ThreadId, current, park, park_timeout};
}

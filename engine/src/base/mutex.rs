//! Locking without poison: a panic while a lock is held is noticed elsewhere (`health.rs`), and the guarded data stay readable.

use crate::base::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

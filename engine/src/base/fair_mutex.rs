//! A mutex whose waiters take turns.

use crate::base::mutex::lock;
use std::sync::{Mutex, MutexGuard};

/// A mutex for a thread that takes it again and again, and for others that need it now and then.
/// The first cannot take it twice in a row while another waits. A plain mutex nearly always goes
/// back to the thread that has just released it, because a waiter has to wake up first.
#[derive(Debug, Default)]
pub(crate) struct FairMutex {
    /// Held by the waiter that is next.
    next: Mutex<()>,
    holder: Mutex<()>,
}

impl FairMutex {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        let _next = lock(&self.next);
        lock(&self.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::mutex::try_lock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn a_waiter_gets_the_mutex_before_its_holder_gets_it_again() {
        let mutex = FairMutex::default();
        for _ in 0..100 {
            let had_its_turn = AtomicBool::new(false);
            thread::scope(|scope| {
                let guard = mutex.lock();
                scope.spawn(|| {
                    let _guard = mutex.lock();
                    had_its_turn.store(true, Ordering::Relaxed);
                });
                while try_lock(&mutex.next).is_some() {
                    thread::yield_now();
                }
                drop(guard);
                let _guard = mutex.lock();
                assert!(had_its_turn.load(Ordering::Relaxed));
            });
        }
    }
}

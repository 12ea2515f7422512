//! KeyLocks: striped locks that a caller holds across read, check and write. They guard nothing inside the engine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Striped locks that a caller holds across read, check and write. They are not held across the wait for the disk.
#[derive(Debug)]
pub struct KeyLocks {
    stripes: Box<[Mutex<()>]>,
}

/// Holds the stripes of the keys it was made for.
#[derive(Debug)]
pub struct KeyGuard<'a>(#[allow(dead_code, reason = "held, not read")] Vec<MutexGuard<'a, ()>>);

impl Default for KeyLocks {
    fn default() -> Self {
        KeyLocks {
            stripes: (0..1024).map(|_| Mutex::new(())).collect(),
        }
    }
}

impl KeyLocks {
    /// Locks one key; blocks while another holder has it.
    pub fn lock(&self, key: &[u8]) -> KeyGuard<'_> {
        self.lock_all([key])
    }

    /// Locks several keys at once, in an order that cannot deadlock. The same key may be given twice.
    pub fn lock_all<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> KeyGuard<'_> {
        let mut stripes: Vec<usize> = keys.into_iter().map(|key| self.stripe(key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        KeyGuard(
            stripes
                .into_iter()
                .map(|stripe| {
                    self.stripes[stripe]
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                })
                .collect(),
        )
    }

    fn stripe(&self, key: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() as usize % self.stripes.len()
    }
}

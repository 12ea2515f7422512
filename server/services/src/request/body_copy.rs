//! BodyCopy: the first bytes of a body, copied while the body is read, for the pages of Requests.
//!
//! A copy never delays its body: it takes bytes as they pass, at most a fixed number of them, and
//! takes none once the memory of all copies is used up. The memory is counted from the first byte
//! until the copy is cleared or dropped.

use lazurite_base::locks::lock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The memory budget of all copies.
#[derive(Debug)]
pub struct CopyBudget {
    /// Maximum length of one copy in bytes; 0 if nothing is copied.
    copy_bytes_max: usize,
    /// Maximum number of bytes of all copies together.
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl CopyBudget {
    pub fn new(copy_bytes_max: usize, bytes_max: usize) -> CopyBudget {
        CopyBudget {
            copy_bytes_max,
            bytes_max,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Number of bytes that copies hold now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether bodies are copied at all.
    pub fn is_on(&self) -> bool {
        self.copy_bytes_max > 0
    }

    fn reserve(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before + bytes <= self.bytes_max;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A copy of the beginning of one body: see the head of this file.
#[derive(Debug)]
pub struct BodyCopy {
    budget: Arc<CopyBudget>,
    copied: Mutex<Copied>,
}

/// The copied bytes, and the number of bytes that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// The beginning of the body.
    pub bytes: Vec<u8>,
    /// Number of bytes of the body that were read, copied or not.
    pub passed: u64,
    /// The share of the budget reserved for `bytes`.
    reserved: usize,
    /// Whether the copy ended early: it was cleared, or the budget was used up.
    is_ended: bool,
}

impl Copied {
    /// Whether all bytes that were read are in the copy.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.passed
    }
}

impl BodyCopy {
    pub fn new(budget: &Arc<CopyBudget>) -> Arc<BodyCopy> {
        Arc::new(BodyCopy {
            budget: budget.clone(),
            copied: Mutex::default(),
        })
    }

    fn copied(&self) -> MutexGuard<'_, Copied> {
        lock(&self.copied)
    }

    /// Copies the next bytes of the body, as far as there is room.
    pub fn take(&self, chunk: &[u8]) {
        let mut copied = self.copied();
        copied.passed += chunk.len() as u64;
        let room = self.budget.copy_bytes_max - copied.bytes.len();
        let taken = &chunk[..chunk.len().min(room)];
        if taken.is_empty() || copied.is_ended {
            return;
        }
        let length = copied.bytes.len() + taken.len();
        if length > copied.reserved {
            // Doubled, so that a body that arrives byte by byte is not reallocated for each byte.
            let wanted = length.max(copied.reserved * 2);
            let wanted = wanted.min(self.budget.copy_bytes_max);
            if !self.budget.reserve(wanted - copied.reserved) {
                copied.is_ended = true;
                return;
            }
            copied.reserved = wanted;
            let more = wanted - copied.bytes.len();
            copied.bytes.reserve_exact(more);
        }
        copied.bytes.extend_from_slice(taken);
    }

    /// The bytes copied so far.
    pub fn get(&self) -> Copied {
        self.copied().clone()
    }

    /// Gives the memory back and ends the copy. Returns the bytes, which the caller must drop
    /// outside its own locks.
    pub fn clear(&self) -> Vec<u8> {
        let mut copied = self.copied();
        copied.is_ended = true;
        self.budget.release(std::mem::take(&mut copied.reserved));
        std::mem::take(&mut copied.bytes)
    }
}

impl Drop for BodyCopy {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_start_of_its_body_and_counts_the_rest() {
        let budget = Arc::new(CopyBudget::new(10, 100));
        let copy = BodyCopy::new(&budget);
        for byte in b"a body that is long" {
            copy.take(&[*byte]);
        }
        let copied = copy.get();
        assert_eq!((&copied.bytes[..], copied.passed), (&b"a body tha"[..], 19));
        assert!(!copied.is_whole());
        assert_eq!(budget.bytes(), 10);
        assert_eq!(copy.clear().len(), 10);
        copy.take(b"more");
        assert_eq!((copy.get().bytes.len(), budget.bytes()), (0, 0));
    }

    #[test]
    fn copies_end_where_their_memory_ends_and_give_it_back() {
        let budget = Arc::new(CopyBudget::new(64, 100));
        let copies: Vec<_> = (0..3).map(|_| BodyCopy::new(&budget)).collect();
        copies.iter().for_each(|copy| copy.take(&[7; 40]));
        let lengths: Vec<_> = copies.iter().map(|copy| copy.get().bytes.len()).collect();
        assert_eq!((lengths, budget.bytes()), (vec![40, 40, 0], 80));
        drop(copies);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn copies_may_take_all_of_their_memory() {
        let budget = Arc::new(CopyBudget::new(60, 100));
        let copies: Vec<_> = (0..2).map(|_| BodyCopy::new(&budget)).collect();
        copies[0].take(&[7; 60]);
        copies[1].take(&[7; 40]);
        assert_eq!(budget.bytes(), 100);
        copies[1].take(&[7; 1]);
        let lengths: Vec<_> = copies.iter().map(|copy| copy.get().bytes.len()).collect();
        assert_eq!(lengths[0], 60);
        assert!(budget.bytes() <= 100 && budget.bytes() == lengths.iter().sum::<usize>());
    }
}

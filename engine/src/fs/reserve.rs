//! SpaceReserve: puts fail while less than the reserve is free, so that deletions and background
//! work can still proceed.
//!
//! Deleting gives space back only after flushes, merges and collections, all of which write before
//! they remove. Deletions and background work may therefore use the reserve.

use crate::fs::Space;
use crate::fs::directory::Directory;
use crate::{Error, Result};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Divisor of the reserve: at most a quarter of the reserve is written before free space is queried
/// again, because other programs and background work use space too.
const UNASKED_PART: u64 = 4;

#[derive(Debug)]
pub(crate) struct SpaceReserve {
    directory: Directory,
    reserve_bytes: u64,
    quota_bytes: Option<u64>,
    /// Bytes that may be taken before the file system is asked again.
    left: CachePadded<AtomicU64>,
    is_short: AtomicBool,
    /// Bytes of all memtables, sealed ones included, which are still to be written.
    pub(crate) memtable_bytes: CachePadded<AtomicUsize>,
}

impl SpaceReserve {
    pub(crate) fn new(
        directory: Directory,
        reserve_bytes: u64,
        quota_bytes: Option<u64>,
    ) -> SpaceReserve {
        SpaceReserve {
            directory,
            reserve_bytes,
            quota_bytes,
            left: CachePadded::new(AtomicU64::new(0)),
            is_short: AtomicBool::new(false),
            memtable_bytes: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Number of bytes that puts must leave free.
    pub(crate) fn reserve(&self) -> u64 {
        self.space().reserve(self.reserve_bytes)
    }

    /// Takes room for new data. Errors: `NoSpace` if it would have to come out of the reserve.
    pub(crate) fn take(&self, bytes: u64) -> Result<()> {
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() || self.ask(bytes) {
            return Ok(());
        }
        Err(Error::NoSpace {
            path: self.directory.path().to_path_buf(),
        })
    }

    /// Whether space must be freed: less than twice the reserve is left, apart from the space that
    /// memtables will take.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed) && {
            self.ask(0);
            self.is_short.load(Ordering::Relaxed)
        }
    }

    fn space(&self) -> Space {
        let (total, free) = (u64::MAX, u64::MAX);
        let space = self.directory.space().unwrap_or(Space { total, free });
        match self.quota_bytes {
            None => space,
            Some(quota) => Space {
                total: space.total.min(quota),
                free: space.free.min(quota.saturating_sub(self.directory.used())),
            },
        }
    }

    /// Asks the file system whether it has `bytes` of room besides the reserve.
    fn ask(&self, bytes: u64) -> bool {
        let space = self.space();
        let memtables = self.memtable_bytes.load(Ordering::Relaxed) as u64;
        let reserve = space.reserve(self.reserve_bytes);
        let left = space.free.saturating_sub(memtables).checked_sub(reserve);
        let left = left.and_then(|left| left.checked_sub(bytes));
        self.left.store(
            left.unwrap_or(0).min(reserve / UNASKED_PART),
            Ordering::Relaxed,
        );
        let is_short = left.is_none_or(|left| left < reserve);
        self.is_short.store(is_short, Ordering::Relaxed);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemoryFs;
    use crate::fs::name::{FileKind, FileName};
    use std::sync::Arc;

    #[test]
    fn puts_leave_a_reserve_and_the_space_for_the_memtables() {
        let fs = Arc::new(MemoryFs::volatile_up_to(16 << 20));
        let directory = Directory::new(fs, "/data".as_ref());
        directory.make().unwrap();
        let room = SpaceReserve::new(directory.clone(), 64 << 20, None);
        room.memtable_bytes.store(5 << 20, Ordering::Relaxed);
        assert!(room.take((10 << 20) + 1).is_err());
        room.take(8 << 20).unwrap();
        assert!(!room.is_short(), "not before it was written");
        let file = directory.create(FileName::Numbered(FileKind::ValueLog, 1));
        let file = file.unwrap();
        file.write(&vec![0; 10 << 20], 0).unwrap();
        assert!(room.take(1 << 20).is_err() && room.is_short());
        file.set_length(0).unwrap();
        assert!(!room.is_short());
    }

    #[test]
    fn a_quota_is_kept_where_the_disk_has_more() {
        let place = tempfile::TempDir::new().unwrap();
        let directory = Directory::new(Arc::new(crate::fs::DiskFs::default()), place.path());
        let room = SpaceReserve::new(directory.clone(), 64 << 20, Some(16 << 20));
        room.take(14 << 20).unwrap();
        assert!(
            room.take((15 << 20) + 1).is_err(),
            "a sixteenth is kept free"
        );
        let file = directory.create(FileName::Numbered(FileKind::ValueLog, 1));
        file.unwrap().write(&vec![1; 10 << 20], 0).unwrap();
        assert!(room.take(6 << 20).is_err());
        directory
            .remove(FileName::Numbered(FileKind::ValueLog, 1))
            .unwrap();
        room.take(14 << 20).unwrap();
    }

    #[test]
    fn without_a_limit_there_is_room() {
        let directory = Directory::new(Arc::new(MemoryFs::volatile()), "/data".as_ref());
        let room = SpaceReserve::new(directory, 64 << 20, None);
        room.take(1 << 60).unwrap();
    }
}

//! Files in memory maps: the only unsafe code of the engine.
//!
//! A mapped file must never be cut short and its blocks must never have to be allocated by a write, or the access is a
//! signal instead of an error. So a log segment is mapped only where the file system keeps the blocks that it gave:
//! those that copy on write (btrfs, APFS) or live elsewhere (network mounts) get ordinary writes. A file that is only read is
//! mapped on any local file system of Linux. What is left is a disk that fails to read a page: a signal too.
#![allow(
    unsafe_code,
    reason = "a mapping is as sound as its file; each block says why it holds"
)]
#![allow(
    clippy::disallowed_types,
    reason = "part of the seam that the rest of the engine goes through"
)]

use bytes::Bytes;
use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first bytes of a log segment, writable.
///
/// A write of 150 bytes takes 0.1 to 0.4 us here and 0.9 us through `pwrite`, and a log is made of such writes.
#[derive(Debug)]
pub(super) struct LogMap {
    map: MmapRaw,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Where the last write ended.
    written: usize,
    /// What stands before this is not mapped any more.
    released: usize,
}

/// A multiple of the size of a page on every machine.
const RELEASED_UNIT: usize = 64 << 10;

impl LogMap {
    /// `None` where a mapping is not known to be safe.
    pub(super) fn new(file: &File, length: u64) -> Option<LogMap> {
        if length == 0 || !keeps_its_blocks(file) {
            return None;
        }
        let length = usize::try_from(length).ok()?;
        let map = MmapOptions::new().len(length).map_raw(file).ok()?;
        let progress = Mutex::default();
        Some(LogMap { map, progress })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes within the mapped length. In the page cache on return, as after `pwrite`: a killed process loses nothing.
    pub(super) fn write(&self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        assert!(end <= self.map.len(), "the write is within the mapping");
        let mut progress = self.progress();
        // SAFETY: The target is within the mapping. The file was allocated to that length and is never cut below it while it
        // is mapped (`MappedFile`). Only this process, which holds the lock of the directory, writes it, only here, and one
        // thread at a time.
        unsafe {
            let target = self.map.as_mut_ptr().add(offset);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        progress.written = end;
    }

    /// Takes what is written full out of the mapping; to be called before a sync. Otherwise the kernel protects each page by
    /// itself when it writes it, and interrupts every processor that the process runs on each time: that was a seventh of
    /// the processor time of a put.
    pub(super) fn release_written(&self) {
        let mut progress = self.progress();
        let end = progress.written / RELEASED_UNIT * RELEASED_UNIT;
        let start = std::mem::replace(&mut progress.released, end);
        drop(progress);
        if start < end {
            // SAFETY: The mapping is shared with the file: what was written stays in the page cache, and would be mapped
            // again if it was touched. That this fails harms nothing.
            let _ = unsafe {
                self.map
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }
}

/// The first `length` bytes of a file that nobody writes or cuts any more. `None` where that is not known to be safe.
///
/// A value of 64 KiB takes 3 us from here and 14 us through `pread`.
pub(super) fn sealed(file: &File, length: u64) -> Option<Bytes> {
    let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
    if !is_local(file) || file.metadata().ok()?.len() < length as u64 {
        return None;
    }
    // SAFETY: By the contract of `fs::File::map` the file is sealed: no one writes it, and it is unlinked but never cut. It was
    // just seen to be as long as what is mapped.
    let map = unsafe { MmapOptions::new().len(length).map(file) };
    Some(Bytes::from_owner(map.ok()?))
}

#[cfg(target_os = "linux")]
fn is_local(file: &File) -> bool {
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    let is = |found: rustix::fs::StatFs| matches!(found.f_type as u64, XFS | BTRFS);
    keeps_its_blocks(file) || rustix::fs::fstatfs(file).is_ok_and(is)
}

#[cfg(not(target_os = "linux"))]
fn is_local(_: &File) -> bool {
    false
}

/// ext2 to ext4 and tmpfs write allocated blocks in place. (So does xfs, unless the file was copied by reference.)
#[cfg(target_os = "linux")]
fn keeps_its_blocks(file: &File) -> bool {
    const EXT: u64 = 0xef53;
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|found| matches!(found.f_type as u64, EXT | TMPFS))
}

#[cfg(not(target_os = "linux"))]
fn keeps_its_blocks(_: &File) -> bool {
    false
}

//! Log segments in memory maps: the only unsafe code of the engine.
//!
//! A page of a mapping that cannot be had is a signal (SIGBUS) instead of an error, and ends the
//! process. So only segments whose blocks are allocated are mapped, and only on file systems that
//! write allocated blocks in place: there a full disk cannot raise the signal. On others (btrfs) a
//! write takes new blocks. The signal still comes if another process cuts the file short, if the
//! disk fails to read a page that is no longer in memory, or if the file system has shut itself
//! down after an error. That is the death of the process: the next open finds everything that was
//! synced, and the writes that the operating system has kept.
//!
//! Without the mapping, `fillseq` and `fillrandom` of `lazurite-engine-bench` do half the puts a
//! second.
#![allow(
    unsafe_code,
    reason = "a mapping is as sound as its file; each block has a comment on why that holds"
)]
#![allow(
    clippy::disallowed_types,
    reason = "part of the seam that the rest of the engine goes through"
)]

use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first bytes of a log segment, writable.
///
/// A put of 100 bytes takes 0.6 us of the processor less than through `pwrite`, of 2.1 to 2.8 us.
#[derive(Debug)]
pub(super) struct LogMap {
    map: MmapRaw,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Where the last write ended.
    written: usize,
    /// Bytes before this are not mapped any more.
    released: usize,
}

/// A multiple of the size of a page on every machine.
const RELEASED_UNIT: usize = 64 << 10;

impl LogMap {
    /// The blocks of the first `length` bytes are allocated. `None` where a mapping is not known to
    /// be safe.
    pub(super) fn new(file: &File, length: u64) -> Option<LogMap> {
        if length == 0 || !keeps_its_blocks(file) {
            return None;
        }
        let length = usize::try_from(length).ok()?;
        let map = MmapOptions::new().len(length).map_raw(file).ok()?;
        Some(LogMap {
            map,
            progress: Mutex::default(),
        })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes within the mapped length. In the page cache on return, as after `pwrite`: a killed
    /// process loses nothing.
    pub(super) fn write(&self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        assert!(end <= self.map.len(), "the write is within the mapping");
        let mut progress = self.progress();
        // SAFETY: The target is within the mapping. Only this process, which holds the lock of the
        // directory, writes it, only here, and one thread at a time. A page that cannot be had ends
        // the process; it never reads or writes other memory.
        unsafe {
            let target = self.map.as_mut_ptr().add(offset);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        progress.written = end;
    }

    /// Takes full pages out of the mapping; to be called before a sync. Otherwise the kernel
    /// protects each page by itself when it writes it, and interrupts every processor that the
    /// process runs on each time: that was a seventh of the processor time of a put.
    pub(super) fn release_written(&self) {
        let mut progress = self.progress();
        let end = progress.written / RELEASED_UNIT * RELEASED_UNIT;
        let start = std::mem::replace(&mut progress.released, end);
        drop(progress);
        if start < end {
            // SAFETY: The mapping is shared with the file: written bytes stay in the page cache,
            // and would be mapped again if it was touched. A failure does no harm.
            let _ = unsafe {
                self.map
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }
}

/// ext2 to ext4 and tmpfs write allocated blocks in place. (So does xfs, unless the file was copied
/// by reference.)
fn keeps_its_blocks(file: &File) -> bool {
    const EXT: u64 = 0xef53;
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|found| matches!(found.f_type as u64, EXT | TMPFS))
}

//! Log segments in memory maps. With `platform/windows.rs` the only unsafe code of the engine.
//!
//! If the kernel cannot provide a page of a mapping, it sends a signal (SIGBUS), which ends the
//! process, instead of returning an error. So only segments whose blocks are allocated are mapped,
//! and only on file systems that write allocated blocks in place: there a full disk cannot raise
//! the signal. On others (btrfs) a write takes new blocks. The signal still comes if another
//! process cuts the file short, if the disk fails to read a page that is no longer in memory, or if
//! the file system has shut itself down after an error. The process then dies as if killed: the
//! next open finds everything that was synced, and the writes that the operating system has kept.
//!
//! Without the mapping, `fillseq` and `fillrandom` of `lazurite-engine-bench` do half the puts per
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
#[derive(Debug)]
pub(super) struct LogMap {
    map: MmapRaw,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Offset at which the last write ended.
    written: usize,
    /// Offset before which bytes are not mapped any more.
    released: usize,
}

/// A multiple of the size of a page on every machine.
const RELEASED_UNIT: usize = 64 << 10;

impl LogMap {
    /// Maps the first `length` bytes, whose blocks must be allocated. `None` where a mapping is not
    /// known to be safe.
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

    /// Writes within the mapped length. On return the bytes are in the page cache, as after
    /// `pwrite`: a killed process does not lose them.
    pub(super) fn write(&self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        assert!(end <= self.map.len(), "the write is within the mapping");
        let mut progress = self.progress();
        // SAFETY: The target is within the mapping. Only this process, which holds the lock of the
        // directory, writes to it, only here, and one thread at a time. If a page cannot be
        // provided, the process ends; other memory is never read or written.
        unsafe {
            let target = self.map.as_mut_ptr().add(offset);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        progress.written = end;
    }

    /// Takes full pages out of the mapping. Call it before a sync: otherwise the kernel protects
    /// each page separately as it writes the page, and each time interrupts every processor that
    /// the process runs on. This took a seventh of the processor time of a put.
    pub(super) fn release_written(&self) {
        let mut progress = self.progress();
        let end = progress.written / RELEASED_UNIT * RELEASED_UNIT;
        let start = std::mem::replace(&mut progress.released, end);
        drop(progress);
        if start < end {
            // SAFETY: The mapping is shared with the file: written bytes stay in the page cache,
            // and a later access would map them again. A failure does no harm.
            let _ = unsafe {
                self.map
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }
}

/// True on ext2 to ext4 and tmpfs, which write allocated blocks in place. (So does xfs, unless the
/// file was copied by reference.)
fn keeps_its_blocks(file: &File) -> bool {
    const EXT: u64 = 0xef53;
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|found| matches!(found.f_type as u64, EXT | TMPFS))
}

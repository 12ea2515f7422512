//! Log segments whose writes are gathered in memory until they are synced.
//!
//! At `Durability::Disk` a write counts only once it is on the disk, so nothing is gained by
//! handing it to the operating system earlier: the group that shares a sync is written at once,
//! past the page cache. A mapping (`map.rs`) is slower here. Each sync then has to find the dirty
//! pages, write-protect them again and interrupt the other processors, and a page that is not in
//! the cache is read before it is written. Measured with eight writers on two cores: 42,000 to
//! 48,000 commits/s with gathered writes, 34,400 with a mapping.
//!
//! Each write repeats the last page of the write before it, with the same bytes at its beginning,
//! as the page cache would; on a disk that writes whole sectors this does not harm synced bytes.
//! The zeros at the end of a write also stay in memory, because the next write replaces them.

use crate::base::mutex::lock;
use crate::fs::direct::DirectFile;
use crate::fs::pages::{PAGE_BYTES, PageBuffer};
use crate::fs::{File, LOG_TAIL_BYTES};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};

/// Bytes that go to the disk in one write.
const PIECE_BYTES: usize = 256 << 10;

/// Maximum number of bytes added to the buffer at once. The buffer also has room for the last page
/// written before and for the zeros at the end.
const PART_BYTES: usize = PIECE_BYTES - 2 * PAGE_BYTES;

/// A log segment that gathers writes in memory until a sync.
#[derive(Debug)]
pub(super) struct GatheredFile {
    file: DirectFile,
    /// Length of the file when it was opened. Bytes after its last whole page go to the file at
    /// once.
    length: u64,
    pending: Mutex<Pending>,
    /// Held while pending bytes are written, so that two writes of one page reach it in order.
    writing: Mutex<PageBuffer>,
}

/// The bytes to be written, from the beginning of a page on.
#[derive(Debug, Default)]
struct Pending {
    start: u64,
    bytes: Vec<u8>,
    /// Whether some of the buffer is not in the file yet.
    is_dirty: bool,
    /// The error with which a write of the buffer failed. After it, nothing is written or counts as
    /// synced.
    lost: Option<ErrorKind>,
}

impl Pending {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Offset of the page that `offset` lies in.
fn page_start(offset: u64) -> u64 {
    offset / PAGE_BYTES as u64 * PAGE_BYTES as u64
}

impl GatheredFile {
    /// The file must have at least `length` bytes. Those from `fresh` on were never written, and
    /// are filled with zeros here: the first write to a block changes the file's metadata, which
    /// the next sync would have to write too.
    pub(super) fn new(file: DirectFile, fresh: u64, length: u64) -> io::Result<GatheredFile> {
        let end = page_start(length);
        let mut buffer = PageBuffer::new(PIECE_BYTES);
        let first = fresh.next_multiple_of(PAGE_BYTES as u64);
        for offset in (first..end).step_by(PIECE_BYTES) {
            buffer.clear();
            buffer.extend_zeros((end - offset).min(PIECE_BYTES as u64) as usize);
            file.write(buffer.bytes(), offset)?;
        }
        Ok(GatheredFile {
            file,
            length,
            pending: Mutex::default(),
            writing: Mutex::new(buffer),
        })
    }

    /// Hands all pending bytes to the operating system.
    fn write_out(&self) -> io::Result<()> {
        let mut buffer = lock(&self.writing);
        let mut pending = lock(&self.pending);
        if let Some(lost) = pending.lost {
            return Err(lost.into());
        }
        if !std::mem::take(&mut pending.is_dirty) {
            return Ok(());
        }
        buffer.clear();
        buffer.extend(&pending.bytes);
        let filled = buffer.len();
        buffer.extend_zeros(filled.next_multiple_of(PAGE_BYTES) - filled);
        let start = pending.start;
        let whole = filled.saturating_sub(LOG_TAIL_BYTES) / PAGE_BYTES * PAGE_BYTES;
        pending.bytes.drain(..whole);
        pending.start += whole as u64;
        drop(pending);
        let written = self.file.write(buffer.bytes(), start);
        written.inspect_err(|error| lock(&self.pending).lost = Some(error.kind()))
    }

    /// Continues at `offset`, which is not the end of the last write.
    fn begin_at(&self, offset: u64) -> io::Result<()> {
        self.write_out()?;
        let start = page_start(offset);
        let mut bytes = vec![0; (offset - start) as usize];
        self.file.through.file.read_exact_at(&mut bytes, start)?;
        let mut pending = lock(&self.pending);
        (pending.start, pending.bytes) = (start, bytes);
        Ok(())
    }

    /// Returns the pending bytes before `offset`, with space for `room` more. Drops the pending
    /// bytes from `offset` on.
    fn pending_until(&self, offset: u64, room: usize) -> io::Result<MutexGuard<'_, Pending>> {
        let mut pending = lock(&self.pending);
        if !(pending.start..=pending.end()).contains(&offset) {
            drop(pending);
            self.begin_at(offset)?;
            pending = lock(&self.pending);
        }
        let kept = (offset - pending.start) as usize;
        pending.bytes.truncate(kept);
        if kept + room > PIECE_BYTES {
            drop(pending);
            self.write_out()?;
            pending = lock(&self.pending);
        }
        Ok(pending)
    }
}

impl File for GatheredFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.write_out()?;
        self.file.through.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset + bytes.len() as u64 > page_start(self.length) {
            self.begin_at(offset)?;
            return self.file.through.write_at(bytes, offset);
        }
        let parts = bytes.chunks(PART_BYTES);
        for (offset, part) in (offset..).step_by(PART_BYTES).zip(parts) {
            let mut pending = self.pending_until(offset, part.len())?;
            pending.bytes.extend_from_slice(part);
            pending.is_dirty = true;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.write_out()?;
        self.file.through.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.through.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        {
            let mut pending = lock(&self.pending);
            let kept = length.saturating_sub(pending.start) as usize;
            pending.bytes.truncate(kept);
        }
        self.write_out()?;
        self.file.through.set_length(length.max(self.length))
    }
}

impl Drop for GatheredFile {
    /// Writes bytes that were not synced, as far as possible: errors are ignored.
    fn drop(&mut self) {
        let _ = self.write_out();
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]
mod tests {
    use super::*;
    use crate::fs::disk_file::DiskFile;
    use crate::fs::{DiskFs, Fs, LogWrites};
    use proptest::prelude::*;
    use std::path::Path;

    const LENGTH: usize = 1 << 20;

    #[derive(Debug, Clone)]
    enum Step {
        Append(usize),
        /// Writes a length at an offset, or at the end if that is lower. Later bytes are forgotten.
        WriteAt(usize, usize),
        Sync,
        Read,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            10 => (1..6000usize).prop_map(Step::Append),
            1 => (1..700_000usize).prop_map(Step::Append),
            1 => (0..LENGTH + 9000, 1..9000usize).prop_map(|(offset, length)| Step::WriteAt(offset, length)),
            4 => Just(Step::Sync),
            1 => Just(Step::Read),
        ];
        prop::collection::vec(step, 1..40)
    }

    fn bytes_on_disk(path: &Path, length: usize) -> Vec<u8> {
        let file = DiskFs::default().open(path).unwrap();
        let mut bytes = vec![0; length];
        let mut read = 0;
        while let count @ 1.. = file.read_at(&mut bytes[read..], read as u64).unwrap() {
            read += count;
        }
        bytes
    }

    #[test]
    fn after_a_lost_write_no_sync_succeeds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, [0; 8192]).unwrap();
        let through = std::fs::File::options().read(true).write(true).open(&path);
        // The file is open for reading only, so every write fails.
        let past = std::fs::File::open(&path).unwrap();
        let file = DirectFile {
            through: DiskFile::new(through.unwrap(), 4096),
            past,
            refused: false.into(),
        };
        let log = GatheredFile::new(file, 8192, 8192).unwrap();
        log.write_at(b"one", 0).unwrap();
        log.sync().unwrap_err();
        log.sync().unwrap_err();
        log.set_length(8192).unwrap_err();
        let _ = log.write_at(b"two", 3);
        log.sync().unwrap_err();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn written_bytes_are_in_the_file_after_a_sync(steps in steps()) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("log");
            let open = || DiskFs::default().open_log(&path, LENGTH as u64, LogWrites::AtSync);
            let mut file = open().unwrap();
            let mut model = vec![0; 4 * LENGTH];
            let mut end = 0;
            for (turn, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Append(length) | Step::WriteAt(_, length) => {
                        if let Step::WriteAt(offset, _) = step {
                            end = end.min(offset);
                        }
                        let length = length.min(model.len() - end);
                        let bytes = &mut model[end..end + length];
                        bytes.fill(turn as u8 + 1);
                        file.write_at(bytes, end as u64).unwrap();
                        end += length;
                    }
                    Step::Sync => {
                        file.sync().unwrap();
                        prop_assert!(bytes_on_disk(&path, end) == model[..end]);
                    }
                    Step::Read => {
                        let mut bytes = vec![0; end.min(5000)];
                        let length = file.read_at(&mut bytes, 0).unwrap();
                        prop_assert!(bytes[..length] == model[..length]);
                    }
                }
            }
            drop(std::mem::replace(&mut file, open().unwrap()));
            prop_assert!(bytes_on_disk(&path, end) == model[..end], "closed without a sync");
        }
    }
}

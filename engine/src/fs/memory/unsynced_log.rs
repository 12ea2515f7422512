//! A log whose writes reach the file only at syncs, as `fs/log_file.rs` writes a log to a disk; for
//! the crash tests of [`LogWrites::AtSync`](crate::fs::LogWrites).

use crate::base::mutex::lock;
use crate::fs::{File, PAGE_BYTES};
use std::io;
use std::sync::Mutex;

/// A log file whose writes stay in memory until a sync or a read.
#[derive(Debug)]
pub(super) struct UnsyncedLog {
    file: Box<dyn File>,
    /// Number of allocated bytes. Bytes after their last whole page go to the file at once.
    length: u64,
    pending: Mutex<Pending>,
}

/// The bytes to be written, in one piece.
#[derive(Debug, Default)]
struct Pending {
    start: u64,
    bytes: Vec<u8>,
}

impl UnsyncedLog {
    pub(super) fn new(file: Box<dyn File>, length: u64) -> UnsyncedLog {
        UnsyncedLog {
            file,
            length,
            pending: Mutex::default(),
        }
    }

    /// Writes whole pages: the rest of the last page becomes zeros.
    fn write_out(&self, pending: &mut Pending) -> io::Result<()> {
        if pending.bytes.is_empty() {
            return Ok(());
        }
        let Pending { start, mut bytes } = std::mem::take(pending);
        let end = (start + bytes.len() as u64).next_multiple_of(PAGE_BYTES as u64);
        bytes.resize((end - start) as usize, 0);
        self.file.write_at(&bytes, start)
    }
}

impl File for UnsyncedLog {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.write_out(&mut lock(&self.pending))?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut pending = lock(&self.pending);
        let end = pending.start + pending.bytes.len() as u64;
        let whole_pages = self.length / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let is_behind = offset + bytes.len() as u64 > whole_pages;
        if is_behind || !(pending.start..=end).contains(&offset) {
            self.write_out(&mut pending)?;
        }
        if is_behind {
            return self.file.write_at(bytes, offset);
        }
        if pending.bytes.is_empty() {
            pending.start = offset;
        }
        let kept = (offset - pending.start) as usize;
        pending.bytes.truncate(kept);
        pending.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.write_out(&mut lock(&self.pending))?;
        self.file.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut pending = lock(&self.pending);
        let kept = length.saturating_sub(pending.start) as usize;
        pending.bytes.truncate(kept);
        self.write_out(&mut pending)?;
        self.file.set_length(length.max(self.length))
    }

    fn lose_unsynced(&self) {
        let _ = self.write_out(&mut lock(&self.pending));
        self.file.lose_unsynced();
    }
}

impl Drop for UnsyncedLog {
    fn drop(&mut self) {
        let _ = self.write_out(&mut lock(&self.pending));
    }
}

#[cfg(test)]
mod tests {
    use crate::fs::{Fs, Keep, LogWrites, MemoryFs};
    use std::path::Path;

    #[test]
    fn the_death_of_the_process_takes_unsynced_bytes_and_a_sync_clears_the_page() {
        let path = Path::new("/d/log");
        let fs = MemoryFs::crashable();
        fs.create_directory(Path::new("/d")).unwrap();
        fs.create(path).unwrap().write_at(&[9; 8192], 0).unwrap();
        let log = fs.open_log(path, 8192, LogWrites::AtSync).unwrap();
        log.write_at(b"one", 0).unwrap();
        let left = |fs: &MemoryFs| fs.crash(1, Keep::Everything).files().remove(0).1;
        assert_eq!(left(&fs), [9; 8192]);
        log.sync().unwrap();
        log.write_at(b"two", 3).unwrap();
        let mut expected = vec![0; 4096];
        expected[..3].copy_from_slice(b"one");
        expected.extend([9; 4096]);
        assert_eq!(left(&fs), expected);
        drop(log);
        expected[3..6].copy_from_slice(b"two");
        assert_eq!(left(&fs), expected);
    }
}

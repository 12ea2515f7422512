//! Writes past the page cache (`O_DIRECT`): of large files and, where it is written at each sync, of the log.
//!
//! Large values are written 7 % faster than through the page cache, with a p99 of a half to a tenth (`large1m` of
//! `lazurite-engine-bench`): pages that are new in the cache have to be found first.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use super::File;
use super::disk_file::{DiskFile, WRITE_BYTES};
use super::pages::PAGE_BYTES;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file, open through the page cache and past it. Large writes of whole pages go past it.
#[derive(Debug)]
pub(super) struct DirectFile {
    pub(super) through: DiskFile,
    pub(super) past: fs::File,
    /// Whether the file system would not have it.
    pub(super) refused: AtomicBool,
}

impl DirectFile {
    /// Opens `path` past the cache too; gives `file` back where that cannot be done.
    pub(super) fn open(file: fs::File, path: &Path) -> Result<DirectFile, fs::File> {
        let Ok(flag) = rustix::fs::OFlags::DIRECT.bits().try_into() else {
            return Err(file);
        };
        let mut options = fs::OpenOptions::new();
        match options.write(true).custom_flags(flag).open(path) {
            Ok(past) => Ok(DirectFile {
                through: DiskFile::new(file, WRITE_BYTES),
                past,
                refused: AtomicBool::new(false),
            }),
            Err(_) => Err(file),
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Writes whole pages from memory that begins with one: through the cache if the file system refuses.
    pub(super) fn write(&self, pages: &[u8], offset: u64) -> io::Result<()> {
        if !self.is_refused() {
            match self.past.write_all_at(pages, offset) {
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    self.refused.store(true, Ordering::Relaxed);
                }
                written => return written,
            }
        }
        self.through.write_at(pages, offset)
    }
}

impl File for DirectFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.through.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.through.write_at(bytes, offset)
    }

    fn write_large_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if is_in_pages(bytes, offset) {
            self.write(bytes, offset)
        } else {
            self.through.write_at(bytes, offset)
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.through.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.through.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.through.set_length(length)
    }
}

/// Whether these are whole pages, in memory and in the file.
fn is_in_pages(bytes: &[u8], offset: u64) -> bool {
    let is_page = |place: usize| place.is_multiple_of(PAGE_BYTES);
    is_page(bytes.as_ptr().addr()) && is_page(bytes.len()) && is_page(offset as usize)
}

#[cfg(test)]
mod tests {
    use crate::fs::{DiskFs, Fs, PageBuffer};

    #[test]
    fn what_was_written_in_any_way_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large");
        let file = DiskFs.create_large(&path).unwrap();
        // A write of one byte more or less takes the next ones out of the pages, until one of the rest of a page.
        let lengths = [
            4096, 262_144, 262_144, 3, 4093, 8192, 5000, 262_144, 3192, 4096,
        ];
        let mut expected: Vec<u8> = Vec::new();
        let mut buffer = PageBuffer::new(262_144);
        for (turn, &length) in lengths.iter().cycle().take(150).enumerate() {
            buffer.clear();
            buffer.extend_zeros(length);
            let bytes = buffer.bytes_mut().iter_mut().enumerate();
            bytes.for_each(|(at, byte)| *byte = (at / 3 + turn) as u8);
            file.write_large_at(buffer.bytes(), expected.len() as u64)
                .unwrap();
            expected.extend_from_slice(buffer.bytes());
        }
        file.sync().unwrap();
        assert_eq!(file.length().unwrap(), expected.len() as u64);
        let mut offset = 0;
        for (turn, &length) in lengths.iter().cycle().take(150).enumerate() {
            let mut read = vec![0; length];
            assert_eq!(file.read_at(&mut read, offset as u64).unwrap(), length);
            assert!(read == expected[offset..][..length], "write {turn}");
            offset += length;
        }
    }
}

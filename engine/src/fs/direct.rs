//! Writes past the page cache (`O_DIRECT`), from memory that is used again.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use super::File;
use super::disk::DiskFile;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the place in the file, the place in memory and the length of a write past the cache are multiples of.
pub(super) const ALIGNMENT: usize = 4096;
/// Bytes of one such write.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// A file, open through the page cache and past it.
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
                through: DiskFile(file),
                past,
                refused: AtomicBool::new(false),
            }),
            Err(_) => Err(file),
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Writes the pages in `buffer`: through the cache if the file system refuses.
    pub(super) fn write(&self, buffer: &Buffer, offset: u64) -> io::Result<()> {
        if !self.is_refused() {
            match self.past.write_all_at(buffer.pages(), offset) {
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    self.refused.store(true, Ordering::Relaxed);
                }
                written => return written,
            }
        }
        self.through.write_at(buffer.pages(), offset)
    }
}

/// Memory for a piece, from an aligned place on.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    filled: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        let bytes = vec![0; PIECE_BYTES + ALIGNMENT].into_boxed_slice();
        let address = bytes.as_ptr().addr();
        let start = address.next_multiple_of(ALIGNMENT) - address;
        Buffer {
            bytes,
            start,
            filled: 0,
        }
    }
}

impl Buffer {
    /// Holds these bytes, at most [`PIECE_BYTES`], and zeros to the end of the last page.
    pub(super) fn fill(&mut self, bytes: &[u8]) {
        self.filled = bytes.len().next_multiple_of(ALIGNMENT);
        let (used, rest) =
            self.bytes[self.start..self.start + self.filled].split_at_mut(bytes.len());
        used.copy_from_slice(bytes);
        rest.fill(0);
    }

    /// Holds so many zeros, a multiple of [`ALIGNMENT`].
    pub(super) fn fill_zeros(&mut self, length: usize) {
        self.filled = length;
        self.bytes[self.start..self.start + length].fill(0);
    }

    fn pages(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.filled]
    }
}

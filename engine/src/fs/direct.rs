//! Writes past the page cache (`O_DIRECT`).
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::File;
use crate::fs::disk_file::{DiskFile, WRITE_BYTES};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that is opened twice: for calls through the page cache, and for writes past it.
#[derive(Debug)]
pub(super) struct DirectFile {
    pub(super) through: DiskFile,
    pub(super) past: fs::File,
    /// Whether the file system has refused a write past the cache.
    pub(super) refused: AtomicBool,
}

impl DirectFile {
    /// Opens `path` a second time, past the cache. Errors: `file` itself, if the system does not
    /// support that.
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

    /// Writes whole pages past the cache, or through it if the file system refuses. `pages` must
    /// begin on a page boundary in memory.
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

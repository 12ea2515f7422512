//! Linux: logs through a mapping or past the page cache.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::direct::DirectFile;
use crate::fs::disk_file::{DiskFile, WRITE_BYTES};
use crate::fs::log_file::GatheredFile;
use crate::fs::map::LogMap;
use crate::fs::platform::allocate;
use crate::fs::{File, LogWrites};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// For the log, which is written through a mapping: its pages are as long as the writes that made them, and each is taken into the
/// mapping once instead of every 4 KiB. The price is that a sync writes 16 KiB for a row that came alone.
const LOG_WRITE_BYTES: usize = 16 << 10;

pub(in crate::fs) fn open_log(
    file: fs::File,
    path: &Path,
    present: u64,
    length: u64,
    writes: LogWrites,
) -> io::Result<Arc<dyn File>> {
    if present < length {
        allocate(&file, length)?;
    }
    if writes == LogWrites::AtSync {
        return Ok(match DirectFile::open(file, path) {
            Ok(file) => Arc::new(GatheredFile::new(file, present, length)?),
            Err(file) => Arc::new(DiskFile::new(file, WRITE_BYTES)),
        });
    }
    Ok(match LogMap::new(&file, length) {
        Some(map) => {
            let file = DiskFile::new(file, LOG_WRITE_BYTES);
            fill(&file, present, length)?;
            Arc::new(MappedFile { file, length, map })
        }
        None => Arc::new(DiskFile::new(file, WRITE_BYTES)),
    })
}

/// Writes zeros behind the present contents, up to `length`.
fn fill(file: &DiskFile, present: u64, length: u64) -> io::Result<()> {
    let zeros = [0; LOG_WRITE_BYTES];
    let first = present.next_multiple_of(LOG_WRITE_BYTES as u64);
    (first..length)
        .step_by(LOG_WRITE_BYTES)
        .try_for_each(|offset| {
            let count = (length - offset).min(LOG_WRITE_BYTES as u64);
            file.write_at(&zeros[..count as usize], offset)
        })
}

/// A log segment: writes within its length go through a mapping, those behind it through the file.
#[derive(Debug)]
struct MappedFile {
    file: DiskFile,
    length: u64,
    map: LogMap,
}

impl File for MappedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let inside = self.length.saturating_sub(offset).min(bytes.len() as u64);
        let (mapped, behind) = bytes.split_at(inside as usize);
        if !behind.is_empty() {
            self.file.write_at(behind, offset + inside)?;
        }
        if !mapped.is_empty() {
            self.map.write(mapped, offset as usize)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.map.release_written()?;
        // The kernel writes the dirty pages of a mapping with those of the file, and reports their errors here.
        self.file.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length.max(self.length))
    }
}

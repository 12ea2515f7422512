//! Linux: logs through a mapping or past the page cache, large files past it, blocks allocated ahead, pages asked for ahead.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::direct::DirectFile;
use crate::fs::disk_file::{DiskFile, WRITE_BYTES};
use crate::fs::large::{LargeFile, WriteCosts};
use crate::fs::log_file::GatheredFile;
use crate::fs::map::LogMap;
use crate::fs::{File, LogWrites};
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// For the log, which is written through a mapping: its pages are as long as the writes that made them, and each is taken into the
/// mapping once instead of every 4 KiB. The price is that a sync writes 16 KiB for a row that came alone.
const LOG_WRITE_BYTES: usize = 16 << 10;

/// Which way to write large files has cost less so far.
pub(in crate::fs) type LargeWrites = Arc<WriteCosts>;

pub(in crate::fs) fn create_large(
    file: fs::File,
    path: &Path,
    costs: &LargeWrites,
) -> io::Result<Arc<dyn File>> {
    Ok(match DirectFile::open(file, path) {
        Ok(file) => Arc::new(LargeFile::new(file, costs.clone())),
        Err(file) => Arc::new(DiskFile::new(file, WRITE_BYTES)),
    })
}

/// Opens for reading.
pub(in crate::fs) fn open(path: &Path) -> io::Result<fs::File> {
    // To look whether the time of the last access has to be noted costs each read a sixth of its time.
    let flag = OFlags::NOATIME.bits().try_into();
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(flag.unwrap_or(0));
    match options.open(path) {
        // Only the owner of a file may ask for that.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::File::open(path),
        opened => opened,
    }
}

/// Lengthens the file, with blocks for all of it where the file system can.
pub(in crate::fs) fn allocate(file: &fs::File, length: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        // Not every file system can; then the blocks are taken when they are written.
        Err(Errno::OPNOTSUPP) => file.set_len(length),
        allocated => Ok(allocated?),
    }
}

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

/// Writes zeros behind what is there, up to `length`.
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

/// Reads what is in memory; else asks for the pages around it as well.
pub(in crate::fs) fn read_around_at(
    file: &fs::File,
    buffer: &mut [u8],
    offset: u64,
    around: &dyn Fn() -> Option<Range<u64>>,
) -> io::Result<usize> {
    let buffers = &mut [io::IoSliceMut::new(buffer)];
    match preadv2(file, buffers, offset, ReadWriteFlags::NOWAIT) {
        Ok(read) => return Ok(read),
        Err(Errno::AGAIN) => {
            if let Some(around) = around() {
                let length = NonZeroU64::new(around.end.saturating_sub(around.start));
                // Best effort: errors surface in the read below.
                let _ = fadvise(file, around.start, length, Advice::WillNeed);
            }
        }
        // Not every file system supports it.
        Err(_) => {}
    }
    super::read_at(file, buffer, offset)
}

/// Lets the calling thread stand back by so many steps of `nice`.
pub(crate) fn lower_priority(nice: i32) {
    if nice > 0 {
        // Linux takes it for the calling thread alone. Without it the thread is only less polite.
        let _ = rustix::process::nice(nice);
    }
}

/// Time that passes at the same rate whatever the system's clock is set to, suspension included.
pub(in crate::fs) fn steady_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(
        time.tv_sec.max(0) as u64,
        time.tv_nsec.clamp(0, 999_999_999) as u32,
    )
}

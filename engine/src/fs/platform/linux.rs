//! Linux: blocks allocated ahead, pages asked for ahead, files read without noting the time of the access.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::{self, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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

/// Lengthens the file to at least `length` bytes, and allocates their blocks. `false` if the file
/// system cannot: then the file has its length, and the blocks are taken when they are written.
pub(in crate::fs) fn allocate(file: &fs::File, length: u64) -> io::Result<bool> {
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Err(Errno::OPNOTSUPP) => {
            if file.metadata()?.len() < length {
                file.set_len(length)?;
            }
            Ok(false)
        }
        allocated => Ok(allocated.map(|()| true)?),
    }
}

/// Reads from memory if the bytes are there; else asks for the pages around them as well.
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

/// Lowers the priority of the calling thread by this many steps of `nice`.
pub(crate) fn lower_priority(nice: i32) {
    if nice > 0 {
        // Linux takes it for the calling thread alone. Without it the thread is only less polite.
        let _ = rustix::process::nice(nice);
    }
}

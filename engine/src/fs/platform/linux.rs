//! Linux: blocks allocated ahead, files read without noting the time of the access.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file for reading, without updates of its access time. Error: `PermissionDenied` if the
/// file belongs to another user.
pub(in crate::fs) fn open(path: &Path) -> io::Result<fs::File> {
    // Without the flag, checking whether to update the access time takes a sixth of the time of
    // each read.
    let flag = OFlags::NOATIME.bits().try_into();
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(flag.unwrap_or(0));
    options.open(path)
}

/// Lengthens the file to at least `length` bytes, and allocates their blocks. `false` if the file
/// system cannot allocate: the file then has that length, and writes take the blocks.
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

/// Lowers the priority of the calling thread by this many steps of `nice`.
pub(crate) fn lower_priority(nice: i32) {
    if nice > 0 {
        // On Linux, `nice` affects the calling thread alone. A failure leaves it as it is.
        let _ = rustix::process::nice(nice);
    }
}

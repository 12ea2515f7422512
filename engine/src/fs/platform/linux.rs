//! Linux: blocks allocated ahead, files read without noting the time of the access, bytes written
//! to the disk before a sync.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use std::ffi::c_uint;
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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

/// Writes bytes of a file to the disk before a sync asks for them. This takes a handle of its own:
/// the system reports bytes that it could not write once to each handle, and the sync has to hear
/// of them.
#[derive(Debug)]
pub(in crate::fs) struct EarlyWrites {
    path: PathBuf,
    /// Opened for the first bytes; `None` if that failed.
    file: OnceLock<Option<fs::File>>,
}

impl EarlyWrites {
    pub(in crate::fs) fn new(path: &Path) -> EarlyWrites {
        EarlyWrites {
            path: path.to_path_buf(),
            file: OnceLock::new(),
        }
    }

    /// Begins to write the bytes `begun`, then waits for the bytes `awaited`, whose writing began
    /// earlier. Some sandboxes refuse the call; then the sync writes everything.
    pub(in crate::fs) fn write_out(&self, begun: Range<u64>, awaited: Range<u64>) {
        if let Some(file) = self.file.get_or_init(|| open(&self.path).ok()) {
            sync_range(file, begun, SYNC_FILE_RANGE_WRITE);
            sync_range(file, awaited, SYNC_FILE_RANGE_WAIT_BEFORE);
        }
    }
}

const SYNC_FILE_RANGE_WAIT_BEFORE: c_uint = 1;
const SYNC_FILE_RANGE_WRITE: c_uint = 2;

#[allow(unsafe_code, reason = "declares a call that `rustix` lacks")]
mod calls {
    use std::ffi::{c_int, c_uint};

    unsafe extern "C" {
        pub(super) safe fn sync_file_range(
            file: c_int,
            offset: i64,
            bytes: i64,
            flags: c_uint,
        ) -> c_int;
    }
}

/// Begins or awaits the writing of these bytes. An error makes nothing worse, because the next sync
/// writes what is left.
fn sync_range(file: &fs::File, range: Range<u64>, flags: c_uint) {
    let offset = i64::try_from(range.start);
    let bytes = i64::try_from(range.end.saturating_sub(range.start));
    // For the system, 0 bytes mean the whole rest of the file.
    if let (Ok(offset), Ok(bytes @ 1..)) = (offset, bytes) {
        calls::sync_file_range(file.as_raw_fd(), offset, bytes, flags);
    }
}

/// Lowers the priority of the calling thread by this many steps of `nice`.
pub(crate) fn lower_priority(nice: i32) {
    if nice > 0 {
        // On Linux, `nice` affects the calling thread alone. A failure leaves it as it is.
        let _ = rustix::process::nice(nice);
    }
}

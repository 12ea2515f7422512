//! Systems other than Linux, without the additions of Linux.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// Opens for reading and writing: Windows does not sync a file without the right to write, and
/// opening a store syncs the log that it reads. Error: `PermissionDenied` if the file is read-only.
pub(in crate::fs) fn open(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Lengthens the file. Its blocks may be taken when they are written.
pub(in crate::fs) fn lengthen(file: &fs::File, length: u64) -> io::Result<()> {
    file.set_len(length)
}

/// Does nothing: the standard library cannot change the priority of a thread.
pub(crate) fn lower_priority(_: i32) {}

//! Systems other than Linux: all files go through the cache of the system, written by plain calls.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::disk_file::{DiskFile, WRITE_BYTES};
use crate::fs::platform::lengthen;
use crate::fs::{File, LogWrites};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(in crate::fs) fn open_log(
    file: fs::File,
    _: &Path,
    present: u64,
    length: u64,
    _: LogWrites,
) -> io::Result<Arc<dyn File>> {
    if present < length {
        lengthen(&file, length)?;
    }
    Ok(Arc::new(DiskFile::new(file, WRITE_BYTES)))
}

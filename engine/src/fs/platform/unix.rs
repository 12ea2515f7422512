//! Unix: permissions by mode, reads and writes at an offset, directories that are synced like
//! files.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::Space;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// No error numbers: files that other programs have open can be opened, renamed and removed.
pub(in crate::fs) const HELD_BY_OTHERS: &[i32] = &[];

/// Creates a directory and its parents for their owner alone.
pub(in crate::fs) fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

/// Files that these options create are for their owner alone.
pub(in crate::fs) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Opens a file unless its name is a symbolic link.
pub(in crate::fs) fn open_unlinked(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flag = OFlags::NOFOLLOW.bits().try_into();
    options.custom_flags(flag.unwrap_or(0)).open(path)
}

pub(in crate::fs) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

pub(in crate::fs) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// What macOS answers to `F_FULLFSYNC`, by which the standard library syncs there, on a file system
/// that does not have it: `EINVAL` (FUSE), `ENOTTY` (exFAT) and `ENOTSUP` (SMB).
const NO_FULL_SYNC: [i32; 3] = [22, 25, 45];

/// Makes a file durable, or the names in a directory. On macOS, a file system without a full sync
/// gives the bytes to the drive, whose cache a power cut may lose.
pub fn sync(file: &File) -> io::Result<()> {
    or_without_full_sync(file, file.sync_all())
}

/// Like [`sync`], but leaves out what reading the file does not need, such as its times.
pub(in crate::fs) fn sync_data(file: &File) -> io::Result<()> {
    or_without_full_sync(file, file.sync_data())
}

fn or_without_full_sync(file: &File, synced: io::Result<()>) -> io::Result<()> {
    match synced {
        // Not a sync that failed, which may not be repeated, but one that did not begin.
        Err(error) if cfg!(target_os = "macos") && lacks_full_sync(&error) => {
            Ok(rustix::fs::fsync(file)?)
        }
        synced => synced,
    }
}

fn lacks_full_sync(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| NO_FULL_SYNC.contains(&number))
}

/// Opens a directory to sync the names in it; `None` where that is not needed.
pub(in crate::fs) fn open_directory(path: &Path) -> io::Result<Option<File>> {
    File::open(path).map(Some)
}

/// Space of the file system that holds `path`.
pub(in crate::fs) fn space(path: &Path) -> Option<Space> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(Space {
        total: found.f_blocks.saturating_mul(found.f_frsize),
        free: found.f_bavail.saturating_mul(found.f_frsize),
    })
}

/// Locks a file until its handle is closed. Other processes can still read it.
pub(in crate::fs) fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Returns the allocated bytes, or the length if that is more: a log is allocated ahead of its
/// contents, and some file systems allocate late.
pub(in crate::fs) fn used_by(found: &Metadata) -> u64 {
    const BLOCK_BYTES: u64 = 512;
    found.len().max(found.blocks() * BLOCK_BYTES)
}

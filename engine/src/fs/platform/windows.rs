//! Windows: access control lists instead of modes, no syncs of directories.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::Space;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a link itself instead of its target.
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;

/// Creates a directory and its parents. It inherits the permissions of its parent: below a user's
/// profile, only that user has access.
pub(in crate::fs) fn create_private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Files inherit the access rights of their directory.
pub(in crate::fs) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Opens a file unless its name is a symbolic link.
pub(in crate::fs) fn open_unlinked(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(OPEN_REPARSE_POINT).open(path)?;
    if file.metadata()?.is_symlink() {
        return Err(io::Error::other("the file is a symbolic link"));
    }
    Ok(file)
}

pub(in crate::fs) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

pub(in crate::fs) fn write_all_at(
    file: &File,
    mut bytes: &[u8],
    mut offset: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns `None`, because Windows has no call that syncs a directory. NTFS logs changes of names,
/// in order, and flushing any file that was created or renamed writes that log.
pub(in crate::fs) fn open_directory(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Unknown: the standard library has no call for it. A full disk is noticed by the write that
/// fails.
pub(in crate::fs) fn space(_: &Path) -> Option<Space> {
    None
}

pub(in crate::fs) fn used_by(found: &Metadata) -> u64 {
    found.len()
}

//! Windows: access control lists instead of modes, no syncs of directories.
//!
//! The two calls that the standard library lacks are unsafe: free space, and a lock of a part of a
//! file.
#![allow(
    unsafe_code,
    reason = "calls of the system; each block has a comment on why it is sound"
)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::Space;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::iter::once;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION};
use windows_sys::Win32::Storage::FileSystem::{
    GetDiskFreeSpaceExW, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

/// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a link itself instead of its target.
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;

/// Error numbers of files that another program may hold: `ERROR_ACCESS_DENIED`,
/// `ERROR_SHARING_VIOLATION`, `ERROR_LOCK_VIOLATION` and `ERROR_USER_MAPPED_FILE`.
pub(in crate::fs) const HELD_BY_OTHERS: &[i32] = &[5, 32, 33, 1224];

/// Creates a directory and its parents. They inherit the access rights of their parent: below a
/// user's profile, only that user, the administrators and the system have access. Elsewhere, all
/// users of the machine usually have.
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

/// Returns `None`, because Windows has no call that syncs a directory. We assume that a flush of
/// any file also makes the changes of names before it durable: NTFS logs them in order. No document
/// of Windows promises this.
pub(in crate::fs) fn open_directory(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Makes a file durable.
pub fn sync(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Like [`sync`].
pub(in crate::fs) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Space of the file system that holds the directory `path`, within the quota of this user if there
/// is one.
pub(in crate::fs) fn space(path: &Path) -> Option<Space> {
    // The canonical form may be longer than 260 characters. The path of a share must end in a
    // separator.
    let path = path.canonicalize().ok()?.join("");
    let name: Vec<u16> = path.as_os_str().encode_wide().chain(once(0)).collect();
    let (mut free, mut total) = (0, 0);
    // SAFETY: `name` ends with a zero. The pointers lead to integers that outlive the call; the
    // last one may be null.
    let found = unsafe { GetDiskFreeSpaceExW(name.as_ptr(), &mut free, &mut total, null_mut()) };
    (found != 0).then_some(Space { total, free })
}

/// The byte that a lock covers: far after the end of every lock file, so that others can read it.
const LOCKED_BYTE: u64 = 1 << 62;

/// Locks a file until its handle is closed. Other processes can still read the process id in it.
pub(in crate::fs) fn try_lock(file: &File) -> Result<(), TryLockError> {
    let mut range = OVERLAPPED::default();
    range.Anonymous.Anonymous.Offset = LOCKED_BYTE as u32;
    range.Anonymous.Anonymous.OffsetHigh = (LOCKED_BYTE >> 32) as u32;
    let flags = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    // SAFETY: The handle is open, and was not opened for overlapped calls, so the system uses
    // `range` only during the call.
    let locked = unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &mut range) };
    if locked != 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    let taken = [ERROR_LOCK_VIOLATION, ERROR_IO_PENDING].map(|number| Some(number as i32));
    Err(if taken.contains(&error.raw_os_error()) {
        TryLockError::WouldBlock
    } else {
        TryLockError::Error(error)
    })
}

pub(in crate::fs) fn used_by(found: &Metadata) -> u64 {
    found.len()
}

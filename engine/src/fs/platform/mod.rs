//! Calls that differ between operating systems, under the same names for each. The rest of the
//! engine contains no code for one system, except the error numbers in `base/error.rs` and the
//! modules of [`super`] that exist only on Linux: `direct`, `log_file`, `map` and
//! `write_paths/linux.rs`.
//!
//! `linux` and `portable` are alternatives: the second has the same functions without the additions
//! of Linux (`lengthen` instead of `allocate`). `unix` (Linux, macOS) and `windows` are
//! alternatives too. The standard library already unifies the following:
//!
//! - `File::sync_all` and `sync_data` reach the medium everywhere (macOS: `F_FULLFSYNC`, which some
//!   file systems lack; Windows: `FlushFileBuffers`).
//! - Files are opened with `FILE_SHARE_READ`, `_WRITE` and `_DELETE` on Windows, so that open files
//!   can be replaced by a rename and removed there as on Unix; a removed file stays readable
//!   through its open handles (POSIX semantics, Windows 10 1809 or newer on NTFS).

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::lower_priority;
#[cfg(target_os = "linux")]
pub(super) use linux::{allocate, open};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::lower_priority;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{lengthen, open};
#[cfg(unix)]
pub use unix::sync;
#[cfg(unix)]
pub(super) use unix::{
    HELD_BY_OTHERS, create_private_directory, open_directory, open_unlinked, owner_only, read_at,
    space, sync_data, try_lock, used_by, write_all_at,
};
#[cfg(windows)]
pub use windows::sync;
#[cfg(windows)]
pub(super) use windows::{
    HELD_BY_OTHERS, create_private_directory, open_directory, open_unlinked, owner_only, read_at,
    space, sync_data, try_lock, used_by, write_all_at,
};

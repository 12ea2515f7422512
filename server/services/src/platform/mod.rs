//! The differences between operating systems, under the same names for each. The rest of the server
//! contains no code for one system, except the allocator in `main.rs`.
//!
//! `unix` (Linux, macOS) and `windows` are alternatives: signals, rights of files, links, limits,
//! the name of the machine. `linux` and `portable` are alternatives too: facts about other
//! processes and memory, which Linux has in `/proc`. `tests/e2e/platform.rs` enforces this.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use lazurite_engine::fs::{DiskFs, Fs};
use std::path::Path;

pub use lazurite_engine::fs::{patiently, sync};
#[cfg(target_os = "linux")]
pub use linux::{listener, memory_bytes, process_name, process_start, resident_bytes};
#[cfg(not(target_os = "linux"))]
pub use portable::{listener, memory_bytes, process_name, process_start, resident_bytes};
#[cfg(all(unix, debug_assertions))]
pub use unix::thread_processor_time;
#[cfg(unix)]
pub use unix::{
    SETTINGS_IN_HOME, Signals, append_private, create_private, create_private_directory, disk_use,
    host_name, is_writable, keep_private, link_program, make_private, open_files_max, own_user,
    parent_process, raise_open_files, restrict_to_owner, rights, standard_error, standard_output,
};
#[cfg(all(windows, debug_assertions))]
pub use windows::thread_processor_time;
#[cfg(windows)]
pub use windows::{
    SETTINGS_IN_HOME, Signals, append_private, create_private, create_private_directory, disk_use,
    host_name, is_writable, keep_private, link_program, make_private, open_files_max, own_user,
    parent_process, raise_open_files, restrict_to_owner, rights, standard_error, standard_output,
};

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// End orderly.
    Stop,
    /// Reload keys and certificates. Windows has no such signal.
    Reload,
}

/// The owner and the mode of a file on Unix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    pub owner: u32,
    /// The nine permission bits.
    pub mode: u32,
}

/// Bytes that this user can still write to the file system of a directory; `None` if unknown.
pub fn free_bytes(directory: &Path) -> Option<u64> {
    Some(DiskFs::default().space(directory)?.free)
}

//! The interface between the engine and everything outside: files and time.
//!
//! Every byte of the engine goes through [`Fs`], so that a test can fail any call or cut the power
//! after it. Errors here are the operating system's own; `directory.rs` adds the attempt and the
//! file.

#[cfg(target_os = "linux")]
mod direct;
pub(crate) mod directory;
mod disk;
mod disk_file;
pub(crate) mod environment;
pub(crate) mod ids;
#[cfg(target_os = "linux")]
mod log_file;
#[cfg(target_os = "linux")]
mod map;
mod memory;
pub(crate) mod name;
mod pages;
mod patience;
mod platform;
pub(crate) mod reserve;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
mod write_paths;

pub use disk::{DiskFs, SystemClock};
#[cfg(any(test, feature = "testing"))]
pub use memory::Keep;
pub use memory::MemoryFs;
pub(crate) use pages::{PAGE_BYTES, PageBuffer};
pub use patience::patiently;
pub(crate) use platform::lower_priority;
pub use platform::sync;
#[cfg(any(test, feature = "testing"))]
pub use testing::{Failure, Fault, FaultFs, HookFs, ManualClock, Operation};

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A file system, as far as the engine needs one. All calls block.
pub trait Fs: Send + Sync + Debug {
    /// Creates the directory and its parents; no error if it exists. Each name is durable after
    /// `sync_directory` of the directory that it is in.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Creates a file for reading and writing; an existing one is emptied. The name is durable
    /// after `sync_directory`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens a file for reading and for writing in place, creating it if absent. Lengthens it to at
    /// least `length` bytes: new bytes are zeros, and earlier contents stay. Where the file system
    /// can, allocates these bytes, so that writing them takes no more space.
    fn open_log(&self, path: &Path, length: u64, writes: LogWrites) -> io::Result<Arc<dyn File>>;
    /// Renames, and replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, perhaps in another directory; an error if the name is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; open handles stay readable.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory that is empty; an error if it is not.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Opens a directory, to sync it.
    fn open_directory(&self, path: &Path) -> io::Result<Arc<dyn OpenDirectory>>;
    /// Makes creations, renames and removals in the directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.open_directory(path)?.sync()
    }
    /// Space of the file system that holds `path`; `None` if unknown or unlimited.
    fn space(&self, path: &Path) -> Option<Space> {
        let _ = path;
        None
    }
    /// Bytes that the files of the directory take; 0 where that is not known.
    fn used(&self, path: &Path) -> io::Result<u64> {
        let _ = path;
        Ok(0)
    }
    /// Locks the lock file at `path` for this process until the guard is dropped. If it is locked
    /// already, returns the process id of its owner.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
}

/// Maximum number of zeros that a write to a log ends with. The next write replaces them.
pub(crate) const LOG_TAIL_BYTES: usize = 16;

/// The time by which bytes written to a log must reach the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogWrites {
    /// Before the write returns: the death of the process loses nothing.
    AtOnce,
    /// At the first sync that begins after the write. Bytes after a write, to the end of its page,
    /// may become zeros.
    AtSync,
}

/// The space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free and used space together.
    pub total: u64,
    /// Bytes that may still be written.
    pub free: u64,
}

/// The reserve is at most 1/16 of the total space.
const RESERVE_PART: u64 = 16;

impl Space {
    /// Returns the bytes that new data must leave free, so that deletions and background work can
    /// proceed: `reserve_bytes`, less on a small disk.
    pub fn reserve(self, reserve_bytes: u64) -> u64 {
        reserve_bytes.min(self.total / RESERVE_PART)
    }
}

/// The result of [`Fs::lock`].
#[derive(Debug)]
pub enum Lock {
    /// The caller has the lock until it drops the guard.
    Taken(Box<dyn LockGuard>),
    /// Another holder has the lock: its process id, 0 if unknown.
    Held(u32),
}

/// A directory that is open, so that syncing it takes no file handle.
pub trait OpenDirectory: Send + Sync + Debug {
    /// Makes creations, renames and removals in the directory durable.
    fn sync(&self) -> io::Result<()>;
}

/// Holds a lock file until dropped.
pub trait LockGuard: Send + Sync + Debug {}

/// An open file. All calls block and may be made from several threads.
pub trait File: Send + Sync + Debug {
    /// Reads at most `buffer.len()` bytes; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes`, extending the file if needed. After an error any part of them may
    /// have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the contents and the length durable.
    fn sync(&self) -> io::Result<()>;
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeros) the file to `length` bytes. A file from `open_log` whose blocks
    /// are allocated keeps its length, but its bytes from `length` on may become zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Simulates the loss of a failed sync on a model of a disk: unsynced changes stay readable,
    /// but no later sync makes them durable. Does nothing on a real disk.
    fn lose_unsynced(&self) {}
}

/// A clock: the time since some fixed moment, which never goes back.
pub trait Clock: Send + Sync + Debug {
    /// The time since that moment.
    fn now(&self) -> Duration;
}

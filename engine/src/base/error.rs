//! Error and Result: failures of the engine, one variant for each reaction of a caller.
//!
//! Absence is `None`, never an error. Errors are cheap to clone, because one failed sync is
//! reported to all waiting writers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The operating system refused a call. Reads may be retried; a failed write leaves the `Db`
    /// read-only. If the process has no free file handle, only work that needs one fails, and that
    /// work may be retried.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempt, as a verb: `open`, `read`, `sync`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<std::io::Error>,
    },
    /// The disk or the quota is full. Puts fail a little earlier, because they must leave the
    /// reserve free. Reads continue; writes succeed again once there is space.
    #[error("no space left on the device that holds {}", path.display())]
    NoSpace {
        /// The file that could not grow, or the directory.
        path: PathBuf,
    },
    /// Bytes on disk differ from those written. Every read that needs them fails.
    #[error("{} is corrupt at offset {offset}: {reason}", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Byte offset of the unit that failed its check.
        offset: u64,
        /// The check that failed. [`crate::Db::open`] adds what the file contained, and advice for
        /// the operator.
        reason: String,
    },
    /// A key, value or batch is over a limit of the engine.
    #[error("{what} of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// The thing that was too large: `key`, `bound of a range`, `batch`.
        what: &'static str,
        /// Length of that thing, in bytes.
        length: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The directory is open already, in another process or in this one.
    #[error("{} is in use by process {process_id}; stop it, or choose another directory", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process id of the owner, read from the lock file; 0 if it could not be read.
        process_id: u32,
    },
    /// The directory has a format that this program cannot read.
    #[error("{} has {found}, which this program cannot read; it reads {supported}", path.display())]
    UnknownFormat {
        /// The file or directory that has the unknown format.
        path: PathBuf,
        /// Its contents, in words: `format version 9`, `files that are not ours`.
        found: String,
        /// The formats that this program reads, in words.
        supported: String,
    },
    /// An earlier failure stopped all writing, because the disk may have kept any part of the
    /// failed write. Reads continue; reopen to write again.
    #[error(
        "the store is read-only since an earlier failure: {reason}; mend the cause and reopen it"
    )]
    ReadOnly {
        /// The failure that stopped the writing.
        reason: String,
    },
    /// The keyspace was opened from another store, or from this one before it was reopened. Open it
    /// from the `Db` that uses it.
    #[error("the keyspace {name:?} was opened from another store; open it from this one")]
    UnknownKeyspace {
        /// The name of the keyspace in the store that it was opened from.
        name: String,
    },
    /// A large value was written through another store, or through this one before it was reopened;
    /// or one of its chunks is missing, out of order or of another value. Write a value through the
    /// `Db` that takes it, and its chunks through its own `ValueWriter`.
    #[error(
        "a large value belongs to another store, or one of its chunks is missing, out of order or of another value"
    )]
    UnknownValue,
    /// An option of [`Config`](crate::Config) or [`KeyspaceOptions`](crate::KeyspaceOptions) is out
    /// of its bounds.
    #[error("{option} cannot be {value}: {reason}")]
    InvalidOption {
        /// The name of the option.
        option: &'static str,
        /// The refused value.
        value: u64,
        /// The values that the option may have, and why.
        reason: String,
    },
    /// Another transaction holds a key that this one requested out of order, or requested
    /// exclusively while it shares the key. Nothing was written; drop the transaction and begin
    /// again.
    #[error("another transaction has locked a key of this one; begin this one again")]
    Conflict,
    /// A thread that holds key locks in one transaction requested a key in another one, and the key
    /// was not free: the thread could wait for itself. Lock all keys in one transaction.
    #[error("a thread with locked keys would wait for a key in a second transaction")]
    Deadlock,
    /// The `Db` was closed.
    #[error("the store is closed")]
    Closed,
}

/// The operating system's error numbers for too many open files in the process (`EMFILE`) and in
/// the system (`ENFILE`).
#[cfg(unix)]
pub(crate) const TOO_MANY_OPEN_FILES: &[i32] = &[24, 23];
/// The operating system's error number for too many open files on the server of a share:
/// `ERROR_TOO_MANY_OPEN_FILES`. Windows itself has no such limit.
#[cfg(windows)]
pub(crate) const TOO_MANY_OPEN_FILES: &[i32] = &[4];

/// True if the process or the system has no free file handle. Only calls that open something return
/// this error.
pub(crate) fn lacks_handle(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| TOO_MANY_OPEN_FILES.contains(&number))
}

impl Error {
    /// The error for an `action` on `path` that the operating system refused. A full disk has its
    /// own variant, because it is temporary.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace {
                path: path.to_path_buf(),
            },
            _ => Error::Io {
                action,
                path: path.to_path_buf(),
                source: Arc::new(source),
            },
        }
    }

    /// The error for a failed sync. Lack of space is not temporary here: writes that the disk has
    /// not kept are lost, and the next sync would not report the loss.
    pub fn sync(path: &Path, source: io::Error) -> Error {
        Error::Io {
            action: "sync",
            path: path.to_path_buf(),
            source: Arc::new(source),
        }
    }

    /// Turns `NoSpace` into a failure that does not pass: for the undoing of a write, and for the
    /// switch of CURRENT.
    pub(crate) fn not_full(self) -> Error {
        match self {
            Error::NoSpace { path } => Error::sync(&path, io::ErrorKind::StorageFull.into()),
            error => error,
        }
    }

    /// True if the work may be retried once there is space or a free file handle. The failed
    /// attempt changed nothing, or its change was undone.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::Io { source, .. } => lacks_handle(source),
            _ => false,
        }
    }

    /// An [`Error::Corrupt`] about the bytes at `offset` of the file `path`.
    pub fn corrupt(path: &Path, offset: u64, reason: impl Into<String>) -> Error {
        Error::Corrupt {
            path: path.to_path_buf(),
            offset,
            reason: reason.into(),
        }
    }
}

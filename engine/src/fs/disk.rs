//! The real file system and clock. Only this file and its helpers in the folder `fs` call
//! `std::fs`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the seam that the rest of the engine goes through"
)]

use crate::fs::disk_file::{DiskFile, WRITE_BYTES};
use crate::fs::patience::Patience;
use crate::fs::{Clock, File, Fs, Lock, LockGuard, LogWrites, OpenDirectory, Space};
use crate::fs::{platform, write_paths};
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files on disk. Each call is patient with failures that pass by themselves
/// ([`patiently`](crate::fs::patiently)).
#[derive(Debug, Default)]
pub struct DiskFs {
    patience: Patience,
}

impl DiskFs {
    fn patiently<T>(&self, operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.patience.keep(operation)
    }

    /// Opens a file with `open`. That may take more rights than reading does, and writing is one of
    /// them on systems other than Linux: without them, opens the file for reading alone.
    pub(super) fn open_or_read(
        &self,
        path: &Path,
        open: impl Fn(&Path) -> io::Result<fs::File>,
    ) -> io::Result<fs::File> {
        match self.patiently(|| open(path)) {
            Err(error) if allows_reading_at_most(&error) => self.patiently(|| fs::File::open(path)),
            opened => opened,
        }
    }
}

#[cfg(test)]
impl DiskFs {
    pub(super) fn patient(patience: Patience) -> DiskFs {
        DiskFs { patience }
    }
}

impl Fs for DiskFs {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.patiently(|| platform::create_private_directory(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.patiently(|| fs::read_dir(path))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.patiently(|| writable().truncate(true).open(path))?;
        Ok(Arc::new(DiskFile::new(file, LONG_WRITE_BYTES)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.open_or_read(path, platform::open)?;
        Ok(Arc::new(DiskFile::new(file, WRITE_BYTES)))
    }

    fn open_log(&self, path: &Path, length: u64, writes: LogWrites) -> io::Result<Arc<dyn File>> {
        let file = self.patiently(|| writable().truncate(false).open(path))?;
        let present = file.metadata()?.len();
        write_paths::open_log(file, path, present, length, writes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.patiently(|| fs::rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.patiently(|| fs::hard_link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.patiently(|| fs::remove_file(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.patiently(|| fs::remove_dir(path))
    }

    fn open_directory(&self, path: &Path) -> io::Result<Arc<dyn OpenDirectory>> {
        // The parent of a bare file name is empty: it is the current directory.
        let is_here = path.as_os_str().is_empty();
        let path = if is_here { Path::new(".") } else { path };
        let directory = self.patiently(|| platform::open_directory(path))?;
        Ok(Arc::new(DiskDirectory(directory)))
    }

    fn space(&self, path: &Path) -> Option<Space> {
        platform::space(path)
    }

    fn used(&self, path: &Path) -> io::Result<u64> {
        let mut used = 0;
        for entry in self.patiently(|| fs::read_dir(path))? {
            // A file that was removed since the directory was listed takes nothing.
            let found = entry?.metadata();
            used += found.map_or(0, |found| platform::used_by(&found));
        }
        Ok(used)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut options = writable();
        // A symbolic link could lead to another file, whose contents would be replaced.
        let mut file = self.patiently(|| platform::open_unlinked(options.truncate(false), path))?;
        match platform::try_lock(&file) {
            Ok(()) => {
                match note_owner(&mut file) {
                    // The owner's process id is only information for the operator. Without it, the
                    // lock is taken all the same.
                    Err(error) if is_out_of_space(&error) => {}
                    noted => noted?,
                }
                Ok(Lock::Taken(Box::new(DiskLock { _file: file })))
            }
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // If it cannot be read, the process of the holder is unknown.
                let _ = file.read_to_string(&mut owner);
                Ok(Lock::Held(owner.trim().parse().unwrap_or(0)))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// An open directory; `None` on systems where names need no sync.
#[derive(Debug)]
struct DiskDirectory(Option<fs::File>);

impl OpenDirectory for DiskDirectory {
    fn sync(&self) -> io::Result<()> {
        let directory = self.0.as_ref();
        // A failed sync is not repeated: a second one may succeed without the data.
        directory.map_or(Ok(()), platform::sync)
    }
}

/// Holds the lock until the file is closed. The death of the process closes it too.
#[derive(Debug)]
struct DiskLock {
    _file: fs::File,
}

impl LockGuard for DiskLock {}

fn note_owner(file: &mut fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}

fn allows_reading_at_most(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
    ];
    kinds.contains(&error.kind())
}

fn is_out_of_space(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.contains(&error.kind())
}

/// Options that open a file for reading and writing, or create it for its owner alone.
fn writable() -> OpenOptions {
    let mut options = OpenOptions::new();
    platform::owner_only(options.read(true).write(true).create(true));
    options
}

/// Bytes of one write to a file with random reads. Writes of 256 KiB produce large folios, which
/// read 25 % faster than those of [`WRITE_BYTES`].
const LONG_WRITE_BYTES: usize = 256 << 10;

/// The monotonic clock of the operating system.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

//! The real file system and clock. Only this file and its helpers in the folder `fs` call
//! `std::fs`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the seam that the rest of the engine goes through"
)]

use crate::base::error::lacks_handle;
use crate::fs::disk_file::{DiskFile, WRITE_BYTES};
use crate::fs::{Clock, File, Fs, Lock, LockGuard, LogWrites, OpenDirectory, Space};
use crate::fs::{platform, write_paths};
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files on disk.
#[derive(Debug, Default)]
pub struct DiskFs(());

impl Fs for DiskFs {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        platform::create_private_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        patiently(|| fs::read_dir(path))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = create(path)?;
        Ok(Arc::new(DiskFile::new(file, LONG_WRITE_BYTES)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = patiently(|| platform::open(path))?;
        Ok(Arc::new(DiskFile::new(file, WRITE_BYTES)))
    }

    fn open_log(&self, path: &Path, length: u64, writes: LogWrites) -> io::Result<Arc<dyn File>> {
        let file = patiently(|| writable().truncate(false).open(path))?;
        let present = file.metadata()?.len();
        write_paths::open_log(file, path, present, length, writes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn open_directory(&self, path: &Path) -> io::Result<Arc<dyn OpenDirectory>> {
        // The parent of a bare file name is empty: it is the current directory.
        let is_here = path.as_os_str().is_empty();
        let path = if is_here { Path::new(".") } else { path };
        let directory = patiently(|| platform::open_directory(path))?;
        Ok(Arc::new(DiskDirectory(directory)))
    }

    fn space(&self, path: &Path) -> Option<Space> {
        platform::space(path)
    }

    fn used(&self, path: &Path) -> io::Result<u64> {
        let mut used = 0;
        for entry in patiently(|| fs::read_dir(path))? {
            // A file that was removed since the directory was listed takes nothing.
            let found = entry?.metadata();
            used += found.map_or(0, |found| platform::used_by(&found));
        }
        Ok(used)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut file = open_lock(path)?;
        match file.try_lock() {
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
                // The lock may prevent reading, too: then the process of its holder is unknown.
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
        directory.map_or(Ok(()), |directory| directory.sync_all())
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

fn create(path: &Path) -> io::Result<fs::File> {
    patiently(|| writable().truncate(true).open(path))
}

/// The longest wait for a free file descriptor.
const DESCRIPTOR_PATIENCE: Duration = Duration::from_secs(30);
/// Interval between attempts to get a file descriptor.
const DESCRIPTOR_STEP: Duration = Duration::from_millis(20);

/// Calls `open`. Waits while the process or the system has no free file descriptor, at most
/// [`DESCRIPTOR_PATIENCE`]: connections of clients may hold all descriptors for a short time.
fn patiently<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + DESCRIPTOR_PATIENCE;
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if lacks_handle(&error) && Instant::now() < deadline => {
                std::thread::sleep(DESCRIPTOR_STEP);
            }
            opened => return opened,
        }
    }
}

/// Opens the lock file, to replace its contents. Does not follow a symbolic link, which could lead
/// to another file.
fn open_lock(path: &Path) -> io::Result<fs::File> {
    let mut options = writable();
    patiently(|| platform::open_unlinked(options.truncate(false), path))
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

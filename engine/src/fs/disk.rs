//! The real file system and clock: the only file of the engine that calls `std::fs`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the seam that the rest of the engine goes through"
)]

#[cfg(not(unix))]
compile_error!(
    "Windows is not supported: files and the lock of a directory are used as Unix knows them"
);

#[cfg(target_os = "linux")]
use super::Space;
use super::disk_file::{DiskFile, WRITE_BYTES};
use super::{Clock, File, Fs, Lock, LockGuard, LogWrites};
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files on disk.
#[derive(Debug, Default)]
pub struct DiskFs {
    #[cfg(target_os = "linux")]
    costs: Arc<super::large::WriteCosts>,
}

impl Fs for DiskFs {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)
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

    #[cfg(target_os = "linux")]
    fn create_large(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        use super::{direct::DirectFile, large::LargeFile};
        Ok(match DirectFile::open(create(path)?, path) {
            Ok(file) => Arc::new(LargeFile::new(file, self.costs.clone())),
            Err(file) => Arc::new(DiskFile::new(file, WRITE_BYTES)),
        })
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(DiskFile::new(open(path)?, WRITE_BYTES)))
    }

    fn open_log(&self, path: &Path, length: u64, writes: LogWrites) -> io::Result<Arc<dyn File>> {
        let file = patiently(|| writable().truncate(false).open(path))?;
        let present = file.metadata()?.len();
        if present < length {
            allocate(&file, length)?;
        }
        #[cfg(target_os = "linux")]
        return open_log(file, path, present, length, writes);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = writes;
            Ok(Arc::new(DiskFile::new(file, WRITE_BYTES)))
        }
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

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        // Where a relative path begins.
        let is_here = path.as_os_str().is_empty();
        let path = if is_here { Path::new(".") } else { path };
        patiently(|| fs::File::open(path))?.sync_all()
    }

    #[cfg(target_os = "linux")]
    fn space(&self, path: &Path) -> Option<Space> {
        let found = rustix::fs::statvfs(path).ok()?;
        Some(Space {
            total: found.f_blocks.saturating_mul(found.f_frsize),
            free: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }

    /// What is allocated, which a log is ahead of its contents, or will be: some file systems allocate late.
    fn used(&self, path: &Path) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        const BLOCK_BYTES: u64 = 512;
        let mut used = 0;
        for entry in patiently(|| fs::read_dir(path))? {
            // A file that was removed in between takes nothing.
            used += entry?
                .metadata()
                .map_or(0, |found| found.len().max(found.blocks() * BLOCK_BYTES));
        }
        Ok(used)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut file = open_lock(path)?;
        match file.try_lock() {
            Ok(()) => {
                match note_owner(&mut file) {
                    // Whose it is helps a person; the lock is taken all the same.
                    Err(error) if is_out_of_space(&error) => {}
                    noted => noted?,
                }
                Ok(Lock::Taken(Box::new(DiskLock { _file: file })))
            }
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                file.read_to_string(&mut owner)?;
                Ok(Lock::Held(owner.trim().parse().unwrap_or(0)))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The lock goes when the file is closed, also by the death of the process.
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

/// For reading and writing, creating what is absent, for the owner alone.
fn writable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create(path: &Path) -> io::Result<fs::File> {
    patiently(|| writable().truncate(true).open(path))
}

/// How long a free file descriptor is waited for.
const DESCRIPTOR_PATIENCE: Duration = Duration::from_secs(30);
/// How often one is asked for.
const DESCRIPTOR_STEP: Duration = Duration::from_millis(20);

/// Opens something, and waits while the process or the system has no file descriptor left: connections may have them all, and close. A
/// store that failed for that would have to be opened anew.
fn patiently<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + DESCRIPTOR_PATIENCE;
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_out_of_descriptors(&error) && Instant::now() < deadline => {
                std::thread::sleep(DESCRIPTOR_STEP);
            }
            opened => return opened,
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errors = [Errno::MFILE, Errno::NFILE].map(|error| Some(error.raw_os_error()));
    errors.contains(&error.raw_os_error())
}

/// Opens the lock file, whose contents are about to be replaced: never those of another file that a symbolic link leads to.
fn open_lock(path: &Path) -> io::Result<fs::File> {
    let mut options = writable();
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flag = rustix::fs::OFlags::NOFOLLOW.bits().try_into();
        options.custom_flags(flag.unwrap_or(0));
    }
    #[cfg(not(target_os = "linux"))]
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Err(io::Error::other("the lock file is a symbolic link"));
    }
    patiently(|| options.truncate(false).open(path))
}

/// Opens for reading.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    // To look whether the time of the last access has to be noted costs each read a sixth of its time.
    let flag = rustix::fs::OFlags::NOATIME.bits().try_into();
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(flag.unwrap_or(0));
    patiently(|| match options.open(path) {
        // Only the owner of a file may ask for that.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::File::open(path),
        opened => opened,
    })
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> io::Result<fs::File> {
    patiently(|| fs::File::open(path))
}

/// For files with random reads. Writes of 256 KiB produce large folios, which read 25 % faster than those of [`WRITE_BYTES`].
const LONG_WRITE_BYTES: usize = 256 << 10;

/// For the log, which is written through a mapping: its pages are as long as the writes that made them, and each is taken into the
/// mapping once instead of every 4 KiB. The price is that a sync writes 16 KiB for a row that came alone.
#[cfg(target_os = "linux")]
const LOG_WRITE_BYTES: usize = 16 << 10;

/// Writes zeros behind what is there, up to `length`.
#[cfg(target_os = "linux")]
fn fill(file: &DiskFile, present: u64, length: u64) -> io::Result<()> {
    let zeros = [0; LOG_WRITE_BYTES];
    let first = present.next_multiple_of(LOG_WRITE_BYTES as u64);
    (first..length)
        .step_by(LOG_WRITE_BYTES)
        .try_for_each(|offset| {
            let count = (length - offset).min(LOG_WRITE_BYTES as u64);
            file.write_at(&zeros[..count as usize], offset)
        })
}

#[cfg(target_os = "linux")]
fn allocate(file: &fs::File, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        // Not every file system can; then the blocks are taken when they are written.
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(length),
        allocated => Ok(allocated?),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(file: &fs::File, length: u64) -> io::Result<()> {
    file.set_len(length)
}

#[cfg(target_os = "linux")]
fn open_log(
    file: fs::File,
    path: &Path,
    present: u64,
    length: u64,
    writes: LogWrites,
) -> io::Result<Arc<dyn File>> {
    if writes == LogWrites::AtSync {
        use super::{direct::DirectFile, log_file::GatheredFile};
        return Ok(match DirectFile::open(file, path) {
            Ok(file) => Arc::new(GatheredFile::new(file, present, length)?),
            Err(file) => Arc::new(DiskFile::new(file, WRITE_BYTES)),
        });
    }
    Ok(match super::map::LogMap::new(&file, length) {
        Some(map) => {
            let file = DiskFile::new(file, LOG_WRITE_BYTES);
            fill(&file, present, length)?;
            Arc::new(MappedFile { file, length, map })
        }
        None => Arc::new(DiskFile::new(file, WRITE_BYTES)),
    })
}

/// A log segment: writes within its length go through a mapping, those behind it through the file.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct MappedFile {
    file: DiskFile,
    length: u64,
    map: super::map::LogMap,
}

#[cfg(target_os = "linux")]
impl File for MappedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let inside = self.length.saturating_sub(offset).min(bytes.len() as u64);
        let (mapped, behind) = bytes.split_at(inside as usize);
        if !behind.is_empty() {
            self.file.write_at(behind, offset + inside)?;
        }
        if !mapped.is_empty() {
            self.map.write(mapped, offset as usize)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.map.release_written()?;
        // The kernel writes the dirty pages of a mapping with those of the file, and reports their errors here.
        self.file.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length.max(self.length))
    }
}

/// Raises the calling thread's `nice` value, where threads have a priority of their own.
#[cfg(target_os = "linux")]
pub(crate) fn lower_priority(nice: i32) {
    if nice > 0 {
        // Linux takes it for the calling thread alone. Without it the thread is only less polite.
        let _ = rustix::process::nice(nice);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_priority(_: i32) {}

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::fs::{Advice, fadvise};

    #[test]
    fn what_is_read_around_is_the_same_from_memory_and_from_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..300_000u32).map(|at| (at / 7) as u8).collect();
        let file = DiskFs::default().create(&path).unwrap();
        file.write_at(&content, 0).unwrap();
        file.sync().unwrap();
        let file = DiskFile::new(open(&path).unwrap(), WRITE_BYTES);
        let around = || Some(65_536..131_072);
        let mut buffer = vec![0; 5000];
        for offset in [70_000, 80_000, 90_000, 299_000, 300_000] {
            let read = file.read_around_at(&mut buffer, offset, &around).unwrap();
            let end = content.len().min(offset as usize + read);
            assert_eq!(buffer[..read], content[offset as usize..end], "{offset}");
            assert!(read > 0 || offset == 300_000);
            // From now on the disk has to be asked, where the system can take it from memory.
            fadvise(&file.file, 0, None, Advice::DontNeed).unwrap();
        }
    }

    #[test]
    fn what_a_store_creates_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/data");
        let db = crate::Db::open(&path, crate::Config::default()).unwrap();
        let keyspace = db.keyspace("a", Default::default()).unwrap();
        let mut batch = crate::Batch::new();
        batch.put(&keyspace, b"small", b"value");
        batch.put(&keyspace, b"large", &[1; 100_000]);
        db.write(batch).unwrap().wait().unwrap();
        db.flush(&keyspace).unwrap();
        db.checkpoint(&directory.path().join("copy")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for created in ["new", "new/data", "copy"] {
            assert_eq!(mode(&directory.path().join(created)), 0o700, "{created}");
        }
        let mut kinds = std::collections::BTreeSet::new();
        for entry in fs::read_dir(&path).unwrap() {
            let file = entry.unwrap().path();
            assert_eq!(mode(&file), 0o600, "{}", file.display());
            let kind = file
                .extension()
                .or(file.file_name())
                .map(|kind| kind.to_owned());
            kinds.extend(kind);
        }
        assert!(kinds.len() >= 6, "{kinds:?}");
    }

    #[test]
    fn a_lock_file_that_is_a_symbolic_link_is_refused_and_what_it_leads_to_is_unharmed() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        fs::write(&other, "precious").unwrap();
        let data = directory.path().join("data");
        fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&other, data.join("LOCK")).unwrap();
        let opened = crate::Db::open(&data, crate::Config::default());
        assert!(matches!(opened, Err(crate::Error::Io { .. })), "{opened:?}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    }

    #[test]
    fn a_log_that_grows_keeps_what_it_holds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut expected = Vec::new();
        for length in [5_000, 40_000, 100_000] {
            let fs = DiskFs::default();
            let file = fs.open_log(&path, length, LogWrites::AtOnce).unwrap();
            expected.resize(length as usize, 0);
            let mut bytes = vec![1; expected.len()];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
            assert!(bytes == expected, "{length} bytes long");
            let end = expected.len() - 10;
            expected[end..].fill(7);
            file.write_at(&expected[end..], end as u64).unwrap();
        }
    }
}

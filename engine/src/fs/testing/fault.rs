//! A file system that fails chosen calls, the n-th of a kind, once or from then on, or delays them.

use crate::base::error::TOO_MANY_OPEN_FILES;
use crate::base::mutex::lock;
use crate::fs::{File, Fs, Lock, LogWrites, OpenDirectory, Space};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A kind of call that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the calls")]
pub enum Operation {
    CreateDirectory,
    List,
    Create,
    Open,
    Rename,
    Link,
    Remove,
    SyncDirectory,
    Lock,
    Read,
    Write,
    Sync,
    Length,
    SetLength,
}

impl Operation {
    /// Whether the call takes a file handle.
    fn opens(self) -> bool {
        use Operation::{Create, List, Lock, Open};
        matches!(self, Create | List | Lock | Open)
    }
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The call returns this error. A failed write has written its first half, or nothing if the
    /// disk was already full. A failed sync loses the changes that it was to make durable.
    Error(io::ErrorKind),
    /// No file handle is left. Only calls that open something count and fail.
    NoHandle,
    /// The call panics, or returns an error if its thread is panicking already.
    Panic,
}

/// Which calls fail, and how.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The kind of calls that count; `None` for all.
    pub operation: Option<Operation>,
    /// Only calls on paths that contain this text count.
    pub path: String,
    /// Which of the calls that count fails first; the first is 1.
    pub nth: u64,
    /// How the call fails.
    pub failure: Failure,
    /// Whether all later calls that count fail too.
    pub sticky: bool,
}

/// Wraps another file system. A cheap handle.
#[derive(Debug, Clone)]
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    state: Arc<Mutex<State>>,
    holds: Arc<(Mutex<Holds>, Condvar)>,
}

/// The calls that wait or are delayed.
#[derive(Debug, Default)]
struct Holds {
    operation: Option<Operation>,
    waiting: usize,
    slow: Option<(Operation, Duration)>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    counted: u64,
    failed: u64,
}

impl FaultFs {
    /// Passes everything on until a fault is set.
    pub fn new(inner: Arc<dyn Fs>) -> FaultFs {
        FaultFs {
            inner,
            state: Arc::default(),
            holds: Arc::default(),
        }
    }

    /// Makes calls of this kind wait from now on; `None` releases all.
    pub fn hold(&self, operation: Option<Operation>) {
        let (holds, changed) = &*self.holds;
        lock(holds).operation = operation;
        changed.notify_all();
    }

    /// Adds the duration to each later call of this kind; `None` ends the delays.
    pub fn slow(&self, slow: Option<(Operation, Duration)>) {
        let (holds, changed) = &*self.holds;
        lock(holds).slow = slow;
        changed.notify_all();
    }

    /// Number of calls that are being held up.
    pub fn held(&self) -> usize {
        lock(&self.holds.0).waiting
    }

    fn wait_while_held(&self, operation: Operation) {
        let (holds, changed) = &*self.holds;
        let mut holds = lock(holds);
        if let Some((_, longer)) = holds.slow.filter(|(slow, _)| *slow == operation) {
            let slow = holds.slow;
            let is_slow = |holds: &mut Holds| holds.slow == slow;
            let waited = changed.wait_timeout_while(holds, longer, is_slow);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            return;
        }
        if holds.operation != Some(operation) {
            return;
        }
        holds.waiting += 1;
        let is_held = |holds: &mut Holds| holds.operation == Some(operation);
        let waited = changed.wait_while(holds, is_held);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    /// Sets or clears the fault. The count of calls begins again.
    pub fn set(&self, fault: Option<Fault>) {
        *self.state() = State {
            fault,
            ..State::default()
        };
    }

    /// Number of calls that counted since [`FaultFs::set`], and whether one has failed.
    pub fn seen(&self) -> (u64, bool) {
        let state = self.state();
        (state.counted, state.failed > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operation: Operation, path: &Path) -> io::Result<()> {
        self.wait_while_held(operation);
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(fault) = &state.fault else {
            return Ok(());
        };
        let other = fault.operation.is_some_and(|wanted| wanted != operation)
            || fault.failure == Failure::NoHandle && !operation.opens();
        if other || !path.to_string_lossy().contains(&fault.path) {
            return Ok(());
        }
        state.counted += 1;
        let fails = state.counted == fault.nth || (fault.sticky && state.counted > fault.nth);
        state.failed += u64::from(fails);
        let failure = fails.then_some(fault.failure);
        drop(guard);
        match failure {
            None => Ok(()),
            Some(Failure::Error(kind)) => Err(kind.into()),
            Some(Failure::NoHandle) => Err(io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES[0])),
            // A second panic in one thread would end the process.
            Some(Failure::Panic) if std::thread::panicking() => Err(io::ErrorKind::Other.into()),
            Some(Failure::Panic) => panic!("{operation:?} of {} panics on cue", path.display()),
        }
    }

    fn wrap(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultFile {
            fs: self.clone(),
            path: path.to_path_buf(),
            file,
        })
    }
}

impl Fs for FaultFs {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.check(Operation::CreateDirectory, path)?;
        self.inner.create_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.check(Operation::List, path)?;
        self.inner.list(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.check(Operation::Create, path)?;
        Ok(self.wrap(path, self.inner.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.check(Operation::Open, path)?;
        Ok(self.wrap(path, self.inner.open(path)?))
    }

    fn open_log(&self, path: &Path, length: u64, writes: LogWrites) -> io::Result<Arc<dyn File>> {
        self.check(Operation::Create, path)?;
        Ok(self.wrap(path, self.inner.open_log(path, length, writes)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Operation::Rename, to)?;
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Operation::Link, to)?;
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(Operation::Remove, path)?;
        self.inner.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.check(Operation::Remove, path)?;
        self.inner.remove_directory(path)
    }

    fn open_directory(&self, path: &Path) -> io::Result<Arc<dyn OpenDirectory>> {
        self.check(Operation::Open, path)?;
        Ok(Arc::new(FaultDirectory {
            fs: self.clone(),
            path: path.to_path_buf(),
            directory: self.inner.open_directory(path)?,
        }))
    }

    fn space(&self, path: &Path) -> Option<Space> {
        self.inner.space(path)
    }

    fn used(&self, path: &Path) -> io::Result<u64> {
        self.inner.used(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.check(Operation::Lock, path)?;
        self.inner.lock(path)
    }
}

#[derive(Debug)]
struct FaultDirectory {
    fs: FaultFs,
    path: PathBuf,
    directory: Arc<dyn OpenDirectory>,
}

impl OpenDirectory for FaultDirectory {
    fn sync(&self) -> io::Result<()> {
        self.fs.check(Operation::SyncDirectory, &self.path)?;
        self.directory.sync()
    }
}

#[derive(Debug)]
struct FaultFile {
    fs: FaultFs,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl File for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fs.check(Operation::Read, &self.path)?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.fs.check(Operation::Write, &self.path) {
            let was_full = error.kind() == io::ErrorKind::StorageFull && self.fs.state().failed > 1;
            let written = if was_full { 0 } else { bytes.len() / 2 };
            self.file.write_at(&bytes[..written], offset)?;
            return Err(error);
        }
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let failed = self.fs.check(Operation::Sync, &self.path);
        // Linux reports a failed writeback once and marks the pages clean: the next sync would
        // succeed without them.
        failed.inspect_err(|_| self.file.lose_unsynced())?;
        self.file.sync()
    }

    fn lose_unsynced(&self) {
        self.file.lose_unsynced();
    }

    fn length(&self) -> io::Result<u64> {
        self.fs.check(Operation::Length, &self.path)?;
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.fs.check(Operation::SetLength, &self.path)?;
        self.file.set_length(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{DiskFs, Keep, MemoryFs};

    #[test]
    fn writes_and_reads_of_the_disk_fail_on_cue() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let disk = FaultFs::new(Arc::new(DiskFs::default()));
        let fail = |operation| {
            disk.set(Some(Fault {
                operation: Some(operation),
                path: String::new(),
                nth: 1,
                failure: Failure::Error(io::ErrorKind::StorageFull),
                sticky: false,
            }));
        };
        fail(Operation::Create);
        assert!(disk.create(&path).is_err() && !path.exists());
        let file = disk.create(&path).unwrap();
        file.write_at(&[1; 8192], 0).unwrap();
        fail(Operation::Write);
        file.write_at(&[2; 8192], 8192).unwrap_err();
        assert_eq!(file.length().unwrap(), 8192 + 4096, "half is written");
        fail(Operation::Read);
        let mut bytes = [0; 10];
        assert!(file.read_at(&mut bytes, 0).is_err());
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1; 10]);
    }

    #[test]
    fn a_failed_sync_loses_its_writes_even_if_it_is_tried_again() {
        let path = Path::new("/d/f");
        let memory = MemoryFs::crashable();
        let disk = FaultFs::new(Arc::new(memory.clone()));
        disk.create_directory(Path::new("/d")).unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        for writes in [LogWrites::AtOnce, LogWrites::AtSync] {
            let file = disk.open_log(path, 8192, writes).unwrap();
            disk.sync_directory(Path::new("/d")).unwrap();
            file.write_at(b"synced", 0).unwrap();
            file.sync().unwrap();
            disk.set(Some(Fault {
                operation: Some(Operation::Sync),
                path: String::new(),
                nth: 1,
                failure: Failure::Error(io::ErrorKind::Other),
                sticky: false,
            }));
            file.write_at(b"lost", 6).unwrap();
            file.sync().unwrap_err();
            file.sync().unwrap();
            let mut read = [0; 10];
            file.read_at(&mut read, 0).unwrap();
            assert_eq!(&read, b"syncedlost", "{writes:?}: reads find it");
            let left = memory.crash(1, Keep::Nothing).files().remove(0).1;
            assert_eq!(left[..10], *b"synced\0\0\0\0", "{writes:?}");
            drop(file);
            disk.remove(path).unwrap();
        }
    }
}

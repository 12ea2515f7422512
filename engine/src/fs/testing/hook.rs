//! A file system that calls a hook before each sync and each write, to count, delay or fail them.

use crate::fs::testing::Operation;
use crate::fs::{File, Fs, Lock, LogWrites, OpenDirectory, Space};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Hook = dyn Fn(Operation, &Path) -> io::Result<()> + Send + Sync;

/// Wraps another file system. A cheap handle.
#[derive(Clone)]
pub struct HookFs {
    inner: Arc<dyn Fs>,
    hook: Arc<Hook>,
    writes_at_once: bool,
}

impl fmt::Debug for HookFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl HookFs {
    /// Calls `hook` before each write or sync of a file, and before each sync of a directory. An
    /// error of `hook` fails the call.
    pub fn new(
        inner: impl Fs + 'static,
        hook: impl Fn(Operation, &Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> HookFs {
        HookFs {
            inner: Arc::new(inner),
            hook: Arc::new(hook),
            writes_at_once: false,
        }
    }

    /// Makes logs write at once, as on a disk that refuses `O_DIRECT`, whatever the store asks for.
    pub fn at_once(self) -> HookFs {
        let writes_at_once = true;
        HookFs {
            writes_at_once,
            ..self
        }
    }

    fn wrap(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(HookFile {
            hook: self.hook.clone(),
            path: path.to_path_buf(),
            file,
        })
    }
}

impl Fs for HookFs {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.create_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.inner.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.inner.open(path)?))
    }

    fn open_log(&self, path: &Path, length: u64, writes: LogWrites) -> io::Result<Arc<dyn File>> {
        let writes = if self.writes_at_once {
            LogWrites::AtOnce
        } else {
            writes
        };
        Ok(self.wrap(path, self.inner.open_log(path, length, writes)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_directory(path)
    }

    fn open_directory(&self, path: &Path) -> io::Result<Arc<dyn OpenDirectory>> {
        Ok(Arc::new(HookDirectory {
            hook: self.hook.clone(),
            path: path.to_path_buf(),
            inner: self.inner.open_directory(path)?,
        }))
    }

    fn space(&self, path: &Path) -> Option<Space> {
        self.inner.space(path)
    }

    fn used(&self, path: &Path) -> io::Result<u64> {
        self.inner.used(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.inner.lock(path)
    }
}

struct HookDirectory {
    hook: Arc<Hook>,
    path: PathBuf,
    inner: Arc<dyn OpenDirectory>,
}

impl fmt::Debug for HookDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl OpenDirectory for HookDirectory {
    fn sync(&self) -> io::Result<()> {
        (self.hook)(Operation::SyncDirectory, &self.path)?;
        self.inner.sync()
    }
}

struct HookFile {
    hook: Arc<Hook>,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl fmt::Debug for HookFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl File for HookFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (self.hook)(Operation::Write, &self.path)?;
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (self.hook)(Operation::Sync, &self.path)?;
        self.file.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn lose_unsynced(&self) {
        self.file.lose_unsynced();
    }
}

//! Directory and OpenFile: file calls whose errors name the attempt and the file.

use crate::base::mutex::lock;
use crate::fs::name::FileName;
use crate::fs::{File, Fs, Lock, LockGuard, LogWrites, OpenDirectory, Space};
use crate::{Durability, Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// A data directory.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// Whether syncs of the directory and of its files reach the file system.
    syncs: bool,
    /// The store that has locked the directory; `None` if this handle changes names without a lock.
    owner: Option<Arc<Owner>>,
}

/// A store's right to change the names in its directory, from taking the lock to releasing it.
/// Readers may outlive the store; by then, another store may use the path, with files of the same
/// names.
#[derive(Debug)]
struct Owner {
    /// False after the release. Held for reading while names are changed.
    is_owner: RwLock<bool>,
    guard: Mutex<Option<Box<dyn LockGuard>>>,
    /// Kept open, because there may be no file handle left when a name has to become durable.
    /// `None` where nothing is synced.
    open: Option<Arc<dyn OpenDirectory>>,
}

impl Directory {
    pub(crate) fn new(fs: Arc<dyn Fs>, path: &Path) -> Directory {
        let path = path.to_path_buf();
        Directory {
            fs,
            path,
            syncs: true,
            owner: None,
        }
    }

    /// The same directory for the store that has taken its lock. See [`Directory::release`].
    pub(crate) fn owned(self, guard: Box<dyn LockGuard>) -> Result<Directory> {
        let open = self.syncs.then(|| self.fs.open_directory(&self.path));
        let open = open.transpose();
        let open = open.map_err(|error| Error::io("open", &self.path, error))?;
        Ok(Directory {
            owner: Some(Arc::new(Owner {
                is_owner: RwLock::new(true),
                guard: Mutex::new(Some(guard)),
                open,
            })),
            ..self
        })
    }

    /// Waits for changes of names that have begun, then gives up the lock. Later changes fail.
    pub(crate) fn release(&self) {
        if let Some(owner) = &self.owner {
            *owner
                .is_owner
                .write()
                .unwrap_or_else(PoisonError::into_inner) = false;
            *lock(&owner.guard) = None;
        }
    }

    /// Prevents a release while names are changed. Errors: `Closed` after the release.
    fn keep(&self) -> Result<Option<RwLockReadGuard<'_, bool>>> {
        let Some(owner) = &self.owner else {
            return Ok(None);
        };
        let is_owner = owner
            .is_owner
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if *is_owner {
            Ok(Some(is_owner))
        } else {
            Err(Error::Closed)
        }
    }

    /// Returns the same directory for a store of this durability. At `Memory` nothing is synced,
    /// because the store need not survive anything.
    pub(crate) fn at(self, durability: Durability) -> Directory {
        Directory {
            syncs: durability != Durability::Memory,
            ..self
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: FileName) -> PathBuf {
        self.path.join(name.to_string())
    }

    pub(crate) fn make(&self) -> Result<()> {
        let made = self.fs.create_directory(&self.path);
        made.map_err(|error| Error::io("create", &self.path, error))
    }

    /// Like [`Directory::make`]. Errors: `UnknownFormat` if the directory holds anything.
    pub(crate) fn make_empty(&self) -> Result<()> {
        self.make()?;
        match self.list()?.into_iter().next() {
            None => Ok(()),
            Some(name) => Err(Error::UnknownFormat {
                path: self.path.to_path_buf(),
                found: format!("a directory that is not empty ({name})"),
                supported: "a new or an empty directory".into(),
            }),
        }
    }

    /// Makes the name of the directory durable, and the names of its parents, which `make` may have
    /// created. Parents that cannot be opened or synced are skipped: `make` did not create them.
    pub(crate) fn sync_ancestors(&self) -> Result<()> {
        if !self.syncs {
            return Ok(());
        }
        for ancestor in self.path.ancestors().skip(1) {
            match self.fs.sync_directory(ancestor) {
                Err(error) if is_not_ours(&error) => {}
                synced => synced.map_err(|error| Error::sync(ancestor, error))?,
            }
        }
        Ok(())
    }

    pub(crate) fn list(&self) -> Result<Vec<String>> {
        let listed = self.fs.list(&self.path);
        listed.map_err(|error| Error::io("list", &self.path, error))
    }

    pub(crate) fn create(&self, name: FileName) -> Result<OpenFile> {
        let _kept = self.keep()?;
        let path = self.path_of(name);
        match self.fs.create(&path) {
            Ok(file) => Ok(self.opened(file, path)),
            Err(error) => Err(Error::io("create", &path, error)),
        }
    }

    /// Like [`Directory::create`]. The first sync of the file makes its name durable too.
    pub(crate) fn create_to_sync(&self, name: FileName) -> Result<OpenFile> {
        Ok(OpenFile {
            unsynced_name: Some(Arc::new(UnsyncedName {
                directory: self.clone(),
                is_synced: AtomicBool::new(false),
            })),
            ..self.create(name)?
        })
    }

    fn opened(&self, file: Arc<dyn File>, path: PathBuf) -> OpenFile {
        OpenFile {
            file,
            path: path.into(),
            syncs: self.syncs,
            unsynced_name: None,
        }
    }

    /// Opens a file that must exist: its absence is corruption.
    pub(crate) fn open(&self, name: FileName) -> Result<OpenFile> {
        let path = self.path_of(name);
        match self.fs.open(&path) {
            Ok(file) => Ok(self.opened(file, path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::corrupt(&path, 0, "the file is missing"))
            }
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }

    /// Opens or creates a file to be written in place, and allocates at least `length` bytes.
    pub(crate) fn open_log(
        &self,
        name: FileName,
        length: u64,
        writes: LogWrites,
    ) -> Result<OpenFile> {
        let _kept = self.keep()?;
        let path = self.path_of(name);
        match self.fs.open_log(&path, length, writes) {
            Ok(file) => Ok(self.opened(file, path)),
            Err(error) => Err(Error::io("create", &path, error)),
        }
    }

    /// Another directory of the same file system, synced if this one is.
    pub(crate) fn beside(&self, path: &Path) -> Directory {
        Directory {
            path: path.to_path_buf(),
            owner: None,
            ..self.clone()
        }
    }

    /// Gives the file a second name, in another directory.
    pub(crate) fn link(&self, name: FileName, target: &Directory) -> Result<()> {
        let _kept = self.keep()?;
        let path = target.path_of(name);
        let linked = self.fs.link(&self.path_of(name), &path);
        linked.map_err(|error| Error::io("link", &path, error))
    }

    pub(crate) fn rename(&self, from: FileName, to: FileName) -> Result<()> {
        let _kept = self.keep()?;
        let path = self.path_of(to);
        let renamed = self.fs.rename(&self.path_of(from), &path);
        renamed.map_err(|error| Error::io("rename", &path, error))
    }

    pub(crate) fn remove(&self, name: FileName) -> Result<()> {
        let _kept = self.keep()?;
        let path = self.path_of(name);
        let removed = self.fs.remove(&path);
        removed.map_err(|error| Error::io("remove", &path, error))
    }

    /// Removes the directory itself, which is empty.
    pub(crate) fn remove_self(&self) -> Result<()> {
        let removed = self.fs.remove_directory(&self.path);
        removed.map_err(|error| Error::io("remove", &self.path, error))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        if !self.syncs {
            return Ok(());
        }
        let owner = self.owner.as_ref();
        let synced = match owner.and_then(|owner| owner.open.as_ref()) {
            Some(open) => open.sync(),
            None => self.fs.sync_directory(&self.path),
        };
        synced.map_err(|error| Error::sync(&self.path, error))
    }

    /// Space of the file system that holds the directory; `None` if unknown or unlimited.
    pub(crate) fn space(&self) -> Option<Space> {
        self.fs.space(&self.path)
    }

    /// Bytes that the files of the directory take; 0 if that is not known.
    pub(crate) fn used(&self) -> u64 {
        self.fs.used(&self.path).unwrap_or(0)
    }

    pub(crate) fn lock(&self) -> Result<Lock> {
        let path = self.path_of(FileName::Lock);
        let locked = self.fs.lock(&path);
        locked.map_err(|error| Error::io("lock", &path, error))
    }
}

fn is_not_ours(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let kinds = [
        InvalidInput,
        PermissionDenied,
        ReadOnlyFilesystem,
        Unsupported,
    ];
    kinds.contains(&error.kind())
}

/// An open file that knows its path.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    file: Arc<dyn File>,
    path: Arc<Path>,
    /// Whether syncs reach the file system, as for the directory of the file.
    syncs: bool,
    unsynced_name: Option<Arc<UnsyncedName>>,
}

/// A name that the first sync of its file makes durable.
#[derive(Debug)]
struct UnsyncedName {
    directory: Directory,
    is_synced: AtomicBool,
}

impl UnsyncedName {
    fn sync(&self) -> Result<()> {
        if !self.is_synced.load(Ordering::Acquire) {
            self.directory.sync()?;
            self.is_synced.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl OpenFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `length` bytes from `offset` on. Allocates them first, so the caller must have checked
    /// `length` against a limit. Errors: `Corrupt` if the file ends too early.
    pub(crate) fn read_exact(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        // Ones, not zeros: for zeroed memory of this size the allocator takes new pages from the
        // system instead of memory that it already has.
        let mut bytes = vec![1; length];
        self.read_exact_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` from `offset` on. Errors: `Corrupt` if the file ends too early.
    pub(crate) fn read_exact_into(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let read = self.file.read_at(&mut bytes[done..], offset + done as u64);
            match read.map_err(|error| Error::io("read", &self.path, error))? {
                0 => return Err(self.corrupt(offset, "the file ends early")),
                count => done += count,
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.file.write_at(bytes, offset);
        written.map_err(|error| Error::io("write", &self.path, error))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        if !self.syncs {
            return Ok(());
        }
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync(&self.path, error))?;
        self.unsynced_name
            .as_ref()
            .map_or(Ok(()), |name| name.sync())
    }

    pub(crate) fn length(&self) -> Result<u64> {
        let length = self.file.length();
        length.map_err(|error| Error::io("read the length of", &self.path, error))
    }

    pub(crate) fn set_length(&self, length: u64) -> Result<()> {
        let set = self.file.set_length(length);
        set.map_err(|error| Error::io("set the length of", &self.path, error))
    }

    pub(crate) fn corrupt(&self, offset: u64, reason: impl Into<String>) -> Error {
        Error::corrupt(&self.path, offset, reason)
    }
}

//! A file system in memory: the store of `Durability::Memory`, and the disk whose power a test can
//! cut.
//!
//! The crashable kind keeps, for each file and directory, the durable contents and the ordered
//! operations since its last sync. A directory itself is durable once its parent was synced. A log
//! that is written at syncs stays in the memory of the process until then. [`MemoryFs::crash`]
//! returns a copy as a power cut would leave it. The volatile kind keeps only the present contents.

#[cfg(any(test, feature = "testing"))]
mod crash;
mod image;
#[cfg(any(test, feature = "testing"))]
mod unsynced_log;

#[cfg(any(test, feature = "testing"))]
pub use crash::Keep;

use crate::base::mutex::lock;
use crate::fs::{File, Fs, Lock, LockGuard, LogWrites, OpenDirectory, Space};
use image::{Change, Image};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Files in memory. A cheap handle on shared contents.
#[derive(Debug, Clone)]
pub struct MemoryFs {
    crashable: bool,
    room: Arc<Room>,
    state: Arc<Mutex<State>>,
}

/// How many bytes the files of one `MemoryFs` may hold, and how many they hold.
#[derive(Debug)]
struct Room {
    bytes_max: u64,
    bytes: AtomicU64,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            bytes_max: u64::MAX,
            bytes: AtomicU64::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    directories: BTreeMap<PathBuf, Directory>,
    locks: HashSet<PathBuf>,
}

type Names = BTreeMap<String, Arc<Node>>;

#[derive(Debug, Default, Clone)]
struct Directory {
    /// Whether the name of the directory itself is durable.
    is_durable: bool,
    now: Names,
    durable: Names,
    unsynced: Vec<NameChange>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Link(String, Arc<Node>),
    Unlink(String),
    Rename(String, String),
}

#[derive(Debug)]
struct Node {
    crashable: bool,
    room: Arc<Room>,
    contents: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    now: Image,
    durable: Image,
    unsynced: Vec<Change>,
    /// Bytes of the disk that a crashable file takes. They are allocated when it is synced, or when
    /// it is opened as a log.
    allocated: u64,
}

impl MemoryFs {
    /// Keeps only the present contents: for stores that live in memory.
    pub fn volatile() -> MemoryFs {
        MemoryFs {
            crashable: false,
            room: Arc::default(),
            state: Arc::default(),
        }
    }

    /// Like [`MemoryFs::volatile`], but the disk is full once its files hold `bytes_max` bytes.
    pub fn volatile_up_to(bytes_max: u64) -> MemoryFs {
        let bytes = AtomicU64::new(0);
        MemoryFs {
            room: Arc::new(Room { bytes_max, bytes }),
            ..MemoryFs::volatile()
        }
    }

    #[cfg(any(test, feature = "testing"))]
    /// Keeps durable contents apart from the rest, for [`MemoryFs::crash`].
    pub fn crashable() -> MemoryFs {
        MemoryFs {
            crashable: true,
            room: Arc::default(),
            state: Arc::default(),
        }
    }

    #[cfg(any(test, feature = "testing"))]
    /// Like [`MemoryFs::crashable`], on a disk of `bytes_max` bytes that allocates late: a write
    /// takes no space; the sync after it does, and fails with `StorageFull` if there is none. A log
    /// has its space from the beginning.
    pub fn crashable_up_to(bytes_max: u64) -> MemoryFs {
        MemoryFs {
            crashable: true,
            ..MemoryFs::volatile_up_to(bytes_max)
        }
    }

    #[cfg(any(test, feature = "testing"))]
    /// Every file with its contents as they are now, for tests that damage them.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = lock(&self.state);
        let mut files = Vec::new();
        for (directory, names) in &state.directories {
            for (name, node) in &names.now {
                let contents = lock(&node.contents);
                let mut bytes = vec![0; contents.now.length as usize];
                contents.now.read(&mut bytes, 0);
                files.push((directory.join(name), bytes));
            }
        }
        files
    }

    fn with_parent<T>(
        &self,
        path: &Path,
        act: impl FnOnce(&mut Directory, String) -> io::Result<T>,
    ) -> io::Result<T> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut state = lock(&self.state);
        let directory = state
            .directories
            .get_mut(parent)
            .ok_or(io::ErrorKind::NotFound)?;
        act(directory, name.to_string_lossy().into_owned())
    }
}

impl MemoryFs {
    fn node(&self, path: &Path) -> io::Result<Arc<Node>> {
        self.with_parent(path, |directory, name| {
            let node = directory.now.get(&name);
            node.cloned().ok_or(io::ErrorKind::NotFound.into())
        })
    }

    fn create_node(&self, path: &Path) -> io::Result<Arc<Node>> {
        let node = Arc::new(Node {
            crashable: self.crashable,
            room: self.room.clone(),
            contents: Mutex::default(),
        });
        self.with_parent(path, |directory, name| {
            directory.change(self.crashable, NameChange::Link(name, node.clone()));
            Ok(())
        })?;
        Ok(node)
    }
}

fn apply_name(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Link(name, node) => {
            names.insert(name.clone(), node.clone());
        }
        NameChange::Unlink(name) => {
            names.remove(name);
        }
        NameChange::Rename(from, to) => {
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
            }
        }
    }
}

impl Fs for MemoryFs {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        for path in path.ancestors() {
            let directory = state.directories.entry(path.to_path_buf()).or_default();
            directory.is_durable |= path.parent().is_none();
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        let directory = state.directories.get(path);
        let directory = directory.ok_or(io::ErrorKind::NotFound)?;
        let inner = state
            .directories
            .keys()
            .filter(|inner| inner.parent() == Some(path))
            .filter_map(|inner| inner.file_name())
            .map(|name| name.to_string_lossy().into_owned());
        Ok(directory.now.keys().cloned().chain(inner).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(MemoryFile(self.create_node(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(MemoryFile(self.node(path)?)))
    }

    fn open_log(&self, path: &Path, length: u64, writes: LogWrites) -> io::Result<Arc<dyn File>> {
        let node = match self.node(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_node(path)?,
            found => found?,
        };
        let file = MemoryFile(node);
        let present = file.length()?;
        if self.crashable {
            file.allocate(length)?;
        }
        if present < length && self.crashable {
            file.set_length(length)?;
        } else if present < length {
            file.write_at(&vec![0; (length - present) as usize], present)?;
        }
        #[cfg(any(test, feature = "testing"))]
        if self.crashable && writes == LogWrites::AtSync {
            return Ok(Arc::new(unsynced_log::UnsyncedLog::new(
                Box::new(file),
                length,
            )));
        }
        let _ = writes;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let crashable = self.crashable;
        let to = to.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        self.with_parent(from, |directory, name| {
            if !directory.now.contains_key(&name) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let to = to.to_string_lossy().into_owned();
            directory.change(crashable, NameChange::Rename(name, to));
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let crashable = self.crashable;
        let node = self.node(from)?;
        self.with_parent(to, |directory, name| {
            if directory.now.contains_key(&name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            directory.change(crashable, NameChange::Link(name, node));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let crashable = self.crashable;
        self.with_parent(path, |directory, name| {
            if !directory.now.contains_key(&name) {
                return Err(io::ErrorKind::NotFound.into());
            }
            directory.change(crashable, NameChange::Unlink(name));
            Ok(())
        })
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let directory = state.directories.get(path);
        let directory = directory.ok_or(io::ErrorKind::NotFound)?;
        let is_parent = |inner: &PathBuf| inner.parent() == Some(path);
        if !directory.now.is_empty() || state.directories.keys().any(is_parent) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        // Removed at once, although a real power cut may bring the directory back: it would be
        // empty, and nothing would refer to it.
        state.directories.remove(path);
        Ok(())
    }

    fn open_directory(&self, path: &Path) -> io::Result<Arc<dyn OpenDirectory>> {
        Ok(Arc::new(MemoryDirectory {
            crashable: self.crashable,
            state: self.state.clone(),
            path: path.to_path_buf(),
        }))
    }

    fn space(&self, _: &Path) -> Option<Space> {
        let total = self.room.bytes_max;
        let free = total.saturating_sub(self.room.bytes.load(Ordering::Relaxed));
        (total < u64::MAX).then_some(Space { total, free })
    }

    /// Ignores the path: counts the files of all directories.
    fn used(&self, _: &Path) -> io::Result<u64> {
        Ok(self.room.bytes.load(Ordering::Relaxed))
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        if !lock(&self.state).locks.insert(path.to_path_buf()) {
            return Ok(Lock::Held(std::process::id()));
        }
        if self.with_parent(path, |directory, name| {
            Ok(directory.now.contains_key(&name))
        })? {
            return Ok(Lock::Taken(self.guard(path)));
        }
        self.create(path)?;
        Ok(Lock::Taken(self.guard(path)))
    }
}

impl MemoryFs {
    fn guard(&self, path: &Path) -> Box<dyn LockGuard> {
        Box::new(MemoryLock {
            state: self.state.clone(),
            path: path.to_path_buf(),
        })
    }
}

impl Directory {
    fn change(&mut self, crashable: bool, change: NameChange) {
        apply_name(&mut self.now, &change);
        if crashable {
            self.unsynced.push(change);
        }
    }
}

#[derive(Debug)]
struct MemoryDirectory {
    crashable: bool,
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

impl OpenDirectory for MemoryDirectory {
    fn sync(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        for (inner, directory) in &mut state.directories {
            directory.is_durable |= inner.parent() == Some(&self.path);
        }
        let directory = state.directories.get_mut(&self.path);
        let directory = directory.ok_or(io::ErrorKind::NotFound)?;
        if self.crashable {
            directory.durable = directory.now.clone();
            directory.unsynced.clear();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryLock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

impl LockGuard for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.state).locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemoryFile(Arc<Node>);

impl MemoryFile {
    fn allocate(&self, length: u64) -> io::Result<()> {
        let bytes = length.next_multiple_of(image::PAGE_BYTES as u64);
        lock(&self.0.contents).allocate(bytes, &self.0.room)
    }

    fn change(&self, change: Change) {
        let mut contents = lock(&self.0.contents);
        contents.now.apply(&change);
        if self.0.crashable {
            contents.unsynced.push(change);
        }
    }
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(lock(&self.0.contents).now.read(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.0.crashable {
            self.change(Change::Write(offset, bytes.to_vec()));
            return Ok(());
        }
        let image = &mut lock(&self.0.contents).now;
        self.0.room.take(image.growth(bytes.len(), offset))?;
        image.write(bytes, offset);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let contents = &mut *lock(&self.0.contents);
        let is_limited = self.0.room.bytes_max < u64::MAX;
        let before = is_limited.then(|| contents.durable.clone());
        for change in contents.unsynced.drain(..) {
            contents.durable.apply(&change);
        }
        let Some(before) = before else { return Ok(()) };
        let allocated = contents.allocate(contents.durable.allocated(), &self.0.room);
        if allocated.is_err() {
            // A failed sync loses the changes that it was to make durable.
            contents.durable = before;
        }
        allocated
    }

    fn lose_unsynced(&self) {
        lock(&self.0.contents).unsynced.clear();
    }

    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.0.contents).now.length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        if self.0.crashable {
            self.change(Change::Length(length));
            return Ok(());
        }
        let image = &mut lock(&self.0.contents).now;
        let before = image.allocated();
        image.set_length(length);
        self.0.room.give_back(before - image.allocated());
        Ok(())
    }
}

impl Contents {
    /// Takes space, so that a crashable file has at least `bytes` allocated.
    fn allocate(&mut self, bytes: u64, room: &Room) -> io::Result<()> {
        room.take(bytes.saturating_sub(self.allocated))?;
        self.allocated = self.allocated.max(bytes);
        Ok(())
    }
}

impl Room {
    fn take(&self, bytes: u64) -> io::Result<()> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        let taken = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken
            .map(drop)
            .map_err(|_| io::ErrorKind::StorageFull.into())
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let contents = self.contents.get_mut();
        let contents = contents.unwrap_or_else(PoisonError::into_inner);
        self.room.give_back(if self.crashable {
            contents.allocated
        } else {
            contents.now.allocated()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::image::PAGE_BYTES;
    use super::*;

    #[test]
    fn a_disk_that_allocates_late_is_found_full_by_a_sync_and_loses_its_writes() {
        let fs = MemoryFs::crashable_up_to(2 * PAGE_BYTES as u64);
        fs.create_directory(Path::new("/d")).unwrap();
        fs.sync_directory(Path::new("/")).unwrap();
        let file = fs.create(Path::new("/d/a")).unwrap();
        fs.sync_directory(Path::new("/d")).unwrap();
        file.write_at(b"synced", 0).unwrap();
        file.sync().unwrap();
        file.write_at(&vec![1; 2 * PAGE_BYTES], 6).unwrap();
        let full = file.sync().unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        file.sync().unwrap();
        let left = fs.crash(1, Keep::Nothing).files().remove(0).1;
        assert_eq!(left, b"synced");
        assert_eq!(file.length().unwrap(), 6 + 2 * PAGE_BYTES as u64);
        fs.open_log(Path::new("/d/log"), PAGE_BYTES as u64, LogWrites::AtOnce)
            .unwrap();
        assert!(
            fs.open_log(Path::new("/d/more"), 1, LogWrites::AtOnce)
                .is_err()
        );
    }

    #[test]
    fn a_limited_store_is_full_until_files_are_removed_or_cut() {
        let fs = MemoryFs::volatile_up_to(4 * PAGE_BYTES as u64);
        fs.create_directory(Path::new("/d")).unwrap();
        let file = fs.create(Path::new("/d/a")).unwrap();
        file.write_at(&vec![1; 3 * PAGE_BYTES], 10).unwrap();
        file.write_at(b"over what is there", 0).unwrap();
        let full = file.write_at(b"x", 4 * PAGE_BYTES as u64).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        file.set_length(PAGE_BYTES as u64).unwrap();
        let other = fs.create(Path::new("/d/b")).unwrap();
        other.write_at(&vec![2; 3 * PAGE_BYTES], 0).unwrap();
        assert!(other.write_at(b"x", 3 * PAGE_BYTES as u64).is_err());
        drop(file);
        fs.remove(Path::new("/d/a")).unwrap();
        other.write_at(b"x", 3 * PAGE_BYTES as u64).unwrap();
    }
}

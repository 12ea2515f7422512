//! A file system in memory: the store of `Durability::Memory`, and the disk whose power a test can cut.
//!
//! The crashable kind keeps, for each file and directory, what is durable and the ordered operations since its last sync;
//! [`MemoryFs::crash`] answers a copy as a power cut would leave it. The volatile kind keeps only what is there now.

use super::{File, Fs, Lock, LockGuard, Space};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE_BYTES: usize = 64 << 10;
/// What a disk writes or loses as one.
const SECTOR_BYTES: usize = 512;

/// What survives of the operations that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None of them.
    Nothing,
    /// The first ones of each file and directory, the last of them torn.
    Prefix,
    /// Any sectors of any writes; of directory operations the first ones.
    Sectors,
    /// All of them, as when only the process died.
    Everything,
}

/// Files in memory. A cheap handle on shared contents.
#[derive(Debug, Clone)]
pub struct MemoryFs {
    crashable: bool,
    room: Arc<Room>,
    state: Arc<Mutex<State>>,
}

/// How much the files of one `MemoryFs` may hold, and hold.
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
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

/// Bytes of a file, in pages so that growing does not copy; an absent page is zeros.
#[derive(Debug, Default, Clone)]
struct Image {
    pages: Vec<Option<Box<[u8]>>>,
    length: u64,
}

impl Image {
    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let available = self.length.saturating_sub(offset);
        let length = (buffer.len() as u64).min(available) as usize;
        let mut done = 0;
        while done < length {
            let (page, start) = place(offset + done as u64);
            let part = (PAGE_BYTES - start).min(length - done);
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(bytes) => {
                    buffer[done..done + part].copy_from_slice(&bytes[start..start + part])
                }
                None => buffer[done..done + part].fill(0),
            }
            done += part;
        }
        length
    }

    fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, start) = place(offset + done as u64);
            let part = (PAGE_BYTES - start).min(bytes.len() - done);
            if self.pages.len() <= page {
                self.pages.resize(page + 1, None);
            }
            let target = self.pages[page].get_or_insert_with(|| vec![0; PAGE_BYTES].into());
            target[start..start + part].copy_from_slice(&bytes[done..done + part]);
            done += part;
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    /// Bytes of the pages that are there.
    fn allocated(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * PAGE_BYTES as u64
    }

    /// Bytes of the pages that a write would add.
    fn growth(&self, length: usize, offset: u64) -> u64 {
        if length == 0 {
            return 0;
        }
        let (first, _) = place(offset);
        let (last, _) = place(offset + length as u64 - 1);
        let absent = |page: &usize| self.pages.get(*page).is_none_or(Option::is_none);
        (first..=last).filter(absent).count() as u64 * PAGE_BYTES as u64
    }

    fn set_length(&mut self, length: u64) {
        if length < self.length {
            let (page, start) = place(length);
            self.pages.truncate(page + usize::from(start > 0));
            if let Some(Some(last)) = self.pages.get_mut(page) {
                last[start..].fill(0);
            }
        }
        self.length = length;
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(offset, bytes) => self.write(bytes, *offset),
            Change::Length(length) => self.set_length(*length),
        }
    }
}

fn place(offset: u64) -> (usize, usize) {
    (
        (offset / PAGE_BYTES as u64) as usize,
        (offset % PAGE_BYTES as u64) as usize,
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A small generator of reproducible choices (splitmix64).
#[derive(Debug)]
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound.max(1)
    }
}

impl MemoryFs {
    /// Keeps only what is there now: for stores that live in memory.
    pub fn volatile() -> MemoryFs {
        MemoryFs {
            crashable: false,
            room: Arc::default(),
            state: Arc::default(),
        }
    }

    /// As [`MemoryFs::volatile`], until its files hold `bytes_max` bytes: then it is a full disk, until some are removed.
    pub fn volatile_up_to(bytes_max: u64) -> MemoryFs {
        let bytes = AtomicU64::new(0);
        MemoryFs {
            room: Arc::new(Room { bytes_max, bytes }),
            ..MemoryFs::volatile()
        }
    }

    /// Keeps what is durable apart from what is not, for [`MemoryFs::crash`].
    pub fn crashable() -> MemoryFs {
        MemoryFs {
            crashable: true,
            room: Arc::default(),
            state: Arc::default(),
        }
    }

    /// A copy as a power cut now would leave it. The same seed makes the same choices. No lock survives.
    pub fn crash(&self, seed: u64, keep: Keep) -> MemoryFs {
        let mut choices = Choices(seed);
        let state = lock(&self.state);
        let mut copies = HashMap::new();
        let mut directories = BTreeMap::new();
        for (path, directory) in &state.directories {
            let names = surviving_names(directory, keep, &mut choices);
            let names: Names = names
                .into_iter()
                .map(|(name, node)| {
                    let copy = copies
                        .entry(Arc::as_ptr(&node))
                        .or_insert_with(|| Arc::new(surviving_node(&node, keep, &mut choices)));
                    (name, copy.clone())
                })
                .collect();
            let copy = Directory {
                now: names.clone(),
                durable: names,
                unsynced: Vec::new(),
            };
            directories.insert(path.clone(), copy);
        }
        MemoryFs {
            crashable: true,
            room: Arc::default(),
            state: Arc::new(Mutex::new(State {
                directories,
                locks: HashSet::new(),
            })),
        }
    }

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

fn surviving_names(directory: &Directory, keep: Keep, choices: &mut Choices) -> Names {
    let count = directory.unsynced.len();
    let kept = match keep {
        Keep::Nothing => 0,
        Keep::Everything => count,
        Keep::Prefix | Keep::Sectors => choices.below(count as u64 + 1) as usize,
    };
    let mut names = directory.durable.clone();
    for change in &directory.unsynced[..kept] {
        apply_name(&mut names, change);
    }
    names
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

fn surviving_node(node: &Node, keep: Keep, choices: &mut Choices) -> Node {
    let contents = lock(&node.contents);
    let mut image = contents.durable.clone();
    let count = contents.unsynced.len();
    match keep {
        Keep::Nothing => {}
        Keep::Everything => image = contents.now.clone(),
        Keep::Prefix => {
            let kept = choices.below(count as u64 + 1) as usize;
            contents.unsynced[..kept]
                .iter()
                .for_each(|change| image.apply(change));
            if let Some(Change::Write(offset, bytes)) = contents.unsynced.get(kept) {
                let torn = choices.below(bytes.len() as u64 + 1) as usize;
                image.write(&bytes[..torn], *offset);
            }
        }
        Keep::Sectors => {
            for change in &contents.unsynced {
                keep_sectors(&mut image, change, choices);
            }
        }
    }
    Node {
        crashable: true,
        room: Arc::default(),
        contents: Mutex::new(Contents {
            now: image.clone(),
            durable: image,
            unsynced: Vec::new(),
        }),
    }
}

fn keep_sectors(image: &mut Image, change: &Change, choices: &mut Choices) {
    match change {
        Change::Length(_) if choices.below(2) == 0 => image.apply(change),
        Change::Length(_) => {}
        Change::Write(offset, bytes) => {
            let mut done = 0;
            while done < bytes.len() {
                let at = offset + done as u64;
                let sector_left = SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize;
                let part = sector_left.min(bytes.len() - done);
                if choices.below(2) == 0 {
                    image.write(&bytes[done..done + part], at);
                }
                done += part;
            }
        }
    }
}

impl Fs for MemoryFs {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.directories.entry(path.to_path_buf()).or_default();
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        let directory = state.directories.get(path);
        let directory = directory.ok_or(io::ErrorKind::NotFound)?;
        Ok(directory.now.keys().cloned().collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let node = Arc::new(Node {
            crashable: self.crashable,
            room: self.room.clone(),
            contents: Mutex::default(),
        });
        let crashable = self.crashable;
        self.with_parent(path, |directory, name| {
            directory.change(crashable, NameChange::Link(name, node.clone()));
            Ok(())
        })?;
        Ok(Arc::new(MemoryFile(node)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.with_parent(path, |directory, name| {
            let node = directory.now.get(&name).ok_or(io::ErrorKind::NotFound)?;
            Ok(Arc::new(MemoryFile(node.clone())) as Arc<dyn File>)
        })
    }

    fn open_log(&self, path: &Path, length: u64) -> io::Result<Arc<dyn File>> {
        let file = match self.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
            opened => opened?,
        };
        let present = file.length()?;
        if present < length && self.crashable {
            file.set_length(length)?;
        } else if present < length {
            file.write_at(&vec![0; (length - present) as usize], present)?;
        }
        Ok(file)
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
        let node = self.with_parent(from, |directory, name| {
            let node = directory.now.get(&name);
            node.cloned().ok_or(io::ErrorKind::NotFound.into())
        })?;
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

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let directory = state.directories.get_mut(path);
        let directory = directory.ok_or(io::ErrorKind::NotFound)?;
        if self.crashable {
            directory.durable = directory.now.clone();
            directory.unsynced.clear();
        }
        Ok(())
    }

    fn space(&self, _: &Path) -> Option<Space> {
        let total = self.room.bytes_max;
        let free = total.saturating_sub(self.room.bytes.load(Ordering::Relaxed));
        (total < u64::MAX).then_some(Space { total, free })
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
        for change in contents.unsynced.drain(..) {
            contents.durable.apply(&change);
        }
        Ok(())
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
        if !self.crashable {
            let contents = self.contents.get_mut();
            let contents = contents.unwrap_or_else(PoisonError::into_inner);
            self.room.give_back(contents.now.allocated());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn fs_with_file(path: &Path) -> (MemoryFs, Arc<dyn File>) {
        let fs = MemoryFs::crashable();
        fs.create_directory(Path::new("/d")).unwrap();
        let file = fs.create(path).unwrap();
        (fs, file)
    }

    fn contents(fs: &MemoryFs, path: &Path) -> Option<Vec<u8>> {
        fs.files()
            .into_iter()
            .find(|(found, _)| found == path)
            .map(|(_, bytes)| bytes)
    }

    #[test]
    fn a_power_cut_takes_what_was_not_synced() {
        let path = Path::new("/d/f");
        let (fs, file) = fs_with_file(path);
        file.write_at(b"synced", 0).unwrap();
        file.sync().unwrap();
        assert_eq!(contents(&fs.crash(1, Keep::Nothing), path), None);
        fs.sync_directory(Path::new("/d")).unwrap();
        file.write_at(b"lost", 6).unwrap();
        assert_eq!(
            contents(&fs.crash(1, Keep::Nothing), path).unwrap(),
            b"synced"
        );
        assert_eq!(
            contents(&fs.crash(1, Keep::Everything), path).unwrap(),
            b"syncedlost"
        );
    }

    #[test]
    fn the_same_seed_leaves_the_same_bytes() {
        let path = Path::new("/d/f");
        let (fs, file) = fs_with_file(path);
        fs.sync_directory(Path::new("/d")).unwrap();
        for i in 0..20u64 {
            file.write_at(&[i as u8; 700], i * 700).unwrap();
        }
        for keep in [Keep::Prefix, Keep::Sectors] {
            assert_eq!(
                contents(&fs.crash(7, keep), path),
                contents(&fs.crash(7, keep), path)
            );
        }
    }

    #[test]
    fn shrinking_and_growing_leaves_zeros() {
        let mut image = Image::default();
        image.write(&[1; 100], 0);
        image.set_length(10);
        image.set_length(20);
        let mut bytes = [9; 20];
        assert_eq!(image.read(&mut bytes, 0), 20);
        assert_eq!(bytes[..10], [1; 10]);
        assert_eq!(bytes[10..], [0; 10]);
    }
}

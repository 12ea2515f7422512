//! The directories of stores: their places, which of them are in use, and the removal of the
//! others.
//!
//! The file `STORES.list` names the current store and the snapshots by the numbers of their
//! directories in `stores/`. A data directory without the file has its store at its top, as in
//! older releases. The file is written before the first numbered directory is made, so numbered
//! directories without the file mean damage. Directories that the file does not name are remains:
//! of an operation that a kill interrupted, or of forks. The next start removes them once the
//! current store is open.
//!
//! While the store at the top is open, its lock is the lock of the data directory. Otherwise,
//! [`Directories`] holds the lock.

use crate::state::stores_file::{FILE_BYTES_MAX, StoreNumber, StoresFile, TOP, Unreadable};
use lazurite_base::locks::lock;
use lazurite_engine::fs::{Fs, Lock, LockGuard};
use lazurite_engine::{Error, Result, clear_store, remove_store};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The file with the numbers of a data directory's stores. Systems that ignore case must not take
/// its name for that of [`FOLDER`].
const FILE: &str = "STORES.list";
/// The next version of [`FILE`], before it is renamed.
const FILE_NEW: &str = "STORES.new";
/// The directory that contains the numbered directories.
const FOLDER: &str = "stores";
const LOCK: &str = "LOCK";
/// A file of the engine that every store has.
const CURRENT: &str = "CURRENT";

/// The directories of the stores in one data directory.
#[derive(Debug)]
pub struct Directories {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    /// The highest directory number used so far.
    last: AtomicU64,
    /// The lock of the data directory; `None` while the store at its top holds the lock.
    lock: Mutex<Option<Box<dyn LockGuard>>>,
}

impl Directories {
    /// Reads the list of stores, and locks the data directory if there is no store at its top.
    /// Blocks for the disk. Errors: `Locked`; `Corrupt` and `UnknownFormat`, which say how to
    /// proceed.
    pub fn open(fs: Arc<dyn Fs>, root: &Path) -> Result<(Directories, StoresFile)> {
        let directories = Directories::unlocked(fs, root);
        let mut file = directories.read()?;
        if file.current != TOP {
            directories.lock()?;
            // Read again: another process may have replaced the file before we had the lock.
            file = directories.read()?;
        }
        directories.check_there(&file)?;
        let numbers = directories.numbers()?.into_iter().chain(file.numbers());
        let last = numbers.max().unwrap_or(TOP);
        directories.last.store(last, Ordering::Relaxed);
        Ok((directories, file))
    }

    /// The directory of the current store, and those of the snapshots with their names, without a
    /// lock. Errors: those of [`Directories::open`].
    pub fn list(fs: Arc<dyn Fs>, root: &Path) -> Result<(PathBuf, Vec<(String, PathBuf)>)> {
        let directories = Directories::unlocked(fs, root);
        let file = directories.read()?;
        let path = |number| directories.path(number);
        let snapshots = file.snapshots.iter();
        let snapshots = snapshots.map(|snapshot| (snapshot.name.clone(), path(snapshot.number)));
        Ok((path(file.current), snapshots.collect()))
    }

    /// True if a directory has the file, or directories that the file should name. Disk errors
    /// count as false here; they appear again when the directory is opened.
    pub fn are_in(fs: Arc<dyn Fs>, root: &Path) -> bool {
        let directories = Directories::unlocked(fs, root);
        directories.has_file().unwrap_or(false)
            || directories
                .numbers()
                .is_ok_and(|numbers| !numbers.is_empty())
    }

    fn unlocked(fs: Arc<dyn Fs>, root: &Path) -> Directories {
        Directories {
            fs,
            root: root.to_path_buf(),
            last: AtomicU64::new(TOP),
            lock: Mutex::default(),
        }
    }

    /// The path of the data directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    pub fn path(&self, number: StoreNumber) -> PathBuf {
        if number == TOP {
            return self.root.clone();
        }
        self.folder().join(format!("{number:06}"))
    }

    fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    /// The number for a new directory. Writes the `STORES.list` file first if there is none yet.
    pub fn next_number(&self, file: &StoresFile) -> Result<StoreNumber> {
        if !self.has_file()? {
            self.write(file)?;
        }
        Ok(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn has_file(&self) -> Result<bool> {
        match self.fs.open(&self.root.join(FILE)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("open", &self.root.join(FILE), error)),
        }
    }

    /// Refuses a file that names a directory without a store: the engine would make an empty store
    /// there, and the other directories would be removed.
    fn check_there(&self, file: &StoresFile) -> Result<()> {
        for number in file.numbers().filter(|number| *number != TOP) {
            let mark = self.path(number).join(CURRENT);
            match self.fs.open(&mark) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let place = self.path(number);
                    let reason = format!(
                        "it names {}, where there is no store. {}",
                        place.display(),
                        self.advice()
                    );
                    return Err(Error::corrupt(&self.root.join(FILE), 0, reason));
                }
                Err(error) => return Err(Error::io("open", &mark, error)),
            }
        }
        Ok(())
    }

    pub(super) fn read(&self) -> Result<StoresFile> {
        let path = self.root.join(FILE);
        let opened = match self.fs.open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return self.without_file(),
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        let read = || {
            let length = opened.length()?.min(FILE_BYTES_MAX + 1) as usize;
            let mut bytes = vec![0; length];
            let mut done = 0;
            while done < length {
                match opened.read_at(&mut bytes[done..], done as u64)? {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    count => done += count,
                }
            }
            Ok(bytes)
        };
        let bytes = read().map_err(|error| Error::io("read", &path, error))?;
        StoresFile::decode(&bytes).map_err(|reason| self.unreadable(&path, reason))
    }

    /// The content for a missing `STORES.list` file. Error: there are numbered directories.
    fn without_file(&self) -> Result<StoresFile> {
        if self.numbers()?.is_empty() {
            return Ok(StoresFile::default());
        }
        let reason = format!("the file is missing. {}", self.advice());
        Err(Error::corrupt(&self.root.join(FILE), 0, reason))
    }

    fn unreadable(&self, path: &Path, reason: Unreadable) -> Error {
        match reason {
            Unreadable::Version(version) => Error::UnknownFormat {
                path: path.to_path_buf(),
                found: format!("format version {version}"),
                supported: "format version 1; a later release of Lazurite wrote the file".into(),
            },
            Unreadable::Damaged(offset, reason) => {
                let reason = format!("{reason}. {}", self.advice());
                Error::corrupt(path, offset as u64, reason)
            }
        }
    }

    fn advice(&self) -> String {
        format!(
            "It names the store in use and the snapshots among the directories in {0}. Copy {0} before you restore the file from a backup: \
             directories that the file does not name are removed at the next start. Each of them is a store that `lazurite verify` and \
             --location take",
            self.folder().display()
        )
    }

    /// Replaces the file; durable on return. After an error the file may have been replaced, but
    /// not durably.
    pub fn write(&self, file: &StoresFile) -> Result<()> {
        self.prepare(file)?;
        self.replace()?;
        self.sync()
    }

    /// Writes and syncs the next `STORES.list` file beside the present one.
    pub fn prepare(&self, file: &StoresFile) -> Result<()> {
        let path = self.root.join(FILE_NEW);
        let create = || self.fs.create(&path);
        let created = create().map_err(|error| Error::io("create", &path, error))?;
        let written = created.write_at(&file.encode(), 0);
        written.map_err(|error| Error::io("write", &path, error))?;
        created
            .sync()
            .map_err(|error| Error::io("sync", &path, error))
    }

    /// Replaces the present file with that of [`Directories::prepare`]. After an error the present
    /// file stays.
    pub fn replace(&self) -> Result<()> {
        let path = self.root.join(FILE);
        let renamed = self.fs.rename(&self.root.join(FILE_NEW), &path);
        renamed.map_err(|error| Error::io("rename", &path, error))
    }

    /// Makes the last [`Directories::replace`] durable. After an error a power cut may bring back
    /// the previous file.
    pub fn sync(&self) -> Result<()> {
        let synced = self.fs.sync_directory(&self.root);
        synced.map_err(|error| Error::sync(&self.root, error))
    }

    /// Locks the data directory. No store at its top may be open. Error: `Locked`.
    pub fn lock(&self) -> Result<()> {
        let path = self.root.join(LOCK);
        let locked = self.fs.lock(&path);
        match locked.map_err(|error| Error::io("lock", &path, error))? {
            Lock::Taken(guard) => {
                *lock(&self.lock) = Some(guard);
                Ok(())
            }
            Lock::Held(process_id) => Err(Error::Locked {
                path: self.root.clone(),
                process_id,
            }),
        }
    }

    pub fn unlock(&self) {
        *lock(&self.lock) = None;
    }

    /// Removes a closed store, perhaps not durably. The next start removes the rest.
    pub fn remove(&self, number: StoreNumber) {
        let path = self.path(number);
        let removed = if number == TOP {
            // Closing the store released the directory's lock. Another process may have taken the
            // lock since, so take it before removing files.
            self.lock().and_then(|()| clear_store(&self.fs, &path))
        } else {
            remove_store(&self.fs, &path)
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "a store that is not used any more is removed at the next start");
        }
    }

    /// Removes the stores that `file` does not name. The current store must be open.
    pub fn remove_unnamed(&self, file: &StoresFile) -> Result<()> {
        let is_unnamed = |number: &StoreNumber| file.numbers().all(|named| named != *number);
        let unnamed = self.numbers()?.into_iter().filter(is_unnamed);
        unnamed.for_each(|number| self.remove(number));
        if file.current != TOP {
            clear_store(&self.fs, &self.root)?;
        }
        Ok(())
    }

    /// The numbers of the existing directories.
    fn numbers(&self) -> Result<Vec<StoreNumber>> {
        let folder = self.folder();
        let listed = match self.fs.list(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            listed => listed.map_err(|error| Error::io("list", &folder, error))?,
        };
        let number = |name: &String| {
            let number: StoreNumber = name.parse().ok()?;
            (number != TOP && format!("{number:06}") == *name).then_some(number)
        };
        Ok(listed.iter().filter_map(number).collect())
    }

    /// Whether a closed store has a WAL, which its next opening replays.
    pub fn has_log(&self, number: StoreNumber) -> Result<bool> {
        let path = self.path(number);
        let listed = self.fs.list(&path);
        let listed = listed.map_err(|error| Error::io("list", &path, error))?;
        Ok(listed.iter().any(|name| name.ends_with(".wal")))
    }

    /// Bytes of disk that the files of a store take, including files shared with other stores.
    /// `None` if unknown.
    pub fn used(&self, number: StoreNumber) -> Option<u64> {
        self.fs.used(&self.path(number)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_engine::fs::MemoryFs;

    const ROOT: &str = "/data";

    fn root() -> &'static Path {
        Path::new(ROOT)
    }

    fn empty() -> Arc<dyn Fs> {
        let fs: Arc<dyn Fs> = Arc::new(MemoryFs::volatile());
        fs.create_directory(root()).unwrap();
        fs
    }

    fn make(fs: &Arc<dyn Fs>, path: &str) {
        fs.create_directory(Path::new(path)).unwrap();
        fs.create(&Path::new(path).join("CURRENT")).unwrap();
    }

    fn is_there(fs: &Arc<dyn Fs>, path: &str) -> bool {
        fs.open(&Path::new(path).join("CURRENT")).is_ok()
    }

    #[test]
    fn file_and_folder_differ_on_systems_that_ignore_case() {
        assert!(
            [FILE, FILE_NEW]
                .iter()
                .all(|name| !name.eq_ignore_ascii_case(FOLDER))
        );
    }

    #[test]
    fn directory_without_the_file_holds_one_store_at_its_top() {
        let fs = empty();
        make(&fs, ROOT);
        let (directories, file) = Directories::open(fs.clone(), root()).unwrap();
        assert_eq!(file, StoresFile::default());
        assert_eq!(directories.path(TOP), root());
        directories.remove_unnamed(&file).unwrap();
        assert!(is_there(&fs, ROOT));
        assert_eq!(directories.next_number(&file).unwrap(), 1);
        assert!(fs.open(&root().join(FILE)).is_ok(), "before the directory");
        let other = Directories::list(fs, root()).unwrap();
        assert_eq!(other, (root().to_path_buf(), Vec::new()));
    }

    #[test]
    fn file_that_names_a_directory_without_a_store_is_refused_and_nothing_is_removed() {
        let fs = empty();
        make(&fs, "/data/stores/000002");
        let file = StoresFile {
            current: 1,
            snapshots: Vec::new(),
        };
        Directories::unlocked(fs.clone(), root())
            .write(&file)
            .unwrap();
        let refused = Directories::open(fs.clone(), root()).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("000001") && text.contains("Copy"), "{text}");
        assert!(is_there(&fs, "/data/stores/000002"));
    }

    #[test]
    fn only_named_directories_are_kept_and_numbers_do_not_come_again() {
        let fs = empty();
        for path in [
            "/data",
            "/data/stores/000001",
            "/data/stores/000002",
            "/data/stores/000009",
        ] {
            make(&fs, path);
        }
        for name in ["notes", "000000", "12", "0000012"] {
            make(&fs, &format!("/data/stores/{name}"));
        }
        let file = StoresFile {
            current: 2,
            snapshots: Vec::new(),
        };
        Directories::unlocked(fs.clone(), root())
            .write(&file)
            .unwrap();
        let (directories, read) = Directories::open(fs.clone(), root()).unwrap();
        assert_eq!(read, file);
        directories.remove_unnamed(&file).unwrap();
        for (path, stays) in [
            ("/data", false),
            ("/data/stores/000001", false),
            ("/data/stores/000002", true),
            ("/data/stores/000009", false),
            ("/data/stores/notes", true),
            ("/data/stores/000000", true),
            ("/data/stores/12", true),
            ("/data/stores/0000012", true),
        ] {
            assert_eq!(is_there(&fs, path), stays, "{path}");
        }
        assert_eq!(directories.next_number(&file).unwrap(), 10);
        let second = Directories::open(fs, root()).map(|_| ());
        assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
    }

    #[test]
    fn missing_and_damaged_files_are_errors_that_say_what_to_do() {
        let fs = empty();
        make(&fs, "/data/stores/000001");
        let refused = |part: &str| {
            let error = Directories::open(fs.clone(), root())
                .unwrap_err()
                .to_string();
            for part in [part, "/data/STORES", "backup", "/data/stores"] {
                assert!(error.contains(part), "{error}");
            }
        };
        refused("the file is missing");
        let write = |bytes: &[u8]| {
            let file = fs.create(&root().join(FILE)).unwrap();
            file.write_at(bytes, 0).unwrap();
        };
        write(b"LZST");
        refused("the file ends early");
        let mut bytes = StoresFile::default().encode();
        bytes[12] ^= 1;
        write(&bytes);
        refused("checksum");
        bytes[8] = 2;
        write(&bytes);
        let error = Directories::open(fs.clone(), root())
            .unwrap_err()
            .to_string();
        assert!(error.contains("format version 2"), "{error}");
        assert!(is_there(&fs, "/data/stores/000001"), "nothing is removed");
    }
}

//! Recovery: directory -> Store: lock, manifest, then WAL, then removal of orphan files.
//!
//! Nothing is removed before all has been read and found whole, so an open that fails leaves the directory as it was. A full disk
//! does not keep a store from being read: the manifest that an open begins with is then written by the first edit that finds room.

use crate::base::config::Config;
use crate::base::health::Health;
use crate::base::mutex::lock;
use crate::catalog::manifest::{self, Manifest};
use crate::catalog::state::State;
use crate::environment::Environment;
use crate::format::header::HEADER_BYTES;
use crate::fs::directory::Directory;
use crate::fs::name::{FileKind, FileName};
use crate::fs::reserve::Room;
use crate::fs::{Fs, Lock, LockGuard};
use crate::tree::cache::Cache;
use crate::tree::keyspace::Tree;
use crate::tree::live_file::LiveFile;
use crate::tree::version::Version;
use crate::values::{self, ValueLog};
use crate::verify::Verified;
use crate::work::store::{Parts, Store};
use crate::write::log::reader;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Tells the stores apart that this process has had open.
static INSTANCES: AtomicU64 = AtomicU64::new(1);

/// Opens the store in `path`, creating it if absent.
pub(crate) fn open(path: &Path, config: Config, environment: Environment) -> Result<Store> {
    config.check()?;
    let started = environment.clock.now();
    let directory = Directory::new(environment.fs.clone(), path);
    directory.make()?;
    Found::list(&directory)?;
    let lock_guard = take_lock(&directory)?;
    // Listed again, because an owner before us may have been at work until now.
    let found = Found::list(&directory)?;
    if !found.has_current {
        directory.sync_ancestors()?;
    }
    let (store_id, mut state) = match found.has_current {
        true => manifest::read(&directory)?,
        false => (environment.ids.next_id(), State::default()),
    };
    refuse_unknown_wals(&directory, store_id, &found, &state)?;
    state.next_file = state.next_file.max(found.last_number() + 1);
    adopt_segments(&directory, store_id, &found, &mut state)?;
    let recovery = Recovery {
        config,
        environment,
        directory,
        store_id,
        lock: lock_guard,
    };
    // The mark of the last close is spent.
    state.closed = false;
    let store = recovery.build(state)?;
    first(store.missing_files(&found))?;
    let replayed = store.replay()?;
    first(store.missing_segments())?;
    store.begin_manifest(&found)?;
    tracing::info!(
        batches = replayed.batches,
        bytes = replayed.bytes,
        milliseconds = store.clock.now().saturating_sub(started).as_millis() as u64,
        "recovered the store"
    );
    Ok(store)
}

fn first(damages: Vec<Error>) -> Result<()> {
    damages.into_iter().next().map_or(Ok(()), Err)
}

/// Reads the store in `path` without changing it.
pub(crate) fn verify(path: &Path, config: Config, environment: Environment) -> Result<Verified> {
    config.check()?;
    let directory = Directory::new(environment.fs.clone(), path);
    let lock = take_lock(&directory)?;
    let found = Found::list(&directory)?;
    let (store_id, mut state) = manifest::read(&directory)?;
    let log = refuse_unknown_wals(&directory, store_id, &found, &state);
    for (kind, number) in found.numbered() {
        if kind == FileKind::ValueLog && !state.segments.contains_key(&number) {
            let file = directory.open(FileName::Numbered(kind, number))?;
            let meta = values::describe(&file, store_id, number)?;
            state.segments.extend(meta.map(|meta| (number, meta)));
        }
    }
    let recovery = Recovery {
        config,
        environment,
        directory,
        store_id,
        lock,
    };
    let store = Arc::new(recovery.build(state)?);
    // A replay ends at the first damage; each segment by itself shows the others.
    let mut log: Vec<Error> = log.err().into_iter().chain(store.log_damages()).collect();
    if log.is_empty() {
        log.extend(store.replay().err());
    }
    let mut verified = crate::verify::verify(&store);
    verified.damages.extend(log);
    verified.damages.extend(store.missing_files(&found));
    verified.damages.extend(store.missing_segments());
    store.mark_closed();
    Ok(verified)
}

/// What lies in the directory.
struct Found {
    names: Vec<FileName>,
    has_current: bool,
}

impl Found {
    /// Refuses a directory that holds files of others, or ours without CURRENT.
    fn list(directory: &Directory) -> Result<Found> {
        let listed = directory.list()?;
        let mut names = Vec::new();
        let mut foreign = Vec::new();
        for name in listed {
            match FileName::parse(&name) {
                Some(name) => names.push(name),
                None if is_passed_over(&name) => {}
                None => foreign.push(name),
            }
        }
        let has_current = names.contains(&FileName::Current);
        if !has_current && let Some(name) = foreign.iter().min() {
            return Err(Error::UnknownFormat {
                path: directory.path().to_path_buf(),
                found: format!("files that are not ours ({name})"),
                supported: "an empty directory, or one that it created".into(),
            });
        }
        let holds_data = |name: &FileName| matches!(name, FileName::Numbered(kind, _) if *kind != FileKind::Manifest);
        if !has_current && names.iter().any(holds_data) {
            let path = directory.path_of(FileName::Current);
            return Err(Error::corrupt(&path, 0, "the file is missing"));
        }
        Ok(Found { names, has_current })
    }

    fn numbered(&self) -> impl Iterator<Item = (FileKind, u64)> {
        self.names.iter().filter_map(|name| match name {
            FileName::Numbered(kind, number) => Some((*kind, *number)),
            _ => None,
        })
    }

    fn last_number(&self) -> u64 {
        self.numbered().map(|(_, number)| number).max().unwrap_or(0)
    }
}

/// The first file in a directory without a store that keeps one from being created there. `None` if a store can be opened or
/// created, or if the directory does not exist. Blocks. Errors: `Io`.
pub fn foreign_file(fs: &Arc<dyn Fs>, directory: &Path) -> Result<Option<String>> {
    let listed = match fs.list(directory) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("list", directory, error)),
    };
    if listed
        .iter()
        .any(|name| FileName::parse(name) == Some(FileName::Current))
    {
        return Ok(None);
    }
    let is_foreign = |name: &String| FileName::parse(name).is_none() && !is_passed_over(name);
    Ok(listed.into_iter().filter(is_foreign).min())
}

/// Whether a file of others may lie beside a new store: what version control, desktops, file systems and containers leave in empty
/// directories, certificates, and logs.
fn is_passed_over(name: &str) -> bool {
    let names = [
        "lost+found",
        ".gitkeep",
        ".gitignore",
        ".keep",
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
    ];
    let endings = [".log", ".pem", ".crt", ".cer", ".key", ".pfx", ".p12"];
    names.contains(&name) || endings.iter().any(|ending| name.ends_with(ending))
}

fn take_lock(directory: &Directory) -> Result<Box<dyn LockGuard>> {
    match directory.lock()? {
        Lock::Taken(guard) => Ok(guard),
        Lock::Held(process_id) => Err(Error::Locked {
            path: directory.path().to_path_buf(),
            process_id,
        }),
    }
}

/// A log segment of a later time than the manifest, with records in it, means that the manifest has been cut short: records
/// are written only after the manifest lists their segment.
fn refuse_unknown_wals(
    directory: &Directory,
    store: u128,
    found: &Found,
    state: &State,
) -> Result<()> {
    for (kind, number) in found.numbered() {
        let unknown = kind == FileKind::Wal && number >= state.next_file;
        if unknown && !state.wals.contains_key(&number) {
            let file = directory.open(FileName::Numbered(kind, number))?;
            if reader::is_in_use(&file, store, number)? {
                return Err(file.corrupt(
                    HEADER_BYTES,
                    "the manifest does not list this segment, which holds records",
                ));
            }
        }
    }
    Ok(())
}

/// Takes over the value-log segments that were being written when the process ended.
fn adopt_segments(
    directory: &Directory,
    store: u128,
    found: &Found,
    state: &mut State,
) -> Result<()> {
    for (kind, number) in found.numbered() {
        if kind == FileKind::ValueLog
            && !state.segments.contains_key(&number)
            && let Some(meta) = values::adopt(directory, store, number)?
        {
            state.segments.insert(number, meta);
        }
    }
    Ok(())
}

/// The error for an SSTable that overlaps another one of its level.
pub(crate) fn overlap(directory: &Directory, number: u64) -> Error {
    let path = directory.path_of(FileName::Numbered(FileKind::Sstable, number));
    Error::corrupt(&path, 0, "the file overlaps another one of its level")
}

struct Recovery {
    config: Config,
    environment: Environment,
    directory: Directory,
    store_id: u128,
    lock: Box<dyn LockGuard>,
}

impl Recovery {
    fn build(self, state: State) -> Result<Store> {
        let directory = self.directory;
        let room = Room::new(
            directory.clone(),
            self.config.reserve_bytes,
            self.config.quota_bytes,
        );
        let config = Config {
            // What is alive in a segment is copied before the segment goes, and that must fit into the reserve.
            value_segment_bytes: self.config.value_segment_bytes.min(room.reserve()),
            ..self.config
        };
        let cache = Cache::new(
            directory.clone(),
            self.store_id,
            config.cache_bytes_max,
            config.open_files_max,
        );
        let cache = Arc::new(cache);
        let now = self.environment.clock.now();
        let instance = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let mut trees = Vec::new();
        for (&id, keyspace) in &state.keyspaces {
            let live = |(level, meta): &(u32, _)| {
                let file = LiveFile::new(Clone::clone(meta), cache.clone());
                (*level as usize, Arc::new(file))
            };
            let files = keyspace.files.values().map(live).collect();
            if id as usize != trees.len() {
                return Err(Error::corrupt(
                    directory.path(),
                    0,
                    "the ids of the keyspaces have a gap",
                ));
            }
            let version = Version::default().with(&[], files);
            let version = version.map_err(|number| overlap(&directory, number))?;
            trees.push(Arc::new(Tree::new(
                instance,
                id,
                &keyspace.name,
                version,
                now,
            )));
        }
        let manifest = Manifest::draft(&directory, self.store_id, config.manifest_bytes_min, state);
        let manifest = Arc::new(Mutex::new(manifest));
        let health = Arc::new(Health::default());
        let value_log = ValueLog::new(
            directory.clone(),
            self.store_id,
            &config,
            cache.clone(),
            manifest.clone(),
            health.clone(),
        );
        Ok(Store::new(Parts {
            config,
            background: self.environment.background,
            clock: self.environment.clock,
            room: Arc::new(room),
            directory,
            store_id: self.store_id,
            cache,
            manifest,
            value_log: Arc::new(value_log),
            trees,
            instance,
            health,
            lock: self.lock,
        }))
    }
}

impl Store {
    /// Files that the manifest lists and that are not there.
    fn missing_files(&self, found: &Found) -> Vec<Error> {
        let state = &lock(&self.manifest).state;
        let files = state
            .keyspaces
            .values()
            .flat_map(|keyspace| keyspace.files.keys());
        let sstables = files.map(|&number| FileName::Numbered(FileKind::Sstable, number));
        let segments = state
            .segments
            .keys()
            .map(|&number| FileName::Numbered(FileKind::ValueLog, number));
        sstables
            .chain(segments)
            .filter(|name| !found.names.contains(name))
            .map(|name| Error::corrupt(&self.directory.path_of(name), 0, "the file is missing"))
            .collect()
    }

    /// Segments that a value lies in and that are not there.
    fn missing_segments(&self) -> Vec<Error> {
        let references = self.value_references();
        let missing = references
            .keys()
            .filter_map(|&number| self.value_log.contains(number).err());
        missing.collect()
    }

    /// Writes the manifest of this process, and removes what neither it nor the one before it refers to. Where there is no room
    /// for it the one before it stays in force, with all that it refers to.
    fn begin_manifest(&self, found: &Found) -> Result<()> {
        let write = || lock(&self.manifest).write_new();
        let is_full = |written: &Result<()>| {
            found.has_current && matches!(written, Err(Error::NoSpace { .. }))
        };
        let mut written = write();
        if is_full(&written) {
            // An SSTable that was never installed may be all that is in the way.
            let is_sstable =
                |name: &FileName| matches!(name, FileName::Numbered(FileKind::Sstable, _));
            self.remove_orphans(found, is_sstable);
            written = write();
        }
        if is_full(&written) {
            tracing::warn!(
                "the disk is full: the store can be read, and written to once there is space"
            );
            return Ok(());
        }
        written?;
        self.remove_orphans(found, |_| true);
        Ok(())
    }

    /// Removes those of the files that nothing refers to. One that cannot be removed is left for the next time.
    fn remove_orphans(&self, found: &Found, which: impl Fn(&FileName) -> bool) {
        let manifest = lock(&self.manifest);
        let state = &manifest.state;
        let is_live = |name: &FileName| match name {
            FileName::Numbered(FileKind::Wal, number) => state.wals.contains_key(number),
            FileName::Numbered(FileKind::ValueLog, number) => state.segments.contains_key(number),
            FileName::Numbered(FileKind::Manifest, number) => *number == manifest.number(),
            FileName::Numbered(FileKind::Sstable, number) => state
                .keyspaces
                .values()
                .any(|keyspace| keyspace.files.contains_key(number)),
            FileName::CurrentNew => false,
            FileName::Current | FileName::Lock => true,
        };
        let orphans = found.names.iter().filter(|name| !is_live(name));
        for name in orphans.filter(|name| which(name)) {
            let _ = self.directory.remove(*name);
        }
    }
}

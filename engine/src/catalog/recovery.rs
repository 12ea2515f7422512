//! Recovery opens a store: lock, manifest, then WAL, then removal of orphan files.
//!
//! Nothing is removed before everything has been read and found whole, so an open that fails leaves
//! the directory as it was. A store on a full disk can still be opened and read: the first edit
//! that finds space then writes the new manifest.

use crate::base::config::Config;
use crate::base::health::{Health, Wakes};
use crate::catalog::Catalog;
use crate::catalog::damage::explain;
use crate::catalog::manifest::{self, Manifest};
use crate::catalog::parts::Parts;
use crate::catalog::recovered::Recovered;
use crate::catalog::state::ManifestState;
use crate::format::edit::FileMeta;
use crate::format::header::HEADER_BYTES;
use crate::fs::directory::Directory;
use crate::fs::environment::Environment;
use crate::fs::name::{FileKind, FileName};
use crate::fs::reserve::SpaceReserve;
use crate::fs::{Fs, Lock, LockGuard};
use crate::tree::cache::Cache;
use crate::tree::keyspace::Tree;
use crate::tree::live_file::LiveFile;
use crate::tree::snapshots::Snapshots;
use crate::tree::trees::Trees;
use crate::tree::version::Version;
use crate::values::{self, ValueLog};
use crate::write::commit::{CommitLog, CommitParts};
use crate::write::key_locks::KeyLocks;
use crate::write::log::reader;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Opens the store in `path`, creating it if absent. Wakes `work` when there is background work.
pub(crate) fn open(
    path: &Path,
    config: Config,
    environment: Environment,
    work: Arc<dyn Wakes>,
) -> Result<Parts> {
    config.check()?;
    let mut listed = ManifestState::default();
    let opened = recover(path, config, environment, work, &mut listed);
    opened.map_err(|error| explain(error, &listed))
}

/// Like `open`. Stores the state that the manifest lists in `listed`, for the explanation of
/// errors.
fn recover(
    path: &Path,
    config: Config,
    environment: Environment,
    work: Arc<dyn Wakes>,
    listed: &mut ManifestState,
) -> Result<Parts> {
    let started = environment.clock.now();
    let directory = Directory::new(environment.fs.clone(), path).at(config.durability);
    let (found, lock) = occupy(&directory, environment.is_tolerated)?;
    let directory = directory.owned(lock)?;
    let (store_id, mut state) = if found.has_current {
        manifest::read(&directory)?
    } else {
        (environment.ids.next_id(), ManifestState::default())
    };
    listed.clone_from(&state);
    take_over(&directory, store_id, &found, &mut state)?;
    let recovery = Recovery {
        config,
        environment,
        directory,
        store_id,
        work,
    };
    let mut store = recovery.build(state)?;
    first(store.missing_files(&found))?;
    store.recovered = store.replay()?;
    first(store.missing_segments())?;
    store.begin_manifest(&found)?;
    tracing::info!(
        batches = store.recovered.batches,
        bytes = store.recovered.bytes,
        bytes_cut_off = store.recovered.bytes_cut_off(),
        milliseconds = store.clock.now().saturating_sub(started).as_millis() as u64,
        "recovered the store"
    );
    Ok(store)
}

/// Creates the directory if it is absent, and takes its lock. Returns what it contains.
fn occupy(
    directory: &Directory,
    is_tolerated: fn(&str) -> bool,
) -> Result<(DirectoryContents, Box<dyn LockGuard>)> {
    directory.make()?;
    DirectoryContents::list(directory, is_tolerated)?;
    let lock = take_lock(directory)?;
    // Listed again, because an owner before us may have been at work until now.
    let found = DirectoryContents::list(directory, is_tolerated)?;
    if !found.has_current {
        directory.sync_ancestors()?;
    }
    Ok((found, lock))
}

/// Adds value-log segments that the manifest does not list to `state`, raises the next file number
/// above all files present, and clears the mark of a clean close. Refuses log segments that prove
/// the manifest incomplete.
fn take_over(
    directory: &Directory,
    store: u128,
    found: &DirectoryContents,
    state: &mut ManifestState,
) -> Result<()> {
    refuse_unknown_wals(directory, store, found, state)?;
    state.next_file = state.next_file.max(found.last_number() + 1);
    adopt_segments(directory, store, found, state)?;
    // The mark of a clean close is valid only until the store is opened again.
    state.closed = false;
    Ok(())
}

fn first(damages: Vec<Error>) -> Result<()> {
    damages.into_iter().next().map_or(Ok(()), Err)
}

/// A store opened read-only: its parts, and the damage to its log and to the list of its files.
pub(crate) struct Inspected {
    pub(crate) parts: Parts,
    pub(crate) damages: Vec<Error>,
    found: DirectoryContents,
}

impl Inspected {
    /// Errors for the missing SSTables and value-log segments that the manifest or the log refers
    /// to.
    pub(crate) fn missing(&self) -> Vec<Error> {
        let mut missing = self.parts.missing_files(&self.found);
        missing.extend(self.parts.missing_segments());
        missing
    }
}

/// Reads the store in `path` without changing it.
pub(crate) fn inspect(
    path: &Path,
    config: Config,
    environment: Environment,
    work: Arc<dyn Wakes>,
) -> Result<Inspected> {
    config.check()?;
    let directory = Directory::new(environment.fs.clone(), path);
    let lock = take_lock(&directory)?;
    let directory = directory.owned(lock)?;
    let found = DirectoryContents::list(&directory, environment.is_tolerated)?;
    let (store_id, mut state) =
        manifest::read(&directory).map_err(|error| explain(error, &ManifestState::default()))?;
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
        work,
    };
    let parts = recovery.build(state)?;
    // A replay ends at the first damage, so each segment was also read by itself.
    let mut damages: Vec<Error> = log.err().into_iter().chain(parts.log_damages()).collect();
    if damages.is_empty() {
        damages.extend(parts.replay().err());
    }
    Ok(Inspected {
        parts,
        damages,
        found,
    })
}

/// The names of a store's files in the directory, and whether CURRENT is among them.
struct DirectoryContents {
    names: Vec<FileName>,
    has_current: bool,
}

impl DirectoryContents {
    /// Lists the directory. Without CURRENT, refuses foreign files and a store's files with data.
    fn list(directory: &Directory, is_tolerated: fn(&str) -> bool) -> Result<DirectoryContents> {
        let listed = directory.list()?;
        let mut names = Vec::new();
        let mut foreign = Vec::new();
        for name in listed {
            match FileName::parse(&name) {
                Some(name) => names.push(name),
                None if is_tolerated(&name) => {}
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
        Ok(DirectoryContents { names, has_current })
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

/// Returns a file that prevents the creation of a store in a directory without one: its name is not
/// a store's, and `is_tolerated` rejects it. `None` if a store can be opened or created, or if the
/// directory does not exist. Blocks. Errors: `Io`.
pub fn foreign_file(
    fs: &Arc<dyn Fs>,
    directory: &Path,
    is_tolerated: fn(&str) -> bool,
) -> Result<Option<String>> {
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
    let is_foreign = |name: &String| FileName::parse(name).is_none() && !is_tolerated(name);
    Ok(listed.into_iter().filter(is_foreign).min())
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

/// A WAL segment newer than the manifest that contains records proves that the manifest was
/// truncated: records are written only after the manifest lists their segment.
fn refuse_unknown_wals(
    directory: &Directory,
    store: u128,
    found: &DirectoryContents,
    state: &ManifestState,
) -> Result<()> {
    for (kind, number) in found.numbered() {
        let unknown = kind == FileKind::Wal && number >= state.next_file;
        if unknown && !state.wals.contains_key(&number) {
            let file = directory.open(FileName::Numbered(kind, number))?;
            if reader::is_in_use(&file, store, number)? {
                return Err(file.corrupt(
                    HEADER_BYTES,
                    "the manifest does not list this segment, which holds records: the manifest was cut short or is an older one",
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
    found: &DirectoryContents,
    state: &mut ManifestState,
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
    work: Arc<dyn Wakes>,
}

/// The parts of a store that represent its files. The commit log is built on them.
struct Stored {
    config: Arc<Config>,
    reserve: Arc<SpaceReserve>,
    cache: Arc<Cache>,
    trees: Arc<Trees>,
    catalog: Arc<Catalog>,
    value_log: Arc<ValueLog>,
    health: Arc<Health>,
    snapshots: Arc<Snapshots>,
}

impl Recovery {
    fn build(self, state: ManifestState) -> Result<Parts> {
        let stored = self.open_stored(state)?;
        let log = CommitLog::new(self.commit_parts(&stored));
        Ok(Parts {
            config: stored.config,
            background: self.environment.background,
            clock: self.environment.clock,
            directory: self.directory,
            store_id: self.store_id,
            cache: stored.cache,
            catalog: stored.catalog,
            value_log: stored.value_log,
            trees: stored.trees,
            snapshots: stored.snapshots,
            log: Arc::new(log),
            key_locks: KeyLocks::default(),
            reserve: stored.reserve,
            health: stored.health,
            recovered: Recovered::default(),
        })
    }

    fn open_stored(&self, state: ManifestState) -> Result<Stored> {
        let directory = &self.directory;
        let store_id = self.store_id;
        let limits = &self.config;
        let reserve =
            SpaceReserve::new(directory.clone(), limits.reserve_bytes, limits.quota_bytes);
        let config = Config {
            // Live values of a segment are copied before the segment is removed, and the copies
            // must fit into the reserve.
            value_segment_bytes: limits.value_segment_bytes.min(reserve.reserve()),
            ..limits.clone()
        };
        let (cache_bytes, files) = (config.cache_bytes_max, config.open_files_max);
        let cache = Arc::new(Cache::new(directory.clone(), store_id, cache_bytes, files));
        let trees = open_trees(&state, directory, &cache, self.environment.clock.now())?;
        let sealed = state.segments.clone();
        let manifest = Manifest::draft(directory, store_id, config.manifest_bytes_min, state);
        let catalog = Arc::new(Catalog::new(manifest));
        let health = Arc::new(Health::default());
        health.add(self.work.clone());
        let value_log = ValueLog::new(
            directory.clone(),
            store_id,
            &config,
            cache.clone(),
            catalog.clone(),
            sealed,
            health.clone(),
        );
        Ok(Stored {
            config: Arc::new(config),
            reserve: Arc::new(reserve),
            cache,
            trees: Arc::new(trees),
            catalog,
            value_log: Arc::new(value_log),
            health,
            snapshots: Arc::default(),
        })
    }

    fn commit_parts(&self, stored: &Stored) -> CommitParts {
        CommitParts {
            config: stored.config.clone(),
            background: self.environment.background,
            clock: self.environment.clock.clone(),
            directory: self.directory.clone(),
            store_id: self.store_id,
            edits: stored.catalog.clone(),
            value_log: stored.value_log.clone(),
            health: stored.health.clone(),
            trees: stored.trees.clone(),
            snapshots: stored.snapshots.clone(),
            reserve: stored.reserve.clone(),
            work: self.work.clone(),
        }
    }
}

/// The trees of the keyspaces, with the files that the manifest lists.
fn open_trees(
    state: &ManifestState,
    directory: &Directory,
    cache: &Arc<Cache>,
    now: Duration,
) -> Result<Trees> {
    let trees = Trees::default();
    for (&id, keyspace) in &state.keyspaces {
        let live = |(level, meta): &(u32, FileMeta)| {
            let file = LiveFile::new(meta.clone(), cache.clone());
            (*level as usize, Arc::new(file))
        };
        let files = keyspace.files.values().map(live).collect();
        assert!(id as usize == trees.all().len(), "the state has no gap");
        let version = Version::default().with(&[], files);
        let version = version.map_err(|number| overlap(directory, number))?;
        let tree = Tree::new(trees.instance(), id, &keyspace.name, version, now);
        trees.add(Arc::new(tree));
    }
    Ok(trees)
}

impl Parts {
    /// Errors for the SSTables and value-log segments that the manifest lists and the directory
    /// lacks.
    fn missing_files(&self, found: &DirectoryContents) -> Vec<Error> {
        let state = &self.catalog.lock().state;
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

    /// Errors for missing segments that hold a value in use.
    fn missing_segments(&self) -> Vec<Error> {
        let references = self.trees.value_references();
        let missing = references
            .keys()
            .filter_map(|&number| self.value_log.contains(number).err());
        missing.collect()
    }

    /// Writes the manifest of this process, and removes files that it does not refer to. If there
    /// is no space for it, the previous manifest stays in force with all its files.
    fn begin_manifest(&self, found: &DirectoryContents) -> Result<()> {
        let write = || self.catalog.lock().write_new();
        let is_full = |written: &Result<()>| {
            found.has_current && matches!(written, Err(Error::NoSpace { .. }))
        };
        let mut written = write();
        if is_full(&written) {
            // An SSTable that was never installed may be all that fills the disk.
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

    /// Removes the files that nothing refers to and `which` selects. A file that cannot be removed
    /// is left for the next start.
    fn remove_orphans(&self, found: &DirectoryContents, which: impl Fn(&FileName) -> bool) {
        let manifest = self.catalog.lock();
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

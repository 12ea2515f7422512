//! Keyspace: a named LSM tree. All keyspaces share WAL, manifest, cache and background work.

use crate::base::codec::hash;
use crate::base::config::Compression;
use crate::base::key::{Entry, SequenceNumber};
use crate::tree::cache::Cache;
use crate::tree::empty_spans::EmptySpans;
use crate::tree::memtable::Memtable;
use crate::tree::version::{Version, file_of};
use crate::{Config, KeyspaceOptions, Result};
use arc_swap::{ArcSwap, Guard};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Percentage of tombstones from which an SSTable is compacted, unless the keyspace says otherwise.
const TOMBSTONE_PERCENT_MAX: u64 = 50;

/// Everything that a reader of a keyspace searches; immutable except for the active memtable.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// The sealed memtables, newest first.
    pub(crate) immutable: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

/// The LSM tree of a keyspace.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Number of the open store that the tree belongs to.
    pub(crate) instance: u64,
    pub(crate) id: u32,
    pub(crate) name: Arc<str>,
    pub(crate) empty_spans: Arc<EmptySpans>,
    options: OnceLock<KeyspaceOptions>,
    lock_rank: OnceLock<u32>,
    view: ArcSwap<View>,
    /// How many files of level 0 the running merge has merged so far, in thousandths of a file.
    merged_level0: AtomicU64,
    /// Whether a memtable of the tree has become an SSTable since the store was opened.
    has_flushed: AtomicBool,
    /// Held while a new view is made from the present one.
    changing: Mutex<()>,
}

impl Tree {
    pub(crate) fn new(instance: u64, id: u32, name: &str, version: Version, now: Duration) -> Tree {
        let view = View {
            active: Arc::new(Memtable::new(now)),
            immutable: Vec::new(),
            version: Arc::new(version),
        };
        Tree {
            instance,
            id,
            name: name.into(),
            empty_spans: Arc::default(),
            options: OnceLock::new(),
            lock_rank: OnceLock::new(),
            view: ArcSwap::from_pointee(view),
            merged_level0: AtomicU64::new(0),
            has_flushed: AtomicBool::new(false),
            changing: Mutex::new(()),
        }
    }

    /// Sets the options and `rank`, the place of the keyspace in the order of locks. Only the first
    /// call has an effect.
    pub(crate) fn open(&self, options: KeyspaceOptions, rank: impl FnOnce() -> u32) {
        self.options.get_or_init(|| options);
        self.lock_rank.get_or_init(rank);
    }

    /// Returns the rank of the keyspace in the order in which this process opened its keyspaces.
    /// The id would not do, because the order of ids depends on the release that created the store.
    pub(crate) fn lock_rank(&self) -> u32 {
        *self
            .lock_rank
            .get()
            .expect("a handle comes from an opening")
    }

    pub(crate) fn memtable_bytes_max(&self, config: &Config) -> usize {
        let chosen = self
            .options
            .get()
            .and_then(|options| options.memtable_bytes_max);
        chosen.unwrap_or(config.memtable_bytes_max)
    }

    pub(crate) fn block_bytes(&self, config: &Config) -> usize {
        let chosen = self.options.get().and_then(|options| options.block_bytes);
        chosen.unwrap_or(config.block_bytes)
    }

    pub(crate) fn sstable_bytes(&self, config: &Config) -> u64 {
        let chosen = self.options.get().and_then(|options| options.sstable_bytes);
        chosen.unwrap_or(config.sstable_bytes)
    }

    /// The compression that the keyspace's options choose; `None` for the default.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.options.get().and_then(|options| options.compression)
    }

    pub(crate) fn tombstone_percent_max(&self) -> u64 {
        let chosen = self
            .options
            .get()
            .and_then(|options| options.tombstone_percent_max);
        chosen.unwrap_or(TOMBSTONE_PERCENT_MAX)
    }

    /// Notes how many files of level 0 the running merge has merged, in thousandths of a file.
    pub(crate) fn note_merged_level0(&self, thousandths: u64) {
        self.merged_level0.store(thousandths, Ordering::Relaxed);
    }

    /// The files of level 0 without those that the running merge has merged, in thousandths.
    pub(crate) fn unmerged_level0(&self) -> u64 {
        let files = self.load_view().version.levels[0].len() as u64 * 1000;
        files.saturating_sub(self.merged_level0.load(Ordering::Relaxed))
    }

    /// The current view, which stays readable while the caller holds it.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Returns the current view for a short time. Unlike [`Tree::view`], does not change a count of
    /// references, which would slow down other readers.
    pub(crate) fn load_view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    fn change(&self, change: impl FnOnce(&View) -> View) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.view.store(Arc::new(change(&self.view.load())));
    }

    /// Seals the active memtable; `false` if that is empty. The caller holds the log.
    pub(crate) fn seal(&self, now: Duration) -> bool {
        if self.load_view().active.is_empty() {
            return false;
        }
        self.change(|view| {
            let mut immutable = vec![view.active.clone()];
            immutable.extend(view.immutable.iter().cloned());
            View {
                active: Arc::new(Memtable::new(now)),
                immutable,
                version: view.version.clone(),
            }
        });
        true
    }

    /// Replaces the version; `flushed` is the sealed memtable that it now contains.
    pub(crate) fn install(&self, version: Version, flushed: Option<&Arc<Memtable>>) {
        let version = Arc::new(version);
        if flushed.is_some() {
            self.has_flushed.store(true, Ordering::Relaxed);
        }
        self.change(|view| {
            let mut immutable = view.immutable.clone();
            if let Some(flushed) = flushed {
                immutable.retain(|memtable| !Arc::ptr_eq(memtable, flushed));
            }
            View {
                active: view.active.clone(),
                immutable,
                version,
            }
        });
    }

    /// Whether a sealed memtable has a change numbered `last` or lower.
    pub(crate) fn is_unflushed(&self, last: SequenceNumber) -> bool {
        let view = self.view();
        let first = view.immutable.last();
        let first = first.and_then(|memtable| memtable.summary().first_sequence);
        first.is_some_and(|first| first <= last)
    }

    /// Whether a memtable of the keyspace was flushed since the store was opened.
    pub(crate) fn has_flushed(&self) -> bool {
        self.has_flushed.load(Ordering::Relaxed)
    }

    /// Returns the newest version of `key` at the sequence number that `at` returns, searching from
    /// the newest source down. A tombstone ends the search too.
    ///
    /// `at` is called for each source, and may return a higher number for a later source. That is
    /// harmless: only the active memtable can hold changes that were not visible when the view was
    /// loaded, and it holds the batches of these changes whole.
    pub(crate) fn find(
        &self,
        cache: &Cache,
        key: &[u8],
        at: impl Fn() -> SequenceNumber,
    ) -> Result<Option<Entry>> {
        let view = self.load_view();
        for memtable in std::iter::once(&view.active).chain(&view.immutable) {
            // Call `at` first: the memtable read afterwards holds every row visible so far.
            at();
            if memtable.is_empty() {
                continue;
            }
            let found = memtable.find(key, &at);
            if found.entry.is_some() || found.deleted > 0 {
                return Ok(found.entry.filter(|entry| entry.sequence > found.deleted));
            }
        }
        find_in_files(cache, &view.version, (key, hash(key)), at())
    }
}

fn find_in_files(
    cache: &Cache,
    version: &Version,
    (key, hash): (&[u8], u64),
    at: SequenceNumber,
) -> Result<Option<Entry>> {
    let newest = version.levels[0]
        .iter()
        .filter(|file| file.meta.contains(key));
    let deeper = version.levels[1..]
        .iter()
        .filter_map(|files| file_of(files, key));
    for file in newest.chain(deeper) {
        let reader = file.reader()?;
        let deleted = match file.meta.range_tombstones {
            0 => 0,
            _ => reader.cover(key, at).map_or(0, |cover| cover.sequence),
        };
        let entry = reader.get(cache, key, hash, at)?;
        if entry.is_some() || deleted > 0 {
            return Ok(entry.filter(|entry| entry.sequence > deleted));
        }
    }
    Ok(None)
}

/// A named, independent, ordered set of keys; a cheap handle.
#[derive(Clone)]
pub struct Keyspace(Arc<Tree>);

impl Keyspace {
    pub(crate) fn new(tree: Arc<Tree>) -> Keyspace {
        Keyspace(tree)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.0
    }

    /// The name that the keyspace was opened under.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyspace").field(&self.0.name).finish()
    }
}

impl PartialEq for Keyspace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Keyspace {}

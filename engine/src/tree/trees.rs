//! Trees: the keyspaces of an open store.

use crate::tree::keyspace::Tree;
use crate::{Error, KeyspaceOptions, Result};
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Numbers the stores that this process has opened.
static INSTANCES: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(crate) struct Trees {
    instance: u64,
    /// The trees, indexed by keyspace id.
    list: RwLock<Vec<Arc<Tree>>>,
    /// The most SSTables that any keyspace has in level 0.
    level0_files_most: CachePadded<AtomicUsize>,
    /// The most unmerged SSTables that any keyspace has in level 0, in thousandths.
    level0_unmerged_most: CachePadded<AtomicU64>,
    /// Number of keyspaces opened so far.
    opened: AtomicU32,
}

impl Default for Trees {
    fn default() -> Trees {
        Trees {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            list: RwLock::default(),
            level0_files_most: CachePadded::default(),
            level0_unmerged_most: CachePadded::default(),
            opened: AtomicU32::new(0),
        }
    }
}

impl Trees {
    /// The number of this open store; each of its trees has the same number.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// Whether SSTables hold all changes. The caller holds the log.
    pub(crate) fn are_flushed(&self) -> bool {
        self.all().iter().all(|tree| {
            let view = tree.load_view();
            view.active.is_empty() && view.immutable.is_empty()
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Tree>> {
        self.list
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<Tree>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.get(id as usize).cloned()
    }

    /// Opens a keyspace: see [`Tree::open`].
    pub(crate) fn open(&self, tree: &Tree, options: KeyspaceOptions) {
        tree.open(options, || self.opened.fetch_add(1, Ordering::Relaxed));
    }

    /// Adds the tree of the next id.
    pub(crate) fn add(&self, tree: Arc<Tree>) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(tree.id as usize, list.len(), "ids have no gap");
        list.push(tree);
    }

    /// Refuses a keyspace of another store.
    #[inline]
    pub(crate) fn check(&self, tree: &Tree) -> Result<()> {
        if tree.instance == self.instance {
            return Ok(());
        }
        Err(Error::UnknownKeyspace {
            name: tree.name.to_string(),
        })
    }

    /// For each value-log segment, the bytes that memtables and SSTables refer to.
    pub(crate) fn value_references(&self) -> HashMap<u64, u64> {
        let mut total = HashMap::new();
        for tree in self.all() {
            let view = tree.view();
            for memtable in std::iter::once(&view.active).chain(&view.immutable) {
                memtable.add_references(&mut total);
            }
            for (_, file) in view.version.files() {
                for &(segment, bytes) in &file.meta.references {
                    *total.entry(segment).or_default() += bytes;
                }
            }
        }
        total
    }

    pub(crate) fn level0_files_most(&self) -> usize {
        self.level0_files_most.load(Ordering::Relaxed)
    }

    /// The most SSTables of level 0 of any keyspace, in thousandths, without those that a running
    /// merge has merged.
    pub(crate) fn level0_unmerged_most(&self) -> u64 {
        self.level0_unmerged_most.load(Ordering::Relaxed)
    }

    /// Counts the SSTables of level 0. Call it after every change of versions, and when a merge has
    /// made progress.
    pub(crate) fn count_level0(&self) {
        let trees = self.all();
        let counts = trees.iter().map(|tree| tree.view().version.levels[0].len());
        let most = counts.max().unwrap_or(0);
        self.level0_files_most.store(most, Ordering::Relaxed);
        let unmerged = trees.iter().map(|tree| tree.unmerged_level0());
        let most = unmerged.max().unwrap_or(0);
        self.level0_unmerged_most.store(most, Ordering::Relaxed);
    }
}

//! Progress: how many files of level 0 the running merge has merged so far.
//!
//! Writers are slowed by the files that are left. The files themselves vanish all at once, when the
//! merge is installed: writers that followed their number would be slowest just before that.

use crate::tree::keyspace::Tree;
use crate::tree::live_file::LiveFile;
use crate::tree::trees::Trees;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of times that the progress of a merge is published. More would cost time, fewer would
/// slow writers in steps.
const STEPS: u64 = 64;

/// The progress of one merge, which its parts advance side by side. Keep it until the outputs are
/// installed: dropped, none of the files counts as merged any more.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    trees: &'a Trees,
    tree: &'a Tree,
    /// Number of files of level 0 among the inputs.
    level0_files: u64,
    /// Number of versions in all inputs.
    versions: u64,
    /// Number of versions merged so far.
    merged: AtomicU64,
}

impl<'a> Progress<'a> {
    pub(super) fn new(trees: &'a Trees, tree: &'a Tree, inputs: &[Arc<LiveFile>]) -> Progress<'a> {
        let level0 = &tree.view().version.levels[0];
        let is_in_level0 = |number| level0.iter().any(|file| file.meta.number == number);
        let taken = inputs.iter().filter(|file| is_in_level0(file.meta.number));
        Progress {
            trees,
            tree,
            level0_files: taken.count() as u64,
            versions: inputs.iter().map(|file| file.meta.entries).sum(),
            merged: AtomicU64::new(0),
        }
    }

    /// Notes that a part has merged this many more versions.
    pub(super) fn advance(&self, versions: u64) {
        let before = self.merged.fetch_add(versions, Ordering::Relaxed);
        if self.level0_files == 0 || self.step(before) == self.step(before + versions) {
            return;
        }
        let thousandths = self.level0_files * 1000 * self.step(before + versions) / STEPS;
        self.tree.note_merged_level0(thousandths);
        self.trees.count_level0();
    }

    fn step(&self, merged: u64) -> u64 {
        let share = u128::from(merged) * u128::from(STEPS) / u128::from(self.versions.max(1));
        u64::try_from(share).unwrap_or(STEPS).min(STEPS)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.level0_files > 0 {
            self.tree.note_merged_level0(0);
            self.trees.count_level0();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{HookFs, MemoryFs, Operation};
    use crate::work::compaction::picker::{self, Plan};
    use crate::{Batch, Config, Db, Durability, Environment, Keyspace, KeyspaceOptions};
    use std::sync::{Arc, Mutex, OnceLock};

    const FILES: u64 = 12;

    /// A store with twelve files in level 0.
    fn open(fs: HookFs) -> (Db, Keyspace) {
        let config = Config {
            durability: Durability::Memory,
            sstable_bytes: 16 << 10,
            ..Config::default()
        };
        let environment = Environment::stepped(Arc::new(fs));
        let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        for file in 0..FILES {
            let mut batch = Batch::new();
            for row in 0..1000u64 {
                batch.put(&keyspace, &(row * FILES + file).to_be_bytes(), &[7; 100]);
            }
            drop(db.write(batch).unwrap());
            db.flush(&keyspace).unwrap();
        }
        (db, keyspace)
    }

    #[test]
    fn files_that_a_merge_has_merged_are_no_debt_until_it_ends_without_result() {
        let (db, keyspace) = open(HookFs::new(MemoryFs::volatile(), |_, _| Ok(())));
        let (tree, trees) = (keyspace.tree(), &db.parts().trees);
        let debt = || db.work().debts().iter().map(|debt| debt.amount).max();
        let Some(Plan::Merge { runs, below, .. }) = picker::everything(&tree.view().version) else {
            panic!("there is something to merge");
        };
        let inputs: Vec<_> = runs.into_iter().flatten().chain(below).collect();
        let before = (trees.level0_unmerged_most(), debt());
        assert_eq!(before, (1000 * FILES, Some(500)));
        let progress = Progress::new(trees, tree, &inputs);
        progress.advance(FILES * 1000 / 4);
        assert_eq!(trees.level0_unmerged_most(), 1000 * FILES / 4 * 3);
        assert_eq!(debt(), Some(125));
        progress.advance(FILES * 1000 / 2);
        assert_eq!(debt(), Some(0));
        // Rows of parts that were merged twice.
        progress.advance(FILES * 1000);
        assert_eq!(trees.level0_unmerged_most(), 0);
        drop(progress);
        assert_eq!((trees.level0_unmerged_most(), debt()), before);
    }

    #[test]
    fn writers_hear_of_the_progress_of_a_merge_before_it_ends() {
        let store = Arc::new(OnceLock::<Db>::new());
        let unmerged = Arc::new(Mutex::new(Vec::new()));
        let hook = {
            let (store, unmerged) = (store.clone(), unmerged.clone());
            move |operation, path: &std::path::Path| {
                let is_sstable = path.extension().is_some_and(|kind| kind == "sst");
                if let Some(db) = store.get()
                    && operation == Operation::Write
                    && is_sstable
                {
                    let trees = &db.parts().trees;
                    assert_eq!(trees.level0_files_most() as u64, FILES);
                    unmerged.lock().unwrap().push(trees.level0_unmerged_most());
                }
                Ok(())
            }
        };
        let (db, _keyspace) = open(HookFs::new(MemoryFs::volatile(), hook));
        store.set(db.clone()).unwrap();
        db.step().unwrap().expect("level 0 is full");
        let unmerged = std::mem::take(&mut *unmerged.lock().unwrap());
        assert!(unmerged.len() > 4, "{unmerged:?}");
        assert!(unmerged.is_sorted_by(|a, b| a >= b), "{unmerged:?}");
        assert!(unmerged.last() < Some(&(1000 * FILES / 4)), "{unmerged:?}");
        assert_eq!(db.parts().trees.level0_unmerged_most(), 0);
    }
}

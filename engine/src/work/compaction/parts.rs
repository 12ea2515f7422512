//! A merge in parts: ranges of keys that several threads merge side by side. One edit installs the
//! outputs of all of them.
//!
//! With stepped background work, the parts run one after the other, and their number is the same on
//! every machine.

use crate::base::config::Background;
use crate::base::health::PanicGuard;
use crate::format::edit::FileMeta;
use crate::tree::keyspace::Tree;
use crate::tree::live_file::LiveFile;
use crate::values::Pin;
use crate::work::Work;
use crate::work::compaction::merge::{Merge, MergeSpec, Outputs};
use crate::work::compaction::progress::Progress;
use crate::{KeyRange, Result};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Maximum number of parts of a merge. More would take processors from writers and readers.
const PARTS_MAX: usize = 4;

/// Minimum number of full SSTables that a part reads: the last one that it writes may be small.
const PART_SSTABLES_MIN: u64 = 2;

/// The output of a merge. Its pins protect relocated values that no installed SSTable refers to
/// yet, so the files can be taken out only by installing them, together with the pins.
#[derive(Debug)]
#[must_use]
pub(crate) struct Merged {
    files: Vec<FileMeta>,
    _pins: Vec<Pin>,
}

impl Merged {
    /// Passes the files to `install`, and drops the pins once `install` has returned.
    pub(crate) fn install(
        self,
        install: impl FnOnce(&[FileMeta]) -> Result<()>,
    ) -> Result<Vec<FileMeta>> {
        install(&self.files)?;
        Ok(self.files)
    }
}

impl Work {
    /// Runs a merge. Its outputs are durable on return. A merge that fails leaves no files.
    pub(super) fn run_merge(
        &self,
        tree: &Tree,
        spec: &MergeSpec<'_>,
        progress: &Progress<'_>,
    ) -> Result<Merged> {
        self.run_parts(tree, spec, progress, self.parts.background.is_stepped())
    }

    fn run_parts(
        &self,
        tree: &Tree,
        spec: &MergeSpec<'_>,
        progress: &Progress<'_>,
        in_turn: bool,
    ) -> Result<Merged> {
        let ranges = self.part_ranges(tree, spec)?;
        let failure = OnceLock::new();
        let merge = |range| Merge::new(self, tree, spec, range, progress, &failure).run();
        let outputs = if in_turn {
            ranges.iter().map(merge).collect()
        } else {
            self.side_by_side(&ranges, &merge)
        };
        let mut all = Outputs::default();
        outputs.into_iter().for_each(|part| all.append(part));
        let done = failure.into_inner().map_or(Ok(()), Err);
        if let Err(error) = done.and_then(|()| self.sync_outputs(&all)) {
            let numbers = all.numbers.iter();
            numbers.for_each(|&number| self.remove_sstable(number));
            return Err(error);
        }
        Ok(Merged {
            files: all.files,
            _pins: all.pins,
        })
    }

    /// Merges the first range on this thread and the others on separate threads, which inherit its
    /// priority. Returns the outputs in the order of the ranges.
    fn side_by_side<'a>(
        &self,
        ranges: &'a [KeyRange],
        merge: &(impl Fn(&'a KeyRange) -> Outputs + Sync),
    ) -> Vec<Outputs> {
        thread::scope(|scope| {
            let spawn = |range| {
                let thread = thread::Builder::new().name("lazurite-merge".into());
                let run = move || {
                    let _guard = PanicGuard::new(&self.parts.health, "a part of a merge");
                    merge(range)
                };
                (range, thread.spawn_scoped(scope, run))
            };
            let others: Vec<_> = ranges[1..].iter().map(spawn).collect();
            let mut outputs = vec![merge(&ranges[0])];
            for (range, other) in others {
                outputs.push(match other {
                    Ok(running) => running
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    // The system refused another thread, so this one merges the part.
                    Err(_) => merge(range),
                });
            }
            outputs
        })
    }

    fn sync_outputs(&self, outputs: &Outputs) -> Result<()> {
        if !outputs.pins.is_empty() {
            self.parts.value_log.sync()?;
        }
        self.parts.directory.sync()
    }

    /// The key ranges of the parts of a merge, in order; at least one.
    fn part_ranges(&self, tree: &Tree, spec: &MergeSpec<'_>) -> Result<Vec<KeyRange>> {
        let inputs = spec.inputs();
        let bytes: u64 = inputs.iter().map(|file| file.meta.size).sum();
        let part_bytes_min = tree
            .sstable_bytes(&self.parts.config)
            .saturating_mul(PART_SSTABLES_MIN);
        let worth = usize::try_from(bytes / part_bytes_min).unwrap_or(usize::MAX);
        let parts = worth.min(self.merge_threads()).max(1);
        let mut starts = Vec::new();
        if parts > 1 {
            starts = divide(self.stretches(&inputs)?, parts);
        }
        let ends = starts.iter().cloned().map(Some).chain([None]);
        let starts = [Vec::new()].into_iter().chain(starts.iter().cloned());
        let ranges = starts.zip(ends).map(|(start, end)| KeyRange { start, end });
        Ok(ranges.collect())
    }

    /// Cuts the files into stretches: for each, a key near its end and its bytes.
    fn stretches(&self, files: &[Arc<LiveFile>]) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut stretches = Vec::new();
        for file in files {
            let separators = file.reader()?.separators(&self.parts.cache)?;
            let bytes = file.meta.size / (separators.len() as u64).max(1);
            stretches.extend(separators.into_iter().map(|key| (key, bytes)));
        }
        Ok(stretches)
    }

    /// Number of parts of a merge that run at once.
    fn merge_threads(&self) -> usize {
        match self.parts.background {
            Background::Threads => {
                let processors = thread::available_parallelism().map_or(1, usize::from);
                processors.min(PARTS_MAX)
            }
            Background::FewThreads => 1,
            #[cfg(any(test, feature = "testing"))]
            Background::Stepped => PARTS_MAX,
        }
    }
}

/// Divides the stretches into at most `parts` parts of about the same size. Returns the keys at
/// which the parts after the first begin, in order.
fn divide(mut stretches: Vec<(Vec<u8>, u64)>, parts: usize) -> Vec<Vec<u8>> {
    stretches.sort_unstable();
    let total: u64 = stretches.iter().map(|(_, bytes)| bytes).sum();
    let part_bytes = (total / parts as u64).max(1);
    let mut starts: Vec<Vec<u8>> = Vec::new();
    let mut passed = 0;
    for (key, bytes) in stretches {
        passed += bytes;
        let is_due = passed / part_bytes > starts.len() as u64;
        if is_due && starts.len() + 1 < parts && starts.last() != Some(&key) {
            starts.push(key);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::divide;
    use crate::fs::name::{FileKind, FileName};
    use crate::fs::{Failure, Fault, FaultFs, MemoryFs, Operation};
    use crate::work::compaction::merge::MergeSpec;
    use crate::work::compaction::picker::{self, Plan};
    use crate::work::compaction::progress::Progress;
    use crate::{Background, Batch, Config, Db, Direction, Durability, Environment, Error};
    use crate::{KeyRange, Keyspace, KeyspaceOptions, Snapshot};
    use std::io::ErrorKind;
    use std::sync::Arc;

    fn starts(stretches: &[(u8, u64)], parts: usize) -> Vec<u8> {
        let stretches = stretches.iter().map(|&(key, bytes)| (vec![key], bytes));
        let starts = divide(stretches.collect(), parts);
        starts.iter().map(|start| start[0]).collect()
    }

    #[test]
    fn parts_have_about_the_same_size() {
        let even: Vec<_> = (1..=100).map(|key| (key, 10)).collect();
        assert_eq!(starts(&even, 4), [25, 50, 75]);
        assert_eq!(starts(&even, 1), []);
        assert_eq!(starts(&[(9, 10), (1, 10), (5, 80), (7, 10)], 2), [5]);
    }

    #[test]
    fn no_part_begins_where_another_one_does() {
        assert_eq!(starts(&[(7, 10), (7, 10), (7, 10), (7, 10)], 4), [7]);
        assert_eq!(starts(&[(1, 0), (2, 0)], 4), []);
        assert_eq!(starts(&[], 4), []);
    }

    /// A store whose level 0 has four files with much to merge: versions that a snapshot sees,
    /// deleted spans across all parts, and large values.
    struct Store {
        files: MemoryFs,
        disk: FaultFs,
        db: Db,
        keyspace: Keyspace,
        snapshot: Option<Snapshot>,
    }

    impl Store {
        fn new(background: Background) -> Store {
            let files = MemoryFs::volatile();
            let disk = FaultFs::new(Arc::new(files.clone()));
            let environment = Environment {
                background,
                ..Environment::stepped(Arc::new(disk.clone()))
            };
            let config = Config {
                durability: Durability::Memory,
                sstable_bytes: 1 << 10,
                block_bytes: 128,
                value_bytes_separated: 256,
                level0_files_max: 100,
                level0_files_stop: 200,
                ..Config::default()
            };
            let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
            let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
            let mut store = Store {
                files,
                disk,
                db,
                keyspace,
                snapshot: None,
            };
            for round in 0..4 {
                store.write(round);
                store.db.flush(&store.keyspace).unwrap();
                if round == 1 {
                    store.snapshot = Some(store.db.snapshot());
                }
            }
            store
        }

        fn write(&self, round: u32) {
            let mut batch = Batch::new();
            for row in (0..600u32).filter(|row| row % 4 == round || row % 3 == 0) {
                let mut value = (row * 7 + round).to_be_bytes().repeat(5);
                if row % 50 == 0 {
                    value.resize(300, round as u8);
                }
                batch.put(&self.keyspace, &row.to_be_bytes(), &value);
            }
            let span = |start: u32, end: u32| KeyRange {
                start: start.to_be_bytes().to_vec(),
                end: Some(end.to_be_bytes().to_vec()),
            };
            if round > 0 {
                batch.delete_range(&self.keyspace, span(40 * round, 560 - 40 * round));
            }
            batch.put(&self.keyspace, &300u32.to_be_bytes(), b"in all of it");
            drop(self.db.write(batch).unwrap());
        }

        /// All rows as they are now, followed by the rows of the snapshot.
        fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
            let now = self.db.snapshot();
            let mut rows = Vec::new();
            for snapshot in [&now].into_iter().chain(&self.snapshot) {
                let range = KeyRange::all();
                let mut scan = snapshot.scan(&self.keyspace, range, Direction::Forward);
                while scan.advance().unwrap() {
                    let value = snapshot.get(&self.keyspace, scan.key()).unwrap().unwrap();
                    rows.push((scan.key().to_vec(), value.to_vec()));
                }
            }
            rows
        }

        /// The SSTables on the disk, and those of the version.
        fn sstables(&self) -> [Vec<String>; 2] {
            let is_sstable = |name: &String| name.ends_with(".sst");
            let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().into();
            let files = self.files.files();
            let mut there: Vec<String> = files.iter().map(|(path, _)| name(path)).collect();
            there.retain(is_sstable);
            let view = self.keyspace.tree().view();
            let live = view.version.files().map(|(_, file)| file.meta.number);
            let named = |number| FileName::Numbered(FileKind::Sstable, number).to_string();
            let mut live: Vec<String> = live.map(named).collect();
            live.sort();
            [there, live]
        }
    }

    #[test]
    fn rows_snapshots_and_deleted_spans_are_the_same_after_a_merge_in_parts() {
        for background in [Background::Stepped, Background::Threads] {
            let mut store = Store::new(background);
            let before = store.rows();
            store.db.compact(&store.keyspace).unwrap();
            assert_eq!(store.rows(), before);
            let view = store.keyspace.tree().view();
            assert!(view.version.files().count() > 4, "as many as parts");
            assert!(store.db.verify().unwrap().damages.is_empty());
            store.snapshot = None;
            let before = store.rows();
            store.db.compact(&store.keyspace).unwrap();
            assert_eq!(store.rows(), before);
        }
    }

    #[test]
    fn a_stepped_merge_in_parts_writes_the_same_files_each_time() {
        let [one, other] = [(); 2].map(|()| {
            let store = Store::new(Background::Stepped);
            store.db.compact(&store.keyspace).unwrap();
            store.files.files()
        });
        assert!(one == other);
    }

    #[test]
    fn a_merge_of_which_one_part_fails_leaves_no_files() {
        for in_turn in [true, false] {
            for operation in [Operation::Create, Operation::Write] {
                fail_each_call(operation, in_turn);
            }
        }
    }

    /// Fails one call of a kind in each merge: the first, the second and so on, until none is left.
    fn fail_each_call(operation: Operation, in_turn: bool) {
        let store = Store::new(Background::Stepped);
        let tree = store.keyspace.tree();
        let Some(Plan::Merge { runs, below, level }) = picker::everything(&tree.view().version)
        else {
            panic!("there is something to merge");
        };
        let spec = MergeSpec {
            level,
            runs: &runs,
            below: &below,
            cuts: Vec::new(),
            relocate: &[],
        };
        let trees = &store.db.parts().trees;
        let progress = Progress::new(trees, tree, &spec.inputs());
        for nth in 1.. {
            store.disk.set(Some(Fault {
                operation: Some(operation),
                path: ".sst".into(),
                nth,
                failure: Failure::Error(ErrorKind::StorageFull),
                sticky: false,
            }));
            match store.db.work().run_parts(tree, &spec, &progress, in_turn) {
                Ok(merged) => {
                    assert!(merged.files.len() > 4 && nth > 4, "{operation:?}: {nth}");
                    return;
                }
                Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
            }
            let [there, live] = store.sstables();
            assert_eq!(there, live, "{operation:?}, call {nth}");
        }
    }
}

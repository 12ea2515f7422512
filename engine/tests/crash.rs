//! Cuts the power, or fails a call, at each call of the file system in turn, during a script that
//! covers flush, compaction, manifest switch, WAL rotation and value-log roll. Nothing acknowledged
//! is lost, and each batch is there whole or not at all.

mod common;

use common::{Change, DIRECTORY, Model, Store, open, open_in, random_changes, scale, tiny_config};
use lazurite_engine::fs::{DiskFs, Failure, Fault, FaultFs, Keep, MemoryFs, Operation};
use lazurite_engine::{Choices, Config, Durability, Error};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// How a write of the script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Acknowledged,
    /// The write may or may not be there after a restart.
    InDoubt,
}

/// A script that runs until the store can write no more.
struct Script {
    choices: Choices,
    config: Config,
    memory: MemoryFs,
    faults: FaultFs,
    history: Vec<(Vec<Change>, Outcome)>,
    /// The index in `history` before which everything is durable.
    durable: usize,
}

impl Script {
    fn new(seed: u64, durability: Durability) -> Script {
        let mut choices = Choices::new(seed);
        let config = tiny_config(&mut choices, durability);
        let config = Config {
            memtable_bytes_max: 2 << 10,
            wal_segment_bytes: 2 << 10,
            value_segment_bytes: 1 << 10,
            manifest_bytes_min: 1 << 10,
            level0_files_max: 2,
            ..config
        };
        let memory = MemoryFs::crashable();
        let faults = FaultFs::new(Arc::new(memory.clone()));
        Script {
            choices,
            config,
            memory,
            faults,
            history: Vec::new(),
            durable: 0,
        }
    }

    fn open(&self) -> Result<Store, Error> {
        open(Arc::new(self.faults.clone()), &self.config)
    }

    /// Runs to the end or to the first failure that stops writing. Returns the store as it is then.
    fn run(&mut self, steps: u64) -> Result<Store, Error> {
        let mut store = self.open()?;
        for step in 0..steps {
            if store.db.failure().is_some() {
                break;
            }
            self.write(&store);
            if self.choices.one_in(3) {
                let _ = store.db.step();
            }
            if step % 40 == 20 {
                let _ = store.db.compact(&store.keyspaces[0]);
            }
            if step % 30 == 10 {
                self.checkpoint(&store, &format!("/copies/{step}/copy"));
            }
            if step % 50 == 49 {
                let closed = store.db.close();
                drop(store);
                if closed.is_ok() {
                    self.durable = self.history.len();
                }
                store = self.open()?;
            }
        }
        Ok(store)
    }

    /// Makes a checkpoint in a new directory below a new directory, and checks that it survives a
    /// power cut if it succeeds.
    fn checkpoint(&self, store: &Store, path: &str) {
        if store.db.checkpoint(path.as_ref()).is_err() {
            return;
        }
        let fs = Arc::new(self.memory.crash(1, Keep::Nothing));
        let copy = open_in(path, fs, &self.config);
        let copy = copy.unwrap_or_else(|error| panic!("{path}: {error}"));
        let found = copy.dump().unwrap();
        assert!(
            self.explains(&found, self.history.len()),
            "{path}: lost or torn"
        );
    }

    fn write(&mut self, store: &Store) {
        let changes = random_changes(&mut self.choices);
        let written = store.write(&changes);
        match written {
            Ok(()) => {
                self.history.push((changes, Outcome::Acknowledged));
                if self.config.durability == Durability::Disk {
                    self.durable = self.history.len();
                }
            }
            // These errors promise that nothing was written.
            Err(Error::NoSpace { .. } | Error::ReadOnly { .. } | Error::Closed) => {}
            Err(error) if lacks_handle(&error) => {}
            Err(_) => self.history.push((changes, Outcome::InDoubt)),
        }
    }

    /// True if `found` is the model after some change at or after `durable`. Each change in doubt
    /// may or may not be included.
    fn explains(&self, found: &Model, durable: usize) -> bool {
        let mut states = vec![Model::default()];
        for (index, (changes, outcome)) in self.history.iter().enumerate() {
            if index >= durable && states.contains(found) {
                return true;
            }
            let before = states.clone();
            states.iter_mut().for_each(|state| state.apply(changes));
            if *outcome == Outcome::InDoubt {
                states.extend(before);
            }
        }
        states.contains(found)
    }

    /// Ends the fault, and checks that the store takes a write and has lost nothing.
    fn check_resumes(&mut self, store: &Store, context: &str) {
        self.faults.set(None);
        let failure = store.db.failure();
        assert!(failure.is_none(), "{context}: {failure:?}");
        let before = self.history.len();
        for _ in 0..20 {
            self.write(store);
            store.db.step().unwrap();
        }
        let writes = self.history.len() - before;
        assert_eq!(writes, 20, "{context}: writes do not resume");
        let found = store.dump().unwrap();
        assert!(
            self.explains(&found, self.history.len()),
            "{context}: wrong after the fault"
        );
        self.check_after_crash(context, Keep::Nothing, 1);
        self.check_after_crash(context, Keep::Everything, 1);
    }

    /// Cuts the power, opens what is left, and compares it with the history.
    fn check_after_crash(&self, context: &str, keep: Keep, seed: u64) {
        self.check_left(context, keep, self.memory.crash(seed, keep));
    }

    /// Opens the files that a crash has left, and compares the store with the history.
    fn check_left(&self, context: &str, keep: Keep, fs: MemoryFs) {
        let store = open(Arc::new(fs.clone()), &self.config);
        let store = store.unwrap_or_else(|error| panic!("{context}, {keep:?}: open: {error}"));
        let found = store
            .dump()
            .unwrap_or_else(|error| panic!("{context}, {keep:?}: {error}"));
        let durable = match keep {
            Keep::Everything => self.history.len(),
            _ => self.durable,
        };
        assert!(
            self.explains(&found, durable),
            "{context}, {keep:?}: lost or torn"
        );
        store
            .write(&[Change::Put(0, b"more".to_vec(), b"v".to_vec())])
            .unwrap();
        let damages = store.db.verify().unwrap().damages;
        assert!(damages.is_empty(), "{context}, {keep:?}: {damages:?}");
        store.db.close().unwrap();
        drop(store);
        let again = open(Arc::new(fs), &self.config).unwrap();
        let mut expected = found;
        expected.apply(&[Change::Put(0, b"more".to_vec(), b"v".to_vec())]);
        assert!(
            again.dump().unwrap() == expected,
            "{context}, {keep:?}: differs after a second open"
        );
    }
}

fn steps() -> u64 {
    (90.0 * scale().min(4.0)) as u64
}

fn seeds() -> std::ops::Range<u64> {
    1..1 + scale().max(1.0) as u64
}

/// Runs the script with the fault at the first, second, third … call until it no longer fires.
fn at_every_call(
    seed: u64,
    durability: Durability,
    fault: &Fault,
    check: impl Fn(Script, Result<Store, Error>, &str),
) {
    for nth in 1.. {
        let mut script = Script::new(seed, durability);
        script.faults.set(Some(Fault {
            nth,
            ..fault.clone()
        }));
        let ended = script.run(steps());
        let (calls, fired) = script.faults.seen();
        let context = format!("seed {seed}, {durability:?}, call {nth} of {fault:?}");
        if !fired {
            assert!(calls < nth && nth > 1, "{context}: never fires");
            println!("{context}: {calls} calls, {} writes", script.history.len());
            return;
        }
        check(script, ended, &context);
    }
}

/// Whether a call was refused because no file handle was left.
fn lacks_handle(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.raw_os_error().is_some())
}

fn fault(operation: Option<Operation>, error: ErrorKind, sticky: bool) -> Fault {
    Fault {
        operation,
        path: String::new(),
        nth: 1,
        failure: Failure::Error(error),
        sticky,
    }
}

#[test]
fn the_power_may_fail_at_every_call() {
    for seed in seeds() {
        for durability in [Durability::Disk, Durability::Process] {
            at_every_call(
                seed,
                durability,
                &fault(None, ErrorKind::Other, true),
                |script, ended, context| {
                    let seed = script.history.len() as u64;
                    // Crash copies are made while the store is open: what it writes when it is
                    // dropped is not in them.
                    let left = [Keep::Nothing, Keep::Prefix, Keep::Sectors, Keep::Everything]
                        .map(|keep| (keep, script.memory.crash(seed, keep)));
                    drop(ended);
                    for (keep, fs) in left {
                        script.check_left(context, keep, fs);
                    }
                },
            );
        }
    }
}

#[test]
fn every_call_may_fail_once() {
    for seed in seeds() {
        at_every_call(
            seed,
            Durability::Disk,
            &fault(None, ErrorKind::Other, false),
            |script, ended, context| {
                if let Ok(store) = &ended {
                    let found = store
                        .dump()
                        .unwrap_or_else(|error| panic!("{context}: reads stop: {error}"));
                    assert!(
                        script.explains(&found, script.history.len()),
                        "{context}: wrong before a restart"
                    );
                }
                script.check_after_crash(context, Keep::Nothing, 1);
                script.check_after_crash(context, Keep::Everything, 1);
            },
        );
    }
}

#[test]
fn a_checkpoint_that_fails_at_any_call_leaves_no_files_and_can_be_made_again() {
    let mut script = Script::new(7, Durability::Disk);
    let store = script.run(30).unwrap();
    for nth in 1.. {
        script.faults.set(Some(Fault {
            path: "/copy".into(),
            nth,
            ..fault(None, ErrorKind::Other, false)
        }));
        let path = format!("/copy{nth}");
        let made = store.db.checkpoint(path.as_ref());
        let (_, fired) = script.faults.seen();
        script.faults.set(None);
        if !fired {
            return made.unwrap();
        }
        assert!(made.is_err(), "call {nth}: {made:?}");
        assert!(
            store.db.failure().is_none(),
            "call {nth}: the store stays writable"
        );
        store
            .db
            .checkpoint(path.as_ref())
            .unwrap_or_else(|error| panic!("call {nth}: {error}"));
    }
}

#[test]
fn a_checkpoint_whose_sync_of_the_store_fails_stops_all_writing() {
    let errors = [ErrorKind::StorageFull, ErrorKind::Other];
    // The directory keeps the checkpoint's own MANIFEST out. Its separator is another on Windows.
    let manifest = Path::new(DIRECTORY).join("MANIFEST");
    let paths = [manifest.to_str().unwrap(), ".vlog", ".wal"];
    for (path, error) in paths
        .into_iter()
        .flat_map(|path| errors.map(|error| (path, error)))
    {
        let mut script = Script::new(7, Durability::Disk);
        let store = script.run(30).unwrap();
        // Gives each file of the store something to sync.
        let value = store.db.write_value(&[1; 300]).unwrap();
        let mut batch = lazurite_engine::Batch::new();
        batch.put_large(&store.keyspaces[0], b"large", value);
        let _unsynced = store.db.write(batch).unwrap();
        script.faults.set(Some(Fault {
            path: path.into(),
            ..fault(Some(Operation::Sync), error, false)
        }));
        let made = store.db.checkpoint("/copy".as_ref());
        assert!(made.is_err(), "{path}, {error}: {made:?}");
        assert!(store.db.failure().is_some(), "{path}, {error}");
        let refused = store.write(&[Change::Delete(0, vec![1])]);
        assert!(
            matches!(refused, Err(Error::ReadOnly { .. })),
            "{path}, {error}"
        );
    }
}

#[test]
fn a_call_on_the_store_that_fails_during_a_checkpoint_loses_nothing() {
    for error in [ErrorKind::Other, ErrorKind::StorageFull] {
        for nth in 1.. {
            let mut script = Script::new(7, Durability::Disk);
            let store = script.run(30).unwrap();
            let value = store.db.write_value(&[1; 300]).unwrap();
            let mut batch = lazurite_engine::Batch::new();
            batch.put_large(&store.keyspaces[0], b"large", value);
            drop(store.db.write(batch).unwrap());
            let large = Change::Put(0, b"large".to_vec(), vec![1; 300]);
            script.history.push((vec![large], Outcome::InDoubt));
            script.faults.set(Some(Fault {
                path: "/data".into(),
                nth,
                ..fault(None, error, false)
            }));
            let made = store.db.checkpoint("/copy".as_ref());
            let (_, fired) = script.faults.seen();
            script.faults.set(None);
            let context = format!("call {nth}, {error}: {made:?}");
            if store.db.failure().is_none() {
                (0..5).for_each(|_| script.write(&store));
                script.checkpoint(&store, "/next");
                store.db.checkpoint("/again".as_ref()).unwrap();
            }
            script.check_after_crash(&context, Keep::Nothing, 1);
            script.check_after_crash(&context, Keep::Everything, 1);
            if !fired {
                made.unwrap();
                break;
            }
            assert!(made.is_err() || store.db.failure().is_none(), "{context}");
        }
    }
}

#[test]
fn a_disk_that_a_sync_finds_full_loses_nothing_that_was_acknowledged() {
    for mebibytes in 2..6 {
        let mut script = Script::new(3, Durability::Disk);
        script.memory = MemoryFs::crashable_up_to(mebibytes << 20);
        script.faults = FaultFs::new(Arc::new(script.memory.clone()));
        script.config.reserve_bytes = 0;
        // A disk that may be full at any moment.
        let mut is_full = false;
        if let Ok(store) = script.run(0) {
            while !is_full && script.history.len() < 3_000 {
                let writes = script.history.len();
                script.write(&store);
                let stepped = store.db.step();
                is_full = stepped.is_err() || script.history.len() == writes;
            }
            assert!(is_full, "{mebibytes} MiB: never full");
            script.check_after_crash("full", Keep::Nothing, 1);
            script.check_after_crash("full", Keep::Everything, 1);
        }
    }
}

/// The disk has calls of its own for large writes and wide reads.
#[test]
fn every_call_of_the_disk_may_fail_once() {
    for nth in (1..).step_by(3) {
        let place = tempfile::tempdir().unwrap();
        let faults = FaultFs::new(Arc::new(DiskFs::default()));
        let mut script = Script::new(1, Durability::Disk);
        script.faults = faults.clone();
        script.config.memtable_bytes_max = 1 << 10;
        faults.set(Some(Fault {
            nth,
            ..fault(None, ErrorKind::Other, false)
        }));
        let path = place.path().to_str().unwrap().to_owned();
        let open = |config: &Config| open_in(&path, Arc::new(faults.clone()), config);
        if let Ok(store) = open(&script.config) {
            for _ in 0..25 {
                script.write(&store);
                let _ = store.db.step();
            }
            let _ = store.db.compact(&store.keyspaces[0]);
            let _ = store.db.close();
        }
        let (_, fired) = faults.seen();
        faults.set(None);
        let context = format!("call {nth}");
        let store = open(&script.config).unwrap_or_else(|error| panic!("{context}: {error}"));
        let found = store.dump().unwrap();
        assert!(
            script.explains(&found, script.history.len()),
            "{context}: lost or torn"
        );
        if !fired {
            break;
        }
    }
}

#[test]
fn every_sync_may_fail_and_is_not_tried_again() {
    // If a sync reports a full disk, the failure stays: the changes that were not kept are lost.
    let errors = [ErrorKind::Other, ErrorKind::StorageFull];
    for (seed, error) in seeds().flat_map(|seed| errors.map(|error| (seed, error))) {
        at_every_call(
            seed,
            Durability::Disk,
            &fault(Some(Operation::Sync), error, false),
            |script, ended, context| {
                if let Ok(store) = &ended {
                    store
                        .dump()
                        .unwrap_or_else(|error| panic!("{context}: reads stop: {error}"));
                    assert!(store.db.space_failure().is_none(), "{context}");
                    if store.db.failure().is_some() {
                        let refused = store.write(&[Change::Delete(0, vec![1])]);
                        assert!(
                            matches!(refused, Err(Error::ReadOnly { .. })),
                            "{context}: {refused:?}"
                        );
                    }
                }
                script.check_after_crash(context, Keep::Nothing, 1);
                script.check_after_crash(context, Keep::Prefix, 1);
            },
        );
    }
}

#[test]
fn a_full_disk_loses_nothing_and_passes() {
    for seed in seeds() {
        for operation in [Operation::Write, Operation::Create] {
            let full = fault(Some(operation), ErrorKind::StorageFull, true);
            at_every_call(
                seed,
                Durability::Disk,
                &full,
                |mut script, ended, context| {
                    let Ok(store) = ended else {
                        // The disk was full when the store was opened. With space the store opens.
                        script.faults.set(None);
                        script.check_after_crash(context, Keep::Everything, 1);
                        return;
                    };
                    let found = store
                        .dump()
                        .unwrap_or_else(|error| panic!("{context}: reads stop: {error}"));
                    assert!(
                        script.explains(&found, script.history.len()),
                        "{context}: wrong while full"
                    );
                    assert!(
                        store.db.failure().is_none(),
                        "{context}: {:?}",
                        store.db.failure()
                    );
                    script.check_resumes(&store, context);
                },
            );
        }
    }
}

#[test]
fn a_process_without_a_file_handle_refuses_work_and_loses_nothing() {
    for seed in seeds() {
        for (durability, sticky) in [(Durability::Disk, true), (Durability::Process, false)] {
            let fault = Fault {
                failure: Failure::NoHandle,
                ..fault(None, ErrorKind::Other, sticky)
            };
            at_every_call(
                seed,
                durability,
                &fault,
                |mut script, ended, context| match ended {
                    Ok(store) => script.check_resumes(&store, context),
                    Err(error) => {
                        assert!(lacks_handle(&error), "{context}: {error}");
                        script.check_after_crash(context, Keep::Everything, 1);
                    }
                },
            );
        }
    }
}

#[test]
fn a_store_on_a_full_disk_opens_for_reading_and_takes_writes_once_there_is_space() {
    for seed in seeds() {
        let mut script = Script::new(seed, Durability::Disk);
        let store = script.run(40).unwrap();
        std::mem::forget(store);
        script.memory = script.memory.crash(seed, Keep::Nothing);
        script.faults = FaultFs::new(Arc::new(script.memory.clone()));
        let full = |operation| fault(Some(operation), ErrorKind::StorageFull, true);
        for operation in [Operation::Write, Operation::Create] {
            script.faults.set(Some(full(operation)));
            let store = script.open().unwrap();
            let found = store.dump().unwrap();
            assert!(script.explains(&found, script.history.len()), "{seed}");
            let put = [Change::Put(0, b"key".to_vec(), b"value".to_vec())];
            let refused = store.write(&put);
            assert!(
                matches!(refused, Err(Error::NoSpace { .. })),
                "{seed}: {refused:?}"
            );
            let _ = store.db.step();
            assert!(store.db.failure().is_none(), "{:?}", store.db.failure());
            // The process ends. The next one finds the store unchanged.
            std::mem::forget(store);
            script.check_after_crash("full", Keep::Everything, seed);
            script.memory = script.memory.crash(seed, Keep::Everything);
            script.faults = FaultFs::new(Arc::new(script.memory.clone()));
        }
        script.faults.set(Some(full(Operation::Write)));
        let store = script.open().unwrap();
        script.faults.set(None);
        for _ in 0..20 {
            script.write(&store);
            store.db.step().unwrap();
        }
        std::mem::forget(store);
        script.check_after_crash("with space again", Keep::Nothing, seed);
    }
}

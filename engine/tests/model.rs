//! Random operations on the engine and on plain maps, compared after each operation, with reopens
//! and crashes in between.

mod common;

use common::{
    Change, Model, Store, in_range, open, open_in, random_changes, random_key, random_range, scale,
    tiny_config,
};
use lazurite_engine::fs::{Keep, MemoryFs};
use lazurite_engine::{Choices, Config, Direction, Durability, Snapshot, test_seeds};
use std::path::Path;
use std::sync::Arc;

const OPERATIONS: f64 = 100_000.0;
const OPERATIONS_PER_RUN: u64 = 5_000;

/// One history: the store, the model, and what is known to be durable.
struct Run {
    choices: Choices,
    config: Config,
    fs: MemoryFs,
    store: Store,
    model: Model,
    durable: Model,
    since: Vec<Vec<Change>>,
    snapshots: Vec<(Snapshot, Model)>,
    checkpoints: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut choices = Choices::new(seed);
        let durability = match choices.below(2) {
            0 => Durability::Process,
            _ => Durability::Disk,
        };
        let config = tiny_config(&mut choices, durability);
        println!("seed {seed}: {config:?}");
        let fs = MemoryFs::crashable();
        let store = open(Arc::new(fs.clone()), &config).unwrap();
        Run {
            choices,
            config,
            fs,
            store,
            model: Model::default(),
            durable: Model::default(),
            since: Vec::new(),
            snapshots: Vec::new(),
            checkpoints: 0,
        }
    }

    fn step(&mut self) {
        match self.choices.below(1000) {
            0..400 => self.write(),
            400..600 => self.get(),
            600..760 => self.scan(),
            760..800 => self.seek(),
            800..850 => self.read_part(),
            850..930 => {
                let _ = self.store.db.step().unwrap();
            }
            930..950 => {
                let keyspace = self.choices.index(3);
                self.store
                    .db
                    .flush(&self.store.keyspaces[keyspace])
                    .unwrap();
            }
            950..970 => self.take_snapshot(),
            970..985 => {
                if !self.snapshots.is_empty() {
                    let index = self.choices.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.swap_remove(index);
                }
            }
            985..990 => {
                self.store.db.sync().unwrap();
                self.all_is_durable();
            }
            990..992 => self.abandon_upload(),
            992..994 => self.checkpoint(),
            994..997 => self.reopen(),
            _ => self.crash(),
        }
    }

    /// Checks that a checkpoint holds what was visible, whatever is written to either store later,
    /// and survives a power cut.
    fn checkpoint(&mut self) {
        self.checkpoints += 1;
        let directory = format!("/copy{}", self.checkpoints);
        let path = Path::new(&directory);
        self.store.db.checkpoint(path).unwrap();
        self.all_is_durable();
        let crashed = Arc::new(self.fs.crash(self.choices.next(), Keep::Nothing));
        let copy = open_in(&directory, crashed, &self.config).unwrap();
        assert_eq!(copy.dump().unwrap(), self.model, "checkpoint after a crash");
        let copy = open_in(&directory, Arc::new(self.fs.clone()), &self.config).unwrap();
        let mut model = self.model.clone();
        for _ in 0..20 {
            let changes = random_changes(&mut self.choices);
            copy.write(&changes).unwrap();
            model.apply(&changes);
            self.write();
        }
        assert_eq!(copy.dump().unwrap(), model, "checkpoint");
        assert_eq!(copy.db.verify().unwrap().damages.len(), 0);
    }

    fn all_is_durable(&mut self) {
        self.durable = self.model.clone();
        self.since.clear();
    }

    fn write(&mut self) {
        let changes = random_changes(&mut self.choices);
        self.store.write(&changes).unwrap();
        self.model.apply(&changes);
        if self.config.durability == Durability::Disk {
            self.durable.apply(&changes);
        } else {
            self.since.push(changes);
        }
    }

    fn get(&mut self) {
        let (keyspace, key) = (self.choices.index(3), random_key(&mut self.choices));
        let found = self
            .store
            .db
            .get(&self.store.keyspaces[keyspace], &key)
            .unwrap();
        let expected = self.model.maps[keyspace].get(&key);
        assert_eq!(
            found.as_deref(),
            expected.map(|value| &value[..]),
            "get {keyspace} {key:?}"
        );
        if let Some((snapshot, model)) = self.snapshots.first() {
            let found = snapshot.get(&self.store.keyspaces[keyspace], &key).unwrap();
            let expected = model.maps[keyspace].get(&key);
            assert_eq!(
                found.as_deref(),
                expected.map(|value| &value[..]),
                "get by snapshot"
            );
        }
    }

    fn direction(&mut self) -> Direction {
        match self.choices.below(2) {
            0 => Direction::Forward,
            _ => Direction::Backward,
        }
    }

    fn scan(&mut self) {
        let (keyspace, range) = (self.choices.index(3), random_range(&mut self.choices));
        let limit = if self.choices.one_in(10) {
            usize::MAX
        } else {
            20
        };
        let direction = self.direction();
        let snapshot = self.store.db.snapshot();
        self.model
            .check_scan(&self.store, &snapshot, keyspace, &range, direction, limit);
        if let Some((snapshot, model)) = self.snapshots.last() {
            model.check_scan(&self.store, snapshot, keyspace, &range, direction, limit);
        }
    }

    fn seek(&mut self) {
        let (keyspace, range) = (self.choices.index(3), random_range(&mut self.choices));
        let direction = self.direction();
        let snapshot = self.store.db.snapshot();
        let mut scan = snapshot.scan(&self.store.keyspaces[keyspace], range.clone(), direction);
        for _ in 0..4 {
            let target = random_key(&mut self.choices);
            scan.seek(&target);
            let mut rows = self.model.maps[keyspace]
                .keys()
                .filter(|key| in_range(key, &range));
            let expected = match direction {
                Direction::Forward => rows.find(|key| **key >= target),
                Direction::Backward => rows.rfind(|key| **key <= target),
            };
            let mut found = scan.advance().unwrap().then(|| scan.key().to_vec());
            assert_eq!(
                found.as_ref(),
                expected,
                "seek {target:?} in {range:?} {direction:?}"
            );
            // A seek continues from the position of the scan.
            for _ in 0..self.choices.below(3) {
                if found.is_some() {
                    found = scan.advance().unwrap().then(|| scan.key().to_vec());
                }
            }
        }
    }

    fn read_part(&mut self) {
        let (keyspace, key) = (self.choices.index(3), random_key(&mut self.choices));
        let snapshot = self.store.db.snapshot();
        let reader = snapshot
            .open_value(&self.store.keyspaces[keyspace], &key)
            .unwrap();
        drop(snapshot);
        let expected = self.model.maps[keyspace].get(&key);
        assert_eq!(reader.is_some(), expected.is_some());
        let (Some(reader), Some(expected)) = (reader, expected) else {
            return;
        };
        assert_eq!(reader.length(), expected.len() as u64);
        let offset = self.choices.below(expected.len() as u64 + 1);
        let part = reader.read_at(offset, 30).unwrap();
        assert!(part.len() <= 30 && (!part.is_empty() || offset == reader.length()));
        assert_eq!(
            part,
            expected[offset as usize..offset as usize + part.len()]
        );
        let behind = reader.length() + offset;
        assert!(reader.read_at(behind, 30).unwrap().is_empty());
        assert!(reader.read_at(offset, 0).unwrap().is_empty());
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() < 4 {
            self.snapshots
                .push((self.store.db.snapshot(), self.model.clone()));
        }
    }

    fn abandon_upload(&mut self) {
        let mut writer = self.store.db.value_writer().unwrap();
        writer
            .write(&vec![7; self.choices.below(1000) as usize])
            .unwrap();
        if self.choices.one_in(2) {
            writer.finish().unwrap();
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.store.db.close().unwrap();
        self.config = tiny_config(&mut self.choices, self.config.durability);
        self.store = open(Arc::new(self.fs.clone()), &self.config).unwrap();
        self.all_is_durable();
        assert!(
            self.store.dump().unwrap() == self.model,
            "the store differs after a reopen"
        );
    }

    fn crash(&mut self) {
        let keep = match self.choices.below(4) {
            0 => Keep::Nothing,
            1 => Keep::Prefix,
            2 => Keep::Sectors,
            _ => Keep::Everything,
        };
        self.snapshots.clear();
        self.fs = self.fs.crash(self.choices.next(), keep);
        self.config = tiny_config(&mut self.choices, self.config.durability);
        self.store = open(Arc::new(self.fs.clone()), &self.config)
            .unwrap_or_else(|error| panic!("open after a crash that kept {keep:?}: {error}"));
        let found = self.store.dump().unwrap();
        let mut expected = self.durable.clone();
        if keep == Keep::Everything {
            self.since
                .iter()
                .for_each(|changes| expected.apply(changes));
            self.since.clear();
            assert!(found == expected, "the store differs after a kill");
        }
        for changes in std::mem::take(&mut self.since) {
            if found == expected {
                break;
            }
            expected.apply(&changes);
        }
        assert!(
            found == expected,
            "what survived a crash that kept {keep:?} is no prefix"
        );
        self.model = expected;
        self.all_is_durable();
    }
}

/// Seeds of long runs that have found something.
const ONCE_FAILED: [u64; 2] = [131, 158];

fn runs() -> u64 {
    (OPERATIONS * scale()) as u64 / OPERATIONS_PER_RUN
}

#[test]
fn the_engine_answers_like_plain_maps() {
    for seed in ONCE_FAILED.into_iter().chain(test_seeds(runs())) {
        let mut run = Run::new(seed);
        for _ in 0..OPERATIONS_PER_RUN {
            run.step();
        }
    }
}

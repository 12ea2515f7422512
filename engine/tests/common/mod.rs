//! Shared by the tests: a model of a store as plain maps, random changes, and tiny random options.

#![allow(dead_code, reason = "each test binary uses its part")]

use lazurite_engine::fs::{Fs, ManualClock};
use lazurite_engine::{
    Background, Batch, Choices, Compression, Config, CountingIds, Db, Direction, Durability,
    Environment, KeyRange, Keyspace, KeyspaceOptions, Result, Snapshot,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub const DIRECTORY: &str = "/data";
pub const KEYSPACES: [&str; 3] = ["a", "b", "c"];

/// Factor for the number of test runs: `LAZURITE_TEST_SCALE`, 1 by default.
pub fn scale() -> f64 {
    let scale = std::env::var("LAZURITE_TEST_SCALE").ok();
    scale.and_then(|scale| scale.parse().ok()).unwrap_or(1.0)
}

pub fn random_key(choices: &mut Choices) -> Vec<u8> {
    let length = 1 + choices.below(3);
    (0..length).map(|_| choices.below(7) as u8 * 40).collect()
}

/// A random value; one in 20 has `large` bytes or more.
pub fn random_value(choices: &mut Choices, large: u64) -> Vec<u8> {
    let length = match choices.below(20) {
        0 => large + choices.below(large * 4),
        1 => 0,
        _ => choices.below(40),
    };
    let fill = choices.next().to_le_bytes();
    (0..length)
        .map(|i| fill[i as usize % 8] ^ i as u8)
        .collect()
}

pub fn random_range(choices: &mut Choices) -> KeyRange {
    let start = if choices.one_in(8) {
        Vec::new()
    } else {
        random_key(choices)
    };
    let end = if choices.one_in(8) {
        None
    } else {
        Some(random_key(choices))
    };
    KeyRange { start, end }
}

/// Random tiny options, so that minutes of testing cover hours of real use.
pub fn tiny_config(choices: &mut Choices, durability: Durability) -> Config {
    Config {
        durability,
        memtable_bytes_max: 1 << (10 + choices.below(6)),
        memory_bytes_max: 1 << (14 + choices.below(4)),
        cache_bytes_max: 1 << (8 + choices.below(12)),
        open_files_max: 1 + choices.below(8) as usize,
        wal_segment_bytes: 1 << (9 + choices.below(6)),
        manifest_bytes_min: 1 << (9 + choices.below(5)),
        wal_bytes_max: 1 << (12 + choices.below(5)),
        block_bytes: 1 << (5 + choices.below(6)),
        sstable_bytes: 1 << (9 + choices.below(5)),
        level_bytes_base: 1 << (10 + choices.below(5)),
        level_ratio: 2 + choices.below(4),
        level0_files_max: 1 + choices.below(4) as usize,
        level0_files_stop: 6 + choices.below(8) as usize,
        value_bytes_separated: 64 + choices.below(200) as usize,
        value_chunk_bytes: 16 + choices.below(100) as usize,
        value_segment_bytes: 1 << (9 + choices.below(5)),
        ..Config::default()
    }
}

pub fn environment(fs: Arc<dyn Fs>) -> Environment {
    Environment {
        fs,
        clock: Arc::new(ManualClock::default()),
        ids: Arc::new(CountingIds::default()),
        is_tolerated: |_| false,
        background: Background::Stepped,
    }
}

pub fn open(fs: Arc<dyn Fs>, config: &Config) -> Result<Store> {
    open_in(DIRECTORY, fs, config)
}

pub fn open_in(directory: &str, fs: Arc<dyn Fs>, config: &Config) -> Result<Store> {
    open_with(Path::new(directory), config, environment(fs))
}

pub fn open_with(path: &Path, config: &Config, environment: Environment) -> Result<Store> {
    let db = Db::open_with(path, config.clone(), environment)?;
    // Each keyspace has options of its own.
    let options = |index: usize| KeyspaceOptions {
        memtable_bytes_max: (index == 1).then_some(config.memtable_bytes_max / 2),
        block_bytes: (index == 2).then_some(config.block_bytes * 2),
        sstable_bytes: (index == 2).then_some(config.sstable_bytes * 2),
        tombstone_percent_max: (index == 2).then_some(10),
        compression: (index == 2).then_some(Compression::Lz4),
    };
    let keyspaces: Result<Vec<Keyspace>> = KEYSPACES
        .iter()
        .enumerate()
        .map(|(index, name)| db.keyspace(name, options(index)))
        .collect();
    let keyspaces = keyspaces?;
    Ok(Store { db, keyspaces })
}

/// An open store with its keyspaces.
#[derive(Debug)]
pub struct Store {
    pub db: Db,
    pub keyspaces: Vec<Keyspace>,
}

/// One change of a batch, as the model sees it.
#[derive(Debug, Clone)]
pub enum Change {
    Put(usize, Vec<u8>, Vec<u8>),
    Delete(usize, Vec<u8>),
    DeleteRange(usize, KeyRange),
}

impl Change {
    pub fn random(choices: &mut Choices) -> Change {
        let keyspace = choices.below(KEYSPACES.len() as u64) as usize;
        match choices.below(12) {
            0..=7 => Change::Put(keyspace, random_key(choices), random_value(choices, 120)),
            8..=10 => Change::Delete(keyspace, random_key(choices)),
            _ if choices.one_in(3) => Change::DeleteRange(keyspace, random_range(choices)),
            _ => Change::DeleteRange(keyspace, KeyRange::prefix(&random_key(choices))),
        }
    }
}

pub fn random_changes(choices: &mut Choices) -> Vec<Change> {
    let count = if choices.one_in(4) {
        1 + choices.below(12)
    } else {
        1
    };
    (0..count).map(|_| Change::random(choices)).collect()
}

impl Store {
    /// Returns the changes as a batch; some values are streamed, some are written to the value log
    /// together, whatever their size.
    pub fn batch(&self, changes: &[Change]) -> Result<Batch> {
        let mut batch = Batch::new();
        let together = |change: &Change| match change {
            Change::Put(_, _, value) if value.len() % 5 == 1 => Some(value.clone()),
            _ => None,
        };
        let values: Vec<Vec<u8>> = changes.iter().filter_map(together).collect();
        let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
        let mut values = self.db.write_values(&values)?.into_iter();
        for change in changes {
            match change {
                Change::Put(keyspace, key, value) if value.len() % 5 == 3 => {
                    let mut writer = self.db.value_writer()?;
                    for part in value.chunks(50) {
                        writer.write(part)?;
                    }
                    batch.put_large(&self.keyspaces[*keyspace], key, writer.finish()?);
                }
                Change::Put(keyspace, key, value) if value.len() % 5 == 1 => {
                    let large = values.next().expect("it was written with the others");
                    assert_eq!(large.length(), value.len() as u64);
                    batch.put_large(&self.keyspaces[*keyspace], key, large);
                }
                Change::Put(keyspace, key, value) => {
                    batch.put(&self.keyspaces[*keyspace], key, value)
                }
                Change::Delete(keyspace, key) => batch.delete(&self.keyspaces[*keyspace], key),
                Change::DeleteRange(keyspace, range) => {
                    batch.delete_range(&self.keyspaces[*keyspace], range.clone());
                }
            }
        }
        Ok(batch)
    }

    pub fn write(&self, changes: &[Change]) -> Result<()> {
        self.db.write(self.batch(changes)?)?.wait()
    }

    /// Everything in the store.
    pub fn dump(&self) -> Result<Model> {
        let snapshot = self.db.snapshot();
        let mut model = Model::default();
        for (index, keyspace) in self.keyspaces.iter().enumerate() {
            let mut scan = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
            while scan.advance()? {
                model.maps[index].insert(scan.key().to_vec(), scan.value()?.to_vec());
            }
        }
        Ok(model)
    }
}

/// A store as plain maps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    pub maps: [BTreeMap<Vec<u8>, Vec<u8>>; KEYSPACES.len()],
}

impl Model {
    pub fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(keyspace, key, value) => {
                    self.maps[*keyspace].insert(key.clone(), value.clone());
                }
                Change::Delete(keyspace, key) => {
                    self.maps[*keyspace].remove(key);
                }
                Change::DeleteRange(keyspace, range) => {
                    self.maps[*keyspace].retain(|key, _| !in_range(key, range));
                }
            }
        }
    }

    /// Compares a scan of the range with the maps, up to `limit` rows.
    pub fn check_scan(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        keyspace: usize,
        range: &KeyRange,
        direction: Direction,
        limit: usize,
    ) {
        let mut scan = snapshot.scan(&store.keyspaces[keyspace], range.clone(), direction);
        let rows = self.maps[keyspace]
            .iter()
            .filter(|(key, _)| in_range(key, range));
        let rows: Vec<_> = match direction {
            Direction::Forward => rows.take(limit).collect(),
            Direction::Backward => rows.rev().take(limit).collect(),
        };
        for (key, value) in &rows {
            assert!(
                scan.advance().unwrap(),
                "{key:?} is missing in {range:?} {direction:?}"
            );
            assert_eq!(scan.key(), &key[..], "scan of {range:?} {direction:?}");
            assert_eq!(scan.value().unwrap(), value[..]);
        }
        if rows.len() < limit {
            assert!(!scan.advance().unwrap(), "a row too many in {range:?}");
            assert!(!scan.advance().unwrap());
        }
    }
}

pub fn in_range(key: &[u8], range: &KeyRange) -> bool {
    key >= &range.start[..] && range.end.as_ref().is_none_or(|end| key < &end[..])
}

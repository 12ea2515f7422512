//! Space under churn: the space of overwritten and deleted blobs is freed once the engine's
//! background work is done.

use crate::operations::tests::*;
use lazurite_engine::fs::ManualClock;
use lazurite_engine::{Background, Config, Db, Durability, Environment};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of blobs at once.
const NAMES: u64 = 400;
/// Number of puts and deletions.
const WRITES: u64 = 20 * NAMES;
/// Lengths of contents that lie in the value log, and are put in one piece.
const LENGTHS: std::ops::RangeInclusive<u64> = 4 << 10..=8 << 10;

/// Sizes so small that a few megabytes of contents fill files of every kind.
fn config() -> Config {
    Config {
        memtable_bytes_max: 128 << 10,
        wal_segment_bytes: 64 << 10,
        wal_bytes_max: 256 << 10,
        sstable_bytes: 128 << 10,
        level_bytes_base: 512 << 10,
        value_segment_bytes: 256 << 10,
        ..Config::default()
    }
}

/// Reproducible choices (splitmix64).
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Random bytes, which do not compress.
    fn body(&mut self) -> Vec<u8> {
        let length = LENGTHS.start() + self.below(LENGTHS.end() - LENGTHS.start() + 1);
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        words.flatten().take(length as usize).collect()
    }
}

fn settle(db: &Db) {
    while db.step().unwrap().is_some() {}
}

/// Bytes of all files of the store, logs included.
fn space(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap();
    let lengths = files.map(|file| file.unwrap().metadata().unwrap().len());
    lengths.sum()
}

#[test]
fn blobs_of_a_few_kilobytes_give_their_space_back_when_they_are_overwritten_or_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: clock.clone(),
        background: Background::Stepped,
        ..Environment::system(Durability::Process)
    };
    let db = Db::open_with(&path, config(), environment).unwrap();
    let store = Store::over(&db, directory);
    store.create(CONTAINER).unwrap();

    let mut choices = Choices(1);
    let mut live = BTreeMap::new();
    for write in 0..WRITES {
        let name = format!("blob{}", choices.below(NAMES));
        if choices.below(4) == 0 {
            if live.remove(&name).is_some() {
                store.delete(&name).unwrap();
            }
        } else {
            let body = choices.body();
            store.put(&name, &body).unwrap();
            live.insert(name, body);
        }
        if write % 32 == 0 {
            settle(&db);
        }
    }
    clock.advance(Duration::from_secs(60));
    settle(&db);

    let space = space(&path);
    let stats = db.stats();
    let live_bytes: usize = live.values().map(Vec::len).sum();
    assert!(
        space < 2 * live_bytes as u64,
        "{space} bytes for {live_bytes} live: {stats:?}"
    );
    for (name, body) in &live {
        assert!(store.read(name).unwrap() == *body, "{name}");
    }
    assert_eq!(db.verify().unwrap().damages.len(), 0);
}

//! The engines that are compared, behind one face. What each is tuned to stands in its file.

mod fjall;
mod lazurite;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::path::Path;

pub(super) use lazurite::Lazurite;

use crate::report::Outcome;

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// Our own.
    Lazurite,
    /// fjall 3.
    Fjall,
    /// redb 4.
    Redb,
    /// RocksDB, through the crate of that name.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

/// What an engine is opened with, the same for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Bytes of the cache.
    pub(super) cache_bytes: usize,
    /// Bytes of a memtable before it is flushed.
    pub(super) memtable_bytes: usize,
    /// Whether `put` returns after a sync of the disk, or as soon as the operating system has the row.
    pub(super) is_synced: bool,
    /// Whether values are so large that they belong beside the tree.
    pub(super) has_large_values: bool,
}

impl Setup {
    /// Everything in the cache, no syncs, small values.
    pub(super) fn hot() -> Setup {
        Setup {
            cache_bytes: 512 << 20,
            memtable_bytes: 64 << 20,
            is_synced: false,
            has_large_values: false,
        }
    }
}

/// A row of a batch.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// An ordered store of keys and values.
pub(super) trait Engine: Send + Sync {
    /// Sets one key in a commit of its own, which is synced if the setup says so.
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()>;
    /// Sets many keys in one commit, not synced.
    fn put_many(&self, rows: &[Row]) -> Outcome<()>;
    /// Removes one key in a commit of its own, not synced.
    fn delete(&self, key: &[u8]) -> Outcome<()>;
    /// Removes the keys from `start` to `end` (not included) in the best way the engine offers.
    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()>;
    /// Shows the value of `key` to `see`, without a copy if the engine can; answers whether there is one.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool>;
    /// Shows the rows from `start` to `end` (not included) to `see`, in order, until it answers `false`.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()>;
    /// Writes what is in memory to its place on the disk. Background work may go on.
    fn flush(&self) -> Outcome<()>;
    /// Closes as a program does that ends well.
    fn close(self: Box<Self>) -> Outcome<()>;
    /// Whether commits that were not synced survive the death of the process.
    fn keeps_unsynced(&self) -> bool {
        true
    }
    /// Our own engine, for what only it has.
    fn as_lazurite(&self) -> Option<&Lazurite> {
        None
    }
}

impl Peer {
    /// Opens the engine in `directory`, which is created if absent.
    pub(super) fn open(self, directory: &Path, setup: &Setup) -> Outcome<Box<dyn Engine>> {
        std::fs::create_dir_all(directory)?;
        Ok(match self {
            Peer::Lazurite => Box::new(Lazurite::open(directory, setup)?),
            Peer::Fjall => Box::new(fjall::Fjall::open(directory, setup)?),
            Peer::Redb => Box::new(redb::Redb::open(directory, setup)?),
            #[cfg(feature = "rocksdb")]
            Peer::Rocksdb => Box::new(rocksdb::Rocksdb::open(directory, setup)?),
        })
    }

    /// The name on the command line and in the tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Lazurite => "lazurite",
            Peer::Fjall => "fjall",
            Peer::Redb => "redb",
            #[cfg(feature = "rocksdb")]
            Peer::Rocksdb => "rocksdb",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_engine_answers_alike() {
        for peer in Peer::value_variants() {
            let directory = tempfile::tempdir().unwrap();
            let engine = peer.open(directory.path(), &Setup::hot()).unwrap();
            check(&*engine);
            engine.close().unwrap();
            let engine = peer.open(directory.path(), &Setup::hot()).unwrap();
            assert_eq!(rows(&*engine), ["a=4", "d=3"], "{peer:?}");
        }
    }

    fn check(engine: &dyn Engine) {
        engine.put(b"a", b"1").unwrap();
        let row = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
        let batch = [row(b"b", b"2"), row(b"c", b"2"), row(b"d", b"3")];
        engine.put_many(&batch).unwrap();
        engine.put(b"a", b"4").unwrap();
        engine.flush().unwrap();
        engine.delete_range(b"b", b"c").unwrap();
        engine.delete(b"c").unwrap();
        let mut seen: Vec<u8> = Vec::new();
        assert!(engine.get(b"a", &mut |value| seen.extend(value)).unwrap());
        assert_eq!(seen, b"4");
        assert!(!engine.get(b"b", &mut |_| unreachable!()).unwrap());
        assert_eq!(rows(engine), ["a=4", "d=3"]);
    }

    fn rows(engine: &dyn Engine) -> Vec<String> {
        let mut rows = Vec::new();
        let mut see = |key: &[u8], value: &[u8]| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            rows.push(format!("{}={}", text(key), text(value)));
            true
        };
        engine.scan(b"a", b"e", &mut see).unwrap();
        rows
    }
}

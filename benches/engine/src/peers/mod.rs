//! The engines that are compared, behind one interface. The file of each holds its settings.

mod fjall;
mod lazurite;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::path::Path;

use lazurite_bench_common::{OURS, Outcome};

use crate::engine::{Engine, Setup};

/// An engine of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// Our own engine.
    Lazurite,
    /// fjall 3.
    Fjall,
    /// redb 4.
    Redb,
    /// RocksDB, through the crate of that name.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

impl Peer {
    /// Opens the engine in `directory`, which is created if absent.
    pub(crate) fn open(self, directory: &Path, setup: &Setup) -> Outcome<Box<dyn Engine>> {
        std::fs::create_dir_all(directory)?;
        Ok(match self {
            Peer::Lazurite => Box::new(lazurite::Lazurite::open(directory, setup)?),
            Peer::Fjall => Box::new(fjall::Fjall::open(directory, setup)?),
            Peer::Redb => Box::new(redb::Redb::open(directory, setup)?),
            #[cfg(feature = "rocksdb")]
            Peer::Rocksdb => Box::new(rocksdb::Rocksdb::open(directory, setup)?),
        })
    }

    /// The name on the command line and in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Lazurite => OURS,
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
    fn engines_return_the_same_rows() {
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

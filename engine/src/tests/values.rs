//! Verification of a segment of the value log: which damage is found, and where.

use crate::base::config::CHUNK_HEADER_BYTES;
use crate::format::header::HEADER_BYTES;
use crate::fs::{Fs, MemoryFs};
use crate::{Batch, Config, Db, Environment, Error, KeyspaceOptions};
use std::path::Path;
use std::sync::Arc;

const VALUE_BYTES: usize = 300;
/// Offsets of the three chunks.
const CHUNKS: [u64; 3] = [offset_of(0), offset_of(1), offset_of(2)];

const fn offset_of(chunk: u64) -> u64 {
    HEADER_BYTES + chunk * (CHUNK_HEADER_BYTES + VALUE_BYTES) as u64
}

/// A store with one sealed segment of three chunks.
struct Store {
    fs: MemoryFs,
    db: Db,
    number: u64,
    size: u64,
    sum: u64,
}

impl Store {
    fn new() -> Store {
        let fs = MemoryFs::volatile();
        let environment = Environment::stepped(Arc::new(fs.clone()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        for key in 0..3 {
            let value = db.write_value(&[key; VALUE_BYTES]).unwrap();
            let mut batch = Batch::new();
            batch.put_large(&keyspace, &[key], value);
            db.write(batch).unwrap().wait().unwrap();
        }
        db.parts().value_log.seal_all().unwrap();
        let (number, meta) = db.parts().value_log.sealed()[0];
        assert_eq!(meta.size, offset_of(3));
        Store {
            fs,
            db,
            number,
            size: meta.size,
            sum: meta.checksum.unwrap(),
        }
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) {
        let path = format!("/data/{:06}.vlog", self.number);
        let file = self.fs.open(Path::new(&path)).unwrap();
        file.write_at(bytes, offset).unwrap();
    }

    /// The offsets of the damage that is found in the first `size` bytes.
    fn damage(&self, size: u64, known: Option<u64>) -> Result<Vec<u64>, Error> {
        let log = &self.db.parts().value_log;
        let found = log.verify_segment(self.number, size, known)?;
        let offset = |error| match error {
            Error::Corrupt { offset, .. } => offset,
            error => panic!("{error}"),
        };
        Ok(found.into_iter().map(offset).collect())
    }

    /// Checks that this damage is found, unless a crash may have caused it.
    fn assert_damage(&self, offsets: &[u64]) {
        let found = self.damage(self.size, Some(self.sum)).unwrap();
        assert_eq!(found, offsets);
        assert_eq!(self.damage(self.size, None).unwrap(), []);
    }
}

#[test]
fn a_whole_segment_has_the_checksums_that_the_manifest_knows() {
    let store = Store::new();
    store.assert_damage(&[]);
    let other = store.sum.wrapping_add(1);
    assert_eq!(store.damage(store.size, Some(other)).unwrap(), [0]);
}

#[test]
fn every_chunk_with_other_bytes_is_damage() {
    let store = Store::new();
    for (chunk, found) in [(1, &[CHUNKS[1]][..]), (0, &[CHUNKS[0], CHUNKS[1]])] {
        store.overwrite(CHUNKS[chunk] + CHUNK_HEADER_BYTES as u64 + 8, b"other");
        store.assert_damage(found);
    }
}

#[test]
fn a_length_that_cannot_be_is_damage_and_ends_the_search() {
    let rest = offset_of(2) as u32 - CHUNK_HEADER_BYTES as u32;
    for length in [u32::MAX, rest] {
        let store = Store::new();
        store.overwrite(CHUNKS[2] + CHUNK_HEADER_BYTES as u64, b"other");
        store.overwrite(CHUNKS[1], &length.to_le_bytes());
        store.assert_damage(&[CHUNKS[1]]);
    }
}

#[test]
fn a_chunk_that_was_cut_off_is_damage_only_if_the_segment_must_be_whole() {
    let store = Store::new();
    let with_cut = store.size + CHUNK_HEADER_BYTES as u64 - 1;
    assert_eq!(store.damage(with_cut, None).unwrap(), []);
    let unread = store.damage(with_cut, Some(store.sum));
    assert!(matches!(unread, Err(Error::Corrupt { .. })), "{unread:?}");
}

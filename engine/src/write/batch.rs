//! Batch: changes that become visible together; its encoding is the WAL payload.

use crate::base::codec::{put_bytes, put_optional, put_varint};
use crate::base::config::{BATCH_BYTES_MAX, KEY_BYTES_MAX};
use crate::base::key::Kind;
use crate::format::change::{Change, Changes, DELETE_RANGE};
use crate::tree::keyspace::Tree;
use crate::values::{LargeValue, Pin};
use crate::{Error, KeyRange, Keyspace, Result};
use std::sync::Arc;

/// Changes that become visible, and survive, together; may span keyspaces. Of several changes of
/// one key the last one wins.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) payload: Vec<u8>,
    pub(crate) count: u64,
    /// Bytes of the keys of all changes, and of the values that are put.
    pub(crate) put_bytes: u64,
    /// Pins on the segments of large values, held until the memtable refers to them.
    pub(crate) pins: Vec<Pin>,
    pub(crate) value_length_max: usize,
    /// Whether anything is deleted, and whether anything is put: a batch that only deletes frees
    /// more space than it takes.
    pub(crate) deletes: bool,
    pub(crate) puts: bool,
    /// The keyspaces of the changes, each once.
    pub(crate) keyspaces: Vec<Arc<Tree>>,
    key_length_max: usize,
    /// The greatest length of a bound of the deleted ranges; `None` if there are none.
    bound_length_max: Option<usize>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`. Values of at least `Config::value_bytes_separated` bytes are moved to
    /// the value log when the batch is written.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
        self.note(keyspace);
        self.puts = true;
        self.value_length_max = self.value_length_max.max(value.len());
        self.reserve(key.len() + value.len());
        self.push(Kind::Put as u8, keyspace.id(), key);
        self.put_bytes += value.len() as u64;
        put_bytes(&mut self.payload, value);
    }

    /// Sets `key` to a value that is in the value log already, written by a
    /// [`ValueWriter`](crate::ValueWriter) or by [`Db::write_value`](crate::Db::write_value).
    pub fn put_large(&mut self, keyspace: &Keyspace, key: &[u8], value: LargeValue) {
        self.note(keyspace);
        self.puts = true;
        self.push_pointer(keyspace.id(), key, value);
    }

    /// Removes `key`; no error if it is absent.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) {
        self.note(keyspace);
        self.deletes = true;
        self.reserve(key.len());
        self.push(Kind::Delete as u8, keyspace.id(), key);
    }

    /// Removes every key of `range`: one record, whatever it covers.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        self.note(keyspace);
        self.deletes = true;
        let end_length = range.end.as_ref().map_or(0, Vec::len);
        let length = range.start.len().max(end_length);
        self.bound_length_max = self.bound_length_max.max(Some(length));
        self.push(DELETE_RANGE, keyspace.id(), &range.start);
        put_optional(&mut self.payload, range.end.as_deref());
    }

    fn note(&mut self, keyspace: &Keyspace) {
        let tree = keyspace.tree();
        // Search backwards: most changes are to the keyspace of the change before.
        let mut named = self.keyspaces.iter().rev();
        if !named.any(|named| Arc::ptr_eq(named, tree)) {
            self.keyspaces.push(tree.clone());
        }
    }

    pub(crate) fn has_range_deletion(&self) -> bool {
        self.bound_length_max.is_some()
    }

    /// Whether the batch holds no change.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes room for a change with a key and a value of this length together. The usual batch needs
    /// one allocation: it is a single change, or a few small ones.
    fn reserve(&mut self, bytes: usize) {
        let least = if self.payload.is_empty() { 256 } else { 0 };
        self.payload.reserve((bytes + 16).max(least));
    }

    fn push(&mut self, tag: u8, keyspace: u32, key: &[u8]) {
        if tag != DELETE_RANGE {
            self.key_length_max = self.key_length_max.max(key.len());
        }
        self.count += 1;
        self.put_bytes += key.len() as u64;
        self.payload.push(tag);
        put_varint(&mut self.payload, u64::from(keyspace));
        put_bytes(&mut self.payload, key);
    }

    fn push_pointer(&mut self, keyspace: u32, key: &[u8], value: LargeValue) {
        let pointer = value.pointer.encode();
        self.reserve(key.len() + pointer.len());
        self.push(Kind::Large as u8, keyspace, key);
        self.put_bytes += value.length();
        put_bytes(&mut self.payload, &pointer);
        self.pins.extend(value.pins);
    }

    /// Refuses keys over the limit.
    pub(crate) fn check_keys(&self) -> Result<()> {
        check("key", self.key_length_max, KEY_BYTES_MAX)?;
        // One more byte, so that the range which holds the longest key alone can be deleted.
        let bound_length_max = self.bound_length_max.unwrap_or(0);
        check("bound of a range", bound_length_max, KEY_BYTES_MAX + 1)
    }

    /// Refuses keys and batches over the limits.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_keys()?;
        check("batch", self.payload.len(), BATCH_BYTES_MAX)
    }

    /// Returns the batch with every value of at least `threshold` bytes moved to where `separate`
    /// puts it.
    pub(crate) fn separate_values(
        self,
        threshold: usize,
        mut separate: impl FnMut(&[u8]) -> Result<LargeValue>,
    ) -> Result<Batch> {
        if self.value_length_max < threshold {
            return Ok(self);
        }
        let (payload, put_bytes) = (self.payload, self.put_bytes);
        let mut batch = Batch {
            pins: self.pins,
            bound_length_max: self.bound_length_max,
            ..Batch::default()
        };
        for change in Changes::new(&payload) {
            match change.expect("the payload was encoded by this batch") {
                Change::Set {
                    keyspace,
                    key,
                    kind: Kind::Put,
                    value,
                } if value.len() >= threshold => {
                    batch.push_pointer(keyspace, key, separate(value)?);
                }
                change => batch.push_change(change),
            }
        }
        // A value that was moved before is a pointer in the payload, and counts as the value.
        batch.put_bytes = put_bytes;
        Ok(batch)
    }

    /// Appends a change that was decoded from another batch, unchanged.
    fn push_change(&mut self, change: Change<'_>) {
        match change {
            Change::Set {
                keyspace,
                key,
                kind,
                value,
            } => {
                self.push(kind as u8, keyspace, key);
                if kind != Kind::Delete {
                    put_bytes(&mut self.payload, value);
                }
            }
            Change::DeleteRange {
                keyspace,
                start,
                end,
            } => {
                self.push(DELETE_RANGE, keyspace, start);
                put_optional(&mut self.payload, end);
            }
        }
    }
}

fn check(what: &'static str, length: usize, limit: usize) -> Result<()> {
    if length <= limit {
        Ok(())
    } else {
        Err(Error::TooLarge {
            what,
            length: length as u64,
            limit: limit as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemoryFs;
    use crate::{Config, Db, Environment, KeyspaceOptions};

    #[test]
    fn a_batch_that_alternates_between_keyspaces_holds_each_once() {
        let environment = Environment::stepped(Arc::new(MemoryFs::volatile()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        let open = |name| db.keyspace(name, KeyspaceOptions::default()).unwrap();
        let keyspaces = ["a", "b", "c"].map(open);
        let mut batch = Batch::new();
        for _ in 0..100 {
            for keyspace in &keyspaces {
                batch.put(keyspace, b"key", b"value");
            }
        }
        assert_eq!(batch.keyspaces.len(), keyspaces.len());
    }

    #[test]
    fn the_deletion_of_an_empty_range_is_no_change() {
        let environment = Environment::stepped(Arc::new(MemoryFs::volatile()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        let range = |start: &[u8], end: &[u8]| KeyRange {
            start: start.to_vec(),
            end: Some(end.to_vec()),
        };
        let mut batch = Batch::new();
        batch.delete_range(&keyspace, range(b"b", b"b"));
        batch.delete_range(&keyspace, range(b"b", b"a"));
        batch.put(&keyspace, b"a", b"1");
        assert!(!batch.has_range_deletion() && batch.count == 1);
        batch.delete_range(&keyspace, range(b"a", b"b"));
        assert!(batch.has_range_deletion() && batch.count == 2);
    }
}

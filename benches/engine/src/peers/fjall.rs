//! fjall with its defaults (64 MiB memtable, 4 KiB blocks, filters of 10 bits, LZ4 below level 1),
//! two workers; values from 4 KiB up outside the tree, with LZ4. It has no delete by range, so the
//! keys are read and removed in batches.

use std::path::Path;

use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
};

use lazurite_bench_common::Outcome;

use crate::engine::{Engine, Row, Setup};

/// Keys removed in one commit by a delete by range.
const DELETES_PER_COMMIT: usize = 1000;

/// An open database with one keyspace.
pub(super) struct Fjall {
    // Declared before the database, so that it is dropped first.
    rows: Keyspace,
    db: Database,
    is_synced: bool,
}

impl Fjall {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Outcome<Fjall> {
        let builder = Database::builder(directory).cache_size(setup.cache_bytes as u64);
        let db = builder.worker_threads(2).open()?;
        let separation = KvSeparationOptions::default()
            .separation_threshold(4096)
            .compression(CompressionType::Lz4);
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(setup.memtable_bytes as u64)
                .with_kv_separation(setup.has_large_values.then_some(separation))
        };
        Ok(Fjall {
            rows: db.keyspace("rows", options)?,
            db,
            is_synced: setup.is_synced,
        })
    }

    fn remove(&self, keys: &mut Vec<fjall::UserKey>) -> Outcome<()> {
        let mut batch = self.db.batch();
        keys.drain(..).for_each(|key| batch.remove(&self.rows, key));
        Ok(batch.durability(Some(PersistMode::Buffer)).commit()?)
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        if !self.is_synced {
            return Ok(self.rows.insert(key, value)?);
        }
        let mut batch = self.db.batch();
        batch.insert(&self.rows, key, value);
        Ok(batch.durability(Some(PersistMode::SyncData)).commit()?)
    }

    fn put_many(&self, rows: &[Row]) -> Outcome<()> {
        let mut batch = self.db.batch();
        for (key, value) in rows {
            batch.insert(&self.rows, &key[..], &value[..]);
        }
        Ok(batch.durability(Some(PersistMode::Buffer)).commit()?)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        Ok(self.rows.remove(key)?)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        let mut keys = Vec::with_capacity(DELETES_PER_COMMIT);
        for row in self.rows.range(start..end) {
            keys.push(row.key()?);
            if keys.len() == DELETES_PER_COMMIT {
                self.remove(&mut keys)?;
            }
        }
        self.remove(&mut keys)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.rows.get(key)?;
        Ok(value.inspect(|value| see(value)).is_some())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        for row in self.rows.range(start..end) {
            let (key, value) = row.into_inner()?;
            if !see(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.rows.rotate_memtable_and_wait()?)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.db.persist(PersistMode::SyncAll)?;
        drop(self);
        Ok(())
    }
}

//! Our own engine: its defaults, with the memory that the peers have.

use std::path::Path;

use lazurite_engine::{
    Batch, Config, Db, Direction, Durability, KeyRange, Keyspace, KeyspaceOptions, Ticket,
};

use lazurite_bench_common::Outcome;

use crate::engine::{Engine, Row, Setup};

/// Bytes of a piece of a value that arrives in pieces, as from the connection of a server.
const PIECE_BYTES: usize = 64 << 10;

/// An open store with one keyspace.
pub(super) struct Lazurite {
    db: Db,
    rows: Keyspace,
}

impl Lazurite {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Outcome<Lazurite> {
        let db = Db::open(directory, config(setup))?;
        let rows = db.keyspace("rows", KeyspaceOptions::default())?;
        Ok(Lazurite { db, rows })
    }

    /// Begins a commit of one row. The ticket completes when the row is durable.
    fn begin(&self, key: &[u8], value: &[u8]) -> Outcome<Ticket> {
        let mut batch = Batch::new();
        batch.put(&self.rows, key, value);
        Ok(self.db.write(batch)?)
    }

    fn write(&self, batch: Batch) -> Outcome<()> {
        Ok(self.db.write(batch)?.wait()?)
    }

    fn write_locked(&self, keys: &[&[u8]], value: &[u8]) -> Outcome<()> {
        let mut transaction = self.db.begin()?;
        transaction.lock(keys.iter().map(|key| (&self.rows, *key)))?;
        transaction.batch().put(&self.rows, keys[0], value);
        let ticket = transaction.commit()?;
        drop(transaction);
        Ok(ticket.wait()?)
    }
}

/// Four memtables, as RocksDB has; the log may hold them all.
fn config(setup: &Setup) -> Config {
    let memory_bytes_max = setup.memtable_bytes * 4;
    Config {
        durability: if setup.is_synced {
            Durability::Disk
        } else {
            Durability::Process
        },
        cache_bytes_max: setup.cache_bytes,
        memtable_bytes_max: setup.memtable_bytes,
        memory_bytes_max,
        wal_bytes_max: 2 * memory_bytes_max as u64,
        ..Config::default()
    }
}

impl Engine for Lazurite {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.begin(key, value)?.wait()?)
    }

    fn put_locked(&self, keys: &[&[u8]], value: &[u8]) -> Option<Outcome<()>> {
        Some(self.write_locked(keys, value))
    }

    fn put_streamed(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let mut writer = self.db.value_writer()?;
        for piece in value.chunks(PIECE_BYTES) {
            writer.write(piece)?;
        }
        let mut batch = Batch::new();
        batch.put_large(&self.rows, key, writer.finish()?);
        self.write(batch)
    }

    fn put_many(&self, rows: &[Row]) -> Outcome<()> {
        let mut batch = Batch::new();
        for (key, value) in rows {
            batch.put(&self.rows, key, value);
        }
        self.write(batch)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        let mut batch = Batch::new();
        batch.delete(&self.rows, key);
        self.write(batch)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        let mut batch = Batch::new();
        batch.delete_range(&self.rows, range(start, end));
        self.write(batch)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.db.get(&self.rows, key)?;
        Ok(value.inspect(|value| see(value)).is_some())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.rows, range(start, end), Direction::Forward);
        while scan.advance()? {
            if !see(scan.key(), &scan.value_in_place()?) {
                break;
            }
        }
        Ok(())
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.db.flush(&self.rows)?)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.db.close()?)
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.db.stats().syncs)
    }

    fn submit(&self, key: &[u8], value: &[u8]) -> Option<Outcome<Ticket>> {
        Some(self.begin(key, value))
    }
}

fn range(start: &[u8], end: &[u8]) -> KeyRange {
    KeyRange {
        start: start.to_vec(),
        end: Some(end.to_vec()),
    }
}

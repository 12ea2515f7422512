//! TableService: the state that all operations share. Their files add the methods.

use crate::clock::{Clock, SweepState};
use crate::error::Result;
use crate::estimate::Estimates;
use crate::known_tables::KnownTables;
use lazurite_base::wall_clock::WallClock;
use lazurite_engine::{Compression, Db, Keyspace, KeyspaceOptions};
use std::sync::{Arc, Mutex};

/// The Table service of one data directory. Its methods may be called concurrently.
#[derive(Debug)]
pub struct TableService {
    pub(crate) db: Db,
    /// Table records, policies and properties: see `keys.rs`.
    pub(crate) catalog: Keyspace,
    /// The rows of all tables.
    pub(crate) entities: Keyspace,
    pub(crate) known_tables: KnownTables,
    pub(crate) clock: Clock,
    pub(crate) sweep_state: Mutex<SweepState>,
    pub(crate) estimates: Estimates,
}

impl TableService {
    /// Opens the service's keyspaces in `db`, creating them if absent; durable on return.
    /// Timestamps come from `clock`, which is read right before a write, while the entities are
    /// locked.
    pub fn open(db: &Db, clock: Arc<dyn WallClock>) -> Result<TableService> {
        let catalog = db.keyspace("table.catalog", KeyspaceOptions::default())?;
        Ok(TableService {
            db: db.clone(),
            clock: Clock::open(db, &catalog, clock)?,
            catalog,
            entities: db.keyspace("table.entities", entity_options())?,
            known_tables: KnownTables::default(),
            sweep_state: Mutex::default(),
            estimates: Estimates::default(),
        })
    }

    /// Makes the service issue no Timestamp that `before` has issued, because clients may still
    /// have its ETags. `before` is the service of the store that this one replaces. Call it once
    /// `before` takes no more writes.
    pub fn follow(&self, before: &TableService) {
        self.clock.follow(&before.clock);
    }
}

/// Options of the keyspace of entities. LZ4, because entities are read one by one and scanned by
/// the million, and zstd added 5 us to a get whose block was not in the cache.
fn entity_options() -> KeyspaceOptions {
    KeyspaceOptions {
        compression: Some(Compression::Lz4),
        ..KeyspaceOptions::default()
    }
}

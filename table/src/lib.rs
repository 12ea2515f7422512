//! The Table service: tables of entities, `$filter` queries and entity group transactions, on the engine.
//!
//! Synchronous, and free of HTTP: plain structs go in and come out. Every operation takes the account it acts for; an
//! account needs no creation. Every operation that writes returns with its [`Ticket`](lazurite_engine::Ticket): the
//! change is visible to all reads from then on, and acknowledged once the ticket has completed.
//!
//! Supported: Query, Create, Get and Delete Table; Insert, Update, Merge, Insert Or Replace, Insert Or Merge, Delete, Get
//! and Query Entities; transactions; Get and Set Table ACL; storage of the service properties. What is left to the server:
//! `$select`, JSON, the text form of continuation tokens, and which nulls of a request mean "no such property".
//!
//! # Durability
//!
//! Reads answer what is visible and wait for no disk: with durability on disk they may show a change that is not acknowledged yet,
//! and that a power cut takes back. Whoever answers a refusal of a write waits for `Db::ticket` before it, as for a write.
//!
//! # Locks
//!
//! A writer is admitted by the store before it takes a lock, and does not wait for the disk under one. Readers take none that a
//! writer holds while it reads or writes.
//!
//! Order is PartitionKey, then RowKey, ordinal by UTF-16 code unit; tables by lower-case name.
//!
//! ```text
//! write: limits -> Db::admit -> table id (its name locked, shared) -> key lock -> read, check, new row -> Timestamp
//!        -> Db::write_admitted -> ticket (Insert Or Replace hardly ever reads: `clock.rs`)
//! read:  table id (published, not locked) -> row
//! query: filter -> key ranges and what they cannot decide -> snapshot -> rows until the page is full
//! ```

mod access;
mod clock;
mod codec;
mod datetime;
mod error;
mod filter;
mod keys;
mod limits;
mod model;
mod operations;
mod plan;
mod query;
mod skip;
mod transaction;
mod view;

pub use access::{AccessKind, AccessRange};
pub use codec::ValueRef;
pub use datetime::{DateTime, DateTimeError, DateTimeText};
pub use error::{Error, InvalidInput, OutOfRangeInput, Result};
pub use filter::{FILTER_BYTES_MAX, FILTER_DEPTH_MAX};
pub use limits::{
    ACL_IDENTIFIERS_MAX, BINARY_BYTES_MAX, ENTITY_BYTES_MAX, KEY_UNITS_MAX, PROPERTIES_MAX,
    PROPERTY_NAME_UNITS_MAX, STRING_UNITS_MAX, check_table_name, is_metrics_table,
};
pub use model::{ETag, Entity, Guid, IfMatch, Operation, SignedIdentifier, Value, Write};
pub use query::{Cost, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Page, PageEnd, Query, TablePage, TableQuery};
pub use transaction::{TRANSACTION_OPERATIONS_MAX, TransactionError};
pub use view::EntityView;

use clock::Clock;
use lazurite_engine::{Compression, Db, KeyLocks, Keyspace, KeyspaceOptions, WallClock};
use operations::table::TableNames;
use std::sync::{Arc, Mutex};

/// The Table service of one data directory. Methods may be called from any number of threads.
#[derive(Debug)]
pub struct TableService {
    db: Db,
    /// Table records, policies and properties: see `keys.rs`.
    catalog: Keyspace,
    /// The rows of all tables.
    entities: Keyspace,
    /// Held across read, check and write of an entity, by its key.
    entity_locks: KeyLocks,
    names: TableNames,
    /// Held from the choice of a table id to the write that uses it up.
    next_table_id: Mutex<()>,
    clock: Clock,
}

impl TableService {
    /// Opens the service's keyspaces in `db`, creating them if absent; durable on return. Timestamps are those of `clock`, which is
    /// read as the last thing before a write, under the locks of its entities.
    pub fn open(db: &Db, clock: Arc<dyn WallClock>) -> Result<TableService> {
        let catalog = db.keyspace("table.catalog", KeyspaceOptions::default())?;
        Ok(TableService {
            db: db.clone(),
            clock: Clock::open(db, &catalog, clock)?,
            catalog,
            entities: db.keyspace("table.entities", entity_options())?,
            entity_locks: KeyLocks::default(),
            names: TableNames::default(),
            next_table_id: Mutex::new(()),
        })
    }
}

/// Entities are read one by one and scanned by the million: of a get whose block was not in the cache zstd took 5 us more.
fn entity_options() -> KeyspaceOptions {
    KeyspaceOptions {
        compression: Some(Compression::Lz4),
        ..KeyspaceOptions::default()
    }
}

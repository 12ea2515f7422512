//! The Table service: tables of entities, `$filter` queries and entity group transactions, on the
//! engine.
//!
//! Synchronous, and free of HTTP: plain structs go in and come out. Every operation takes the
//! account it acts for; an account needs no creation. Every operation that writes returns with its
//! [`Ticket`](lazurite_engine::Ticket): the change is visible to all reads from then on, and
//! acknowledged once the ticket has completed.
//!
//! Supported: Query, Create, Get and Delete Table; Insert, Update, Merge, Insert Or Replace, Insert
//! Or Merge, Delete, Get and Query Entities; transactions; Get and Set Table ACL; storage of the
//! service properties. Left to the server: `$select`, JSON, the text form of continuation tokens,
//! and which nulls of a request mean "no such property".
//!
//! # Durability
//!
//! Reads return the visible state and never wait for the disk: at `Durability::Disk` they may show
//! a change that is not acknowledged yet and that a power cut undoes. Before the caller reports a
//! refused write, it should wait for `Db::ticket`, as it does for a write.
//!
//! # Locks
//!
//! Every write is a transaction of the engine. The engine admits the transaction before it locks a
//! key, so that it does not wait for the disk under a lock. A write of entities locks the record of
//! their table, shared, then the entities. An operation that creates or deletes a table locks its
//! record exclusively. So no row is ever written under the id of a deleted table, where no later
//! operation would find or delete it. Readers take no lock that a writer holds during its reads and
//! its write.
//!
//! Entities are ordered by PartitionKey, then RowKey, ordinal by UTF-16 code unit; tables by
//! lower-case name.
//!
//! ```text
//! write: check -> Db::begin -> table locked, shared: its id -> entity locked -> read, check,
//!        new row -> Timestamp -> Transaction::commit -> ticket
//!        (Insert Or Replace rarely reads: `clock.rs`)
//! read:  table id (published, not locked) -> row
//! query: filter -> key ranges and the rest of the filter -> snapshot -> rows until the page is
//!        full
//! ```

mod access;
mod check;
mod clock;
mod codec;
mod datetime;
mod error;
mod estimate;
mod filter;
mod keys;
mod known_tables;
mod limits;
mod model;
mod operations;
mod plan;
mod query;
mod service;
mod skip;
mod sweep;
mod transaction;
mod view;

pub use access::{AccessKind, AccessRange};
pub use check::{
    POLICY_PERMISSIONS, check_entity, check_table_name, entity_bytes, is_metrics_table,
};
pub use codec::ValueRef;
pub use datetime::{DateTime, DateTimeError};
pub use error::{Error, InvalidInput, OutOfRangeInput, Result, UnsupportedFilter};
pub use estimate::RowCount;
pub use filter::{Condition, Operator as FilterOperator, conditions};
pub use lazurite_base::policies::StoredPolicy;
pub use limits::{
    BINARY_BYTES_MAX, ENTITY_BYTES_MAX, FILTER_BYTES_MAX, FILTER_DEPTH_MAX, KEY_UNITS_MAX,
    PROPERTIES_MAX, PROPERTY_NAME_UNITS_MAX, STRING_UNITS_MAX, TRANSACTION_OPERATIONS_MAX,
};
pub use model::{ETag, Entity, Guid, IfMatch, Operation, Value, Write};
pub use query::{
    Cost, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Page, PageEnd, Query, TablePage, TableQuery, Visitor,
};
pub use service::TableService;
pub use transaction::TransactionError;
pub use view::EntityView;

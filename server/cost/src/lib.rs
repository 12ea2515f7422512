//! What Azure Storage would bill for a workload: classes of requests, sizes of stored data, pages
//! of a scan, and the bill of a month, line by line.
//!
//! A bill has transactions, capacity and bandwidth. A [`Design`] says what one write and one read
//! of an application send and what an item stores; [`Design::bill`] makes it a [`Bill`] for a
//! [`Load`] of N items, R reads and W writes in a month. Requests scale with R and W, and capacity
//! with N. The rows that a scan examines grow as [`Growth`] says: it is given, or fitted to
//! measurements at three sizes or more. [`BreakEven`] says where one design becomes cheaper than
//! another.
//!
//! Prices are never constants: [`Prices`] is a file of the user. Its defaults are examples.
//!
//! Nothing here knows HTTP or a store. Not in the model: tiers other than hot, and the price by GB
//! of Query Blob Contents and of the Data Lake endpoint. Source of the parts of a bill:
//! Understanding Windows Azure Storage Billing - Bandwidth, Transactions, and Capacity.

mod bill;
mod break_even;
mod class;
mod growth;
mod load;
mod pages;
mod prices;
mod size;

#[cfg(test)]
mod bill_tests;
#[cfg(test)]
mod break_even_tests;

pub use bill::{Bill, Design, Line, Part, Step, Stored, Work};
pub use break_even::{BreakEven, ITEMS, RATIOS};
pub use class::{Class, Service, is_billed};
pub use growth::{FitError, Growth, Point, Shape};
pub use load::Load;
pub use pages::{PAGE_ENTITIES_MAX, PAGE_SECONDS_MAX, PageRules};
pub use prices::{
    BATCH_NOTE, BatchCounting, Capacity, GIB, Prices, PricesError, Transactions, Transfer,
};
pub use size::{
    PropertySize, block_blob_bytes, container_bytes, entity_bytes, message_bytes, page_blob_bytes,
    queue_bytes, table_bytes,
};

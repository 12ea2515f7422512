//! The advisor: watches finished requests and applies the advice of the table design guide to the
//! workload.
//!
//! [`Advisor::observe`] takes plain facts ([`Request`]); nothing here knows HTTP or the store. The
//! rules, with their thresholds and all sentences, are in [`rules`]; `watch` applies them. Besides
//! the advice there is a heat map of partitions ([`HeatMap`]), and a record of requests for clients
//! that ask for one ([`Recorded`]).
//!
//! Memory is bounded for any workload: at most 128 tables, 128 queues and 128 containers are
//! watched, the most recently used ones; 256 pieces of advice with 5 requests each; 256 partitions
//! over 60 minutes; 1,024 waiting requests in each of 16 shards; of each table 64 entities, 16
//! filters, 16 partitions and 100 RowKeys; 65,536 requests while recording is on. Names and keys
//! are cut at 256 bytes, filters at 2,048. The memory at these bounds was not measured.

mod advice;
mod advisor;
mod bounded;
mod evidence;
mod filter;
mod heat;
mod record;
mod request;
pub mod rules;
mod tally;
mod targets;
mod watch;

#[cfg(test)]
mod good_workloads_tests;
#[cfg(test)]
mod table_workloads_tests;
#[cfg(test)]
mod workloads;

pub use advice::{ADVICE_MAX, Advice};
pub use advisor::{Advisor, FULL_A_SECOND, RESOURCES_MAX, Report, SAMPLE_MEAN, SHARD_MAX};
pub use evidence::Evidence;
pub use heat::{AccountLoad, CELLS_MAX, HeatMap, MINUTES, Others, PartitionLoad, Splits};
pub use record::{Recorded, Records};
pub use request::{Delivered, EntitySize, Keys, NAME_BYTES_MAX, QueryFacts, Request, Service};
pub use tally::EVIDENCE_MAX;
pub use targets::{ACCOUNT_TARGET, BLOB_TARGET, PARTITION_TARGET};

//! Background work: scheduling, flushes, compactions, collection, pacing of writers.

pub(crate) mod compaction;
pub(crate) mod flush;
pub(crate) mod store;

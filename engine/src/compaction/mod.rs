//! Compaction: merging SSTables downwards, dropping what no reader can see.
//!
//! `picker.rs` chooses what to do next and touches nothing; `job.rs` does it; `retention.rs` says which versions stay.

mod job;
mod picker;
mod retention;

pub(crate) use retention::Retention;

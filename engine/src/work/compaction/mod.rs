//! Compaction: merges SSTables downwards, and drops versions that no reader can see.
//!
//! `picker.rs` plans the next compaction and touches nothing; `job.rs` runs it; `overlap_split.rs`
//! chooses which files of the lower level take part in a merge; `parts.rs` divides a merge by key
//! range among threads; `merge.rs` merges the versions that `inputs.rs` reads in order;
//! `progress.rs` tells writers how far a merge of level 0 is.

mod inputs;
mod job;
mod merge;
mod overlap_split;
mod parts;
pub(in crate::work) mod picker;
mod progress;

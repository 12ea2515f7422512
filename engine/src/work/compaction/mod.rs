//! Compaction: merging SSTables downwards, dropping what no reader can see.
//!
//! `picker.rs` chooses what to do next and touches nothing; `job.rs` does it; `overlap_split.rs` says which files of the lower level
//! take part in a merge; `merge.rs` merges what `inputs.rs` reads in order.

mod inputs;
mod job;
mod merge;
mod overlap_split;
mod picker;

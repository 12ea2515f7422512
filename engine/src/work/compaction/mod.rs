//! Compaction: merging SSTables downwards, dropping what no reader can see.
//!
//! `picker.rs` chooses what to do next and touches nothing; `job.rs` does it; `below.rs` says which files of the lower level
//! take part in a merge; `merge.rs` merges what `inputs.rs` reads in order.

mod below;
mod inputs;
mod job;
mod merge;
mod picker;

//! The bytes of the files: headers, changes, edits, frames, SSTables, fragments, pointers; and
//! their display as text.

pub(crate) mod change;
pub(crate) mod dump;
pub(crate) mod edit;
pub(crate) mod fragment;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod pointer;
pub(crate) mod record;
pub(crate) mod search;
pub(crate) mod sstable;

//! SSTable: an immutable sorted file of versions. Its bytes are described in `format/sstable/`.
//!
//! Invariant: below level 0, all versions of a user key are in one SSTable of a level. SSTables of
//! level 0 may overlap.

mod cursor;
mod dump;
mod lookup;
mod reader;
mod verify;
mod writer;

pub(crate) use cursor::SstableCursor;
pub(crate) use dump::dump;
pub(crate) use reader::SstableReader;
pub(crate) use writer::{SstableOptions, SstableWriter};

use crate::Error;
use crate::format::sstable::block;

fn malformed(path: &std::path::Path, offset: u64) -> impl Fn(block::Malformed) -> Error {
    move |_| Error::corrupt(path, offset, "the block does not decode")
}

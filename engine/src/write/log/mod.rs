//! The log: one for all keyspaces, in segments. Frames are appended to the last; recovery reads them up to a torn tail.

pub(crate) mod reader;
pub(crate) mod segments;
pub(crate) mod writer;

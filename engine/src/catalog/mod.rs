//! What the store consists of: the manifest, recovery and replay, checkpoints.

pub(crate) mod checkpoint;
pub(crate) mod manifest;
pub(crate) mod recovery;
pub(crate) mod replay;
pub(crate) mod state;

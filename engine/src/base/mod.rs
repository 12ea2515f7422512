//! Used by every layer: bytes and keys, errors, options, ranges, the health of a store. No I/O.

pub(crate) mod codec;
pub(crate) mod config;
pub(crate) mod counter;
pub(crate) mod error;
pub mod escape;
pub(crate) mod fair_mutex;
pub(crate) mod health;
pub(crate) mod key;
pub(crate) mod mutex;
pub(crate) mod range;
pub(crate) mod sync;
pub mod varint;

//! Content with random access, and the errors of reading it.

use bytes::Bytes;
use parquet::errors::ParquetError;
use std::io;

/// Content with random access.
pub trait Content: Send + Sync + 'static {
    /// Length of the content in bytes.
    fn length(&self) -> u64;

    /// Reads `length` bytes at `offset`, which must be within the content. Waits for the read.
    fn read(&self, offset: u64, length: usize) -> io::Result<Bytes>;
}

pub(crate) fn failed(reason: impl ToString) -> ParquetError {
    ParquetError::General(reason.to_string())
}

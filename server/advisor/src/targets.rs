//! The targets of the hosted service. Source: Scalability and performance targets for Table, Queue
//! and Blob storage.

/// Entities or messages a second that one partition may take.
pub const PARTITION_TARGET: u64 = 2000;
/// Requests a second that one blob may take.
pub const BLOB_TARGET: u64 = 500;
/// Requests a second that one account may take.
pub const ACCOUNT_TARGET: u64 = 20_000;

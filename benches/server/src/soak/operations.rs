//! The requests of the soak, apart from how they reach the services: by a call (`direct.rs`) or
//! over HTTP (`over_http.rs`).

use std::ops::Range;
use std::time::SystemTime;

use lazurite_bench_common::Outcome;

use crate::soak::state::Failure;

/// The account of most resources.
pub(super) const ACCOUNT: &str = "account";
/// The account whose deleted blobs are kept for a while.
pub(super) const RETAINING_ACCOUNT: &str = "retaining";
pub(super) const QUEUE: &str = "soak";
pub(super) const TABLE: &str = "Soak";
pub(super) const CONTAINER: &str = "soak";

/// Messages of one Get Messages or Peek Messages.
pub(super) const MESSAGES_MAX: u32 = 8;

pub(super) type Done<T> = Result<T, Failure>;

/// A message as Get Messages delivers it.
pub(super) struct TakenMessage {
    pub(super) id: String,
    pub(super) receipt: String,
    pub(super) text: String,
    pub(super) inserted_at: SystemTime,
    pub(super) expires_at: SystemTime,
    pub(super) visible_at: SystemTime,
}

/// The ways to write a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowWrite<'a> {
    Insert,
    /// Update Entity of the version with this ETag.
    Update(&'a str),
    /// Merge Entity of the version with this ETag.
    Merge(&'a str),
    InsertOrReplace,
    /// Any version.
    Delete,
}

/// A row with one number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) partition: &'a str,
    pub(super) key: &'a str,
    pub(super) count: i64,
}

/// A blob of the container, or a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobId<'a> {
    pub(super) account: &'static str,
    pub(super) name: &'a str,
    pub(super) snapshot: Option<&'a str>,
}

/// An action of Lease Blob.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseRequest<'a> {
    /// A lease that does not end by itself.
    Acquire,
    Release(&'a str),
    /// At once.
    Break,
}

/// Each write is durable when it returns. A failure carries the protocol's error code.
pub(super) trait Operations: Send + Sync {
    fn create_queue(&self) -> Done<()>;
    /// Returns when the message expires, or a little later. A TTL of -1 seconds is none.
    fn put_message(
        &self,
        text: &str,
        ttl_seconds: i64,
        visibility_seconds: Option<i64>,
    ) -> Done<SystemTime>;
    fn get_messages(&self, visibility_seconds: i64) -> Done<Vec<TakenMessage>>;
    /// The texts of the messages.
    fn peek_messages(&self) -> Done<Vec<String>>;
    /// Returns the new receipt, and until when the message is hidden.
    fn update_message(
        &self,
        id: &str,
        receipt: &str,
        text: &str,
        visibility_seconds: i64,
    ) -> Done<(String, SystemTime)>;
    fn delete_message(&self, id: &str, receipt: &str) -> Done<()>;

    fn create_table(&self) -> Done<()>;
    fn write_row(&self, write: RowWrite, row: Row) -> Done<()>;
    /// All rows of one partition in one transaction.
    fn transact(&self, rows: &[(RowWrite, Row)]) -> Done<()>;
    /// The number in a row, and its ETag.
    fn get_row(&self, partition: &str, key: &str) -> Done<(i64, String)>;
    /// The numbers in the rows of a partition.
    fn query_partition(&self, partition: &str) -> Done<Vec<i64>>;

    fn create_container(&self, account: &'static str) -> Done<()>;
    /// Keeps deleted blobs of an account for `days` days.
    fn keep_deleted_blobs(&self, account: &'static str, days: u16) -> Done<()>;
    fn put_blob(&self, blob: BlobId, body: &[u8], lease_id: Option<&str>) -> Done<()>;
    fn get_blob(&self, blob: BlobId) -> Done<Vec<u8>>;
    fn delete_blob(&self, blob: BlobId) -> Done<()>;
    fn undelete_blob(&self, blob: BlobId) -> Done<()>;
    /// The time of the snapshot, as in its URL.
    fn snapshot_blob(&self, blob: BlobId) -> Done<String>;
    fn put_append_blob(&self, blob: BlobId) -> Done<()>;
    fn append_block(&self, blob: BlobId, block: &[u8]) -> Done<()>;
    fn put_page_blob(&self, blob: BlobId, bytes: u64) -> Done<()>;
    /// Clears the pages if there is no content.
    fn put_page(&self, blob: BlobId, range: Range<u64>, content: Option<&[u8]>) -> Done<()>;
    /// The id of an acquired lease.
    fn lease_blob(&self, blob: BlobId, request: LeaseRequest) -> Done<Option<String>>;
    fn copy_blob(&self, source: BlobId, destination: BlobId) -> Done<()>;

    /// One round of background work; whether there is more. Does nothing where the server does it.
    fn sweep(&self) -> Done<bool>;
    fn close(&mut self) -> Outcome<()>;
}

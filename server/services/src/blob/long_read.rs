//! The content of a blob for a client that may read slowly.
//!
//! A reader holds a snapshot of the store. The snapshot keeps the space of all data that was
//! overwritten or deleted since. A client may take hours to download a large blob and still keep
//! the required pace. So a reader that has been open for [`SNAPSHOT_MAX`] is replaced by a new one,
//! at the same offset. The answer continues while the blob keeps its ETag, and breaks off
//! otherwise. A client can resume a download on the same condition: the blob has the same ETag.

use crate::blob::request::Request;
use crate::services::Services;
use bytes::Bytes;
use lazurite_blob::{
    Blob, BlobAddress, BlobReader, BlobState, ByteRange, Conditions, CustomerKey, Download, ETag,
    Error,
};
use lazurite_protocol::response::error::{Failure, Result};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum age of a snapshot. A read that takes longer continues from a new one.
const SNAPSHOT_MAX: Duration = Duration::from_secs(5 * 60);

/// Reads of at most this many bytes end before their snapshot is old, even at the slowest allowed
/// pace, and are never renewed.
const SHORT_BYTES: u64 = 64 << 10;

/// Reads a blob, or a range of it, from front to back.
pub struct LongRead {
    reader: BlobReader,
    /// The time at which the snapshot of `reader` was taken.
    opened: Instant,
    snapshot_max: Duration,
    /// Offset in the blob at which the read ends, exclusive.
    end: u64,
    /// Reopens the blob from a new snapshot; `None` for a short read.
    reopen: Option<OpenAgain>,
}

pub type OpenAgain = Box<dyn Fn(ByteRange) -> lazurite_blob::Result<BlobReader> + Send>;

/// A blob, the requested range of it if there was one, and the read of its content.
pub type Found = (Box<Blob>, Option<Range<u64>>, LongRead);

/// The read of `download`, which `request` opened with the customer key `key`.
pub fn long_read(request: &Request, key: Option<CustomerKey>, download: Download) -> Found {
    let is_short = download.body.remaining() <= SHORT_BYTES;
    let reopen = (!is_short).then(|| {
        let reopen = Reopen::new(request, download.blob.etag, key);
        Box::new(move |range| reopen.open(range)) as OpenAgain
    });
    let read = LongRead::new(
        &download.blob,
        download.range.as_ref(),
        download.body,
        reopen,
    );
    (download.blob, download.range, read)
}

/// Reopens a blob while it has the same ETag. Does not keep the request, which may have long
/// headers.
pub struct Reopen {
    services: Arc<Services>,
    /// Keeps the fork in use: a fork does not end while a response is read from it.
    _state: Option<Arc<crate::blob::State>>,
    account: String,
    container: String,
    blob: String,
    blob_state: BlobState,
    conditions: Conditions,
}

impl Reopen {
    /// Reopens the blob that `request` found with this ETag and this customer key.
    pub fn new(request: &Request, etag: ETag, customer_key: Option<CustomerKey>) -> Reopen {
        Reopen {
            services: request.state.services.clone(),
            _state: Some(request.state.clone()),
            account: request.account().to_owned(),
            container: request.container.clone(),
            blob: request.blob.clone(),
            blob_state: request.blob_state,
            conditions: Conditions {
                customer_key,
                ..Conditions::unchanged(etag)
            },
        }
    }

    /// Like [`Reopen::new`], for a blob at `address` that needs no customer key.
    pub fn at(services: &Arc<Services>, address: &BlobAddress<'_>, etag: ETag) -> Reopen {
        Reopen {
            services: services.clone(),
            _state: None,
            account: address.account.to_owned(),
            container: address.container.to_owned(),
            blob: address.blob.to_owned(),
            blob_state: address.state,
            conditions: Conditions::unchanged(etag),
        }
    }

    /// Opens a range of the blob. Errors: those of
    /// [`BlobService::get_blob`](lazurite_blob::BlobService::get_blob); `ConditionNotMet` if the
    /// blob was changed.
    pub fn open(&self, range: ByteRange) -> lazurite_blob::Result<BlobReader> {
        let address = BlobAddress {
            account: &self.account,
            container: &self.container,
            blob: &self.blob,
            state: self.blob_state,
            // The rights were checked when the read began.
            caller: None,
        };
        let found = self
            .services
            .blobs
            .get_blob(&address, Some(range), &self.conditions)?;
        Ok(found.body)
    }
}

impl LongRead {
    pub fn new(
        blob: &Blob,
        range: Option<&Range<u64>>,
        reader: BlobReader,
        reopen: Option<OpenAgain>,
    ) -> LongRead {
        LongRead {
            reader,
            opened: Instant::now(),
            snapshot_max: SNAPSHOT_MAX,
            end: range.map_or(blob.length, |range| range.end),
            reopen,
        }
    }

    /// Like [`BlobReader::next_chunk`]. Also fails if the snapshot is old and the blob has changed
    /// since.
    pub fn next_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>> {
        self.renew()?;
        Ok(self.reader.next_chunk(bytes_max)?)
    }

    /// Like [`BlobReader::next_chunk_at_once`], without renewing an old snapshot.
    pub fn next_chunk_at_once(&mut self, bytes_max: usize) -> Result<Option<Bytes>> {
        Ok(self.reader.next_chunk_at_once(bytes_max)?)
    }

    pub fn remaining(&self) -> u64 {
        self.reader.remaining()
    }

    pub fn is_in_parts(&self) -> bool {
        self.reader.is_in_parts()
    }

    pub fn release(&mut self) {
        self.reader.release();
    }

    /// Continues from a new snapshot if the present one is too old.
    fn renew(&mut self) -> Result<()> {
        let Some(reopen) = &self.reopen else {
            return Ok(());
        };
        let remaining = self.reader.remaining();
        if remaining == 0 || self.opened.elapsed() < self.snapshot_max {
            return Ok(());
        }
        let range = ByteRange {
            first: self.end - remaining,
            last: Some(self.end - 1),
        };
        self.reader = reopen(range).map_err(|error| match error {
            Error::Engine(_) | Error::InternalError { .. } => error.into(),
            other => changed(other),
        })?;
        self.opened = Instant::now();
        Ok(())
    }
}

/// The failure for the log: the client has already received the status of the response.
fn changed(error: Error) -> Failure {
    let seconds = SNAPSHOT_MAX.as_secs();
    let reason = &Failure::from(error).code;
    let message = format!(
        "the client took more than {seconds} seconds, and the blob was changed meanwhile ({reason})"
    );
    Failure::new(412, "ConditionNotMet", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_base::wall_clock::SystemWallClock;
    use lazurite_blob::{BlobService, Checksums, ContainerSettings, PutBlob, UploadKind};
    use lazurite_engine::{Config, Db, RandomIds};

    const ADDRESS: BlobAddress<'static> = BlobAddress::current("account", "con", "b");

    struct Store {
        db: Db,
        blobs: Arc<BlobService>,
        _directory: tempfile::TempDir,
    }

    fn store() -> Store {
        let directory = tempfile::TempDir::new().unwrap();
        let db = Db::open(directory.path(), Config::default()).unwrap();
        let clock = Arc::new(SystemWallClock::default());
        let blobs = BlobService::open(&db, Arc::new(RandomIds), clock).unwrap();
        let settings = ContainerSettings::default();
        let made = blobs.create_container_with(ADDRESS.account, ADDRESS.container, settings);
        made.unwrap().1.wait().unwrap();
        Store {
            db,
            blobs: Arc::new(blobs),
            _directory: directory,
        }
    }

    fn put(store: &Store, blob: &str, content: &[u8]) {
        let kind = UploadKind::PutBlob;
        let upload = store.blobs.begin_upload(kind, Checksums::default());
        let mut upload = upload.unwrap();
        upload.write(content).unwrap();
        let put = PutBlob::of(upload);
        let address = BlobAddress { blob, ..ADDRESS };
        let (_, ticket) = store.blobs.put_blob(&address, put).unwrap();
        ticket.wait().unwrap();
    }

    /// Reads bytes 10 to 998, with a reader that counts as old at each chunk.
    fn read(store: &Store) -> LongRead {
        let conditions = Conditions::default();
        let range = ByteRange {
            first: 10,
            last: Some(998),
        };
        let found = store.blobs.get_blob(&ADDRESS, Some(range), &conditions);
        let (found, blobs) = (found.unwrap(), store.blobs.clone());
        let unchanged = Conditions::unchanged(found.blob.etag);
        let reopen = move |range| {
            let found = blobs.get_blob(&ADDRESS, Some(range), &unchanged)?;
            Ok(found.body)
        };
        let read = LongRead::new(
            &found.blob,
            found.range.as_ref(),
            found.body,
            Some(Box::new(reopen)),
        );
        LongRead {
            snapshot_max: Duration::ZERO,
            ..read
        }
    }

    #[test]
    fn a_long_read_continues_without_the_snapshot_of_its_start() {
        let store = store();
        let content: Vec<u8> = (0..1000).map(|number| number as u8).collect();
        put(&store, "b", &content);
        let mut read = read(&store);
        let mut taken = Vec::new();
        while let Some(chunk) = read.next_chunk(100).unwrap() {
            taken.extend_from_slice(&chunk);
            put(&store, "other", b"x");
            // The open snapshot is not older than the last chunk.
            let held = store.db.stats().oldest_snapshot_age;
            assert!(held < 20, "{held}");
        }
        assert_eq!(taken, content[10..999]);
    }

    #[test]
    fn a_long_read_breaks_off_when_its_blob_was_changed() {
        let store = store();
        put(&store, "b", &[1; 1000]);
        let mut read = read(&store);
        read.next_chunk(100).unwrap();
        put(&store, "b", &[2; 1000]);
        let broken = read.next_chunk(100).unwrap_err();
        assert!(
            broken.message.contains("changed meanwhile"),
            "{}",
            broken.message
        );
    }

    #[test]
    fn a_short_read_sees_the_blob_as_it_was() {
        let store = store();
        put(&store, "b", &[1; 1000]);
        let mut read = LongRead {
            snapshot_max: SNAPSHOT_MAX,
            ..read(&store)
        };
        put(&store, "b", &[2; 1000]);
        let chunk = read.next_chunk(1000).unwrap().unwrap();
        assert_eq!(chunk, vec![1; 989]);
    }
}

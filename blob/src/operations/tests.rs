//! Shared by the tests of operations: a real store with one container, and short forms of requests.

use crate::*;
use lazurite_base::wall_clock::ManualWallClock;
use lazurite_engine::{Config, CountingIds, Db, Direction, IdSource, KeyRange, Keyspace};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) const ACCOUNT: &str = "account";
pub(super) const CONTAINER: &str = "container";

pub(super) struct Store {
    pub(super) service: BlobService,
    clock: Arc<ManualWallClock>,
    directory: tempfile::TempDir,
}

/// A service with one empty container.
pub(super) fn store() -> Store {
    store_with(ContainerSettings::default())
}

/// A service with one empty container that has these settings.
pub(super) fn store_with(settings: ContainerSettings) -> Store {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let store = Store::over(&db, directory);
    let made = store
        .at(at(0))
        .create_container_with(ACCOUNT, CONTAINER, settings);
    made.unwrap().1.wait().unwrap();
    store
}

pub(super) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

pub(super) fn address(blob: &str) -> BlobAddress<'_> {
    BlobAddress::current(ACCOUNT, CONTAINER, blob)
}

pub(super) fn in_container<'a>(container: &'a str, blob: &'a str) -> BlobAddress<'a> {
    BlobAddress {
        container,
        ..address(blob)
    }
}

pub(super) fn pairs(pairs: &[(&str, &str)]) -> Metadata {
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    pairs.iter().map(own).collect()
}

pub(super) fn only_if_missing() -> Conditions {
    Conditions {
        if_none_match: Some(ETags::Any),
        ..Conditions::default()
    }
}

pub(super) fn if_match(etag: ETag) -> Conditions {
    Conditions {
        if_match: ETags::parse(&etag.quoted()),
        ..Conditions::default()
    }
}

pub(super) fn latest(ids: &[&str]) -> PutBlockList {
    let choice = |id: &&str| BlockChoice {
        source: BlockSource::Latest,
        id: id.as_bytes().to_vec(),
    };
    PutBlockList {
        blocks: ids.iter().map(choice).collect(),
        ..PutBlockList::default()
    }
}

pub(super) fn range(first: u64, last: Option<u64>) -> Option<ByteRange> {
    Some(ByteRange { first, last })
}

/// Operations that do not depend on the time are called on the store itself.
impl Deref for Store {
    type Target = BlobService;

    fn deref(&self) -> &BlobService {
        &self.service
    }
}

impl Store {
    pub(super) fn over(db: &Db, directory: tempfile::TempDir) -> Store {
        Store::over_with(db, directory, Arc::new(CountingIds::default()))
    }

    /// Like [`Store::over`], with the given source of ids.
    pub(super) fn over_with(
        db: &Db,
        directory: tempfile::TempDir,
        ids: Arc<dyn IdSource>,
    ) -> Store {
        let clock = Arc::new(ManualWallClock::new(at(0)));
        Store {
            service: BlobService::open(db, ids, clock.clone()).unwrap(),
            clock,
            directory,
        }
    }

    /// Closes the store and returns its directory.
    pub(super) fn close(self) -> tempfile::TempDir {
        self.service.db.close().unwrap();
        self.directory
    }

    /// The service, with its clock set to `now`.
    pub(super) fn at(&self, now: SystemTime) -> &BlobService {
        self.clock.set(now);
        &self.service
    }

    pub(super) fn create(&self, container: &str) -> Result<Written> {
        let private = PublicAccess::Private;
        let (written, ticket) =
            self.at(at(0))
                .create_container(ACCOUNT, container, private, Metadata::new())?;
        ticket.wait()?;
        Ok(written)
    }

    pub(super) fn upload(&self, kind: UploadKind, body: &[u8]) -> Upload {
        let mut upload = self
            .service
            .begin_upload(kind, Checksums::default())
            .unwrap();
        for piece in body.chunks(5000) {
            upload.write(piece).unwrap();
        }
        upload
    }

    pub(super) fn put_request(&self, body: &[u8]) -> PutBlob {
        PutBlob::of(self.upload(UploadKind::PutBlob, body))
    }

    pub(super) fn put(&self, name: &str, body: &[u8]) -> Result<PutBlobOutcome> {
        self.put_with(name, self.put_request(body), at(0))
    }

    pub(super) fn put_with(
        &self,
        name: &str,
        request: PutBlob,
        now: SystemTime,
    ) -> Result<PutBlobOutcome> {
        let (outcome, ticket) = self.at(now).put_blob(&address(name), request)?;
        ticket.wait()?;
        Ok(outcome)
    }

    pub(super) fn put_block(&self, name: &str, id: &str, body: &[u8]) -> Result<Checksums> {
        let upload = self.upload(UploadKind::PutBlock, body);
        let address = address(name);
        let (outcome, ticket) =
            self.at(at(0))
                .put_block(&address, id.as_bytes(), upload, &Conditions::default())?;
        ticket.wait()?;
        Ok(outcome.checksums)
    }

    pub(super) fn commit(&self, name: &str, list: PutBlockList) -> Result<Written> {
        let (written, ticket) = self.at(at(0)).put_block_list(&address(name), list)?;
        ticket.wait()?;
        Ok(written)
    }

    pub(super) fn open(&self, name: &str, range: Option<ByteRange>) -> Result<Download> {
        self.at(at(0))
            .get_blob(&address(name), range, &Conditions::default())
    }

    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>> {
        Ok(drain(self.open(name, None)?.body, 1000))
    }

    pub(super) fn properties(&self, name: &str) -> Result<Box<Blob>> {
        self.at(at(0))
            .get_blob_properties(&address(name), &Conditions::default())
    }

    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let request = DeleteBlob::default();
        let (_, ticket) = self.at(at(0)).delete_blob(&address(name), &request)?;
        Ok(ticket.wait()?)
    }

    /// Ids and lengths of the committed and the uncommitted list.
    pub(super) fn block_lists(&self, name: &str) -> Result<[Vec<(String, u64)>; 2]> {
        let lists = self.at(at(0)).get_block_list(
            &address(name),
            BlockListType::All,
            &Conditions::default(),
        )?;
        Ok([lists.committed, lists.uncommitted].map(|list| {
            let plain = |block: BlobBlock| (String::from_utf8(block.id).unwrap(), block.length);
            list.into_iter().map(plain).collect()
        }))
    }

    pub(super) fn list(&self, request: &ListBlobs) -> ListBlobsPage {
        self.at(at(0))
            .list_blobs(ACCOUNT, CONTAINER, request)
            .unwrap()
    }

    pub(super) fn rows(&self, keyspace: &Keyspace) -> usize {
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
        std::iter::from_fn(|| rows.advance().unwrap().then_some(())).count()
    }

    /// Number of rows of blocks, and of contents.
    pub(super) fn filed(&self) -> (usize, usize) {
        let keyspaces = &self.service.keyspaces;
        (self.rows(&keyspaces.blocks), self.rows(&keyspaces.content))
    }
}

pub(super) fn drain(mut body: BlobReader, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next_chunk(bytes_max).unwrap() {
        assert!((1..=bytes_max).contains(&chunk.len()));
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(body.remaining(), 0);
    bytes
}

/// Bytes that differ from place to place, so that a wrong offset shows.
pub(super) fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|i| (i / 251) as u8 ^ i as u8 ^ seed)
        .collect()
}

macro_rules! assert_err {
    ($result:expr, $pattern:pat) => {
        match $result {
            Err($pattern) => {}
            Err(other) => panic!("another error: {other:?}"),
            Ok(_) => panic!("no error"),
        }
    };
}
pub(super) use assert_err;

pub(super) const SECONDS_15: LeaseAction = LeaseAction::Acquire {
    duration: LeaseDuration::Seconds(15),
    proposed: Some(Guid(0xA)),
};

impl Store {
    pub(super) fn lease(
        &self,
        name: &str,
        action: LeaseAction,
        now: SystemTime,
    ) -> Result<LeaseOutcome> {
        let none = Conditions::default();
        let leased = self.at(now).lease_blob(&address(name), action, &none)?;
        leased.2.wait()?;
        Ok(leased.0)
    }

    pub(super) fn snapshot(&self, name: &str) -> Result<SnapshotTime> {
        let none = Conditions::default();
        let metadata = Metadata::new();
        let service = self;
        let (moment, _, ticket) =
            service
                .at(at(5))
                .snapshot_blob(&address(name), metadata, &none)?;
        ticket.wait()?;
        Ok(moment)
    }

    pub(super) fn read_state(&self, name: &str, state: BlobState) -> Result<Vec<u8>> {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let none = Conditions::default();
        let download = self.at(at(0)).get_blob(&address, None, &none)?;
        Ok(drain(download.body, 1000))
    }

    pub(super) fn delete_with(
        &self,
        name: &str,
        state: BlobState,
        request: DeleteBlob,
    ) -> Result<bool> {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let (deletion, ticket) = self.at(at(6)).delete_blob(&address, &request)?;
        ticket.wait()?;
        Ok(deletion.permanent)
    }
}

pub(super) fn with_snapshots(snapshots: DeleteSnapshots) -> DeleteBlob {
    DeleteBlob {
        snapshots: Some(snapshots),
        ..DeleteBlob::default()
    }
}

pub(super) fn leased_by(id: u128) -> Conditions {
    Conditions {
        lease_id: Some(Guid(id)),
        ..Conditions::default()
    }
}

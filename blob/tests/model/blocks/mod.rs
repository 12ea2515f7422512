//! Block blobs and listings. The store is closed and opened again on the way.

mod evaluator;
mod reads;
mod writes;

use crate::{ACCOUNT, Random, Result, agree, code, setting, with_seeds};
use evaluator::{ModelBlob, ModelContainer, ModelEntry};
use lazurite_base::wall_clock::ManualWallClock;
use lazurite_blob::*;
use lazurite_engine::{Batch, Config, CountingIds, Db, KeyspaceOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CONTAINERS: [&str; 3] = ["one", "one-more", "two"];
const NAME_PARTS: [&str; 6] = ["a", "b", "/", "--", "é", "😀"];
const BLOCK_IDS: [&str; 3] = ["a", "b", "c"];

fn address<'a>(container: &'a str, blob: &'a str) -> BlobAddress<'a> {
    BlobAddress {
        account: ACCOUNT,
        container,
        blob,
        state: BlobState::Current,
        caller: None,
    }
}

struct Run {
    random: Random,
    /// `None` only while the store is being reopened.
    service: Option<BlobService>,
    clock: Arc<ManualWallClock>,
    db: Option<Db>,
    ids: Arc<CountingIds>,
    directory: tempfile::TempDir,
    now: SystemTime,
    containers: BTreeMap<String, ModelContainer>,
    newest_etag: Option<ETag>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut run = Run {
            random: Random(seed),
            service: None,
            clock: Arc::new(ManualWallClock::new(UNIX_EPOCH)),
            db: None,
            ids: Arc::default(),
            directory: tempfile::tempdir().unwrap(),
            now: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            containers: BTreeMap::new(),
            newest_etag: None,
        };
        run.open();
        run
    }

    fn open(&mut self) {
        // The memtables are small enough that a run flushes and compacts.
        let config = Config {
            memtable_bytes_max: 64 << 10,
            ..Config::default()
        };
        let db = Db::open(self.directory.path(), config).unwrap();
        self.service = Some(BlobService::open(&db, self.ids.clone(), self.clock.clone()).unwrap());
        self.db = Some(db);
    }

    /// Closes the store and opens it again: nothing may differ afterwards.
    fn reopen(&mut self) {
        if !store_keeps_data() {
            return;
        }
        self.service = None;
        self.db.take().unwrap().close().unwrap();
        // Many writes at one instant have moved the ETags ahead of the clock. A real restart takes
        // longer than this lead.
        self.now += Duration::from_secs(1);
        self.open();
    }

    /// The service, with its clock set to `now`.
    fn at(&self, now: SystemTime) -> &BlobService {
        self.clock.set(now);
        self.service()
    }

    fn service(&self) -> &BlobService {
        self.service.as_ref().unwrap()
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.below(700) as u64);
        match self.random.below(200) {
            0..6 => self.create_container(),
            6 => self.delete_container(),
            7..47 => self.put_blob(),
            47..87 => self.put_block(),
            87..117 => self.put_block_list(),
            117..131 => self.delete_blob(),
            131..141 => self.set_metadata(),
            141..161 => self.get_blob(),
            161..179 => self.get_block_list(),
            179..199 => self.list_blobs(),
            _ => self.reopen(),
        }
    }

    fn container(&mut self) -> String {
        self.random.one(&CONTAINERS).to_string()
    }

    /// Any of hundreds of names, but mostly one of six, so that histories on one name are long.
    fn name(&mut self) -> String {
        let most = if self.random.below(4) == 0 { 3 } else { 1 };
        self.random.word(&NAME_PARTS, 1, most)
    }

    fn metadata(&mut self) -> Metadata {
        let value = self.random.word(&["x", "yy"], 0, 2);
        let count = self.random.below(3);
        (0..count)
            .map(|i| (format!("N{i}"), value.clone()))
            .collect()
    }

    fn entry(&self, container: &str, name: &str) -> Result<&ModelEntry, &'static str> {
        let blobs = self.containers.get(container).ok_or("ContainerNotFound")?;
        blobs.get(name).ok_or("BlobNotFound")
    }

    fn blob(&self, container: &str, name: &str) -> Result<&ModelBlob, &'static str> {
        self.entry(container, name)?
            .blob
            .as_ref()
            .ok_or("BlobNotFound")
    }

    /// Notes an ETag, which no write may have had before.
    fn fresh(&mut self, etag: ETag) {
        assert!(self.newest_etag < Some(etag), "ETags increase");
        self.newest_etag = Some(etag);
    }

    fn create_container(&mut self) {
        let container = self.container();
        let expected = if self.containers.contains_key(&container) {
            Err("ContainerAlreadyExists")
        } else {
            Ok(())
        };
        let (private, none) = (PublicAccess::Private, Metadata::new());
        let actual = self
            .at(self.now)
            .create_container(ACCOUNT, &container, private, none);
        if let Some(written) = agree(expected, actual) {
            self.fresh(written.etag);
            self.containers.insert(container, ModelContainer::new());
        }
    }

    fn delete_container(&mut self) {
        let container = self.container();
        let expected = self
            .containers
            .remove(&container)
            .map(|_| ())
            .ok_or("ContainerNotFound");
        let none = Conditions::default();
        let actual = self
            .at(self.now)
            .delete_container(ACCOUNT, &container, &none);
        agree(expected, actual.map(|ticket| ((), ticket)));
    }
}

/// True if the store under test keeps its data when it is closed; a store in memory does not.
fn store_keeps_data() -> bool {
    static KEEPS: LazyLock<bool> = LazyLock::new(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut found = None;
        for _ in 0..2 {
            let db = Db::open(directory.path(), Config::default()).unwrap();
            let keyspace = db.keyspace("probe", KeyspaceOptions::default()).unwrap();
            found = db.get(&keyspace, b"key").unwrap();
            let mut batch = Batch::new();
            batch.put(&keyspace, b"key", b"value");
            db.write(batch).unwrap().wait().unwrap();
            db.close().unwrap();
        }
        found.is_some()
    });
    *KEEPS
}

fn runs(seeds: u64, steps: u64, step: impl Fn(&mut Run)) {
    let start = |seed| {
        let mut run = Run::new(seed);
        run.create_container();
        run
    };
    let end = |mut run: Run| {
        run.compare_everything();
        run.reopen();
        run.compare_everything();
    };
    with_seeds(seeds, steps, start, step, end);
}

#[test]
fn service_agrees_with_plain_maps() {
    runs(4, setting("LAZURITE_MODEL_STEPS", 4000), Run::step);
}

#[test]
fn listings_agree_with_brute_force() {
    runs(20, 20, |run| {
        run.create_container();
        (0..30).for_each(|_| run.put_blob());
        (0..2).for_each(|_| run.put_block());
        (0..5).for_each(|_| run.list_blobs());
    });
}

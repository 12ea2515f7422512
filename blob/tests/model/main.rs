//! Random operations on the service and on plain maps that obey the protocol; both must say the same after each.
//!
//! This file: block blobs and listings. `history.rs`: all types, and what a name has had.
//!
//! `LAZURITE_MODEL_SEED` replays one run, `LAZURITE_MODEL_STEPS` makes it longer. A failure prints the seed and step.

mod history;

use lazurite_blob::*;
use lazurite_engine::{Batch, Config, CountingIds, Db, KeyspaceOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ACCOUNT: &str = "account";
const CONTAINERS: [&str; 3] = ["one", "one-more", "two"];
const NAME_PARTS: [&str; 6] = ["a", "b", "/", "--", "é", "😀"];
const BLOCK_IDS: [&str; 3] = ["a", "b", "c"];

/// SplitMix64: a run is its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Short words of few letters, so that names share beginnings and come again.
    fn word(&mut self, parts: &[&str], least: usize, most: usize) -> String {
        let count = least + self.below(most + 1 - least);
        (0..count).map(|_| *self.one(parts)).collect()
    }

    fn body(&mut self) -> Vec<u8> {
        let length = match self.below(10) {
            0 => 0,
            1 => 20_000 + self.below(50_000),
            _ => self.below(300),
        };
        let first = self.next() as u8;
        (0..length)
            .map(|i| first.wrapping_add((i / 3) as u8))
            .collect()
    }
}

/// With the protocol's code for an error where the model says what to expect.
type Result<T, E = Error> = std::result::Result<T, E>;

/// Block ids with their bytes.
type Blocks = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Clone)]
enum ModelContent {
    Whole(Vec<u8>),
    Blocks(Blocks),
}

#[derive(Debug, Clone)]
struct ModelBlob {
    etag: ETag,
    created_at: SystemTime,
    last_modified: SystemTime,
    content: ModelContent,
    metadata: Metadata,
}

impl ModelBlob {
    fn bytes(&self) -> Vec<u8> {
        match &self.content {
            ModelContent::Whole(body) => body.clone(),
            ModelContent::Blocks(blocks) => {
                blocks.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
            }
        }
    }

    fn blocks(&self) -> &[(Vec<u8>, Vec<u8>)] {
        match &self.content {
            ModelContent::Whole(_) => &[],
            ModelContent::Blocks(blocks) => blocks,
        }
    }
}

/// What stands under a name. Without either part nothing does.
#[derive(Debug, Clone, Default)]
struct ModelEntry {
    blob: Option<ModelBlob>,
    uncommitted: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl ModelEntry {
    fn committed_blocks(&self) -> &[(Vec<u8>, Vec<u8>)] {
        self.blob.as_ref().map_or(&[], ModelBlob::blocks)
    }

    fn takes_block_id(&self, id: &[u8]) -> bool {
        let committed = self.committed_blocks().iter().map(|(id, _)| id);
        let mut ids = self.uncommitted.keys().chain(committed);
        ids.all(|other| other.len() == id.len())
    }

    fn resolve(&self, choices: &[BlockChoice]) -> Result<Blocks, &'static str> {
        let committed = |id: &Vec<u8>| {
            let mut blocks = self.committed_blocks().iter();
            blocks
                .find(|(other, _)| other == id)
                .map(|(_, bytes)| bytes)
        };
        let find = |choice: &BlockChoice| {
            let id = &choice.id;
            let bytes = match choice.source {
                BlockSource::Committed => committed(id),
                BlockSource::Uncommitted => self.uncommitted.get(id),
                BlockSource::Latest => self.uncommitted.get(id).or_else(|| committed(id)),
            };
            Ok((id.clone(), bytes.ok_or("InvalidBlockList")?.clone()))
        };
        choices.iter().map(find).collect()
    }
}

type ModelContainer = BTreeMap<String, ModelEntry>;

/// The condition of a request, in the words of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Demand {
    Nothing,
    IsCurrent,
    IsStale,
    IsMissing,
}

impl Demand {
    fn headers(self, current: Option<ETag>) -> Conditions {
        let stale = "\"0x1\"".to_string();
        let if_match = match self {
            Demand::IsCurrent => Some(current.map_or(stale, ETag::quoted)),
            Demand::IsStale => Some(stale),
            _ => None,
        };
        Conditions {
            if_match: if_match.and_then(|tag| ETags::parse(&tag)),
            if_none_match: (self == Demand::IsMissing).then_some(ETags::Any),
            ..Conditions::default()
        }
    }

    fn expect(self, exists: bool, creates: bool) -> Result<(), &'static str> {
        match (self, exists) {
            (Demand::IsStale, _) | (Demand::IsCurrent, false) => Err("ConditionNotMet"),
            (Demand::IsMissing, true) if creates => Err("BlobAlreadyExists"),
            (_, false) if !creates => Err("BlobNotFound"),
            _ => Ok(()),
        }
    }
}

/// The protocol's code of an error.
fn code(error: Error) -> String {
    let text = format!("{error:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_string()
}

fn address<'a>(container: &'a str, blob: &'a str) -> BlobAddress<'a> {
    BlobAddress {
        account: ACCOUNT,
        container,
        blob,
        state: BlobState::Current,
    }
}

struct Run {
    random: Random,
    /// `None` only while it is being reopened.
    service: Option<BlobService>,
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
        // Small enough that a run flushes and compacts.
        let config = Config {
            memtable_bytes_max: 64 << 10,
            ..Config::default()
        };
        let db = Db::open(self.directory.path(), config).unwrap();
        self.service = Some(BlobService::open(&db, self.ids.clone()).unwrap());
        self.db = Some(db);
    }

    /// Closes the store and opens it again: nothing may differ afterwards.
    fn reopen(&mut self) {
        if !store_keeps_data() {
            return;
        }
        self.service = None;
        self.db.take().unwrap().close().unwrap();
        // A restart takes longer than the ticks by which writes at one instant have pushed the ETags ahead of the time.
        self.now += Duration::from_secs(1);
        self.open();
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

    /// The outcome of a write, acknowledged; what both sides say of it must agree.
    fn agree<T>(
        &self,
        expected: Result<(), &str>,
        actual: Result<(T, Ticket), Error>,
    ) -> Option<T> {
        match (expected, actual) {
            (Ok(()), Ok((outcome, ticket))) => {
                ticket.wait().unwrap();
                Some(outcome)
            }
            (Err(expected), Err(error)) => {
                assert_eq!(code(error), expected);
                None
            }
            (expected, actual) => panic!("expected {expected:?}, but {:?}", actual.err()),
        }
    }

    fn create_container(&mut self) {
        let container = self.container();
        let expected = match self.containers.contains_key(&container) {
            true => Err("ContainerAlreadyExists"),
            false => Ok(()),
        };
        let (private, none) = (PublicAccess::Private, Metadata::new());
        let service = self.service();
        let actual = service.create_container(ACCOUNT, &container, private, none, self.now);
        if let Some(written) = self.agree(expected, actual) {
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
            .service()
            .delete_container(ACCOUNT, &container, &none, self.now);
        self.agree(expected, actual.map(|ticket| ((), ticket)));
    }

    /// Whether a conditional write to a blob should be taken, and the conditions it carries.
    fn demand(
        &mut self,
        container: &str,
        name: &str,
        creates: bool,
    ) -> (Result<(), &'static str>, Conditions) {
        use Demand::*;
        let demands = [Nothing, Nothing, Nothing, IsCurrent, IsStale, IsMissing];
        let demand = *self.random.one(&demands);
        let current = self.blob(container, name).ok().map(|blob| blob.etag);
        let expected = match self.containers.contains_key(container) {
            true => demand.expect(current.is_some(), creates),
            false => Err("ContainerNotFound"),
        };
        (expected, demand.headers(current))
    }

    fn upload(&mut self, kind: UploadKind, body: &[u8]) -> Upload {
        let piece_bytes = 1 + self.random.below(30_000);
        let mut upload = self
            .service()
            .begin_upload(kind, Checksums::default())
            .unwrap();
        for piece in body.chunks(piece_bytes) {
            upload.write(piece).unwrap();
        }
        upload
    }

    fn put_blob(&mut self) {
        let (container, name, body) = (self.container(), self.name(), self.random.body());
        let (expected, conditions) = self.demand(&container, &name, true);
        let metadata = self.metadata();
        let request = PutBlob {
            upload: self.upload(UploadKind::PutBlob, &body),
            headers: BlobHeaders::default(),
            metadata: metadata.clone(),
            settings: BlobSettings::default(),
            conditions,
        };
        let actual = self
            .service()
            .put_blob(&address(&container, &name), request, self.now);
        if let Some(outcome) = self.agree(expected, actual) {
            let content = ModelContent::Whole(body);
            self.made(&container, &name, outcome.written, content, metadata);
        }
    }

    /// A blob was made or made anew.
    fn made(
        &mut self,
        container: &str,
        name: &str,
        written: Written,
        content: ModelContent,
        metadata: Metadata,
    ) {
        self.fresh(written.etag);
        let before = self.blob(container, name).map(|blob| blob.created_at);
        let blob = ModelBlob {
            etag: written.etag,
            created_at: before.unwrap_or(written.last_modified),
            last_modified: written.last_modified,
            content,
            metadata,
        };
        let entry = ModelEntry {
            blob: Some(blob),
            uncommitted: BTreeMap::new(),
        };
        let blobs = self.containers.get_mut(container).unwrap();
        blobs.insert(name.to_string(), entry);
    }

    fn put_block(&mut self) {
        let (container, name) = (self.container(), self.name());
        let most = if self.random.below(20) == 0 { 2 } else { 1 };
        let id = self.random.word(&BLOCK_IDS, 1, most).into_bytes();
        let mut body = self.random.body();
        body.push(1);
        let expected = match self.entry(&container, &name) {
            Ok(entry) if !entry.takes_block_id(&id) => Err("InvalidBlobOrBlock"),
            Ok(_) | Err("BlobNotFound") => Ok(()),
            Err(code) => Err(code),
        };
        let upload = self.upload(UploadKind::PutBlock, &body);
        let address = address(&container, &name);
        let actual = self
            .service()
            .put_block(&address, &id, upload, None, self.now);
        if self.agree(expected, actual).is_some() {
            let blobs = self.containers.get_mut(&container).unwrap();
            blobs.entry(name).or_default().uncommitted.insert(id, body);
        }
    }

    fn block_choice(&mut self) -> BlockChoice {
        let sources = [
            BlockSource::Latest,
            BlockSource::Committed,
            BlockSource::Uncommitted,
        ];
        let which = if self.random.below(3) == 0 { 3 } else { 1 };
        BlockChoice {
            source: *self.random.one(&sources[..which]),
            id: self.random.word(&BLOCK_IDS, 1, 1).into_bytes(),
        }
    }

    fn put_block_list(&mut self) {
        let (container, name) = (self.container(), self.name());
        let count = self.random.below(3);
        let blocks: Vec<_> = (0..count).map(|_| self.block_choice()).collect();
        let entry = self.entry(&container, &name).cloned().unwrap_or_default();
        let resolved = entry.resolve(&blocks);
        let (expected, conditions) = self.demand(&container, &name, true);
        let expected = expected.and(resolved.as_ref().map(|_| ()).map_err(|code| *code));
        let metadata = self.metadata();
        let request = PutBlockList {
            blocks,
            headers: BlobHeaders::default(),
            metadata: metadata.clone(),
            settings: BlobSettings::default(),
            conditions,
        };
        let address = address(&container, &name);
        let actual = self.service().put_block_list(&address, request, self.now);
        if let Some(written) = self.agree(expected, actual) {
            let content = ModelContent::Blocks(resolved.unwrap());
            self.made(&container, &name, written, content, metadata);
        }
    }

    fn delete_blob(&mut self) {
        let (container, name) = (self.container(), self.name());
        let (expected, conditions) = self.demand(&container, &name, false);
        let request = DeleteBlob {
            conditions,
            ..DeleteBlob::default()
        };
        let actual = self
            .service()
            .delete_blob(&address(&container, &name), &request, self.now);
        if self.agree(expected, actual).is_some() {
            self.containers.get_mut(&container).unwrap().remove(&name);
        }
    }

    fn set_metadata(&mut self) {
        let (container, name, metadata) = (self.container(), self.name(), self.metadata());
        let (expected, conditions) = self.demand(&container, &name, false);
        let address = address(&container, &name);
        let service = self.service();
        let actual = service.set_blob_metadata(&address, metadata.clone(), &conditions, self.now);
        if let Some(written) = self.agree(expected, actual) {
            self.fresh(written.etag);
            let blobs = self.containers.get_mut(&container).unwrap();
            let blob = blobs.get_mut(&name).unwrap().blob.as_mut().unwrap();
            blob.etag = written.etag;
            blob.last_modified = written.last_modified;
            blob.metadata = metadata;
        }
    }

    fn get_blob(&mut self) {
        let (container, name) = (self.container(), self.name());
        let first = self.random.below(300) as u64;
        let last = match self.random.below(3) {
            0 => None,
            _ => Some(first + self.random.below(300) as u64),
        };
        let range = (self.random.below(2) == 0).then_some(ByteRange { first, last });
        let chunk_bytes = 1 + self.random.below(9000);
        self.compare_blob(&container, &name, range, chunk_bytes);
    }

    fn compare_blob(
        &self,
        container: &str,
        name: &str,
        range: Option<ByteRange>,
        chunk_bytes: usize,
    ) {
        let none = Conditions::default();
        let actual = self
            .service()
            .get_blob(&address(container, name), range, &none, self.now);
        let blob = match self.blob(container, name) {
            Ok(blob) => blob,
            Err(missing) => return assert_eq!(code(actual.unwrap_err()), missing),
        };
        let bytes = blob.bytes();
        let expected = match range {
            None => &bytes[..],
            Some(ByteRange { first, .. }) if first as usize >= bytes.len() => {
                return assert_eq!(code(actual.unwrap_err()), "InvalidRange");
            }
            Some(ByteRange { first, last }) => {
                let end = last.map_or(bytes.len(), |last| bytes.len().min(last as usize + 1));
                &bytes[first as usize..end]
            }
        };
        let mut download = actual.unwrap();
        let mut read = Vec::new();
        while let Some(piece) = download.body.next_chunk(chunk_bytes).unwrap() {
            read.extend_from_slice(&piece);
        }
        assert!(read == expected, "content of {container}/{name}");
        let found = download.blob;
        assert_eq!(found.length, bytes.len() as u64);
        assert_eq!((found.etag, &found.metadata), (blob.etag, &blob.metadata));
        assert_eq!(found.created_at, blob.created_at);
        assert_eq!(found.last_modified, blob.last_modified);
    }

    fn get_block_list(&mut self) {
        let (container, name) = (self.container(), self.name());
        let address = address(&container, &name);
        let actual = self.service().get_block_list(
            &address,
            BlockListType::All,
            &Conditions::default(),
            self.now,
        );
        let entry = match self.entry(&container, &name) {
            Ok(entry) => entry,
            Err(missing) => return assert_eq!(code(actual.unwrap_err()), missing),
        };
        let found = |blocks: Vec<BlobBlock>| -> Vec<(Vec<u8>, usize)> {
            let found = |block: BlobBlock| (block.id, block.length as usize);
            blocks.into_iter().map(found).collect()
        };
        let actual = actual.unwrap();
        let etag = actual.blob.map(|blob| blob.etag);
        assert_eq!(etag, entry.blob.as_ref().map(|blob| blob.etag));
        let committed = entry.committed_blocks().iter();
        let committed: Vec<_> = committed
            .map(|(id, bytes)| (id.clone(), bytes.len()))
            .collect();
        assert_eq!(found(actual.committed), committed);
        let uncommitted = entry.uncommitted.iter();
        let uncommitted: Vec<_> = uncommitted
            .map(|(id, bytes)| (id.clone(), bytes.len()))
            .collect();
        assert_eq!(found(actual.uncommitted), uncommitted);
    }

    fn list_blobs(&mut self) {
        let container = self.container();
        let delimiters = ["", "", "/", "--", "a/", "b", "é", "none"];
        let request = ListBlobs {
            prefix: self.random.word(&NAME_PARTS, 0, 2),
            delimiter: self.random.one(&delimiters).to_string(),
            marker: None,
            max_results: Some(1 + self.random.below(7) as u32),
            metadata: true,
            uncommitted: self.random.below(3) == 0,
            ..ListBlobs::default()
        };
        self.compare_listing(&container, request);
    }

    /// All pages, between some of which the store is closed and opened again.
    fn compare_listing(&mut self, container: &str, mut request: ListBlobs) {
        let page_entries = request.max_results.unwrap() as usize;
        let Some(blobs) = self.containers.get(container) else {
            let error = self
                .service()
                .list_blobs(ACCOUNT, container, &request, self.now)
                .unwrap_err();
            return assert_eq!(code(error), "ContainerNotFound");
        };
        let expected = listing(blobs, &request);
        let mut actual = Vec::new();
        loop {
            let page = self
                .service()
                .list_blobs(ACCOUNT, container, &request, self.now)
                .unwrap();
            let count = page.entries.len();
            actual.extend(page.entries.into_iter().map(told));
            request.marker = page.next_marker;
            if request.marker.is_none() {
                assert!(count <= page_entries);
                break;
            }
            assert_eq!(count, page_entries, "a page with others after it is full");
            assert!(
                actual.len() < expected.len(),
                "something is behind the marker"
            );
            if self.random.below(100) == 0 {
                self.reopen();
            }
        }
        assert_eq!(actual, expected, "{request:?}");
    }

    fn compare_everything(&mut self) {
        for (container, blobs) in &self.containers {
            for name in blobs.keys() {
                self.compare_blob(container, name, None, 10_000);
            }
        }
        for container in CONTAINERS {
            let request = ListBlobs {
                max_results: Some(3),
                metadata: true,
                uncommitted: true,
                ..ListBlobs::default()
            };
            self.compare_listing(container, request);
        }
    }
}

/// Whether the store under test keeps anything when it is closed; one that lives in memory does not.
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

/// An entry as text: its name, and either that it is a prefix or what is known of the blob.
fn told(entry: BlobEntry) -> String {
    match entry {
        BlobEntry::Prefix(prefix) => format!("{prefix:?} and more"),
        BlobEntry::Blob(listed) => match listed.blob {
            Some(blob) => format!("{:?} {} {:?}", listed.name, blob.etag, blob.metadata),
            None => format!("{:?} uncommitted", listed.name),
        },
    }
}

/// The whole listing by brute force, in the words of [`told`].
fn listing(blobs: &ModelContainer, request: &ListBlobs) -> Vec<String> {
    let mut entries = Vec::new();
    for (name, entry) in blobs {
        let Some(rest) = name.strip_prefix(&request.prefix) else {
            continue;
        };
        if entry.blob.is_none() && !request.uncommitted {
            continue;
        }
        let delimiter = Some(&request.delimiter).filter(|delimiter| !delimiter.is_empty());
        let group = delimiter.and_then(|delimiter| Some(rest.split_once(delimiter.as_str())?.0));
        let told = match (group, &entry.blob) {
            (Some(group), _) => {
                let prefix = format!("{}{group}{}", request.prefix, request.delimiter);
                format!("{prefix:?} and more")
            }
            (None, Some(blob)) => format!("{name:?} {} {:?}", blob.etag, blob.metadata),
            (None, None) => format!("{name:?} uncommitted"),
        };
        if entries.last() != Some(&told) {
            entries.push(told);
        }
    }
    entries
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

/// Does `work` with several seeds, and says which seed and step a failure was at.
fn with_seeds(seeds: u64, steps: u64, work: impl Fn(&mut Run)) {
    let first = setting("LAZURITE_MODEL_SEED", 1);
    for seed in first..first + seeds {
        let mut run = Run::new(seed);
        run.create_container();
        for step in 0..steps {
            let step_done = std::panic::AssertUnwindSafe(|| work(&mut run));
            let done = std::panic::catch_unwind(step_done);
            assert!(done.is_ok(), "LAZURITE_MODEL_SEED={seed}, step {step}");
        }
        run.compare_everything();
        run.reopen();
        run.compare_everything();
    }
}

#[test]
fn service_agrees_with_plain_maps() {
    with_seeds(4, setting("LAZURITE_MODEL_STEPS", 4000), Run::step);
}

#[test]
fn listings_agree_with_brute_force() {
    with_seeds(20, 20, |run| {
        run.create_container();
        (0..30).for_each(|_| run.put_blob());
        (0..2).for_each(|_| run.put_block());
        (0..5).for_each(|_| run.list_blobs());
    });
}

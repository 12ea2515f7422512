//! Random operations on blobs of all types, and on what their names have had: snapshots, versions, deleted blobs, copies. The
//! store is closed, killed or loses power on the way; in the end everything is deleted, and nothing may be left of it.

use super::{Random, code};
use lazurite_blob::*;

/// With the protocol's code for an error where the model says what to expect.
type Result<T, E = Error> = std::result::Result<T, E>;
use lazurite_engine::fs::{Keep, MemoryFs};
use lazurite_engine::{
    Config, CountingIds, Db, Direction, Durability, Environment, KeyRange, KeyspaceOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ACCOUNT: &str = "account";
const CONTAINERS: [&str; 2] = ["one", "two"];
const NAMES: [&str; 4] = ["a", "a/b", "b", "c"];
const IDS: [&str; 3] = ["x", "y", "z"];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const RETENTION_DAYS: u16 = 2;

/// What is known of a blob, in whatever state.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    kind: BlobType,
    bytes: Vec<u8>,
    blocks: Vec<(String, Vec<u8>)>,
    tags: Tags,
    version: Option<Moment>,
}

/// What a deleted blob was, and becomes again.
#[derive(Debug, Clone)]
enum Was {
    Current,
    Snapshot,
    Version(Moment),
}

#[derive(Debug, Clone, Default)]
struct Name {
    current: Option<Known>,
    snapshots: BTreeMap<Moment, Known>,
    versions: BTreeMap<Moment, Known>,
    deleted: Vec<(SystemTime, Was, Known)>,
    staged: BTreeMap<String, Vec<u8>>,
    staged_at: Option<SystemTime>,
}

type At = (usize, usize);

struct Walk {
    random: Random,
    policy: AccountPolicy,
    disk: MemoryFs,
    directory: tempfile::TempDir,
    db: Db,
    service: BlobService,
    ids: Arc<CountingIds>,
    now: SystemTime,
    names: BTreeMap<At, Name>,
}

fn open(directory: &tempfile::TempDir, disk: &MemoryFs) -> Db {
    let config = Config {
        durability: Durability::Disk,
        memtable_bytes_max: 64 << 10,
        ..Config::default()
    };
    let mut environment = Environment::system(Durability::Disk);
    environment.fs = Arc::new(disk.clone());
    Db::open_with(directory.path(), config, environment).unwrap()
}

fn address(at: At, state: BlobState) -> BlobAddress<'static> {
    BlobAddress {
        account: ACCOUNT,
        container: CONTAINERS[at.0],
        blob: NAMES[at.1],
        state,
    }
}

impl Walk {
    fn new(seed: u64, policy: AccountPolicy) -> Walk {
        let directory = tempfile::tempdir().unwrap();
        let disk = MemoryFs::crashable();
        let db = open(&directory, &disk);
        let ids = Arc::new(CountingIds::default());
        let service = BlobService::open(&db, ids.clone()).unwrap();
        let set = service.set_account_policy(ACCOUNT, policy, None);
        set.unwrap().wait().unwrap();
        let walk = Walk {
            random: Random(seed),
            policy,
            disk,
            directory,
            db,
            service,
            ids,
            now: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            names: BTreeMap::new(),
        };
        for container in CONTAINERS {
            walk.create(container);
        }
        walk
    }

    fn create(&self, container: &str) {
        let (private, none) = (PublicAccess::Private, Metadata::new());
        let service = &self.service;
        let made = service.create_container(ACCOUNT, container, private, none, self.now);
        made.unwrap().1.wait().unwrap();
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.below(3000) as u64);
        let at = (
            self.random.below(CONTAINERS.len()),
            self.random.below(NAMES.len()),
        );
        match self.random.below(200) {
            0..20 => self.put_blob(at),
            20..40 => self.put_block(at),
            40..60 => self.put_block_list(at),
            60..66 => self.put_append_blob(at),
            66..86 => self.append(at),
            86..92 => self.put_page_blob(at),
            92..117 => self.put_page(at),
            117..121 => self.resize(at),
            121..139 => self.snapshot(at),
            139..157 => self.copy(at),
            157..173 => self.delete(at),
            173..179 => self.set_tags(at),
            179..185 => self.undelete(at),
            185..189 => self.set_metadata(at),
            189 => self.delete_container(at.0),
            190..194 => self.pass_days(),
            194..196 => self.interrupt(),
            _ => self.compare_listing(at.0),
        }
        self.compare(at);
    }

    fn name(&mut self, at: At) -> &mut Name {
        self.names.entry(at).or_default()
    }

    fn known(&self, at: At) -> Option<&Known> {
        self.names.get(&at)?.current.as_ref()
    }

    fn kind(&self, at: At) -> Option<BlobType> {
        self.known(at).map(|known| known.kind)
    }

    /// What a write must answer that needs a blob of this type.
    fn needs(&self, at: At, kind: BlobType) -> Result<(), &'static str> {
        match self.kind(at) {
            None => Err("BlobNotFound"),
            Some(there) if there != kind => Err("InvalidBlobType"),
            Some(_) => Ok(()),
        }
    }

    /// What a write acknowledged, if both sides agree that it succeeds.
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

    /// The current blob is replaced.
    fn replace(&mut self, at: At, known: Option<Known>, deleted: bool) {
        let (policy, now) = (self.policy, self.now);
        let name = self.name(at);
        name.staged.clear();
        name.staged_at = None;
        let Some(old) = std::mem::replace(&mut name.current, known) else {
            return;
        };
        if policy.versioning {
            name.versions.insert(old.version.unwrap(), old);
        } else if policy.delete_retention_days.is_some() {
            let was = if deleted { Was::Current } else { Was::Snapshot };
            name.deleted
                .push((now + DAY * RETENTION_DAYS.into(), was, old));
        }
    }

    fn upload(&mut self, kind: UploadKind, body: &[u8]) -> Upload {
        let mut upload = self
            .service
            .begin_upload(kind, Checksums::default())
            .unwrap();
        for piece in body.chunks(1 + self.random.below(30_000)) {
            upload.write(piece).unwrap();
        }
        upload
    }

    fn put_blob(&mut self, at: At) {
        let bytes = self.random.body();
        let request = PutBlob {
            upload: self.upload(UploadKind::PutBlob, &bytes),
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            settings: BlobSettings::default(),
            conditions: Conditions::default(),
        };
        let put = self
            .service
            .put_blob(&address(at, BlobState::Current), request, self.now);
        let outcome = self.agree(Ok(()), put).unwrap();
        let known = known(BlobType::BlockBlob, bytes, outcome.written);
        self.replace(at, Some(known), false);
    }

    fn put_block(&mut self, at: At) {
        let id = self.random.one(&IDS).to_string();
        let mut body = self.random.body();
        body.push(1);
        let expected = match self.kind(at) {
            None | Some(BlobType::BlockBlob) => Ok(()),
            Some(_) => Err("InvalidBlobType"),
        };
        let upload = self.upload(UploadKind::PutBlock, &body);
        let to = address(at, BlobState::Current);
        let put = self
            .service
            .put_block(&to, id.as_bytes(), upload, None, self.now);
        if self.agree(expected, put).is_some() {
            let now = self.now;
            let name = self.name(at);
            name.staged.insert(id, body);
            name.staged_at = Some(now);
        }
    }

    fn put_block_list(&mut self, at: At) {
        let count = self.random.below(4);
        let ids: Vec<String> = (0..count)
            .map(|_| self.random.one(&IDS).to_string())
            .collect();
        let name = self.name(at).clone();
        let find = |id: &String| {
            let committed = || {
                let blocks = &name.current.as_ref()?.blocks;
                Some(&blocks.iter().find(|(other, _)| other == id)?.1)
            };
            let found = name.staged.get(id).or_else(committed);
            found.map(|bytes| (id.clone(), bytes.clone()))
        };
        let blocks: Option<Vec<_>> = ids.iter().map(find).collect();
        let expected = match (self.kind(at), &blocks) {
            (Some(BlobType::AppendBlob | BlobType::PageBlob), _) => Err("InvalidBlobType"),
            (_, None) => Err("InvalidBlockList"),
            _ => Ok(()),
        };
        let choice = |id: &String| BlockChoice {
            source: BlockSource::Latest,
            id: id.as_bytes().to_vec(),
        };
        let request = PutBlockList {
            blocks: ids.iter().map(choice).collect(),
            ..PutBlockList::default()
        };
        let to = address(at, BlobState::Current);
        let put = self.service.put_block_list(&to, request, self.now);
        if let Some(written) = self.agree(expected, put) {
            let blocks = blocks.unwrap();
            let bytes = blocks.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let mut known = known(BlobType::BlockBlob, bytes, written);
            known.blocks = blocks;
            self.replace(at, Some(known), false);
        }
    }

    fn put_append_blob(&mut self, at: At) {
        let request = PutAppendBlob::default();
        let to = address(at, BlobState::Current);
        let put = self.service.put_append_blob(&to, request, self.now);
        let written = self.agree(Ok(()), put).unwrap();
        let known = known(BlobType::AppendBlob, Vec::new(), written);
        self.replace(at, Some(known), false);
    }

    fn append(&mut self, at: At) {
        let mut body = self.random.body();
        body.push(2);
        let request = AppendBlock {
            upload: self.upload(UploadKind::AppendBlock, &body),
            max_size: None,
            append_position: None,
            conditions: Conditions::default(),
        };
        let expected = self.needs(at, BlobType::AppendBlob);
        let to = address(at, BlobState::Current);
        let put = self.service.append_block(&to, request, self.now);
        if let Some(outcome) = self.agree(expected, put) {
            let known = self.name(at).current.as_mut().unwrap();
            assert_eq!(outcome.offset, known.bytes.len() as u64);
            known.bytes.extend(body);
        }
    }

    fn put_page_blob(&mut self, at: At) {
        let pages = 1 + self.random.below(150) as u64;
        let request = PutPageBlob {
            length: pages * 512,
            ..PutPageBlob::default()
        };
        let to = address(at, BlobState::Current);
        let put = self.service.put_page_blob(&to, request, self.now);
        let written = self.agree(Ok(()), put).unwrap();
        let known = known(BlobType::PageBlob, vec![0; pages as usize * 512], written);
        self.replace(at, Some(known), false);
    }

    fn put_page(&mut self, at: At) {
        let length = self.known(at).map_or(0, |known| known.bytes.len());
        let start = self.random.below(length / 512 + 1) * 512;
        let end = start + 512 * (1 + self.random.below(100));
        let byte = self.random.below(5) as u8;
        let expected = match self.needs(at, BlobType::PageBlob) {
            Ok(()) if end > length => Err("InvalidPageRange"),
            other => other,
        };
        let update = match byte {
            0 => PageUpdate::Clear,
            _ => PageUpdate::Update(self.upload(UploadKind::PutPage, &vec![byte; end - start])),
        };
        let request = PutPage {
            range: start as u64..end as u64,
            update,
            sequence: SequenceConditions::default(),
            conditions: Conditions::default(),
        };
        let to = address(at, BlobState::Current);
        let put = self.service.put_page(&to, request, self.now);
        if self.agree(expected, put).is_some() {
            let known = self.name(at).current.as_mut().unwrap();
            known.bytes[start..end].fill(byte);
        }
    }

    fn resize(&mut self, at: At) {
        let length = self.random.below(150) * 512;
        let expected = self.needs(at, BlobType::PageBlob);
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let service = &self.service;
        let set =
            service.set_page_blob_properties(&to, Some(length as u64), None, None, &none, self.now);
        let set = set.map(|(written, _, ticket)| (written, ticket));
        if self.agree(expected, set).is_some() {
            let known = self.name(at).current.as_mut().unwrap();
            known.bytes.resize(length, 0);
        }
    }

    fn snapshot(&mut self, at: At) {
        let expected = self.known(at).map(|_| ()).ok_or("BlobNotFound");
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let taken = self
            .service
            .snapshot_blob(&to, Metadata::new(), &none, self.now);
        let taken = taken.map(|(moment, _, ticket)| (moment, ticket));
        if let Some(moment) = self.agree(expected, taken) {
            let name = self.name(at);
            let known = name.current.clone().unwrap();
            assert!(name.snapshots.insert(moment, known).is_none());
        }
    }

    /// Any state that the name has, or one that it has not.
    fn any_state(&mut self, at: At) -> (BlobState, Option<Known>) {
        let name = self.names.get(&at).cloned().unwrap_or_default();
        let snapshots = name.snapshots.into_iter();
        let snapshots = snapshots.map(|(moment, known)| (BlobState::Snapshot(moment), Some(known)));
        let versions = name.versions.into_iter();
        let versions = versions.map(|(moment, known)| (BlobState::Version(moment), Some(known)));
        let mut states: Vec<_> = snapshots.chain(versions).collect();
        let moment = Moment::at(UNIX_EPOCH);
        states.push((BlobState::Snapshot(moment), None));
        states.push((BlobState::Current, name.current));
        states.swap_remove(self.random.below(states.len()))
    }

    fn copy(&mut self, to: At) {
        let from = (
            self.random.below(CONTAINERS.len()),
            self.random.below(NAMES.len()),
        );
        let (state, source) = self.any_state(from);
        let expected = match (&source, self.kind(to)) {
            (None, _) => Err("BlobNotFound"),
            (Some(source), Some(kind)) if source.kind != kind => Err("InvalidBlobType"),
            _ => Ok(()),
        };
        let (source_address, to_address) = (address(from, state), address(to, BlobState::Current));
        let request = CopyBlob::default();
        let service = &self.service;
        let copied = service.copy_blob(&source_address, &to_address, request, self.now);
        if let Some(outcome) = self.agree(expected, copied) {
            let known = Known {
                tags: Tags::new(),
                version: outcome.written.version,
                ..source.unwrap()
            };
            self.replace(to, Some(known), false);
        }
    }

    fn delete(&mut self, at: At) {
        let (state, found) = self.any_state(at);
        let options = [
            None,
            Some(DeleteSnapshots::Include),
            Some(DeleteSnapshots::Only),
        ];
        let snapshots = match state {
            BlobState::Current => *self.random.one(&options),
            _ => None,
        };
        let has_snapshots = !self.name(at).snapshots.is_empty();
        let expected = match &found {
            None => Err("BlobNotFound"),
            Some(_) if state == BlobState::Current && snapshots.is_none() && has_snapshots => {
                Err("SnapshotsPresent")
            }
            Some(_) => Ok(()),
        };
        let request = DeleteBlob {
            snapshots,
            ..DeleteBlob::default()
        };
        let deleted = self
            .service
            .delete_blob(&address(at, state), &request, self.now);
        if self.agree(expected, deleted).is_none() {
            return;
        }
        match state {
            BlobState::Current => {
                if snapshots.is_some() {
                    let gone = std::mem::take(&mut self.name(at).snapshots);
                    gone.into_values()
                        .for_each(|known| self.keep(at, Was::Snapshot, known));
                }
                if snapshots != Some(DeleteSnapshots::Only) {
                    self.replace(at, None, true);
                }
            }
            BlobState::Snapshot(moment) => {
                let known = self.name(at).snapshots.remove(&moment).unwrap();
                self.keep(at, Was::Snapshot, known);
            }
            BlobState::Version(moment) => {
                let known = self.name(at).versions.remove(&moment).unwrap();
                self.keep(at, Was::Version(moment), known);
            }
        }
    }

    /// A snapshot or version was deleted.
    fn keep(&mut self, at: At, was: Was, known: Known) {
        if self.policy.delete_retention_days.is_some() {
            let until = self.now + DAY * RETENTION_DAYS.into();
            self.name(at).deleted.push((until, was, known));
        }
    }

    fn set_tags(&mut self, at: At) {
        let value = self.random.word(&["1", "2"], 1, 1);
        let tags: Tags = vec![("kind".to_string(), value)];
        let expected = self.known(at).map(|_| ()).ok_or("BlobNotFound");
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let set = self
            .service
            .set_blob_tags(&to, tags.clone(), &none, self.now);
        if self
            .agree(expected, set.map(|ticket| ((), ticket)))
            .is_some()
        {
            self.name(at).current.as_mut().unwrap().tags = tags;
        }
        self.compare_tags();
    }

    fn compare_tags(&self) {
        for value in ["1", "2"] {
            let request = FindBlobsByTags {
                query: TagQuery::parse(&format!("kind = '{value}'")).unwrap(),
                marker: None,
                max_results: None,
            };
            let page = self
                .service
                .find_blobs_by_tags(ACCOUNT, &request, self.now)
                .unwrap();
            let found: Vec<_> = page
                .blobs
                .iter()
                .map(|blob| (&blob.container[..], &blob.name[..]))
                .collect();
            let tagged = |name: &Name| {
                let tags = name.current.as_ref().map(|known| &known.tags);
                tags.is_some_and(|tags| tags.iter().any(|(_, tag)| tag == value))
            };
            let expected: Vec<_> = self
                .names
                .iter()
                .filter(|(_, name)| tagged(name))
                .map(|(at, _)| (CONTAINERS[at.0], NAMES[at.1]))
                .collect();
            assert_eq!(found, expected);
        }
    }

    fn set_metadata(&mut self, at: At) {
        let expected = self.known(at).map(|_| ()).ok_or("BlobNotFound");
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let metadata = vec![("n".to_string(), "v".to_string())];
        let service = &self.service;
        let set = service.set_blob_metadata(&to, metadata, &none, self.now);
        if let Some(written) = self.agree(expected, set)
            && self.policy.versioning
        {
            let name = self.name(at);
            let known = name.current.as_mut().unwrap();
            name.versions.insert(known.version.unwrap(), known.clone());
            known.version = written.version;
        }
    }

    fn undelete(&mut self, at: At) {
        let now = self.now;
        let name = self.name(at);
        let mut kept: Vec<_> = name
            .deleted
            .iter()
            .filter(|kept| kept.0 > now)
            .cloned()
            .collect();
        let expected = match name.current.is_some() || !kept.is_empty() {
            true => Ok(()),
            false => Err("BlobNotFound"),
        };
        let to = address(at, BlobState::Current);
        let done = self.service.undelete_blob(&to, now);
        if self
            .agree(expected, done.map(|ticket| ((), ticket)))
            .is_none()
        {
            return;
        }
        let name = self.name(at);
        name.deleted.retain(|kept| kept.0 <= now);
        let last = kept
            .iter()
            .rposition(|(_, was, _)| matches!(was, Was::Current));
        if let Some(last) = last.filter(|_| name.current.is_none()) {
            name.current = Some(kept.remove(last).2);
        }
        let mut restored = Vec::new();
        for (_, was, known) in kept {
            match was {
                Was::Version(moment) => drop(name.versions.insert(moment, known)),
                Was::Current | Was::Snapshot => restored.push(known),
            }
        }
        self.learn_snapshots(at, restored);
    }

    /// Snapshots that came back have moments that only a listing tells: takes them from there, and compares their content.
    fn learn_snapshots(&mut self, at: At, restored: Vec<Known>) {
        let name = self.names.get(&at).unwrap();
        let mut expected: Vec<Known> = name.snapshots.values().cloned().chain(restored).collect();
        let mut snapshots = BTreeMap::new();
        for moment in self.listed(at).0 {
            let state = BlobState::Snapshot(moment);
            let bytes = self.read(at, state).unwrap();
            let (kind, ids) = self.kind_and_ids(at, state);
            let same = |known: &Known| {
                let blocks = known.blocks.iter().map(|(id, _)| id.as_bytes());
                known.kind == kind
                    && known.bytes == bytes
                    && blocks.eq(ids.iter().map(|id| &id[..]))
            };
            let found = expected.iter().position(same);
            let found = found.expect("a snapshot has the content that one was deleted with");
            snapshots.insert(moment, expected.swap_remove(found));
        }
        assert!(expected.is_empty(), "all snapshots are back");
        self.name(at).snapshots = snapshots;
    }

    fn kind_and_ids(&self, at: At, state: BlobState) -> (BlobType, Vec<Vec<u8>>) {
        let (address, none) = (address(at, state), Conditions::default());
        let service = &self.service;
        let blob = service.get_blob_properties(&address, &none, self.now);
        let kind = blob.unwrap().blob_type();
        if kind != BlobType::BlockBlob {
            return (kind, Vec::new());
        }
        let list = service.get_block_list(&address, BlockListType::Committed, &none, self.now);
        let ids = list.unwrap().committed.into_iter().map(|block| block.id);
        (kind, ids.collect())
    }

    /// The moments of snapshots and of versions of a name, as listed; the number of deleted ones; whether there is a blob.
    fn listed(&self, at: At) -> (Vec<Moment>, Vec<Moment>, usize, bool) {
        let mut request = ListBlobs {
            prefix: NAMES[at.1].to_string(),
            snapshots: true,
            versions: true,
            deleted: true,
            max_results: Some(3),
            ..ListBlobs::default()
        };
        let mut all = (Vec::new(), Vec::new(), 0, false);
        loop {
            let page = self
                .service
                .list_blobs(ACCOUNT, CONTAINERS[at.0], &request, self.now)
                .unwrap();
            for entry in page.entries {
                let BlobEntry::Blob(listed) = entry else {
                    panic!("{entry:?}");
                };
                if listed.name != NAMES[at.1] {
                    continue;
                }
                let blob = listed.blob.unwrap();
                match (blob.deleted, listed.is_current, blob.snapshot, blob.version) {
                    (Some(_), ..) => all.2 += 1,
                    (None, true, ..) => all.3 = true,
                    (None, false, Some(moment), _) => all.0.push(moment),
                    (None, false, None, moment) => all.1.push(moment.unwrap()),
                }
            }
            request.marker = page.next_marker;
            if request.marker.is_none() {
                return all;
            }
        }
    }

    fn delete_container(&mut self, container: usize) {
        let none = Conditions::default();
        let name = CONTAINERS[container];
        let service = &self.service;
        let deleted = service.delete_container(ACCOUNT, name, &none, self.now);
        deleted.unwrap().wait().unwrap();
        self.names.retain(|at, _| at.0 != container);
        self.create(name);
    }

    fn pass_days(&mut self) {
        self.now += DAY * self.random.below(4) as u32;
        self.sweep();
    }

    fn sweep(&mut self) {
        while self.service.sweep(self.now, 3).unwrap().steps > 0 {}
        // A sweep is not waited for. What is logged after it is not durable without it.
        let set = self.service.set_service_properties(ACCOUNT, b"");
        set.unwrap().wait().unwrap();
        let now = self.now;
        for name in self.names.values_mut() {
            name.deleted.retain(|kept| kept.0 > now);
            if name.staged_at.is_some_and(|at| at + DAY * 7 <= now) {
                name.staged.clear();
                name.staged_at = None;
            }
        }
    }

    /// Closes the store, kills its process or cuts its power, and opens it again.
    fn interrupt(&mut self) {
        let seed = self.random.next();
        match self.random.below(3) {
            0 => self.db.close().unwrap(),
            1 => self.disk = self.disk.crash(seed, Keep::Everything),
            _ => {
                let keep = [Keep::Nothing, Keep::Prefix, Keep::Sectors];
                self.disk = self.disk.crash(seed, *self.random.one(&keep));
            }
        }
        self.db = open(&self.directory, &self.disk);
        self.service = BlobService::open(&self.db, self.ids.clone()).unwrap();
        self.now += Duration::from_secs(1);
        self.compare_everything();
    }

    fn read(&self, at: At, state: BlobState) -> Result<Vec<u8>, Error> {
        let none = Conditions::default();
        let download = self
            .service
            .get_blob(&address(at, state), None, &none, self.now)?;
        let mut body = download.body;
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next_chunk(7000)? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn compare(&self, at: At) {
        let name = self.names.get(&at).cloned().unwrap_or_default();
        let current = self.read(at, BlobState::Current).ok();
        assert!(
            current == name.current.map(|known| known.bytes),
            "current of {at:?}"
        );
        for (moment, known) in &name.snapshots {
            let bytes = self.read(at, BlobState::Snapshot(*moment)).unwrap();
            assert!(bytes == known.bytes, "snapshot {moment} of {at:?}");
        }
        for (moment, known) in &name.versions {
            let bytes = self.read(at, BlobState::Version(*moment)).unwrap();
            assert!(bytes == known.bytes, "version {moment} of {at:?}");
        }
    }

    fn compare_listing(&self, container: usize) {
        for at in (0..NAMES.len()).map(|name| (container, name)) {
            let name = self.names.get(&at).cloned().unwrap_or_default();
            let (snapshots, versions, deleted, current) = self.listed(at);
            assert!(snapshots.iter().eq(name.snapshots.keys()));
            assert!(versions.iter().eq(name.versions.keys()));
            let kept = name.deleted.iter().filter(|kept| kept.0 > self.now);
            assert_eq!((deleted, current), (kept.count(), name.current.is_some()));
            let to = address(at, BlobState::Current);
            let none = Conditions::default();
            let service = &self.service;
            if self.kind(at).is_none_or(|kind| kind == BlobType::BlockBlob) {
                let list = service.get_block_list(&to, BlockListType::Uncommitted, &none, self.now);
                let staged = list.map_or(0, |list| list.uncommitted.len());
                assert_eq!(staged, name.staged.len());
            }
        }
    }

    fn compare_everything(&self) {
        for container in 0..CONTAINERS.len() {
            (0..NAMES.len()).for_each(|name| self.compare((container, name)));
            self.compare_listing(container);
        }
        self.compare_tags();
    }

    /// Deletes everything and lets time pass: not a row may stay.
    fn leave_nothing(mut self) {
        self.compare_everything();
        for container in 0..CONTAINERS.len() {
            self.delete_container(container);
        }
        self.now += DAY * 400;
        self.sweep();
        for keyspace in [
            "blobs",
            "history",
            "blocks",
            "content",
            "references",
            "tags",
            "timers",
        ] {
            let opened = self
                .db
                .keyspace(&format!("blob.{keyspace}"), KeyspaceOptions::default());
            let snapshot = self.db.snapshot();
            let mut rows = snapshot.scan(&opened.unwrap(), KeyRange::all(), Direction::Forward);
            if rows.advance().unwrap() {
                panic!("left in blob.{keyspace}: {:x?}", rows.key());
            }
        }
    }
}

fn known(kind: BlobType, bytes: Vec<u8>, written: Written) -> Known {
    Known {
        kind,
        bytes,
        blocks: Vec::new(),
        tags: Tags::new(),
        version: written.version,
    }
}

fn walks(policy: AccountPolicy) {
    let first = super::setting("LAZURITE_MODEL_SEED", 1);
    for seed in first..first + 4 {
        let mut walk = Walk::new(seed, policy);
        for step in 0..super::setting("LAZURITE_MODEL_STEPS", 700) {
            let step_done = std::panic::AssertUnwindSafe(|| walk.step());
            let done = std::panic::catch_unwind(step_done);
            assert!(done.is_ok(), "LAZURITE_MODEL_SEED={seed}, step {step}");
        }
        walk.leave_nothing();
    }
}

#[test]
fn histories_without_retention_agree_with_plain_maps() {
    walks(AccountPolicy::default());
}

#[test]
fn histories_with_deleted_blobs_agree_with_plain_maps() {
    walks(AccountPolicy {
        delete_retention_days: Some(RETENTION_DAYS),
        ..AccountPolicy::default()
    });
}

#[test]
fn histories_with_versions_agree_with_plain_maps() {
    walks(AccountPolicy {
        versioning: true,
        ..AccountPolicy::default()
    });
}

#[test]
fn histories_with_versions_and_deleted_blobs_agree_with_plain_maps() {
    walks(AccountPolicy {
        versioning: true,
        delete_retention_days: Some(RETENTION_DAYS),
        ..AccountPolicy::default()
    });
}

//! Merging layers in the background: layers stay few, every snapshot stays as it was, and nothing
//! is left over, whatever happens between two steps.

use crate::model::LayerMerge;
use crate::operations::tests::*;
use crate::*;
use lazurite_engine::fs::{Keep, MemoryFs};
use lazurite_engine::{Config, Db, Direction, Durability, Environment, KeyRange};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// More bytes than one step copies.
const LARGE: usize = 300 << 10;

impl Store {
    fn layers(&self, name: &str) -> usize {
        self.properties(name).unwrap().layers.len()
    }

    fn merges(&self) -> Vec<LayerMerge> {
        let merges = &self.service.keyspaces.merges;
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(merges, KeyRange::all(), Direction::Forward);
        let mut found = Vec::new();
        while rows.advance().unwrap() {
            let home = keys::container_of(rows.key()).unwrap();
            found.push(codec::decode_merge(&rows.value().unwrap(), home).unwrap());
        }
        found
    }

    /// Sweeps until nothing is due.
    fn sweep_merges(&self) {
        let swept = self.at(at(9)).sweep(100_000).unwrap();
        assert!(swept.failures.is_empty(), "{:?}", swept.failures);
        assert!(self.merges().is_empty());
    }

    /// Sweeps until the first step of a merge has been taken.
    fn sweep_to_merge(&self) {
        while !self
            .merges()
            .iter()
            .any(|merge| merge.next > merge_start(merge))
        {
            assert_eq!(self.at(at(9)).sweep(1).unwrap().steps, 1);
        }
    }

    /// An append blob with a layer for each of `count` appends, and a snapshot of each state.
    fn grow(&self, name: &str, count: usize) -> (Vec<u8>, Vec<(SnapshotTime, usize)>) {
        self.put_append_blob(name);
        let (mut all, mut snapshots) = (Vec::new(), Vec::new());
        for number in 0..count {
            let body = pattern(LARGE, number as u8);
            self.append(name, &body).unwrap();
            all.extend(body);
            snapshots.push((self.snapshot(name).unwrap(), all.len()));
        }
        (all, snapshots)
    }

    fn check(&self, name: &str, all: &[u8], snapshots: &[(SnapshotTime, usize)]) {
        assert!(self.read(name).unwrap() == all);
        for (moment, length) in snapshots.iter().step_by(5) {
            let state = BlobState::Snapshot(*moment);
            assert!(self.read_state(name, state).unwrap() == all[..*length]);
        }
    }
}

/// The offset at which the layers of a merge begin.
fn merge_start(merge: &LayerMerge) -> u64 {
    merge.layers[0].end - LARGE as u64
}

#[test]
fn large_appends_between_snapshots_leave_few_layers() {
    let store = store();
    store.put_append_blob("log");
    let mut all = Vec::new();
    let mut snapshots = Vec::new();
    let mut most = 0;
    for number in 0..64_usize {
        let body = pattern(LARGE, number as u8);
        store.append("log", &body).unwrap();
        all.extend(body);
        snapshots.push((store.snapshot("log").unwrap(), all.len()));
        if number % 10 == 9 {
            store.sweep_merges();
        }
        most = most.max(store.layers("log"));
    }
    assert!(most <= 36, "{most}");
    store.check("log", &all, &snapshots);
    for (moment, _) in snapshots {
        let state = BlobState::Snapshot(moment);
        store
            .delete_with("log", state, DeleteBlob::default())
            .unwrap();
    }
    assert_eq!(
        store.filed(),
        (64, 64),
        "nothing is left of what was copied"
    );
    store.delete("log").unwrap();
    store.sweep_merges();
    store.empty();
}

#[test]
fn a_merge_continues_after_a_power_cut_between_any_two_steps() {
    let open = |disk: &MemoryFs| {
        let config = Config {
            durability: Durability::Process,
            sync_milliseconds: 60_000,
            ..Config::default()
        };
        let mut environment = Environment::system(Durability::Process);
        environment.fs = Arc::new(disk.clone());
        let db = Db::open_with(Path::new("store"), config, environment).unwrap();
        let store = Store::over(&db, tempfile::tempdir().unwrap());
        store.at(at(9));
        (db, store)
    };
    let disk = MemoryFs::crashable();
    let (mut db, mut store) = open(&disk);
    let mut disk = disk;
    store.create(CONTAINER).unwrap();
    let (all, snapshots) = store.grow("log", 24);
    let before = store.layers("log");
    db.sync().unwrap();
    let mut steps = 0;
    loop {
        let swept = store.at(at(9)).sweep(1).unwrap();
        assert!(swept.failures.is_empty(), "{:?}", swept.failures);
        if swept.steps == 0 {
            break;
        }
        steps += 1;
        // Every other step is lost, and taken again.
        let keep = [Keep::Everything, Keep::Nothing][steps % 2];
        if keep == Keep::Everything {
            db.sync().unwrap();
        }
        let crashed = disk.crash(steps as u64, keep);
        disk = crashed;
        (db, store) = open(&disk);
        if keep == Keep::Nothing {
            store.at(at(9)).sweep(1).unwrap();
            db.sync().unwrap();
        }
        if steps % 8 == 0 {
            store.check("log", &all, &snapshots);
        }
    }
    assert!(steps > 10, "{steps}");
    store.check("log", &all, &snapshots);
    assert!(store.layers("log") < before);
    assert!(store.merges().is_empty());
}

#[test]
fn writers_go_on_between_the_steps_of_a_merge() {
    let store = store();
    let (mut all, snapshots) = store.grow("log", 24);
    store.sweep_to_merge();
    for _ in 0..40 {
        store.append("log", b"more").unwrap();
        all.extend(b"more");
        store.at(at(9)).sweep(1).unwrap();
    }
    store.sweep_merges();
    store.check("log", &all, &snapshots);
    assert!(store.layers("log") <= 16);
}

/// An action that ends the blob whose layers are being merged.
type End<'a> = &'a dyn Fn(&Store);

#[test]
fn a_merge_ends_with_its_blob_and_leaves_nothing() {
    let ends: [(&str, End); 4] = [
        ("deleted", &|store| {
            let all = with_snapshots(DeleteSnapshots::Include);
            store.delete_with("log", BlobState::Current, all).unwrap();
        }),
        ("overwritten", &|store| drop(store.put_append_blob("log"))),
        ("replaced by a snapshot", &|store| {
            let first = store.list(&ListBlobs {
                snapshots: true,
                ..ListBlobs::default()
            });
            let moment = first.entries.iter().find_map(|entry| match entry {
                BlobEntry::Blob(listed) => listed.blob.as_ref()?.snapshot,
                BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
            });
            let source = BlobAddress {
                state: BlobState::Snapshot(moment.unwrap()),
                ..address("log")
            };
            let copied = store
                .at(at(9))
                .copy_blob(&source, &address("log"), CopyBlob::default());
            copied.unwrap().1.wait().unwrap();
        }),
        ("gone with its container", &|store| {
            let deleted =
                store
                    .at(at(9))
                    .delete_container(ACCOUNT, CONTAINER, &Conditions::default());
            deleted.unwrap().wait().unwrap();
        }),
    ];
    for (how, end) in ends {
        let store = store();
        store.grow("log", 24);
        store.sweep_to_merge();
        let target = store.merges()[0].target;
        end(&store);
        // However the blob ends, the copies are deleted, at once or by the next sweep.
        store.sweep_merges();
        let snapshot = store.service.db.snapshot();
        let keyspaces = &store.service.keyspaces;
        for keyspace in [&keyspaces.blocks, &keyspaces.content] {
            let mut rows = snapshot.scan(keyspace, target.all(), Direction::Forward);
            assert!(!rows.advance().unwrap(), "{how}");
        }
    }
}

/// The cost of a write or a read grows with each layer, so layers must stay few over ten thousand
/// snapshots and copies.
#[test]
fn layers_stay_few_over_ten_thousand_snapshots_and_copies() {
    let store = store();
    store.put_append_blob("log");
    let (mut log, mut most) = (Vec::new(), 0);
    for number in 0..5000_usize {
        let body = [number as u8; 40];
        store.append("log", &body).unwrap();
        log.extend(body);
        store.snapshot("log").unwrap();
        if number % 2 == 0 {
            store.copy("log", "copy").unwrap();
        }
        if number % 100 == 99 {
            store.sweep_merges();
        }
        most = most.max(store.layers("log"));
    }
    assert!(most <= 48, "{most}");
    assert!(store.read("log").unwrap() == log);
    let snapshot = store.service.db.snapshot();
    let blobs = &store.service.keyspaces.blobs;
    let mut rows = snapshot.scan(blobs, KeyRange::all(), Direction::Forward);
    while rows.advance().unwrap() {
        assert!(
            rows.value().unwrap().len() < 4096,
            "a write stores the record"
        );
    }
}

/// The expected bytes of the random walk's blobs, by name.
#[derive(Default)]
struct Expected {
    current: BTreeMap<&'static str, Vec<u8>>,
    snapshots: BTreeMap<(&'static str, SnapshotTime), Vec<u8>>,
}

const NAMES: [&str; 2] = ["log", "copy"];

/// One random operation on the append blobs.
fn walk(store: &Store, expected: &mut Expected, random: &mut impl FnMut(usize) -> usize) {
    let first = random(2);
    let (name, other) = (NAMES[first], NAMES[1 - first]);
    let snapshots = expected.snapshots.keys().filter(|(of, _)| *of == name);
    let snapshots: Vec<_> = snapshots.copied().collect();
    let any = (!snapshots.is_empty()).then(|| snapshots[random(snapshots.len().max(1))]);
    match (random(100), any) {
        (0..45, _) => {
            let Some(bytes) = expected.current.get_mut(name) else {
                return;
            };
            let body = pattern(1 + random(120_000), random(256) as u8);
            store.append(name, &body).unwrap();
            bytes.extend(body);
        }
        (45..65, _) => {
            if let Some(bytes) = expected.current.get(name).cloned() {
                let moment = store.snapshot(name).unwrap();
                expected.snapshots.insert((name, moment), bytes);
            }
        }
        (65..80, _) => {
            if let Some(bytes) = expected.current.get(name).cloned() {
                store.copy(name, other).unwrap();
                expected.current.insert(other, bytes);
            }
        }
        (80..88, Some(snapshot)) => {
            let state = BlobState::Snapshot(snapshot.1);
            store
                .delete_with(name, state, DeleteBlob::default())
                .unwrap();
            expected.snapshots.remove(&snapshot);
        }
        (88, Some(snapshot)) => {
            let source = BlobAddress {
                state: BlobState::Snapshot(snapshot.1),
                ..address(name)
            };
            store
                .copy_with(source, address(name), CopyBlob::default())
                .unwrap();
            let bytes = expected.snapshots[&snapshot].clone();
            expected.current.insert(name, bytes);
        }
        (89..100, _) => {
            store.at(at(9)).sweep(1 + random(3) as u32).unwrap();
        }
        _ => {}
    }
    if let Some(bytes) = expected.current.get(name) {
        let download = store.open(name, None).unwrap();
        assert!(drain(download.body, 1 << 20) == *bytes, "{name}");
    }
}

#[test]
fn blobs_of_many_layers_agree_with_plain_bytes_while_they_are_merged() {
    let (mut merges, mut most) = (0, 0);
    for seed in 1..=4_u64 {
        let mut state = seed;
        let mut random = |limit: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        let store = store();
        let mut expected = Expected::default();
        store.put_append_blob("log");
        expected.current.insert("log", Vec::new());
        for step in 0..700 {
            let walked = catch_unwind(AssertUnwindSafe(|| {
                walk(&store, &mut expected, &mut random);
            }));
            assert!(walked.is_ok(), "seed {seed}, step {step}");
            merges += store.merges().len();
            for name in NAMES {
                most = most.max(store.properties(name).map_or(0, |blob| blob.layers.len()));
            }
        }
        for ((name, moment), bytes) in &expected.snapshots {
            let state = BlobState::Snapshot(*moment);
            assert!(store.read_state(name, state).unwrap() == *bytes, "{seed}");
        }
        let include = || with_snapshots(DeleteSnapshots::Include);
        for name in expected.current.keys() {
            store
                .delete_with(name, BlobState::Current, include())
                .unwrap();
        }
        store.sweep_merges();
        store.empty();
    }
    assert!(merges > 20, "{merges} {most}");
}

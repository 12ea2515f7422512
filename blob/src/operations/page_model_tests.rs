//! Random operations on page blobs, compared with arrays of pages: writes, clears, resizes,
//! snapshots, copies in both directions, and the differences between all states that can be
//! compared. After each step the counted references in the store are checked.

use crate::keys::{File, container_of, is_uncommitted_marker};
use crate::operations::page_blob_tests::since;
use crate::operations::tests::*;
use crate::place::{Child, Place};
use crate::*;
use lazurite_engine::fs::{Keep, MemoryFs};
use lazurite_engine::{Config, Db, Direction, Durability, Environment, KeyRange, Keyspace};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

pub(super) fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// The references of all page blobs, as counted from their records and nodes.
#[derive(Default)]
struct Counted {
    /// Number of references, by file and by id of a node or a content.
    references: BTreeMap<(Vec<u8>, u128), u64>,
    stored: BTreeMap<(Vec<u8>, u128), u64>,
    nodes: BTreeSet<(Vec<u8>, u128)>,
    dropped: BTreeSet<(Vec<u8>, u128)>,
}

impl Counted {
    fn refer(&mut self, file: &[u8], id: u128) {
        *self.references.entry((file.to_vec(), id)).or_default() += 1;
    }

    /// Adds a row of `blob.blocks`.
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let (file, tail) = key.split_at(32);
        let id = || u128::from_be_bytes(tail[tail.len() - 16..].try_into().unwrap());
        match tail[0] {
            3 => {
                let number = u64::from_be_bytes(tail[2..10].try_into().unwrap());
                let place = Place::of(tail[1], number).unwrap();
                assert_eq!(File::of(file).unwrap().node(place, id()), key);
                self.nodes.insert((file.to_vec(), id()));
                if place.is_leaf() {
                    let extents = codec::decode_leaf(number, value).unwrap();
                    assert!(!extents.is_empty());
                    for content in codec::contents(&extents) {
                        self.refer(file, content);
                    }
                } else {
                    let branch = codec::decode_branch(value).unwrap();
                    assert!(!branch.is_empty());
                    let nodes = branch.into_values().filter_map(Child::node);
                    nodes.for_each(|child| self.refer(file, child));
                }
            }
            4 => {
                let count = codec::decode_count(value).unwrap();
                self.stored.insert((file.to_vec(), id()), count);
            }
            5 => drop(self.dropped.insert((file.to_vec(), id()))),
            _ => {}
        }
    }
}

impl Store {
    fn each_row(&self, keyspace: &Keyspace, mut each: impl FnMut(&[u8], &[u8])) {
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
        while rows.advance().unwrap() {
            each(rows.key(), &rows.value().unwrap());
        }
    }

    /// Checks that the counted references of all nodes and contents of page blobs are right, and
    /// that those without references are about to be deleted.
    pub(super) fn check_references(&self) {
        let keyspaces = &self.service.keyspaces;
        let mut counted = Counted::default();
        self.each_row(&keyspaces.blocks, |key, value| counted.add(key, value));
        for keyspace in [&keyspaces.blobs, &keyspaces.history] {
            self.each_row(keyspace, |key, value| {
                if keyspace == &keyspaces.history && is_uncommitted_marker(key) {
                    return;
                }
                let home = container_of(key).unwrap();
                for layer in codec::decode_blob(value, home).unwrap().layers {
                    if let Some(root) = layer.root {
                        counted.refer(&layer.file.references(), root);
                    }
                }
            });
        }
        let mut there = counted.nodes.clone();
        self.each_row(&keyspaces.content, |key, _| {
            let id = u128::from_be_bytes(key[key.len() - 16..].try_into().unwrap());
            there.insert((key[..32].to_vec(), id));
        });
        let several = counted.references.iter().filter(|(_, count)| **count > 1);
        let several: BTreeMap<_, _> = several.map(|(id, count)| (id.clone(), *count)).collect();
        assert_eq!(counted.stored, several);
        let referred: BTreeSet<_> = counted.references.into_keys().collect();
        let alone: BTreeSet<_> = there.difference(&referred).cloned().collect();
        assert_eq!(alone, counted.dropped, "without references");
        assert!(referred.is_subset(&there), "a node or a content is missing");
    }

    fn sweep_pages(&self) {
        let swept = self.at(at(9)).sweep(100_000).unwrap();
        assert!(swept.failures.is_empty(), "{swept:?}");
    }

    fn stored_bytes(&self) -> u64 {
        let snapshot = self.service.db.snapshot();
        let content = &self.service.keyspaces.content;
        let mut rows = snapshot.scan(content, KeyRange::all(), Direction::Forward);
        let mut bytes = 0;
        while rows.advance().unwrap() {
            bytes += rows.open_value().unwrap().length();
        }
        bytes
    }
}

/// A state of a blob: for each page the number of the write that it comes from, the negative number
/// of the clear that emptied it, or 0 if it was never written or cleared.
#[derive(Debug, Clone, Default)]
struct State {
    pages: Vec<i64>,
    /// The creation, or the copy, that the blob came from.
    origin: u64,
    /// Number of copies between the first blob and this one.
    generation: u64,
}

#[derive(Default)]
struct Model {
    current: BTreeMap<&'static str, State>,
    snapshots: BTreeMap<(&'static str, SnapshotTime), State>,
    /// The offset of the first page that is written to.
    base: u64,
    pages_max: u64,
    seed: u64,
    writes: u64,
}

const NAMES: [&str; 3] = ["pages", "b", "c"];

impl Model {
    fn random(&mut self, below: u64) -> u64 {
        random(&mut self.seed, below)
    }

    /// The number of the next write.
    fn number(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    fn create(&mut self, store: &Store, name: &'static str) {
        let pages = vec![0; self.pages_max as usize];
        store.put_page_blob(name, self.base + self.pages_max * 512);
        let origin = self.number();
        let generation = 0;
        self.current.insert(
            name,
            State {
                pages,
                origin,
                generation,
            },
        );
    }

    fn write(&mut self, store: &Store, name: &'static str) {
        let length = self.current[name].pages.len() as u64;
        let start = self.random(length);
        let most = [3, 40, self.pages_max / 2][self.random(3) as usize];
        let end = length.min(start + 1 + self.random(most));
        let range = self.base + start * 512..self.base + end * 512;
        let mut number = self.number() as i64;
        if self.random(3) == 0 {
            store.clear(name, range).unwrap();
            number = -number;
        } else {
            let body = bytes(&vec![number; (end - start) as usize]);
            store.put_page(name, range.start, &body).unwrap();
        }
        let state = self.current.get_mut(name).unwrap();
        state.pages[start as usize..end as usize].fill(number);
    }

    fn resize(&mut self, store: &Store, name: &'static str) {
        let length = 1 + self.random(self.pages_max);
        store.resize(name, self.base + length * 512).unwrap();
        let state = self.current.get_mut(name).unwrap();
        state.pages.resize(length as usize, 0);
    }

    fn copy(&mut self, store: &Store, from: &'static str, to: &'static str) {
        let snapshots = self.snapshots.keys().filter(|(name, _)| *name == from);
        let snapshots: Vec<_> = snapshots.copied().collect();
        let mut state = self.current[from].clone();
        let mut source = address(from);
        if !snapshots.is_empty() && self.random(3) == 0 {
            let snapshot = snapshots[self.random(snapshots.len() as u64) as usize];
            state = self.snapshots[&snapshot].clone();
            source.state = BlobState::Snapshot(snapshot.1);
        }
        store
            .copy_with(source, address(to), CopyBlob::default())
            .unwrap();
        state.origin = self.number();
        state.generation += 1;
        self.current.insert(to, state);
    }

    /// The blob that the most copies led to.
    fn latest(&self) -> &'static str {
        let latest = self
            .current
            .iter()
            .max_by_key(|(_, state)| state.generation);
        latest.map_or(NAMES[0], |(name, _)| name)
    }

    fn drop_snapshot(&mut self, store: &Store, name: &'static str) {
        let snapshots = self.snapshots.keys().filter(|(of, _)| *of == name);
        let snapshots: Vec<_> = snapshots.copied().collect();
        if snapshots.len() > 1 {
            let gone = snapshots[self.random(snapshots.len() as u64) as usize];
            let state = BlobState::Snapshot(gone.1);
            assert!(
                store
                    .delete_with(name, state, DeleteBlob::default())
                    .unwrap()
            );
            self.snapshots.remove(&gone);
        }
    }

    fn step(&mut self, store: &Store) {
        let name = NAMES[self.random(3) as usize];
        let other = NAMES[self.random(3) as usize];
        match self.random(100) {
            0..45 => self.write(store, name),
            45..52 => self.resize(store, name),
            52..62 => {
                let moment = store.snapshot(name).unwrap();
                let state = self.current[name].clone();
                self.snapshots.insert((name, moment), state);
            }
            62..68 => self.copy(store, name, other),
            68..82 => self.copy(store, self.latest(), other),
            82..90 => self.drop_snapshot(store, name),
            90 => {
                let all = with_snapshots(DeleteSnapshots::Include);
                store.delete_with(name, BlobState::Current, all).unwrap();
                self.snapshots.retain(|(of, _), _| *of != name);
                self.create(store, name);
            }
            91 => self.create(store, name),
            _ => drop(store.at(at(9)).sweep(2).unwrap()),
        }
    }

    fn compare(&self, store: &Store) {
        for (name, state) in &self.current {
            self.compare_state(store, name, BlobState::Current, state);
            for ((_, moment), before) in self.snapshots.iter().filter(|((of, _), _)| of == name) {
                self.compare_with(store, name, *moment, before, state);
            }
        }
        for ((name, moment), state) in &self.snapshots {
            self.compare_state(store, name, BlobState::Snapshot(*moment), state);
        }
    }

    fn compare_state(&self, store: &Store, name: &str, state: BlobState, known: &State) {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let rest = range(self.base, None);
        let download = store
            .at(at(9))
            .get_blob(&address, rest, &Conditions::default());
        let download = download.unwrap();
        assert_eq!(
            download.blob.length,
            self.base + known.pages.len() as u64 * 512
        );
        assert!(
            drain(download.body, 1 << 20) == bytes(&known.pages),
            "{name} {state:?}"
        );
        let all = store
            .at(at(9))
            .get_page_ranges(&address, &GetPageRanges::default());
        let written: Vec<_> = known.pages.iter().map(|page| *page.max(&0)).collect();
        assert_eq!(
            plain(all.unwrap()),
            self.changes(&[], &written),
            "{name} {state:?}"
        );
    }

    fn compare_with(
        &self,
        store: &Store,
        name: &str,
        moment: SnapshotTime,
        before: &State,
        now: &State,
    ) {
        let found = store
            .at(at(9))
            .get_page_ranges(&address(name), &since(moment));
        if before.origin == now.origin {
            let expected = self.changes(&before.pages, &now.pages);
            assert_eq!(plain(found.unwrap()), expected, "{name} since {moment:?}");
        } else {
            assert_err!(found, Error::BlobOverwritten);
        }
    }

    /// Returns the ranges of pages that were written or cleared, or that a resize emptied: where
    /// they begin and end, and whether they are empty now.
    fn changes(&self, before: &[i64], now: &[i64]) -> Vec<(u64, u64, bool)> {
        let mut ranges: Vec<(u64, u64, bool)> = Vec::new();
        for (page, is) in now.iter().enumerate() {
            let was = before.get(page).unwrap_or(&0);
            if was == is || (*is == 0 && *was < 0) {
                continue;
            }
            let start = self.base + page as u64 * 512;
            match ranges.last_mut() {
                Some(last) if last.1 == start && last.2 == (*is <= 0) => last.1 += 512,
                _ => ranges.push((start, start + 512, *is <= 0)),
            }
        }
        ranges
    }

    /// Deletes everything. Nothing may be left.
    fn end(&self, store: &Store) {
        store.at(at(9)).sweep(10_000).unwrap();
        self.compare(store);
        let states = self.current.values().chain(self.snapshots.values());
        let seen: u64 = states
            .map(|state| state.pages.iter().filter(|page| **page > 0).count() as u64 * 512)
            .sum();
        let stored = store.stored_bytes();
        assert!(stored <= 4 * seen, "{stored} stored, {seen} seen");
        for name in NAMES {
            let all = with_snapshots(DeleteSnapshots::Include);
            store.delete_with(name, BlobState::Current, all).unwrap();
        }
        store.at(at(9)).sweep(10_000).unwrap();
        store.empty();
    }
}

fn bytes(pages: &[i64]) -> Vec<u8> {
    let page = |number: &i64| {
        [if *number <= 0 {
            0
        } else {
            1 + (number % 255) as u8
        }; 512]
    };
    pages.iter().flat_map(page).collect()
}

fn plain(found: PageRanges) -> Vec<(u64, u64, bool)> {
    assert_eq!(found.next_marker, None);
    let plain = |range: PageRange| (range.range.start, range.range.end, range.cleared);
    found.ranges.into_iter().map(plain).collect()
}

/// Writes pages before and after places where leaves, branches and the children of the root end.
/// Each run must reach 24 generations of copies.
#[test]
fn pages_agree_with_an_array() {
    let bases = [
        0,
        (8 << 20) - 300 * 512,
        (512 << 20) - 512,
        (32 << 30) - 40 * 512,
    ];
    let runs = [(30, 0), (700, 0), (700, 1), (500, 2), (60, 3), (400, 3)];
    for (seed, (pages_max, base)) in (1..).zip(runs) {
        let store = store();
        let mut model = Model {
            base: bases[base],
            pages_max,
            seed,
            ..Model::default()
        };
        NAMES
            .into_iter()
            .for_each(|name| model.create(&store, name));
        let (mut generations, mut step) = (0, 0);
        while step < 300 || generations < 24 {
            step += 1;
            let done = catch_unwind(AssertUnwindSafe(|| {
                model.step(&store);
                store.check_references();
                if step % 4 == 0 {
                    model.compare(&store);
                }
            }));
            assert!(done.is_ok(), "seed {seed}, step {step}");
            let most = model.current.values().map(|state| state.generation).max();
            generations = generations.max(most.unwrap_or(0));
        }
        model.end(&store);
    }
}

/// Writes at random to a copy, makes snapshots of it, and replaces it by new copies of the common
/// source. Returns its expected bytes.
fn write_beside_others(store: &Store, name: &str, mut seed: u64, source: &[u8]) -> Vec<u8> {
    let mut expected = source.to_vec();
    let mut snapshots = Vec::new();
    store.copy("pages", name).unwrap();
    for number in 0..120_usize {
        let start = random(&mut seed, source.len() as u64 / 512 - 200) as usize * 512;
        let length = 512 * (1 + random(&mut seed, 200) as usize);
        let range = start as u64..(start + length) as u64;
        match random(&mut seed, 10) {
            0..5 => {
                let body = pattern(length, number as u8);
                store.put_page(name, range.start, &body).unwrap();
                expected[start..start + length].copy_from_slice(&body);
            }
            5 => {
                store.clear(name, range).unwrap();
                expected[start..start + length].fill(0);
            }
            6 | 7 => snapshots.push((store.snapshot(name).unwrap(), expected.clone())),
            8 if !snapshots.is_empty() => {
                let (moment, body) = snapshots.remove(0);
                let state = BlobState::Snapshot(moment);
                assert!(store.read_state(name, state).unwrap() == body);
                store
                    .delete_with(name, state, DeleteBlob::default())
                    .unwrap();
            }
            _ => {
                store.copy("pages", name).unwrap();
                expected = source.to_vec();
            }
        }
    }
    expected
}

#[test]
fn writers_to_copies_of_one_blob_and_the_sweep_count_references_right() {
    let store = store();
    let source = [pattern(1 << 20, 1), vec![0; 1 << 20]].concat();
    store.put_page_blob("pages", source.len() as u64);
    store.put_page("pages", 0, &source[..1 << 20]).unwrap();
    std::thread::scope(|scope| {
        let (store, source) = (&store, &source[..]);
        let writers = ["a", "b", "c"].map(|name| {
            let seed = u64::from(name.as_bytes()[0]);
            (
                name,
                scope.spawn(move || write_beside_others(store, name, seed, source)),
            )
        });
        for _ in 0..300 {
            store.service.sweep(1).unwrap();
        }
        for (name, writer) in writers {
            let expected = writer.join().unwrap();
            assert!(store.read(name).unwrap() == expected, "{name}");
        }
    });
    store.check_references();
    store.sweep_pages();
    store.check_references();
}

/// A body of 4 MiB becomes many contents, which are written in one batch.
#[test]
fn power_cut_leaves_all_pages_of_a_write_or_none() {
    let open = |disk: &MemoryFs| {
        // The log reaches the system at once, and the disk when the test says so.
        let config = Config {
            durability: Durability::Process,
            sync_milliseconds: 60_000,
            ..Config::default()
        };
        let mut environment = Environment::system(Durability::Process);
        environment.fs = Arc::new(disk.clone());
        Db::open_with(Path::new("store"), config, environment).unwrap()
    };
    let length = 4 << 20;
    let (before, after) = (pattern(length, 1), pattern(length, 2));
    let mut outcomes = [0; 2];
    for seed in 0..12 {
        let disk = MemoryFs::crashable();
        let directory = tempfile::tempdir().unwrap();
        let db = open(&disk);
        let store = Store::over(&db, directory);
        store.create(CONTAINER).unwrap();
        store.put_page_blob("pages", length as u64);
        store.put_page("pages", 0, &before).unwrap();
        db.sync().unwrap();
        let request = PutPage {
            range: 0..length as u64,
            update: PageUpdate::Update(store.upload(UploadKind::PutPage { start: 0 }, &after)),
            sequence: SequenceConditions::default(),
            conditions: Conditions::default(),
        };
        // The write is not awaited: the disk may keep any part of the writes since the last sync.
        let put = store.at(at(1)).put_page(&address("pages"), request);
        let keep = [Keep::Nothing, Keep::Prefix, Keep::Sectors, Keep::Everything];
        let disk = disk.crash(seed, keep[seed as usize % 4]);
        drop(put);
        let store = Store::over(&open(&disk), tempfile::tempdir().unwrap());
        let there = store.read("pages").unwrap();
        assert!(there == before || there == after, "seed {seed}");
        outcomes[usize::from(there == after)] += 1;
    }
    assert!(!outcomes.contains(&0), "{outcomes:?}");
}

//! Costs of page blobs: reads after many snapshots, clearing of many extents, and space after
//! snapshots are deleted.

use crate::model::{Layer, WINDOW_BYTES};
use crate::operations::page_blob_tests::since;
use crate::operations::page_model_tests::random;
use crate::operations::tests::*;
use crate::pages::Changes;
use crate::place::{Child, Place};
use crate::*;
use lazurite_engine::{Direction, KeyRange};
use std::time::{Duration, Instant};

const PAGE: u64 = 512;

impl Store {
    fn record(&self, name: &str) -> Box<Blob> {
        let service = self;
        let container = service.get_container_properties(ACCOUNT, CONTAINER);
        let home = container.unwrap().id;
        let key = crate::keys::blob(home, name);
        let record = service.keyspaces.record(&service.db, home, &key).unwrap();
        match record {
            Some(blob) => blob,
            other => panic!("{other:?}"),
        }
    }

    fn clear_pages(&self, name: &str, range: std::ops::Range<u64>) {
        let request = PutPage {
            range,
            update: PageUpdate::Clear,
            sequence: SequenceConditions::default(),
            conditions: Conditions::default(),
        };
        let put = self.at(at(9)).put_page(&address(name), request);
        put.unwrap().1.wait().unwrap();
    }

    /// Bytes of all contents that are stored.
    fn content_bytes(&self) -> u64 {
        let content = &self.service.keyspaces.content;
        let mut rows = self
            .db
            .snapshot()
            .scan(content, KeyRange::all(), Direction::Forward);
        let bytes = std::iter::from_fn(|| {
            let found = rows.advance().unwrap();
            found.then(|| rows.open_value().unwrap().length())
        });
        bytes.sum()
    }

    fn sweep_all(&self) {
        while self.at(at(99)).sweep(100).unwrap().steps > 0 {}
    }

    /// Number of rows that an operation puts or deletes.
    fn changes_of(&self, operation: impl FnOnce()) -> u64 {
        let before = self.service.db.stats().last_sequence;
        operation();
        self.service.db.stats().last_sequence - before
    }

    fn layer(&self, name: &str) -> Layer {
        self.record(name).layers[0]
    }
}

/// Returns a blob of 16 windows with one small extent each, and `count` snapshots; each snapshot
/// was followed by a write to one of the windows.
fn after_snapshots(count: u64) -> (Store, Vec<SnapshotTime>) {
    let store = store();
    store.put_page_blob("pages", 16 * WINDOW_BYTES);
    for window in 0..16 {
        let put = store.put_page("pages", window * WINDOW_BYTES, &[1; 512]);
        put.unwrap();
    }
    let mut moments = Vec::new();
    for number in 0..count {
        moments.push(store.snapshot("pages").unwrap());
        let byte = 2 + (number % 200) as u8;
        let window = number * 7 % 16;
        let put = store.put_page("pages", window * WINDOW_BYTES, &[byte; 512]);
        put.unwrap();
    }
    (store, moments)
}

/// The first byte of each window after the first `writes` writes.
fn expected(writes: u64) -> [u8; 16] {
    let mut bytes = [1; 16];
    for number in 0..writes {
        bytes[(number * 7 % 16) as usize] = 2 + (number % 200) as u8;
    }
    bytes
}

fn first_bytes(content: &[u8]) -> [u8; 16] {
    std::array::from_fn(|window| content[window * WINDOW_BYTES as usize])
}

#[test]
fn snapshots_keep_their_pages_and_give_their_rows_back() {
    let count = 200;
    let (store, mut moments) = after_snapshots(count);
    assert_eq!(first_bytes(&store.read("pages").unwrap()), expected(count));
    let check = |writes: u64, moment| {
        let content = store.read_state("pages", BlobState::Snapshot(moment));
        assert_eq!(first_bytes(&content.unwrap()), expected(writes), "{writes}");
    };
    (0..count)
        .step_by(11)
        .for_each(|number| check(number, moments[number as usize]));
    let rows = || store.rows(&store.service.keyspaces.blocks);
    // Each write copies a leaf and its branches, and counts what other trees refer to.
    let before = rows();
    assert!(before as u64 <= 16 + 5 * count + 2 * 16 * count, "{before}");
    let mut number = 0;
    moments.retain(|moment| {
        number += 1;
        if number % 20 == 10 {
            return true;
        }
        let state = BlobState::Snapshot(*moment);
        let deleted = store.delete_with("pages", state, DeleteBlob::default());
        assert!(deleted.unwrap());
        false
    });
    store.sweep_all();
    for (at, moment) in moments.iter().enumerate() {
        check(at as u64 * 20 + 9, *moment);
    }
    assert_eq!(first_bytes(&store.read("pages").unwrap()), expected(count));
    assert!(rows() * 4 < before, "{} of {before}", rows());
    let only = with_snapshots(DeleteSnapshots::Only);
    store
        .delete_with("pages", BlobState::Current, only)
        .unwrap();
    store.sweep_all();
    assert_eq!(
        (rows(), store.rows(&store.service.keyspaces.content)),
        (4 + 16, 16)
    );
    assert_eq!(first_bytes(&store.read("pages").unwrap()), expected(count));
}

#[test]
fn pages_only_in_a_deleted_blob_are_dropped_while_a_copy_keeps_the_rest() {
    let store = store();
    store.put_page_blob("pages", 2 * WINDOW_BYTES);
    store.put_page("pages", 0, &[1; 512]).unwrap();
    let copy = CopyBlob::default();
    let (from, to) = (address("pages"), address("copy"));
    let copied = store.at(at(1)).copy_blob(&from, &to, copy);
    copied.unwrap().1.wait().unwrap();
    for page in 0..20 {
        store.put_page("pages", page * 4096, &[2; 512]).unwrap();
    }
    store.delete("pages").unwrap();
    let content = store.read("copy").unwrap();
    assert_eq!((content[0], content[4096]), (1, 0));
    // The same if the copy is written to and has a snapshot while the rows of the deleted blob
    // still exist.
    store.put_page("copy", 512, &[3; 512]).unwrap();
    store.snapshot("copy").unwrap();
    store.sweep_all();
    store.put_page("copy", 1024, &[4; 512]).unwrap();
    let content = store.read("copy").unwrap();
    let bytes = [0, 512, 1024, 4096].map(|at| content[at]);
    assert_eq!(bytes, [1, 3, 4, 0]);
    assert_eq!(store.rows(&store.service.keyspaces.content), 3);
    let include = with_snapshots(DeleteSnapshots::Include);
    store
        .delete_with("copy", BlobState::Current, include)
        .unwrap();
    store.sweep_all();
    assert_eq!(store.filed(), (0, 0));
    assert_eq!(store.rows(&store.service.keyspaces.references), 0);
}

/// A blob with a page in each of `windows` windows.
fn sparse(windows: u64) -> Store {
    let store = store();
    store.put_page_blob("pages", PAGE_BLOB_BYTES_MAX);
    for window in 0..windows {
        let put = store.put_page("pages", window * WINDOW_BYTES, &[1; 512]);
        put.unwrap();
    }
    store
}

#[test]
fn a_snapshot_and_a_copy_are_a_few_rows_and_the_next_write_a_few_hundred() {
    let store = sparse(3000);
    let write = |page: u64| drop(store.put_page("pages", page * PAGE, &[2; 512]).unwrap());
    let alone = store.changes_of(|| write(1));
    assert!(alone <= 4, "{alone} in place");
    let snapshot = store.changes_of(|| _ = store.snapshot("pages").unwrap());
    assert!(snapshot <= 8, "{snapshot} for a snapshot");
    // The children of the three branches that are copied, and the contents of the leaf.
    let first = store.changes_of(|| write(2));
    assert!(
        (64..64 + 46 + 30).contains(&first),
        "{first} for the first write after it"
    );
    let next = store.changes_of(|| write(3));
    assert!(next <= 4, "{next} for the next one");
    let beside = store.changes_of(|| write(WINDOW_BYTES / PAGE));
    assert!(beside <= 8, "{beside} for one beside it");
    let copy = store.changes_of(|| drop(store.copy("pages", "copy").unwrap()));
    assert!(copy <= 10, "{copy} for a copy");
}

#[test]
fn clears_are_marked_only_while_there_is_a_snapshot_to_compare_with() {
    let store = store();
    let rows = || store.rows(&store.service.keyspaces.blocks);
    let all = 0..PAGE_BLOB_BYTES_MAX;
    store.put_page_blob("pages", all.end);
    store.clear_pages("pages", all.clone());
    assert_eq!(rows(), 0);
    let moment = store.snapshot("pages").unwrap();
    let cleared = || {
        let found = store.page_ranges(BlobState::Current, &since(moment));
        found.unwrap()
    };
    assert_eq!(cleared(), []);
    let changes = store.changes_of(|| store.clear_pages("pages", all.clone()));
    assert!(changes <= 4, "{changes} changes for 8 TiB");
    assert_eq!(cleared(), [(0, all.end, true)]);
    // Writes three pages in the middle, and clears the middle one again.
    let middle = all.end / 2;
    store.put_page("pages", middle, &[1; 3 * 512]).unwrap();
    store.clear_pages("pages", middle + PAGE..middle + 2 * PAGE);
    let (first, last) = (middle + PAGE, middle + 2 * PAGE);
    assert_eq!(
        cleared(),
        [
            (0, middle, true),
            (middle, first, false),
            (first, last, true),
            (last, last + PAGE, false),
            (last + PAGE, all.end, true),
        ]
    );
    assert_eq!(store.written(), [(middle, first), (last, last + PAGE)]);
    assert_eq!(rows(), 5);
    let only = with_snapshots(DeleteSnapshots::Only);
    store
        .delete_with("pages", BlobState::Current, only)
        .unwrap();
    store.sweep_all();
    store.put_page("pages", first, &[1; 512]).unwrap();
    let layer = store.layer("pages");
    let db = &store.service.db;
    let mut node = layer.root.map(Child::Node);
    let mut place = Place::ROOT;
    while !place.is_leaf() {
        let keyspaces = &store.service.keyspaces;
        let branch = keyspaces.branch(db, layer.file, place, node).unwrap();
        assert_eq!(branch.len(), 1, "{place:?}");
        let child = place.child_at(middle);
        (place, node) = (place.child(child), branch.get(&child).copied());
    }
}

#[test]
fn clearing_is_one_small_write_however_many_pages_there_are() {
    let windows = 3000;
    for others in [false, true] {
        let store = sparse(windows);
        let last = windows * WINDOW_BYTES - PAGE;
        store.put_page("pages", last, &[1; 512]).unwrap();
        if others {
            store.snapshot("pages").unwrap();
        }
        let changes = store.changes_of(|| store.clear_pages("pages", PAGE..last));
        assert!(changes < 500, "{changes} changes");
        let none = GetPageRanges::default();
        let ranges = store.at(at(9)).get_page_ranges(&address("pages"), &none);
        let ranges = ranges.unwrap().ranges.into_iter();
        let ends: Vec<_> = ranges.map(|range| range.range).collect();
        assert_eq!(ends, [0..PAGE, last..last + PAGE]);
        if !others {
            store.sweep_all();
            assert_eq!(store.rows(&store.service.keyspaces.content), 2);
        }
    }
}

/// Writes a blob of `length` bytes in bodies of 4 MiB, then overwrites 4 KiB at a random place
/// `count` times. Returns the store, the expected bytes, and the bytes put per small write.
fn written_over(length: usize, count: u64) -> (Store, Vec<u8>, u64) {
    let store = store();
    store.put_page_blob("pages", length as u64);
    let mut content = pattern(length, 7);
    for (at, body) in content.chunks(4 << 20).enumerate() {
        store.put_page("pages", (at as u64) << 22, body).unwrap();
    }
    let before = store.db.stats().put_bytes;
    let mut seed = 1;
    for write in 0..count {
        let start = random(&mut seed, length as u64 / 4096) as usize * 4096;
        let body = pattern(4096, write as u8);
        store.put_page("pages", start as u64, &body).unwrap();
        content[start..start + 4096].copy_from_slice(&body);
    }
    let put = store.db.stats().put_bytes - before;
    (store, content, put / count)
}

#[test]
fn small_page_writes_write_little_beside_their_pages() {
    let length = 4 << 20;
    let pages = length as u64 / 4096;
    // Few holes in large contents; large contents that are being replaced; small contents only.
    for (writes, bytes_max) in [(pages / 4, 5000), (pages * 2, 6500), (pages * 8, 6000)] {
        let (store, content, put) = written_over(length, writes);
        assert!(put < bytes_max, "{put} bytes a write, {writes} of them");
        assert!(store.read("pages").unwrap() == content);
        let stored = store.content_bytes();
        assert!(stored <= 4 * length as u64, "{stored} bytes stored");
    }
}

#[test]
fn content_is_given_up_when_little_of_it_is_left() {
    let store = store();
    store.put_page_blob("pages", WINDOW_BYTES);
    store.put_page("pages", 0, &pattern(64 << 10, 1)).unwrap();
    let mut content = pattern(64 << 10, 1);
    // Overwrites every second page, and then all but the first four.
    for page in (1..128).step_by(2).chain((4..128).step_by(2)) {
        store.put_page("pages", page * PAGE, &[9; 512]).unwrap();
        content[(page * PAGE) as usize..][..512].fill(9);
    }
    assert!(store.read("pages").unwrap()[..64 << 10] == content);
    assert_eq!(store.content_bytes(), 64 << 10, "each page is stored once");
    assert_eq!(store.written(), [(0, 64 << 10)]);
}

/// Run with `cargo test --release -p lazurite-blob page_reads -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, and asserts nothing"]
fn page_reads_after_many_snapshots() {
    for count in [1, 100, 1000] {
        let (store, moments) = after_snapshots(count);
        let time = |state: BlobState| {
            let address = BlobAddress {
                state,
                ..address("pages")
            };
            let (none, rounds) = (Conditions::default(), 2000);
            let range = Some(ByteRange {
                first: 3 * WINDOW_BYTES,
                last: Some(3 * WINDOW_BYTES + 4095),
            });
            let start = Instant::now();
            for _ in 0..rounds {
                let found = store.at(at(9)).get_blob(&address, range, &none);
                assert_eq!(drain(found.unwrap().body, 4096).len(), 4096);
            }
            let page = start.elapsed() / rounds;
            let start = Instant::now();
            for _ in 0..rounds {
                let ranges = GetPageRanges::default();
                let found = store.at(at(9)).get_page_ranges(&address, &ranges);
                assert_eq!(found.unwrap().ranges.len(), 16);
            }
            (page, start.elapsed() / rounds)
        };
        let shown = |what: &str, (page, ranges): (Duration, Duration)| {
            println!("{count:5} snapshots, {what:15}: 4 KiB {page:?}, 16 ranges {ranges:?}");
        };
        shown("the blob", time(BlobState::Current));
        shown("the first", time(BlobState::Snapshot(moments[0])));
        let middle = moments[moments.len() / 2];
        shown("the middle one", time(BlobState::Snapshot(middle)));
    }
}

#[test]
fn a_comparison_reads_only_what_changed() {
    let store = sparse(3000);
    store.snapshot("pages").unwrap();
    let before = store.layer("pages").root;
    let windows = [0, 1, 700, 2999];
    for window in windows {
        let put = store.put_page("pages", window * WINDOW_BYTES, &[2; 512]);
        put.unwrap();
    }
    let keyspaces = &store.service.keyspaces;
    let layer = store.layer("pages");
    let snapshot = store.db.snapshot();
    let mut changes = Changes::new(keyspaces, &snapshot, before, &layer, 0..PAGE_BLOB_BYTES_MAX);
    let mut found = Vec::new();
    while let Some(change) = changes.next().unwrap() {
        found.push(change.range.start / WINDOW_BYTES);
    }
    assert_eq!(found, windows);
    // In each of the two trees: one root, one child, one branch below, three branches of leaves,
    // and the leaves.
    assert_eq!(changes.nodes_read, 2 * (1 + 1 + 1 + 3 + 4));
}

/// Run with `cargo test --release -p lazurite-blob page_costs -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, and asserts nothing"]
fn page_costs_of_a_hundred_thousand_ranges() {
    let timed = |what: &str, times: u32, operation: &mut dyn FnMut(u64)| {
        let start = Instant::now();
        (0..u64::from(times)).for_each(&mut *operation);
        println!("{what:40} {:?}", start.elapsed() / times);
    };
    for (what, apart) in [
        ("every other page", 2 * PAGE),
        ("a page each window", WINDOW_BYTES),
    ] {
        let store = store();
        store.put_page_blob("pages", PAGE_BLOB_BYTES_MAX);
        let mut put = |page: u64| {
            let put = store.put_page("pages", page * apart, &[1; 512]);
            drop(put.unwrap());
        };
        println!("{what}:");
        timed("write of 512 bytes", 100_000, &mut put);
        timed("the same again", 10_000, &mut put);
        timed("page ranges, 10 pages of 10,000", 3, &mut |_| {
            let mut request = GetPageRanges::default();
            let mut found = 0;
            loop {
                let page = store.at(at(9)).get_page_ranges(&address("pages"), &request);
                let page = page.unwrap();
                found += page.ranges.len();
                request.marker = page.next_marker;
                if request.marker.is_none() {
                    break;
                }
            }
            assert_eq!(found, 100_000);
        });
        timed("snapshot", 100, &mut |_| {
            store.snapshot("pages").unwrap();
        });
        timed("first write after a snapshot, with it", 100, &mut |page| {
            store.snapshot("pages").unwrap();
            put(page * 997);
        });
        timed("write of 512 bytes while there are many", 10_000, &mut put);
        timed("copy", 100, &mut |_| {
            drop(store.copy("pages", "copy").unwrap())
        });
        timed("range of 64 KiB", 1000, &mut |number| {
            let read = range(number * (64 << 10), Some((number + 1) * (64 << 10) - 1));
            drain(store.open("pages", read).unwrap().body, 1 << 20);
        });
        timed("deletion of 201 snapshots and the blob", 1, &mut |_| {
            store.delete("copy").unwrap();
            let all = with_snapshots(DeleteSnapshots::Include);
            store.delete_with("pages", BlobState::Current, all).unwrap();
            store.sweep_all();
        });
    }
}

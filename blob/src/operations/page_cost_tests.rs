//! Costs of page blobs: reads after many snapshots, clearing of many extents, and space after snapshots are deleted.

use crate::keys::File;
use crate::model::WINDOW_BYTES;
use crate::model::{Extent, Pages};
use crate::operations::page_array_tests::random;
use crate::operations::tests::*;
use crate::windows::Changes;
use crate::*;
use lazurite_engine::{Batch, Direction, KeyRange};
use std::time::{Duration, Instant};

const PAGE: u64 = 512;

impl Store {
    fn record(&self, name: &str) -> Blob {
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

    /// Rows of windows full of pages, without their contents, which clearing does not look at. Answers how many extents.
    fn fill(&self, file: File, windows: u64) -> u64 {
        let pages = WINDOW_BYTES / PAGE;
        for window in 0..windows {
            let extent = |page: u64| {
                let start = window * WINDOW_BYTES + page * PAGE;
                Extent {
                    range: start..start + PAGE,
                    pages: Some(Pages {
                        content: u128::from(window * pages + page),
                        skipped: 0,
                        stored: PAGE,
                        sealed_as: None,
                    }),
                }
            };
            let extents: Vec<Extent> = (0..pages).map(extent).collect();
            let mut batch = Batch::new();
            let value = crate::codec::encode_window(window, &extents);
            let blocks = &self.service.keyspaces.blocks;
            batch.put(blocks, &file.window(window, 0), &value);
            self.service.db.write(batch).unwrap().wait().unwrap();
        }
        windows * pages
    }
}

/// A blob of 16 windows with one small extent each, and `count` snapshots with a write to one of the windows after each.
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
fn blob_has_one_layer_however_many_snapshots_there_are_and_were() {
    let count = 200;
    let (store, mut moments) = after_snapshots(count);
    assert_eq!(store.record("pages").layers.len(), 1);
    assert_eq!(first_bytes(&store.read("pages").unwrap()), expected(count));
    let check = |writes: u64, moment| {
        let content = store.read_state("pages", BlobState::Snapshot(moment));
        assert_eq!(first_bytes(&content.unwrap()), expected(writes), "{writes}");
    };
    (0..count)
        .step_by(11)
        .for_each(|number| check(number, moments[number as usize]));
    let rows = || store.rows(&store.service.keyspaces.blocks);
    // A row a write, and one that says that the window was changed.
    assert_eq!(rows() as u64, 16 + 2 * count);
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
    let few = rows();
    assert!(few < 16 + 2 * 16 * (moments.len() + 1), "{few}");
    let only = with_snapshots(DeleteSnapshots::Only);
    store
        .delete_with("pages", BlobState::Current, only)
        .unwrap();
    store.sweep_all();
    assert_eq!(
        (rows(), store.rows(&store.service.keyspaces.content)),
        (16, 16)
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
    // While the rows of the deleted blob are there the copy does not come upon them by a snapshot of its own.
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

#[test]
fn clearing_a_million_extents_is_one_small_write() {
    let windows = 4000;
    for others in [false, true] {
        let store = store();
        store.put_page_blob("pages", windows * WINDOW_BYTES);
        let last = windows * WINDOW_BYTES - PAGE;
        let extents = store.fill(store.record("pages").layers[0].file, windows);
        assert!(extents > 1_000_000);
        if others {
            store.snapshot("pages").unwrap();
        }
        let before = store.service.db.stats().last_sequence;
        store.clear_pages("pages", PAGE..last);
        let changes = store.service.db.stats().last_sequence - before;
        assert!(changes < 2000, "{changes} changes");
        let none = GetPageRanges::default();
        let ranges = store.at(at(9)).get_page_ranges(&address("pages"), &none);
        let ranges: Vec<_> = ranges.unwrap().ranges.into_iter().collect();
        let ends: Vec<_> = ranges.into_iter().map(|range| range.range).collect();
        assert_eq!(ends, [0..PAGE, last..last + PAGE]);
    }
}

/// A blob of `length` bytes, written in bodies of 4 MiB, of which 4 KiB at random places were then written over `count` times. With
/// it the bytes of its pages as they should be, and the bytes that were put for each of the small writes.
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
    // Few holes in large contents; contents on their way out; nothing but small ones.
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
    // Every second page, then all but the first four.
    for page in (1..128).step_by(2).chain((4..128).step_by(2)) {
        store.put_page("pages", page * PAGE, &[9; 512]).unwrap();
        content[(page * PAGE) as usize..][..512].fill(9);
    }
    assert!(store.read("pages").unwrap()[..64 << 10] == content);
    assert_eq!(store.content_bytes(), 64 << 10, "each page is stored once");
    assert_eq!(store.written(), [(0, 64 << 10)]);
}

/// `cargo test --release -p lazurite-blob page_reads -- --ignored --nocapture`
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

/// Changes since a snapshot are read once, however many parts the comparison has; changes before a page of the response are not
/// read.
#[test]
fn a_comparison_reads_each_change_about_once() {
    const WINDOWS: u64 = 450;
    let store = store();
    store.put_page_blob("pages", WINDOWS * WINDOW_BYTES);
    store.put_page("pages", 0, &[1; 512]).unwrap();
    store.snapshot("pages").unwrap();
    let before = store.record("pages").layers[0].end - 1;
    for window in 0..WINDOWS {
        store
            .put_page("pages", window * WINDOW_BYTES, &[2; 512])
            .unwrap();
    }
    let layer = store.record("pages").layers[0];
    let looked_at = |from: u64| {
        let mut changes = Changes::new(
            &store.service.keyspaces,
            &store.db.snapshot(),
            layer.file,
            [before, layer.end],
            from * WINDOW_BYTES,
        );
        let mut found = 0;
        while let Some((range, _)) = changes.next().unwrap() {
            found += u64::from(range.start >= from * WINDOW_BYTES);
        }
        assert_eq!(found, WINDOWS - from);
        changes.looked_at as u64
    };
    for from in [0, 200, 400] {
        let looked_at = looked_at(from);
        assert!(looked_at < WINDOWS - from + 50, "{looked_at} from {from}");
    }
}

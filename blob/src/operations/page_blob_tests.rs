//! Page blobs: errors of page writes, sequence numbers, page ranges and their differences.

use crate::operations::page_blob::NewPages;
use crate::operations::tests::*;
use crate::*;

impl Store {
    pub(super) fn put_page_blob(&self, name: &str, length: u64) -> Written {
        let request = PutPageBlob {
            length,
            sequence: 7,
            ..PutPageBlob::default()
        };
        let put = self.at(at(0)).put_page_blob(&address(name), request);
        let (written, ticket) = put.unwrap();
        ticket.wait().unwrap();
        written
    }

    pub(super) fn put_page(&self, name: &str, start: u64, body: &[u8]) -> Result<PutPageOutcome> {
        let upload = self.upload(UploadKind::PutPage { start }, body);
        let range = start..start + body.len() as u64;
        self.update_page(name, range, PageUpdate::Update(upload))
    }

    pub(super) fn clear(&self, name: &str, range: std::ops::Range<u64>) -> Result<PutPageOutcome> {
        self.update_page(name, range, PageUpdate::Clear)
    }

    fn update_page(
        &self,
        name: &str,
        range: std::ops::Range<u64>,
        update: PageUpdate,
    ) -> Result<PutPageOutcome> {
        let request = PutPage {
            range,
            update,
            sequence: SequenceConditions::default(),
            conditions: Conditions::default(),
        };
        let (outcome, ticket) = self.at(at(1)).put_page(&address(name), request)?;
        ticket.wait()?;
        Ok(outcome)
    }

    pub(super) fn resize(&self, name: &str, length: u64) -> Result<u64> {
        let none = Conditions::default();
        let address = address(name);
        let service = self;
        let set = service.at(at(2)).set_page_blob_properties(
            &address,
            Some(length),
            None,
            None,
            &none,
        )?;
        set.2.wait()?;
        Ok(set.1)
    }

    pub(super) fn page_ranges(
        &self,
        state: BlobState,
        request: &GetPageRanges,
    ) -> Result<Vec<(u64, u64, bool)>> {
        let address = BlobAddress {
            state,
            ..address("pages")
        };
        let found = self.at(at(3)).get_page_ranges(&address, request)?;
        let plain = |range: PageRange| (range.range.start, range.range.end, range.cleared);
        Ok(found.ranges.into_iter().map(plain).collect())
    }

    pub(super) fn written(&self) -> Vec<(u64, u64)> {
        let ranges = self.page_ranges(BlobState::Current, &GetPageRanges::default());
        let ranges = ranges.unwrap().into_iter();
        ranges.map(|(start, end, _)| (start, end)).collect()
    }
}

pub(super) fn since(previous: SnapshotTime) -> GetPageRanges {
    GetPageRanges {
        previous: Some(previous),
        ..GetPageRanges::default()
    }
}

#[test]
fn page_blob_of_8_tib_takes_no_space() {
    let store = store();
    store.put_page_blob("pages", PAGE_BLOB_BYTES_MAX);
    assert_eq!(store.filed(), (0, 0));
    let last = PAGE_BLOB_BYTES_MAX - 512;
    store.put_page("pages", last, &[9; 512]).unwrap();
    assert_eq!(store.written(), [(last, PAGE_BLOB_BYTES_MAX)]);
    let range = ByteRange {
        first: last - 10,
        last: None,
    };
    let mut expected = vec![0; 10];
    expected.extend([9; 512]);
    let found = store.open("pages", Some(range)).unwrap();
    assert_eq!(drain(found.body, 100), expected);
    store.clear("pages", 0..PAGE_BLOB_BYTES_MAX).unwrap();
    store.at(at(9)).sweep(10).unwrap();
    assert_eq!(store.filed(), (0, 0));
    let beyond = store.put_page("pages", PAGE_BLOB_BYTES_MAX, &[1; 512]);
    assert_err!(beyond, Error::InvalidPageRange);
}

#[test]
fn pages_are_checked() {
    let store = store();
    store.put_page_blob("pages", 2048);
    for (start, length) in [(1, 512), (0, 511), (0, 0)] {
        let wrong = store.put_page("pages", start, &vec![1; length]);
        assert_err!(
            wrong,
            Error::InvalidHeaderValue {
                header: "x-ms-range",
                ..
            }
        );
    }
    let upload = store.upload(UploadKind::PutPage { start: 0 }, &[1; 512]);
    let short = store.update_page("pages", 0..1024, PageUpdate::Update(upload));
    assert_err!(
        short,
        Error::InvalidHeaderValue {
            header: "Content-Length",
            ..
        }
    );
    for length in [511, PAGE_BLOB_BYTES_MAX + 512] {
        assert_err!(
            store.resize("pages", length),
            Error::InvalidHeaderValue { .. }
        );
    }
    store.put("block", b"").unwrap();
    assert_err!(
        store.put_page("block", 0, &[1; 512]),
        Error::InvalidBlobType
    );
    let ranges = store
        .at(at(0))
        .get_page_ranges(&address("block"), &GetPageRanges::default());
    assert_err!(ranges, Error::InvalidBlobType);
}

#[test]
fn sequence_numbers_change_and_are_checked() {
    let store = store();
    store.put_page_blob("pages", 512);
    let none = Conditions::default();
    let set = |action| {
        let service = &store;
        let address = address("pages");
        let set =
            service
                .at(at(2))
                .set_page_blob_properties(&address, None, Some(action), None, &none);
        set.map(|(_, sequence, _)| sequence)
    };
    assert_eq!(set(SequenceAction::Increment).unwrap(), 8);
    assert_eq!(set(SequenceAction::Max(5)).unwrap(), 8);
    assert_eq!(set(SequenceAction::Max(9)).unwrap(), 9);
    assert_eq!(
        set(SequenceAction::Update(i64::MAX as u64)).unwrap(),
        i64::MAX as u64
    );
    assert_err!(
        set(SequenceAction::Increment),
        Error::SequenceNumberIncrementTooLarge
    );
    assert_err!(
        set(SequenceAction::Update(1 << 63)),
        Error::InvalidHeaderValue { .. }
    );
    set(SequenceAction::Update(5)).unwrap();
    let put = |sequence| {
        let request = PutPage {
            range: 0..512,
            update: PageUpdate::Clear,
            sequence,
            conditions: Conditions::default(),
        };
        store.at(at(3)).put_page(&address("pages"), request).is_ok()
    };
    let none = SequenceConditions::default();
    for (value, at_most, less_than, equal) in [
        (4, false, false, false),
        (5, true, false, true),
        (6, true, true, false),
    ] {
        let value = Some(value);
        assert_eq!(
            put(SequenceConditions {
                at_most: value,
                ..none
            }),
            at_most
        );
        assert_eq!(
            put(SequenceConditions {
                less_than: value,
                ..none
            }),
            less_than
        );
        assert_eq!(
            put(SequenceConditions {
                equal: value,
                ..none
            }),
            equal
        );
    }
}

#[test]
fn diff_has_the_changes_since_the_snapshot_and_nothing_else() {
    let store = store();
    store.put_page_blob("pages", 8 * 512);
    store.put_page("pages", 0, &[1; 4 * 512]).unwrap();
    let first = store.snapshot("pages").unwrap();
    assert_eq!(
        store
            .page_ranges(BlobState::Current, &since(first))
            .unwrap(),
        []
    );
    store.put_page("pages", 512, &[1; 512]).unwrap();
    store.clear("pages", 1024..1536).unwrap();
    let second = store.snapshot("pages").unwrap();
    store.put_page("pages", 6 * 512, &[2; 512]).unwrap();
    let of_first = [(512, 1024, false), (1024, 1536, true)];
    let second_state = BlobState::Snapshot(second);
    assert_eq!(
        store.page_ranges(second_state, &since(first)).unwrap(),
        of_first
    );
    let current = |moment| {
        store
            .page_ranges(BlobState::Current, &since(moment))
            .unwrap()
    };
    assert_eq!(current(second), [(6 * 512, 7 * 512, false)]);
    assert_eq!(
        current(first),
        [of_first[0], of_first[1], (6 * 512, 7 * 512, false)]
    );
    assert_eq!(
        store.written(),
        [(0, 1024), (1536, 2048), (6 * 512, 7 * 512)]
    );
    let backwards = store.page_ranges(BlobState::Snapshot(first), &since(second));
    assert_err!(backwards, Error::PreviousSnapshotCannotBeNewer);
    let unknown = store.page_ranges(BlobState::Current, &since(SnapshotTime(1)));
    assert_err!(unknown, Error::PreviousSnapshotNotFound);
    store.put_page_blob("pages", 8 * 512);
    let other = store.page_ranges(BlobState::Current, &since(first));
    assert_err!(other, Error::BlobOverwritten);
}

#[test]
fn diff_has_pages_that_were_empty_and_are_cleared() {
    let store = store();
    store.put_page_blob("pages", 4 * 512);
    let first = store.snapshot("pages").unwrap();
    store.put_page("pages", 0, &[1; 3 * 512]).unwrap();
    let second = store.snapshot("pages").unwrap();
    store.clear("pages", 512..1024).unwrap();
    let since = |moment| {
        let changed = store.page_ranges(BlobState::Current, &since(moment));
        changed.unwrap()
    };
    let cleared = (512, 1024, true);
    assert_eq!(
        since(first),
        [(0, 512, false), cleared, (1024, 1536, false)]
    );
    assert_eq!(since(second), [cleared]);
    let third = store.snapshot("pages").unwrap();
    assert_eq!(since(third), []);
    store.clear("pages", 512..1024).unwrap();
    assert_eq!(since(third), [cleared]);
    assert_eq!(store.written(), [(0, 512), (1024, 1536)]);
}

#[test]
fn diff_has_no_pages_that_only_a_resize_emptied() {
    let store = store();
    store.put_page_blob("pages", 4 * 512);
    let first = store.snapshot("pages").unwrap();
    store.put_page("pages", 0, &[1; 3 * 512]).unwrap();
    store.clear("pages", 1536..2048).unwrap();
    let second = store.snapshot("pages").unwrap();
    for length in [512, 4 * 512] {
        store.resize("pages", length).unwrap();
    }
    let since = |moment| {
        let changed = store.page_ranges(BlobState::Current, &since(moment));
        changed.unwrap()
    };
    assert_eq!(since(first), [(0, 512, false)]);
    assert_eq!(
        since(second),
        [(512, 1536, true)],
        "they have content there"
    );
}

#[test]
fn pages_written_next_to_each_other_are_one_range() {
    let store = store();
    store.put_page_blob("pages", 100 * 512);
    for start in [1024, 0, 512, 4096, 1536] {
        store.put_page("pages", start, &[1; 512]).unwrap();
    }
    assert_eq!(store.written(), [(0, 2048), (4096, 4608)]);
}

#[test]
fn page_ranges_come_page_by_page() {
    let store = store();
    store.put_page_blob("pages", 100 * 512);
    for i in 0..20 {
        store.put_page("pages", i * 2048, &[1; 512]).unwrap();
    }
    let whole = store.written();
    let mut request = GetPageRanges {
        max_results: Some(3),
        ..GetPageRanges::default()
    };
    let mut found = Vec::new();
    loop {
        let page = store.at(at(0)).get_page_ranges(&address("pages"), &request);
        let page = page.unwrap();
        assert!(page.ranges.len() <= 3);
        found.extend(
            page.ranges
                .into_iter()
                .map(|range| (range.range.start, range.range.end)),
        );
        request.marker = page.next_marker;
        if request.marker.is_none() {
            break;
        }
    }
    assert_eq!(found, whole);
    let part = GetPageRanges {
        range: Some(ByteRange {
            first: 100,
            last: Some(2100),
        }),
        ..GetPageRanges::default()
    };
    let part = store.page_ranges(BlobState::Current, &part).unwrap();
    assert_eq!(part, [(100, 512, false), (2048, 2101, false)]);
    request.marker = Some("x".to_string());
    let bad = store.page_ranges(BlobState::Current, &request);
    assert_err!(bad, Error::InvalidQueryParameterValue { .. });
}

/// Even without `maxresults` one page of ranges is bounded, and reads a bounded number of
/// stretches.
#[test]
fn page_ranges_are_bounded_without_maxresults() {
    let store = store();
    store.put_page_blob("pages", 64 << 20);
    for i in 0..600 {
        store
            .put_page("pages", i * (64 << 10), &[1; 64 << 10])
            .unwrap();
    }
    let mut request = GetPageRanges::default();
    let mut ends = Vec::new();
    loop {
        let page = store.at(at(0)).get_page_ranges(&address("pages"), &request);
        let page = page.unwrap();
        ends.extend(page.ranges.iter().map(|range| range.range.end));
        request.marker = page.next_marker;
        if request.marker.is_none() {
            break;
        }
    }
    assert_eq!(ends, [500 * (64 << 10), 600 * (64 << 10)]);
}

/// Writes a page to each of several generations of copies. Returns the name of the last one.
fn copy_and_write(store: &Store, generations: usize, first: &'static str) -> &'static str {
    let mut name = first;
    for _ in 0..generations {
        let next = if name == "pages" { "b" } else { "pages" };
        store.copy(name, next).unwrap();
        store.put_page(next, 0, &[b'w'; 512]).unwrap();
        name = next;
    }
    name
}

#[test]
fn bytes_that_were_cut_off_do_not_come_back_after_generations_of_copies() {
    for before in [0, 1, 8, 20] {
        for between in [0, 1, 12, 30] {
            let store = store();
            for name in ["pages", "b"] {
                store.put_page_blob(name, 64 * 512);
            }
            store.put_page("pages", 0, &[b'S'; 64 * 512]).unwrap();
            let name = copy_and_write(&store, before, "pages");
            store.resize(name, 16 * 512).unwrap();
            let name = copy_and_write(&store, between, name);
            store.resize(name, 64 * 512).unwrap();
            let content = store.read(name).unwrap();
            assert_eq!(content[16 * 512 - 1], b'S');
            assert!(content[16 * 512..].iter().all(|byte| *byte == 0));
            let all = GetPageRanges::default();
            let found = store.at(at(3)).get_page_ranges(&address(name), &all);
            assert_eq!(found.unwrap().ranges.last().unwrap().range.end, 16 * 512);
        }
    }
}

#[test]
fn bytes_that_were_cut_off_do_not_come_back_after_snapshots_are_copied_over_their_blob() {
    let store = store();
    store.put_page_blob("pages", 64 * 512);
    store.put_page("pages", 0, &[b'S'; 64 * 512]).unwrap();
    let revert = |times: usize| {
        for _ in 0..times {
            let moment = store.snapshot("pages").unwrap();
            let source = BlobAddress {
                state: BlobState::Snapshot(moment),
                ..address("pages")
            };
            let copied = store.copy_with(source, address("pages"), CopyBlob::default());
            copied.unwrap();
            store.put_page("pages", 0, &[b'w'; 512]).unwrap();
        }
    };
    revert(8);
    store.resize("pages", 16 * 512).unwrap();
    revert(20);
    store.resize("pages", 64 * 512).unwrap();
    let content = store.read("pages").unwrap();
    assert!(content[16 * 512..].iter().all(|byte| *byte == 0));
    assert_eq!(store.written(), [(0, 16 * 512)]);
}

/// A second lock of the same stripe would wait for the first for ever.
#[test]
#[should_panic(expected = "a write locks one file of pages")]
fn a_write_that_locks_a_second_file_of_pages_stops() {
    let store = store();
    store.put_page_blob("pages", 1024);
    store.snapshot("pages").unwrap();
    let mut write = store.service.begin_write(&address("pages")).unwrap();
    let mut blob = write.existing().unwrap();
    for _ in 0..2 {
        let cleared = NewPages::Cleared;
        write.write_pages(&mut blob, 0..512, cleared).unwrap();
    }
}

/// Contents of pages end at multiples of 64 KiB of the blob, wherever a body begins.
#[test]
fn bodies_that_begin_anywhere_are_read_back() {
    let store = store();
    store.put_page_blob("pages", 1 << 20);
    let mut expected = vec![0; 1 << 20];
    let page = |number: usize| number * 512;
    for (start, count) in [
        (1, 700),
        (127, 1),
        (127, 2),
        (100, 28),
        (255, 257),
        (640, 1000),
    ] {
        let body = pattern(page(count), start as u8);
        store.put_page("pages", page(start) as u64, &body).unwrap();
        expected[page(start)..page(start + count)].copy_from_slice(&body);
        assert!(store.read("pages").unwrap() == expected);
    }
}

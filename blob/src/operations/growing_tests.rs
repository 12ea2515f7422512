//! Append blobs and page blobs, and what their snapshots keep.

use super::tests::*;
use crate::*;

impl Store {
    pub(super) fn put_append_blob(&self, name: &str) -> Written {
        let request = PutAppendBlob::default();
        let put = self.service.put_append_blob(&address(name), request, at(0));
        let (written, ticket) = put.unwrap();
        ticket.wait().unwrap();
        written
    }

    pub(super) fn append(&self, name: &str, body: &[u8]) -> Result<AppendBlockOutcome> {
        self.append_with(name, body, None, None)
    }

    fn append_with(
        &self,
        name: &str,
        body: &[u8],
        append_position: Option<u64>,
        max_size: Option<u64>,
    ) -> Result<AppendBlockOutcome> {
        let request = AppendBlock {
            upload: self.upload(UploadKind::AppendBlock, body),
            max_size,
            append_position,
            conditions: Conditions::default(),
        };
        let (outcome, ticket) = self.service.append_block(&address(name), request, at(1))?;
        ticket.wait()?;
        Ok(outcome)
    }

    pub(super) fn put_page_blob(&self, name: &str, length: u64) -> Written {
        let request = PutPageBlob {
            length,
            sequence: 7,
            ..PutPageBlob::default()
        };
        let put = self.service.put_page_blob(&address(name), request, at(0));
        let (written, ticket) = put.unwrap();
        ticket.wait().unwrap();
        written
    }

    pub(super) fn put_page(&self, name: &str, start: u64, body: &[u8]) -> Result<PutPageOutcome> {
        let upload = self.upload(UploadKind::PutPage, body);
        let range = start..start + body.len() as u64;
        self.update_page(name, range, PageUpdate::Update(upload))
    }

    fn clear(&self, name: &str, range: std::ops::Range<u64>) -> Result<PutPageOutcome> {
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
        let (outcome, ticket) = self.service.put_page(&address(name), request, at(1))?;
        ticket.wait()?;
        Ok(outcome)
    }

    fn resize(&self, name: &str, length: u64) -> Result<u64> {
        let none = Conditions::default();
        let address = address(name);
        let service = &self.service;
        let set =
            service.set_page_blob_properties(&address, Some(length), None, None, &none, at(2))?;
        set.2.wait()?;
        Ok(set.1)
    }

    fn page_ranges(
        &self,
        state: BlobState,
        request: &GetPageRanges,
    ) -> Result<Vec<(u64, u64, bool)>> {
        let address = BlobAddress {
            state,
            ..address("pages")
        };
        let found = self.service.get_page_ranges(&address, request, at(3))?;
        let plain = |range: PageRange| (range.range.start, range.range.end, range.cleared);
        Ok(found.ranges.into_iter().map(plain).collect())
    }

    pub(super) fn written(&self) -> Vec<(u64, u64)> {
        let ranges = self.page_ranges(BlobState::Current, &GetPageRanges::default());
        let ranges = ranges.unwrap().into_iter();
        ranges.map(|(start, end, _)| (start, end)).collect()
    }
}

fn since(previous: Moment) -> GetPageRanges {
    GetPageRanges {
        previous: Some(previous),
        ..GetPageRanges::default()
    }
}

#[test]
fn appends_follow_one_another_and_answer_where_they_went() {
    let store = store();
    store.put_append_blob("log");
    assert_eq!(store.read("log").unwrap(), b"");
    let bodies = [pattern(10, 1), pattern(40_000, 2), pattern(300, 3)];
    let mut all = Vec::new();
    for (i, body) in bodies.iter().enumerate() {
        let outcome = store.append("log", body).unwrap();
        assert_eq!(outcome.offset, all.len() as u64);
        assert_eq!(outcome.committed_block_count, i as u32 + 1);
        assert!(outcome.checksums.crc64.is_some());
        all.extend_from_slice(body);
    }
    assert_eq!(store.read("log").unwrap(), all);
    let range = ByteRange {
        first: 5,
        last: Some(40_100),
    };
    let part = store.open("log", Some(range)).unwrap();
    assert_eq!(drain(part.body, 999), all[5..=40_100]);
    let blob = store.properties("log").unwrap();
    assert_eq!(
        (blob.blob_type(), blob.committed_block_count()),
        (BlobType::AppendBlob, Some(3))
    );
    store.delete("log").unwrap();
    assert_eq!(store.filed(), (0, 0));
}

#[test]
fn appends_meet_their_conditions() {
    let store = store();
    store.put_append_blob("log");
    store.append("log", b"12345").unwrap();
    let wrong = store.append_with("log", b"6", Some(4), None);
    assert_err!(wrong, Error::AppendPositionConditionNotMet);
    let long = store.append_with("log", b"67", None, Some(6));
    assert_err!(long, Error::MaxBlobSizeConditionNotMet);
    store.append_with("log", b"6", Some(5), Some(6)).unwrap();
    assert_err!(store.append("log", b""), Error::InvalidHeaderValue { .. });
    assert_err!(store.append("none", b"1"), Error::BlobNotFound);
    store.put("block", b"").unwrap();
    assert_err!(store.append("block", b"1"), Error::InvalidBlobType);
    assert_err!(store.put_block("log", "a", b"1"), Error::InvalidBlobType);
    assert_err!(store.commit("log", latest(&[])), Error::InvalidBlobType);
}

#[test]
fn sealed_blob_takes_no_more() {
    let store = store();
    store.put_append_blob("log");
    store.append("log", b"1").unwrap();
    let none = Conditions::default();
    let seal = |position| {
        let sealed = store
            .service
            .append_blob_seal(&address("log"), position, &none, at(2));
        sealed.map(|(_, ticket)| ticket.wait().unwrap())
    };
    assert_err!(seal(Some(2)), Error::AppendPositionConditionNotMet);
    seal(Some(1)).unwrap();
    seal(None).unwrap();
    assert!(store.properties("log").unwrap().is_sealed());
    assert_err!(store.append("log", b"2"), Error::BlobIsSealed);
    assert_eq!(store.read("log").unwrap(), b"1");
}

#[test]
fn snapshot_of_an_append_blob_does_not_grow() {
    let store = store();
    store.put_append_blob("log");
    let mut snapshots = Vec::new();
    let mut all = Vec::new();
    for i in 0..4 {
        store.append("log", &[i; 3]).unwrap();
        all.extend([i; 3]);
        snapshots.push((store.snapshot("log").unwrap(), all.clone()));
    }
    store.append("log", b"end").unwrap();
    for (moment, body) in &snapshots {
        let state = BlobState::Snapshot(*moment);
        assert_eq!(&store.read_state("log", state).unwrap(), body);
    }
    assert_eq!(store.filed(), (5, 5));
    store.put("log", b"").unwrap();
    assert_eq!(store.filed(), (4, 4), "what no snapshot has is gone");
    for (moment, _) in snapshots {
        let state = BlobState::Snapshot(moment);
        store
            .delete_with("log", state, DeleteBlob::default())
            .unwrap();
    }
    assert_eq!(store.filed(), (0, 0));
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
    let upload = store.upload(UploadKind::PutPage, &[1; 512]);
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
        .service
        .get_page_ranges(&address("block"), &GetPageRanges::default(), at(0));
    assert_err!(ranges, Error::InvalidBlobType);
}

#[test]
fn sequence_numbers_change_as_told_and_are_demanded() {
    let store = store();
    store.put_page_blob("pages", 512);
    let none = Conditions::default();
    let set = |action| {
        let service = &store.service;
        let address = address("pages");
        let set =
            service.set_page_blob_properties(&address, None, Some(action), None, &none, at(2));
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
        store
            .service
            .put_page(&address("pages"), request, at(3))
            .is_ok()
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
fn diff_has_what_changed_since_the_snapshot_and_nothing_else() {
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
    let unknown = store.page_ranges(BlobState::Current, &since(Moment(1)));
    assert_err!(unknown, Error::PreviousSnapshotNotFound);
    store.put_page_blob("pages", 8 * 512);
    let other = store.page_ranges(BlobState::Current, &since(first));
    assert_err!(other, Error::BlobOverwritten);
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
        let page = store
            .service
            .get_page_ranges(&address("pages"), &request, at(0));
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

/// What a page is: never written, cleared, or written with this byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Never,
    Cleared,
    Byte(u8),
}

fn content(pages: &[Page]) -> Vec<u8> {
    let byte = |page: &Page| match page {
        Page::Byte(byte) => *byte,
        _ => 0,
    };
    pages.iter().flat_map(|page| [byte(page); 512]).collect()
}

fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// Random writes, clears, resizes and snapshots against an array of pages, and diffs against every snapshot.
#[test]
fn pages_agree_with_an_array() {
    for mut seed in 1..7 {
        let seed = &mut seed;
        let store = store();
        let pages = 40 + 900 * (*seed as usize % 2);
        store.put_page_blob("pages", pages as u64 * 512);
        let mut now = vec![Page::Never; pages];
        // With each snapshot, what it saw and what was written or cleared after it.
        let mut snapshots: Vec<(Moment, Vec<Page>, Vec<Page>)> = Vec::new();
        for _ in 0..120 {
            let length = now.len();
            let start = random(seed, length as u64) as usize;
            let end = length.min(start + 1 + random(seed, pages as u64 / 2) as usize);
            let range = start as u64 * 512..end as u64 * 512;
            let mut set = |now: &mut Vec<Page>, page: Page| {
                now[start..end].fill(if page == Page::Cleared {
                    Page::Never
                } else {
                    page
                });
                for (_, _, after) in &mut snapshots {
                    after[start..end].fill(page);
                }
            };
            if random(seed, 4) == 0 {
                store.service.sweep(at(9), 2).unwrap();
            }
            match random(seed, 12) {
                0..6 => {
                    let byte = 1 + random(seed, 250) as u8;
                    let body = vec![byte; (end - start) * 512];
                    store.put_page("pages", range.start, &body).unwrap();
                    set(&mut now, Page::Byte(byte));
                }
                6..9 => {
                    store.clear("pages", range).unwrap();
                    set(&mut now, Page::Cleared);
                }
                9 => {
                    let length = 1 + random(seed, pages as u64) as usize;
                    store.resize("pages", length as u64 * 512).unwrap();
                    now.resize(length, Page::Never);
                    for (_, _, after) in &mut snapshots {
                        after.resize(length, Page::Never);
                    }
                }
                10 if snapshots.len() < 5 => {
                    let moment = store.snapshot("pages").unwrap();
                    snapshots.push((moment, now.clone(), vec![Page::Never; now.len()]));
                }
                _ if !snapshots.is_empty() => {
                    let gone = random(seed, snapshots.len() as u64) as usize;
                    let state = BlobState::Snapshot(snapshots.remove(gone).0);
                    store
                        .delete_with("pages", state, DeleteBlob::default())
                        .unwrap();
                }
                _ => {}
            }
            compare(&store, &now, &snapshots);
        }
        let bytes = |pages: &[Page]| {
            let written = pages.iter().filter(|page| matches!(page, Page::Byte(_)));
            written.count() * 512
        };
        let seen = bytes(&now)
            + snapshots
                .iter()
                .map(|(_, saw, _)| bytes(saw))
                .sum::<usize>();
        store.service.sweep(at(9), 10_000).unwrap();
        compare(&store, &now, &snapshots);
        let stored = stored_bytes(&store);
        assert!(stored <= 2 * seen, "{stored} stored, {seen} seen");
        let include = DeleteBlob {
            snapshots: Some(DeleteSnapshots::Include),
            ..DeleteBlob::default()
        };
        store
            .delete_with("pages", BlobState::Current, include)
            .unwrap();
        assert_eq!(store.filed(), (0, 0));
        assert_eq!(store.rows(&store.service.keyspaces.references), 0);
    }
}

fn stored_bytes(store: &Store) -> usize {
    use lazurite_engine::{Direction, KeyRange};
    let snapshot = store.service.db.snapshot();
    let content = &store.service.keyspaces.content;
    let mut rows = snapshot.scan(content, KeyRange::all(), Direction::Forward);
    let mut bytes = 0;
    while rows.advance().unwrap() {
        bytes += rows.open_value().unwrap().length() as usize;
    }
    bytes
}

fn compare(store: &Store, now: &[Page], snapshots: &[(Moment, Vec<Page>, Vec<Page>)]) {
    assert!(store.read("pages").unwrap() == content(now));
    let written: Vec<_> = merged(now)
        .into_iter()
        .map(|(start, end, _)| (start, end))
        .collect();
    assert_eq!(store.written(), written);
    for (moment, saw, after) in snapshots {
        let state = BlobState::Snapshot(*moment);
        assert!(store.read_state("pages", state).unwrap() == content(saw));
        let found = store
            .page_ranges(BlobState::Current, &since(*moment))
            .unwrap();
        let expected = merged(after);
        let written = |ranges: &[(u64, u64, bool)]| -> Vec<_> {
            ranges.iter().filter(|range| !range.2).copied().collect()
        };
        assert_eq!(written(&found), written(&expected));
        // A resize clears as well; what the snapshot had and what was cleared by hand is among it.
        for (page, after) in after.iter().enumerate() {
            let had = matches!(saw.get(page), Some(Page::Byte(_)));
            let start = page as u64 * 512;
            let mut cleared = found.iter().filter(|range| range.2);
            let told = cleared.any(|range| range.0 <= start && start < range.1);
            let is_cleared = *after == Page::Cleared;
            assert!(told || !(had && is_cleared), "{start} was cleared");
            assert!(had || !told, "there was nothing to clear at {start}");
        }
    }
}

fn merged(pages: &[Page]) -> Vec<(u64, u64, bool)> {
    let mut ranges: Vec<(u64, u64, bool)> = Vec::new();
    for (i, page) in pages.iter().enumerate() {
        let (start, end) = (i as u64 * 512, i as u64 * 512 + 512);
        let cleared = *page == Page::Cleared;
        match (page, ranges.last_mut()) {
            (Page::Never, _) => {}
            (_, Some(last)) if last.1 == start && last.2 == cleared => last.1 = end,
            _ => ranges.push((start, end, cleared)),
        }
    }
    ranges
}

#[test]
fn append_costs_the_same_however_long_the_blob_is() {
    let store = store();
    store.put_append_blob("log");
    let changes = || store.service.db.stats().last_sequence;
    let mut costs = Vec::new();
    for _ in 0..200 {
        let before = changes();
        store.append("log", b"line\n").unwrap();
        costs.push(changes() - before);
    }
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

/// Source: Append Block, "Remarks": fifty thousand blocks.
#[test]
fn append_blob_takes_fifty_thousand_blocks_and_no_more() {
    let store = store();
    store.put_append_blob("log");
    for _ in 0..50_000 {
        store.append("log", b"x").unwrap();
    }
    let full = store.append("log", b"x");
    assert_err!(
        full,
        Error::BlockCountExceedsLimit {
            which: "committed",
            limit: 50_000
        }
    );
    assert_eq!(store.read("log").unwrap().len(), 50_000);
}

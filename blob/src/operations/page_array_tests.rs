//! Random writes to pages and snapshots of them, compared with arrays.

use crate::operations::page_blob_tests::since;
use crate::operations::tests::*;
use crate::*;
use lazurite_engine::fs::{Keep, MemoryFs};
use lazurite_engine::{Config, Db, Durability, Environment};
use std::path::Path;
use std::sync::Arc;

/// The state of a page: never written, cleared, cleared although it was empty, or written with this byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Never,
    Cleared,
    ClearedInVain,
    Byte(u8),
}

/// Notes that pages were cleared after a snapshot.
fn clear(after: &mut [Page], saw: &[Page], range: std::ops::Range<usize>) {
    for (i, page) in range.clone().zip(&mut after[range]) {
        *page = match (*page, saw.get(i)) {
            (Page::Cleared, _) | (_, Some(Page::Byte(_))) => Page::Cleared,
            // Pages that are cleared before and after, perhaps by a resize, count as unchanged or changed.
            (_, Some(Page::Cleared) | None) => Page::ClearedInVain,
            (Page::Byte(_), _) => Page::Cleared,
            _ => Page::ClearedInVain,
        };
    }
}

fn content(pages: &[Page]) -> Vec<u8> {
    let byte = |page: &Page| match page {
        Page::Byte(byte) => *byte,
        _ => 0,
    };
    pages.iter().flat_map(|page| [byte(page); 512]).collect()
}

pub(super) fn random(seed: &mut u64, below: u64) -> u64 {
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
        // For each snapshot, its pages and those written or cleared after it.
        let mut snapshots: Vec<(SnapshotTime, Vec<Page>, Vec<Page>)> = Vec::new();
        for _ in 0..120 {
            let length = now.len();
            let start = random(seed, length as u64) as usize;
            let end = length.min(start + 1 + random(seed, pages as u64 / 2) as usize);
            let range = start as u64 * 512..end as u64 * 512;
            let mut set = |now: &mut Vec<Page>, page: Page| {
                now[start..end].fill(page);
                for (_, saw, after) in &mut snapshots {
                    match page {
                        Page::Cleared => clear(after, saw, start..end),
                        page => after[start..end].fill(page),
                    }
                }
            };
            if random(seed, 4) == 0 {
                store.at(at(9)).sweep(2).unwrap();
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
                    // Pages that a resize cuts off are cleared if the blob grows again.
                    now.resize(length, Page::Cleared);
                    for (_, saw, after) in &mut snapshots {
                        let whole = after.len().max(length);
                        let cut = length.min(after.len())..after.len();
                        clear(after, saw, cut);
                        after.resize(whole, Page::Never);
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
        store.at(at(9)).sweep(10_000).unwrap();
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

fn compare(store: &Store, now: &[Page], snapshots: &[(SnapshotTime, Vec<Page>, Vec<Page>)]) {
    assert!(store.read("pages").unwrap() == content(now));
    let written: Vec<_> = merged(now)
        .into_iter()
        .filter(|(_, _, cleared)| !cleared)
        .map(|(start, end, _)| (start, end))
        .collect();
    assert_eq!(store.written(), written);
    for (moment, saw, after) in snapshots {
        let state = BlobState::Snapshot(*moment);
        assert!(store.read_state("pages", state).unwrap() == content(saw));
        let found = store
            .page_ranges(BlobState::Current, &since(*moment))
            .unwrap();
        let expected = merged(&after[..now.len()]);
        let written = |ranges: &[(u64, u64, bool)]| -> Vec<_> {
            ranges.iter().filter(|range| !range.2).copied().collect()
        };
        assert_eq!(written(&found), written(&expected));
        for (page, after) in after[..now.len()].iter().enumerate() {
            let start = page as u64 * 512;
            let mut cleared = found.iter().filter(|range| range.2);
            let shown = cleared.any(|range| range.0 <= start && start < range.1);
            match after {
                Page::Cleared => assert!(shown, "{start} was cleared"),
                Page::ClearedInVain => {}
                _ => assert!(!shown, "{start} was not cleared"),
            }
        }
    }
}

fn merged(pages: &[Page]) -> Vec<(u64, u64, bool)> {
    let mut ranges: Vec<(u64, u64, bool)> = Vec::new();
    for (i, page) in pages.iter().enumerate() {
        let (start, end) = (i as u64 * 512, i as u64 * 512 + 512);
        let cleared = matches!(page, Page::Cleared | Page::ClearedInVain);
        match (page, ranges.last_mut()) {
            (Page::Never, _) => {}
            (_, Some(last)) if last.1 == start && last.2 == cleared => last.1 = end,
            _ => ranges.push((start, end, cleared)),
        }
    }
    ranges
}

/// A body of 4 MiB is as many contents, and one batch.
#[test]
fn power_cut_leaves_all_pages_of_a_write_or_none() {
    let open = |disk: &MemoryFs| {
        // The log is with the system at once, and on the disk when the test says so.
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
            update: PageUpdate::Update(store.upload(UploadKind::PutPage, &after)),
            sequence: SequenceConditions::default(),
            conditions: Conditions::default(),
        };
        // Not awaited: the disk may keep any part of the writes since the last sync.
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

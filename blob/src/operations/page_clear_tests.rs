//! Clears of stretches of any size, compared with a model: it represents a blob of 8 TiB by a few
//! dozen cells, whose ends lie at and next to the ends of leaves and branches.

use crate::model::WINDOW_BYTES;
use crate::operations::page_blob_tests::since;
use crate::operations::page_model_tests::random;
use crate::operations::tests::*;
use crate::*;

const PAGE: u64 = 512;

/// The offsets at which the cells of the model begin and end.
fn ends() -> Vec<u64> {
    let levels = [0, 6, 12, 18].map(|bits| WINDOW_BYTES << bits);
    let beside = |bytes: u64| [bytes - PAGE, bytes, bytes + PAGE, 2 * bytes, 3 * bytes];
    let mut ends: Vec<u64> = levels.into_iter().flat_map(beside).collect();
    ends.extend([0, PAGE, levels[1] + levels[0], levels[3] + levels[2]]);
    ends.extend([PAGE_BLOB_BYTES_MAX / 2, PAGE_BLOB_BYTES_MAX]);
    ends.sort_unstable();
    ends
}

impl Store {
    /// The ranges of all pages of an answer, joined.
    fn every_range(&self, state: BlobState, mut request: GetPageRanges) -> Ranges {
        let address = BlobAddress {
            state,
            ..address("pages")
        };
        let mut ranges = Ranges::new();
        loop {
            let page = self.at(at(9)).get_page_ranges(&address, &request).unwrap();
            let found = page.ranges.into_iter();
            found.for_each(|PageRange { range, cleared }| join(&mut ranges, range, cleared));
            request.marker = page.next_marker;
            if request.marker.is_none() {
                return ranges;
            }
        }
    }
}

/// Start and end of each range, and whether it is cleared.
type Ranges = Vec<(u64, u64, bool)>;

fn join(ranges: &mut Ranges, range: std::ops::Range<u64>, cleared: bool) {
    match ranges.last_mut() {
        Some(last) if last.1 == range.start && last.2 == cleared => last.1 = range.end,
        _ => ranges.push((range.start, range.end, cleared)),
    }
}

/// The state of each cell of the blob: the number of a write, the negative number of a clear, or 0.
type Cells = Vec<i64>;

struct Model {
    ends: Vec<u64>,
    cells: Cells,
    snapshots: Vec<(SnapshotTime, Cells)>,
    number: i64,
    seed: u64,
}

impl Model {
    fn random(&mut self, below: usize) -> usize {
        random(&mut self.seed, below as u64) as usize
    }

    /// Some neighbouring cells before the end of the blob.
    fn some(&mut self) -> std::ops::Range<usize> {
        let start = self.random(self.cells.len());
        start..start + 1 + self.random(self.cells.len() - start)
    }

    fn bytes(&self, cells: &std::ops::Range<usize>) -> std::ops::Range<u64> {
        self.ends[cells.start]..self.ends[cells.end]
    }

    fn step(&mut self, store: &Store) {
        self.number += 1;
        let number = self.number;
        match self.random(20) {
            0..6 => {
                let cells = self.some();
                store.clear("pages", self.bytes(&cells)).unwrap();
                self.cells[cells].fill(-number);
            }
            6..14 => {
                let cell = self.random(self.cells.len());
                let range = self.bytes(&(cell..cell + 1));
                let length = range.end - range.start;
                if length <= 2 * WINDOW_BYTES {
                    let body = vec![1; length as usize];
                    store.put_page("pages", range.start, &body).unwrap();
                    self.cells[cell] = number;
                }
            }
            14 => {
                let count = 1 + self.random(self.ends.len() - 1);
                store.resize("pages", self.ends[count]).unwrap();
                self.cells.resize(count, 0);
            }
            15 | 16 => {
                let moment = store.snapshot("pages").unwrap();
                self.snapshots.push((moment, self.cells.clone()));
            }
            17 | 18 if !self.snapshots.is_empty() => {
                let gone = self.random(self.snapshots.len());
                let state = BlobState::Snapshot(self.snapshots.remove(gone).0);
                let deleted = store.delete_with("pages", state, DeleteBlob::default());
                assert!(deleted.unwrap());
            }
            _ => drop(store.at(at(9)).sweep(3).unwrap()),
        }
    }

    fn compare(&self, store: &Store) {
        let written: Cells = self.cells.iter().map(|cell| *cell.max(&0)).collect();
        let all = store.every_range(BlobState::Current, GetPageRanges::default());
        assert_eq!(all, self.changes(&[], &written));
        for (at, (moment, before)) in self.snapshots.iter().enumerate() {
            let changed = store.every_range(BlobState::Current, since(*moment));
            assert_eq!(changed, self.changes(before, &self.cells));
            if let Some((later, now)) = self.snapshots.get(at + 1) {
                let state = BlobState::Snapshot(*later);
                let changed = store.every_range(state, since(*moment));
                assert_eq!(changed, self.changes(before, now));
            }
        }
    }

    fn changes(&self, before: &[i64], now: &[i64]) -> Ranges {
        let mut ranges = Ranges::new();
        for (cell, is) in now.iter().enumerate() {
            let was = before.get(cell).unwrap_or(&0);
            if was != is && (*is != 0 || *was > 0) {
                join(&mut ranges, self.bytes(&(cell..cell + 1)), *is <= 0);
            }
        }
        ranges
    }
}

#[test]
fn clears_of_any_size_agree_with_cells() {
    for seed in 0..8 {
        let store = store();
        store.put_page_blob("pages", PAGE_BLOB_BYTES_MAX);
        let ends = ends();
        let count = ends.len() - 1;
        let mut model = Model {
            ends,
            cells: vec![0; count],
            snapshots: Vec::new(),
            number: 0,
            seed,
        };
        for step in 0..250 {
            model.step(&store);
            if step % 5 == 0 {
                store.check_references();
                model.compare(&store);
            }
        }
        let all = with_snapshots(DeleteSnapshots::Include);
        store.delete_with("pages", BlobState::Current, all).unwrap();
        store.at(at(9)).sweep(10_000).unwrap();
        store.empty();
    }
}

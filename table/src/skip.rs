//! Skip scan: reads the rows of many partitions whose RowKeys lie in given spans, and seeks past
//! the rows in between.
//!
//! A seek costs as much as several rows, and the number of rows that it skips is not known in
//! advance. Some jumps are therefore probes: they first read on for a few rows. A probe that
//! reaches its destination shows that the partitions are too small for seeks. Then a run of rows is
//! read without seeks; runs double in length while probes keep reaching their destinations. A probe
//! that does not reach its destination seeks, and so do the next jumps.
//!
//! A skip scan reads no row that a plain scan of the range would not read. If a seek costs as much
//! as [`SEEK_ROWS`] rows, a skip scan costs at most six times as much as the plain scan, plus a
//! constant.

use crate::keys::{first_component_bytes, skip_component};
use lazurite_engine::KeyRange;

/// The approximate number of rows that can be read in the time of a seek, with cached blocks.
#[cfg(test)]
const SEEK_ROWS: usize = 8;
/// Number of jumps of a scan that seek before the first probe.
const SEEKS_BEFORE_PROBE_FIRST: usize = 32;
/// Number of jumps that seek after a probe that had to seek.
const SEEKS_BEFORE_PROBE: usize = 16;
/// Number of rows that a probe reads before it seeks.
const PROBE_ROWS: usize = 16;
/// Rows of the shortest and the longest run without seeks.
const RUN_ROWS_MIN: usize = 256;
const RUN_ROWS_MAX: usize = 8192;

/// Decides where a scan continues after each row.
#[derive(Debug)]
pub(crate) struct Skipper<'a> {
    /// Spans of the second key component: disjoint, in order.
    rows: &'a [KeyRange],
    mode: Mode,
    run_rows: usize,
    /// The key at which the scan continues; its memory is reused from row to row.
    destination: Vec<u8>,
}

#[derive(Debug)]
enum Mode {
    /// The next `left` jumps seek; the one after them is a probe.
    Seek { left: usize },
    /// Reads up to `left` more rows towards a destination.
    Probe { left: usize, destination: Vec<u8> },
    /// Reads `left` more rows unconditionally.
    Run { left: usize },
}

impl<'a> Skipper<'a> {
    pub(crate) fn new(rows: &'a [KeyRange]) -> Skipper<'a> {
        Skipper {
            rows,
            mode: Mode::Seek {
                left: SEEKS_BEFORE_PROBE_FIRST,
            },
            run_rows: RUN_ROWS_MIN,
            destination: Vec::new(),
        }
    }

    /// Returns the key to seek to after the row of `key`, or `None` to read the next row. Keys are
    /// without table ids. No row in between lies in the spans.
    pub(crate) fn after(&mut self, key: &[u8]) -> Option<&[u8]> {
        match &mut self.mode {
            Mode::Run { left: 0 } => self.mode = Mode::Seek { left: 0 },
            Mode::Run { left } => {
                *left -= 1;
                return None;
            }
            Mode::Probe { destination, .. } if *destination.as_slice() <= *key => {
                self.mode = Mode::Run {
                    left: self.run_rows,
                };
                self.run_rows = RUN_ROWS_MAX.min(2 * self.run_rows);
                return None;
            }
            Mode::Probe { left: 0, .. } => {
                self.run_rows = RUN_ROWS_MIN;
                self.mode = Mode::Seek {
                    left: SEEKS_BEFORE_PROBE + 1,
                };
            }
            Mode::Probe { left, .. } => {
                *left -= 1;
                return None;
            }
            Mode::Seek { .. } => {}
        }
        if !self.find_destination(key) {
            return None;
        }
        match &mut self.mode {
            Mode::Seek { left } if *left > 0 => {
                *left -= 1;
                Some(&self.destination)
            }
            _ => {
                self.mode = Mode::Probe {
                    left: PROBE_ROWS - 1,
                    destination: self.destination.clone(),
                };
                None
            }
        }
    }

    /// Sets `destination` to the first key after `key` that may lie in the spans; `false` if that
    /// is the next key.
    fn find_destination(&mut self, key: &[u8]) -> bool {
        let Some(partition_bytes) = first_component_bytes(key) else {
            // The key is malformed, which decoding the row will report.
            return false;
        };
        let destination = &mut self.destination;
        destination.clear();
        destination.extend_from_slice(key);
        skip_component(destination);
        let row = &destination[partition_bytes..];
        let is_behind = |span: &KeyRange| span.end.as_ref().is_some_and(|end| **end <= *row);
        let next = self.rows.partition_point(is_behind);
        match self.rows.get(next) {
            Some(span) if *span.start <= *row => return false,
            Some(span) => {
                destination.truncate(partition_bytes);
                destination.extend_from_slice(&span.start);
            }
            None => {
                destination.truncate(partition_bytes);
                skip_component(destination);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{component, in_table};
    use proptest::prelude::*;

    /// The cost and result of a scan.
    #[derive(Debug, Default, PartialEq)]
    struct ScanResult {
        rows: usize,
        seeks: usize,
        found: Vec<Vec<u8>>,
    }

    fn number(at: usize) -> String {
        format!("{at:06}")
    }

    /// The RowKeys from one number to another, both included.
    fn span(first: usize, last: usize) -> KeyRange {
        let key = |at| {
            let mut key = Vec::new();
            component(&mut key, &number(at));
            key
        };
        let mut end = key(last);
        skip_component(&mut end);
        KeyRange {
            start: key(first),
            end: Some(end),
        }
    }

    /// Scans partitions with these numbers of rows.
    fn scan(sizes: &[usize], spans: &[KeyRange]) -> ScanResult {
        let partition = |(at, size): (usize, &usize)| {
            (0..*size).map(move |row| in_table(&number(at), &number(row)))
        };
        let keys: Vec<Vec<u8>> = sizes.iter().enumerate().flat_map(partition).collect();
        let mut skipper = Skipper::new(spans);
        let mut result = ScanResult::default();
        let mut at = 0;
        while let Some(key) = keys.get(at) {
            result.rows += 1;
            let row = &key[first_component_bytes(key).unwrap()..];
            if spans.iter().any(|span| span.contains_bytes(row)) {
                result.found.push(key.clone());
            }
            at += 1;
            if let Some(destination) = skipper.after(key) {
                result.seeks += 1;
                assert!(destination > &key[..], "a seek goes forward");
                at = keys.partition_point(|key| **key < *destination);
            }
        }
        result
    }

    trait ContainsBytes {
        fn contains_bytes(&self, key: &[u8]) -> bool;
    }

    impl ContainsBytes for KeyRange {
        fn contains_bytes(&self, key: &[u8]) -> bool {
            *self.start <= *key && self.end.as_ref().is_none_or(|end| *key < **end)
        }
    }

    fn count_matches(sizes: &[usize], spans: &[KeyRange]) -> usize {
        let holds = |row: usize| {
            let mut key = Vec::new();
            component(&mut key, &number(row));
            spans.iter().any(|span| span.contains_bytes(&key))
        };
        sizes
            .iter()
            .map(|size| (0..*size).filter(|row| holds(*row)).count())
            .sum()
    }

    #[test]
    fn large_partitions_cost_two_rows_each_plus_some_probes() {
        let result = scan(&[10_000; 10], &[span(5_000, 5_000)]);
        assert_eq!((result.rows, result.found.len()), (20, 10));
        let result = scan(&[1_000; 1_000], &[span(500, 500)]);
        assert_eq!(result.found.len(), 1_000);
        assert!(result.rows < 4_000, "{} rows", result.rows);
    }

    #[test]
    fn tiny_partitions_are_scanned_with_few_seeks() {
        for size in [1, 3, 10] {
            let result = scan(&vec![size; 100_000 / size], &[span(2, 2)]);
            assert!(
                result.rows <= 100_000 && result.seeks < 50,
                "{}",
                result.seeks
            );
        }
    }

    #[test]
    fn growing_partitions_are_detected() {
        let sizes = [vec![1; 20_000], vec![10_000; 100]].concat();
        let result = scan(&sizes, &[span(7, 7)]);
        assert_eq!(result.found.len(), 100);
        assert!(result.rows < 40_000, "{} rows of 1,020,000", result.rows);
    }

    proptest! {
        #[test]
        fn skip_scan_finds_all_rows_at_a_bounded_cost(
            sizes in proptest::collection::vec(prop_oneof![0usize..4, 0usize..40, Just(300usize)], 0..300),
            starts in proptest::collection::btree_set(0usize..40, 1..6),
            length in 1usize..3,
        ) {
            let spans: Vec<KeyRange> = starts.iter().map(|at| span(*at, at + length - 1)).collect();
            let result = scan(&sizes, &spans);
            prop_assert_eq!(result.found.len(), count_matches(&sizes, &spans));
            let plain: usize = sizes.iter().sum();
            prop_assert!(result.rows <= plain);
            let cost = result.rows + SEEK_ROWS * result.seeks;
            prop_assert!(cost <= 6 * plain + SEEK_ROWS * SEEKS_BEFORE_PROBE_FIRST, "{} for {}", cost, plain);
        }
    }
}

//! Estimates how many rows a range of keys has, with a bounded number of reads.
//!
//! A few rows are counted. A range with more is sampled: its keys form a tree, in which a node is a
//! common prefix and its children are the bytes that follow. Seeks find the children of a node.
//! Children with few rows are counted. Some of the others are examined, and the rest count as much
//! as the examined ones do on average. Keys that end in numbers make regular trees, whose estimates
//! are close; estimates of irregular trees may be off by a factor of two or three.

use crate::error::Result;
use crate::plan::intersect;
use lazurite_base::locks::lock;
use lazurite_engine::{Direction, KeyRange, Keyspace, Scan, Snapshot};
use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

/// Maximum number of rows of a range that are counted one by one.
const COUNTED_ROWS_MAX: usize = 32;
/// Number of rows of a child that are counted while the children of a node are found. Without this
/// count, a node with one large child and one small one would count as two large ones.
const CHILD_ROWS_MAX: usize = 8;
/// Number of branches of the tree that one estimate follows to the end.
const SAMPLES: usize = 8;
/// Maximum number of seeks of an estimate. A node that is reached when no seek is left counts as
/// [`COUNTED_ROWS_MAX`] rows.
const SEEKS_MAX: usize = 256;
/// Maximum number of estimates made in a second.
const ESTIMATES_PER_SECOND_MAX: usize = 32;

/// A number of rows. Shown as `20`, or as `~1200` if it is an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCount {
    /// An estimate has two significant digits, unless more rows than the estimate were examined.
    pub rows: u64,
    /// Whether the rows were counted rather than estimated.
    pub is_exact: bool,
}

impl RowCount {
    /// Rows that were counted.
    pub(crate) fn exact(rows: usize) -> RowCount {
        RowCount {
            rows: rows as u64,
            is_exact: true,
        }
    }

    /// The same count, or `rows` if that is more.
    pub(crate) fn at_least(self, rows: usize) -> RowCount {
        RowCount {
            rows: self.rows.max(rows as u64),
            ..self
        }
    }

    /// Rounds an estimate to two significant digits: more would promise too much.
    fn estimate(rows: f64) -> RowCount {
        let unit = 10_f64.powf((rows.max(1.0).log10() - 1.0).floor().max(0.0));
        RowCount {
            rows: ((rows / unit).round() * unit) as u64,
            is_exact: false,
        }
    }
}

impl fmt::Display for RowCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_exact { "" } else { "~" };
        write!(f, "{mark}{}", self.rows)
    }
}

/// The estimates of the current second. A repeated query takes its estimate from here, and the
/// number of different estimates is limited.
#[derive(Debug, Default)]
pub(crate) struct Estimates(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    second: u64,
    by_range: HashMap<(Vec<u8>, Option<Vec<u8>>), RowCount>,
}

impl Estimates {
    /// Estimates the rows in `range`. The result may be up to a second old. `None` after too many
    /// estimates in the same `second`.
    pub(crate) fn rows(
        &self,
        second: u64,
        snapshot: &Snapshot,
        keyspace: &Keyspace,
        range: KeyRange,
    ) -> Result<Option<RowCount>> {
        let id = (range.start.clone(), range.end.clone());
        {
            let mut recent = lock(&self.0);
            if recent.second != second {
                recent.second = second;
                recent.by_range.clear();
            }
            if let Some(known) = recent.by_range.get(&id) {
                return Ok(Some(*known));
            }
            if recent.by_range.len() >= ESTIMATES_PER_SECOND_MAX {
                return Ok(None);
            }
        }
        let rows = Sampler::new(snapshot, keyspace).count(range)?;
        let mut recent = lock(&self.0);
        recent.by_range.insert(id, rows);
        Ok(Some(rows))
    }
}

/// The state of one estimate.
struct Sampler<'a> {
    snapshot: &'a Snapshot,
    keyspace: &'a Keyspace,
    seeks_left: usize,
}

/// The first rows of a range.
struct Beginning {
    rows: usize,
    first: Vec<u8>,
    /// Whether the range has no more rows.
    is_all: bool,
}

/// The children of a node of the tree of keys.
#[derive(Default)]
struct Children {
    /// Number of rows in all children with few rows.
    small_rows: usize,
    /// The ranges of the other children.
    large: Vec<KeyRange>,
    /// Whether all children were found before the seeks were used up.
    is_complete: bool,
}

impl Sampler<'_> {
    fn new<'a>(snapshot: &'a Snapshot, keyspace: &'a Keyspace) -> Sampler<'a> {
        Sampler {
            snapshot,
            keyspace,
            seeks_left: SEEKS_MAX,
        }
    }

    fn count(mut self, range: KeyRange) -> Result<RowCount> {
        let (rows, is_exact) = self.rows(&range, SAMPLES)?;
        Ok(if is_exact {
            RowCount::exact(rows as usize)
        } else {
            RowCount::estimate(rows)
        })
    }

    /// The rows in a range, and whether all of them were counted.
    fn rows(&mut self, range: &KeyRange, samples: usize) -> Result<(f64, bool)> {
        let beginning = self.beginning(range)?;
        if beginning.is_all || self.seeks_left == 0 {
            return Ok((beginning.rows as f64, beginning.is_all));
        }
        let children = self.children(range, &beginning.first)?;
        let count = children.large.len();
        let visited = count.min(samples);
        let mut rows = 0.0;
        let mut is_exact = children.is_complete && visited == count;
        for at in 0..visited {
            // The visited children are evenly spread, so that neither end is preferred.
            let child = &children.large[(2 * at + 1) * count / (2 * visited)];
            let (some, is_counted) = self.rows(child, (samples / visited).max(1))?;
            rows += some;
            is_exact &= is_counted;
        }
        let scale = count as f64 / visited.max(1) as f64;
        Ok((children.small_rows as f64 + rows * scale, is_exact))
    }

    fn beginning(&self, range: &KeyRange) -> Result<Beginning> {
        let mut scan = self
            .snapshot
            .scan(self.keyspace, range.clone(), Direction::Forward);
        let mut beginning = Beginning {
            rows: 0,
            first: Vec::new(),
            is_all: true,
        };
        while scan.advance()? {
            if beginning.rows == COUNTED_ROWS_MAX {
                beginning.is_all = false;
                break;
            }
            if beginning.rows == 0 {
                beginning.first = scan.key().to_vec();
            }
            beginning.rows += 1;
        }
        Ok(beginning)
    }

    /// The children of the longest common prefix of all keys in a range of several keys.
    fn children(&mut self, range: &KeyRange, first: &[u8]) -> Result<Children> {
        self.seeks_left -= 1;
        let scan = |direction| self.snapshot.scan(self.keyspace, range.clone(), direction);
        let (mut forward, mut backward) = (scan(Direction::Forward), scan(Direction::Backward));
        let mut children = Children::default();
        if !(forward.advance()? && backward.advance()?) {
            return Ok(children);
        }
        let last = backward.key();
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        // Only a malformed key can be a prefix of another key. Reading such a row reports the
        // error.
        while let Some(child) = forward.key().get(..=common).map(<[u8]>::to_vec) {
            let is_last = last.starts_with(&child);
            let rows = count_below(&mut forward, &child)?;
            if rows <= CHILD_ROWS_MAX {
                children.small_rows += rows;
            } else {
                let within = KeyRange::prefix(&child);
                children.large.push(intersect(range, &within));
                if !is_last && !self.seek(&mut forward, within.end)? {
                    break;
                }
            }
            if is_last {
                children.is_complete = true;
                break;
            }
        }
        Ok(children)
    }

    /// Moves to the first key from `key` on; `false` if there is none or no seek is left.
    fn seek(&mut self, scan: &mut Scan, key: Option<Vec<u8>>) -> Result<bool> {
        let Some(key) = key.filter(|_| self.seeks_left > 0) else {
            return Ok(false);
        };
        self.seeks_left -= 1;
        scan.seek(&key);
        Ok(scan.advance()?)
    }
}

/// Counts the keys that begin with `prefix`, from the scan's position on, up to [`CHILD_ROWS_MAX`]
/// + 1. Leaves the scan on the key after them, or at its end.
fn count_below(scan: &mut Scan, prefix: &[u8]) -> Result<usize> {
    let mut rows = 0;
    while rows <= CHILD_ROWS_MAX && scan.key().starts_with(prefix) {
        rows += 1;
        if !scan.advance()? {
            break;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use lazurite_engine::{Batch, Config, Db, Durability, KeyspaceOptions};

    fn store(keys: impl Iterator<Item = (String, String)>) -> (tempfile::TempDir, Db, Keyspace) {
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            durability: Durability::Memory,
            ..Config::default()
        };
        let db = Db::open(directory.path(), config).unwrap();
        let rows = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
        let mut batch = Batch::new();
        for (partition, row) in keys {
            batch.put(&rows, &keys::in_table(&partition, &row), b"v");
        }
        db.write(batch).unwrap().wait().unwrap();
        (directory, db, rows)
    }

    fn estimate(keys: impl Iterator<Item = (String, String)>) -> RowCount {
        let (_directory, db, rows) = store(keys);
        let snapshot = db.snapshot();
        Sampler::new(&snapshot, &rows)
            .count(KeyRange::all())
            .unwrap()
    }

    #[test]
    fn few_rows_are_counted() {
        for count in [0, 1, 2, 31, 32] {
            let found = estimate((0..count).map(|at| ("p".into(), format!("{at}"))));
            assert_eq!(found, RowCount::exact(count));
        }
        // Eight branches, each counted.
        let rows = (0..160).map(|at| (format!("{}", at / 20), format!("{at:03}")));
        assert_eq!(estimate(rows).to_string(), "160");
    }

    #[test]
    fn numbered_rows_are_estimated_closely() {
        for count in [2_000, 20_000, 50_000] {
            let found = estimate((0..count).map(|at| ("p".into(), format!("{at:08}"))));
            let ratio = found.rows as f64 / f64::from(count);
            assert!(!found.is_exact && (0.8..1.25).contains(&ratio), "{found}");
        }
        assert_eq!(RowCount::estimate(1234.0).to_string(), "~1200");
        assert_eq!(RowCount::estimate(99.6).to_string(), "~100");
    }

    #[test]
    fn irregular_keys_are_estimated_within_a_factor_of_three() {
        // Partitions from one row to thousands, and row keys without padding.
        let rows = (0..30_u32).flat_map(|partition| {
            let size = 1 << (partition % 12);
            (0..size).map(move |row| (format!("name-{partition}"), format!("{row}")))
        });
        let count = rows.clone().count() as f64;
        let ratio = estimate(rows).rows as f64 / count;
        assert!((0.33..3.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn estimate_has_a_bounded_cost_for_any_keys() {
        // A tree that is as deep as it has rows.
        let rows = (0..500).map(|length| ("p".into(), "a".repeat(length)));
        let (_directory, db, rows) = store(rows);
        let snapshot = db.snapshot();
        let mut sampler = Sampler::new(&snapshot, &rows);
        let (found, is_exact) = sampler.rows(&KeyRange::all(), SAMPLES).unwrap();
        let (fewest, most) = (SEEKS_MAX as f64, 500.0);
        assert!(!is_exact && found > fewest && found <= most, "{found}");
        assert_eq!(sampler.seeks_left, 0);
    }

    #[test]
    fn estimates_are_kept_for_a_second_and_limited_in_number() {
        let (_directory, db, rows) = store((0..5).map(|at| ("p".into(), format!("{at}"))));
        let estimates = Estimates::default();
        let ask = |second, start: u8| {
            let range = KeyRange {
                start: vec![start],
                end: None,
            };
            let rows = estimates.rows(second, &db.snapshot(), &rows, range);
            rows.unwrap().map(|count| count.rows)
        };
        assert_eq!(ask(1, 0), Some(5));
        let mut batch = Batch::new();
        batch.put(&rows, &keys::in_table("p", "x"), b"v");
        db.write(batch).unwrap().wait().unwrap();
        assert_eq!(ask(1, 0), Some(5));
        assert_eq!(ask(2, 0), Some(6));
        let others = (1..=ESTIMATES_PER_SECOND_MAX as u8).map(|start| ask(2, start));
        assert_eq!(others.filter(Option::is_none).count(), 1);
        assert_eq!(ask(2, 0), Some(6));
        assert!(ask(3, 200).is_some());
    }
}

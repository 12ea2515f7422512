//! Reads: the keys and ranges that an optimistic transaction has read, and whether they have changed since.

use crate::base::key::{Kind, SequenceNumber, is_before_end};
use crate::format::change::Change;
use crate::tree::cache::Cache;
use crate::tree::iter::{Rows, ScanRange};
use crate::tree::keyspace::Tree;
use crate::{Direction, KeyRange, Result};
use std::sync::Arc;

/// Keys and ranges of keys.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    keys: Vec<(Arc<Tree>, Vec<u8>)>,
    ranges: Vec<(Arc<Tree>, KeyRange)>,
}

/// The reads of a batch in the queue, known to be unchanged up to a sequence number.
#[derive(Debug)]
pub(crate) struct CheckedReads {
    pub(crate) reads: Reads,
    pub(crate) since: SequenceNumber,
}

impl Reads {
    pub(crate) fn add_key(&mut self, tree: &Arc<Tree>, key: &[u8]) {
        self.keys.push((tree.clone(), key.to_vec()));
    }

    pub(crate) fn add_range(&mut self, tree: &Arc<Tree>, range: KeyRange) {
        self.ranges.push((tree.clone(), range));
    }

    /// Whether a read at the later of two sequence numbers, both held by snapshots, differs from one at the earlier. Blocks for the
    /// disk.
    pub(crate) fn differ(
        &self,
        cache: &Arc<Cache>,
        [before, now]: [SequenceNumber; 2],
    ) -> Result<bool> {
        if before == now {
            return Ok(false);
        }
        for (tree, key) in &self.keys {
            if version(cache, tree, key, before)? != version(cache, tree, key, now)? {
                return Ok(true);
            }
        }
        for (tree, range) in &self.ranges {
            let rows = |at| {
                let scan = ScanRange {
                    range: range.clone(),
                    direction: Direction::Forward,
                };
                Rows::new(tree, cache.clone(), at, scan)
            };
            if have_different_rows(rows(before), rows(now))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The number of the version that is read, if there is a value.
fn version(
    cache: &Cache,
    tree: &Tree,
    key: &[u8],
    at: SequenceNumber,
) -> Result<Option<SequenceNumber>> {
    let entry = tree.find(cache, key, || at)?;
    let value = entry.filter(|entry| entry.kind != Kind::Delete);
    Ok(value.map(|entry| entry.sequence))
}

fn have_different_rows(mut before: Rows, mut now: Rows) -> Result<bool> {
    let version = |rows: &Rows| {
        let source = rows.source().expect("it stands on a row");
        (source.key().map(<[u8]>::to_vec), source.sequence())
    };
    loop {
        match (before.advance()?, now.advance()?) {
            (true, true) if version(&before) == version(&now) => {}
            (false, false) => return Ok(false),
            _ => return Ok(true),
        }
    }
}

impl CheckedReads {
    /// Whether the memtables have a change of something that was read. Also `true` if they may have lost one to an SSTable since. Called by
    /// the leader that applies commits; does not block for the disk.
    pub(crate) fn may_have_changed(&self) -> bool {
        let Reads { keys, ranges } = &self.reads;
        let is_changed = |tree: &Tree, start: &[u8], end: Option<&[u8]>| {
            // In this order: a memtable that is flushed between the two is seen twice, not missed.
            let view = tree.load_view();
            if tree.flushed_through() > self.since {
                return true;
            }
            let mut memtables = std::iter::once(&view.active).chain(&view.immutable);
            memtables.any(|memtable| memtable.has_changed(start, end, self.since))
        };
        keys.iter().any(|(tree, key)| {
            let end = [key, &[0][..]].concat();
            is_changed(tree, key, Some(&end))
        }) || ranges
            .iter()
            .any(|(tree, range)| is_changed(tree, &range.start, range.end.as_deref()))
    }

    /// Whether a change that comes before the batch, and is not applied yet, changes something that was read.
    pub(crate) fn are_changed_by(&self, change: &Change<'_>) -> bool {
        let Reads { keys, ranges } = &self.reads;
        let in_keyspace = |tree: &Tree| tree.id == change.keyspace();
        match *change {
            Change::Set { key, .. } => {
                keys.iter()
                    .any(|(tree, read)| in_keyspace(tree) && read == key)
                    || ranges.iter().any(|(tree, range)| {
                        in_keyspace(tree)
                            && range.start[..] <= *key
                            && is_before_end(key, range.end.as_deref())
                    })
            }
            Change::DeleteRange { start, end, .. } => {
                keys.iter().any(|(tree, read)| {
                    in_keyspace(tree) && start <= &read[..] && is_before_end(read, end)
                }) || ranges.iter().any(|(tree, range)| {
                    in_keyspace(tree)
                        && is_before_end(&range.start, end)
                        && is_before_end(start, range.end.as_deref())
                })
            }
        }
    }
}

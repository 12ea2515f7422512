//! Epochs: which records see which state of a file of pages, and how pages that no record sees any more are collected.
//!
//! Once a second record names a file, we count the records per epoch. If no epoch between two rows of a window is named, no record
//! sees the earlier row. Invariants: only the record that names a file as of its last epoch writes to it. Between two named epochs
//! a window has at most one row, except for rows that the sweep has yet to collect. An epoch that no record names keeps its row
//! until they are collected, and no later epoch begins before that.

use crate::codec::{self, EpochRecord};
use crate::error::corrupt_record;
use crate::error::{Error, Result};
use crate::keys::Timer;
use crate::keys::{self, File};
use crate::model::{Extent, Layer};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Batch, Direction, KeyRange, Snapshot};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::SystemTime;

/// Changed windows that one step of the sweep examines.
const COLLECTED_WINDOWS: usize = 200;

/// How a record may write to a file of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writer {
    /// The epoch that the write belongs to.
    pub(crate) epoch: u64,
    /// The last earlier epoch that other records see. Rows of later epochs may be changed in place.
    pub(crate) base: Option<u64>,
    /// Whether there may be rows of earlier epochs, seen or not collected yet.
    pub(crate) has_past: bool,
}

/// The epochs around one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Neighbours {
    /// The next ones below and above, named or not.
    below: Option<u64>,
    above: Option<u64>,
    /// The next ones that are named.
    named_below: Option<u64>,
    named_above: Option<u64>,
}

impl BlobService {
    /// How the layer may be written to; `None` if other records see its epoch. The caller holds the lock of the blob whose topmost
    /// layer it is. `base` is valid while the caller holds the lock of the file.
    pub(crate) fn writer(&self, layer: &Layer) -> Result<Option<Writer>> {
        let epoch = layer.end;
        let mut writer = Writer {
            epoch,
            base: None,
            has_past: layer.shared,
        };
        if !layer.windowed {
            return Ok(None);
        }
        if !layer.shared {
            return Ok(Some(writer));
        }
        // Rows of later epochs must not become visible again, although no record sees them.
        let around = self.epochs_around(layer.file, epoch)?;
        if around.above.is_some() {
            return Ok(None);
        }
        if self.is_shared(layer)? {
            let record = self.epoch_record(layer.file, epoch)?;
            if record != Some(EpochRecord::Named(1)) {
                return Ok(None);
            }
            writer.base = around.named_below;
        }
        Ok(Some(writer))
    }

    pub(crate) fn is_counted(&self, file: File) -> Result<bool> {
        let references = &self.keyspaces.references;
        Ok(self.db.get(references, &file.counted())?.is_some())
    }

    fn epoch_record(&self, file: File, epoch: u64) -> Result<Option<EpochRecord>> {
        let references = &self.keyspaces.references;
        let value = self.db.get(references, &file.epoch(epoch))?;
        value.map(|value| codec::decode_epoch(&value)).transpose()
    }

    fn epochs_around(&self, file: File, epoch: u64) -> Result<Neighbours> {
        let below = file.epochs(0..epoch);
        let above = file.epochs(epoch.saturating_add(1)..u64::MAX);
        let (below, named_below) = self.first_epochs(below, Direction::Backward)?;
        let (above, named_above) = self.first_epochs(above, Direction::Forward)?;
        Ok(Neighbours {
            below,
            above,
            named_below,
            named_above,
        })
    }

    /// The first epoch, and the first named one. Epochs without a name are few and soon removed.
    fn first_epochs(
        &self,
        range: KeyRange,
        direction: Direction,
    ) -> Result<(Option<u64>, Option<u64>)> {
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(&self.keyspaces.references, range, direction);
        let mut first = None;
        while rows.advance()? {
            let epoch = keys::epoch(rows.key()).ok_or_else(corrupt_record)?;
            first = first.or(Some(epoch));
            if let EpochRecord::Named(_) = codec::decode_epoch(&rows.value()?)? {
                return Ok((first, Some(epoch)));
            }
        }
        Ok((first, None))
    }

    /// Adds to `batch` the number of records that name the file as of each epoch. The caller holds the lock of the file. Pages that
    /// no record sees from now on are left to the sweep.
    pub(crate) fn settle_epochs(
        &self,
        batch: &mut Batch,
        file: File,
        changes: &BTreeMap<u64, i64>,
        counted: bool,
        now: SystemTime,
    ) -> Result<()> {
        let references = &self.keyspaces.references;
        if counted {
            batch.put(references, &file.counted(), b"");
        } else if !self.is_counted(file)? {
            return Ok(());
        }
        for (&epoch, &change) in changes.iter().filter(|(_, change)| **change != 0) {
            let record = self.changed_epoch(file, epoch, change)?;
            if let EpochRecord::Ended { .. } = record {
                let subject = file.epoch(epoch);
                let timer = keys::timer(SnapshotTime::at(now), Timer::Epoch, &subject);
                batch.put(&self.keyspaces.timers, &timer, b"");
            }
            batch.put(
                references,
                &file.epoch(epoch),
                &codec::encode_epoch(&record),
            );
        }
        Ok(())
    }

    /// The record of an epoch once `change` more records name the file as of it.
    fn changed_epoch(&self, file: File, epoch: u64, change: i64) -> Result<EpochRecord> {
        let before = match self.epoch_record(file, epoch)? {
            Some(EpochRecord::Named(count)) => count,
            _ => 0,
        };
        let after = before.checked_add_signed(change);
        let after = after.ok_or_else(|| Error::InternalError {
            reason: format!("{before} records see a file as of an epoch, and {change} more are to"),
        })?;
        Ok(match after {
            0 => EpochRecord::Ended { at: (0, 0) },
            count => EpochRecord::Named(count),
        })
    }

    /// One step of collecting rows that only an ended epoch saw. The caller holds the lock of the file. Returns whether it was the
    /// last.
    pub(crate) fn collect_epoch(&self, batch: &mut Batch, file: File, epoch: u64) -> Result<bool> {
        let Some(EpochRecord::Ended { at }) = self.epoch_record(file, epoch)? else {
            return Ok(true);
        };
        let around = self.epochs_around(file, epoch)?;
        let mut range = file.changes(around.collected_with(epoch));
        if at.0 <= epoch || around.named_above.is_some() {
            range.start = range.start.max(file.changed(at.0, at.1));
        }
        let snapshot = self.db.snapshot();
        let blocks = &self.keyspaces.blocks;
        let mut rows = snapshot.scan(blocks, range, Direction::Forward);
        let mut left = COLLECTED_WINDOWS;
        while rows.advance()? {
            let (changed_in, window) =
                keys::epoch_and_window(rows.key()).ok_or_else(corrupt_record)?;
            if left == 0 {
                let at = (changed_in, window);
                let value = codec::encode_epoch(&EpochRecord::Ended { at });
                let references = &self.keyspaces.references;
                batch.put(references, &file.epoch(epoch), &value);
                return Ok(false);
            }
            left -= 1;
            let unseen = ObsoleteRows {
                file,
                window,
                after: around.named_below,
                before: match around.named_above {
                    Some(_) => changed_in,
                    None => changed_in.saturating_add(1),
                },
                is_replaced: around.named_above.is_some(),
            };
            self.collect_window(batch, &snapshot, &unseen)?;
            if around.named_above.is_none() || around.named_below.is_none() {
                // No comparison needs this row any more.
                batch.delete(blocks, rows.key());
            }
        }
        batch.delete(&self.keyspaces.references, &file.epoch(epoch));
        Ok(true)
    }

    /// Removes rows of a window that no record sees, with the contents that only they refer to.
    fn collect_window(
        &self,
        batch: &mut Batch,
        snapshot: &Snapshot,
        unseen: &ObsoleteRows,
    ) -> Result<()> {
        let ObsoleteRows { file, window, .. } = *unseen;
        let (rows, contents) = self.obsolete_rows(snapshot, unseen)?;
        for key in rows {
            batch.delete(&self.keyspaces.blocks, &key);
        }
        for content in contents {
            let key = file.page_content(window, content);
            batch.delete(&self.keyspaces.content, &key);
        }
        Ok(())
    }

    /// The keys of the rows of a window that no record sees, and the contents that only they refer to.
    fn obsolete_rows(
        &self,
        snapshot: &Snapshot,
        unseen: &ObsoleteRows,
    ) -> Result<(Vec<Vec<u8>>, HashSet<u128>)> {
        let ObsoleteRows { file, window, .. } = *unseen;
        let newest = if unseen.is_replaced {
            unseen.before
        } else {
            unseen.before - 1
        };
        let range = KeyRange {
            start: file.window(window, newest),
            ..file.windows(window..window + 1)
        };
        let mut rows = snapshot.scan(&self.keyspaces.blocks, range, Direction::Forward);
        let (mut kept, mut gone) = (HashSet::new(), HashSet::new());
        let mut removed = Vec::new();
        let mut replaced = !unseen.is_replaced;
        while rows.advance()? {
            let key = keys::window_and_epoch(rows.key()).ok_or_else(corrupt_record)?;
            let extents = codec::decode_window(window, &rows.value()?)?;
            let contents = contents(&extents);
            if key.1 == unseen.before && unseen.is_replaced {
                kept.extend(contents);
                replaced = true;
            } else if unseen.after.is_some_and(|after| key.1 <= after) {
                kept.extend(contents);
                break;
            } else {
                gone.extend(contents);
                removed.push(rows.key().to_vec());
            }
        }
        // The window may have been dropped with all its epochs, and written again.
        if !replaced {
            return Ok((Vec::new(), HashSet::new()));
        }
        gone.retain(|content| !kept.contains(content));
        Ok((removed, gone))
    }
}

impl Neighbours {
    /// The epochs whose rows are examined to collect what `epoch` alone saw: if a later epoch is named, those that replace its rows,
    /// otherwise its own. A later epoch may have ended since the last step, but none is added.
    fn collected_with(&self, epoch: u64) -> Range<u64> {
        match (self.named_above, self.above) {
            (Some(_), Some(above)) => epoch.saturating_add(1)..above.saturating_add(1),
            _ => self.below.map_or(0, |below| below.saturating_add(1))..epoch.saturating_add(1),
        }
    }
}

/// Rows of a window after one epoch and before another.
struct ObsoleteRows {
    file: File,
    window: u64,
    after: Option<u64>,
    before: u64,
    /// Whether a record sees the row of the epoch `before`.
    is_replaced: bool,
}

/// The contents that these extents refer to.
pub(crate) fn contents(extents: &[Extent]) -> impl Iterator<Item = u128> {
    let content = |extent: &Extent| Some(extent.pages?.content);
    extents.iter().filter_map(content)
}

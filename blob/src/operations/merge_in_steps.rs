//! Merging layers of any size in the background: see `merge_layers.rs`.
//!
//! A row of `blob.merges` names the layers, the file they are copied to, and the progress.
//! Invariant: while the row exists, the record of the blob names the layers and another one above
//! them. So the visible content of the layers does not change, and a step can copy it without a
//! lock. A write that puts a record without the layers cancels the merge: see [`BlobWrite::put`].
//! The lock of the blob is held only while the copied rows are written. After a restart the timer
//! of the merge is due again.

use crate::error::Result;
use crate::error::corrupt_record;
use crate::etag::whole_seconds;
use crate::files::FileRows;
use crate::keys::Timer;
use crate::keys::{self, File};
use crate::model::{Blob, Content, LayerMerge};
use crate::operations::merge_layers::{LAYERS_MIN, MergeStep, first_to_merge, length_of, start_of};
use crate::operations::permit::Action;
use crate::operations::write::BlobWrite;
use crate::service::BlobService;
use lazurite_engine::Batch;
use std::time::Duration;

/// In a blob with more layers than this, all layers but the last are merged if fewer than
/// [`LayerMerge::LAYERS_MIN`] are worth merging.
const LAYERS_MAX: usize = 48;

/// A step of a merge, prepared without locks.
pub(crate) enum PreparedMerge {
    /// There is nothing to merge.
    Nothing,
    /// Begins to merge these layers.
    Begin(LayerMerge),
    /// Continues a merge that was in this state.
    Step(LayerMerge, MergeStep),
}

impl BlobService {
    /// Finds the next step of merging layers of a blob, and copies the content for it.
    pub(crate) fn prepare_merge(&self, key: &[u8]) -> Result<PreparedMerge> {
        let home = keys::container_of(key).ok_or_else(corrupt_record)?;
        let snapshot = self.db.snapshot();
        let record = self.keyspaces.record(&snapshot, home, key)?;
        let Some(blob) = record else {
            return Ok(PreparedMerge::Nothing);
        };
        if let Some(merge) = self.keyspaces.merge(&snapshot, home, key)? {
            let step = self.copy_step(&snapshot, &merge)?;
            return Ok(PreparedMerge::Step(merge, step));
        }
        let found = self.layers_to_merge(home, &blob);
        Ok(found.map_or(PreparedMerge::Nothing, PreparedMerge::Begin))
    }

    /// Drops the copies of a merge whose blob was removed with its container.
    pub(crate) fn drop_merge_of(&self, batch: &mut Batch, home: u128, key: &[u8]) -> Result<()> {
        if let Some(merge) = self.keyspaces.merge(&self.db, home, key)? {
            FileRows::new(&self.keyspaces, batch).drop_file(merge.target);
            batch.delete(&self.keyspaces.merges, key);
        }
        Ok(())
    }

    fn layers_to_merge(&self, home: u128, blob: &Blob) -> Option<LayerMerge> {
        // Only in append blobs do layers follow the order of the content.
        if !matches!(blob.content, Content::Appends { .. }) {
            return None;
        }
        let layers = &blob.layers;
        // The last layer may be written to, so it is not merged.
        let end = layers.len().saturating_sub(1);
        if end < LayerMerge::LAYERS_MIN {
            return None;
        }
        let mut first = first_to_merge(0, end, |number| length_of(layers, number));
        if end - first < LayerMerge::LAYERS_MIN {
            if end < LAYERS_MAX {
                return None;
            }
            first = 0;
        }
        let id = self.ids.next_id();
        Some(LayerMerge {
            target: File { home, id },
            next: start_of(layers, first),
            layers: layers[first..end].to_vec(),
        })
    }
}

impl BlobWrite<'_> {
    /// Sets a timer for the sweep to look for layers to merge if the blob has many: at most once a
    /// second.
    pub(super) fn merge_later(&mut self, layers: usize) {
        if self.merge().is_none() {
            let key = self.key.clone();
            self.merge_later_at(&key, layers);
        }
    }

    /// Like [`BlobWrite::merge_later`], for a blob with this key that the write moves.
    pub(super) fn merge_later_at(&mut self, key: &[u8], layers: usize) {
        if layers < LAYERS_MIN {
            return;
        }
        let second = whole_seconds(self.now);
        let due = if second < self.now {
            second + Duration::from_secs(1)
        } else {
            second
        };
        self.set_timer(due, Timer::Merge, key);
    }

    /// Applies a prepared step if the merge has not changed since the step was prepared. Returns
    /// whether there may be more to do.
    pub(crate) fn apply_merge(&mut self, prepared: PreparedMerge) -> Result<bool> {
        match prepared {
            PreparedMerge::Nothing => Ok(false),
            PreparedMerge::Begin(merge) => {
                if self.merge().is_some() {
                    return Ok(true);
                }
                let is_allowed = self.is_merge_allowed(&merge);
                if is_allowed {
                    self.put_merge(merge);
                }
                Ok(is_allowed)
            }
            PreparedMerge::Step(merge, step) => {
                if self.merge() != Some(&merge) {
                    return Ok(true);
                }
                if !self.is_merge_allowed(&merge) {
                    self.drop_merge();
                    return Ok(false);
                }
                self.apply_step(merge, step)?;
                Ok(true)
            }
        }
    }

    fn apply_step(&mut self, merge: LayerMerge, step: MergeStep) -> Result<()> {
        let next = step.next;
        let is_last = step.is_last;
        step.put(&mut self.rows());
        if !is_last {
            self.put_merge(LayerMerge { next, ..merge });
            return Ok(());
        }
        let mut blob = self.existing()?;
        let place = merge.place_in(&blob).ok_or_else(corrupt_record)?;
        let permit = self.permit_current(Action::Refile)?;
        self.end_merge();
        self.replace_layers(&mut blob, place, &merge);
        self.put(&permit, &blob);
        Ok(())
    }

    /// Whether the layers of the merge are still in the blob, with another layer above them.
    fn is_merge_allowed(&self, merge: &LayerMerge) -> bool {
        let blob = self.current();
        blob.is_some_and(|blob| merge.place_in(blob).is_some())
    }
}

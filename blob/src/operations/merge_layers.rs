//! Merging layers. An append blob gets a layer with each append that follows a snapshot or a copy.
//! Adjacent layers are copied into one, so that the cost of records, reads and later snapshots does
//! not grow with the number of snapshots and copies made.
//!
//! A write merges small layers itself. Everything else is left to the sweep: see
//! `merge_in_steps.rs`.

use crate::codec;
use crate::error::Result;
use crate::error::corrupt_record;
use crate::error::missing;
use crate::files::FileRows;
use crate::keys::{self, File};
use crate::model::{Blob, BlobBlock, Layer, LayerMerge};
use crate::operations::write::BlobWrite;
use crate::service::BlobService;
use crate::upload::{UploadedValue, is_separated};
use lazurite_engine::{Direction, Snapshot};
use std::ops::Range;

/// A blob with fewer layers is left as it is.
pub(super) const LAYERS_MIN: usize = 16;
/// A step ends with the content that brings the bytes copied to this number.
const STEP_BYTES: u64 = if cfg!(test) { 256 << 10 } else { 4 << 20 };
/// A step ends once it has copied this many contents.
const STEP_CONTENTS: usize = 2048;

/// Whether a write should try to merge layers: at 16 layers, and, if attempts fail, more and more
/// rarely as the number of layers grows.
fn is_attempt_due(layers: usize) -> bool {
    layers >= LAYERS_MIN && layers.is_multiple_of(layers.next_power_of_two() / 16)
}

/// Rows of the target of a merge, copied from its layers.
#[derive(Debug, Default)]
pub(crate) struct MergeStep {
    blocks: Vec<(Vec<u8>, Vec<u8>)>,
    contents: Vec<(Vec<u8>, UploadedValue)>,
    bytes: u64,
    /// The offset at which the next step begins.
    pub(super) next: u64,
    /// Whether the step reaches the end of the layers.
    pub(super) is_last: bool,
}

impl MergeStep {
    fn is_full(&self) -> bool {
        self.bytes >= STEP_BYTES || self.contents.len() >= STEP_CONTENTS
    }

    /// Puts the copied rows.
    pub(super) fn put(self, rows: &mut FileRows<'_>) {
        for (key, value) in self.blocks {
            rows.put_block(&key, &value);
        }
        for (key, value) in self.contents {
            value.put(rows, &key);
        }
    }
}

/// Returns the first of the layers before `end` that are worth merging: each has at most twice as
/// many bytes as the layers after it together. Each time a byte is copied, its layer grows by at
/// least half, so a byte is copied only a few times. From one remaining layer to the next, sizes
/// shrink by at least half, so few layers remain. `bytes_of` returns the size of the layer with a
/// number.
pub(super) fn first_to_merge(begin: usize, end: usize, bytes_of: impl Fn(usize) -> u64) -> usize {
    let (mut first, mut bytes) = (end, 0_u64);
    while first > begin {
        let next = bytes_of(first - 1);
        if first < end && next > bytes.saturating_mul(2) {
            break;
        }
        (first, bytes) = (first - 1, bytes.saturating_add(next));
    }
    first
}

/// The offset at which a layer of appends begins.
pub(super) fn start_of(layers: &[Layer], number: usize) -> u64 {
    let before = number.checked_sub(1).and_then(|before| layers.get(before));
    before.map_or(0, |before| before.end)
}

/// Number of bytes in a layer of appends.
pub(super) fn length_of(layers: &[Layer], number: usize) -> u64 {
    layers[number].end.saturating_sub(start_of(layers, number))
}

impl BlobWrite<'_> {
    /// Merges the last layers of an append blob if there are many and the last ones are small.
    pub(super) fn merge_appends(&mut self, blob: &mut Blob) -> Result<()> {
        let all = blob.layers.len();
        if !is_attempt_due(all) {
            return Ok(());
        }
        let length = |number| length_of(&blob.layers, number);
        let mut first = first_to_merge(self.merged_end(), all, length);
        let count = blob.committed_block_count().unwrap_or_default();
        let is_too_much = |first| {
            let bytes = blob.length.saturating_sub(start_of(&blob.layers, first));
            // Estimates the number of appends as if all had the same length.
            let contents = u128::from(bytes) * u128::from(count) / u128::from(blob.length.max(1));
            bytes > STEP_BYTES || contents >= STEP_CONTENTS as u128
        };
        while first < all && is_too_much(first) {
            first += 1;
        }
        self.merge_at_once(blob, first)
    }

    /// Copies the layers from `first` on to one file, and puts the file in their place. Does
    /// nothing if one step cannot copy them all.
    fn merge_at_once(&mut self, blob: &mut Blob, first: usize) -> Result<()> {
        if blob.layers.len() - first < 2 {
            return Ok(());
        }
        let merge = LayerMerge {
            target: self.new_file(),
            next: start_of(&blob.layers, first),
            layers: blob.layers[first..].to_vec(),
        };
        let service = self.service;
        let snapshot = service.db.snapshot();
        let step = service.copy_step(&snapshot, &merge)?;
        if !step.is_last {
            return Ok(());
        }
        step.put(&mut self.rows());
        let end = blob.layers.len();
        self.replace_layers(blob, first..end, &merge);
        Ok(())
    }

    /// Replaces the layers of a merge by its target. Records of snapshots still name the layers.
    pub(super) fn replace_layers(
        &mut self,
        blob: &mut Blob,
        place: Range<usize>,
        merge: &LayerMerge,
    ) {
        let end = merge.layers.last().map_or(0, |last| last.end);
        let merged = Layer::new(merge.target, end);
        let replaced: Vec<Layer> = blob.layers.splice(place, [merged]).collect();
        for layer in &replaced {
            self.unname_file(layer);
        }
    }

    /// Number of layers, counted from the lowest, that a merge in steps needs unchanged.
    fn merged_end(&self) -> usize {
        let place = self.current().zip(self.merge());
        let place = place.and_then(|(blob, merge)| merge.place_in(blob));
        place.map_or(0, |place| place.end)
    }
}

impl BlobService {
    /// Prepares the next step of a merge, as of `snapshot`. Contents of appends keep their ids,
    /// because their encryption may depend on the ids.
    pub(super) fn copy_step(&self, snapshot: &Snapshot, merge: &LayerMerge) -> Result<MergeStep> {
        let keyspaces = &self.keyspaces;
        let mut step = MergeStep {
            next: merge.next,
            ..MergeStep::default()
        };
        for layer in &merge.layers {
            if layer.end <= step.next {
                continue;
            }
            let rows = layer.file.committed_from(step.next);
            let mut rows = snapshot.scan(&keyspaces.blocks, rows, Direction::Forward);
            while rows.advance()? {
                let end = keys::end_offset(rows.key()).ok_or_else(corrupt_record)?;
                if end > layer.end {
                    break;
                }
                if step.is_full() {
                    return Ok(step);
                }
                let block = codec::decode_block(&rows.value()?)?;
                let from = block.file.unwrap_or(layer.file);
                self.copy_append(snapshot, from, merge.target, block, end, &mut step)?;
                step.next = end;
            }
            step.next = layer.end;
        }
        step.is_last = true;
        Ok(step)
    }

    /// Copies an append that ends at `end` from a file to another.
    fn copy_append(
        &self,
        snapshot: &Snapshot,
        from: File,
        target: File,
        block: BlobBlock,
        end: u64,
        step: &mut MergeStep,
    ) -> Result<()> {
        let content = from.block_content(block.content);
        let content = snapshot.get(&self.keyspaces.content, &content)?;
        let content = content.ok_or_else(|| missing("an append has no content"))?;
        self.copy_content(step, target.block_content(block.content), &content)?;
        let block = codec::encode_block(&BlobBlock {
            file: None,
            ..block
        });
        step.blocks.push((target.committed(end), block));
        Ok(())
    }

    /// Adds a content to a step. Its length decides whether its bytes go to the value log.
    fn copy_content(&self, step: &mut MergeStep, key: Vec<u8>, content: &[u8]) -> Result<()> {
        let value = if is_separated(&self.db, content) {
            UploadedValue::Large(self.db.write_value(content)?)
        } else {
            UploadedValue::Small(content.to_vec())
        };
        step.bytes += content.len() as u64;
        step.contents.push((key, value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes layers of these lengths, and merges whenever there are [`LAYERS_MIN`] or more and at
    /// least eight are worth merging. Returns the remaining sizes, and how many bytes were copied.
    fn grown(lengths: impl Iterator<Item = u64>) -> (Vec<u64>, u64) {
        let (mut layers, mut copied) = (Vec::<u64>::new(), 0);
        for length in lengths {
            layers.push(length);
            let end = layers.len() - 1;
            let first = first_to_merge(0, end, |number| layers[number]);
            if layers.len() >= LAYERS_MIN && end - first >= 8 {
                let merged: u64 = layers.splice(first..end, []).sum();
                copied += merged;
                layers.insert(first, merged);
            }
        }
        (layers, copied)
    }

    #[test]
    fn layers_stay_few_and_bytes_are_copied_a_few_times() {
        const MIB: u64 = 1 << 20;
        for lengths in [
            [1, 1, 1],
            [100, 100, 100],
            [30_000, 7, 30_000],
            [1, 1, 8 * MIB],
            [5 * MIB, 5 * MIB, 5 * MIB],
            [100 * MIB, 1, MIB],
        ] {
            let (layers, copied) = grown((0..30_000).map(|number| lengths[number % 3]));
            assert!(layers.len() <= 40, "{}: {lengths:?}", layers.len());
            let total = 10_000 * lengths.iter().sum::<u64>();
            assert!(copied <= 12 * total, "{copied} of {total}: {lengths:?}");
        }
    }

    #[test]
    fn attempts_to_merge_become_rare() {
        let due = (0..1 << 14)
            .filter(|layers| is_attempt_due(*layers))
            .count();
        assert!(due < 120, "{due}");
        assert!(is_attempt_due(LAYERS_MIN));
    }
}

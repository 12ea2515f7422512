//! Merging layers. An append blob gets a layer with each append that follows a snapshot or a copy, a page blob with each write that
//! follows a copy. Adjacent layers are copied into one, so that records, reads and later snapshots cost the same however many there
//! were.
//!
//! A write merges small layers itself. Everything else is left to the sweep: see `merge_in_steps.rs`.

use crate::codec;
use crate::error::Result;
use crate::error::corrupt_record;
use crate::error::missing;
use crate::files::FileRows;
use crate::keys::{self, File};
use crate::model::WINDOW_BYTES;
use crate::model::{Blob, BlobAddress, BlobBlock, Content, Extent, Layer, LayerMerge, Pages};
use crate::operations::permit::Action;
use crate::operations::write::BlobWrite;
use crate::page_write::{is_large, read_pages};
use crate::pages::Overlay;
use crate::segment::{Segment, Written};
use crate::service::BlobService;
use crate::upload::{UploadedValue, is_separated};
use crate::windows::{EXTENT_BYTES_MAX, window_of};
use lazurite_engine::{Direction, Snapshot};
use std::collections::BTreeMap;
use std::ops::Range;

/// A blob with fewer layers is left as it is.
pub(super) const LAYERS_MIN: usize = 16;
/// A step ends once it has copied this many bytes, and the content or the window that reaches the limit.
const STEP_BYTES: u64 = if cfg!(test) { 256 << 10 } else { 4 << 20 };
/// A step ends once it has copied this many contents.
const STEP_CONTENTS: usize = 2048;

/// Whether a write tries to merge layers. A failed attempt is repeated when there are some more layers, and more rarely
/// the more there are.
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
    /// Whether the layers have been copied to their ends.
    pub(super) is_last: bool,
}

impl MergeStep {
    /// Adds the rows of copied windows, and of large ranges that are cleared.
    fn push_windows(
        &mut self,
        target: File,
        windows: BTreeMap<u64, Vec<Extent>>,
        cleared: Vec<Range<u64>>,
    ) {
        for (number, extents) in windows {
            let value = codec::encode_window(number, &extents);
            self.blocks.push((target.window(number, 0), value));
        }
        for range in cleared {
            let value = codec::encode_cleared(range.start);
            self.blocks.push((target.extent(range.end), value));
        }
    }

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

/// The first of the layers before `end` that are worth merging: each has at most twice as many bytes as those after it together. Each
/// time a byte is copied, its layer grows by half, so a byte is copied a few times. The layers that stay shrink by two thirds from one
/// to the next, so they are few. `bytes_of` is given the number of a layer and how many bytes matter; it may stop counting beyond.
pub(super) fn first_to_merge(
    begin: usize,
    end: usize,
    mut bytes_of: impl FnMut(usize, u64) -> Result<u64>,
) -> Result<usize> {
    let (mut first, mut bytes) = (end, 0_u64);
    while first > begin {
        let max = if first == end {
            u64::MAX
        } else {
            bytes.saturating_mul(2)
        };
        let next = bytes_of(first - 1, max)?;
        if next > max {
            break;
        }
        (first, bytes) = (first - 1, bytes.saturating_add(next));
    }
    Ok(first)
}

/// The offset at which a layer of appends begins.
pub(super) fn start_of(layers: &[Layer], number: usize) -> u64 {
    let before = number.checked_sub(1).and_then(|before| layers.get(before));
    before.map_or(0, |before| before.end)
}

/// The number of bytes in a layer of appends.
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
        let mut first = first_to_merge(self.merged_end(), all, |number, _| {
            Ok(length_of(&blob.layers, number))
        })?;
        let count = blob.committed_block_count().unwrap_or_default();
        let is_too_much = |first| {
            let bytes = blob.length.saturating_sub(start_of(&blob.layers, first));
            // As many appends as if all were of one length.
            let contents = u128::from(bytes) * u128::from(count) / u128::from(blob.length.max(1));
            bytes > STEP_BYTES || contents >= STEP_CONTENTS as u128
        };
        while first < all && is_too_much(first) {
            first += 1;
        }
        self.merge_at_once(blob, first)?;
        Ok(())
    }

    /// Copies the layers from `first` on to one file and puts that in their place, if one step is enough. Returns whether it was.
    fn merge_at_once(&mut self, blob: &mut Blob, first: usize) -> Result<bool> {
        if blob.layers.len() - first < 2 {
            return Ok(false);
        }
        let merge = LayerMerge {
            target: self.new_file(),
            next: match blob.content {
                Content::Appends { .. } => start_of(&blob.layers, first),
                _ => 0,
            },
            layers: blob.layers[first..].to_vec(),
        };
        let service = self.service;
        let snapshot = service.db.snapshot();
        let Some(step) = service.copy_whole(&snapshot, &merge, blob)? else {
            return Ok(false);
        };
        step.put(&mut self.rows());
        let end = blob.layers.len();
        self.replace_layers(blob, first..end, &merge);
        Ok(true)
    }

    /// Replaces the layers of a merge by its target. Records of snapshots still name the layers.
    pub(super) fn replace_layers(
        &mut self,
        blob: &mut Blob,
        place: Range<usize>,
        merge: &LayerMerge,
    ) {
        let is_paged = matches!(blob.content, Content::Pages { .. });
        let end = merge.layers.last().map_or(0, |last| last.end);
        let merged = Layer {
            file: merge.target,
            shared: false,
            end: if is_paged { 0 } else { end },
            windowed: is_paged,
        };
        let replaced: Vec<Layer> = blob.layers.splice(place, [merged]).collect();
        for layer in &replaced {
            self.unname_file(layer);
        }
    }

    /// The number of layers, from the lowest on, that a merge in steps needs to stay as they are.
    fn merged_end(&self) -> usize {
        let place = self.current().zip(self.merge());
        let place = place.and_then(|(blob, merge)| merge.place_in(blob));
        place.map_or(0, |place| place.end)
    }

    /// The blob with one layer in place of some at its end, if these show little.
    fn merge_pages(&mut self, mut blob: Blob) -> Result<Option<Blob>> {
        let snapshot = self.service.db.snapshot();
        let common =
            self.service
                .layers_of_snapshots(&snapshot, (self.home(), &self.name), &blob)?;
        let kept = common.max(self.merged_end());
        let all = blob.layers.len();
        // The most that may be merged at once, from the top.
        let above_kept = all.saturating_sub(kept.max(4));
        for count in [above_kept, all / 2, all / 4, all / 8, 4, 2] {
            let first = all - count;
            if first >= kept && self.merge_at_once(&mut blob, first)? {
                return Ok(Some(blob));
            }
        }
        Ok(None)
    }
}

impl BlobService {
    /// As [`BlobService::begin_write`], for a page blob. If it has many layers, the last of them are merged first, in a write of its
    /// own that changes nothing a reader sees.
    pub(super) fn begin_page_write(&self, address: &BlobAddress<'_>) -> Result<BlobWrite<'_>> {
        let mut write = self.begin_write(address)?;
        match write.changeable() {
            Ok((_, blob)) if is_attempt_due(blob.layers.len()) => {
                if let Some(merged) = write.merge_pages(blob)? {
                    let permit = write.permit_current(Action::Refile)?;
                    write.put(&permit, &merged);
                    // Not waited for: if it is lost, the blob is unchanged.
                    drop(write.commit()?);
                    return self.begin_write(address);
                }
                Ok(write)
            }
            _ => Ok(write),
        }
    }

    /// Copies all that is left of a merge, or nothing if that is too much for one step.
    fn copy_whole(
        &self,
        snapshot: &Snapshot,
        merge: &LayerMerge,
        blob: &Blob,
    ) -> Result<Option<MergeStep>> {
        if !matches!(blob.content, Content::Pages { .. }) {
            let step = self.copy_appends(snapshot, merge)?;
            return Ok(Some(step).filter(|step| step.is_last));
        }
        let (segments, end) = self.segments_to_copy(snapshot, merge, blob.length)?;
        let pages = segments
            .iter()
            .filter(|segment| segment.what != Written::Cleared);
        let bytes: u64 = pages
            .map(|segment| segment.range.end - segment.range.start)
            .sum();
        if end < blob.length || bytes > STEP_BYTES || segments.len() > STEP_CONTENTS {
            return Ok(None);
        }
        let step = self.copy_pages(snapshot, merge, (segments, end), blob.length)?;
        Ok(Some(step).filter(|step| step.is_last))
    }

    /// The next step of a merge of layers of this blob, as of `snapshot`.
    pub(super) fn copy_step(
        &self,
        snapshot: &Snapshot,
        merge: &LayerMerge,
        blob: &Blob,
    ) -> Result<MergeStep> {
        if !matches!(blob.content, Content::Pages { .. }) {
            return self.copy_appends(snapshot, merge);
        }
        let segments = self.segments_to_copy(snapshot, merge, blob.length)?;
        self.copy_pages(snapshot, merge, segments, blob.length)
    }

    /// Copies appends. They keep their ids, for which they may be encrypted.
    fn copy_appends(&self, snapshot: &Snapshot, merge: &LayerMerge) -> Result<MergeStep> {
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

    /// The next stretches of pages that the layers show, a little more than one step copies, and the offset where they end: that of
    /// the blob or of a window.
    fn segments_to_copy(
        &self,
        snapshot: &Snapshot,
        merge: &LayerMerge,
        length: u64,
    ) -> Result<(Vec<Segment>, u64)> {
        let rest = merge.next.min(length)..length;
        let mut shown = Overlay::new(&self.keyspaces, snapshot, &merge.layers, rest);
        let (mut segments, mut bytes) = (Vec::new(), 0);
        while let Some(segment) = shown.next()? {
            match segment.what {
                Written::Never => continue,
                Written::Cleared => {}
                Written::Pages(_) => bytes += segment.range.end - segment.range.start,
            }
            let end = window_of(segment.range.end) * WINDOW_BYTES;
            segments.push(segment);
            // More than one window has.
            let is_enough =
                bytes >= STEP_BYTES + 2 * WINDOW_BYTES || segments.len() > 2 * STEP_CONTENTS;
            if is_enough && merge.next < end && end < length {
                // Each window is copied in one step.
                segments.retain_mut(|segment| {
                    segment.range.end = segment.range.end.min(end);
                    segment.range.start < end
                });
                return Ok((segments, end));
            }
        }
        Ok((segments, length))
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

    /// Copies pages, whole windows at a time. They keep the nonce of their encryption, and their age.
    fn copy_pages(
        &self,
        snapshot: &Snapshot,
        merge: &LayerMerge,
        (segments, segments_end): (Vec<Segment>, u64),
        length: u64,
    ) -> Result<MergeStep> {
        let target = merge.target;
        let mut step = MergeStep {
            next: segments_end,
            ..MergeStep::default()
        };
        let mut windows: BTreeMap<u64, Vec<Extent>> = BTreeMap::new();
        let mut cleared = Vec::new();
        'segments: for mut segment in segments {
            if segment.what == Written::Cleared && is_large(&segment.range) {
                cleared.push(segment.range);
                continue;
            }
            while !segment.range.is_empty() {
                let start = segment.range.start;
                let window = window_of(start);
                if step.is_full() && !windows.contains_key(&window) {
                    step.next = start;
                    break 'segments;
                }
                let end = (segment.range.end)
                    .min((window + 1) * WINDOW_BYTES)
                    .min(start + EXTENT_BYTES_MAX);
                let pages = match segment.advance(end) {
                    Written::Pages(stored) => {
                        let content = self.ids.next_id();
                        let bytes = read_pages(&self.keyspaces, snapshot, &stored, end - start)?;
                        self.copy_content(&mut step, target.page_content(window, content), &bytes)?;
                        Some(Pages {
                            content,
                            skipped: 0,
                            stored: end - start,
                            sealed_as: Some(stored.pages.counter()),
                        })
                    }
                    _ => None,
                };
                let range = start..end;
                windows
                    .entry(window)
                    .or_default()
                    .push(Extent { range, pages });
            }
        }
        step.push_windows(target, windows, cleared);
        step.is_last = step.next >= length;
        Ok(step)
    }

    /// Adds a content to a step; its bytes go where those of its length belong.
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

    /// The sizes of layers after layers of these sizes were pushed and merged, `LayerMerge::LAYERS_MIN` or more at a time, and how
    /// many bytes were copied.
    fn grown(lengths: impl Iterator<Item = u64>) -> (Vec<u64>, u64) {
        let (mut layers, mut copied) = (Vec::<u64>::new(), 0);
        for length in lengths {
            layers.push(length);
            let end = layers.len() - 1;
            let first = first_to_merge(0, end, |number, _| Ok(layers[number])).unwrap();
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

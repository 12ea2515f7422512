//! Folding: an append blob gets a layer with each append that follows a snapshot or a copy, a page blob with each write that follows a
//! copy. Small layers at its end are copied into one, so that records, reads and later snapshots cost the same however many there were.

use super::page_ranges::is_later;
use super::permit::Action;
use super::write::{BlobWrite, Place};
use crate::BlobService;
use crate::codec;
use crate::download::missing;
use crate::error::Result;
use crate::keys::{self, File, History};
use crate::listing::unreadable;
use crate::model::{Blob, BlobAddress, BlobBlock, Extent, Layer, Pages};
use crate::page_write::{is_large, read_pages};
use crate::pages::{Overlay, Written};
use crate::upload::is_separated;
use crate::windows::{EXTENT_BYTES_MAX, WINDOW_BYTES, window_of};
use lazurite_engine::Direction;
use std::collections::BTreeMap;
use std::ops::Range;

/// Fewer layers than this are left as they are.
const LAYERS_MIN: usize = 16;
/// Most bytes that one write copies for each [`LAYERS_MIN`] layers that there are, up to a limit: few layers are folded cheaply, and many
/// large ones as well. A write copies many bytes only where many were written since the last that did.
const FOLDED_BYTES_MAX: u64 = 4 << 20;
/// The same for stretches of pages.
const FOLDED_SEGMENTS_MAX: usize = 2048;

/// Most times that the limits are multiplied. An append is carried out on the thread of its connection, a write of pages on another.
const APPENDS_SHARE_MAX: u64 = 16;
const PAGES_SHARE_MAX: u64 = 64;
/// A fold with a larger share puts small contents into the value log, too: with them the batch would exceed its limit.
const BATCH_SHARE_MAX: u64 = 8;

/// How many times the limits a write of a blob with so many layers may copy.
fn share_of(layers: usize, max: u64) -> u64 {
    (layers as u64 / LAYERS_MIN as u64).clamp(1, max)
}

/// Whether a write looks for layers of pages to fold: a look that finds too much is not repeated by each write, but when there are some
/// more layers, and rarer the more there are.
fn is_looked_at(layers: usize) -> bool {
    layers >= LAYERS_MIN && layers.is_multiple_of(layers.next_power_of_two() / 16)
}

impl BlobWrite<'_> {
    /// Puts a new layer in place of the last ones of an append blob, if there are many and these are small.
    pub(super) fn fold_appends(&mut self, blob: &mut Blob) -> Result<()> {
        let Some(first) = first_to_fold(&blob.layers) else {
            return Ok(());
        };
        let (file, share) = (
            self.new_file(),
            share_of(blob.layers.len(), APPENDS_SHARE_MAX),
        );
        let mut start = first
            .checked_sub(1)
            .map_or(0, |before| blob.layers[before].end);
        let folded = blob.layers.split_off(first);
        for layer in &folded {
            self.copy_appends(layer, start..layer.end, (file, share))?;
            start = layer.end;
        }
        let keyspaces = &self.service.keyspaces;
        for layer in &folded {
            self.files.remove(keyspaces, &mut self.batch, layer);
        }
        blob.layers.push(Layer {
            file,
            shared: false,
            end: start,
            windowed: false,
        });
        Ok(())
    }

    /// Copies the appends of a layer, which lie in this range of the blob, to another file. They keep their ids, and so what they are
    /// encrypted for.
    fn copy_appends(
        &mut self,
        layer: &Layer,
        range: Range<u64>,
        (to, share): (File, u64),
    ) -> Result<()> {
        let service = self.service;
        let keyspaces = &service.keyspaces;
        let snapshot = service.db.snapshot();
        let rows = layer.file.committed_from(range.start);
        let mut rows = snapshot.scan(&keyspaces.blocks, rows, Direction::Forward);
        while rows.advance()? {
            let end = keys::end_offset(rows.key()).ok_or_else(unreadable)?;
            if end > range.end {
                break;
            }
            let value = rows.value()?;
            let block = codec::decode_block(&value)?;
            let from = block.file.unwrap_or(layer.file);
            let content = snapshot.get(&keyspaces.content, &from.block_content(block.content))?;
            let content = content.ok_or_else(|| missing("an append has no content"))?;
            let key = to.block_content(block.content);
            self.put_content(&key, &content, share)?;
            let block = BlobBlock {
                file: None,
                ..block
            };
            let value = codec::encode_block(&block);
            self.batch
                .put(&keyspaces.blocks, &to.committed(end), &value);
        }
        Ok(())
    }
}

impl BlobService {
    /// As [`BlobService::begin_write`], of a page blob. One of many layers has the last of them folded first, in a write of its own, which
    /// changes nothing that can be seen.
    pub(super) fn begin_page_write(&self, address: &BlobAddress<'_>) -> Result<BlobWrite<'_>> {
        let mut write = self.begin_write(address)?;
        match write.changeable() {
            Ok((_, blob)) if is_looked_at(blob.layers.len()) => {
                if let Some(folded) = write.fold_pages(blob)? {
                    let permit = write.permit_current(Action::Refile)?;
                    write.put(&permit, &folded);
                    // Not waited for: without it the blob is what it was.
                    drop(write.commit()?);
                    return self.begin_write(address);
                }
                Ok(write)
            }
            _ => Ok(write),
        }
    }
}

/// What a fold copies: by window, the extents that the new layer has there.
type Folded = BTreeMap<u64, Vec<Extent>>;

impl BlobWrite<'_> {
    /// The blob with one layer in place of some at its end, if what these show is little.
    fn fold_pages(&mut self, mut blob: Blob) -> Result<Option<Blob>> {
        let kept = self.layers_of_snapshots(&blob)?;
        let all = blob.layers.len();
        // The most that may be folded at once, from the top.
        let above_kept = all.saturating_sub(kept.max(4));
        for count in [above_kept, all / 2, all / 4, all / 8, 4, 2] {
            let first = all - count;
            if first < kept || count < 2 {
                continue;
            }
            let file = self.new_file();
            let folded = (&blob.layers[first..], share_of(all, PAGES_SHARE_MAX));
            let Some(windows) = self.copy_pages(folded, blob.length, file)? else {
                continue;
            };
            let keyspaces = &self.service.keyspaces;
            for (number, extents) in windows {
                let value = codec::encode_window(number, &extents);
                let key = file.window(number, 0);
                self.batch.put(&keyspaces.blocks, &key, &value);
            }
            for layer in &blob.layers.split_off(first) {
                self.files.remove(keyspaces, &mut self.batch, layer);
            }
            blob.layers.push(Layer {
                file,
                shared: false,
                end: 0,
                windowed: true,
            });
            return Ok(Some(blob));
        }
        Ok(None)
    }

    /// How many layers the blob has in common with its snapshots at most. They tell what has changed since, and are not folded.
    fn layers_of_snapshots(&self, blob: &Blob) -> Result<usize> {
        let Some(moment) = self.last_moment(History::Snapshot)? else {
            return Ok(0);
        };
        let newest = self.past(Place::Past(History::Snapshot, moment))?;
        let newest = newest.filter(|newest| is_later(blob, newest));
        Ok(newest.map_or(0, |newest| newest.layers.len()))
    }

    /// Copies what layers show to a file, where it keeps what it was encrypted for and how old it is. `None` if it is more than `share` times
    /// what a write may copy.
    fn copy_pages(
        &mut self,
        (layers, share): (&[Layer], u64),
        length: u64,
        to: File,
    ) -> Result<Option<Folded>> {
        let service = self.service;
        let keyspaces = &service.keyspaces;
        let snapshot = service.db.snapshot();
        let mut shown = Overlay::new(keyspaces, &snapshot, layers, 0..length);
        let (mut segments, mut bytes) = (Vec::new(), 0);
        while let Some(segment) = shown.next()? {
            match segment.what {
                Written::Never => continue,
                // A stretch that was cleared at once is left in the row that says so.
                Written::Cleared if is_large(&segment.range) => return Ok(None),
                Written::Cleared => {}
                Written::Pages(_) => bytes += segment.range.end - segment.range.start,
            }
            segments.push(segment);
            if bytes > share * FOLDED_BYTES_MAX
                || segments.len() as u64 > share * FOLDED_SEGMENTS_MAX as u64
            {
                return Ok(None);
            }
        }
        let mut windows = Folded::new();
        for mut segment in segments {
            while !segment.range.is_empty() {
                let start = segment.range.start;
                let window = window_of(start);
                let end = (segment.range.end)
                    .min((window + 1) * WINDOW_BYTES)
                    .min(start + EXTENT_BYTES_MAX);
                let pages = match segment.advance(end) {
                    Written::Pages(stored) => {
                        let copy = service.ids.next_id();
                        let key = to.page_content(window, copy);
                        let content = read_pages(keyspaces, &snapshot, &stored, end - start)?;
                        self.put_content(&key, &content, share)?;
                        Some(Pages {
                            content: copy,
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
        Ok(Some(windows))
    }

    /// Puts the bytes of a content where those of its length belong.
    fn put_content(&mut self, key: &[u8], content: &[u8], share: u64) -> Result<()> {
        let keyspace = &self.service.keyspaces.content;
        if is_separated(&self.service.db, content) || share > BATCH_SHARE_MAX {
            let large = self.service.db.write_value(content)?;
            self.batch.put_large(keyspace, key, large);
        } else {
            self.batch.put(keyspace, key, content);
        }
        Ok(())
    }
}

/// The first of the last layers that are worth folding: each at most twice as long as all behind it. So a byte is copied a few times, as
/// often as its layer doubles, and what is not folded shrinks by the same factor from layer to layer.
fn first_to_fold(layers: &[Layer]) -> Option<usize> {
    if layers.len() < LAYERS_MIN {
        return None;
    }
    let bytes_max = share_of(layers.len(), APPENDS_SHARE_MAX) * FOLDED_BYTES_MAX;
    let (mut first, mut bytes) = (layers.len(), 0);
    while let Some(next) = first.checked_sub(1) {
        let start = next.checked_sub(1).map_or(0, |before| layers[before].end);
        let length = layers[next].end.saturating_sub(start);
        let is_last = first == layers.len();
        if bytes + length > bytes_max || (!is_last && length > 2 * bytes) {
            break;
        }
        (first, bytes) = (next, bytes + length);
    }
    (layers.len() - first > 1).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers as they are after appends of these lengths, each behind a snapshot; and how many bytes were copied.
    fn grown(lengths: impl Iterator<Item = u64>) -> (Vec<Layer>, u64) {
        let (mut layers, mut copied, mut end) = (Vec::new(), 0, 0);
        for length in lengths {
            if let Some(first) = first_to_fold(&layers) {
                let start = first
                    .checked_sub(1)
                    .map_or(0, |before: usize| layers[before].end);
                copied += end - start;
                layers.truncate(first);
            } else {
                layers.push(layer(end));
            }
            if layers.last().is_none_or(|last| last.end != end) {
                layers.push(layer(end));
            }
            end += length;
            layers.last_mut().unwrap().end = end;
        }
        (layers, copied)
    }

    fn layer(end: u64) -> Layer {
        Layer {
            file: File { home: 0, id: 0 },
            shared: true,
            end,
            windowed: false,
        }
    }

    #[test]
    fn layers_stay_few_and_bytes_are_copied_a_few_times() {
        for length in [1, 100, 30_000] {
            let (layers, copied) = grown((0..20_000).map(|_| length));
            let whole = 20_000 * length / FOLDED_BYTES_MAX * 2;
            assert!(layers.len() as u64 <= 40 + whole, "{}", layers.len());
            assert!(copied <= 20 * 20_000 * length, "{copied}");
        }
        // Appends that are larger than what few layers let a write copy.
        for lengths in [[1, 8 << 20], [5 << 20, 5 << 20]] {
            let (layers, copied) = grown((0..5000).map(|number| lengths[number % 2]));
            assert!(layers.len() < 1000, "{}", layers.len());
            let total = 2500 * (lengths[0] + lengths[1]);
            assert!(copied <= 20 * total, "{copied} of {total}");
        }
    }

    #[test]
    fn looks_for_pages_to_fold_become_rare() {
        let looks = (0..1 << 14).filter(|layers| is_looked_at(*layers)).count();
        assert!(looks < 120, "{looks}");
        assert!(is_looked_at(LAYERS_MIN));
    }
}

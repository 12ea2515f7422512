//! Pages: the tree of a page blob.
//!
//! The record of a page blob names the root of a tree of fixed height. A leaf has the extents of
//! one window of 128 KiB, a branch the ids of up to 64 children, a root of up to 256. Bytes without
//! an extent are zeros and take no space. A tree holds one state of one blob and nothing else: no
//! older states, and nothing after the end of the blob.
//!
//! A snapshot or a copy names the root of its source. All blobs that may have nodes in common are
//! in one file, which counts the references to each node and each content: see
//! `page_references.rs`. A write copies the nodes on its path that others refer to, and changes the
//! rest in place: see `page_write.rs`. Equal ids are equal pages, so the differences between two
//! trees are found without reading what they have in common.

use crate::codec;
use crate::error::{Result, missing};
use crate::keys::{ContentName, File};
use crate::keyspaces::{Keyspaces, Source};
use crate::model::{Extent, Layer, Pages};
use crate::place::{Branch, Place};
use bytes::Bytes;
use lazurite_engine::Snapshot;
use std::collections::BTreeMap;
use std::ops::Range;

/// The unit of a page blob, in bytes.
pub(crate) const PAGE_BYTES: u64 = 512;
/// Pages and where their content is filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    file: File,
    window: u64,
    pub(crate) pages: Pages,
}

impl Stored {
    pub(crate) fn content_name(&self) -> ContentName {
        ContentName {
            file: self.file,
            window: Some(self.window),
            content: self.pages.content,
        }
    }
}

/// A stretch in which two trees differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) range: Range<u64>,
    /// What the later tree has there; `None` for zeros.
    pub(crate) stored: Option<Stored>,
}

/// The differences between two trees of one file, in order. Those between no tree and a tree are
/// the extents of it.
#[derive(Debug)]
pub(crate) struct Changes {
    keyspaces: Keyspaces,
    snapshot: Snapshot,
    file: File,
    range: Range<u64>,
    /// Places that are still to be compared, the next one last, with the nodes that the two trees
    /// have there.
    places: Vec<(Place, [Option<u128>; 2])>,
    found: std::vec::IntoIter<Change>,
    /// Nodes that were read.
    #[cfg(test)]
    pub(crate) nodes_read: usize,
}

impl Changes {
    /// The changes in `range` that `layer` has over the tree with the root `before`.
    pub(crate) fn new(
        keyspaces: &Keyspaces,
        snapshot: &Snapshot,
        before: Option<u128>,
        layer: &Layer,
        range: Range<u64>,
    ) -> Changes {
        Changes {
            keyspaces: keyspaces.clone(),
            snapshot: snapshot.clone(),
            file: layer.file,
            range,
            places: vec![(Place::ROOT, [before, layer.root])],
            found: Vec::new().into_iter(),
            #[cfg(test)]
            nodes_read: 0,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Change>> {
        loop {
            if let Some(change) = self.found.next() {
                return Ok(Some(change));
            }
            let Some((place, nodes)) = self.places.pop() else {
                return Ok(None);
            };
            if nodes[0] == nodes[1] {
                continue;
            }
            #[cfg(test)]
            {
                self.nodes_read += nodes.iter().flatten().count();
            }
            if place.is_leaf() {
                self.compare_leaves(place, nodes)?;
            } else {
                self.compare_branches(place, nodes)?;
            }
        }
    }

    fn compare_branches(&mut self, place: Place, nodes: [Option<u128>; 2]) -> Result<()> {
        let mut children = BTreeMap::<u8, [Option<u128>; 2]>::new();
        for (side, node) in nodes.into_iter().enumerate() {
            for (child, id) in self
                .keyspaces
                .branch(&self.snapshot, self.file, place, node)?
            {
                children.entry(child).or_default()[side] = Some(id);
            }
        }
        let children = children.into_iter().rev();
        let children = children.map(|(child, nodes)| (place.child(child), nodes));
        let range = &self.range;
        let wanted = children.filter(|(place, _)| !intersection(&place.range(), range).is_empty());
        self.places.extend(wanted);
        Ok(())
    }

    fn compare_leaves(&mut self, place: Place, nodes: [Option<u128>; 2]) -> Result<()> {
        let [before, after] =
            nodes.map(|node| self.keyspaces.leaf(&self.snapshot, self.file, place, node));
        let before = before?;
        let after = after?;
        let changes = if before.is_empty() {
            let changes = after.into_iter();
            let changes = changes.map(|extent| (extent.range, Some(extent.pages)));
            changes.collect()
        } else {
            changed_pages(place, &before, &after)
        };
        let changes = changes.into_iter().filter_map(|(range, pages)| {
            let part = intersection(&range, &self.range);
            let stored = pages.map(|pages| Stored {
                file: self.file,
                window: place.number,
                pages: pages.skip(part.start.saturating_sub(range.start)),
            });
            let change = Change {
                range: part,
                stored,
            };
            (!change.range.is_empty()).then_some(change)
        });
        self.found = changes.collect::<Vec<_>>().into_iter();
        Ok(())
    }
}

/// The pages that differ between two leaves of one place. Pages that were only copied to another
/// content did not change.
fn changed_pages(
    place: Place,
    before: &[Extent],
    after: &[Extent],
) -> Vec<(Range<u64>, Option<Pages>)> {
    let (before, after) = (pages_of(before), pages_of(after));
    let starts = place.range().step_by(PAGE_BYTES as usize);
    let changed = starts.filter_map(|start| {
        let (was, is) = (before.get(&start), after.get(&start));
        let is_same = was.map(Pages::counter) == is.map(Pages::counter);
        (!is_same).then(|| (start..start + PAGE_BYTES, is.copied()))
    });
    changed.collect()
}

/// The pages of a leaf, by where they begin.
fn pages_of(extents: &[Extent]) -> BTreeMap<u64, Pages> {
    let pages = |extent: &Extent| {
        let (first, pages) = (extent.range.start, extent.pages);
        let starts = extent.range.clone().step_by(PAGE_BYTES as usize);
        starts.map(move |start| (start, pages.skip(start - first)))
    };
    extents.iter().flat_map(pages).collect()
}

impl Keyspaces {
    /// The children of a branch; none of one that is not there.
    pub(crate) fn branch(
        &self,
        source: &impl Source,
        file: File,
        place: Place,
        node: Option<u128>,
    ) -> Result<Branch> {
        let value = self.node(source, file, place, node)?;
        value.map_or_else(|| Ok(Branch::new()), |value| codec::decode_branch(&value))
    }

    /// The extents of a leaf; none of one that is not there.
    pub(crate) fn leaf(
        &self,
        source: &impl Source,
        file: File,
        place: Place,
        node: Option<u128>,
    ) -> Result<Vec<Extent>> {
        let value = self.node(source, file, place, node)?;
        let decode = |value: Bytes| codec::decode_leaf(place.number, &value);
        value.map_or_else(|| Ok(Vec::new()), decode)
    }

    fn node(
        &self,
        source: &impl Source,
        file: File,
        place: Place,
        node: Option<u128>,
    ) -> Result<Option<Bytes>> {
        let Some(id) = node else {
            return Ok(None);
        };
        let value = source.get(&self.blocks, &file.node(place, id))?;
        let value =
            value.ok_or_else(|| missing("a tree of pages refers to a node that is not there"));
        value.map(Some)
    }
}

impl Layer {
    /// The only layer of a page blob.
    pub(crate) fn of_pages(layers: &[Layer]) -> Result<&Layer> {
        let layer = layers.first();
        layer.ok_or_else(|| missing("a page blob has no file"))
    }
}

impl Pages {
    /// The same without their first bytes.
    pub(crate) fn skip(mut self, bytes: u64) -> Pages {
        self.skipped += bytes;
        self
    }
}

impl Extent {
    /// The parts of the extent outside `range`.
    pub(crate) fn without(&self, range: &Range<u64>) -> impl Iterator<Item = Extent> {
        let Range { start, end } = self.range;
        let before = start..end.min(range.start);
        let after = start.max(range.end)..end;
        let (first, pages) = (start, self.pages);
        let parts = [before, after].into_iter();
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(move |range| Extent {
            pages: pages.skip(range.start - first),
            range,
        })
    }
}

/// The bytes that two ranges have in common.
pub(crate) fn intersection(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WINDOW_BYTES;

    fn extent(range: Range<u64>) -> Extent {
        let pages = Pages {
            content: 1,
            skipped: 0,
            stored: range.end - range.start,
            sealed_as: None,
        };
        Extent { range, pages }
    }

    #[test]
    fn an_extent_is_cut_to_the_parts_outside_a_range() {
        for (there, expected) in [
            (0..5, &[(0, 5)][..]),
            (0..10, &[(0, 10)]),
            (12..18, &[]),
            (5..15, &[(5, 10)]),
            (15..25, &[(20, 25)]),
            (5..50, &[(5, 10), (20, 50)]),
            (20..30, &[(20, 30)]),
        ] {
            let left: Vec<Extent> = extent(there.clone()).without(&(10..20)).collect();
            let ranges: Vec<_> = left
                .iter()
                .map(|part| (part.range.start, part.range.end))
                .collect();
            assert_eq!(ranges, expected, "{there:?}");
            for part in left {
                assert_eq!(part.pages.skipped, part.range.start - there.start);
            }
        }
    }

    #[test]
    fn places_of_children_are_found_by_offset() {
        for offset in [0, WINDOW_BYTES - 1, WINDOW_BYTES, 123 << 30, (8 << 40) - 1] {
            let mut place = Place::ROOT;
            while !place.is_leaf() {
                place = place.child(place.child_at(offset));
                assert!(place.range().contains(&offset), "{offset} {place:?}");
            }
            assert_eq!(place.number, offset / WINDOW_BYTES);
        }
    }
}

//! Pages: the tree of a page blob.
//!
//! The record of a page blob names the root of a tree of fixed height. A leaf has the extents of
//! one window of 128 KiB, a branch the ids of up to 64 children, a root of up to 256. Bytes without
//! an extent are zeros and take no space. A tree holds one state of one blob and nothing else: no
//! older states, and nothing after the end of the blob.
//!
//! A clear leaves its id in the pages that it emptied: in an extent of a leaf, or in a branch in
//! place of a child. So the differences to a snapshot list pages that were cleared since, whether
//! or not they had content in the snapshot. While no other record names the file, no tree can be
//! compared with this one: then clears leave no ids, and a node that is written again loses the ids
//! that it has.
//!
//! A snapshot or a copy names the root of its source. All blobs that may have nodes in common are
//! in one file, which counts the references to each node and each content: see
//! `page_references.rs`. A write copies the nodes on its path that others also refer to, and
//! changes the rest in place: see `page_write.rs`. Equal ids mean equal pages, so the differences
//! between two trees are found without reading what they have in common.

use crate::codec;
use crate::error::{Result, missing};
use crate::keys::{ContentName, File};
use crate::keyspaces::{Keyspaces, Source};
use crate::model::{Extent, Fill, Layer, Pages};
use crate::place::{Branch, Child, Place};
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
    /// The pages of the later tree; `None` for zeros, which were cleared or removed.
    pub(crate) stored: Option<Stored>,
}

/// The differences between two trees of one file, in order. The differences between no tree and a
/// tree are the tree's extents.
#[derive(Debug)]
pub(crate) struct Changes {
    keyspaces: Keyspaces,
    snapshot: Snapshot,
    file: File,
    range: Range<u64>,
    /// Places that are still to be compared, the next one last, with the children of both trees
    /// there.
    places: Vec<(Place, [Option<Child>; 2])>,
    found: std::vec::IntoIter<Change>,
    /// Number of nodes that were read.
    #[cfg(test)]
    pub(crate) nodes_read: usize,
}

impl Changes {
    /// The changes in `range` from the tree with the root `before` to the tree of `layer`.
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
            places: vec![(
                Place::ROOT,
                [before, layer.root].map(|root| root.map(Child::Node)),
            )],
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
            let Some((place, both)) = self.places.pop() else {
                return Ok(None);
            };
            #[cfg(test)]
            {
                let is_read = both[0] != both[1];
                let nodes = both.iter().flatten().filter_map(|child| child.node());
                self.nodes_read += nodes.filter(|_| is_read).count();
            }
            match both {
                [before, after] if before == after => {}
                [Some(Child::Cleared(_)), None] => {}
                // The clear is later than all that the earlier tree has there.
                [_, Some(Child::Cleared(_))] => {
                    return Ok(Some(Change {
                        range: intersection(&place.range(), &self.range),
                        stored: None,
                    }));
                }
                _ if place.is_leaf() => self.compare_leaves(place, both)?,
                _ => self.compare_branches(place, both)?,
            }
        }
    }

    fn compare_branches(&mut self, place: Place, both: [Option<Child>; 2]) -> Result<()> {
        let mut children = BTreeMap::<u8, [Option<Child>; 2]>::new();
        for (side, branch) in both.into_iter().enumerate() {
            for (number, child) in
                self.keyspaces
                    .branch(&self.snapshot, self.file, place, branch)?
            {
                children.entry(number).or_default()[side] = Some(child);
            }
        }
        let children = children.into_iter().rev();
        let children = children.map(|(number, both)| (place.child(number), both));
        let range = &self.range;
        let wanted = children.filter(|(place, _)| !intersection(&place.range(), range).is_empty());
        self.places.extend(wanted);
        Ok(())
    }

    fn compare_leaves(&mut self, place: Place, both: [Option<Child>; 2]) -> Result<()> {
        let [before, after] =
            both.map(|leaf| self.keyspaces.leaf(&self.snapshot, self.file, place, leaf));
        let before = before?;
        let after = after?;
        let changes = if before.is_empty() {
            let changes = after.into_iter();
            let changes = changes.map(|extent| (extent.range, extent.fill.pages()));
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

/// The pages that differ between two leaves of one place.
fn changed_pages(
    place: Place,
    before: &[Extent],
    after: &[Extent],
) -> Vec<(Range<u64>, Option<Pages>)> {
    let (before, after) = (pages_of(before), pages_of(after));
    let starts = place.range().step_by(PAGE_BYTES as usize);
    let changed = starts.filter_map(|start| {
        let (was, is) = (before.get(&start), after.get(&start));
        let has_changed = match (was, is) {
            // The blob was shorter in between, and the page was removed.
            (was, None) => matches!(was, Some(Fill::Pages(_))),
            (was, Some(is)) => was.map(Fill::origin) != Some(is.origin()),
        };
        let pages = is.and_then(|fill| fill.pages());
        has_changed.then(|| (start..start + PAGE_BYTES, pages))
    });
    changed.collect()
}

/// The pages of a leaf that were written or cleared, by where they begin.
fn pages_of(extents: &[Extent]) -> BTreeMap<u64, Fill> {
    let pages = |extent: &Extent| {
        let (first, fill) = (extent.range.start, extent.fill);
        let starts = extent.range.clone().step_by(PAGE_BYTES as usize);
        starts.map(move |start| (start, fill.skip(start - first)))
    };
    extents.iter().flat_map(pages).collect()
}

impl Keyspaces {
    /// The children of the branch at a place; none where the tree has nothing.
    pub(crate) fn branch(
        &self,
        source: &impl Source,
        file: File,
        place: Place,
        branch: Option<Child>,
    ) -> Result<Branch> {
        match branch {
            None => Ok(Branch::new()),
            Some(Child::Node(id)) => codec::decode_branch(&self.node(source, file, place, id)?),
            Some(cleared) => Ok(place.children().map(|child| (child, cleared)).collect()),
        }
    }

    /// The extents of the leaf at a place; none where the tree has nothing.
    pub(crate) fn leaf(
        &self,
        source: &impl Source,
        file: File,
        place: Place,
        leaf: Option<Child>,
    ) -> Result<Vec<Extent>> {
        match leaf {
            None => Ok(Vec::new()),
            Some(Child::Node(id)) => {
                codec::decode_leaf(place.number, &self.node(source, file, place, id)?)
            }
            Some(Child::Cleared(id)) => Ok(vec![Extent {
                range: place.range(),
                fill: Fill::Cleared(id),
            }]),
        }
    }

    fn node(&self, source: &impl Source, file: File, place: Place, id: u128) -> Result<Bytes> {
        let value = source.get(&self.blocks, &file.node(place, id))?;
        value.ok_or_else(|| missing("a tree of pages refers to a node that is not there"))
    }
}

impl Layer {
    /// The only layer of a page blob. Errors: `InternalError` if there is none.
    pub(crate) fn of_pages(layers: &[Layer]) -> Result<&Layer> {
        let layer = layers.first();
        layer.ok_or_else(|| missing("a page blob has no file"))
    }
}

impl Extent {
    /// The parts of the extent outside `range`.
    pub(crate) fn without(&self, range: &Range<u64>) -> impl Iterator<Item = Extent> {
        let Range { start, end } = self.range;
        let before = start..end.min(range.start);
        let after = start.max(range.end)..end;
        let (first, fill) = (start, self.fill);
        let parts = [before, after].into_iter();
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(move |range| Extent {
            fill: fill.skip(range.start - first),
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
        let fill = Fill::Pages(pages);
        Extent { range, fill }
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
                let skipped = part.fill.pages().unwrap().skipped;
                assert_eq!(skipped, part.range.start - there.start);
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

//! A write to the tree of a page blob: replaces a stretch with other pages, or with zeros, which
//! may be marked with the id of the clear.
//!
//! The write descends to the leaves that contain a part of the stretch. On its path it changes
//! nodes in place if only this blob refers to them; it copies other nodes, and the copy refers to
//! the same children and contents. Children that are wholly within a stretch of zeros are dropped
//! without being read.

use crate::codec::{self, contents};
use crate::download::Piece;
use crate::error::{Result, missing};
use crate::files::FileRows;
use crate::keys::File;
use crate::model::{Extent, Fill, Layer, Pages, WINDOW_BYTES};
use crate::page_references::References;
use crate::pages::intersection;
use crate::place::{Child, Place};
use crate::service::BlobService;
use crate::upload::Uploaded;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// The largest ratio of a content's length to the length of its parts in use. If the ratio is
/// greater, the parts in use are copied to new contents. So stored bytes are at most four times the
/// readable ones, and copied bytes at most a third of the overwritten ones.
const UNUSED_MAX: u64 = 4;

/// A write to the pages of one blob.
pub(crate) struct PageWrite<'a> {
    service: &'a BlobService,
    rows: FileRows<'a>,
    references: References<'a>,
    file: File,
    range: Range<u64>,
    /// The new extents of each window.
    extents: BTreeMap<u64, Vec<Extent>>,
    /// Whether another tree of the file may be compared with this one.
    is_compared: bool,
    /// The id of the clear that the stretch is marked with; `None` if it is not marked.
    clear: Option<u128>,
    /// Whether nodes have lost their last reference.
    pub(crate) drops: bool,
}

impl<'a> PageWrite<'a> {
    /// Returns a write of zeros without the id of a clear. The caller must hold the lock of the
    /// layer's file if the file is shared.
    pub(crate) fn new(
        service: &'a BlobService,
        rows: FileRows<'a>,
        layer: &Layer,
        range: Range<u64>,
    ) -> Result<PageWrite<'a>> {
        Ok(PageWrite {
            service,
            rows,
            references: References::new(service, layer.file, layer.shared),
            file: layer.file,
            range,
            extents: BTreeMap::new(),
            is_compared: service.is_shared(layer)?,
            clear: None,
            drops: false,
        })
    }

    /// Marks the zeros as cleared, if a comparison could show that.
    pub(crate) fn clear(&mut self) {
        self.clear = self.is_compared.then(|| self.service.ids.next_id());
    }

    /// Writes a body instead of zeros.
    pub(crate) fn put(&mut self, body: Uploaded) {
        let mut start = self.range.start;
        for piece in body.into_pieces() {
            let range = start..start + piece.length;
            let window = start / WINDOW_BYTES;
            assert_eq!(
                window,
                (range.end - 1) / WINDOW_BYTES,
                "a content is of one window"
            );
            let key = self.file.page_content(window, piece.content);
            piece.value.put(&mut self.rows, &key);
            start = range.end;
            self.extents.entry(window).or_default().push(Extent {
                range,
                fill: Fill::Pages(Pages {
                    content: piece.content,
                    skipped: 0,
                    stored: piece.length,
                    sealed_as: None,
                }),
            });
        }
    }

    /// Applies the write to the tree with this root. Returns the new root.
    pub(crate) fn apply(&mut self, root: Option<u128>) -> Result<Option<u128>> {
        let root = self.write_node(Place::ROOT, root.map(Child::Node), false)?;
        Ok(root.and_then(Child::node))
    }

    /// Returns the child at the place after the write. `is_seen`: others refer to a node above.
    fn write_node(
        &mut self,
        place: Place,
        child: Option<Child>,
        is_seen: bool,
    ) -> Result<Option<Child>> {
        let node = child.and_then(Child::node);
        let count = node.map_or(Ok(1), |id| self.references.count(id))?;
        let copied = Copied {
            above: is_seen,
            here: is_seen || count > 1,
        };
        if place.is_leaf() {
            self.write_leaf(place, child, copied)
        } else {
            self.write_branch(place, child, copied)
        }
    }

    fn write_branch(
        &mut self,
        place: Place,
        branch: Option<Child>,
        copied: Copied,
    ) -> Result<Option<Child>> {
        let service = self.service;
        let before = service
            .keyspaces
            .branch(&service.db, self.file, place, branch)?;
        let mut after = before.clone();
        let cleared = place.children().filter(|_| self.clear.is_some());
        let written = before.keys().copied().chain(cleared);
        let written = written.filter(|child| self.concerns(place.child(*child)));
        for number in written
            .chain(self.new_children(place))
            .collect::<BTreeSet<u8>>()
        {
            let child = before.get(&number).copied();
            match self.write_child(place.child(number), child, copied.here)? {
                Some(child) => after.insert(number, child),
                None => after.remove(&number),
            };
        }
        after.retain(|_, child| self.is_compared || child.node().is_some());
        if after == before {
            return Ok(branch);
        }
        if copied.here {
            for (number, child) in &after {
                if let Child::Node(id) = child
                    && before.get(number) == Some(child)
                {
                    self.references.add(&mut self.rows, *id, 1)?;
                }
            }
        }
        let value = (!after.is_empty()).then(|| codec::encode_branch(&after));
        self.put_node(place, branch, copied, value)
    }

    /// Whether a part of the place is in the stretch.
    fn concerns(&self, place: Place) -> bool {
        !intersection(&place.range(), &self.range).is_empty()
    }

    /// The children of a branch that get new extents.
    fn new_children(&self, place: Place) -> Vec<u8> {
        let starts = self.new_starts();
        let starts = starts.filter(|start| place == Place::ROOT || place.range().contains(start));
        starts.map(|start| place.child_at(start)).collect()
    }

    /// The offsets at which windows with new extents begin.
    fn new_starts(&self) -> impl Iterator<Item = u64> {
        self.extents.keys().map(|window| window * WINDOW_BYTES)
    }

    fn write_child(
        &mut self,
        place: Place,
        child: Option<Child>,
        is_seen: bool,
    ) -> Result<Option<Child>> {
        let range = place.range();
        let is_inside = intersection(&range, &self.range) == range;
        let is_emptied = is_inside && self.new_starts().all(|start| !range.contains(&start));
        if !is_emptied {
            return self.write_node(place, child, is_seen);
        }
        if let Some(Child::Node(id)) = child
            && !is_seen
        {
            self.drops |= self.references.release(&mut self.rows, place, id)?;
        }
        Ok(self.clear.map(Child::Cleared))
    }

    fn write_leaf(
        &mut self,
        place: Place,
        leaf: Option<Child>,
        copied: Copied,
    ) -> Result<Option<Child>> {
        let service = self.service;
        let before = service
            .keyspaces
            .leaf(&service.db, self.file, place, leaf)?;
        let kept = before.iter().flat_map(|extent| extent.without(&self.range));
        let is_kept = |extent: &Extent| self.is_compared || extent.fill.pages().is_some();
        let mut after: Vec<Extent> = kept.filter(is_kept).collect();
        if after != before {
            self.leave_unused(place.number, &mut after)?;
        }
        let new = self.extents.remove(&place.number);
        after.extend(new.into_iter().flatten());
        after.extend(self.clear.map(|id| Extent {
            range: intersection(&place.range(), &self.range),
            fill: Fill::Cleared(id),
        }));
        after.sort_by_key(|extent| extent.range.start);
        if after == before {
            return Ok(leaf);
        }
        let (old, new) = (contents(&before), contents(&after));
        if copied.here {
            for content in old.intersection(&new) {
                self.references.add(&mut self.rows, *content, 1)?;
            }
        } else {
            for content in old.difference(&new) {
                let rows = &mut self.rows;
                self.references
                    .release_content(rows, place.number, *content)?;
            }
        }
        let value = (!after.is_empty()).then(|| codec::encode_leaf(place.number, &after));
        self.put_node(place, leaf, copied, value)
    }

    /// Stores the new node, if the place still has one, in place of the old node or beside it.
    fn put_node(
        &mut self,
        place: Place,
        old: Option<Child>,
        copied: Copied,
        value: Option<Vec<u8>>,
    ) -> Result<Option<Child>> {
        let node = old.and_then(Child::node);
        let own = node.filter(|_| !copied.here);
        if let Some(id) = node.filter(|_| copied.here && !copied.above) {
            self.drops |= self.references.release(&mut self.rows, place, id)?;
        }
        let Some(value) = value else {
            if let Some(id) = own {
                self.rows.delete_block(&self.file.node(place, id));
            }
            return Ok(None);
        };
        let id = own.unwrap_or_else(|| self.service.ids.next_id());
        self.rows.put_block(&self.file.node(place, id), &value);
        Ok(Some(Child::Node(id)))
    }

    /// Copies the used parts of contents that are mostly unused, so that those contents can be
    /// dropped.
    fn leave_unused(&mut self, window: u64, extents: &mut [Extent]) -> Result<()> {
        let mut used = HashMap::<u128, u64>::new();
        for Extent { range, fill } in &*extents {
            if let Fill::Pages(pages) = fill {
                *used.entry(pages.content).or_default() += range.end - range.start;
            }
        }
        for Extent { range, fill } in extents {
            if let Fill::Pages(pages) = fill
                && used[&pages.content] * UNUSED_MAX < pages.stored
            {
                *pages = self.copy(window, range.end - range.start, *pages)?;
            }
        }
        Ok(())
    }

    /// Copies the bytes of an extent to a content of its own, as stored: possibly encrypted.
    fn copy(&mut self, window: u64, length: u64, pages: Pages) -> Result<Pages> {
        let (keyspaces, snapshot) = (&self.service.keyspaces, self.service.db.snapshot());
        let row = self.file.page_content(window, pages.content);
        let mut old = Piece::open(&snapshot, &keyspaces.content, &row, pages.skipped)?;
        let mut bytes = Vec::with_capacity(length as usize);
        while bytes.len() < length as usize {
            let chunk = old.next(length as usize - bytes.len())?;
            if chunk.is_empty() {
                return Err(missing("an extent of pages is longer than its content"));
            }
            bytes.extend_from_slice(&chunk);
        }
        let content = self.service.ids.next_id();
        let key = self.file.page_content(window, content);
        self.rows.put_content(&key, &bytes);
        Ok(Pages {
            content,
            skipped: 0,
            stored: length,
            sealed_as: Some(pages.counter()),
        })
    }
}

/// Whether a write makes copies of nodes because others refer to them.
#[derive(Debug, Clone, Copy)]
struct Copied {
    /// Whether the node above is copied; its copy refers to nothing yet.
    above: bool,
    /// Whether this node is copied.
    here: bool,
}

//! Writes to the pages of one file: cuts old extents and puts new ones. The invariants are in `pages.rs`.

use crate::codec;
use crate::download::Piece;
use crate::epochs::{Writer, contents};
use crate::error::Result;
use crate::error::missing;
use crate::files::FileRows;
use crate::keys::File;
use crate::keyspaces::Keyspaces;
use crate::model::WINDOW_BYTES;
use crate::model::{Extent, Pages};
use crate::pages::{UNREAD_MAX, cleared_at, subtract};
use crate::segment::Stored;
use crate::service::BlobService;
use crate::upload::Uploaded;
use crate::windows::{EXTENT_BYTES_MAX, Window, Windows, first_window, window_of};
use lazurite_engine::{Direction, Snapshot};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Most windows that are rewritten one by one; more are dropped by range, or hidden.
const WINDOWS_CUT_MAX: u64 = 256;

/// Whether a stretch is too large for rewriting its windows one by one.
pub(crate) fn is_large(range: &Range<u64>) -> bool {
    window_of(range.end) - window_of(range.start) > WINDOWS_CUT_MAX
}

/// The bytes of stored pages as they are, which may be encrypted.
pub(crate) fn read_pages(
    keyspaces: &Keyspaces,
    snapshot: &Snapshot,
    stored: &Stored,
    length: u64,
) -> Result<Vec<u8>> {
    let (content, row) = (&keyspaces.content, stored.content_name().key());
    let mut piece = Piece::open(snapshot, content, &row, stored.pages.skipped)?;
    let length = length as usize;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let chunk = piece.next(length - bytes.len())?;
        if chunk.is_empty() {
            return Err(missing("an extent of pages is longer than its content"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// A write to the pages of one file, in a batch. A batch rewrites each window at most once.
pub(crate) struct PageWrite<'a> {
    pub(crate) service: &'a BlobService,
    pub(crate) rows: FileRows<'a>,
    pub(crate) file: File,
    pub(crate) writer: Writer,
}

impl PageWrite<'_> {
    /// Replaces the pages from `start` on by uploaded ones.
    pub(crate) fn put(&mut self, start: u64, uploaded: Uploaded) -> Result<()> {
        let (range, mut extents) = (start..start + uploaded.length, Vec::new());
        let mut start = start;
        for piece in uploaded.into_pieces() {
            assert!(
                piece.length <= EXTENT_BYTES_MAX,
                "pages come in small contents"
            );
            let range = start..start + piece.length;
            let key = self.file.page_content(window_of(start), piece.content);
            piece.value.put(&mut self.rows, &key);
            start = range.end;
            extents.push(Extent {
                range,
                pages: Some(Pages {
                    content: piece.content,
                    skipped: 0,
                    stored: piece.length,
                    sealed_as: None,
                }),
            });
        }
        self.replace(&range, extents)
    }

    /// Removes the extents of a stretch from the file. The stretch must not be large if other records see the file.
    pub(crate) fn cut(&mut self, range: &Range<u64>) -> Result<()> {
        if !is_large(range) {
            return self.replace(range, Vec::new());
        }
        assert_eq!(
            self.writer.base, None,
            "layers that other records see are not dropped"
        );
        // Drops windows whose extents all lie in the stretch; rewrites those at its ends.
        let first = range.start.div_ceil(WINDOW_BYTES);
        let last = (range.end - EXTENT_BYTES_MAX) / WINDOW_BYTES;
        self.rows.delete_blocks(self.file.windows(first..last));
        let contents = self.file.page_contents(first..last);
        self.rows.delete_contents(contents);
        let ends = [
            first_window(range.start)..first,
            last..window_of(range.end) + 1,
        ];
        self.replace_in(&ends, range, Vec::new())
    }

    /// Puts cleared extents, which hide lower layers. The stretch is not large.
    pub(crate) fn put_cleared(&mut self, range: &Range<u64>) -> Result<()> {
        let mut extents = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min((window_of(start) + 1) * WINDOW_BYTES);
            extents.push(Extent {
                range: start..end,
                pages: None,
            });
            start = end;
        }
        self.replace(range, extents)
    }

    /// As [`PageWrite::put_cleared`], in one row below all windows of the file. No other such row may be there.
    pub(crate) fn put_cleared_below(&mut self, range: Range<u64>) {
        let value = codec::encode_cleared(range.start);
        self.rows.put_block(&self.file.extent(range.end), &value);
    }

    /// Removes cleared stretches below the windows of the file, which no other record sees.
    pub(crate) fn cut_below(&mut self, range: &Range<u64>) -> Result<()> {
        let keyspaces = &self.service.keyspaces;
        let snapshot = self.service.db.snapshot();
        let from = self.file.extents_from(range.start);
        let mut rows = snapshot.scan(&keyspaces.blocks, from, Direction::Forward);
        while rows.advance()? {
            let there = cleared_at(&rows)?;
            if there.start >= range.end {
                break;
            }
            let left = subtract(&there, range);
            self.rows.delete_block(rows.key());
            left.into_iter()
                .for_each(|part| self.put_cleared_below(part));
        }
        Ok(())
    }

    /// Replaces everything in the range by these extents, which lie in it.
    fn replace(&mut self, range: &Range<u64>, extents: Vec<Extent>) -> Result<()> {
        let windows = first_window(range.start)..window_of(range.end) + 1;
        self.replace_in(&[windows], range, extents)
    }

    /// As [`PageWrite::replace`], reading these windows only.
    fn replace_in(
        &mut self,
        windows: &[Range<u64>],
        range: &Range<u64>,
        extents: Vec<Extent>,
    ) -> Result<()> {
        let snapshot = self.service.db.snapshot();
        let mut after: BTreeMap<u64, Vec<Extent>> = BTreeMap::new();
        for extent in extents {
            let window = window_of(extent.range.start);
            after.entry(window).or_default().push(extent);
        }
        let before = self.load(&snapshot, windows)?;
        for (&number, window) in &before {
            after.entry(number).or_default();
            self.keep(&snapshot, window, range, &mut after)?;
        }
        for (number, mut extents) in after {
            extents.sort_by_key(|extent| extent.range.start);
            self.put_window(&snapshot, number, before.get(&number), extents)?;
        }
        Ok(())
    }

    fn load(&self, snapshot: &Snapshot, ranges: &[Range<u64>]) -> Result<BTreeMap<u64, Window>> {
        let keyspaces = &self.service.keyspaces;
        let mut loaded = BTreeMap::new();
        for range in ranges {
            let (file, epoch) = (self.file, self.writer.epoch);
            let mut windows = Windows::new(keyspaces, snapshot, file, epoch, range.start);
            while let Some(window) = windows.next()?.filter(|found| found.number < range.end) {
                loaded.insert(window.number, window);
            }
        }
        Ok(loaded)
    }

    /// Adds to `after` the remaining parts of a window's extents. A content is kept while enough of it is in use. Parts of other
    /// contents are copied, as are parts that begin in the next window.
    fn keep(
        &mut self,
        snapshot: &Snapshot,
        window: &Window,
        range: &Range<u64>,
        after: &mut BTreeMap<u64, Vec<Extent>>,
    ) -> Result<()> {
        let left: Vec<Extent> = window
            .extents
            .iter()
            .flat_map(|extent| extent.without(range))
            .collect();
        let mut read: HashMap<u128, u64> = HashMap::new();
        for Extent { range, pages } in &left {
            if let Some(pages) = pages
                && window_of(range.start) == window.number
            {
                *read.entry(pages.content).or_default() += range.end - range.start;
            }
        }
        for Extent { range, pages } in left {
            let home = window_of(range.start);
            let stays = |pages: &Pages| {
                let read = read.get(&pages.content).copied().unwrap_or_default();
                home == window.number && read * UNREAD_MAX >= pages.stored
            };
            let pages = match pages {
                Some(pages) if !stays(&pages) => {
                    Some(self.copy(snapshot, window.number, &range, pages)?)
                }
                pages => pages,
            };
            after.entry(home).or_default().push(Extent { range, pages });
        }
        Ok(())
    }

    /// Copies the bytes of a part of an extent to a content of its own.
    fn copy(
        &mut self,
        snapshot: &Snapshot,
        window: u64,
        part: &Range<u64>,
        pages: Pages,
    ) -> Result<Pages> {
        let keyspaces = &self.service.keyspaces;
        let old = Stored {
            file: self.file,
            window: Some(window),
            pages,
        };
        let bytes = read_pages(keyspaces, snapshot, &old, part.end - part.start)?;
        let copy = self.service.ids.next_id();
        let key = self.file.page_content(window_of(part.start), copy);
        self.rows.put_content(&key, &bytes);
        Ok(Pages {
            content: copy,
            skipped: 0,
            stored: part.end - part.start,
            // It is copied as stored, possibly encrypted.
            sealed_as: Some(pages.counter()),
        })
    }

    /// Puts the row of a window: in place of the old one, or beside it if other records see that.
    fn put_window(
        &mut self,
        snapshot: &Snapshot,
        number: u64,
        before: Option<&Window>,
        extents: Vec<Extent>,
    ) -> Result<()> {
        if extents == before.map_or(&[][..], |before| &before.extents) {
            return Ok(());
        }
        let Writer { epoch, base, .. } = self.writer;
        let in_place = before.filter(|before| base.is_none_or(|base| before.epoch > base));
        let epoch = in_place.map_or(epoch, |before| before.epoch);
        let seen = self.seen_by_others(snapshot, number)?;
        if let Some(before) = in_place {
            let seen = seen.as_ref().map_or(&[][..], |seen| &seen.extents);
            let kept: HashSet<u128> = contents(&extents).chain(contents(seen)).collect();
            self.drop_contents(number, &before.extents, &kept);
        }
        let key = self.file.window(number, epoch);
        if extents.is_empty() && seen.is_none() && !self.has_older(snapshot, number, epoch)? {
            self.rows.delete_block(&key);
            return Ok(());
        }
        let value = codec::encode_window(number, &extents);
        self.rows.put_block(&key, &value);
        if base.is_some() && in_place.is_none() {
            let changed = self.file.changed(epoch, number);
            self.rows.put_block(&changed, b"");
        }
        Ok(())
    }

    /// Drops the contents of a window that no extent refers to any more.
    fn drop_contents(&mut self, number: u64, extents: &[Extent], kept: &HashSet<u128>) {
        if kept.is_empty() && self.writer.base.is_none() {
            let all = self.file.page_contents(number..number + 1);
            return self.rows.delete_contents(all);
        }
        let gone: HashSet<u128> = contents(extents).collect();
        for id in gone.difference(kept) {
            let key = self.file.page_content(number, *id);
            self.rows.delete_content(&key);
        }
    }

    /// The window as other records see it, if there are any.
    fn seen_by_others(&self, snapshot: &Snapshot, number: u64) -> Result<Option<Window>> {
        let base = self.writer.base;
        base.map_or(Ok(None), |base| self.window(snapshot, number, base))
    }

    /// Whether there is a row of an earlier epoch that would become visible.
    fn has_older(&self, snapshot: &Snapshot, number: u64, epoch: u64) -> Result<bool> {
        match epoch.checked_sub(1).filter(|_| self.writer.has_past) {
            Some(before) => Ok(self.window(snapshot, number, before)?.is_some()),
            None => Ok(false),
        }
    }

    fn window(&self, snapshot: &Snapshot, number: u64, epoch: u64) -> Result<Option<Window>> {
        let keyspaces = &self.service.keyspaces;
        let mut windows = Windows::new(keyspaces, snapshot, self.file, epoch, number);
        Ok(windows.next()?.filter(|found| found.number == number))
    }
}

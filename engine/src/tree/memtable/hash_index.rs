//! Hash index: from the hash of a key to the newest row of the key, in a memtable that has grown. A lookup of a key that is
//! there looks at a cache line, or two, instead of walking a tree whose nodes are nowhere near.
//!
//! A slot holds the upper half of a hash (its *tag*) and the number of a row. The last bits of the tag name a page and the
//! first ones the line of it where a search begins; a free slot ends it. The index grows by linear hashing: whenever it is full
//! to its measure, one page, the next in turn, is split in two. So no writer ever waits for all of it to be moved, or for much
//! memory.
//!
//! Without it, gets of rows that are still in the memtable take 1.4 times as long (median of the reads of `ycsb-a` and `ycsb-d` of
//! `lazurite-engine-bench`). It costs `fillrandom` a tenth of its processor time.

use super::arena::RowId;

/// Slots in a cache line, and lines in a page.
const LINE_SLOTS: usize = 8;
const LINE_BITS: u32 = 6;
const PAGE_LINES: usize = 1 << LINE_BITS;
/// Rows for each page: three of eight slots. A page that waits for its turn to be split has up to twice as many.
const ROWS_PER_PAGE: usize = PAGE_LINES * LINE_SLOTS / 8 * 3;
const FREE: u64 = 0;

/// Memory of a page, in bytes.
const PAGE_BYTES: usize = size_of::<Page>();

#[derive(Debug, Default)]
pub(super) struct HashIndex {
    pages: Vec<Box<Page>>,
    /// Rows in the pages.
    used: usize,
    /// A page had no room for a row, as if its hashes had been chosen for that. From then on rows may be missing.
    is_partial: bool,
}

#[derive(Debug)]
#[repr(align(64))]
struct Page([[u64; LINE_SLOTS]; PAGE_LINES]);

/// The answer of the index for a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    Newest(RowId),
    Absent,
    /// It has to be looked for elsewhere.
    Nothing,
}

fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The content of the slot of a row; never [`FREE`].
fn filled(tag: u32, row: RowId) -> u64 {
    u64::from(tag) << 32 | (u64::from(row) + 1)
}

fn row_of(filled: u64) -> RowId {
    filled as u32 - 1
}

impl Page {
    fn new() -> Box<Page> {
        Box::new(Page([[FREE; LINE_SLOTS]; PAGE_LINES]))
    }

    /// The first slot for the tag that is free or whose content is wanted; `None` if all others are taken.
    fn find(&self, tag: u32, is_wanted: impl Fn(u64) -> bool) -> Option<(usize, usize)> {
        let first = (tag >> (u32::BITS - LINE_BITS)) as usize;
        for line in (first..PAGE_LINES).chain(0..first) {
            let ends = |&content: &u64| content == FREE || is_wanted(content);
            if let Some(slot) = self.0[line].iter().position(ends) {
                return Some((line, slot));
            }
        }
        None
    }
}

impl HashIndex {
    pub(super) fn is_built(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Begins with these rows and the hashes of their keys. Answers the memory it takes, in bytes.
    pub(super) fn build(&mut self, rows: impl Iterator<Item = (u64, RowId)>) -> usize {
        self.pages.push(Page::new());
        let grown = rows.map(|(hash, row)| self.add(filled(tag_of(hash), row)));
        PAGE_BYTES + grown.sum::<usize>()
    }

    /// Makes `row` the newest of the key with this hash, of which `previous` was. Answers the memory that it has taken for
    /// that, in bytes. For an index that is built.
    pub(super) fn set(&mut self, hash: u64, row: RowId, previous: Option<RowId>) -> usize {
        let tag = tag_of(hash);
        let Some(previous) = previous else {
            return self.add(filled(tag, row));
        };
        let previous = filled(tag, previous);
        let number = self.page_of(tag);
        let page = &mut self.pages[number];
        if let Some((line, slot)) = page.find(tag, |content| content == previous)
            && page.0[line][slot] == previous
        {
            page.0[line][slot] = filled(tag, row);
        }
        0
    }

    /// The newest row of the key with this hash, of whose rows `is_of_key` is true.
    pub(super) fn find(&self, hash: u64, is_of_key: impl Fn(RowId) -> bool) -> Known {
        if !self.is_built() {
            return Known::Nothing;
        }
        let tag = tag_of(hash);
        let page = &self.pages[self.page_of(tag)];
        let is_wanted = |content| tag_of(content) == tag && is_of_key(row_of(content));
        let found = page.find(tag, is_wanted);
        match found.map(|(line, slot)| page.0[line][slot]) {
            Some(content) if content != FREE => Known::Newest(row_of(content)),
            _ if self.is_partial => Known::Nothing,
            _ => Known::Absent,
        }
    }

    /// Pages are numbered by as many of the tag's last bits as they need; one that is not split yet has the tags of the one
    /// that will be split off it.
    fn page_of(&self, tag: u32) -> usize {
        let numbers = self.pages.len().next_power_of_two();
        let number = tag as usize % numbers;
        if number < self.pages.len() {
            number
        } else {
            number - numbers / 2
        }
    }

    fn add(&mut self, content: u64) -> usize {
        let is_full = self.used >= self.pages.len() * ROWS_PER_PAGE;
        if is_full {
            self.split();
        }
        self.used += 1;
        self.place(content);
        usize::from(is_full) * PAGE_BYTES
    }

    fn place(&mut self, content: u64) {
        let tag = tag_of(content);
        let number = self.page_of(tag);
        let page = &mut self.pages[number];
        match page.find(tag, |_| false) {
            Some((line, slot)) => page.0[line][slot] = content,
            None => self.is_partial = true,
        }
    }

    /// Adds a page, and moves the slots to it that belong there.
    fn split(&mut self) {
        self.pages.push(Page::new());
        let added = self.pages.len() - 1;
        let from = added - self.pages.len().next_power_of_two() / 2;
        let split = std::mem::replace(&mut self.pages[from], Page::new());
        let contents = split.0.as_flattened().iter();
        contents
            .filter(|&&content| content != FREE)
            .for_each(|&content| self.place(content));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::hash;

    fn hash_of(key: u32) -> u64 {
        hash(&key.to_le_bytes())
    }

    #[test]
    fn rows_from_before_and_after_it_was_built_are_found_and_others_are_not() {
        let mut index = HashIndex::default();
        assert_eq!(index.find(hash_of(1), |_| true), Known::Nothing);
        let mut bytes = index.build((0..5000).map(|key| (hash_of(key), key)));
        for key in 5000..80_000 {
            bytes += index.set(hash_of(key), key, None);
        }
        assert_eq!(bytes, 80_000_usize.div_ceil(ROWS_PER_PAGE) * 4096);
        assert!(!index.is_partial);
        for key in 0..80_000 {
            let found = index.find(hash_of(key), |row| row == key);
            assert_eq!(found, Known::Newest(key));
        }
        for key in 80_000..100_000 {
            let found = index.find(hash_of(key), |row| row == key);
            assert_eq!(found, Known::Absent);
        }
    }

    #[test]
    fn a_newer_row_takes_the_place_of_the_one_before_and_keys_of_one_tag_have_a_row_each() {
        let mut index = HashIndex::default();
        index.build(std::iter::empty());
        // A tag of the last line, more often than that has slots: they go on at the first.
        let hash = u64::MAX << 40;
        for key in 0..3 * LINE_SLOTS as u32 {
            index.set(hash, key, None);
            index.set(hash, key + 1000, Some(key));
        }
        for key in 0..3 * LINE_SLOTS as u32 {
            let find = |row| index.find(hash, |found| found == row);
            assert_eq!(find(key), Known::Absent);
            assert_eq!(find(key + 1000), Known::Newest(key + 1000));
        }
    }

    #[test]
    fn hashes_that_fill_a_page_leave_an_index_that_says_so() {
        let mut index = HashIndex::default();
        index.build(std::iter::empty());
        for key in 0..2000 {
            index.set(7 << 32, key, None);
        }
        let found = |key| index.find(7 << 32, |row| row == key);
        assert_eq!(found(1), Known::Newest(1));
        assert_eq!(found(1999), Known::Nothing);
        assert_eq!(found(3000), Known::Nothing);
        index.set(7 << 32, 4000, Some(1999));
        index.set(7 << 32, 4001, Some(1));
        let found = |key| index.find(7 << 32, |row| row == key);
        assert_eq!(found(4001), Known::Newest(4001));
        assert_eq!(found(4000), Known::Nothing);
    }
}

//! Arena: the rows of a memtable, and the bytes of their keys and values, in chunks that are only
//! ever appended to.
//!
//! A row never changes except for its link to older versions, and its bytes never move. So a reader
//! gets a slice of a full chunk without a copy, and dropping a memtable frees a few thousand chunks
//! instead of a million rows.

use crate::base::key::{Kind, SequenceNumber};
use bytes::Bytes;

/// Bytes of a chunk that is filled with small records. Readers get copies only of rows in the chunk
/// that is being filled.
const CHUNK_BYTES: usize = 64 << 10;
/// Records of at least this many bytes get a chunk of their own.
const RECORD_BYTES_ALONE: usize = CHUNK_BYTES / 8;
/// Bytes of a cache line: a processor fetches that much from memory at a time.
const CACHE_LINE_BYTES: usize = 64;
const ROWS_PER_CHUNK: usize = 1 << 12;

/// Number of a row in its arena.
pub(super) type RowId = u32;

/// Stands for no row.
pub(super) const NO_ROW: RowId = RowId::MAX;

/// One version of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) sequence: SequenceNumber,
    chunk: u32,
    offset: u32,
    value_length: u32,
    /// The next older version of the same key that a reader may still need.
    pub(super) older: RowId,
    key_length: u16,
    pub(super) kind: Kind,
}

/// Memory of a row besides its bytes.
pub(super) const ROW_BYTES: usize = size_of::<Row>();

const _: () = assert!(crate::base::config::KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(crate::base::config::BATCH_BYTES_MAX <= u32::MAX as usize);

#[derive(Debug)]
enum Chunk {
    Filling(Vec<u8>),
    Full(Bytes),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Filling(bytes) => bytes,
            Chunk::Full(bytes) => bytes,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    /// Index of the chunk being filled. Before the first small record, there is no such chunk.
    filling: usize,
    rows: Vec<Vec<Row>>,
    count: usize,
}

impl Arena {
    /// Adds a row without an older version.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        kind: Kind,
        value: &[u8],
    ) -> RowId {
        let (chunk, offset) = self.place(key, value);
        let row = Row {
            sequence,
            chunk,
            offset,
            value_length: value.len() as u32,
            older: NO_ROW,
            key_length: key.len() as u16,
            kind,
        };
        if self.count.is_multiple_of(ROWS_PER_CHUNK) {
            self.rows.push(Vec::with_capacity(ROWS_PER_CHUNK));
        }
        self.rows
            .last_mut()
            .expect("there is room for the row")
            .push(row);
        self.count += 1;
        let id = RowId::try_from(self.count - 1).expect("a memtable is sealed long before");
        assert!(id != NO_ROW, "a memtable is sealed long before");
        id
    }

    fn place(&mut self, key: &[u8], value: &[u8]) -> (u32, u32) {
        let length = key.len() + value.len();
        if length >= RECORD_BYTES_ALONE {
            let mut record = Vec::with_capacity(length);
            record.extend_from_slice(key);
            record.extend_from_slice(value);
            self.chunks.push(Chunk::Full(record.into()));
            return (self.chunks.len() as u32 - 1, 0);
        }
        let filling = self.filling_chunk(length);
        let offset = filling.len() as u32;
        filling.extend_from_slice(key);
        filling.extend_from_slice(value);
        (self.filling as u32, offset)
    }

    /// Returns the chunk that is being filled, with room for `length` more bytes.
    fn filling_chunk(&mut self, length: usize) -> &mut Vec<u8> {
        let has_room = match self.chunks.get_mut(self.filling) {
            Some(Chunk::Filling(bytes)) if bytes.len() + length <= CHUNK_BYTES => true,
            Some(Chunk::Filling(bytes)) => {
                let full = std::mem::take(bytes);
                self.chunks[self.filling] = Chunk::Full(full.into());
                false
            }
            _ => false,
        };
        if !has_room {
            self.filling = self.chunks.len();
            let empty = Vec::with_capacity(CHUNK_BYTES);
            self.chunks.push(Chunk::Filling(empty));
        }
        match &mut self.chunks[self.filling] {
            Chunk::Filling(bytes) => bytes,
            Chunk::Full(_) => unreachable!("the chunk was just found to have room"),
        }
    }

    pub(super) fn row(&self, id: RowId) -> &Row {
        let id = id as usize;
        &self.rows[id / ROWS_PER_CHUNK][id % ROWS_PER_CHUNK]
    }

    /// Makes `older` the next older version of `id`.
    pub(super) fn link_older(&mut self, id: RowId, older: RowId) {
        let id = id as usize;
        self.rows[id / ROWS_PER_CHUNK][id % ROWS_PER_CHUNK].older = older;
    }

    pub(super) fn key(&self, id: RowId) -> &[u8] {
        let row = self.row(id);
        let start = row.offset as usize;
        &self.chunks[row.chunk as usize].bytes()[start..start + row.key_length as usize]
    }

    /// Prefetches both ends of the row's bytes into the processor's cache.
    pub(super) fn touch(&self, id: RowId) {
        let row = self.row(id);
        let bytes = self.chunks[row.chunk as usize].bytes();
        let ends = [row.offset as usize, row.value_range().end];
        std::hint::black_box(ends.map(|end| bytes.get(end).copied()));
    }

    /// Prefetches, without waiting, the beginning of the row's value, and the end of the key in the
    /// same cache line.
    pub(super) fn touch_start(&self, id: RowId) {
        let row = self.row(id);
        let bytes = self.chunks[row.chunk as usize].bytes();
        let start = row.value_range().start;
        let lines = [start, start + CACHE_LINE_BYTES];
        std::hint::black_box(lines.map(|line| bytes.get(line).copied()));
    }

    /// The value of a row, borrowed.
    pub(super) fn value(&self, row: &Row) -> &[u8] {
        &self.chunks[row.chunk as usize].bytes()[row.value_range()]
    }

    /// Returns the value for use without the lock: a slice of a full chunk, or a copy out of the
    /// chunk being filled.
    pub(super) fn pin_value(&self, row: &Row) -> Bytes {
        match &self.chunks[row.chunk as usize] {
            Chunk::Full(bytes) => bytes.slice(row.value_range()),
            Chunk::Filling(bytes) => Bytes::copy_from_slice(&bytes[row.value_range()]),
        }
    }

    /// Adds the row, with its key and its value, to `kept`.
    pub(super) fn pin(&self, row: &Row, kept: &mut PinnedRows) {
        let start = row.offset as usize;
        let end = row.value_range().end;
        let (place, start) = match &self.chunks[row.chunk as usize] {
            Chunk::Full(bytes) => (kept.place_of(row.chunk, bytes), start),
            Chunk::Filling(bytes) => {
                kept.copied.extend_from_slice(&bytes[start..end]);
                (COPIED, kept.copied.len() - (end - start))
            }
        };
        kept.rows.push(PinnedRow {
            sequence: row.sequence,
            kind: row.kind,
            place,
            start,
            key_length: row.key_length,
            value_length: row.value_length,
        });
    }
}

/// The `place` of rows that were copied.
const COPIED: usize = usize::MAX;

/// A few rows that can be read without the arena, because they keep the chunks that they are in.
/// Their memory is reused for the next few rows.
#[derive(Debug, Default)]
pub(crate) struct PinnedRows {
    /// Full chunks and their numbers.
    chunks: Vec<(u32, Bytes)>,
    /// Keys and values that were copied from the chunk being filled.
    copied: Vec<u8>,
    rows: Vec<PinnedRow>,
}

#[derive(Debug)]
struct PinnedRow {
    sequence: SequenceNumber,
    kind: Kind,
    /// Index of the chunk among the kept ones, or [`COPIED`].
    place: usize,
    start: usize,
    key_length: u16,
    value_length: u32,
}

impl PinnedRows {
    /// Index of the kept chunk `number`. Neighbours are often in one chunk, which is kept once.
    fn place_of(&mut self, number: u32, bytes: &Bytes) -> usize {
        if self.chunks.last().is_none_or(|last| last.0 != number) {
            self.chunks.push((number, bytes.clone()));
        }
        self.chunks.len() - 1
    }

    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.copied.clear();
        self.rows.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.rows.truncate(length);
    }

    pub(crate) fn sequence(&self, index: usize) -> SequenceNumber {
        self.rows[index].sequence
    }

    #[inline]
    pub(crate) fn kind(&self, index: usize) -> Kind {
        self.rows[index].kind
    }

    #[inline]
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        let row = &self.rows[index];
        &self.chunk(row)[row.start..row.value_start()]
    }

    #[inline]
    pub(crate) fn value(&self, index: usize) -> &[u8] {
        let row = &self.rows[index];
        let start = row.value_start();
        &self.chunk(row)[start..start + row.value_length as usize]
    }

    /// The value, which outlives these rows.
    pub(crate) fn pin_value(&self, index: usize) -> Bytes {
        match self.rows[index].place {
            COPIED => Bytes::copy_from_slice(self.value(index)),
            place => self.chunks[place].1.slice_ref(self.value(index)),
        }
    }

    #[inline]
    fn chunk(&self, row: &PinnedRow) -> &[u8] {
        match row.place {
            COPIED => &self.copied,
            place => &self.chunks[place].1,
        }
    }
}

impl PinnedRow {
    fn value_start(&self) -> usize {
        self.start + usize::from(self.key_length)
    }
}

impl Row {
    fn value_range(&self) -> std::ops::Range<usize> {
        let start = self.offset as usize + self.key_length as usize;
        start..start + self.value_length as usize
    }
}

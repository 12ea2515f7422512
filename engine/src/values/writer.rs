//! ValueWriter: streams a value into the value log, a chunk at a time.

use crate::base::codec::checksum;
use crate::base::config::CHUNK_HEADER_BYTES;
use crate::format::pointer::{Extent, ValuePointer};
use crate::fs::reserve::SpaceReserve;
use crate::fs::{PAGE_BYTES, PageBuffer};
use crate::values::ValueLog;
use crate::values::segments::{Pin, Place};
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum length of a value in memory that is stored as one chunk: verifying any part of it reads
/// all of it.
const WHOLE_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(WHOLE_BYTES_MAX as u64 <= super::CHUNK_BYTES_MAX);

/// Values up to this length are copied after their header, because one write costs less than two.
const JOINED_BYTES_MAX: usize = 16 << 10;

/// Maximum bytes of small values that share a write: few enough to be still in the processor's
/// cache.
const TOGETHER_BYTES_MAX: u64 = 96 << 10;

/// Numbers the values that this process has streamed.
static WRITERS: AtomicU64 = AtomicU64::new(1);

/// Streams a value of any size into the value log in bounded memory. If it is dropped unfinished,
/// or its value is never put in a batch, its bytes are garbage and are collected.
///
/// For async callers: [`ValueWriter::fill`] never blocks. Take full chunks out, write them on
/// another thread, and add them back.
#[derive(Debug)]
pub struct ValueWriter {
    log: Arc<ValueLog>,
    /// The reserve to ask for space; `None` for work that frees space.
    room: Option<Arc<SpaceReserve>>,
    /// The record of the chunk that is being filled; its header is written last.
    record: Option<PageBuffer>,
    pointer: ValuePointer,
    pins: Vec<Pin>,
    number: u64,
    /// Number of bytes of the value in the chunks that were taken out to be written.
    taken: u64,
    /// Whether a chunk was added that is not the next one of this value.
    is_misled: bool,
}

/// The position of a chunk: the number of its writer, and its offset in the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkSlot {
    writer: u64,
    start: u64,
}

/// A chunk of a value, to be written on a thread that may block.
#[derive(Debug)]
pub struct UnwrittenChunk {
    log: Arc<ValueLog>,
    room: Option<Arc<SpaceReserve>>,
    record: PageBuffer,
    preferred: Option<u64>,
    slot: ChunkSlot,
}

/// A chunk that lies in the value log, to be added to its value.
#[derive(Debug)]
pub struct WrittenChunk {
    extent: Extent,
    pin: Pin,
    slot: ChunkSlot,
}

/// A value that lies in the value log and waits for the one batch that refers to it.
#[derive(Debug)]
pub struct LargeValue {
    pub(crate) pointer: ValuePointer,
    pub(crate) pins: Vec<Pin>,
}

impl LargeValue {
    /// Length of the value in bytes.
    pub fn length(&self) -> u64 {
        self.pointer.length
    }

    /// A value of one chunk.
    fn whole(extent: Extent, pin: Pin) -> LargeValue {
        LargeValue {
            pointer: ValuePointer {
                chunk_bytes: extent.length,
                length: extent.length,
                extents: vec![extent],
            },
            pins: vec![pin],
        }
    }
}

impl ValueWriter {
    pub(crate) fn new(log: Arc<ValueLog>) -> ValueWriter {
        let chunk_bytes = log.chunk_bytes as u64;
        ValueWriter {
            log,
            room: None,
            record: None,
            pointer: ValuePointer {
                chunk_bytes,
                length: 0,
                extents: Vec::new(),
            },
            pins: Vec::new(),
            number: WRITERS.fetch_add(1, Ordering::Relaxed),
            taken: 0,
            is_misled: false,
        }
    }

    /// Makes the writer take space outside of the reserve, because the value is new data.
    pub(crate) fn within(mut self, room: Arc<SpaceReserve>) -> ValueWriter {
        self.room = Some(room);
        self
    }

    /// Appends to the value. Blocks for the disk.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.fill(bytes)..];
            if self.is_full() {
                self.write_chunk()?;
            }
        }
        Ok(())
    }

    /// Appends as many of the bytes as fit into the chunk that is being filled; returns their
    /// number. Does not block.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let log = &self.log;
        let record = self.record.get_or_insert_with(|| log.empty_record());
        let room = CHUNK_HEADER_BYTES + log.chunk_bytes - record.len();
        let count = bytes.len().min(room);
        record.extend(&bytes[..count]);
        count
    }

    /// Whether there is no room in the chunk that is being filled.
    pub fn is_full(&self) -> bool {
        let whole = CHUNK_HEADER_BYTES + self.log.chunk_bytes;
        let record = self.record.as_ref();
        record.is_some_and(|record| record.len() == whole)
    }

    /// Takes out the chunk that is being filled, if it has any bytes. Call this once the chunk is
    /// full, or at the end of the value. Write the chunk and add it before you take another one.
    pub fn take_chunk(&mut self) -> Option<UnwrittenChunk> {
        let is_begun = |record: &mut PageBuffer| record.len() > CHUNK_HEADER_BYTES;
        let record = self.record.take_if(is_begun)?;
        let start = self.taken;
        self.taken += (record.len() - CHUNK_HEADER_BYTES) as u64;
        Some(UnwrittenChunk {
            record,
            slot: ChunkSlot {
                writer: self.number,
                start,
            },
            log: self.log.clone(),
            room: self.room.clone(),
            preferred: self.pointer.extents.last().map(|last| last.segment),
        })
    }

    /// Appends a chunk that was taken out of this value. All chunks before it must be full; any
    /// other chunk makes `finish` fail.
    pub fn add(&mut self, chunk: WrittenChunk) {
        let next = ChunkSlot {
            writer: self.number,
            start: self.pointer.length,
        };
        let is_behind_full = next.start.is_multiple_of(self.pointer.chunk_bytes);
        if chunk.slot == next && is_behind_full {
            self.add_extent(chunk.extent, chunk.pin);
        } else {
            self.is_misled = true;
        }
    }

    /// Ends the value. On return the operating system has it. It becomes durable with the batch
    /// that names it. Errors: `UnknownValue` if a chunk that was taken out was not added, or was
    /// added out of order.
    pub fn finish(mut self) -> Result<LargeValue> {
        self.write_chunk()?;
        if self.is_misled || self.taken != self.pointer.length {
            return Err(Error::UnknownValue);
        }
        debug_assert!(
            ValuePointer::decode(&self.pointer.encode()).is_some(),
            "the pointer would not decode, and its segments would be collected"
        );
        Ok(LargeValue {
            pointer: self.pointer,
            pins: self.pins,
        })
    }

    fn write_chunk(&mut self) -> Result<()> {
        if let Some(chunk) = self.take_chunk() {
            self.add(chunk.write()?);
        }
        Ok(())
    }

    fn add_extent(&mut self, extent: Extent, pin: Pin) {
        self.pointer.length += extent.length;
        let chunk = self.pointer.chunk_bytes;
        if let Some(last) = self.pointer.extents.last_mut() {
            let taken = last.length + last.length.div_ceil(chunk) * CHUNK_HEADER_BYTES as u64;
            if last.segment == extent.segment && last.offset + taken == extent.offset {
                last.length += extent.length;
                return;
            }
        }
        self.pointer.extents.push(extent);
        self.pins.push(pin);
    }
}

impl UnwrittenChunk {
    /// The bytes of the value that are in the chunk.
    pub fn payload(&self) -> &[u8] {
        &self.record.bytes()[CHUNK_HEADER_BYTES..]
    }

    /// Writes the chunk to the value log. Blocks for the disk.
    pub fn write(mut self) -> Result<WrittenChunk> {
        if let Some(room) = &self.room {
            // Without space the value fails; end the segment, so that its chunks are removed soon.
            let retire = |_: &_| self.log.retire();
            room.take(self.payload().len() as u64).inspect_err(retire)?;
        }
        let written = self.log.append_record(&mut self.record, self.preferred);
        self.log.put_back(self.record);
        let slot = self.slot;
        written.map(|(extent, pin)| WrittenChunk { extent, pin, slot })
    }
}

/// The header of a chunk, and the checksum in it.
fn chunk_header(segment: u64, offset: u64, payload: &[u8]) -> ([u8; CHUNK_HEADER_BYTES], u64) {
    let mut head = [0; CHUNK_HEADER_BYTES];
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let sum = checksum(segment, offset, &[&head[..4], payload]);
    head[4..].copy_from_slice(&sum.to_le_bytes());
    (head, sum)
}

impl Place {
    /// The extent of a place that one chunk record of `payload` bytes fills.
    fn extent(&self, payload: usize) -> Extent {
        Extent {
            segment: self.segment.number,
            offset: self.offset,
            length: payload as u64,
        }
    }

    /// Writes the filler before the place, if it has one. Returns the checksum of the filler.
    fn write_filler(&self) -> Result<u64> {
        let offset = self.offset - self.filler;
        let (record, sum) = filler_record(self.segment.number, offset, self.filler);
        if !record.is_empty() {
            self.segment.file.write(&record, offset)?;
        }
        Ok(sum)
    }

    /// Writes a chunk at any offset, not only at the start of a page. Returns its checksum.
    fn write(&self, payload: &[u8]) -> Result<u64> {
        let file = &self.segment.file;
        let (head, sum) = chunk_header(self.segment.number, self.offset, payload);
        if payload.len() <= JOINED_BYTES_MAX {
            file.write(&[&head, payload].concat(), self.offset)?;
        } else {
            file.write(&head, self.offset)?;
            file.write(payload, self.offset + head.len() as u64)?;
        }
        Ok(sum)
    }

    /// Writes the filler before the place, if it has one; fills in the header of the chunk, and
    /// writes the chunk. Returns the sum of both checksums.
    fn write_record(&self, record: &mut PageBuffer) -> Result<u64> {
        let filler = self.write_filler()?;
        let (room, payload) = record.bytes_mut().split_at_mut(CHUNK_HEADER_BYTES);
        let (head, sum) = chunk_header(self.segment.number, self.offset, payload);
        room.copy_from_slice(&head);
        self.segment.file.write(record.bytes(), self.offset)?;
        Ok(filler.wrapping_add(sum))
    }
}

impl ValueLog {
    /// A buffer for one chunk record, or for several of small values.
    fn buffer(&self) -> PageBuffer {
        let room = (TOGETHER_BYTES_MAX as usize).max(CHUNK_HEADER_BYTES + self.chunk_bytes);
        self.buffers.pop().unwrap_or_else(|| PageBuffer::new(room))
    }

    fn put_back(&self, buffer: PageBuffer) {
        // If the queue is full, the buffer is dropped.
        let _ = self.buffers.push(buffer);
    }

    fn empty_record(&self) -> PageBuffer {
        let mut record = self.buffer();
        record.clear();
        record.extend_zeros(CHUNK_HEADER_BYTES);
        record
    }

    /// Appends the chunk in `record`, which has room for the header; `preferred` as for `reserve`.
    fn append_record(
        &self,
        record: &mut PageBuffer,
        preferred: Option<u64>,
    ) -> Result<(Extent, Pin)> {
        let payload = record.len() - CHUNK_HEADER_BYTES;
        let is_whole = payload == self.chunk_bytes;
        // After a damaged chunk, a dump looks for the next whole one at the start of a page.
        let in_pages = is_whole && record.len().is_multiple_of(PAGE_BYTES);
        let place = self.reserve(record.len() as u64, preferred, in_pages)?;
        let written = place.write_record(record);
        self.segments.settle(&place, written)?;
        Ok((place.extent(payload), place.pin))
    }

    /// Appends a value as one chunk.
    fn append(&self, payload: &[u8]) -> Result<LargeValue> {
        let place = self.reserve(record_bytes(payload), None, false)?;
        let written = place.write(payload);
        self.segments.settle(&place, written)?;
        Ok(LargeValue::whole(place.extent(payload.len()), place.pin))
    }

    /// Appends a value that is wholly in memory: as one chunk, unless it is very large.
    pub(crate) fn write_whole(self: &Arc<Self>, value: &[u8]) -> Result<LargeValue> {
        if value.is_empty() || value.len() > WHOLE_BYTES_MAX {
            let mut writer = ValueWriter::new(self.clone());
            writer.write(value)?;
            return writer.finish();
        }
        self.append(value)
    }

    /// Like [`ValueLog::write_whole`] for each value. If all are small, they share writes.
    pub(crate) fn write_together(self: &Arc<Self>, values: &[&[u8]]) -> Result<Vec<LargeValue>> {
        let is_small = |value: &&[u8]| (1..=JOINED_BYTES_MAX).contains(&value.len());
        if !values.iter().all(is_small) {
            let each = values.iter().map(|value| self.write_whole(value));
            return each.collect();
        }
        let mut written = Vec::with_capacity(values.len());
        let mut records = self.buffer();
        let mut rest = values;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |value: &&&[u8]| {
                bytes += record_bytes(value);
                bytes <= TOGETHER_BYTES_MAX
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count());
            self.append_together(now, &mut records, &mut written)?;
            rest = later;
        }
        self.put_back(records);
        Ok(written)
    }

    /// Appends a chunk for each value; `records` is memory to put them together in.
    fn append_together(
        &self,
        values: &[&[u8]],
        records: &mut PageBuffer,
        out: &mut Vec<LargeValue>,
    ) -> Result<()> {
        let bytes: u64 = values.iter().map(|value| record_bytes(value)).sum();
        let place = self.reserve(bytes, None, false)?;
        let segment = place.segment.number;
        records.clear();
        let mut sum = 0u64;
        for value in values {
            let offset = place.offset + records.len() as u64;
            let (head, checksum) = chunk_header(segment, offset, value);
            sum = sum.wrapping_add(checksum);
            records.extend(&head);
            records.extend(value);
            let extent = Extent {
                segment,
                offset,
                length: value.len() as u64,
            };
            out.push(LargeValue::whole(extent, place.pin.clone()));
        }
        let written = place.segment.file.write(records.bytes(), place.offset);
        self.segments.settle(&place, written.map(|()| sum))
    }
}

/// A record of zeros of the given length, and its checksum; empty for length 0.
fn filler_record(segment: u64, offset: u64, bytes: u64) -> (Vec<u8>, u64) {
    let Some(zeros) = bytes.checked_sub(CHUNK_HEADER_BYTES as u64) else {
        return (Vec::new(), 0);
    };
    let payload = vec![0; zeros as usize];
    let (head, sum) = chunk_header(segment, offset, &payload);
    ([&head[..], &payload].concat(), sum)
}

/// Bytes of a segment that a chunk takes.
fn record_bytes(payload: &[u8]) -> u64 {
    (CHUNK_HEADER_BYTES + payload.len()) as u64
}

//! ValueWriter: streams a value into the value log, a chunk at a time.

use super::{CHUNK_HEADER_BYTES, Extent, Pin, ValueLog, ValuePointer, Writable};
use crate::Result;
use crate::codec::checksum;
use crate::room::Room;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Values up to here, when they are at hand as a whole, are one chunk: to verify any part of them is to read them all.
const WHOLE_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(WHOLE_BYTES_MAX as u64 <= super::CHUNK_BYTES_MAX);

/// Values up to here are copied behind their header: one call costs less than two.
const JOINED_BYTES_MAX: usize = 16 << 10;

/// Small values that are written in one write at most. Those of 4 KiB are as long together as the file system likes a write
/// to be, and short enough to be in the processor's cache still.
const TOGETHER_MAX: usize = 16;

/// Streams a value of any size into the value log in bounded memory. Dropped unfinished, or never put in a batch, its
/// bytes are garbage and collected.
#[derive(Debug)]
pub struct ValueWriter {
    log: Arc<ValueLog>,
    /// What it takes room from; `None` for what makes room.
    room: Option<Arc<Room>>,
    /// The bytes of a chunk that is not whole yet.
    buffer: Vec<u8>,
    pointer: ValuePointer,
    pins: Vec<Pin>,
}

/// A value that lies in the value log and waits for the one batch that refers to it.
#[derive(Debug)]
pub struct LargeValue {
    pub(crate) pointer: ValuePointer,
    pub(crate) pins: Vec<Pin>,
}

impl LargeValue {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.pointer.length
    }

    /// A value that is one chunk.
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
            buffer: Vec::new(),
            pointer: ValuePointer {
                chunk_bytes,
                length: 0,
                extents: Vec::new(),
            },
            pins: Vec::new(),
        }
    }

    /// The value is something new, and has to leave a reserve free.
    pub(crate) fn within(self, room: Arc<Room>) -> ValueWriter {
        ValueWriter {
            room: Some(room),
            ..self
        }
    }

    /// Appends to the value. What comes in whole chunks is not copied. Blocks for the disk.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let chunk_bytes = self.log.chunk_bytes;
        while !bytes.is_empty() {
            let part = bytes.len().min(chunk_bytes - self.buffer.len());
            let (now, later) = bytes.split_at(part);
            bytes = later;
            if part == chunk_bytes {
                self.write_chunk(now)?;
                continue;
            }
            self.buffer.extend_from_slice(now);
            if self.buffer.len() == chunk_bytes {
                self.write_buffer()?;
            }
        }
        Ok(())
    }

    /// Ends the value. It is with the operating system on return; the batch that names it makes it as durable as itself.
    pub fn finish(mut self) -> Result<LargeValue> {
        if !self.buffer.is_empty() {
            self.write_buffer()?;
        }
        Ok(LargeValue {
            pointer: self.pointer,
            pins: self.pins,
        })
    }

    fn write_buffer(&mut self) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.write_chunk(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn write_chunk(&mut self, payload: &[u8]) -> Result<()> {
        if let Some(room) = &self.room {
            // What was written of it so far is to be given back soon.
            let retire = |_: &_| self.log.retire();
            room.take(payload.len() as u64).inspect_err(retire)?;
        }
        let preferred = self.pointer.extents.last().map(|last| last.segment);
        let is_streamed = payload.len() == self.log.chunk_bytes;
        let (extent, pin) = self.log.append(payload, preferred, is_streamed)?;
        self.add_extent(extent, pin);
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

/// What stands before the bytes of a chunk, and the checksum in it.
fn chunk_header(segment: u64, offset: u64, payload: &[u8]) -> ([u8; CHUNK_HEADER_BYTES], u64) {
    let mut head = [0; CHUNK_HEADER_BYTES];
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let sum = checksum(segment, offset, &[&head[..4], payload]);
    head[4..].copy_from_slice(&sum.to_le_bytes());
    (head, sum)
}

impl Writable {
    /// Writes a chunk to the place it was given; answers its checksum.
    fn write(&self, offset: u64, payload: &[u8], is_streamed: bool) -> Result<u64> {
        let (head, sum) = chunk_header(self.number, offset, payload);
        if payload.len() <= JOINED_BYTES_MAX {
            self.file.write(&[&head, payload].concat(), offset)?;
            return Ok(sum);
        }
        self.file.write(&head, offset)?;
        let offset = offset + head.len() as u64;
        match is_streamed {
            true => self.file.write_large(payload, offset)?,
            false => self.file.write(payload, offset)?,
        }
        Ok(sum)
    }
}

impl ValueLog {
    /// Appends a chunk: `preferred` as for `reserve`; `is_streamed`: it is a whole one among others of a large value, which
    /// is not about to be read.
    fn append(
        &self,
        payload: &[u8],
        preferred: Option<u64>,
        is_streamed: bool,
    ) -> Result<(Extent, Pin)> {
        let (segment, offset, pin) = self.reserve(record_bytes(payload), preferred)?;
        let written = segment.write(offset, payload, is_streamed);
        self.settle(&segment, record_bytes(payload), &written);
        let extent = Extent {
            segment: segment.number,
            offset,
            length: payload.len() as u64,
        };
        written.map(|_| (extent, pin))
    }

    /// What was reserved is written, and has this sum of checksums; or it is not.
    fn settle(&self, segment: &Arc<Writable>, bytes: u64, written: &Result<u64>) {
        match written {
            Ok(sum) => {
                segment.checksum.fetch_add(*sum, Ordering::Relaxed);
                segment.written.fetch_add(bytes, Ordering::Release);
            }
            Err(_) => self.note_hole(segment),
        }
        segment.writing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Appends a value that is at hand as a whole: as one chunk, unless it is very large.
    pub(crate) fn write_whole(self: &Arc<Self>, value: &[u8]) -> Result<LargeValue> {
        if value.is_empty() || value.len() > WHOLE_BYTES_MAX {
            let mut writer = ValueWriter::new(self.clone());
            writer.write(value)?;
            return writer.finish();
        }
        let (extent, pin) = self.append(value, None, false)?;
        Ok(LargeValue::whole(extent, pin))
    }

    /// As [`ValueLog::write_whole`] of each, in one write as far as they are small.
    pub(crate) fn write_together(self: &Arc<Self>, values: &[&[u8]]) -> Result<Vec<LargeValue>> {
        let is_small = |value: &&[u8]| (1..=JOINED_BYTES_MAX).contains(&value.len());
        if !values.iter().all(is_small) {
            let each = values.iter().map(|value| self.write_whole(value));
            return each.collect();
        }
        let mut written = Vec::with_capacity(values.len());
        let mut records = Vec::new();
        for values in values.chunks(TOGETHER_MAX) {
            self.append_together(values, &mut records, &mut written)?;
        }
        Ok(written)
    }

    /// Appends a chunk for each value; `records` is memory to put them together in.
    fn append_together(
        &self,
        values: &[&[u8]],
        records: &mut Vec<u8>,
        out: &mut Vec<LargeValue>,
    ) -> Result<()> {
        let bytes = values.iter().map(|value| record_bytes(value)).sum();
        let (segment, start, pin) = self.reserve(bytes, None)?;
        records.clear();
        records.reserve(bytes as usize);
        let mut sum = 0u64;
        for value in values {
            let offset = start + records.len() as u64;
            let (head, checksum) = chunk_header(segment.number, offset, value);
            sum = sum.wrapping_add(checksum);
            records.extend_from_slice(&head);
            records.extend_from_slice(value);
            let extent = Extent {
                segment: segment.number,
                offset,
                length: value.len() as u64,
            };
            out.push(LargeValue::whole(extent, pin.clone()));
        }
        let written = segment.file.write(records, start).map(|()| sum);
        self.settle(&segment, bytes, &written);
        written.map(|_| ())
    }
}

/// What a chunk takes of a segment.
fn record_bytes(payload: &[u8]) -> u64 {
    (CHUNK_HEADER_BYTES + payload.len()) as u64
}

//! ValueWriter: streams a value into the value log, a chunk at a time.

use super::{CHUNK_HEADER_BYTES, Extent, Pin, ValueLog, ValuePointer, Writable};
use crate::Result;
use crate::codec::checksum;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Values up to here, when they are at hand as a whole, are one chunk: to verify any part of them is to read them all.
const WHOLE_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(WHOLE_BYTES_MAX as u64 <= super::CHUNK_BYTES_MAX);

/// Streams a value of any size into the value log in bounded memory. Dropped unfinished, or never put in a batch, its
/// bytes are garbage and collected.
#[derive(Debug)]
pub struct ValueWriter {
    log: Arc<ValueLog>,
    /// Room for the header of a chunk, then its bytes so far.
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
}

impl ValueWriter {
    pub(crate) fn new(log: Arc<ValueLog>) -> ValueWriter {
        let chunk_bytes = log.chunk_bytes as u64;
        ValueWriter {
            log,
            buffer: vec![0; CHUNK_HEADER_BYTES],
            pointer: ValuePointer {
                chunk_bytes,
                length: 0,
                extents: Vec::new(),
            },
            pins: Vec::new(),
        }
    }

    /// Appends to the value. Blocks for the disk.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = CHUNK_HEADER_BYTES + self.log.chunk_bytes - self.buffer.len();
            let part = room.min(bytes.len());
            self.buffer.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if part == room {
                self.write_chunk()?;
            }
        }
        Ok(())
    }

    /// Ends the value. It is with the operating system on return; the batch that names it makes it as durable as itself.
    pub fn finish(mut self) -> Result<LargeValue> {
        if self.buffer.len() > CHUNK_HEADER_BYTES {
            self.write_chunk()?;
        }
        Ok(LargeValue {
            pointer: self.pointer,
            pins: self.pins,
        })
    }

    fn write_chunk(&mut self) -> Result<()> {
        let buffer = &mut self.buffer;
        let length = buffer.len() as u64;
        let (number, offset, pin) = self.log.append(length, |segment, offset| {
            let (head, payload) = buffer.split_at_mut(CHUNK_HEADER_BYTES);
            let (whole_head, sum) = chunk_header(segment.number, offset, payload);
            head.copy_from_slice(&whole_head);
            segment.file.write(buffer, offset).map(|()| sum)
        })?;
        self.add_extent(number, offset, pin);
        self.buffer.truncate(CHUNK_HEADER_BYTES);
        Ok(())
    }

    fn add_extent(&mut self, segment: u64, offset: u64, pin: Pin) {
        let length = (self.buffer.len() - CHUNK_HEADER_BYTES) as u64;
        self.pointer.length += length;
        let chunk = self.pointer.chunk_bytes;
        if let Some(last) = self.pointer.extents.last_mut() {
            let taken = last.length + last.length.div_ceil(chunk) * CHUNK_HEADER_BYTES as u64;
            if last.segment == segment && last.offset + taken == offset {
                last.length += length;
                return;
            }
        }
        self.pointer.extents.push(Extent {
            segment,
            offset,
            length,
        });
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

impl ValueLog {
    /// Appends a record of `length` bytes: gives it a place, where `write` writes it and answers its checksum.
    fn append(
        &self,
        length: u64,
        write: impl FnOnce(&Writable, u64) -> Result<u64>,
    ) -> Result<(u64, u64, Pin)> {
        let (segment, offset, pin) = self.reserve(length)?;
        let written = write(&segment, offset);
        match &written {
            Ok(sum) => {
                segment.checksum.fetch_add(*sum, Ordering::Relaxed);
                segment.written.fetch_add(length, Ordering::Release);
            }
            Err(_) => self.note_hole(&segment),
        }
        segment.writing.fetch_sub(1, Ordering::SeqCst);
        written.map(|_| (segment.number, offset, pin))
    }

    /// Appends a value that is at hand as a whole: as one chunk, and without a copy, unless it is very large.
    pub(crate) fn write_whole(self: &Arc<Self>, value: &[u8]) -> Result<LargeValue> {
        if value.is_empty() || value.len() > WHOLE_BYTES_MAX {
            let mut writer = ValueWriter::new(self.clone());
            writer.write(value)?;
            return writer.finish();
        }
        let length = value.len() as u64;
        let record = CHUNK_HEADER_BYTES as u64 + length;
        let (segment, offset, pin) = self.append(record, |segment, offset| {
            let (head, sum) = chunk_header(segment.number, offset, value);
            segment.file.write(&head, offset)?;
            let behind = offset + CHUNK_HEADER_BYTES as u64;
            segment.file.write(value, behind).map(|()| sum)
        })?;
        let extent = Extent {
            segment,
            offset,
            length,
        };
        Ok(LargeValue {
            pointer: ValuePointer {
                chunk_bytes: length,
                length,
                extents: vec![extent],
            },
            pins: vec![pin],
        })
    }
}

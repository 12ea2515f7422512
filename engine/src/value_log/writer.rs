//! ValueWriter: streams a value into the value log, a chunk at a time.

use super::{CHUNK_HEADER_BYTES, Extent, Pin, ValueLog, ValuePointer, Writable};
use crate::Result;
use crate::codec::checksum;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        let (segment, offset, pin) = self.log.reserve(self.buffer.len() as u64)?;
        let written = self.write_record(&segment, offset);
        if written.is_err() {
            self.log.note_hole(&segment);
        }
        segment.writing.fetch_sub(1, Ordering::SeqCst);
        written?;
        self.add_extent(segment.number, offset, pin);
        self.buffer.truncate(CHUNK_HEADER_BYTES);
        Ok(())
    }

    fn write_record(&mut self, segment: &Writable, offset: u64) -> Result<()> {
        let (head, payload) = self.buffer.split_at_mut(CHUNK_HEADER_BYTES);
        head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let sum = checksum(segment.number, offset, &[&head[..4], payload]);
        head[4..].copy_from_slice(&sum.to_le_bytes());
        segment.file.write(&self.buffer, offset)?;
        segment.checksum.fetch_add(sum, Ordering::Relaxed);
        segment
            .written
            .fetch_add(self.buffer.len() as u64, Ordering::Release);
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

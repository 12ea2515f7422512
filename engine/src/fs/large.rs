//! Files that take large writes in order: past the page cache, where that costs less.
//!
//! A page that is new in the cache has to be found, and in a virtual machine perhaps fetched from the host first: a MiB took
//! 0.5 to 2.7 ms of the processor in one, and 0.2 ms when the disk took it from a buffer that is used again and again.
//! Where memory is at hand and the disk is slow it is the other way round. So both are tried, and what costs less goes on.
#![allow(
    clippy::disallowed_types,
    reason = "part of the seam that the rest of the engine goes through"
)]

use super::File;
use super::direct::{ALIGNMENT, Buffer, DirectFile, PIECE_BYTES};
use bytes::Bytes;
use crossbeam_queue::ArrayQueue;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Of so many large writes one tries the way that costs more.
const TRIED_EVERY: u64 = 32;
/// So much waiting costs as much as a part of it of the processor's time: others may use that meanwhile.
const WAITED_PART: u32 = 4;

/// A file for large writes in order.
#[derive(Debug)]
pub(super) struct LargeFile {
    file: DirectFile,
    pace: Arc<Pace>,
}

impl LargeFile {
    pub(super) fn new(file: DirectFile, pace: Arc<Pace>) -> LargeFile {
        LargeFile { file, pace }
    }

    /// Writes the whole pages among `bytes` past the cache, and what is left at both ends through it.
    fn write_past(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let before = (offset.next_multiple_of(ALIGNMENT as u64) - offset) as usize;
        let (head, rest) = bytes.split_at(before.min(bytes.len()));
        let (pages, tail) = rest.split_at(rest.len() / ALIGNMENT * ALIGNMENT);
        let start = offset + head.len() as u64;
        self.file.through.write_at(head, offset)?;
        let mut buffer = BUFFERS.pop().unwrap_or_default();
        let pieces = (start..)
            .step_by(PIECE_BYTES)
            .zip(pages.chunks(PIECE_BYTES));
        for (offset, piece) in pieces {
            buffer.fill(piece);
            self.file.write(&buffer, offset)?;
        }
        // One too many goes.
        let _ = BUFFERS.push(buffer);
        self.file.through.write_at(tail, start + pages.len() as u64)
    }
}

impl File for LargeFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.through.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.through.write_at(bytes, offset)
    }

    fn write_large_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.len() < 2 * ALIGNMENT || self.file.is_refused() {
            return self.file.through.write_at(bytes, offset);
        }
        let way = self.pace.choose();
        let started = (Instant::now(), processor_time());
        match way {
            Way::Through => self.file.through.write_at(bytes, offset)?,
            Way::Past => self.write_past(bytes, offset)?,
        }
        let worked = processor_time().saturating_sub(started.1);
        let waited = started.0.elapsed().saturating_sub(worked);
        let cost = worked + waited / WAITED_PART;
        self.pace
            .note(way, cost.as_nanos() as u64 * 1024 / bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.through.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.through.length()
    }

    fn map(&self, length: u64) -> Option<Bytes> {
        self.file.through.map(length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.through.set_length(length)
    }
}

/// Through the page cache, or past it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Through,
    Past,
}

/// What each way has cost of late, in nanoseconds for a KiB; 0 before it was tried. One for all files of a store.
#[derive(Debug, Default)]
pub(super) struct Pace {
    writes: AtomicU64,
    through: AtomicU64,
    past: AtomicU64,
}

impl Pace {
    fn choose(&self) -> Way {
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        let through = self.through.load(Ordering::Relaxed);
        let is_past_cheaper = self.past.load(Ordering::Relaxed) < through;
        let tries_other = writes % TRIED_EVERY == TRIED_EVERY - 1;
        match is_past_cheaper != tries_other {
            true => Way::Past,
            false => Way::Through,
        }
    }

    fn note(&self, way: Way, cost: u64) {
        let pace = match way {
            Way::Through => &self.through,
            Way::Past => &self.past,
        };
        // One that had to wait for something else says little.
        let smoothed = match pace.load(Ordering::Relaxed) {
            0 => cost,
            known => (7 * known + cost.min(4 * known)) / 8,
        };
        pace.store(smoothed.max(1), Ordering::Relaxed);
    }
}

/// What the calling thread has had of the processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory to write from, used again: some of it stays with the process.
static BUFFERS: LazyLock<ArrayQueue<Buffer>> = LazyLock::new(|| ArrayQueue::new(8));

#[cfg(test)]
mod tests {
    use super::super::{DiskFs, Fs};
    use super::*;

    #[test]
    fn what_was_written_in_any_way_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large");
        let file = DiskFs::default().create_large(&path).unwrap();
        let bytes: Vec<u8> = (0..4 << 20).map(|index: u32| (index / 3) as u8).collect();
        let lengths = [
            48, 12, 262_144, 12, 262_144, 5000, 12, 300_001, 8192, 3, 262_144,
        ];
        let mut offset = 0;
        for (turn, &length) in lengths.iter().cycle().take(150).enumerate() {
            let part = &bytes[turn * 20_000..][..length];
            file.write_large_at(part, offset).unwrap();
            offset += length as u64;
        }
        file.sync().unwrap();
        assert_eq!(file.length().unwrap(), offset);
        let mut offset = 0;
        for (turn, &length) in lengths.iter().cycle().take(150).enumerate() {
            let mut read = vec![0; length];
            assert_eq!(file.read_at(&mut read, offset).unwrap(), length);
            assert!(read == bytes[turn * 20_000..][..length], "write {turn}");
            offset += length as u64;
        }
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_tried_now_and_then() {
        let pace = Pace::default();
        let run = |writes: usize, past: u64| {
            let ways = (0..writes).map(|_| {
                let way = pace.choose();
                pace.note(way, if way == Way::Past { past } else { 100 });
                way
            });
            ways.filter(|way| *way == Way::Past).count()
        };
        assert!(run(320, 50) > 300);
        assert!(run(320, 200) < 40);
        assert!(run(3200, 50) > 2500, "what has become cheaper is found");
    }
}

//! Files that take large writes in order: past the page cache, where that costs less.
//!
//! A page that is new in the cache has to be found, and in a virtual machine perhaps fetched from the host first: a MiB took
//! 0.5 to 4 ms of the processor in one, and 0.2 ms when the disk took it from a buffer that is used again and again.
//! Where memory is at hand and the disk is slow it is the other way round. So both are tried, and the cheaper way is used.
#![allow(
    clippy::disallowed_types,
    reason = "part of the seam that the rest of the engine goes through"
)]

use super::File;
use super::direct::DirectFile;
use super::pages::PAGE_BYTES;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Probes the slower path on every 32nd large write; the slower it is the less often, at most on every 1024th.
const TRIED_EVERY: u64 = 32;
const TRIED_EVERY_MAX: u64 = 1024;
/// Waiting counts a quarter of CPU time: other threads can use the CPU meanwhile.
const WAITED_PART: u32 = 4;

/// A file for large writes in order.
#[derive(Debug)]
pub(super) struct LargeFile {
    file: DirectFile,
    costs: Arc<WriteCosts>,
}

impl LargeFile {
    pub(super) fn new(file: DirectFile, costs: Arc<WriteCosts>) -> LargeFile {
        LargeFile { file, costs }
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
        if !is_in_pages(bytes, offset) || self.file.is_refused() {
            return self.file.through.write_at(bytes, offset);
        }
        let pace = self.costs.of(bytes.len());
        let way = pace.choose();
        let started = (Instant::now(), processor_time());
        match way {
            WritePath::Buffered => self.file.through.write_at(bytes, offset)?,
            WritePath::Direct => self.file.write(bytes, offset)?,
        }
        let worked = processor_time().saturating_sub(started.1);
        let waited = started.0.elapsed().saturating_sub(worked);
        let cost = worked + waited / WAITED_PART;
        pace.note(way, cost.as_nanos() as u64 * 1024 / bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.through.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.through.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.through.set_length(length)
    }
}

/// Whether these are whole pages, in memory and in the file.
fn is_in_pages(bytes: &[u8], offset: u64) -> bool {
    let is_page = |place: usize| place.is_multiple_of(PAGE_BYTES);
    is_page(bytes.as_ptr().addr()) && is_page(bytes.len()) && is_page(offset as usize)
}

/// Writes up to this length cost more per byte. Short and long writes are compared separately.
const SHORT_BYTES_MAX: usize = 128 << 10;

/// The costs of a store: of short writes and of longer ones.
#[derive(Debug, Default)]
pub(super) struct WriteCosts {
    short: Pace,
    long: Pace,
}

impl WriteCosts {
    fn of(&self, bytes: usize) -> &Pace {
        if bytes <= SHORT_BYTES_MAX {
            &self.short
        } else {
            &self.long
        }
    }
}

/// Through the page cache, or past it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WritePath {
    Buffered,
    Direct,
}

/// The recent cost of each way, in nanoseconds for a KiB; 0 before it was tried.
#[derive(Debug, Default)]
struct Pace {
    writes: AtomicU64,
    through: AtomicU64,
    past: AtomicU64,
}

impl Pace {
    fn choose(&self) -> WritePath {
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        let through = self.through.load(Ordering::Relaxed);
        let past = self.past.load(Ordering::Relaxed);
        let (less, more) = (through.min(past).max(1), through.max(past));
        let every = (TRIED_EVERY * more / less).clamp(TRIED_EVERY, TRIED_EVERY_MAX);
        let tries_other = writes % every == every - 1;
        if (past < through) != tries_other {
            WritePath::Direct
        } else {
            WritePath::Buffered
        }
    }

    fn note(&self, way: WritePath, cost: u64) {
        let pace = match way {
            WritePath::Buffered => &self.through,
            WritePath::Direct => &self.past,
        };
        // One that had to wait for something else says little.
        let smoothed = match pace.load(Ordering::Relaxed) {
            0 => cost,
            known => (7 * known + cost.min(4 * known)) / 8,
        };
        pace.store(smoothed.max(1), Ordering::Relaxed);
    }
}

/// The processor time of the calling thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{DiskFs, Fs, PageBuffer};

    #[test]
    fn what_was_written_in_any_way_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large");
        let file = DiskFs::default().create_large(&path).unwrap();
        // A write of one byte more or less takes the next ones out of the pages, until one of the rest of a page.
        let lengths = [
            4096, 262_144, 262_144, 3, 4093, 8192, 5000, 262_144, 3192, 4096,
        ];
        let mut expected: Vec<u8> = Vec::new();
        let mut buffer = PageBuffer::new(262_144);
        for (turn, &length) in lengths.iter().cycle().take(150).enumerate() {
            buffer.clear();
            buffer.extend_zeros(length);
            let bytes = buffer.bytes_mut().iter_mut().enumerate();
            bytes.for_each(|(at, byte)| *byte = (at / 3 + turn) as u8);
            file.write_large_at(buffer.bytes(), expected.len() as u64)
                .unwrap();
            expected.extend_from_slice(buffer.bytes());
        }
        file.sync().unwrap();
        assert_eq!(file.length().unwrap(), expected.len() as u64);
        let mut offset = 0;
        for (turn, &length) in lengths.iter().cycle().take(150).enumerate() {
            let mut read = vec![0; length];
            assert_eq!(file.read_at(&mut read, offset as u64).unwrap(), length);
            assert!(read == expected[offset..][..length], "write {turn}");
            offset += length;
        }
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_tried_now_and_then() {
        let pace = Pace::default();
        let run = |writes: usize, past: u64| {
            let ways = (0..writes).map(|_| {
                let way = pace.choose();
                pace.note(way, if way == WritePath::Direct { past } else { 100 });
                way
            });
            ways.filter(|way| *way == WritePath::Direct).count()
        };
        assert!(run(320, 50) > 300);
        assert!(run(320, 200) < 40);
        assert!(run(3200, 50) > 2500, "what has become cheaper is found");
        run(320, 5);
        assert!(
            run(3200, 5) > 3190,
            "what costs much more is tried less often"
        );
    }
}

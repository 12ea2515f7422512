//! The disk without a server: the rate of a sequential write, and the time of a synced small write.

use lazurite_bench_common::{Outcome, Random};

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const CHUNK_BYTES: usize = 8 << 20;

/// The rate, in MiB per second, of writing a file of `mib` MiB in `directory` and syncing it.
pub(super) fn sequential_write(directory: &Path, mib: u64) -> Outcome<f64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    Random::new(3).fill(&mut chunk);
    let mut file = File::create(directory.join("sequential"))?;
    let (started, bytes) = (Instant::now(), mib << 20);
    let mut left = bytes;
    while left > 0 {
        let count = left.min(CHUNK_BYTES as u64);
        file.write_all(&chunk[..count as usize])?;
        left -= count;
    }
    file.sync_data()?;
    Ok(mib as f64 / started.elapsed().as_secs_f64())
}

/// Writes records of `bytes` bytes into the allocated blocks of a file in `directory` for `time`,
/// each write followed by a sync. Returns writes per second, and the median time of a write with
/// its sync in microseconds.
pub(super) fn synced_writes(directory: &Path, bytes: usize, time: Duration) -> Outcome<(f64, f64)> {
    let record = vec![7; bytes];
    let mut file = File::create(directory.join("synced"))?;
    file.write_all(&vec![0; CHUNK_BYTES])?;
    file.sync_all()?;
    let (started, mut times) = (Instant::now(), Vec::new());
    while started.elapsed() < time || times.is_empty() {
        if times.len() % (CHUNK_BYTES / bytes) == 0 {
            file.rewind()?;
        }
        let began = Instant::now();
        file.write_all(&record)?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    let per_s = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    Ok((per_s, times[times.len() / 2].as_secs_f64() * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_writes_have_a_rate_and_a_median() {
        let directory = tempfile::tempdir().unwrap();
        let time = Duration::from_millis(5);
        let (per_s, p50_us) = synced_writes(directory.path(), 1 << 20, time).unwrap();
        assert!(per_s > 0.0 && p50_us > 0.0);
    }

    #[test]
    fn a_file_of_the_size_is_written() {
        let directory = tempfile::tempdir().unwrap();
        assert!(sequential_write(directory.path(), 9).unwrap() > 0.0);
        let metadata = directory.path().join("sequential").metadata();
        assert_eq!(metadata.unwrap().len(), 9 << 20);
    }
}

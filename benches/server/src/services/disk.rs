//! The disk alone: how fast one file is written in order, and is on the disk at the end.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::random::Random;
use crate::report::Outcome;

const CHUNK_BYTES: usize = 8 << 20;

/// MiB a second for a file of so many MiB below `directory`, synced at its end.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_size_is_written() {
        let directory = tempfile::tempdir().unwrap();
        assert!(sequential_write(directory.path(), 9).unwrap() > 0.0);
        let metadata = directory.path().join("sequential").metadata();
        assert_eq!(metadata.unwrap().len(), 9 << 20);
    }
}

//! Finds repeated keys, in memory that does not grow with their number.
//!
//! Keys are identified by hashes of 128 bits. These are sorted in runs, one in memory and the
//! others in temporary files, and the runs are merged at the end, so that equal hashes follow each
//! other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};

/// Maximum number of hashes in memory. They take 32 MiB.
const RUN_HASHES: usize = 1 << 20;

/// The hash of a key, and the number of its line.
type KeyHash = (u128, u64);

/// The hashes of the keys in a file.
pub struct KeyHashes {
    /// The run in memory, not sorted yet.
    run: Vec<KeyHash>,
    run_hashes_max: usize,
    files: Vec<File>,
    /// The error of a run that could not be written.
    failure: Option<io::Error>,
}

impl KeyHashes {
    pub fn new() -> KeyHashes {
        KeyHashes::with_runs_of(RUN_HASHES)
    }

    fn with_runs_of(run_hashes_max: usize) -> KeyHashes {
        KeyHashes {
            run: Vec::new(),
            run_hashes_max,
            files: Vec::new(),
            failure: None,
        }
    }

    pub fn add(&mut self, hash: u128, line: u64) {
        if self.run.len() == self.run_hashes_max {
            let written = self.write_run();
            self.failure = self.failure.take().or(written.err());
        }
        if self.failure.is_none() {
            self.run.push((hash, line));
        }
    }

    /// The first line whose key occurs in an earlier line, preceded by that earlier line; `None` if
    /// no key is repeated. Error: a temporary file could not be written or read.
    pub fn first_repeated(mut self) -> io::Result<Option<(u64, u64)>> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.run.sort_unstable();
        let mut runs: Vec<_> = self.files.into_iter().map(Run::of_file).collect();
        runs.push(Run::InMemory(self.run.into_iter()));
        first_repeated(runs)
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.run.sort_unstable();
        let mut file = BufWriter::new(tempfile::tempfile()?);
        for (hash, line) in self.run.drain(..) {
            file.write_all(&hash.to_le_bytes())?;
            file.write_all(&line.to_le_bytes())?;
        }
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.files.push(file);
        Ok(())
    }
}

/// Sorted hashes.
enum Run {
    InMemory(std::vec::IntoIter<KeyHash>),
    InFile(BufReader<File>),
}

impl Run {
    fn of_file(file: File) -> Run {
        Run::InFile(BufReader::new(file))
    }

    fn next(&mut self) -> io::Result<Option<KeyHash>> {
        let file = match self {
            Run::InMemory(hashes) => return Ok(hashes.next()),
            Run::InFile(file) => file,
        };
        let (mut hash, mut line) = ([0; 16], [0; 8]);
        match file.read_exact(&mut hash) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        file.read_exact(&mut line)?;
        Ok(Some((u128::from_le_bytes(hash), u64::from_le_bytes(line))))
    }
}

fn first_repeated(mut runs: Vec<Run>) -> io::Result<Option<(u64, u64)>> {
    let mut heads = BinaryHeap::new();
    for (index, run) in runs.iter_mut().enumerate() {
        heads.extend(run.next()?.map(|head| Reverse((head, index))));
    }
    let mut last: Option<KeyHash> = None;
    let mut found: Option<(u64, u64)> = None;
    while let Some(Reverse(((hash, line), index))) = heads.pop() {
        heads.extend(runs[index].next()?.map(|head| Reverse((head, index))));
        if let Some((_, earlier)) = last.filter(|(before, _)| *before == hash)
            && found.is_none_or(|(_, first)| line < first)
        {
            found = Some((earlier, line));
        }
        last = Some((hash, line));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    fn repeated(keys: impl Iterator<Item = u64>, run_hashes_max: usize) -> Option<(u64, u64)> {
        let mut hashes = KeyHashes::with_runs_of(run_hashes_max);
        for (key, line) in keys.zip(1..) {
            hashes.add(xxh3_128(&key.to_le_bytes()), line);
        }
        hashes.first_repeated().unwrap()
    }

    #[test]
    fn first_line_whose_key_was_there_is_found_in_any_runs() {
        for run_hashes_max in [1, 7, 100, 1000, 10_000] {
            let all = || 0..1000_u64;
            let found = |keys: &mut dyn Iterator<Item = u64>| repeated(keys, run_hashes_max);
            assert_eq!(found(&mut all()), None);
            assert_eq!(found(&mut std::iter::empty()), None);
            let with = |keys: &[u64]| all().chain(keys.iter().copied()).collect::<Vec<_>>();
            assert_eq!(found(&mut with(&[0]).into_iter()), Some((1, 1001)));
            assert_eq!(found(&mut with(&[999]).into_iter()), Some((1000, 1001)));
            let several = with(&[5000, 500, 7, 500, 5000]);
            assert_eq!(found(&mut several.into_iter()), Some((501, 1002)));
        }
    }
}

//! The content of an imported blob: a file of the layout, or ranges of another program's files.

use crate::error::Result;
use crate::files::Source;
use crate::import_run::Import;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

const MISSING: &str = "the file is missing";

/// A range of a file; without a path, bytes that were never written and read as zeros.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    #[serde(rename = "file")]
    pub path: Option<String>,
    pub offset: u64,
    pub count: u64,
}

/// The location of a blob's bytes.
pub enum Content {
    /// A file, relative to the directory of the import.
    File(String),
    /// Ranges of files in the other program's directory, in order.
    Parts(Vec<Part>),
}

impl Content {
    /// The length in bytes. Error: the file is missing or no file, or the sum of parts overflows.
    pub fn length(&self, import: &Import<'_>) -> Result<u64> {
        match self {
            Content::File(path) => {
                let file = import.source.open(path)?.ok_or(MISSING)?;
                let metadata = file.metadata().map_err(|error| error.to_string())?;
                Ok(metadata.len())
            }
            Content::Parts(parts) => {
                let mut counts = parts.iter().map(|part| part.count);
                let length = counts.try_fold(0, u64::checked_add);
                length.ok_or_else(|| "its parts are too long".into())
            }
        }
    }

    /// A reader of the bytes from `offset` on.
    pub fn open(&self, import: &Import<'_>, offset: u64) -> Result<Box<dyn Read + Send + 'static>> {
        match self {
            Content::File(path) => {
                let mut file = import.source.open(path)?.ok_or(MISSING)?;
                file.seek(SeekFrom::Start(offset))
                    .map_err(|error| error.to_string())?;
                Ok(Box::new(file))
            }
            Content::Parts(parts) => Ok(Box::new(PartsReader {
                root: import.foreign.ok_or(MISSING)?.to_path_buf(),
                parts: skip(parts, offset),
                file: None,
            })),
        }
    }

    /// The ranges (offset, length) that may have bytes other than zeros.
    pub fn written(&self, length: u64) -> Vec<(u64, u64)> {
        let Content::Parts(parts) = self else {
            return vec![(0, length)];
        };
        let mut written: Vec<(u64, u64)> = Vec::new();
        let mut offset = 0;
        for part in parts {
            if part.path.is_some() {
                match written.last_mut() {
                    Some((start, count)) if *start + *count == offset => *count += part.count,
                    _ => written.push((offset, part.count)),
                }
            }
            offset += part.count;
        }
        written
    }
}

/// The parts from `offset` on.
fn skip(parts: &[Part], mut offset: u64) -> VecDeque<Part> {
    let mut rest = VecDeque::new();
    for part in parts {
        let skipped = offset.min(part.count);
        offset -= skipped;
        if skipped < part.count {
            rest.push_back(Part {
                path: part.path.clone(),
                offset: part.offset.saturating_add(skipped),
                count: part.count - skipped,
            });
        }
    }
    rest
}

/// Reads parts in order, with one file open at a time.
struct PartsReader {
    root: PathBuf,
    parts: VecDeque<Part>,
    file: Option<(String, File)>,
}

impl Read for PartsReader {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(part) = self.parts.front().cloned() else {
            return Ok(0);
        };
        let wanted = room
            .len()
            .min(usize::try_from(part.count).unwrap_or(usize::MAX));
        let room = &mut room[..wanted];
        let count = match &part.path {
            Some(path) => self.read_file(path, part.offset, room)?,
            None => {
                room.fill(0);
                wanted
            }
        };
        if count == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.advance(count as u64);
        Ok(count)
    }
}

impl PartsReader {
    fn read_file(&mut self, path: &str, offset: u64, room: &mut [u8]) -> io::Result<usize> {
        let opened = match self.file.take() {
            Some((name, file)) if name == path => file,
            _ => {
                let source = Source::new(&self.root);
                let file = source.open(path).map_err(io::Error::other)?;
                file.ok_or_else(|| io::Error::other(MISSING))?
            }
        };
        let (_, file) = self.file.insert((path.to_owned(), opened));
        file.seek(SeekFrom::Start(offset))?;
        file.read(room)
    }

    fn advance(&mut self, count: u64) {
        if let Some(part) = self.parts.front_mut() {
            part.offset = part.offset.saturating_add(count);
            part.count -= count;
            if part.count == 0 {
                self.parts.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: Option<&str>, offset: u64, count: u64) -> Part {
        Part {
            path: path.map(str::to_owned),
            offset,
            count,
        }
    }

    #[test]
    fn parts_are_read_one_after_the_other_from_any_byte() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "0123456789").unwrap();
        std::fs::write(directory.path().join("b"), "abc").unwrap();
        let parts = [
            part(Some("a"), 4, 3),
            part(None, 0, 2),
            part(Some("b"), 0, 3),
            part(Some("b"), 0, 0),
            part(Some("a"), 0, 1),
        ];
        let whole = b"456\0\0abc0";
        for offset in 0..=whole.len() {
            let mut reader = PartsReader {
                root: directory.path().to_path_buf(),
                parts: skip(&parts, offset as u64),
                file: None,
            };
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert_eq!(read, &whole[offset..]);
        }
        let content = Content::Parts(parts.to_vec());
        assert_eq!(content.written(9), [(0, 3), (5, 4)]);
    }

    #[test]
    fn file_that_is_too_short_is_an_error_and_no_path_leads_out() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "012").unwrap();
        for parts in [
            part(Some("a"), 2, 2),
            part(Some("a"), u64::MAX, 2),
            part(Some("absent"), 0, 1),
            part(Some("../x"), 0, 1),
        ] {
            let mut reader = PartsReader {
                root: directory.path().to_path_buf(),
                parts: VecDeque::from([parts]),
                file: None,
            };
            assert!(reader.read_to_end(&mut Vec::new()).is_err());
        }
    }
}

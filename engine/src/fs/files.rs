//! Names and numbers of files in both directions, the header every file starts with, and file calls that say in their
//! errors what was attempted on which file.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `LAZURITE` |
//! | 8 | 4 | kind: 1 WAL, 2 SSTable, 3 manifest, 4 value log |
//! | 12 | 4 | format version: 4; 2 and 3 are read too |
//! | 16 | 16 | store id |
//! | 32 | 8 | file number |
//! | 40 | 8 | checksum of bytes 0..40, keyed by the file number and offset 0 |

use crate::base::codec::{Decoder, checksum};
use crate::fs::{File, Fs, Lock, LogWrites, Space};
use crate::{Error, Result};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the header of every file but `CURRENT` and `LOCK`.
pub(crate) const HEADER_BYTES: u64 = 48;
/// File numbers stay below this.
pub(crate) const NUMBER_MAX: u64 = 1 << 56;
const MAGIC: &[u8; 8] = b"LAZURITE";
/// What is written.
pub(crate) const FORMAT_VERSION: u32 = 4;
/// The oldest version that is read.
const FORMAT_VERSION_MIN: u32 = 2;

/// What a file holds. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Wal = 1,
    Sstable = 2,
    Manifest = 3,
    ValueLog = 4,
}

/// A file name that is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileName {
    Numbered(FileKind, u64),
    Current,
    CurrentNew,
    Lock,
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Numbered(FileKind::Wal, number) => write!(f, "{number:06}.wal"),
            FileName::Numbered(FileKind::Sstable, number) => write!(f, "{number:06}.sst"),
            FileName::Numbered(FileKind::ValueLog, number) => write!(f, "{number:06}.vlog"),
            FileName::Numbered(FileKind::Manifest, number) => write!(f, "MANIFEST-{number:06}"),
            FileName::Current => f.write_str("CURRENT"),
            FileName::CurrentNew => f.write_str("CURRENT.new"),
            FileName::Lock => f.write_str("LOCK"),
        }
    }
}

impl FileName {
    /// `None` if the name is not one of ours.
    pub(crate) fn parse(name: &str) -> Option<FileName> {
        let numbered = |kind, digits: &str| {
            let number = digits.parse().ok().filter(|number| *number < NUMBER_MAX)?;
            let parsed = FileName::Numbered(kind, number);
            (parsed.to_string() == name).then_some(parsed)
        };
        match name {
            "CURRENT" => return Some(FileName::Current),
            "CURRENT.new" => return Some(FileName::CurrentNew),
            "LOCK" => return Some(FileName::Lock),
            _ => {}
        }
        if let Some(digits) = name.strip_prefix("MANIFEST-") {
            return numbered(FileKind::Manifest, digits);
        }
        let (digits, extension) = name.split_once('.')?;
        match extension {
            "wal" => numbered(FileKind::Wal, digits),
            "sst" => numbered(FileKind::Sstable, digits),
            "vlog" => numbered(FileKind::ValueLog, digits),
            _ => None,
        }
    }
}

/// The header of file `number` of a store.
pub(crate) fn encode_header(kind: FileKind, store: u128, number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES as usize);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&(kind as u32).to_le_bytes());
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&store.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    let sum = checksum(number, 0, &[&out]);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Checks a header and answers the store id in it.
pub(crate) fn check_header(bytes: &[u8], kind: FileKind, number: u64, path: &Path) -> Result<u128> {
    let corrupt = |reason: &str| Error::corrupt(path, 0, reason);
    let mut decoder = Decoder::new(bytes);
    let mut fields = || {
        let magic = decoder.take(8)?;
        let rest = (
            decoder.u32()?,
            decoder.u32()?,
            decoder.u128()?,
            decoder.u64()?,
        );
        Some((magic, rest, decoder.u64()?))
    };
    let (magic, (found_kind, version, store, found_number), sum) =
        fields().ok_or_else(|| corrupt("the file ends inside its header"))?;
    if magic != MAGIC {
        return Err(corrupt(
            "the file does not start with the magic of this program",
        ));
    }
    if sum != checksum(found_number, 0, &[&bytes[..40]]) {
        return Err(corrupt("the checksum of the header does not match"));
    }
    check_version(path, version)?;
    if found_kind != kind as u32 || found_number != number {
        return Err(corrupt("the header belongs to another file"));
    }
    Ok(store)
}

/// The format version and the store id that a header names, whether it is whole or not.
pub(crate) fn named_in_header(bytes: &[u8]) -> Option<(u32, u128)> {
    let mut decoder = Decoder::new(bytes.get(12..)?);
    Some((decoder.u32()?, decoder.u128()?))
}

/// Refuses a format version that this program does not read.
pub(crate) fn check_version(path: &Path, version: u32) -> Result<()> {
    if (FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
        return Ok(());
    }
    Err(Error::UnknownFormat {
        path: path.to_path_buf(),
        found: format!("format version {version}"),
        supported: format!("format versions {FORMAT_VERSION_MIN} to {FORMAT_VERSION}"),
    })
}

/// A data directory.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    fs: Arc<dyn Fs>,
    path: PathBuf,
}

impl Directory {
    pub(crate) fn new(fs: Arc<dyn Fs>, path: &Path) -> Directory {
        let path = path.to_path_buf();
        Directory { fs, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: FileName) -> PathBuf {
        self.path.join(name.to_string())
    }

    pub(crate) fn make(&self) -> Result<()> {
        let made = self.fs.create_directory(&self.path);
        made.map_err(|error| Error::io("create", &self.path, error))
    }

    /// Makes the name of the directory durable, and those of the directories that it lies in: `make` may have created them. One
    /// that may not be opened, or cannot be synced, is not of our making.
    pub(crate) fn sync_ancestors(&self) -> Result<()> {
        for ancestor in self.path.ancestors().skip(1) {
            match self.fs.sync_directory(ancestor) {
                Err(error) if is_not_ours(&error) => {}
                synced => synced.map_err(|error| Error::sync(ancestor, error))?,
            }
        }
        Ok(())
    }

    pub(crate) fn list(&self) -> Result<Vec<String>> {
        let listed = self.fs.list(&self.path);
        listed.map_err(|error| Error::io("list", &self.path, error))
    }

    pub(crate) fn create(&self, name: FileName) -> Result<OpenFile> {
        self.created(name, |path| self.fs.create(path))
    }

    /// A file for [`OpenFile::write_large`].
    pub(crate) fn create_large(&self, name: FileName) -> Result<OpenFile> {
        self.created(name, |path| self.fs.create_large(path))
    }

    fn created(
        &self,
        name: FileName,
        create: impl FnOnce(&Path) -> std::io::Result<Arc<dyn File>>,
    ) -> Result<OpenFile> {
        let path = self.path_of(name);
        match create(&path) {
            Ok(file) => Ok(OpenFile {
                file,
                path: path.into(),
            }),
            Err(error) => Err(Error::io("create", &path, error)),
        }
    }

    /// A file that must be there: its absence is corruption.
    pub(crate) fn open(&self, name: FileName) -> Result<OpenFile> {
        let path = self.path_of(name);
        match self.fs.open(&path) {
            Ok(file) => Ok(OpenFile {
                file,
                path: path.into(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::corrupt(&path, 0, "the file is missing"))
            }
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }

    /// A file to be written in place, of at least `length` bytes.
    pub(crate) fn open_log(
        &self,
        name: FileName,
        length: u64,
        writes: LogWrites,
    ) -> Result<OpenFile> {
        let path = self.path_of(name);
        match self.fs.open_log(&path, length, writes) {
            Ok(file) => Ok(OpenFile {
                file,
                path: path.into(),
            }),
            Err(error) => Err(Error::io("create", &path, error)),
        }
    }

    /// Another directory of the same file system.
    pub(crate) fn beside(&self, path: &Path) -> Directory {
        Directory::new(self.fs.clone(), path)
    }

    /// Gives the file a second name, in another directory.
    pub(crate) fn link(&self, name: FileName, target: &Directory) -> Result<()> {
        let path = target.path_of(name);
        let linked = self.fs.link(&self.path_of(name), &path);
        linked.map_err(|error| Error::io("link", &path, error))
    }

    pub(crate) fn rename(&self, from: FileName, to: FileName) -> Result<()> {
        let path = self.path_of(to);
        let renamed = self.fs.rename(&self.path_of(from), &path);
        renamed.map_err(|error| Error::io("rename", &path, error))
    }

    pub(crate) fn remove(&self, name: FileName) -> Result<()> {
        let path = self.path_of(name);
        let removed = self.fs.remove(&path);
        removed.map_err(|error| Error::io("remove", &path, error))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.fs.sync_directory(&self.path);
        synced.map_err(|error| Error::sync(&self.path, error))
    }

    /// How much space there is where the directory lies, if that is known and limited.
    pub(crate) fn space(&self) -> Option<Space> {
        self.fs.space(&self.path)
    }

    /// Bytes that the files in it take, as far as they are known.
    pub(crate) fn used(&self) -> u64 {
        self.fs.used(&self.path).unwrap_or(0)
    }

    pub(crate) fn lock(&self) -> Result<Lock> {
        let path = self.path_of(FileName::Lock);
        let locked = self.fs.lock(&path);
        locked.map_err(|error| Error::io("lock", &path, error))
    }
}

fn is_not_ours(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let kinds = [
        InvalidInput,
        PermissionDenied,
        ReadOnlyFilesystem,
        Unsupported,
    ];
    kinds.contains(&error.kind())
}

/// An open file that knows its path.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    file: Arc<dyn File>,
    path: Arc<Path>,
}

impl OpenFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// `length` bytes from `offset`; a file that ends before them is corrupt. The length has been checked by the caller.
    pub(crate) fn read_exact(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        // Any filling would do, but that of zeros: the allocator takes zeroed memory of this size anew from the system, page
        // by page, where it otherwise has some at hand.
        let mut bytes = vec![1; length];
        self.read_exact_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` from `offset` on; a file that ends before is corrupt.
    pub(crate) fn read_exact_into(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.read_exact_by(offset, bytes, |bytes, offset| {
            self.file.read_at(bytes, offset)
        })
    }

    /// The same; `around` is what to read at the same time if the disk has to be asked.
    pub(crate) fn read_exact_around(
        &self,
        offset: u64,
        bytes: &mut [u8],
        around: &dyn Fn() -> Option<Range<u64>>,
    ) -> Result<()> {
        self.read_exact_by(offset, bytes, |bytes, offset| {
            self.file.read_around_at(bytes, offset, around)
        })
    }

    fn read_exact_by(
        &self,
        offset: u64,
        bytes: &mut [u8],
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let read = read(&mut bytes[done..], offset + done as u64);
            match read.map_err(|error| Error::io("read", &self.path, error))? {
                0 => return Err(self.corrupt(offset, "the file ends early")),
                count => done += count,
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.file.write_at(bytes, offset);
        written.map_err(|error| Error::io("write", &self.path, error))
    }

    /// As `write`, for one of many large writes in order.
    pub(crate) fn write_large(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.file.write_large_at(bytes, offset);
        written.map_err(|error| Error::io("write", &self.path, error))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync(&self.path, error))
    }

    pub(crate) fn length(&self) -> Result<u64> {
        let length = self.file.length();
        length.map_err(|error| Error::io("read the length of", &self.path, error))
    }

    pub(crate) fn set_length(&self, length: u64) -> Result<()> {
        let set = self.file.set_length(length);
        set.map_err(|error| Error::io("set the length of", &self.path, error))
    }

    pub(crate) fn corrupt(&self, offset: u64, reason: impl Into<String>) -> Error {
        Error::corrupt(&self.path, offset, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_to_what_was_written_and_nothing_else() {
        let kinds = [
            FileKind::Wal,
            FileKind::Sstable,
            FileKind::Manifest,
            FileKind::ValueLog,
        ];
        for name in kinds.map(|kind| FileName::Numbered(kind, 1234567)) {
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
        for foreign in [
            "7.wal",
            "+00007.wal",
            "000007.log",
            "__azurite_db_blob__.json",
            "MANIFEST-x",
        ] {
            assert_eq!(FileName::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_header_of_another_version_is_an_unknown_format() {
        let mut bytes = encode_header(FileKind::Wal, 7, 3);
        assert_eq!(
            check_header(&bytes, FileKind::Wal, 3, Path::new("f")).unwrap(),
            7
        );
        bytes[12] = FORMAT_VERSION as u8 + 1;
        let sum = checksum(3, 0, &[&bytes[..40]]);
        bytes[40..].copy_from_slice(&sum.to_le_bytes());
        let refused = check_header(&bytes, FileKind::Wal, 3, Path::new("f"));
        assert!(matches!(refused, Err(Error::UnknownFormat { .. })));
    }
}

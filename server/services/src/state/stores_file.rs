//! The bytes of the file `STORES.list`, which names the directories of the current store and of its
//! snapshots.
//!
//! `docs/durability-and-limits.md` describes them byte by byte. The file is small and always
//! written whole.

use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"LZSTORES";
/// The only format version that is written and read.
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 8;
/// Maximum number of snapshots that a data directory keeps.
pub const SNAPSHOTS_MAX: usize = 1000;
/// Maximum length of a snapshot's name, in characters.
const NAME_CHARACTERS_MAX: usize = 64;
/// Size of the largest file: the maximum number of snapshots with the longest names.
pub const FILE_BYTES_MAX: u64 = 32 + (SNAPSHOTS_MAX * (17 + NAME_CHARACTERS_MAX)) as u64;

/// The number of a directory of a store. 0 is the data directory itself.
pub type StoreNumber = u64;

/// The number of the data directory itself. It holds the store until the first reset or restore.
pub const TOP: StoreNumber = 0;

/// The stores in a data directory, as the `STORES.list` file lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoresFile {
    /// The number of the current store.
    pub current: StoreNumber,
    /// The snapshots in the order of their creation.
    pub snapshots: Vec<SnapshotRecord>,
}

/// A snapshot of the whole store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRecord {
    pub name: String,
    pub number: StoreNumber,
    pub made_at: SystemTime,
}

/// Why bytes are not a valid `STORES.list` file.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A later release wrote the file, with this format version.
    Version(u32),
    /// The offset of the damage, and the check that failed.
    Damaged(usize, &'static str),
}

/// True if a snapshot may have this name: 1 to 64 ASCII letters, digits, dots, hyphens and
/// underscores; the first is a letter or a digit. `now` is no name of a snapshot: in requests it
/// means the current store.
pub fn is_snapshot_name(name: &str) -> bool {
    let is_mark = |byte: u8| matches!(byte, b'.' | b'-' | b'_');
    let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
    name.len() <= NAME_CHARACTERS_MAX
        && name.as_bytes().first().is_some_and(is_first)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
        && !name.eq_ignore_ascii_case("now")
}

impl StoresFile {
    pub fn snapshot(&self, name: &str) -> Option<&SnapshotRecord> {
        self.snapshots
            .iter()
            .find(|snapshot| snapshot.name == *name)
    }

    /// The numbers of all directories in the file, including the data directory if the file names
    /// it.
    pub fn numbers(&self) -> impl Iterator<Item = StoreNumber> {
        let snapshots = self.snapshots.iter().map(|snapshot| snapshot.number);
        snapshots.chain([self.current])
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.current.to_le_bytes());
        bytes.extend((self.snapshots.len() as u32).to_le_bytes());
        for snapshot in &self.snapshots {
            let since = snapshot.made_at.duration_since(SystemTime::UNIX_EPOCH);
            let milliseconds = since.unwrap_or_default().as_millis();
            bytes.extend(snapshot.number.to_le_bytes());
            bytes.extend(
                u64::try_from(milliseconds)
                    .unwrap_or(u64::MAX)
                    .to_le_bytes(),
            );
            bytes.push(snapshot.name.len() as u8);
            bytes.extend(snapshot.name.as_bytes());
        }
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<StoresFile, Unreadable> {
        let mut reader = Reader { bytes, offset: 0 };
        if reader.take::<8>()? != MAGIC {
            return Err(Unreadable::Damaged(0, "the file does not begin as it must"));
        }
        let version = u32::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        let end = bytes.len().saturating_sub(CHECKSUM_BYTES);
        let (content, checksum) = bytes.split_at(end);
        if xxh3_64(content).to_le_bytes() != *checksum {
            return Err(Unreadable::Damaged(end, "the checksum is wrong"));
        }
        reader.bytes = content;
        let file = reader.file()?;
        if reader.offset == end {
            Ok(file)
        } else {
            Err(reader.damaged("the file is longer than its snapshots"))
        }
    }
}

/// Reads the fields of the file in order.
struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl Reader<'_> {
    fn file(&mut self) -> Result<StoresFile, Unreadable> {
        let current = u64::from_le_bytes(self.take()?);
        let count = u32::from_le_bytes(self.take()?) as usize;
        if count > SNAPSHOTS_MAX {
            return Err(self.damaged("there are too many snapshots"));
        }
        let mut file = StoresFile {
            current,
            snapshots: Vec::new(),
        };
        for _ in 0..count {
            let snapshot = self.snapshot()?;
            let is_taken = |number| file.numbers().any(|taken| taken == number);
            if snapshot.number == TOP || is_taken(snapshot.number) {
                return Err(self.damaged("two stores have one directory"));
            }
            if file.snapshot(&snapshot.name).is_some() {
                return Err(self.damaged("two snapshots have one name"));
            }
            file.snapshots.push(snapshot);
        }
        Ok(file)
    }

    fn snapshot(&mut self) -> Result<SnapshotRecord, Unreadable> {
        let number = u64::from_le_bytes(self.take()?);
        let since = Duration::from_millis(u64::from_le_bytes(self.take()?));
        let [length] = self.take()?;
        let name = self.slice(length.into())?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| is_snapshot_name(name));
        let name = name.map(str::to_owned);
        let made_at = SystemTime::UNIX_EPOCH.checked_add(since);
        match (name, made_at) {
            (Some(name), Some(made_at)) => Ok(SnapshotRecord {
                name,
                number,
                made_at,
            }),
            (None, _) => Err(self.damaged("the name of a snapshot is none")),
            (_, None) => Err(self.damaged("the time of a snapshot is none")),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let slice = self.slice(N)?;
        Ok(slice.try_into().expect("the slice has N bytes"))
    }

    fn slice(&mut self, length: usize) -> Result<&[u8], Unreadable> {
        let range = self.offset..self.offset + length;
        if range.end > self.bytes.len() {
            return Err(self.damaged("the file ends early"));
        }
        self.offset = range.end;
        Ok(&self.bytes[range])
    }

    fn damaged(&self, reason: &'static str) -> Unreadable {
        Unreadable::Damaged(self.offset, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> StoresFile {
        let snapshot = |name: &str, number| SnapshotRecord {
            name: name.to_owned(),
            number,
            made_at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
        };
        StoresFile {
            current: 3,
            snapshots: vec![snapshot("seed", 1), snapshot("before-run_2.0", 7)],
        }
    }

    #[test]
    fn file_is_read_as_it_was_written() {
        for file in [StoresFile::default(), example()] {
            assert_eq!(StoresFile::decode(&file.encode()), Ok(file));
        }
        let most = StoresFile {
            current: TOP,
            snapshots: (1..=SNAPSHOTS_MAX as u64)
                .map(|number| SnapshotRecord {
                    name: format!("{number:064}"),
                    number,
                    made_at: SystemTime::UNIX_EPOCH,
                })
                .collect(),
        };
        assert_eq!(most.encode().len() as u64, FILE_BYTES_MAX);
        assert_eq!(StoresFile::decode(&most.encode()), Ok(most));
    }

    #[test]
    fn bytes_are_those_of_the_documentation() {
        let file = StoresFile {
            current: 2,
            snapshots: vec![SnapshotRecord {
                name: "seed".to_owned(),
                number: 1,
                made_at: SystemTime::UNIX_EPOCH + Duration::from_millis(0x0102),
            }],
        };
        let bytes = file.encode();
        let (content, checksum) = bytes.split_at(bytes.len() - 8);
        let expected = b"LZSTORES\x01\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\x04seed";
        assert_eq!(content, expected);
        assert_eq!(checksum, xxh3_64(content).to_le_bytes());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = example().encode();
        for offset in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[offset] ^= 1 << bit;
                assert!(StoresFile::decode(&damaged).is_err(), "{offset} {bit}");
            }
            assert!(StoresFile::decode(&bytes[..offset]).is_err(), "{offset}");
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert!(StoresFile::decode(&longer).is_err());
    }

    #[test]
    fn stores_that_contradict_each_other_are_refused() {
        let with = |change: fn(&mut StoresFile)| {
            let mut file = example();
            change(&mut file);
            StoresFile::decode(&file.encode()).is_err()
        };
        assert!(!with(|_| {}));
        assert!(with(|file| file.snapshots[1].number = 1));
        assert!(with(|file| file.snapshots[1].number = 3));
        assert!(with(|file| file.snapshots[1].number = TOP));
        assert!(with(|file| file.snapshots[1].name = "seed".to_owned()));
        assert!(with(|file| file.snapshots[1].name = "../seed".to_owned()));
        let mut later = example().encode();
        later[8] = 9;
        assert_eq!(StoresFile::decode(&later), Err(Unreadable::Version(9)));
    }

    #[test]
    fn names_of_snapshots_hold_nothing_that_a_path_needs() {
        for name in ["a", "Seed-1", "2026-01-31T12.00", "x_y", &"n".repeat(64)] {
            assert!(is_snapshot_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../a",
            "a/b",
            "a\\b",
            ".hidden",
            "-x",
            "now",
            "NOW",
            "é",
            "a b",
            "a\0",
            "a%2Fb",
            "C:",
            &"n".repeat(65),
        ] {
            assert!(!is_snapshot_name(name), "{name}");
        }
    }
}

//! The names of a store's files.

use std::fmt;

/// File numbers stay below this.
pub(crate) const NUMBER_MAX: u64 = 1 << 56;

/// The kinds of files. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Wal = 1,
    Sstable = 2,
    Manifest = 3,
    ValueLog = 4,
}

/// The name of a file of a store.
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
    /// Parses a file name; `None` if no file of a store has it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_names_parse_and_others_do_not() {
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
}

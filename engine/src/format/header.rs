//! The header that every file but `CURRENT` and `LOCK` starts with.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `LAZURITE` |
//! | 8 | 4 | kind: 1 WAL, 2 SSTable, 3 manifest, 4 value log |
//! | 12 | 4 | format version: 5 |
//! | 16 | 16 | store id |
//! | 32 | 8 | file number |
//! | 40 | 8 | checksum of bytes 0..40, keyed by the file number and offset 0 |

use crate::base::codec::{Decoder, checksum};
use crate::fs::name::FileKind;
use crate::{Error, Result};
use std::path::Path;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = 48;
const MAGIC: &[u8; 8] = b"LAZURITE";
/// The only version that is written and read.
pub(crate) const FORMAT_VERSION: u32 = 5;

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

/// Checks a header and returns the store id in it.
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

/// Returns the key of the checksums in file `number`. A client cannot compute it, because the id of
/// the store is secret. For files in which a search after damage meets keys or values that clients
/// chose.
pub(crate) fn store_key(store: u128, number: u64) -> u64 {
    number ^ (store as u64) ^ (store >> 64) as u64
}

/// Like [`store_key`], with the store id in the file header at the start of `bytes`. The header may
/// be incomplete.
pub(crate) fn store_key_in(bytes: &[u8], number: u64) -> u64 {
    let id = bytes.get(16..).and_then(|rest| Decoder::new(rest).u128());
    id.map_or(number, |store| store_key(store, number))
}

/// Refuses every format version but [`FORMAT_VERSION`].
pub(crate) fn check_version(path: &Path, version: u32) -> Result<()> {
    if version == FORMAT_VERSION {
        return Ok(());
    }
    Err(Error::UnknownFormat {
        path: path.to_path_buf(),
        found: format!("format version {version}"),
        supported: format!(
            "format version {FORMAT_VERSION}: export the data with the program that wrote it, or remove the directory"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_another_version_is_an_unknown_format() {
        let mut bytes = encode_header(FileKind::Wal, 7, 3);
        assert_eq!(
            check_header(&bytes, FileKind::Wal, 3, Path::new("f")).unwrap(),
            7
        );
        for other in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
            bytes[12] = other as u8;
            let sum = checksum(3, 0, &[&bytes[..40]]);
            bytes[40..].copy_from_slice(&sum.to_le_bytes());
            let refused = check_header(&bytes, FileKind::Wal, 3, Path::new("f"));
            let refused = refused.unwrap_err();
            assert!(matches!(refused, Error::UnknownFormat { .. }));
            let message = refused.to_string();
            for part in [
                format!("has format version {other}"),
                format!("reads format version {FORMAT_VERSION}"),
            ] {
                assert!(message.contains(&part), "{part} in {message}");
            }
        }
    }
}

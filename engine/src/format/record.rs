//! Records of the manifest: an edit with its length and its checksums, and the search for them
//! after damage.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | length of the edit |
//! | 4 | 4 | low half of the checksum of the length |
//! | 8 | 8 | checksum of the eight bytes above and of the edit |
//! | 16 | n | the edit |
//!
//! Both checksums are keyed by store id, file number and offset. Edits contain keys, which clients
//! choose, and a client does not know the store id: so a client can neither forge a record nor
//! plant bytes that look like many records.

use crate::base::codec::{Decoder, checksum};
use crate::format::edit::VersionEdit;
use crate::format::header::{store_key, store_key_in};
use crate::format::search::{Exhausted, SearchBudget};

const RECORD_HEADER_BYTES: usize = 16;

/// The records of one manifest, represented by the key of their checksums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Records(u64);

/// A record whose checksum matches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) edit: &'a [u8],
    /// Offset at which the next record begins.
    pub(crate) end: usize,
}

impl Records {
    #[cfg(test)]
    fn new(store: u128, number: u64) -> Records {
        Records(store_key(store, number))
    }

    /// The records of the manifest that begins with these bytes.
    pub(crate) fn named_in(bytes: &[u8], number: u64) -> Records {
        Records(store_key_in(bytes, number))
    }

    /// The whole record at `offset`, if there is one.
    pub(crate) fn at(self, bytes: &[u8], offset: usize) -> Option<Record<'_>> {
        let edit = edit_at(bytes, self.0, offset)?;
        let end = offset + RECORD_HEADER_BYTES + edit.len();
        Some(Record { edit, end })
    }

    /// Returns the offset of the next whole record after the bad one at `bad`. Looks at every
    /// offset, because the damaged bytes may be a length. The budget bounds the work in case a
    /// client knows the store id, which is secret.
    pub(crate) fn next(
        self,
        bytes: &[u8],
        bad: usize,
    ) -> std::result::Result<Option<usize>, Exhausted> {
        let mut budget = SearchBudget::of(bytes.len());
        for at in bad + 1..bytes.len() {
            if let Some(length) = length_at(bytes, self.0, at) {
                budget.charge(length)?;
                if edit_at(bytes, self.0, at).is_some() {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }
}

/// The record of `edit` for this offset of a manifest.
pub(crate) fn encode_record(store: u128, number: u64, offset: u64, edit: &VersionEdit) -> Vec<u8> {
    let key = store_key(store, number);
    let edit = edit.encode();
    let mut out = Vec::with_capacity(RECORD_HEADER_BYTES + edit.len());
    out.extend_from_slice(&(edit.len() as u32).to_le_bytes());
    out.extend_from_slice(&length_checksum(key, offset, &out).to_le_bytes());
    let sum = checksum(key, offset, &[&out, &edit]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&edit);
    out
}

/// A checksum of the length alone, so that a search can reject an offset without reading an edit.
fn length_checksum(key: u64, offset: u64, length: &[u8]) -> u32 {
    checksum(key, offset, &[length]) as u32
}

/// Returns the length that the head of a record at `offset` states, if its checksum matches and the
/// file is long enough.
fn length_at(bytes: &[u8], key: u64, offset: usize) -> Option<usize> {
    let head: &[u8; RECORD_HEADER_BYTES] = bytes.get(offset..)?.first_chunk()?;
    let mut decoder = Decoder::new(head);
    let (length, sum) = (decoder.u32()?, decoder.u32()?);
    let room = bytes.len() - offset - RECORD_HEADER_BYTES;
    let is_possible = (1..=room).contains(&(length as usize));
    (is_possible && sum == length_checksum(key, offset as u64, &head[..4]))
        .then_some(length as usize)
}

fn edit_at(bytes: &[u8], key: u64, offset: usize) -> Option<&[u8]> {
    let length = length_at(bytes, key, offset)?;
    let (head, rest) = bytes[offset..].split_at(RECORD_HEADER_BYTES);
    let edit = &rest[..length];
    let sum = u64::from_le_bytes(head[8..].try_into().ok()?);
    (sum == checksum(key, offset as u64, &[&head[..8], edit])).then_some(edit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::edit::Field;

    const STORE: u128 = 9 << 64 | 5;

    fn edit(next_file: u64) -> VersionEdit {
        let fields = vec![Field::NextFile(next_file)];
        VersionEdit { fields }
    }

    #[test]
    fn record_behind_a_damaged_one_is_found_wherever_the_damage_is() {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for next_file in 0..9 {
            starts.push(bytes.len());
            bytes.extend(encode_record(
                STORE,
                7,
                bytes.len() as u64,
                &edit(next_file),
            ));
        }
        let records = Records::new(STORE, 7);
        for damaged in starts[3]..starts[4] {
            let mut bytes = bytes.clone();
            bytes[damaged] ^= 1;
            assert!(records.at(&bytes, starts[3]).is_none(), "{damaged}");
            assert_eq!(records.next(&bytes, starts[3]), Ok(Some(starts[4])));
        }
    }

    #[test]
    fn record_of_another_store_file_or_offset_is_none() {
        let bytes = encode_record(STORE, 7, 0, &edit(1));
        assert!(Records::new(STORE, 7).at(&bytes, 0).is_some());
        assert!(Records::new(STORE + 1, 7).at(&bytes, 0).is_none());
        assert!(Records::new(STORE, 8).at(&bytes, 0).is_none());
        let moved = [&[0][..], &bytes].concat();
        assert!(Records::new(STORE, 7).at(&moved, 1).is_none());
    }

    #[test]
    fn heads_forged_with_a_known_store_id_cost_bounded_work() {
        let key = store_key(STORE, 7);
        let mut bytes = Vec::new();
        let end = 4 << 20;
        while bytes.len() + 2 * RECORD_HEADER_BYTES < end {
            let length = ((end - bytes.len() - RECORD_HEADER_BYTES) as u32).to_le_bytes();
            let sum = length_checksum(key, bytes.len() as u64, &length);
            bytes.extend(length);
            bytes.extend(sum.to_le_bytes());
            bytes.extend([0; 8]);
        }
        bytes.resize(end, 0);
        assert_eq!(Records::new(STORE, 7).next(&bytes, 0), Err(Exhausted));
    }
}

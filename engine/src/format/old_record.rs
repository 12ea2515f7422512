//! Records of a manifest of version 2, 3 or 4, and the search for them behind damage.
//!
//! Anyone can compute their checksums, so keys of clients can be records and can look like very many: the search guards against that
//! as far as it can. Only read; `record.rs` has the records of today.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | length of the edit |
//! | 4 | 8 | checksum of the length and the edit, keyed by file number and offset |
//! | 12 | n | the edit |

use crate::base::codec::{Decoder, checksum};
use crate::format::edit::VersionEdit;
use crate::format::search::{Exhausted, SearchBudget};
use std::ops::Range;

pub(crate) const RECORD_HEADER_BYTES: usize = 12;

#[cfg(test)]
pub(crate) fn encode_record(number: u64, offset: u64, edit: &VersionEdit) -> Vec<u8> {
    let payload = edit.encode();
    let length = (payload.len() as u32).to_le_bytes();
    let sum = checksum(number, offset, &[&length, &payload]);
    let mut out = Vec::with_capacity(RECORD_HEADER_BYTES + payload.len());
    out.extend_from_slice(&length);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&payload);
    out
}

/// The edit of the record at `offset`, if its checksum matches.
pub(crate) fn edit_at(bytes: &[u8], number: u64, offset: usize) -> Option<&[u8]> {
    let mut decoder = Decoder::new(bytes.get(offset..)?);
    let length = decoder.u32()?;
    let sum = decoder.u64()?;
    let payload = decoder.take(length as usize)?;
    (length > 0 && sum == checksum(number, offset as u64, &[&length.to_le_bytes(), payload]))
        .then_some(payload)
}

/// The cost of a step over a field or a reference, in hashed bytes.
const STEP_COST: usize = 8;

/// Where a whole record stands behind the bad one at `bad`. Looks at every offset: the damaged bytes may be a length.
///
/// The bounds of files are keys, which outsiders choose so that they look like records. As far as the fields of the bad record decode,
/// the bytes inside them are searched last, on a budget of their own. If that is spent they count as keys: an edit that was torn when
/// the process died must not look like damage.
pub(crate) fn next_record(
    bytes: &[u8],
    number: u64,
    bad: usize,
) -> std::result::Result<Option<usize>, Exhausted> {
    let fields = fields_of(bytes, bad);
    let payload = (bad + RECORD_HEADER_BYTES).min(bytes.len());
    let end = fields.last().map_or(payload, |field| field.end);
    let starts = fields.iter().map(|field| field.start);
    let outside = (bad + 1..payload).chain(starts).chain(end..bytes.len());
    if let Some(record) = first_record(bytes, number, outside)? {
        return Ok(Some(record));
    }
    let inside = fields.iter().flat_map(|field| field.start + 1..field.end);
    Ok(first_record(bytes, number, inside).unwrap_or(None))
}

/// Where the fields of the record at `offset` stand, up to the first that does not decode. Its checksum does not count.
fn fields_of(bytes: &[u8], offset: usize) -> Vec<Range<usize>> {
    let mut head = Decoder::new(&bytes[offset.min(bytes.len())..]);
    let (Some(length), Some(_sum)) = (head.u32(), head.u64()) else {
        return Vec::new();
    };
    let start = offset + RECORD_HEADER_BYTES;
    let end = start.saturating_add(length as usize).min(bytes.len());
    let fields = VersionEdit::fields_at(&bytes[start..end]);
    let place = |field: Range<usize>| start + field.start..start + field.end;
    fields.into_iter().map(place).collect()
}

/// The first of the places at which a whole record stands.
fn first_record(
    bytes: &[u8],
    number: u64,
    places: impl Iterator<Item = usize>,
) -> std::result::Result<Option<usize>, Exhausted> {
    let mut budget = SearchBudget::of(bytes.len());
    for at in places {
        if let Some(length) = plausible_length(bytes, at, &mut budget)? {
            budget.charge(length)?;
            if edit_at(bytes, number, at).is_some() {
                return Ok(Some(at));
            }
        }
    }
    Ok(None)
}

/// The length of the edit if a record may stand at `offset`, because its first fields decode. That is cheaper than a checksum over a
/// length that may be anything, and true of hardly any offset without a record: without it a search of megabytes would take hours.
fn plausible_length(
    bytes: &[u8],
    offset: usize,
    budget: &mut SearchBudget,
) -> std::result::Result<Option<usize>, Exhausted> {
    let mut decoder = Decoder::new(&bytes[offset..]);
    let mut payload = || {
        let length = decoder.u32()?;
        let _sum = decoder.u64()?;
        decoder.take(length as usize)
    };
    let Some(payload) = payload().filter(|payload| !payload.is_empty()) else {
        return Ok(None);
    };
    let (is_plausible, steps) = VersionEdit::is_plausible(payload);
    budget.charge(steps * STEP_COST)?;
    Ok(is_plausible.then_some(payload.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyRange;
    use crate::format::edit::{Field, FileMeta};

    /// An edit that adds a file, as a flush makes it.
    fn edit(number: u64) -> VersionEdit {
        let meta = FileMeta {
            number,
            size: 1 << 20,
            checksum: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            range: KeyRange::prefix(format!("accounts/{number}/rows").as_bytes()),
            sequence_min: number,
            sequence_max: number + 1000,
            entries: 1000,
            tombstones: 0,
            range_tombstones: 0,
            references: vec![(number, 1 << 20)],
        };
        let fields = vec![Field::AddFile(0, 1, meta), Field::NextFile(number + 1)];
        VersionEdit { fields }
    }

    #[test]
    fn a_search_behind_damage_takes_few_places_for_records() {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for number in 0..20_000 {
            starts.push(bytes.len());
            bytes.extend(encode_record(7, bytes.len() as u64, &edit(number)));
        }
        let mut budget = SearchBudget::of(bytes.len());
        let mut is_plausible = |at| plausible_length(&bytes, at, &mut budget).unwrap().is_some();
        let plausible = (0..bytes.len()).filter(|&at| is_plausible(at));
        assert_eq!(plausible.count(), starts.len());
        assert_eq!(next_record(&bytes, 7, starts[5]), Ok(Some(starts[6])));
        assert_eq!(next_record(&bytes, 8, 0), Ok(None));
    }

    #[test]
    fn edit_behind_one_with_a_damaged_key_is_found() {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for number in 0..9 {
            starts.push(bytes.len());
            bytes.extend(encode_record(7, bytes.len() as u64, &edit(number)));
        }
        // The length of a bound, so that it takes in the next records.
        let bound = starts[3] + RECORD_HEADER_BYTES + 3 + 1 + 3 + 8;
        assert_eq!(bytes[bound], b"accounts/3/rows".len() as u8);
        bytes[bound] += 120;
        assert_eq!(next_record(&bytes, 7, starts[3]), Ok(Some(starts[4])));
    }

    #[test]
    fn longest_bounds_decode_and_longer_ones_do_not() {
        let with_bound = |length| {
            let mut edit = edit(1);
            if let Field::AddFile(_, _, meta) = &mut edit.fields[0] {
                meta.range.end = Some(vec![0xff; length]);
            }
            edit
        };
        let longest = with_bound(crate::KEY_BYTES_MAX + 1);
        assert_eq!(VersionEdit::decode(&longest.encode()), Some(longest));
        let longer = with_bound(crate::KEY_BYTES_MAX + 2);
        assert_eq!(VersionEdit::decode(&longer.encode()), None);
    }
}

//! Shows a segment of the value log: each chunk record.

use crate::Result;
use crate::base::codec::checksum;
use crate::format::dump::Dump;
use crate::format::header::HEADER_BYTES;
use crate::format::search::SearchBudget;
use crate::fs::PAGE_BYTES;
use crate::values::{CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES};

pub(crate) fn dump(dump: &mut Dump<'_>, number: u64) -> Result<()> {
    let mut offset = HEADER_BYTES;
    while offset < dump.length {
        match length_at(dump, offset)? {
            Some(length) => {
                if is_whole(dump, number, offset, length)? {
                    dump.line(format_args!(
                        "{offset:>10}  chunk: {length} bytes, checksum ok"
                    ))?;
                } else {
                    let what = "the checksum does not match, unless it was never referred to";
                    dump.damage(offset, format_args!("chunk: {length} bytes; {what}"))?;
                }
                offset += CHUNK_HEADER_BYTES as u64 + length;
            }
            None => {
                let next = next_page_with_chunk(dump, number, offset)?;
                let lost = next.unwrap_or(dump.length) - offset;
                dump.damage(offset, format_args!("{lost} bytes that are no chunk"))?;
                offset += lost;
            }
        }
    }
    dump.line(format_args!("{offset:>10}  end of the chunks"))
}

/// The length of the payload of the record at `offset`, if the file has room for it.
fn length_at(dump: &Dump<'_>, offset: u64) -> Result<Option<u64>> {
    let payload = offset + CHUNK_HEADER_BYTES as u64;
    if payload > dump.length {
        return Ok(None);
    }
    let head = dump.file.read_exact(offset, 4)?;
    let length = u64::from(u32::from_le_bytes(head[..].try_into().expect("four bytes")));
    let fits = length <= CHUNK_BYTES_MAX && payload + length <= dump.length;
    Ok(Some(length).filter(|_| fits))
}

fn is_whole(dump: &Dump<'_>, number: u64, offset: u64, length: u64) -> Result<bool> {
    let record = dump
        .file
        .read_exact(offset, CHUNK_HEADER_BYTES + length as usize)?;
    let (head, payload) = record.split_at(CHUNK_HEADER_BYTES);
    let sum = u64::from_le_bytes(head[4..].try_into().expect("eight bytes"));
    Ok(sum == checksum(number, offset, &[&head[..4], payload]))
}

/// Returns the offset of the next whole record that begins on a page boundary, as full chunks of
/// streamed values do. `None` if there is none, or if too many bytes look like records to read them
/// all.
fn next_page_with_chunk(dump: &Dump<'_>, number: u64, offset: u64) -> Result<Option<u64>> {
    let mut next = (offset + 1).next_multiple_of(PAGE_BYTES as u64);
    let mut budget = SearchBudget::of(dump.length as usize);
    while next < dump.length {
        let length = length_at(dump, next)?.filter(|length| *length > 0);
        if length.is_some_and(|length| budget.charge(length as usize).is_err()) {
            return Ok(None);
        }
        if let Some(length) = length
            && is_whole(dump, number, next, length)?
        {
            return Ok(Some(next));
        }
        next += PAGE_BYTES as u64;
    }
    Ok(None)
}

//! Shows an SSTable: footer, index, data blocks with their entries, filter and range tombstones.

use crate::Result;
use crate::format::dump::{Dump, End, Escaped, Row};
use crate::format::fragment;
use crate::format::sstable::block::BlockCursor;
use crate::format::sstable::footer::FOOTER_BYTES;
use crate::format::sstable::index::IndexBlock;
use crate::format::sstable::{BlockHandle, TRAILER_BYTES};
use crate::tree::sstable::{SstableReader, malformed};
use bytes::Bytes;

pub(crate) fn dump(dump: &mut Dump<'_>, number: u64) -> Result<()> {
    let reader = match SstableReader::of_file(&dump.file, number, dump.length) {
        Ok(reader) => reader,
        Err(error) => return dump.damage(dump.length, format_args!("footer: {error}")),
    };
    let footer = reader.footer;
    let offset = dump.length - FOOTER_BYTES as u64;
    dump.line(format_args!(
        "{offset:>10}  footer: {} entries, {} deletes, index of depth {}, checksum ok",
        footer.entries, footer.tombstones, footer.index_depth
    ))?;
    if let Some(root) = index(dump, &reader, "index root", footer.index)? {
        for handle in (0..root.len()).map(|at| root.handle(at)) {
            if footer.index_depth == 1 {
                data(dump, &reader, handle)?;
            } else if let Some(part) = index(dump, &reader, "index partition", handle)? {
                (0..part.len()).try_for_each(|at| data(dump, &reader, part.handle(at)))?;
            }
        }
    }
    block(dump, &reader, "filter", footer.filter)?;
    let tombstones = footer.range_tombstones;
    if let Some(found) = block(dump, &reader, "range tombstones", tombstones)? {
        let Some(fragments) = fragment::decode(&found) else {
            return dump.damage(tombstones.offset, "the range tombstones do not decode");
        };
        for fragment in fragments {
            dump.line(format_args!(
                "            delete {} to {}, #{:?}",
                Escaped(&fragment.start),
                End(fragment.end.as_deref()),
                fragment.sequences
            ))?;
        }
    }
    Ok(())
}

/// Shows the size of a block and returns its bytes; `None` if it is absent or damaged.
fn block(
    dump: &mut Dump<'_>,
    reader: &SstableReader,
    what: &str,
    handle: BlockHandle,
) -> Result<Option<Bytes>> {
    let BlockHandle { offset, length } = handle;
    if length == 0 {
        return Ok(None);
    }
    let end = offset
        .checked_add(length)
        .and_then(|end| end.checked_add(TRAILER_BYTES as u64));
    if end.is_none_or(|end| end > dump.length) {
        dump.damage(
            offset,
            format_args!("{what}: {length} bytes are out of bounds"),
        )?;
        return Ok(None);
    }
    match reader.read_block(&dump.file, handle) {
        Ok(block) => {
            dump.line(format_args!(
                "{offset:>10}  {what}: {length} bytes, {} before compression, checksum ok",
                block.len()
            ))?;
            Ok(Some(block))
        }
        Err(error) => {
            dump.damage(offset, format_args!("{what}: {error}"))?;
            Ok(None)
        }
    }
}

fn index(
    dump: &mut Dump<'_>,
    reader: &SstableReader,
    what: &str,
    handle: BlockHandle,
) -> Result<Option<IndexBlock>> {
    let Some(found) = block(dump, reader, what, handle)? else {
        return Ok(None);
    };
    match IndexBlock::new(found) {
        Ok(index) => Ok(Some(index)),
        Err(_) => {
            dump.damage(handle.offset, format_args!("{what} does not decode"))?;
            Ok(None)
        }
    }
}

fn data(dump: &mut Dump<'_>, reader: &SstableReader, handle: BlockHandle) -> Result<()> {
    let Some(found) = block(dump, reader, "data block", handle)? else {
        return Ok(());
    };
    let mut cursor = BlockCursor::new();
    let mut here = cursor.load(found).and_then(|()| cursor.first());
    while here.is_ok() && cursor.is_on_entry() {
        let row = Row {
            kind: cursor.kind(),
            key: cursor.key(),
            value: cursor.value_slice(),
        };
        dump.line(format_args!("            #{} {row}", cursor.sequence()))?;
        here = cursor.next();
    }
    match here.map_err(malformed(dump.file.path(), handle.offset)) {
        Ok(()) => Ok(()),
        Err(error) => dump.damage(handle.offset, error),
    }
}

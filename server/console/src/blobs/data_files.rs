//! Previews of data files: schema and first rows of a Parquet file, or the schema of an Avro file.
//! Of a Parquet file, only the footer and the first pages are read.

use crate::blobs::place::Place;
use crate::format::{self, cut};
use bytes::{Bytes, BytesMut};
use lazurite_base::units::{self, count};
use lazurite_blob::{BlobAddress, BlobState, ByteRange, Conditions};
use lazurite_query::{Content, Head, parquet_head};
use lazurite_services::services::Services;
use maud::{Markup, html};
use std::io;
use std::sync::Arc;

/// Maximum numbers of rows and columns, and of bytes in a cell, in all rows, and in the schema.
const ROWS_SHOWN: usize = 20;
const COLUMNS_SHOWN: usize = 20;
const CELL_BYTES_SHOWN: usize = 120;
const ROWS_BYTES_MAX: usize = 40 << 10;
const SCHEMA_BYTES_MAX: usize = 16 << 10;
const PARQUET_MAGIC: &[u8] = b"PAR1";
/// The magic of an Avro file. Source: Apache Avro, Specification, "Object container files".
const AVRO_MAGIC: &[u8] = b"Obj\x01";

/// The content of a blob, with random access.
struct Stored {
    services: Arc<Services>,
    place: Place,
    name: String,
    state: BlobState,
    length: u64,
}

impl Content for Stored {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        let mut content = BytesMut::new();
        if length == 0 {
            return Ok(content.freeze());
        }
        let range = ByteRange {
            first: offset,
            last: Some(offset + length as u64 - 1),
        };
        let address = self.place.address(&self.name, self.state);
        let none = Conditions::default();
        let download = self.services.blobs.get_blob(&address, Some(range), &none);
        let mut body = download.map_err(io::Error::other)?.body;
        while let Some(chunk) = body.next_chunk(length).map_err(io::Error::other)? {
            content.extend_from_slice(&chunk);
        }
        Ok(content.freeze())
    }
}

/// The preview of a blob that begins with `start`; `None` if it is not a data file.
pub fn shown(
    services: &Arc<Services>,
    address: &BlobAddress<'_>,
    start: &[u8],
    length: u64,
) -> Option<Markup> {
    if start.starts_with(AVRO_MAGIC) {
        return Some(avro(start));
    }
    if !start.starts_with(PARQUET_MAGIC) {
        return None;
    }
    let content = Stored {
        services: services.clone(),
        place: Place::of(address.account, address.container),
        name: address.blob.to_owned(),
        state: address.state,
        length,
    };
    let head = parquet_head(Arc::new(content), COLUMNS_SHOWN, ROWS_SHOWN);
    Some(match head {
        Ok(head) => parquet(&head),
        Err(reason) => html! { p.empty { "No preview. " (reason) } },
    })
}

fn parquet(head: &Head) -> Markup {
    let rows = format::fitting(head.rows.iter().map(|row| data_row(row)), ROWS_BYTES_MAX);
    let column = |(name, kind): &(String, String)| {
        html! { tr { th scope="row" { (cut(name, CELL_BYTES_SHOWN)) } td { code { (kind) } } } }
    };
    let columns = format::fitting(head.columns.iter().map(column), SCHEMA_BYTES_MAX);
    html! {
        p.limits {
            "Parquet: " (units::counted(head.row_count, "row")) " of " (units::counted(head.columns.len() as u64, "column"))
            ". Showing the first " (units::counted(rows.len() as u64, "row"))
            @if head.shown.len() < head.columns.len() { " of the first " (units::counted(head.shown.len() as u64, "column")) " with one value a row" }
            "."
        }
        div.scroll tabindex="0" role="region" aria-label="Rows" { table.grid {
            caption.hidden { "First rows" }
            thead { tr { @for name in &head.shown { th scope="col" { (cut(name, CELL_BYTES_SHOWN)) } } } }
            tbody { @for row in &rows { (row) } }
        } }
        details {
            summary { "Schema" }
            table.plain { tbody { @for column in &columns { (column) } } }
            @if columns.len() < head.columns.len() { p.limits { "Showing " (columns.len()) " of " (count(head.columns.len() as u64)) " columns." } }
        }
    }
}

fn data_row(row: &[Option<String>]) -> Markup {
    html! { tr { @for cell in row {
        @match cell {
            Some(text) => td { (cut(text, CELL_BYTES_SHOWN)) },
            None => td.absent { span.hidden { "null" } },
        }
    } } }
}

fn avro(start: &[u8]) -> Markup {
    let schema = avro_schema(&start[AVRO_MAGIC.len()..]);
    let schema = schema.map(|text| format::pretty_json(&text).unwrap_or(text));
    html! {
        p.limits { "Avro: the console shows the schema of the file and not its rows." }
        @match schema {
            Some(schema) => pre.text tabindex="0" role="region" aria-label="Schema" { (cut(&schema, SCHEMA_BYTES_MAX)) },
            None => p.empty { "The schema is longer than the part of the file that a preview reads." },
        }
    }
}

/// The schema in the metadata of a file. `None` if the bytes end before it, or if the first block
/// of the metadata does not have it as UTF-8. Source: Apache Avro, Specification, "Maps",
/// "Integers".
fn avro_schema(mut rest: &[u8]) -> Option<String> {
    let mut entries = long(&mut rest)?;
    if entries < 0 {
        // A negative count is followed by the length of the block in bytes.
        long(&mut rest)?;
        entries = entries.checked_neg()?;
    }
    for _ in 0..entries {
        let name = bytes(&mut rest)?;
        let value = bytes(&mut rest)?;
        if name == b"avro.schema" {
            return String::from_utf8(value.to_vec()).ok();
        }
    }
    None
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(long(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

/// Reads a zigzag-encoded number of variable length.
fn long(rest: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((number >> 1) as i64 ^ -((number & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_found_in_the_metadata_of_an_avro_file() {
        let metadata = b"\x04\x14avro.codec\x08null\x16avro.schema\x10\"string\"\x00";
        assert_eq!(avro_schema(metadata).as_deref(), Some("\"string\""));
        for cut in 0..metadata.len() - 1 {
            assert_eq!(avro_schema(&metadata[..cut]), None, "{cut}");
        }
        assert_eq!(avro_schema(&[0xff; 20]), None);
        let with_bytes = b"\x01\x28\x16avro.schema\x06\"a\"";
        assert_eq!(avro_schema(with_bytes).as_deref(), Some("\"a\""));
    }
}

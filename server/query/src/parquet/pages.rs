//! Reads the pages of a column chunk in order. Sizes that a file declares are checked before memory
//! is allocated: all pages in memory count against one limit, and a compressed page may not expand
//! beyond its declared size. The decoder never gets an encoding that it cannot decode, and gets
//! exactly the declared number of values. Source: Apache Parquet, parquet.thrift, "PageHeader";
//! Encodings; Compression.

use crate::parquet::content::{Content, failed};
use crate::parquet::thrift::{Cursor, Error, Kind};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of bytes of pages that one query holds in memory.
pub const MEMORY_BYTES_MAX: usize = 128 << 20;
/// Maximum length of a page header in bytes, including its statistics.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// Bytes of memory for each entry of a dictionary, in addition to its content.
const ENTRY_BYTES: usize = 48;

/// Counts the memory that the pages of one query use.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<AtomicUsize>);

/// A reservation of memory, released on drop.
struct Reserved {
    memory: Memory,
    bytes: usize,
}

impl Memory {
    fn reserve(&self, bytes: usize) -> Result<Reserved> {
        let used = self.0.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Reserved {
            memory: self.clone(),
            bytes,
        };
        if used.saturating_add(bytes) > MEMORY_BYTES_MAX {
            return Err(failed(format!(
                "the pages of the selected columns take more than {} MiB of memory",
                MEMORY_BYTES_MAX >> 20
            )));
        }
        Ok(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The content of a page. Its memory stays counted while a value refers to it.
struct Counted {
    content: Vec<u8>,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

/// The header of a page.
#[derive(Debug, Default)]
struct Header {
    kind: usize,
    uncompressed_bytes: usize,
    compressed_bytes: usize,
    values: usize,
    encoding: usize,
    definition_encoding: usize,
    repetition_encoding: usize,
    /// These and the following fields are for data pages of version 2.
    nulls: usize,
    rows: usize,
    definition_bytes: usize,
    repetition_bytes: usize,
    is_plain: bool,
}

const DATA_PAGE: usize = 0;
const INDEX_PAGE: usize = 1;
const DICTIONARY_PAGE: usize = 2;
const DATA_PAGE_V2: usize = 3;

/// Reads the pages of one column chunk.
pub struct Pages {
    content: Arc<dyn Content>,
    memory: Memory,
    compression: Compression,
    physical: Type,
    /// Minimum number of bytes of a value.
    value_bytes: usize,
    /// The offsets of the part of the chunk that was not read yet.
    at: u64,
    end: u64,
    /// Content that was read ahead, and its offset.
    window: Bytes,
    window_at: u64,
    window_bytes: usize,
    next_header: Option<Header>,
    has_dictionary: bool,
    /// Number of values of the chunk that were not in a page yet.
    values_left: u64,
}

/// The range of a column chunk in content of this length.
fn range_of(chunk: &ColumnChunkMetaData, length: u64) -> Result<Range<u64>> {
    let data = chunk.data_page_offset();
    let dictionary = chunk.dictionary_page_offset().filter(|at| *at > 0);
    let first = dictionary.map_or(data, |at| at.min(data));
    let bytes = u64::try_from(chunk.compressed_size());
    let (Ok(at), Ok(bytes)) = (u64::try_from(first), bytes) else {
        return Err(failed("a column chunk has a negative offset"));
    };
    let end = at.checked_add(bytes).filter(|end| *end <= length);
    let end = end.ok_or_else(|| failed("a column chunk is beyond the end of the blob"))?;
    Ok(at..end)
}

impl Pages {
    /// A reader of the pages of a chunk, `window_bytes` at a time. Errors: the chunk is not within
    /// the content, or has a negative size.
    pub fn new(
        content: Arc<dyn Content>,
        memory: Memory,
        chunk: &ColumnChunkMetaData,
        window_bytes: usize,
    ) -> Result<Pages> {
        let Range { start: at, end } = range_of(chunk, content.length())?;
        let values_left = u64::try_from(chunk.num_values());
        let values_left = values_left.map_err(|_| failed("a column has a negative size"))?;
        let physical = chunk.column_type();
        let value_bytes = match physical {
            Type::BOOLEAN => 1,
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => {
                usize::try_from(chunk.column_descr().type_length()).unwrap_or(0)
            }
        };
        Ok(Pages {
            content,
            memory,
            compression: chunk.compression(),
            physical,
            value_bytes: value_bytes.max(1),
            at,
            end,
            window: Bytes::new(),
            window_at: 0,
            window_bytes,
            next_header: None,
            has_dictionary: false,
            values_left,
        })
    }

    /// The next bytes of the chunk: at least `bytes`, or all that are left.
    fn ahead(&mut self, bytes: usize) -> Result<Bytes> {
        let bytes = (bytes as u64).min(self.end - self.at) as usize;
        let skipped = self
            .at
            .checked_sub(self.window_at)
            .map(|skipped| skipped as usize);
        if let Some(skipped) = skipped
            && skipped + bytes <= self.window.len()
        {
            return Ok(self.window.slice(skipped..));
        }
        let wanted = bytes.max(self.window_bytes) as u64;
        let wanted = wanted.min(self.end - self.at) as usize;
        self.window = Bytes::new();
        self.window = self.content.read(self.at, wanted).map_err(failed)?;
        self.window_at = self.at;
        if self.window.len() < wanted {
            return Err(failed("the content ends early"));
        }
        Ok(self.window.clone())
    }

    fn header(&mut self) -> Result<Option<Header>> {
        if let Some(header) = self.next_header.take() {
            return Ok(Some(header));
        }
        while self.at < self.end {
            let header = self.read_header()?;
            if header.compressed_bytes as u64 > self.end - self.at {
                return Err(failed("a page is longer than its column chunk"));
            }
            if header.kind != INDEX_PAGE {
                return Ok(Some(header));
            }
            self.at += header.compressed_bytes as u64;
        }
        Ok(None)
    }

    fn read_header(&mut self) -> Result<Header> {
        let mut wanted = 1;
        loop {
            let bytes = self.ahead(wanted)?;
            let mut cursor = Cursor::new(&bytes);
            match Header::read(&mut cursor) {
                Ok(header) => {
                    self.at += cursor.at as u64;
                    return Ok(header);
                }
                Err(Error::Truncated)
                    if bytes.len() < HEADER_BYTES_MAX
                        && (bytes.len() as u64) < self.end - self.at =>
                {
                    wanted = bytes.len() * 2;
                }
                Err(_) => return Err(failed("the header of a page cannot be read")),
            }
        }
    }

    fn page(&mut self, header: Header) -> Result<Page> {
        let mut reserved = header.compressed_bytes + header.uncompressed_bytes;
        if header.kind == DICTIONARY_PAGE {
            if header.values > header.uncompressed_bytes / self.value_bytes {
                return Err(failed("a dictionary has more entries than bytes"));
            }
            reserved += header.values * ENTRY_BYTES;
        }
        let reserved = self.memory.reserve(reserved)?;
        let body = self.ahead(header.compressed_bytes)?;
        let body = &body[..header.compressed_bytes];
        self.at += header.compressed_bytes as u64;
        let content = match header.kind {
            DATA_PAGE_V2 => {
                let levels = header.definition_bytes + header.repetition_bytes;
                if levels > body.len() || levels > header.uncompressed_bytes {
                    return Err(failed("the levels of a page are longer than the page"));
                }
                let (levels, values) = body.split_at(levels);
                let bytes = header.uncompressed_bytes - levels.len();
                let values = if header.is_plain {
                    values.to_vec()
                } else {
                    decompress(self.compression, values, bytes)?
                };
                [levels, &values].concat()
            }
            _ => decompress(self.compression, body, header.uncompressed_bytes)?,
        };
        let buf = Bytes::from_owner(Counted {
            content,
            _reserved: reserved,
        });
        let page = self.to_page(&header, buf)?;
        self.pass(&header)?;
        Ok(page)
    }

    /// Subtracts the values of a page that is read or skipped.
    fn pass(&mut self, header: &Header) -> Result<()> {
        if header.kind == DICTIONARY_PAGE {
            self.has_dictionary = true;
            return Ok(());
        }
        let left = self.values_left.checked_sub(header.values as u64);
        self.values_left =
            left.ok_or_else(|| failed("a column has more values than it declares"))?;
        Ok(())
    }

    /// Fails if values are missing at the end of the chunk: the decoder would return nulls.
    fn check_complete(&self) -> Result<()> {
        match self.values_left {
            0 => Ok(()),
            _ => Err(failed("a column has fewer values than it declares")),
        }
    }

    fn to_page(&self, header: &Header, buf: Bytes) -> Result<Page> {
        let number = |number: usize| {
            u32::try_from(number).map_err(|_| failed("a page declares too many values"))
        };
        let num_values = number(header.values)?;
        let encoding = encoding(header.encoding)?;
        self.check_encoding(header.kind, encoding)?;
        Ok(match header.kind {
            DATA_PAGE => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: level_encoding(header.definition_encoding)?,
                rep_level_encoding: level_encoding(header.repetition_encoding)?,
                statistics: None,
            },
            DATA_PAGE_V2 => Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: number(header.nulls)?,
                num_rows: number(header.rows)?,
                def_levels_byte_len: number(header.definition_bytes)?,
                rep_levels_byte_len: number(header.repetition_bytes)?,
                is_compressed: false,
                statistics: None,
            },
            DICTIONARY_PAGE if self.physical == Type::BOOLEAN => {
                return Err(failed("a column of booleans has a dictionary"));
            }
            DICTIONARY_PAGE => Page::DictionaryPage {
                buf,
                num_values,
                encoding,
                is_sorted: false,
            },
            _ => return Err(failed("the kind of a page is unknown")),
        })
    }
}

impl Pages {
    /// Fails for an encoding that pages of this kind and type cannot have, because the decoder
    /// panics on some of them.
    fn check_encoding(&self, kind: usize, encoding: Encoding) -> Result<()> {
        use Encoding as E;
        let is_one = match (kind, encoding) {
            (DICTIONARY_PAGE, E::PLAIN | E::PLAIN_DICTIONARY) | (_, E::PLAIN) => true,
            (DICTIONARY_PAGE, _) => false,
            (_, E::PLAIN_DICTIONARY | E::RLE_DICTIONARY) if !self.has_dictionary => {
                return Err(failed("a page refers to a dictionary that is missing"));
            }
            (_, E::PLAIN_DICTIONARY | E::RLE_DICTIONARY) => true,
            (_, E::RLE) => self.physical == Type::BOOLEAN,
            (_, E::DELTA_BINARY_PACKED) => matches!(self.physical, Type::INT32 | Type::INT64),
            (_, E::BYTE_STREAM_SPLIT) => !matches!(
                self.physical,
                Type::BOOLEAN | Type::INT96 | Type::BYTE_ARRAY
            ),
            _ => false,
        };
        if is_one {
            return Ok(());
        }
        let physical = self.physical;
        Err(failed(format!(
            "values of type {physical} do not have the encoding {encoding}"
        )))
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.header()? {
            Some(header) => self.page(header).map(Some),
            None => self.check_complete().map(|()| None),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        let metadata = PageMetadata {
            num_rows: (header.kind == DATA_PAGE_V2).then_some(header.rows),
            num_levels: (header.kind != DICTIONARY_PAGE).then_some(header.values),
            is_dict: header.kind == DICTIONARY_PAGE,
        };
        self.next_header = Some(header);
        Ok(Some(metadata))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if let Some(header) = self.header()? {
            self.at += header.compressed_bytes as u64;
            self.pass(&header)?;
        }
        Ok(())
    }
}

impl Header {
    fn read(cursor: &mut Cursor<'_>) -> std::result::Result<Header, Error> {
        let mut header = Header::default();
        cursor.fields(|cursor, number, kind| match (number, kind) {
            (1, Kind::Integer) => cursor.count().map(|kind| header.kind = kind),
            (2, Kind::Integer) => cursor
                .count()
                .map(|bytes| header.uncompressed_bytes = bytes),
            (3, Kind::Integer) => cursor.count().map(|bytes| header.compressed_bytes = bytes),
            (5 | 7 | 8, Kind::Struct) => header.read_details(cursor, number),
            _ => cursor.skip(kind),
        })?;
        // Limited to 32 bits, so that their sums do not overflow.
        let all = [
            header.uncompressed_bytes,
            header.compressed_bytes,
            header.values,
            header.definition_bytes,
            header.repetition_bytes,
        ];
        if all.into_iter().any(|number| number > i32::MAX as usize) {
            return Err(Error::Invalid);
        }
        Ok(header)
    }

    /// Reads the header of one kind of page: 5 data, 7 dictionary, 8 data of version 2.
    fn read_details(&mut self, cursor: &mut Cursor<'_>, of: i64) -> std::result::Result<(), Error> {
        cursor.fields(|cursor, number, kind| {
            let place = match (of, number, kind) {
                (8, 7, Kind::True | Kind::False) => {
                    self.is_plain = kind == Kind::False;
                    return Ok(());
                }
                (_, 1, Kind::Integer) => &mut self.values,
                (5 | 7, 2, Kind::Integer) | (8, 4, Kind::Integer) => &mut self.encoding,
                (5, 3, Kind::Integer) => &mut self.definition_encoding,
                (5, 4, Kind::Integer) => &mut self.repetition_encoding,
                (8, 2, Kind::Integer) => &mut self.nulls,
                (8, 3, Kind::Integer) => &mut self.rows,
                (8, 5, Kind::Integer) => &mut self.definition_bytes,
                (8, 6, Kind::Integer) => &mut self.repetition_bytes,
                _ => return cursor.skip(kind),
            };
            *place = cursor.count()?;
            Ok(())
        })
    }
}

/// Accepts only encodings whose decoders do not allocate memory by a size that the page declares,
/// as the decoders for delta-encoded lengths and texts do.
fn encoding(number: usize) -> Result<Encoding> {
    Ok(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        8 => Encoding::RLE_DICTIONARY,
        5 => Encoding::DELTA_BINARY_PACKED,
        9 => Encoding::BYTE_STREAM_SPLIT,
        6 => {
            return Err(failed(
                "the encoding DELTA_LENGTH_BYTE_ARRAY is not supported",
            ));
        }
        7 => return Err(failed("the encoding DELTA_BYTE_ARRAY is not supported")),
        _ => return Err(failed("an encoding is unknown")),
    })
}

#[expect(deprecated, reason = "old files use it")]
fn level_encoding(number: usize) -> Result<Encoding> {
    match number {
        3 => Ok(Encoding::RLE),
        4 => Ok(Encoding::BIT_PACKED),
        _ => Err(failed("an encoding of levels is unknown")),
    }
}

/// Decompresses to exactly `bytes` bytes, even if `compressed` declares more, or fails.
fn decompress(compression: Compression, compressed: &[u8], bytes: usize) -> Result<Vec<u8>> {
    let unequal = || failed("a page does not have its declared size");
    if compressed.is_empty() && bytes == 0 {
        return Ok(Vec::new());
    }
    let content = match compression {
        Compression::UNCOMPRESSED => compressed.to_vec(),
        Compression::SNAPPY => {
            if snap::raw::decompress_len(compressed).map_err(failed)? != bytes {
                return Err(unequal());
            }
            let mut decoder = snap::raw::Decoder::new();
            decoder.decompress_vec(compressed).map_err(failed)?
        }
        Compression::GZIP(_) => {
            let mut content = Vec::with_capacity(bytes);
            let decoder = MultiGzDecoder::new(compressed);
            let mut decoder = decoder.take(bytes as u64 + 1);
            decoder.read_to_end(&mut content).map_err(failed)?;
            content
        }
        Compression::ZSTD(_) => zstd::bulk::decompress(compressed, bytes).map_err(failed)?,
        Compression::LZ4 => hadoop_lz4(compressed, bytes).ok_or_else(unequal)?,
        Compression::LZ4_RAW => lz4_flex::block::decompress(compressed, bytes).map_err(failed)?,
        other => return Err(failed(format!("the compression {other} is not supported"))),
    };
    if content.len() != bytes {
        return Err(unequal());
    }
    Ok(content)
}

/// Decompresses the older form of LZ4, which is not specified, as Hadoop writes it: blocks, each
/// after its decompressed and its compressed size in four bytes, big-endian. `None` for anything
/// else, or more than `bytes`.
fn hadoop_lz4(mut compressed: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let size = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes) as usize;
    while let Some((plain, rest)) = compressed.split_first_chunk() {
        let (packed, rest) = rest.split_first_chunk()?;
        let (block, rest) = rest.split_at_checked(size(packed))?;
        if size(plain) > bytes - content.len() {
            return None;
        }
        content.extend(lz4_flex::block::decompress(block, size(plain)).ok()?);
        compressed = rest;
    }
    (compressed.is_empty() && content.len() <= bytes).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    #[test]
    fn pages_do_not_expand_beyond_their_declared_size() {
        let zeros = vec![0; 8 << 20];
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&zeros).unwrap();
        let gzip = gzip.finish().unwrap();
        let snappy = snap::raw::Encoder::new().compress_vec(&zeros).unwrap();
        let zstd = zstd::bulk::compress(&zeros, 1).unwrap();
        let lz4 = lz4_flex::block::compress(&zeros);
        let size = |bytes: usize| (bytes as u32).to_be_bytes();
        let hadoop = [&size(zeros.len())[..], &size(lz4.len()), &lz4].concat();
        for (compression, compressed) in [
            (Compression::GZIP(Default::default()), gzip),
            (Compression::SNAPPY, snappy),
            (Compression::ZSTD(Default::default()), zstd),
            (Compression::LZ4, hadoop),
            (Compression::LZ4_RAW, lz4),
            (Compression::UNCOMPRESSED, zeros.clone()),
        ] {
            let of = |bytes| decompress(compression, &compressed, bytes);
            assert_eq!(of(zeros.len()).unwrap(), zeros, "{compression}");
            assert!(of(100).is_err(), "{compression}");
            assert!(of(zeros.len() + 1).is_err(), "{compression}");
        }
    }

    #[test]
    fn memory_is_counted_until_the_last_value_of_a_page_is_dropped() {
        let memory = Memory::default();
        let reserved = memory.reserve(MEMORY_BYTES_MAX).unwrap();
        let page = Bytes::from_owner(Counted {
            content: vec![1, 2],
            _reserved: reserved,
        });
        let value = page.slice(1..);
        drop(page);
        assert!(memory.reserve(1).is_err());
        drop(value);
        assert!(memory.reserve(1).is_ok());
    }
}

//! Reads Parquet row by row, with random access to the content, and only the columns that a
//! statement names.
//!
//! A file is not trusted: `thrift` checks the structure of the footer before it is decoded, `pages`
//! checks the size and the encoding of a page before it allocates memory for it, the numbers of
//! rows and values have to agree, and a panic of the decoder ends only the query. Supported are
//! columns with one value per row, in structs or not; lists and maps are refused. Source: Apache
//! Parquet, File format.

mod content;
mod pages;
mod thrift;
mod values;

use crate::ast::{Field, Name};
use crate::value::Json;
use crate::{Fatal, RowError};
use bytes::Bytes;
pub use content::Content;
use content::failed;
use pages::{Memory, Pages};
use parquet::basic::ConvertedType;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::PageReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::RowGroupReader;
use parquet::record::reader::{ReaderIter, RowIter, TreeBuilder};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Maximum length of a footer in bytes. Decoded, it takes several times as much memory.
const FOOTER_BYTES_MAX: u64 = 8 << 20;
/// Longest value of a fixed-length column, in bytes: some encodings allocate it for each row of a
/// batch.
const FIXED_BYTES_MAX: i32 = 64 << 10;
/// Number of rows decoded at a time.
const BATCH_ROWS: usize = 256;
/// Bytes read ahead for all columns together, and the bounds for each column.
const WINDOWS_BYTES: usize = 32 << 20;
const WINDOW_BYTES_MAX: usize = 256 << 10;
const WINDOW_BYTES_MIN: usize = 8 << 10;
/// Minimum number of bytes of a page with its header, and maximum number of its values.
const PAGE_BYTES_MIN: u64 = 8;
const PAGE_VALUES_MAX: u64 = i32::MAX as u64;
const MAGIC: &[u8] = b"PAR1";
const MAGIC_ENCRYPTED: &[u8] = b"PARE";

/// The result of one step of the reader.
pub enum Step {
    /// The names of the selected columns.
    Columns(Vec<String>),
    /// A row group was opened.
    RowGroup,
    /// A row, as an object, or its error.
    Row(std::result::Result<Json, RowError>),
    /// A number of rows without columns.
    EmptyRows(u64),
    End,
}

/// Reads the rows of a file.
pub struct ParquetReader {
    content: Arc<dyn Content>,
    memory: Memory,
    file: Option<File>,
    next_group: usize,
    /// The rows of the current row group that were not returned yet.
    rows: Option<Box<ReaderIter>>,
    /// Number of bytes of the row groups opened so far, and the offset of the current one.
    pub taken: u64,
    pub record_start: u64,
}

/// The result of [`ParquetReader::open_first`].
pub struct Opened {
    /// The names and types of all columns.
    pub columns: Vec<(String, String)>,
    /// The names of the columns in the rows that follow.
    pub shown: Vec<String>,
    pub rows: u64,
}

/// An opened file.
struct File {
    metadata: ParquetMetaData,
    /// The selected columns.
    schema: SchemaDescPtr,
}

impl ParquetReader {
    pub fn new(content: Arc<dyn Content>) -> ParquetReader {
        ParquetReader {
            content,
            memory: Memory::default(),
            file: None,
            next_group: 0,
            rows: None,
            taken: 0,
            record_start: 0,
        }
    }

    /// Reads the next row. Unless [`Self::open_first`] opened the file, the first call returns the
    /// columns. With `fields` these are the named columns, and the names are changed to their
    /// spelling in the file; without, all columns.
    pub fn next(&mut self, fields: Option<&mut [Field]>) -> std::result::Result<Step, Fatal> {
        // Unwind-safe: after a panic the query ends and does not use the reader again.
        let step = decoding(|| match &self.file {
            None => self.open(fields),
            Some(_) => self.row(),
        });
        step.map_err(|error| Fatal {
            name: "ParquetError",
            description: match error {
                ParquetError::General(reason) => format!("Parquet: {reason}."),
                _ => "Parquet: the file cannot be decoded.".to_owned(),
            },
            position: self.record_start,
        })
    }

    /// Opens the file. Returns all columns with their types, and the number of rows. The rows that
    /// are read next have the first `most` readable columns. The error is a sentence.
    pub fn open_first(&mut self, most: usize) -> std::result::Result<Opened, String> {
        let opened = decoding(|| self.select_first(most));
        opened.map_err(|error| match error {
            ParquetError::General(reason) => format!("Parquet: {reason}."),
            _ => "Parquet: the file cannot be decoded.".to_owned(),
        })
    }

    fn select_first(&mut self, most: usize) -> Result<Opened> {
        let metadata = self.read_footer()?;
        let root = metadata.file_metadata().schema_descr().root_schema();
        let columns = root.get_fields().iter();
        let columns = columns.map(|column| (column.name().to_owned(), type_text(column)));
        let columns: Vec<(String, String)> = columns.collect();
        let group = |fields| {
            Type::group_type_builder(root.name())
                .with_fields(fields)
                .build()
        };
        let mut first = Vec::new();
        for column in root.get_fields() {
            let alone = SchemaDescriptor::new(Arc::new(group(vec![column.clone()])?));
            let is_readable = alone
                .columns()
                .iter()
                .all(|leaf| leaf.max_rep_level() == 0 && leaf.type_length() <= FIXED_BYTES_MAX);
            if is_readable && first.len() < most {
                first.push(column.clone());
            }
        }
        let shown = first
            .iter()
            .map(|column| column.name().to_owned())
            .collect();
        let mut rows = 0u64;
        for group in metadata.row_groups() {
            rows = rows.saturating_add(self.row_count(group)?);
        }
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(group(first)?)));
        self.file = Some(File { metadata, schema });
        Ok(Opened {
            columns,
            shown,
            rows,
        })
    }

    fn open(&mut self, fields: Option<&mut [Field]>) -> Result<Step> {
        let metadata = self.read_footer()?;
        let descriptor = metadata.file_metadata().schema_descr();
        let schema = match fields {
            None => descriptor.root_schema_ptr(),
            Some(fields) => Arc::new(projection(descriptor.root_schema(), fields)?),
        };
        let schema = Arc::new(SchemaDescriptor::new(schema));
        for column in schema.columns() {
            if column.max_rep_level() > 0 {
                let path = column.path();
                return Err(failed(format!(
                    "column {path} is a list or a map, which are not supported"
                )));
            }
            if column.type_length() > FIXED_BYTES_MAX {
                return Err(failed(
                    "a column has values of a fixed length that is too long",
                ));
            }
        }
        let names = schema.root_schema().get_fields().iter();
        let names = names.map(|column| column.name().to_owned()).collect();
        self.file = Some(File { metadata, schema });
        Ok(Step::Columns(names))
    }

    fn read_footer(&self) -> Result<ParquetMetaData> {
        let length = self.content.length();
        let Some(tail_at) = length.checked_sub(8).filter(|at| *at >= MAGIC.len() as u64) else {
            return Err(failed("the blob is too short to be a file"));
        };
        let tail = self.read(tail_at, 8)?;
        let (footer_bytes, magic) = tail.split_at(4);
        if magic == MAGIC_ENCRYPTED {
            return Err(failed("encrypted files are not supported"));
        }
        if magic != MAGIC {
            return Err(failed(
                "the blob does not end with the magic number of a file",
            ));
        }
        let footer_bytes = footer_bytes.try_into().expect("the tail has 8 bytes");
        let footer_bytes = u64::from(u32::from_le_bytes(footer_bytes));
        if footer_bytes > FOOTER_BYTES_MAX {
            return Err(failed(format!(
                "the footer has more than {FOOTER_BYTES_MAX} bytes"
            )));
        }
        let footer_at = tail_at.checked_sub(footer_bytes);
        let footer_at = footer_at.ok_or_else(|| failed("the footer is longer than the blob"))?;
        let footer = self.read(footer_at, footer_bytes as usize)?;
        thrift::check_footer(&footer).map_err(|_| failed("the footer cannot be read"))?;
        ParquetMetaDataReader::decode_metadata(&footer)
    }

    fn read(&self, offset: u64, length: usize) -> Result<Bytes> {
        let bytes = self.content.read(offset, length).map_err(failed)?;
        if bytes.len() != length {
            return Err(failed("the content ends early"));
        }
        Ok(bytes)
    }

    fn row(&mut self) -> Result<Step> {
        let Some(file) = &self.file else {
            return Ok(Step::End);
        };
        if let Some(rows) = &mut self.rows
            && let Some(row) = rows.next().transpose()?
        {
            let row = values::object(row, file.schema.root_schema());
            return Ok(Step::Row(row));
        }
        let Some(group) = file.metadata.row_groups().get(self.next_group) else {
            self.taken = self.content.length();
            return Ok(Step::End);
        };
        self.next_group += 1;
        self.record_start = group.file_offset().map_or(0, |at| at.max(0) as u64);
        let taken = self
            .taken
            .saturating_add(group.compressed_size().max(0) as u64);
        self.taken = taken.min(self.content.length());
        // Frees the pages of the last row group before those of the next one are read.
        self.rows = None;
        match self.row_count(group)? {
            // A row group without rows may have no pages.
            0 => Ok(Step::RowGroup),
            rows if file.schema.num_columns() == 0 => Ok(Step::EmptyRows(rows)),
            _ => {
                self.rows = Some(self.open_group(file, group)?);
                Ok(Step::RowGroup)
            }
        }
    }

    /// The number of rows that a group declares. Fails if its columns declare other numbers, or if
    /// their pages cannot hold so many values. A column of nulls takes almost no bytes, so a short
    /// file can still declare many rows.
    fn row_count(&self, group: &RowGroupMetaData) -> Result<u64> {
        let rows = u64::try_from(group.num_rows())
            .map_err(|_| failed("a row group has a negative number of rows"))?;
        let mut holds = if group.num_columns() == 0 {
            0
        } else {
            u64::MAX
        };
        for column in group.columns() {
            let values = u64::try_from(column.num_values()).unwrap_or(0);
            let is_flat = column.column_descr().max_rep_level() == 0;
            if values < rows || is_flat && values > rows {
                return Err(failed(
                    "a row group and its columns declare different numbers of rows",
                ));
            }
            let bytes = u64::try_from(column.compressed_size()).unwrap_or(0);
            let pages = bytes.min(self.content.length()).div_ceil(PAGE_BYTES_MIN);
            holds = holds.min(pages.saturating_mul(PAGE_VALUES_MAX));
        }
        if rows > holds {
            return Err(failed(
                "a row group declares more rows than its pages can hold",
            ));
        }
        Ok(rows)
    }

    fn open_group(&self, file: &File, group: &RowGroupMetaData) -> Result<Box<ReaderIter>> {
        let columns = file.schema.num_columns();
        let window_bytes = (WINDOWS_BYTES / columns).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        let group = Group {
            metadata: group,
            content: &self.content,
            memory: &self.memory,
            window_bytes,
        };
        let tree = TreeBuilder::new().with_batch_size(BATCH_ROWS);
        Ok(Box::new(tree.as_iter(file.schema.clone(), &group)?))
    }
}

thread_local! {
    static IS_DECODING: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread decodes a file. A panic is then an error of the file, and ends only the
/// query.
pub fn is_decoding() -> bool {
    IS_DECODING.get()
}

/// Runs a step of the decoder. A panic in it becomes an error.
fn decoding<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = IS_DECODING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(step));
    IS_DECODING.set(outer);
    done.unwrap_or_else(|_| Err(failed("the file cannot be decoded")))
}

/// The name of a column's type, as the file gives it.
fn type_text(column: &Type) -> String {
    if !column.is_primitive() {
        return "group".to_owned();
    }
    let physical = column.get_physical_type();
    match column.get_basic_info().converted_type() {
        ConvertedType::NONE => physical.to_string(),
        converted => format!("{converted} in {physical}"),
    }
}

/// The schema of the columns that `fields` name. Names are matched as in a header; `_1` is the
/// first column, unless a column has this name.
fn projection(schema: &Type, fields: &mut [Field]) -> Result<Type> {
    let columns = schema.get_fields();
    let mut is_read = vec![false; columns.len()];
    for field in fields {
        let named = columns
            .iter()
            .position(|column| field.root.is(column.name()));
        let place = named.or_else(|| field.root.ordinal());
        let place = place.filter(|place| *place < columns.len());
        let place =
            place.ok_or_else(|| failed(format!("there is no column {}", field.root.text)))?;
        is_read[place] = true;
        field.root = Name {
            text: columns[place].name().to_owned(),
            quoted: true,
        };
    }
    let read = columns.iter().zip(is_read).filter(|(_, is_read)| *is_read);
    let read: Vec<TypePtr> = read.map(|(column, _)| column.clone()).collect();
    Type::group_type_builder(schema.name())
        .with_fields(read)
        .build()
}

/// A row group, read page by page.
struct Group<'a> {
    metadata: &'a RowGroupMetaData,
    content: &'a Arc<dyn Content>,
    memory: &'a Memory,
    window_bytes: usize,
}

impl RowGroupReader for Group<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.metadata
    }

    fn num_columns(&self) -> usize {
        self.metadata.num_columns()
    }

    fn get_column_page_reader(&self, column: usize) -> Result<Box<dyn PageReader>> {
        let chunk = self.metadata.column(column);
        let (content, memory) = (self.content.clone(), self.memory.clone());
        let pages = Pages::new(content, memory, chunk, self.window_bytes)?;
        Ok(Box::new(pages))
    }

    fn get_column_bloom_filter(&self, _column: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, _projection: Option<Type>) -> Result<RowIter<'_>> {
        Err(failed("rows are read by `ParquetReader`"))
    }
}

#[cfg(test)]
mod tests;

//! Runs a query: reads records and writes rows one at a time, with one piece of content and of the
//! result in memory.

use crate::aggregate::Accumulator;
use crate::answer::{Format, RowWriter};
use crate::ast::{Column, Expr, Field, Name, Select, Statement, Step as Path};
use crate::avro::{Container, DATA_BYTES};
use crate::delimited::{self, Columns, DelimitedReader, Dialect};
use crate::documents::{self, DocumentReader};
use crate::eval::{Row, Scope, rows};
use crate::parquet::{self, Content, ParquetReader};
use crate::parser::parse;
use crate::time::Timestamp;
use crate::value::{Json, Value};
use crate::work::{ROW_STEPS_MAX, Signal, Work};
use crate::{Fatal, Malformed, RECORD_BYTES_MAX, Refused, RowError};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of Parquet rows that a query reads one by one. The size of the content does not
/// limit this number.
pub const PARQUET_ROWS_MAX: u64 = 1 << 30;

/// Maximum number of row errors that a query writes. One more ends it.
pub const ROW_ERRORS_MAX: u64 = 1000;

/// A parsed statement that has been checked against the formats.
pub struct Query {
    statement: Statement,
    output: RowWriter,
    reader: Reader,
    /// For each field, the index of its column if it is known without the header.
    columns: Vec<Option<usize>>,
    has_header: bool,
}

enum Reader {
    Delimited(Box<DelimitedReader>),
    Documents(DocumentReader),
    /// `None` until the content was passed.
    Parquet(Option<Box<ParquetReader>>),
}

/// The content of a query: a blob, or a range of it.
pub struct Input {
    /// The offset in the blob. Positions of errors count from the beginning of the blob.
    pub offset: u64,
    /// The way to read the content.
    pub source: Source,
}

/// The way to read content.
pub enum Source {
    /// Passed in pieces. The number is the total length in bytes.
    Stream(u64),
    /// Read with random access.
    Content(Arc<dyn Content>),
}

impl Query {
    /// Parses and checks a statement. Errors: see [`Refused`].
    pub fn new(sql: &str, input: &Format, output: Format) -> Result<Query, Refused> {
        let statement = parse(sql)?;
        if let Format::Arrow(fields) = &output {
            check_columns(&statement.select, fields.len())?;
        }
        input.check()?;
        output.check()?;
        let output = RowWriter::new(output).map_err(Refused::Unsupported)?;
        check_input(&statement, input)?;
        let (reader, columns, has_header) = match input {
            Format::Delimited(dialect) => {
                let columns = statement.fields.iter().map(|field| column(field, dialect));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                let reader = Reader::Delimited(Box::new(DelimitedReader::new(dialect)));
                (reader, columns, dialect.has_header)
            }
            Format::Json { separator } => {
                let reader = DocumentReader::new(separator);
                (Reader::Documents(reader), Vec::new(), false)
            }
            Format::Parquet => (Reader::Parquet(None), Vec::new(), false),
            Format::Arrow(_) => return Err(Refused::Unsupported("Arrow (InputSerialization)")),
        };
        Ok(Query {
            statement,
            output,
            reader,
            columns,
            has_header,
        })
    }

    /// Whether the content is read with random access, not from front to back.
    pub fn needs_content(&self) -> bool {
        matches!(self.reader, Reader::Parquet(_))
    }
}

/// Fails if the statement needs another format of the content.
fn check_input(statement: &Statement, input: &Format) -> Result<(), Malformed> {
    let malformed = |message: &str| Err(Malformed::new(0, message.to_owned()));
    let is_split = matches!(statement.select, Select::Split(_));
    if is_split && (statement.condition.is_some() || statement.limit.is_some()) {
        return malformed("sys.split allows neither WHERE nor LIMIT");
    }
    if is_split && !matches!(input, Format::Delimited(_) | Format::Arrow(_)) {
        return malformed("sys.split requires delimited text");
    }
    if !statement.table.is_empty() && matches!(input, Format::Delimited(_) | Format::Parquet) {
        return malformed("a path after FROM requires JSON");
    }
    Ok(())
}

/// Fails unless the statement selects `count` columns or `*`.
fn check_columns(select: &Select, count: usize) -> Result<(), Malformed> {
    let selected = match select {
        // `*` selects as many columns as the row has.
        Select::All => return Ok(()),
        Select::Columns(columns) => columns.len(),
        Select::Aggregate(..) | Select::Split(_) => 1,
    };
    if selected != count {
        let message = format!("{selected} columns are selected, but the Arrow schema has {count}");
        return Err(Malformed::new(0, message));
    }
    Ok(())
}

/// The index of a field's column; `None` if only the header shows it.
fn column(field: &Field, dialect: &Dialect) -> Result<Option<usize>, Malformed> {
    if !field.steps.is_empty() {
        let message = "a path requires JSON".to_owned();
        return Err(Malformed::new(field.at, message));
    }
    match field.root.ordinal() {
        Some(place) => Ok(Some(place)),
        _ if dialect.has_header => Ok(None),
        _ => {
            let message = "columns have no names without a header: expected _1, _2 and so on";
            Err(Malformed::new(field.at, message.to_owned()))
        }
    }
}

/// The state of a query after [`Running::go_on`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The input is consumed.
    NeedsInput,
    /// A piece of the result is ready to be taken.
    Full,
    /// The signal requested a pause.
    Paused,
    /// The query has ended.
    Ended,
}

/// The result of one step.
enum Read {
    /// A record was read, or a row was processed.
    Something,
    NeedsInput,
    End,
}

/// A running query.
pub struct Running {
    reader: Reader,
    pass: Pass,
    /// The rows of the last document that are not processed yet.
    documents: std::vec::IntoIter<Json>,
    awaits_header: bool,
    ended: bool,
    parquet_rows: ParquetRows,
    /// Length of the content in bytes.
    total: u64,
}

/// The progress of a query over Parquet.
#[derive(Default)]
struct ParquetRows {
    read: u64,
    /// Number of rows without columns still to be processed.
    empty: u64,
}

/// The state that processes rows.
struct Pass {
    statement: Statement,
    output: RowWriter,
    columns: Vec<Option<usize>>,
    places: Vec<usize>,
    header: Option<Vec<String>>,
    names: Vec<String>,
    now: Timestamp,
    accumulator: Option<Accumulator>,
    rows_left: u64,
    /// Number of rows and row errors written, and of row errors alone.
    written: u64,
    row_errors: u64,
    /// The offset of the content in the blob.
    offset: u64,
    split_from: u64,
    container: Container,
}

impl Running {
    /// The source of `input` must be content if [`Query::needs_content`], and otherwise a stream.
    /// `sync` must be a random number: see `Container::new`.
    pub fn new(query: Query, input: Input, now: SystemTime, sync: u128) -> Running {
        let total = match &input.source {
            Source::Stream(bytes) => *bytes,
            Source::Content(content) => content.length(),
        };
        let reader = match (query.reader, input.source) {
            (Reader::Parquet(_), Source::Content(content)) => {
                Reader::Parquet(Some(Box::new(ParquetReader::new(content))))
            }
            (reader, _) => reader,
        };
        let pass = Pass::new(
            query.statement,
            query.output,
            query.columns,
            Timestamp::of(now),
            input.offset,
            Container::new(sync),
        );
        Running {
            reader,
            pass,
            documents: Vec::new().into_iter(),
            awaits_header: query.has_header,
            ended: false,
            parquet_rows: ParquetRows::default(),
            total,
        }
    }

    /// The number of rows and row errors written so far. Results of an aggregate or of `sys.split`
    /// do not count.
    pub fn written(&self) -> u64 {
        self.pass.written
    }

    /// Ends the query with a fatal error, unless it has ended.
    pub fn give_up(&mut self, description: String) {
        if !self.ended {
            self.fail(&Fatal::limit(description, self.reader.taken()));
        }
    }

    /// Ends the query with a fatal error of this name, unless it has ended: its content cannot be
    /// read any further.
    pub fn break_off(&mut self, name: &str, description: &str) {
        if !self.ended {
            self.end_with(name, description, self.reader.taken());
        }
    }

    fn fail(&mut self, fatal: &Fatal) {
        self.end_with(fatal.name, &fatal.description, fatal.position);
    }

    fn end_with(&mut self, name: &str, description: &str, position: u64) {
        self.pass.flush();
        let position = self.pass.offset + position;
        let container = &mut self.pass.container;
        container.error(true, name, description, position);
        self.end();
    }

    /// Consumes input until a piece of the result is ready, more input is needed, the signal
    /// requests a pause, or the query has ended. `input` is the content that has arrived and is not
    /// yet consumed; `is_last`: nothing follows it. `signal` is called before each step, and within
    /// rows that take long.
    pub fn go_on(
        &mut self,
        input: &mut &[u8],
        is_last: bool,
        signal: &dyn Fn() -> Signal,
    ) -> Status {
        while !self.ended {
            if self.pass.container.waiting() >= DATA_BYTES {
                return Status::Full;
            }
            match signal() {
                Signal::Continue => {}
                Signal::Pause => return Status::Paused,
                Signal::Stop => {
                    self.ended = true;
                    break;
                }
            }
            if self.pass.rows_left == 0 && self.pass.accumulator.is_none() {
                self.pass.finish(self.reader.taken());
                self.end();
                break;
            }
            match self.one(input, is_last, signal) {
                Ok(Read::Something) => {}
                Ok(Read::NeedsInput) => return Status::NeedsInput,
                Ok(Read::End) => {
                    self.pass.finish(self.reader.taken());
                    self.end();
                }
                Err(fatal) => self.fail(&fatal),
            }
        }
        Status::Ended
    }

    /// Removes and returns the result so far.
    pub fn take(&mut self) -> Vec<u8> {
        self.pass.container.flush();
        self.pass.container.take()
    }

    /// Adds a progress record to the result.
    pub fn tell_progress(&mut self) {
        self.pass.flush();
        let scanned = self.reader.taken();
        self.pass.container.progress(scanned, self.total);
    }

    fn end(&mut self) {
        self.ended = true;
        self.tell_progress();
        self.pass.container.end(self.total);
    }

    /// Reads one record, or processes one row of the last document.
    fn one(
        &mut self,
        input: &mut &[u8],
        is_last: bool,
        signal: &dyn Fn() -> Signal,
    ) -> Result<Read, Fatal> {
        if let Some(document) = self.documents.next() {
            let place = self.reader.record();
            self.pass.row_at(Row::Document(&document), place, signal)?;
            return Ok(Read::Something);
        }
        match &mut self.reader {
            Reader::Parquet(Some(reader)) => {
                return self.parquet_rows.next(reader, &mut self.pass, signal);
            }
            Reader::Parquet(None) => return Ok(Read::End),
            Reader::Documents(reader) => match reader.next(input, is_last)? {
                documents::Step::Document(document) => {
                    let table: &[Path] = &self.pass.statement.table;
                    self.documents = rows(document, table).into_iter();
                }
                documents::Step::NeedsInput => return Ok(Read::NeedsInput),
                documents::Step::End => return Ok(Read::End),
            },
            Reader::Delimited(reader) => match reader.next(input, is_last)? {
                delimited::Step::Record(record) => {
                    let is_header = std::mem::take(&mut self.awaits_header);
                    self.pass.record(reader, record, is_header, signal)?;
                }
                delimited::Step::NeedsInput => return Ok(Read::NeedsInput),
                delimited::Step::End => return Ok(Read::End),
            },
        }
        Ok(Read::Something)
    }
}

impl Reader {
    fn taken(&self) -> u64 {
        match self {
            Reader::Delimited(reader) => reader.taken,
            Reader::Documents(reader) => reader.taken,
            Reader::Parquet(reader) => reader.as_ref().map_or(0, |reader| reader.taken),
        }
    }

    /// The range of the last record.
    fn record(&self) -> Record {
        let (position, taken) = match self {
            Reader::Delimited(reader) => (reader.record_start, reader.taken),
            Reader::Documents(reader) => (reader.record_start, reader.taken),
            // A row of Parquet has no contiguous range in the content.
            Reader::Parquet(_) => (0, 0),
        };
        Record::new(position, taken)
    }
}

/// The range of a record in the content.
#[derive(Clone, Copy)]
struct Record {
    position: u64,
    bytes: usize,
}

impl Record {
    /// The range from `position` to `end`.
    fn new(position: u64, end: u64) -> Record {
        Record {
            position,
            bytes: (end - position) as usize,
        }
    }
}

impl ParquetRows {
    /// Reads one row, or the next part of the structure of the file.
    fn next(
        &mut self,
        reader: &mut ParquetReader,
        pass: &mut Pass,
        signal: &dyn Fn() -> Signal,
    ) -> Result<Read, Fatal> {
        let position = reader.record_start;
        if self.read == PARQUET_ROWS_MAX {
            let limit = "A query over Parquet reads at most 1073741824 rows.";
            return Err(Fatal::limit(limit.to_owned(), position));
        }
        if self.empty > 0 {
            self.empty -= 1;
            self.read += 1;
            pass.parquet_row(Ok(Json::Object(Vec::new())), position, signal)?;
            return Ok(Read::Something);
        }
        let is_all = pass.statement.select == Select::All;
        let fields = (!is_all).then_some(&mut pass.statement.fields[..]);
        match reader.next(fields)? {
            parquet::Step::Columns(names) => {
                let bytes = names.iter().map(String::as_bytes);
                pass.begin(names.clone(), bytes);
            }
            parquet::Step::RowGroup => {}
            parquet::Step::EmptyRows(rows) => match pass.count_of_all() {
                Some(count) => count.add_rows(rows),
                None => self.empty = rows,
            },
            parquet::Step::Row(row) => {
                self.read += 1;
                pass.parquet_row(row, reader.record_start, signal)?;
            }
            parquet::Step::End => return Ok(Read::End),
        }
        Ok(Read::Something)
    }
}

impl Pass {
    fn new(
        statement: Statement,
        output: RowWriter,
        columns: Vec<Option<usize>>,
        now: Timestamp,
        offset: u64,
        container: Container,
    ) -> Pass {
        let accumulator = match &statement.select {
            Select::Aggregate(aggregate, _) => Some(Accumulator::new(aggregate.function)),
            _ => None,
        };
        let names = match &statement.select {
            Select::Columns(columns) => names(columns, &statement.fields),
            Select::Aggregate(_, alias) => vec![alias.clone().unwrap_or_else(|| "_1".to_owned())],
            Select::All | Select::Split(_) => vec!["_1".to_owned()],
        };
        let places = columns.iter().map(|place| place.unwrap_or_default());
        Pass {
            places: places.collect(),
            rows_left: statement.limit.unwrap_or(u64::MAX),
            statement,
            output,
            columns,
            header: None,
            names,
            now,
            accumulator,
            written: 0,
            row_errors: 0,
            offset,
            split_from: 0,
            container,
        }
    }

    /// The accumulator of `COUNT(*)` without a condition, which needs no values.
    fn count_of_all(&mut self) -> Option<&mut Accumulator> {
        let is_count = match &self.statement.select {
            Select::Aggregate(aggregate, _) => aggregate.of.is_none(),
            _ => false,
        };
        let counts_all = is_count && self.statement.condition.is_none() && self.rows_left > 0;
        self.accumulator.as_mut().filter(|_| counts_all)
    }

    fn record(
        &mut self,
        reader: &DelimitedReader,
        record: &[u8],
        is_header: bool,
        signal: &dyn Fn() -> Signal,
    ) -> Result<(), Fatal> {
        if let Select::Split(bytes) = self.statement.select {
            let size = reader.taken - self.split_from;
            if size >= bytes {
                self.split_from = reader.taken;
                self.put_single(Value::Integer(size as i64));
            }
            return Ok(());
        }
        let position = reader.record_start;
        let values = reader.columns(record);
        if is_header {
            return self.take_header(values, position);
        }
        let places = std::mem::take(&mut self.places);
        let row = Row::Delimited {
            values,
            columns: &places,
        };
        let written = self.row_at(row, Record::new(position, reader.taken), signal);
        self.places = places;
        written
    }

    /// Finds the columns that the statement names, and writes the result's header if it has one.
    fn take_header(&mut self, values: Columns<'_>, position: u64) -> Result<(), Fatal> {
        // Names are compared as text. The header of the result has their original bytes.
        let header = values
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned());
        let header: Vec<_> = header.collect();
        let header_places = HeaderPlaces::new(&header);
        for (number, field) in self.statement.fields.iter().enumerate() {
            let by_name = || header_places.get(&field.root);
            let place = self.columns.get(number).copied().flatten().or_else(by_name);
            let place = place.ok_or_else(|| Fatal {
                name: "InvalidColumnName",
                description: format!("The header has no column {}.", field.root.text),
                position,
            })?;
            self.places[number] = place;
        }
        self.begin(header, values.iter());
        Ok(())
    }

    /// Sets the names of all columns, and writes the result's header if it has one.
    fn begin<'n>(&mut self, header: Vec<String>, bytes: impl Iterator<Item = &'n [u8]>) {
        let out = &mut self.container.data;
        match &self.statement.select {
            Select::All => self.output.put_header(out, bytes),
            _ if self.accumulator.is_some() => {}
            _ => {
                let names = self.names.iter().map(|name| name.as_bytes());
                self.output.put_header(out, names);
            }
        }
        self.header = Some(header);
    }

    fn parquet_row(
        &mut self,
        row: Result<Json, RowError>,
        position: u64,
        signal: &dyn Fn() -> Signal,
    ) -> Result<(), Fatal> {
        let row = row.and_then(|row| {
            let bytes = row.bytes();
            if bytes > RECORD_BYTES_MAX {
                return Err(RowError::too_large());
            }
            Ok((row, Record { position, bytes }))
        });
        match row {
            Ok((row, record)) => self.row_at(Row::Document(&row), record, signal),
            Err(error) => self.row_error(&error, position),
        }
    }

    /// Writes a row if it satisfies the condition. If evaluation fails, writes the error.
    fn row_at(
        &mut self,
        row: Row<'_>,
        record: Record,
        signal: &dyn Fn() -> Signal,
    ) -> Result<(), Fatal> {
        let work = Work::new(ROW_STEPS_MAX, signal);
        match self.row(row, record, &work) {
            Ok(()) => Ok(()),
            Err(error) => self.row_error(&error, record.position),
        }
    }

    /// Writes the error of a row. Error: the limit of row errors is exceeded.
    fn row_error(&mut self, error: &RowError, position: u64) -> Result<(), Fatal> {
        let RowError { name, description } = error;
        if self.row_errors == ROW_ERRORS_MAX {
            let before = format!("More than {ROW_ERRORS_MAX} rows have errors, this one {name}");
            return Err(Fatal::limit(format!("{before}: {description}"), position));
        }
        self.row_errors += 1;
        self.written += 1;
        let position = self.offset + position;
        self.container.error(false, name, description, position);
        Ok(())
    }

    fn row(&mut self, row: Row<'_>, record: Record, work: &Work<'_>) -> Result<(), RowError> {
        if self.rows_left == 0 {
            return Ok(());
        }
        let scope = Scope {
            row,
            fields: &self.statement.fields,
            now: self.now,
            record_bytes: record.bytes,
            work,
        };
        if let Some(condition) = &self.statement.condition
            && !scope.holds(condition)?
        {
            return Ok(());
        }
        match &self.statement.select {
            Select::Aggregate(aggregate, _) => {
                let value = match &aggregate.of {
                    None => Value::Integer(1),
                    Some(of) => scope.evaluate(of)?,
                };
                return match &mut self.accumulator {
                    Some(accumulator) => accumulator.add(value),
                    None => Ok(()),
                };
            }
            Select::Columns(columns) => {
                let values = columns.iter().map(|column| scope.select(&column.value));
                let named = self.names.iter().map(|name| Cow::Borrowed(name.as_str()));
                self.output
                    .put_row(&mut self.container.data, named.zip(values))?;
            }
            Select::All => {
                let header = self.header.as_deref();
                self.output.put_all(&mut self.container.data, row, header)?;
            }
            Select::Split(_) => return Ok(()),
        }
        self.rows_left -= 1;
        self.written += 1;
        Ok(())
    }

    /// Completes the result after the last record.
    fn finish(&mut self, taken: u64) {
        if let Some(accumulator) = self.accumulator.take()
            && self.rows_left > 0
        {
            self.put_single(accumulator.finish());
        }
        if matches!(self.statement.select, Select::Split(_)) && taken > self.split_from {
            self.put_single(Value::Integer((taken - self.split_from) as i64));
        }
        self.output.finish(&mut self.container.data);
    }

    /// Writes the rows of an incomplete batch.
    fn flush(&mut self) {
        self.output.flush(&mut self.container.data);
    }

    fn put_single(&mut self, value: Value<'_>) {
        let named = self.names.iter().map(|name| Cow::Borrowed(name.as_str()));
        let named = named.zip([Ok(value)]);
        if let Err(error) = self.output.put_row(&mut self.container.data, named) {
            let RowError { name, description } = &error;
            self.container.error(false, name, description, 0);
        }
    }
}

/// For each column name, the index of its first column.
struct HeaderPlaces<'a> {
    exact: HashMap<&'a str, usize>,
    lower_case: HashMap<String, usize>,
}

impl<'a> HeaderPlaces<'a> {
    fn new(header: &'a [String]) -> HeaderPlaces<'a> {
        let (mut exact, mut lower_case) = (HashMap::new(), HashMap::new());
        for (place, name) in header.iter().enumerate() {
            exact.entry(name.as_str()).or_insert(place);
            lower_case.entry(name.to_ascii_lowercase()).or_insert(place);
        }
        HeaderPlaces { exact, lower_case }
    }

    fn get(&self, name: &Name) -> Option<usize> {
        if name.quoted {
            self.exact.get(name.text.as_str()).copied()
        } else {
            let lower_case = name.text.to_ascii_lowercase();
            self.lower_case.get(&lower_case).copied()
        }
    }
}

/// The names of the result's columns: alias, name of the field, or position.
fn names(columns: &[Column], fields: &[Field]) -> Vec<String> {
    let name = |(place, column): (usize, &Column)| {
        let field = match column.value {
            Expr::Field(number) => fields.get(number),
            _ => None,
        };
        let of_field = |field: &Field| {
            let last = field.steps.iter().rev().find_map(|step| match step {
                Path::Name(name) => Some(name),
                _ => None,
            });
            last.unwrap_or(&field.root).text.clone()
        };
        let alias = column.alias.clone().or_else(|| field.map(of_field));
        alias.unwrap_or_else(|| format!("_{}", place + 1))
    };
    columns.iter().enumerate().map(name).collect()
}

#[cfg(test)]
#[path = "run_tests.rs"]
pub mod tests;

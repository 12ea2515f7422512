//! Reads and writes delimited text, record by record, from content that arrives in pieces. The
//! request chooses separators, quote and escape.
//!
//! A quote at the beginning of a value quotes it up to the next quote; two quotes in it stand for
//! one. An escape makes the next byte part of the value, in quotes and outside of them. An empty
//! line is no record. If records end with LF, a CR before it is removed as well. A byte order mark
//! at the beginning of the content is not part of the first value.
//!
//! Written records read back unchanged if the dialect has a quote. Without a quote, a record of one
//! empty value becomes an empty line, which is no record. Without an escape too, separators in a
//! value are written as they are.

use crate::{Fatal, RECORD_BYTES_MAX};
use memchr::{memchr2, memchr3, memmem};
use std::borrow::Cow;

/// Maximum number of columns of a record.
const COLUMNS_MAX: usize = 16 << 10;
/// The byte order mark of UTF-8, which may precede the first record.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The dialect of delimited text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// The text between two columns.
    pub column_separator: String,
    /// The text at the end of a record.
    pub record_separator: String,
    /// An ASCII character; `None`: no quoting.
    pub quote: Option<u8>,
    /// An ASCII character; `None`: no escaping, except that two quotes in a quoted value stand for
    /// one. An escape that equals the quote has the same meaning as `None`.
    pub escape: Option<u8>,
    /// Whether the first record names the columns.
    pub has_header: bool,
}

impl Default for Dialect {
    fn default() -> Dialect {
        Dialect {
            column_separator: ",".to_owned(),
            record_separator: "\n".to_owned(),
            quote: Some(b'"'),
            escape: None,
            has_header: false,
        }
    }
}

impl Dialect {
    /// The error is a sentence that says why text of this dialect would be ambiguous.
    pub fn check(&self) -> Result<(), &'static str> {
        let (column, record) = self.separators();
        if column.is_empty() || record.is_empty() {
            return Err("A separator is empty.");
        }
        if memmem::find(column, record).is_some() || memmem::find(record, column).is_some() {
            return Err("One of the two separators contains the other one.");
        }
        let is_separator = |byte: u8| column.contains(&byte) || record.contains(&byte);
        if self.quote.is_some_and(is_separator) || self.escape.is_some_and(is_separator) {
            return Err("A separator contains the quote or the escape.");
        }
        Ok(())
    }

    fn separators(&self) -> (&[u8], &[u8]) {
        (
            self.column_separator.as_bytes(),
            self.record_separator.as_bytes(),
        )
    }

    fn distinct_escape(&self) -> Option<u8> {
        self.escape.filter(|_| self.escape != self.quote)
    }

    /// Whether CR LF ends a record too: if LF does, and CR has no other meaning.
    fn drops_cr(&self) -> bool {
        let is_cr = |special: Option<u8>| special == Some(b'\r');
        self.record_separator == "\n"
            && !self.column_separator.contains('\r')
            && !is_cr(self.quote)
            && !is_cr(self.escape)
    }
}

/// The result of one step of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'i> {
    /// A record is complete. [`DelimitedReader::columns`] takes these bytes.
    Record(&'i [u8]),
    NeedsInput,
    End,
}

/// The columns of a record, in the encoding of the content.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'r> {
    bytes: &'r [u8],
    /// Where each column is in `bytes`.
    places: &'r [Place],
}

/// A range of bytes.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
}

impl<'r> Columns<'r> {
    /// The column with this index; `None` if the record has fewer.
    pub fn get(self, column: usize) -> Option<&'r [u8]> {
        let Place { start, end } = *self.places.get(column)?;
        Some(&self.bytes[start..end])
    }

    pub fn iter(self) -> impl Iterator<Item = &'r [u8]> {
        let places = self.places.iter();
        places.map(move |&Place { start, end }| &self.bytes[start..end])
    }
}

/// The kind of the bytes that were read last in the current value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing yet.
    Start,
    /// Bytes outside quotes.
    Bare,
    /// Bytes inside quotes.
    Quoted,
    /// A quote inside quotes. It ends them unless another quote follows.
    Closing,
    /// An escape, inside or outside quotes.
    Escape { is_quoted: bool },
}

/// Splits content into records. If each separator has one byte, most records are not copied: those
/// that are whole in the input and have no value to unescape. Memory grows with the longest record
/// only.
pub struct DelimitedReader {
    column_separator: Box<[u8]>,
    record_separator: Box<[u8]>,
    /// The separators, if each has one byte: allows a faster search.
    single_separators: Option<(u8, u8)>,
    quote: Option<u8>,
    escape: Option<u8>,
    drops_cr: bool,
    /// Maximum length of a record, including the beginning of a separator.
    bytes_max: usize,
    state: State,
    /// The values of the record so far, without separators, quotes and escapes.
    bytes: Vec<u8>,
    /// The ranges of the complete values, in `bytes` or in the input.
    places: Vec<Place>,
    is_copied: bool,
    /// The start of the last bytes of the current value that were neither quoted nor escaped. Only
    /// these bytes can be a separator.
    bare_from: usize,
    /// Whether a value of the record was quoted.
    has_quotes: bool,
    is_complete: bool,
    /// Bytes of the byte order mark that have been read; `None` after the beginning of the content.
    mark: Option<usize>,
    /// Number of content bytes consumed, and the offset of the current record.
    pub taken: u64,
    pub record_start: u64,
}

impl DelimitedReader {
    /// `dialect` must pass [`Dialect::check`].
    pub fn new(dialect: &Dialect) -> DelimitedReader {
        let (column_separator, record_separator) = dialect.separators();
        DelimitedReader {
            column_separator: column_separator.into(),
            record_separator: record_separator.into(),
            single_separators: match (column_separator, record_separator) {
                (&[column], &[record]) => Some((column, record)),
                _ => None,
            },
            quote: dialect.quote,
            escape: dialect.distinct_escape(),
            drops_cr: dialect.drops_cr(),
            bytes_max: RECORD_BYTES_MAX + column_separator.len().max(record_separator.len()),
            state: State::Start,
            bytes: Vec::new(),
            places: Vec::new(),
            is_copied: true,
            bare_from: 0,
            has_quotes: false,
            is_complete: false,
            mark: Some(0),
            taken: 0,
            record_start: 0,
        }
    }

    /// Reads to the end of the next record. `input` is the content that has arrived and is not yet
    /// consumed; `is_last`: nothing follows it.
    pub fn next<'i>(&mut self, input: &mut &'i [u8], is_last: bool) -> Result<Step<'i>, Fatal> {
        if self.is_complete {
            self.begin();
        }
        self.skip_mark(input, is_last);
        if self.taken == self.record_start
            && let Some(length) = self.scan(input)
        {
            let record = &input[..length];
            self.skip(input, length);
            self.is_complete = true;
            return Ok(Step::Record(record));
        }
        while let Some(&byte) = input.first() {
            match self.state {
                State::Start => match self.scan_value(input, 0) {
                    Some((place, end)) => {
                        if self.take_value(input, place, end)? {
                            return Ok(Step::Record(&[]));
                        }
                    }
                    None if Some(byte) == self.quote => {
                        self.state = State::Quoted;
                        self.has_quotes = true;
                        self.skip(input, 1);
                    }
                    None => self.state = State::Bare,
                },
                State::Bare => {
                    if self.read_bare(input)? {
                        return Ok(Step::Record(&[]));
                    }
                }
                State::Quoted => self.read_quoted(input)?,
                State::Closing if Some(byte) == self.quote => {
                    self.state = State::Quoted;
                    self.take(input, 1)?;
                }
                State::Closing => {
                    self.state = State::Bare;
                    self.bare_from = self.bytes.len();
                }
                State::Escape { is_quoted } => {
                    self.take(input, 1)?;
                    self.state = if is_quoted {
                        State::Quoted
                    } else {
                        State::Bare
                    };
                    self.bare_from = self.bytes.len();
                }
            }
        }
        if is_last {
            self.finish()
        } else {
            Ok(Step::NeedsInput)
        }
    }

    /// The columns of the record that [`Self::next`] returned.
    pub fn columns<'r>(&'r self, record: &'r [u8]) -> Columns<'r> {
        Columns {
            bytes: if self.is_copied { &self.bytes } else { record },
            places: &self.places,
        }
    }

    fn begin(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.is_copied = true;
        self.bare_from = 0;
        self.has_quotes = false;
        self.is_complete = false;
        self.state = State::Start;
        self.record_start = self.taken;
    }

    fn skip_mark(&mut self, input: &mut &[u8], is_last: bool) {
        while let Some(read) = self.mark {
            match input.first() {
                Some(byte) if *byte == MARK[read] => {
                    self.skip(input, 1);
                    self.mark = Some(read + 1).filter(|read| *read < MARK.len());
                }
                None if !is_last => return,
                _ => {
                    self.mark = None;
                    if read > 0 {
                        self.bytes.extend_from_slice(&MARK[..read]);
                        self.state = State::Bare;
                    }
                }
            }
        }
    }

    /// Finds the columns of the record at the beginning of the input, without copying them, and
    /// returns its length with its separator. `None`: [`Self::scan_value`] did not find one of the
    /// values, the line is empty, or the record may exceed a limit. The values found were copied,
    /// and the rest must be read state by state.
    fn scan(&mut self, input: &mut &[u8]) -> Option<usize> {
        let mut start = 0;
        while let Some((place, end)) = self.scan_value(input, start) {
            let is_last = self.is_record_separator(input[end]);
            let is_empty_line = is_last && place.end == 0;
            if is_empty_line || end > RECORD_BYTES_MAX || self.places.len() == COLUMNS_MAX {
                break;
            }
            self.places.push(place);
            start = end + 1;
            if is_last {
                self.is_copied = false;
                return Some(start);
            }
        }
        for place in &mut self.places {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&input[place.start..place.end]);
            let end = self.bytes.len();
            *place = Place { start, end };
        }
        self.bare_from = self.bytes.len();
        self.skip(input, start);
        None
    }

    /// Finds the value that begins at `start`, and the separator after it. `None`: the value is not
    /// whole in the input or must be unescaped, or a separator has several bytes.
    fn scan_value(&self, input: &[u8], start: usize) -> Option<(Place, usize)> {
        let (column, record) = self.single_separators?;
        let rest = &input[start..];
        if let Some(quote) = self.quote
            && rest.first() == Some(&quote)
        {
            let start = start + 1;
            let escape = self.escape.unwrap_or(quote);
            let close = start + memchr2(quote, escape, &rest[1..])?;
            let has_cr = self.drops_cr && input[close + 1..].starts_with(b"\r\n");
            let end = close + 1 + usize::from(has_cr);
            let separates = |byte: u8| byte == column || byte == record;
            let is_whole = input[close] == quote && separates(*input.get(end)?);
            return is_whole.then_some((Place { start, end: close }, end));
        }
        let length = match self.escape {
            Some(escape) => memchr3(column, record, escape, rest)?,
            None => memchr2(column, record, rest)?,
        };
        let end = start + length;
        if Some(input[end]) == self.escape {
            return None;
        }
        let has_cr = self.drops_cr && input[end] == record && rest[..length].ends_with(b"\r");
        let place = Place {
            start,
            end: end - usize::from(has_cr),
        };
        Some((place, end))
    }

    /// Copies a value that [`Self::scan_value`] found. Returns `true` at the end of a record.
    fn take_value(&mut self, input: &mut &[u8], place: Place, end: usize) -> Result<bool, Fatal> {
        let is_last = self.is_record_separator(input[end]);
        if is_last && place.end == 0 && self.places.is_empty() {
            self.skip(input, end + 1);
            self.begin();
            return Ok(false);
        }
        self.bytes.extend_from_slice(&input[place.start..place.end]);
        self.skip(input, end + 1);
        self.end_value(0)?;
        self.is_complete = is_last;
        Ok(is_last)
    }

    fn is_record_separator(&self, byte: u8) -> bool {
        self.single_separators
            .is_some_and(|(_, record)| byte == record)
    }

    /// Reads outside of quotes, at most to the end of the value. Returns `true` at the end of a
    /// record.
    fn read_bare(&mut self, input: &mut &[u8]) -> Result<bool, Fatal> {
        let column_end = last(&self.column_separator);
        let record_end = last(&self.record_separator);
        let found = match self.escape {
            Some(escape) => memchr3(column_end, record_end, escape, input),
            None => memchr2(column_end, record_end, input),
        };
        let Some(at) = found else {
            self.take(input, input.len())?;
            return Ok(false);
        };
        if Some(input[at]) == self.escape {
            self.take(input, at)?;
            self.skip(input, 1);
            self.state = State::Escape { is_quoted: false };
            return Ok(false);
        }
        self.take(input, at + 1)?;
        let bare = &self.bytes[self.bare_from..];
        if bare.ends_with(&self.column_separator) {
            self.end_value(self.column_separator.len())?;
            return Ok(false);
        }
        if !bare.ends_with(&self.record_separator) {
            return Ok(false);
        }
        let mut separator_bytes = self.record_separator.len();
        let rest = &bare[..bare.len() - separator_bytes];
        separator_bytes += usize::from(self.drops_cr && rest.ends_with(b"\r"));
        let is_empty = self.bytes.len() == separator_bytes && !self.has_quotes;
        if is_empty && self.places.is_empty() {
            self.begin();
            return Ok(false);
        }
        self.end_value(separator_bytes)?;
        self.is_complete = true;
        Ok(true)
    }

    /// Reads to a quote that may be the last one, to an escape, or to the end of the input, within
    /// quotes.
    fn read_quoted(&mut self, input: &mut &[u8]) -> Result<(), Fatal> {
        let quote = self.quote.unwrap_or_default();
        while let Some(at) = memchr2(quote, self.escape.unwrap_or(quote), input) {
            let is_quote = input[at] == quote;
            if is_quote && input.get(at + 1) == Some(&quote) {
                self.take(input, at + 1)?;
                self.skip(input, 1);
                continue;
            }
            self.state = if is_quote {
                State::Closing
            } else {
                State::Escape { is_quoted: true }
            };
            self.take(input, at)?;
            self.skip(input, 1);
            return Ok(());
        }
        self.take(input, input.len())
    }

    /// Called at the end of the content, where a record may end without a separator.
    fn finish(&mut self) -> Result<Step<'static>, Fatal> {
        if let (State::Escape { .. }, Some(escape)) = (self.state, self.escape) {
            self.bytes.push(escape);
        }
        if self.places.is_empty() && self.bytes.is_empty() && !self.has_quotes {
            return Ok(Step::End);
        }
        self.end_value(0)?;
        self.is_complete = true;
        Ok(Step::Record(&[]))
    }

    /// Removes the separator, which was appended to the value, and begins the next value.
    fn end_value(&mut self, separator_bytes: usize) -> Result<(), Fatal> {
        self.bytes.truncate(self.bytes.len() - separator_bytes);
        if self.bytes.len() > RECORD_BYTES_MAX {
            return Err(self.too_large("bytes", RECORD_BYTES_MAX));
        }
        if self.places.len() == COLUMNS_MAX {
            return Err(self.too_large("columns", COLUMNS_MAX));
        }
        let start = self.places.last().map_or(0, |place| place.end);
        let end = self.bytes.len();
        self.places.push(Place { start, end });
        self.bare_from = self.bytes.len();
        self.state = State::Start;
        Ok(())
    }

    /// Appends bytes of the input to the value. They may include a part of a separator.
    fn take(&mut self, input: &mut &[u8], length: usize) -> Result<(), Fatal> {
        self.bytes.extend_from_slice(&input[..length]);
        self.skip(input, length);
        if self.bytes.len() > self.bytes_max {
            return Err(self.too_large("bytes", RECORD_BYTES_MAX));
        }
        Ok(())
    }

    fn skip(&mut self, input: &mut &[u8], length: usize) {
        *input = &input[length..];
        self.taken += length as u64;
    }

    fn too_large(&self, of: &str, limit: usize) -> Fatal {
        Fatal {
            name: "RecordTooLarge",
            description: format!("A record has more than {limit} {of}."),
            position: self.record_start,
        }
    }
}

fn last(separator: &[u8]) -> u8 {
    separator.last().copied().unwrap_or_default()
}

/// Writes records.
pub struct DelimitedWriter {
    dialect: Dialect,
    /// For each byte: whether a value with it must be quoted or, without a quote, the byte escaped.
    is_special: Box<[bool; 256]>,
}

impl DelimitedWriter {
    /// `dialect` must pass [`Dialect::check`].
    pub fn new(dialect: Dialect) -> DelimitedWriter {
        let (column, record) = dialect.separators();
        // Some programs end records at any CR or LF, but most of them understand quotes.
        let ends_lines = dialect.quote.is_some() || dialect.drops_cr();
        let is_special = |byte: u8| {
            column.contains(&byte)
                || record.contains(&byte)
                || [dialect.quote, dialect.escape].contains(&Some(byte))
                || (ends_lines && b"\r\n".contains(&byte))
        };
        DelimitedWriter {
            is_special: Box::new(std::array::from_fn(|byte| is_special(byte as u8))),
            dialect,
        }
    }

    pub fn has_header(&self) -> bool {
        self.dialect.has_header
    }

    /// Writes a record with its separators. `check` gets the output after each column, and can
    /// refuse the record.
    pub fn write_record<'v, E>(
        &self,
        out: &mut Vec<u8>,
        values: impl Iterator<Item = Result<Cow<'v, [u8]>, E>>,
        check: impl Fn(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (start, mut count) = (out.len(), 0);
        for value in values {
            if count > 0 {
                out.extend_from_slice(self.dialect.column_separator.as_bytes());
            }
            self.write_value(out, &value?);
            check(out)?;
            count += 1;
        }
        // A record with one empty value is quoted: an empty line would not be read as a record.
        if count == 1
            && out.len() == start
            && let Some(quote) = self.dialect.quote
        {
            out.extend([quote; 2]);
        }
        out.extend_from_slice(self.dialect.record_separator.as_bytes());
        Ok(())
    }

    /// Writes a column. If it contains special bytes, it is quoted, or the bytes are escaped.
    fn write_value(&self, out: &mut Vec<u8>, value: &[u8]) {
        let is_special = |byte: u8| self.is_special[usize::from(byte)];
        let begins_with_mark = value.starts_with(MARK);
        if !begins_with_mark && !value.iter().any(|byte| is_special(*byte)) {
            out.extend_from_slice(value);
            return;
        }
        match (self.dialect.quote, self.dialect.escape) {
            (Some(quote), escape) => {
                out.push(quote);
                for &byte in value {
                    if byte == quote || Some(byte) == escape {
                        out.push(escape.unwrap_or(quote));
                    }
                    out.push(byte);
                }
                out.push(quote);
            }
            (None, Some(escape)) => {
                for (at, &byte) in value.iter().enumerate() {
                    if is_special(byte) || (at == 0 && begins_with_mark) {
                        out.push(escape);
                    }
                    out.push(byte);
                }
            }
            // Without a quote and an escape, a value with separators is ambiguous.
            (None, None) => out.extend_from_slice(value),
        }
    }
}

#[cfg(test)]
mod tests;

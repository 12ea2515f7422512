//! Reads and writes delimited text, record by record, from content that arrives in pieces. The
//! request chooses separators and quotes. An empty line is no record. If records end with LF, a CR
//! before it is removed as well.

use crate::{Fatal, RECORD_BYTES_MAX};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::memmem;
use std::borrow::Cow;

/// Most columns of a record.
const COLUMNS_MAX: usize = 16 << 10;

/// The dialect of delimited text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// One byte; longer separators are not supported in content.
    pub column_separator: String,
    /// One byte or CR LF; other separators are not supported in content.
    pub record_separator: String,
    /// An ASCII character; `None`: no quoting.
    pub quote: Option<u8>,
    /// An ASCII character; `None`: no escaping.
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

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A record is complete.
    Record,
    NeedsInput,
    End,
}

/// Splits content into records.
pub struct DelimitedReader {
    core: Reader,
    bytes: Vec<u8>,
    bytes_filled: usize,
    ends: Vec<usize>,
    ends_filled: usize,
    in_record: bool,
    /// Whether records may also end with CR LF: if they end with LF.
    drops_cr: bool,
    /// The last two bytes consumed.
    last: [u8; 2],
    /// Bytes of content consumed, and the offset of the current record.
    pub taken: u64,
    pub record_start: u64,
}

impl DelimitedReader {
    /// Errors: the unsupported part of the dialect, as the beginning of a sentence.
    pub fn new(dialect: &Dialect) -> Result<DelimitedReader, &'static str> {
        let terminator = match dialect.record_separator.as_bytes() {
            b"\r\n" => Terminator::CRLF,
            [byte] => Terminator::Any(*byte),
            _ => return Err("A RecordSeparator of several characters other than CR LF"),
        };
        let [separator] = *dialect.column_separator.as_bytes() else {
            return Err("A ColumnSeparator of several characters");
        };
        let core = ReaderBuilder::new()
            .delimiter(separator)
            .terminator(terminator)
            .quoting(dialect.quote.is_some())
            .quote(dialect.quote.unwrap_or(b'"'))
            .escape(dialect.escape)
            .build();
        Ok(DelimitedReader {
            core,
            bytes: vec![0; 4 << 10],
            bytes_filled: 0,
            ends: vec![0; 64],
            ends_filled: 0,
            in_record: false,
            drops_cr: dialect.record_separator == "\n",
            last: [0; 2],
            taken: 0,
            record_start: 0,
        })
    }

    /// Reads to the end of the next record. `input` is the content that has arrived and is not yet
    /// consumed; `is_last`: nothing follows it.
    pub fn next(&mut self, input: &mut &[u8], is_last: bool) -> Result<Step, Fatal> {
        loop {
            if !self.in_record {
                (self.bytes_filled, self.ends_filled) = (0, 0);
                self.in_record = true;
                self.record_start = self.taken;
            }
            if input.is_empty() && !is_last {
                return Ok(Step::NeedsInput);
            }
            let (result, read, written, ended) = self.core.read_record(
                input,
                &mut self.bytes[self.bytes_filled..],
                &mut self.ends[self.ends_filled..],
            );
            for &byte in &input[read.saturating_sub(2)..read] {
                self.last = [self.last[1], byte];
            }
            *input = &input[read..];
            self.taken += read as u64;
            self.bytes_filled += written;
            self.ends_filled += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => grow(&mut self.bytes, RECORD_BYTES_MAX)
                    .ok_or_else(|| self.too_large("bytes", RECORD_BYTES_MAX))?,
                ReadRecordResult::OutputEndsFull => grow(&mut self.ends, COLUMNS_MAX)
                    .ok_or_else(|| self.too_large("columns", COLUMNS_MAX))?,
                ReadRecordResult::Record => {
                    self.in_record = false;
                    if !self.drop_cr() {
                        return Ok(Step::Record);
                    }
                }
                ReadRecordResult::End => return Ok(Step::End),
            }
        }
    }

    /// Removes the CR of a CR LF from the last column. Returns `true` if nothing else is in the
    /// line, which then is not a record.
    fn drop_cr(&mut self) -> bool {
        if !self.drops_cr || self.last != *b"\r\n" {
            return false;
        }
        let start = self.ends_filled.checked_sub(2).map_or(0, |i| self.ends[i]);
        match self.ends[..self.ends_filled].last_mut() {
            Some(end) if self.bytes[start..*end].ends_with(b"\r") => *end -= 1,
            _ => return false,
        }
        self.ends[..self.ends_filled] == [0]
    }

    /// The columns of the record, in any encoding.
    pub fn values(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let column = |end: &usize| {
            let bytes = &self.bytes[start..*end];
            start = *end;
            bytes
        };
        self.ends[..self.ends_filled].iter().map(column).collect()
    }

    fn too_large(&self, of: &str, limit: usize) -> Fatal {
        Fatal {
            name: "RecordTooLarge",
            description: format!("A record has more than {limit} {of}."),
            position: self.record_start,
        }
    }
}

/// Doubles the length, up to the limit.
fn grow<T: Default + Clone>(buffer: &mut Vec<T>, limit: usize) -> Option<()> {
    if buffer.len() >= limit {
        return None;
    }
    let length = (buffer.len() * 2).min(limit);
    buffer.resize(length, T::default());
    Some(())
}

/// Writes a record with its separators. `check` is called after each column and can refuse the
/// record so far.
pub fn write_record<'v, E>(
    dialect: &Dialect,
    out: &mut Vec<u8>,
    values: impl Iterator<Item = Result<Cow<'v, [u8]>, E>>,
    check: impl Fn(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (start, mut count) = (out.len(), 0);
    for value in values {
        if count > 0 {
            out.extend_from_slice(dialect.column_separator.as_bytes());
        }
        write_value(dialect, out, &value?);
        check(out)?;
        count += 1;
    }
    // Quoted, since an empty line would be no record.
    if count == 1
        && out.len() == start
        && let Some(quote) = dialect.quote
    {
        out.extend([quote; 2]);
    }
    out.extend_from_slice(dialect.record_separator.as_bytes());
    Ok(())
}

/// Writes a column. If it contains special characters, it is quoted, or the characters are escaped.
fn write_value(dialect: &Dialect, out: &mut Vec<u8>, value: &[u8]) {
    let (column, record) = (
        dialect.column_separator.as_bytes(),
        dialect.record_separator.as_bytes(),
    );
    let is_special = |byte: &u8| Some(*byte) == dialect.quote || Some(*byte) == dialect.escape;
    let separates = memmem::find(value, column).is_some()
        || memmem::find(value, record).is_some()
        || memchr::memchr2(b'\r', b'\n', value).is_some();
    if !separates && !value.iter().any(is_special) {
        out.extend_from_slice(value);
        return;
    }
    match (dialect.quote, dialect.escape) {
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
            for (at, byte) in value.iter().enumerate() {
                let rest = &value[at..];
                if rest.starts_with(column) || rest.starts_with(record) || is_special(byte) {
                    out.push(escape);
                }
                out.push(*byte);
            }
        }
        // Without quotes and escapes the value is ambiguous.
        (None, None) => out.extend_from_slice(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All records, with the content in pieces of `piece` bytes.
    fn records(dialect: &Dialect, content: &[u8], piece: usize) -> Vec<Vec<String>> {
        let mut reader = DelimitedReader::new(dialect).unwrap();
        let mut found = Vec::new();
        let mut pieces = content.chunks(piece);
        let mut input: &[u8] = &[];
        let mut is_last = false;
        loop {
            match reader.next(&mut input, is_last).unwrap() {
                Step::Record => {
                    let values = reader.values().into_iter();
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    found.push(values.map(text).collect());
                }
                Step::NeedsInput => match pieces.next() {
                    Some(piece) => input = piece,
                    None => is_last = true,
                },
                Step::End => {
                    assert_eq!(reader.taken, content.len() as u64);
                    return found;
                }
            }
        }
    }

    /// A dialect without any default.
    fn odd() -> Dialect {
        Dialect {
            column_separator: ";".to_owned(),
            record_separator: "|".to_owned(),
            quote: Some(b'\''),
            escape: Some(b'\\'),
            ..Dialect::default()
        }
    }

    #[test]
    fn records_are_independent_of_the_pieces_of_content() {
        let odd = odd();
        let windows = Dialect {
            record_separator: "\r\n".to_owned(),
            ..Dialect::default()
        };
        let bare = Dialect {
            quote: None,
            ..Dialect::default()
        };
        for (dialect, content, expected) in [
            (
                &Dialect::default(),
                "a,\"b,\"\"c\"\"\"\n\"d\ne\",\n",
                vec![vec!["a", "b,\"c\""], vec!["d\ne", ""]],
            ),
            (
                &odd,
                "a;'b|\\';c'|d,e;f\n",
                vec![vec!["a", "b|';c"], vec!["d,e", "f\n"]],
            ),
            (&windows, "a,b\r\nc,d", vec![vec!["a", "b"], vec!["c", "d"]]),
            (&bare, "\"a,b\"\n", vec![vec!["\"a", "b\""]]),
            // Lines may end with CR LF instead of LF; a quoted CR belongs to the value.
            (
                &Dialect::default(),
                "a,b\r\n\r\n\"c\r\",\"d\r\"\ne,\r\nf\r",
                vec![
                    vec!["a", "b"],
                    vec!["c\r", "d\r"],
                    vec!["e", ""],
                    vec!["f\r"],
                ],
            ),
            (&Dialect::default(), "", vec![]),
        ] {
            for piece in [1, 2, 3, 100] {
                assert_eq!(
                    records(dialect, content.as_bytes(), piece),
                    expected,
                    "{content:?}"
                );
            }
        }
    }

    #[test]
    fn values_round_trip() {
        for dialect in [Dialect::default(), odd()] {
            for value in [
                "plain",
                "",
                "a,b;c",
                "it's \"so\"",
                "line\nline\r|",
                "back\\slash\\",
                "é",
            ] {
                let mut out = Vec::new();
                write_value(&dialect, &mut out, value.as_bytes());
                out.extend_from_slice(dialect.column_separator.as_bytes());
                out.extend_from_slice(b"x");
                out.extend_from_slice(dialect.record_separator.as_bytes());
                assert_eq!(records(&dialect, &out, 7), [[value, "x"]], "{dialect:?}");
            }
        }
    }

    #[test]
    fn records_that_are_too_long_are_refused() {
        let mut reader = DelimitedReader::new(&Dialect::default()).unwrap();
        let content = vec![b'x'; 2 * RECORD_BYTES_MAX];
        let error = reader.next(&mut &content[..], false).unwrap_err();
        assert_eq!((error.name, error.position), ("RecordTooLarge", 0));
        let mut reader = DelimitedReader::new(&Dialect::default()).unwrap();
        let content = vec![b','; 2 * COLUMNS_MAX];
        assert!(reader.next(&mut &content[..], false).is_err());
    }

    proptest! {
        #[test]
        fn reader_never_panics(
            bytes in prop::array::uniform4(0u8..128),
            has in prop::array::uniform2(any::<bool>()),
            content in "[a,;'\"|\\\\\r\n]{0,60}",
            piece in 1usize..9,
        ) {
            let of = |byte: u8| char::from(byte).to_string();
            let dialect = Dialect {
                column_separator: of(bytes[0]),
                record_separator: of(bytes[1]),
                quote: has[0].then_some(bytes[2]),
                escape: has[1].then_some(bytes[3]),
                has_header: false,
            };
            let whole = records(&dialect, content.as_bytes(), 100);
            prop_assert_eq!(records(&dialect, content.as_bytes(), piece), whole);
        }
    }

    #[test]
    fn separators_of_several_characters_are_refused() {
        let dialect = |column: &str, record: &str| Dialect {
            column_separator: column.to_owned(),
            record_separator: record.to_owned(),
            ..Dialect::default()
        };
        assert!(DelimitedReader::new(&dialect("::", "\n")).is_err());
        assert!(DelimitedReader::new(&dialect(",", "--")).is_err());
    }
}

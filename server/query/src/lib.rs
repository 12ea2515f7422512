//! Query Blob Contents: runs an SQL statement over the content of one blob in bounded memory.
//! Content is read once, from front to back, or, for Parquet, with random access. Independent of
//! HTTP and the store: the caller passes content in pieces and takes the result in blocks.
//!
//! `lexer`, `parser`, `expressions` and `calls` parse a statement (`ast`). `delimited`, `documents`
//! (with `json`) and `parquet` split the content into records. `eval`, `functions` and `like`
//! evaluate expressions for a row, and `aggregate` for all rows, with the values of `value` and
//! `time`; `work` limits the work on one row. `run` combines them; `answer` and `arrow` write rows,
//! and `avro` the container of the result. `head` has the first rows of a Parquet file without a
//! statement. Supported: delimited text and JSON as input and output, Parquet as input, Arrow as
//! output. Source: Query Blob Contents; Query acceleration SQL language reference.

mod aggregate;
mod answer;
mod arrow;
mod ast;
mod avro;
mod calls;
mod delimited;
mod documents;
mod eval;
mod expressions;
mod functions;
mod head;
mod json;
mod lexer;
mod like;
mod parquet;
mod parser;
mod run;
mod time;
mod value;
mod work;

pub use answer::Format;
pub use arrow::{ArrowField, ArrowType, FIELDS_MAX as ARROW_FIELDS_MAX, PRECISION_MAX};
pub use delimited::Dialect;
pub use head::{Head, parquet_head};
pub use parquet::{Content, is_decoding};
pub use run::{Input, PARQUET_ROWS_MAX, Query, ROW_ERRORS_MAX, Running, Source, Status};
pub use work::Signal;

/// Maximum length of a record of the content, in bytes.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// A syntax error in a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("At byte {at}: {message}.")]
pub struct Malformed {
    /// The offset in bytes.
    pub at: usize,
    /// The error, for example the expected token, without a final period.
    pub message: String,
}

impl Malformed {
    fn new(at: usize, message: String) -> Malformed {
        Malformed { at, message }
    }
}

/// Why a query was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The statement has a syntax error or does not fit the formats.
    Malformed(Malformed),
    /// The statement or a format uses an unsupported feature; the text begins a sentence.
    Unsupported(&'static str),
    /// Text in a requested format would be ambiguous; the text is a sentence.
    Ambiguous(&'static str),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Refused {
        Refused::Malformed(malformed)
    }
}

/// An error of one row. The query continues with the next row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RowError {
    name: &'static str,
    description: String,
}

impl RowError {
    fn conversion() -> RowError {
        RowError::new("InvalidTypeConversion", "Invalid type conversion.")
    }

    fn overflow() -> RowError {
        RowError::new("ArithmeticOverflow", "A value is out of range.")
    }

    fn division() -> RowError {
        RowError::new("DivideByZero", "A number is divided by zero.")
    }

    fn too_large() -> RowError {
        RowError::new("RecordTooLarge", "A row of the result is too large.")
    }

    fn not_utf8() -> RowError {
        RowError::new("InvalidUtf8", "A value is not UTF-8.")
    }

    fn not_unicode() -> RowError {
        RowError::new("InvalidUtf8", "A text has half of a surrogate pair.")
    }

    fn new(name: &'static str, description: &str) -> RowError {
        RowError {
            name,
            description: description.to_owned(),
        }
    }
}

/// An error after which the content cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fatal {
    name: &'static str,
    description: String,
    /// The offset of the record, in bytes.
    position: u64,
}

impl Fatal {
    fn limit(description: String, position: u64) -> Fatal {
        Fatal {
            name: "QueryLimitExceeded",
            description,
            position,
        }
    }
}

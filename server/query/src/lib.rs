//! Query Blob Contents: a statement in SQL over the content of one blob, read in bounded memory: once from front to back, or
//! where it is needed (Parquet).
//! Knows neither HTTP nor the store: content goes in piece by piece, the answer comes out block by block.
//!
//! `lexer`, `parser`, `expressions` and `calls` make a statement (`ast`) of its text; `delimited`, `documents` (with `json`) and
//! `parquet` make records of the content; `eval`, `functions` and `like` evaluate expressions for a row, `aggregate` for all, with
//! `value` and `time` for the kinds of values; `work` bounds the work on one row; `run` brings them together, `answer` and `arrow`
//! write rows, and `avro` the whole. Served: delimited text and JSON both ways, Parquet as content, Arrow as an answer.
//! An empty line is no record; a line feed as the separator leaves a carriage return before it to the last column.
//! Source: Query Blob Contents; Query acceleration SQL language reference.

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
pub use parquet::Content;
pub use run::{Input, Query, Refused, Running, Status};
pub use work::Signal;

/// Longest record of the content, in bytes.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Why a statement was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("At byte {at}: {message}.")]
pub struct Malformed {
    /// Offset in bytes.
    pub at: usize,
    /// What was expected, without a period.
    pub message: String,
}

impl Malformed {
    fn new(at: usize, message: String) -> Malformed {
        Malformed { at, message }
    }
}

/// Why there is no answer for one row. The others are answered.
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
        RowError::new("RecordTooLarge", "A row of the answer is too large.")
    }

    fn not_utf8() -> RowError {
        RowError::new("InvalidUtf8", "A value is not UTF-8.")
    }

    fn new(name: &'static str, description: &str) -> RowError {
        RowError {
            name,
            description: description.to_owned(),
        }
    }
}

/// Why the content cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fatal {
    name: &'static str,
    description: String,
    /// Offset of the record, in bytes.
    position: u64,
}

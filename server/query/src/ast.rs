//! The syntax tree of a statement.

use crate::like::Pattern;
use crate::time::DatePart;

/// A whole statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub select: Select,
    /// The path from a document to its rows: the steps after `BlobStorage`.
    pub table: Vec<Step>,
    pub condition: Option<Expr>,
    pub limit: Option<u64>,
    /// The fields in the expressions, which refer to them by index.
    pub fields: Vec<Field>,
}

/// The selected columns.
#[derive(Debug, Clone, PartialEq)]
pub enum Select {
    /// All columns: `*`.
    All,
    Columns(Vec<Column>),
    Aggregate(Aggregate, Option<String>),
    /// Sizes of batches of whole records, each of at least `n` bytes: `sys.split(n)`.
    Split(u64),
}

/// A selected expression and its alias.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub value: Expr,
    pub alias: Option<String>,
}

/// A function over all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    pub function: AggregateFunction,
    /// The argument; `None` for `COUNT(*)`.
    pub of: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFunction {
    Count,
    Sum,
    Average,
    Min,
    Max,
}

/// A field, as the path from the row.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub root: Name,
    pub steps: Vec<Step>,
    /// The byte offset in the statement.
    pub at: usize,
}

/// A name. Case matters only if it is quoted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    pub text: String,
    pub quoted: bool,
}

impl Name {
    /// Whether the name refers to the column or member `known`.
    pub fn is(&self, known: &str) -> bool {
        if self.quoted {
            known == self.text
        } else {
            known.eq_ignore_ascii_case(&self.text)
        }
    }

    /// The index of the column that a name such as `_1` refers to: 0 for `_1`.
    pub fn ordinal(&self) -> Option<usize> {
        let digits = self.text.strip_prefix('_').filter(|_| !self.quoted)?;
        digits.parse::<usize>().ok()?.checked_sub(1)
    }
}

/// A step into a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    Name(Name),
    Index(usize),
    /// Each element of a list: `[*]`.
    Each,
}

/// An expression. A chain of operators of any length is one node, so that the parser can limit the
/// nesting.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Field(usize),
    Negated(Box<Expr>),
    Arithmetic(Box<Expr>, Vec<(Operator, Expr)>),
    Compared(Box<Expr>, Comparison, Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    IsMissing(Box<Expr>),
    Like {
        value: Box<Expr>,
        pattern: Box<LikePattern>,
    },
    Between(Box<Expr>, Box<(Expr, Expr)>),
    In(Box<Expr>, Vec<Expr>),
    Cast(Box<Expr>, Type),
    Call(Function, Vec<Expr>),
    Trim {
        side: Side,
        characters: Option<Box<Expr>>,
        value: Box<Expr>,
    },
    Extract(DatePart, Box<Expr>),
    DateAdd(DatePart, Box<(Expr, Expr)>),
    DateDiff(DatePart, Box<(Expr, Expr)>),
}

/// The pattern of LIKE.
#[derive(Debug, Clone, PartialEq)]
pub enum LikePattern {
    /// A constant pattern.
    Fixed(Pattern),
    /// A pattern that is evaluated for each row, and the escape character.
    Evaluated(Expr, Option<char>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Concatenate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Integer,
    Float,
    Text,
    Timestamp,
    Boolean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Leading,
    Trailing,
    Both,
}

/// Functions that have a plain list of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    CharLength,
    Lower,
    Upper,
    Substring,
    Coalesce,
    NullIf,
    ToString,
    ToTimestamp,
    UtcNow,
}

impl Function {
    /// Looks up a name in upper case. Returns the function with its least and greatest number of
    /// arguments.
    pub fn of(name: &str) -> Option<(Function, usize, usize)> {
        Some(match name {
            "CHAR_LENGTH" | "CHARACTER_LENGTH" => (Function::CharLength, 1, 1),
            "LOWER" => (Function::Lower, 1, 1),
            "UPPER" => (Function::Upper, 1, 1),
            "SUBSTRING" => (Function::Substring, 2, 3),
            "COALESCE" => (Function::Coalesce, 1, usize::MAX),
            "NULLIF" => (Function::NullIf, 2, 2),
            "TO_STRING" => (Function::ToString, 2, 2),
            "TO_TIMESTAMP" => (Function::ToTimestamp, 1, 1),
            "UTCNOW" => (Function::UtcNow, 0, 0),
            _ => return None,
        })
    }
}

impl AggregateFunction {
    /// Looks up a name in upper case.
    pub fn of(name: &str) -> Option<AggregateFunction> {
        Some(match name {
            "COUNT" => AggregateFunction::Count,
            "SUM" => AggregateFunction::Sum,
            "AVG" | "AVERAGE" => AggregateFunction::Average,
            "MIN" => AggregateFunction::Min,
            "MAX" => AggregateFunction::Max,
            _ => return None,
        })
    }
}

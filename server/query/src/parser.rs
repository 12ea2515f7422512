//! Parses a statement; `expressions.rs` and `calls.rs` parse its expressions. Source: Query
//! acceleration SQL language reference; rules that it does not define are those of Transact-SQL.

use crate::Malformed;
use crate::ast::*;
use crate::lexer::{self, Kind, Token};
use std::collections::HashMap;

/// Maximum length of a statement in bytes.
pub const STATEMENT_BYTES_MAX: usize = 64 << 10;
/// Maximum nesting of expressions. A path has fewer steps.
pub(super) const DEPTH_MAX: usize = 64;
/// Maximum number of selected columns; `*` selects any number. Source: Query acceleration SQL
/// language reference, "SELECT syntax".
const COLUMNS_MAX: usize = 49;
/// Minimum size of a batch of `sys.split`. Source: Query acceleration SQL language reference,
/// "Sys.Split".
const SPLIT_BYTES_MIN: u64 = 10 << 20;

/// Words that must be quoted to be names.
const RESERVED: [&str; 19] = [
    "SELECT", "FROM", "WHERE", "LIMIT", "AND", "OR", "NOT", "IN", "IS", "LIKE", "ESCAPE",
    "BETWEEN", "NULL", "MISSING", "TRUE", "FALSE", "CAST", "AS", "FOR",
];

/// Parses a statement. The error gives the fault and its offset.
pub fn parse(sql: &str) -> Result<Statement, Malformed> {
    if sql.len() > STATEMENT_BYTES_MAX {
        let message = format!("the statement is longer than {STATEMENT_BYTES_MAX} bytes");
        return Err(Malformed::new(STATEMENT_BYTES_MAX, message));
    }
    let mut parser = Parser {
        tokens: lexer::read(sql)?,
        next: 0,
        depth: 0,
        fields: Vec::new(),
        field_numbers: HashMap::new(),
    };
    parser.statement()
}

/// Parses the tokens of a statement.
pub(super) struct Parser {
    tokens: Vec<Token>,
    pub(super) next: usize,
    pub(super) depth: usize,
    pub(super) fields: Vec<Field>,
    /// The index in `fields`, by root and path.
    pub(super) field_numbers: HashMap<(Name, Vec<Step>), usize>,
}

pub(super) type Parsed<T> = Result<T, Malformed>;

impl Parser {
    fn statement(&mut self) -> Parsed<Statement> {
        self.keyword("SELECT")?;
        let select = self.select()?;
        self.keyword("FROM")?;
        let table = self.table()?;
        let has_condition = self.takes("WHERE");
        let condition = has_condition.then(|| self.expression()).transpose()?;
        let has_limit = self.takes("LIMIT");
        let limit = has_limit.then(|| self.count()).transpose()?;
        self.takes_symbol(";");
        match self.peek() {
            Kind::End => Ok(Statement {
                select,
                table,
                condition,
                limit,
                fields: std::mem::take(&mut self.fields),
            }),
            _ => Err(self.expected("the end of the statement")),
        }
    }

    fn select(&mut self) -> Parsed<Select> {
        if self.takes_symbol("*") {
            return Ok(Select::All);
        }
        if let Some(select) = self.split()? {
            return Ok(select);
        }
        if let Some(aggregate) = self.aggregate()? {
            let alias = self.alias()?;
            return if self.is_symbol(",") {
                Err(self.malformed("an aggregate must be the only column"))
            } else {
                Ok(Select::Aggregate(aggregate, alias))
            };
        }
        let mut columns = Vec::new();
        loop {
            if columns.len() == COLUMNS_MAX {
                return Err(
                    self.malformed(&format!("more than {COLUMNS_MAX} columns are selected"))
                );
            }
            if self.aggregate()?.is_some() {
                return Err(self.malformed("an aggregate must be the only column"));
            }
            let value = self.expression()?;
            let alias = self.alias()?;
            columns.push(Column { value, alias });
            if !self.takes_symbol(",") {
                return Ok(Select::Columns(columns));
            }
        }
    }

    fn split(&mut self) -> Parsed<Option<Select>> {
        let ahead = |offset: usize| self.tokens.get(self.next + offset).map(|token| &token.kind);
        let is_word = |kind: Option<&Kind>, word: &str| matches!(kind, Some(Kind::Word(found)) if found.eq_ignore_ascii_case(word));
        if !(is_word(ahead(0), "SYS")
            && ahead(1) == Some(&Kind::Symbol("."))
            && is_word(ahead(2), "SPLIT"))
        {
            return Ok(None);
        }
        self.next += 3;
        self.symbol("(")?;
        let at = self.at();
        let bytes = self.count()?;
        if bytes < SPLIT_BYTES_MIN {
            let message = format!("the size of a split is at least {SPLIT_BYTES_MIN}");
            return Err(Malformed::new(at, message));
        }
        self.symbol(")")?;
        Ok(Some(Select::Split(bytes)))
    }

    fn aggregate(&mut self) -> Parsed<Option<Aggregate>> {
        let Some(function) = self
            .call_ahead()
            .and_then(|name| AggregateFunction::of(&name))
        else {
            return Ok(None);
        };
        self.next += 2;
        let of = if function == AggregateFunction::Count && self.takes_symbol("*") {
            None
        } else {
            Some(self.expression()?)
        };
        self.symbol(")")?;
        Ok(Some(Aggregate { function, of }))
    }

    /// The upper-case name of the function if a call comes next.
    pub(super) fn call_ahead(&self) -> Option<String> {
        let after = self.tokens.get(self.next + 1)?;
        match (self.peek(), &after.kind) {
            (Kind::Word(name), Kind::Symbol("(")) => Some(name.to_ascii_uppercase()),
            _ => None,
        }
    }

    fn alias(&mut self) -> Parsed<Option<String>> {
        if self.takes("AS") {
            return self.name().map(|name| Some(name.text));
        }
        match self.peek() {
            Kind::Quoted(_) => self.name().map(|name| Some(name.text)),
            Kind::Word(word) if !is_reserved(word) => self.name().map(|name| Some(name.text)),
            _ => Ok(None),
        }
    }

    fn table(&mut self) -> Parsed<Vec<Step>> {
        match self.peek() {
            Kind::Word(word) if is_table(word) => self.next += 1,
            _ => return Err(self.expected("BlobStorage")),
        }
        let at = self.at();
        let mut steps = self.steps(true)?;
        match steps.first() {
            None => Ok(steps),
            Some(Step::Each) => Ok(steps.split_off(1)),
            Some(_) => Err(Malformed::new(at, "expected [*] before a path".to_owned())),
        }
    }

    /// Parses `.name`, `[3]` and, in the path of a table, `[*]`.
    pub(super) fn steps(&mut self, of_table: bool) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if steps.len() == DEPTH_MAX {
                return Err(self.malformed("the path is too long"));
            }
            if self.takes_symbol(".") {
                steps.push(Step::Name(self.name()?));
            } else if self.takes_symbol("[") {
                let step = if of_table && self.takes_symbol("*") {
                    Step::Each
                } else {
                    Step::Index(usize::try_from(self.count()?).unwrap_or(usize::MAX))
                };
                steps.push(step);
                self.symbol("]")?;
            } else {
                return Ok(steps);
            }
        }
    }

    pub(super) fn name(&mut self) -> Parsed<Name> {
        let name = match self.peek() {
            Kind::Word(word) if !is_reserved(word) => Name {
                text: word.clone(),
                quoted: false,
            },
            Kind::Quoted(text) => Name {
                text: text.clone(),
                quoted: true,
            },
            _ => return Err(self.expected("a name")),
        };
        self.next += 1;
        Ok(name)
    }

    fn count(&mut self) -> Parsed<u64> {
        match *self.peek() {
            Kind::Integer(number) => {
                self.next += 1;
                Ok(number.unsigned_abs())
            }
            _ => Err(self.expected("a whole number")),
        }
    }

    pub(super) fn peek(&self) -> &Kind {
        self.tokens.get(self.next).map_or(&Kind::End, |it| &it.kind)
    }

    pub(super) fn at(&self) -> usize {
        let end = self.tokens.last().map_or(0, |token| token.at);
        self.tokens.get(self.next).map_or(end, |token| token.at)
    }

    pub(super) fn takes(&mut self, keyword: &str) -> bool {
        let found = matches!(self.peek(), Kind::Word(word) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(found);
        found
    }

    pub(super) fn keyword(&mut self, keyword: &str) -> Parsed<()> {
        if self.takes(keyword) {
            Ok(())
        } else {
            Err(self.expected(keyword))
        }
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Kind::Symbol(found) if *found == symbol)
    }

    pub(super) fn takes_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.next += usize::from(found);
        found
    }

    pub(super) fn symbol(&mut self, symbol: &str) -> Parsed<()> {
        if self.takes_symbol(symbol) {
            Ok(())
        } else {
            Err(self.expected(&format!("'{symbol}'")))
        }
    }

    pub(super) fn expected(&self, what: &str) -> Malformed {
        self.malformed(&format!("expected {what}"))
    }

    pub(super) fn malformed(&self, message: &str) -> Malformed {
        Malformed::new(self.at(), message.to_owned())
    }
}

fn is_reserved(word: &str) -> bool {
    RESERVED
        .iter()
        .any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// Whether a word names the blob. The hosted service was observed to accept `DataLakeStorage` too,
/// which the Data Lake clients document.
fn is_table(word: &str) -> bool {
    let names = ["BlobStorage", "DataLakeStorage"];
    names.iter().any(|name| word.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fails(sql: &str) -> (usize, String) {
        let error = parse(sql).unwrap_err();
        (error.at, error.message)
    }

    #[test]
    fn statements_of_the_reference_are_parsed() {
        for sql in [
            "SELECT * FROM BlobStorage",
            "select _1, _2 as b from blobstorage where _1 > 250 limit 3;",
            "SELECT sys.split(10485760)FROM BlobStorage",
            "SELECT COUNT(*) FROM BlobStorage",
            "SELECT * FROM DataLakeStorage WHERE _1 = 'a'",
            "SELECT AVERAGE(CAST(_3 AS FLOAT)) a FROM BlobStorage[*]",
            "SELECT latitude FROM BlobStorage[*].warehouses[*]",
            "SELECT weight,warehouses[0].longitude,id,tags[1] FROM BlobStorage[*]",
            "SELECT TRIM(BOTH '123' FROM '1112211Microsoft22211122'), TRIM(LEADING FROM a), TRIM(a) FROM BlobStorage",
            "SELECT DATE_ADD('minute', 1, CAST('2017-01-02T03:04:05.006Z' AS TIMESTAMP)) FROM BlobStorage",
            "SELECT DATE_DIFF(hour,'2018-11-09T00:00+05:30','2018-11-09T01:00:23-08:00') FROM BlobStorage",
            "SELECT EXTRACT(YEAR FROM '2010-01-01T'), EXTRACT(timezone_hour FROM x), UTCNOW() FROM BlobStorage",
            "SELECT \"a b\" FROM BlobStorage WHERE a IS NOT MISSING AND NOT (b IN (1,2) OR c NOT LIKE '%x!%' ESCAPE '!')",
            "SELECT a FROM BlobStorage WHERE a BETWEEN 1 AND 2 AND b NOT BETWEEN -1 AND +2.5",
            "SELECT SUBSTRING(a, 1, 5), SUBSTRING(a FROM 1 FOR 5), COALESCE(a, b, ''), NULLIF(a, b) FROM BlobStorage",
        ] {
            assert!(parse(sql).is_ok(), "{sql}: {:?}", parse(sql));
        }
    }

    #[test]
    fn errors_name_the_expected_token_and_its_place() {
        for (sql, at, message) in [
            ("", 0, "expected SELECT"),
            ("SELECT", 6, "expected an expression"),
            ("SELECT * FROM Other", 14, "expected BlobStorage"),
            (
                "SELECT * FROM BlobStorage WHERE",
                31,
                "expected an expression",
            ),
            (
                "SELECT * FROM BlobStorage LIMIT x",
                32,
                "expected a whole number",
            ),
            (
                "SELECT * FROM BlobStorage extra",
                26,
                "expected the end of the statement",
            ),
            (
                "SELECT * FROM BlobStorage.path",
                25,
                "expected [*] before a path",
            ),
            ("SELECT F(1) FROM BlobStorage", 7, "there is no function F"),
            (
                "SELECT LOWER() FROM BlobStorage",
                7,
                "LOWER does not take 0 arguments",
            ),
            (
                "SELECT COUNT(*), _1 FROM BlobStorage",
                15,
                "an aggregate must be the only column",
            ),
            (
                "SELECT 1 + SUM(_1) FROM BlobStorage",
                11,
                "an aggregate must be a column by itself",
            ),
            (
                "SELECT CAST(_1 AS DATE) FROM BlobStorage",
                18,
                "expected INT, FLOAT, STRING, TIMESTAMP or BOOLEAN",
            ),
            (
                "SELECT sys.split(5) FROM BlobStorage",
                17,
                "the size of a split is at least 10485760",
            ),
            (
                "SELECT a IS b FROM BlobStorage",
                12,
                "expected NULL or MISSING",
            ),
        ] {
            assert_eq!(fails(sql), (at, message.to_owned()), "{sql}");
        }
    }

    #[test]
    fn nesting_and_columns_are_limited_and_chains_do_not_count_as_nesting() {
        let deep = |count: usize| {
            let (open, close) = ("(".repeat(count), ")".repeat(count));
            format!("SELECT {open}1{close} FROM BlobStorage")
        };
        assert!(parse(&deep(DEPTH_MAX - 1)).is_ok());
        assert!(fails(&deep(DEPTH_MAX)).1.contains("nests deeper"));
        for word in ["NOT ", "- ", "LOWER("] {
            let sql = format!("SELECT {}1 FROM BlobStorage", word.repeat(5_000));
            assert!(fails(&sql).1.contains("nests deeper"), "{word}");
        }
        let chain = |term: &str| format!("SELECT 1{} FROM BlobStorage", term.repeat(8_000));
        for term in ["+1", "*1", " OR 1"] {
            assert!(parse(&chain(term)).is_ok(), "{term}");
        }
        let columns =
            |count: usize| format!("SELECT {} FROM BlobStorage", vec!["_1"; count].join(","));
        assert!(parse(&columns(COLUMNS_MAX)).is_ok());
        assert!(parse(&columns(COLUMNS_MAX + 1)).is_err());
        assert!(parse(&" ".repeat(STATEMENT_BYTES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn parser_never_panics_on_text(text in ".{0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn parser_never_panics_on_tokens(words in prop::collection::vec(prop::sample::select(vec![
            "SELECT", "*", "FROM", "BlobStorage", "[", "]", ".", "(", ")", ",", "WHERE", "AND", "OR", "NOT", "IN", "IS", "NULL",
            "MISSING", "LIKE", "ESCAPE", "'%'", "BETWEEN", "CAST", "AS", "INT", "TRIM", "BOTH", "EXTRACT", "YEAR", "DATE_ADD",
            "SUBSTRING", "FOR", "COUNT", "SUM", "_1", "\"a\"", "1", "2.5", "'x'", "+", "-", "/", "=", "<>", "||", ";", "LIMIT",
            "sys", "split", "UTCNOW",
        ]), 0..40)) {
            let _ = parse(&words.join(" "));
        }
    }
}

//! Evaluates an expression for one row, with SQL's three-valued logic: a comparison with null is
//! neither true nor false.

use crate::RowError;
use crate::ast::*;
use crate::delimited::Columns;
use crate::functions::{apply, calculate};
use crate::like::Pattern;
use crate::time::Timestamp;
use crate::value::{Json, Value};
use crate::work::Work;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

/// A row and the context of its expressions.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub row: Row<'a>,
    pub fields: &'a [Field],
    pub now: Timestamp,
    /// Length in bytes of the record of the row.
    pub record_bytes: usize,
    pub work: &'a Work<'a>,
}

/// The values of a row.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    /// Columns of delimited text. `columns` has, for each field of the statement, its column.
    Delimited {
        values: Columns<'a>,
        columns: &'a [usize],
    },
    Document(&'a Json),
}

type Evaluated<'a> = Result<Value<'a>, RowError>;

impl<'a> Scope<'a> {
    /// The value of a selected column. A mere field is not decoded: it may have any encoding.
    pub fn select(&self, expr: &'a Expr) -> Evaluated<'a> {
        match expr {
            Expr::Field(number) => {
                let value = self.stored(*number)?;
                self.spend_on(&value)?;
                Ok(value)
            }
            expr => self.evaluate(expr),
        }
    }

    fn stored(&self, number: usize) -> Evaluated<'a> {
        match self.row {
            Row::Delimited { values, columns } => {
                let column = columns.get(number).copied().unwrap_or(usize::MAX);
                let missing = || RowError {
                    name: "InvalidColumnOrdinal",
                    description: format!("The record has no column {}.", column.saturating_add(1)),
                };
                Ok(Value::Bytes(values.get(column).ok_or_else(missing)?))
            }
            Row::Document(document) => {
                let field = self.fields.get(number);
                let Some(field) = field else {
                    return Ok(Value::Missing);
                };
                let mut found = self.member(document, &field.root)?;
                for step in &field.steps {
                    found = match (found, step) {
                        (Some(json), Step::Name(name)) => self.member(json, name)?,
                        (Some(Json::List(items)), Step::Index(index)) => items.get(*index),
                        _ => None,
                    };
                }
                Ok(found.map_or(Value::Missing, Value::from))
            }
        }
    }

    /// The member with this name, if `json` is an object that has one.
    fn member(&self, json: &'a Json, name: &Name) -> Result<Option<&'a Json>, RowError> {
        let Json::Object(members) = json else {
            return Ok(None);
        };
        let place = members.iter().position(|(known, _)| name.is(known));
        self.work.spend(place.unwrap_or(members.len()))?;
        Ok(place.map(|place| &members[place].1))
    }

    /// Whether the row satisfies `condition`.
    pub fn holds(&self, condition: &'a Expr) -> Result<bool, RowError> {
        Ok(self.evaluate(condition)?.as_truth()? == Some(true))
    }

    /// Evaluates an expression. Errors: those of the expression and of [`Work::spend`].
    pub fn evaluate(&self, expr: &'a Expr) -> Evaluated<'a> {
        let value = self.evaluate_unbounded(expr)?;
        self.spend_on(&value)?;
        Ok(value)
    }

    fn spend_on(&self, value: &Value<'_>) -> Result<(), RowError> {
        // The work with a value is proportional to its length. LIKE takes longer, and counts its
        // own work.
        let bytes = match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Json(_) => self.record_bytes,
            _ => 0,
        };
        self.work.spend(1 + bytes)
    }

    fn evaluate_unbounded(&self, expr: &'a Expr) -> Evaluated<'a> {
        Ok(match expr {
            Expr::Null => Value::Null,
            Expr::Boolean(truth) => Value::Boolean(*truth),
            Expr::Integer(number) => Value::Integer(*number),
            Expr::Float(number) => Value::Float(*number),
            Expr::Text(text) => Value::Text(Cow::Borrowed(text)),
            Expr::Field(number) => self.stored(*number)?.decoded()?,
            Expr::Negated(value) => match self.evaluate(value)? {
                value if value.is_null() => Value::Null,
                value => calculate(Value::Integer(0), Operator::Subtract, value)?,
            },
            Expr::Arithmetic(first, rest) => {
                let mut value = self.evaluate(first)?;
                for (operator, operand) in rest {
                    value = calculate(value, *operator, self.evaluate(operand)?)?;
                }
                value
            }
            Expr::Compared(left, comparison, right) => {
                let order = self.evaluate(left)?.compare(&self.evaluate(right)?)?;
                Value::truth(order.map(|order| is_met(*comparison, order)))
            }
            Expr::All(terms) => self.connect(terms, false)?,
            Expr::Any(terms) => self.connect(terms, true)?,
            Expr::Not(term) => Value::truth(self.evaluate(term)?.as_truth()?.map(|truth| !truth)),
            Expr::IsNull(value) => Value::Boolean(self.evaluate(value)?.is_null()),
            Expr::IsMissing(value) => Value::Boolean(self.evaluate(value)? == Value::Missing),
            Expr::Like { value, pattern } => self.like(self.evaluate(value)?, pattern)?,
            Expr::Between(value, bounds) => self.between(value, bounds)?,
            Expr::In(value, list) => self.is_in(self.evaluate(value)?, list)?,
            Expr::Cast(value, to) => self.evaluate(value)?.cast(*to)?,
            Expr::Call(function, arguments) => self.call(*function, arguments)?,
            Expr::Trim {
                side,
                characters,
                value,
            } => self.trim(*side, characters.as_deref(), value)?,
            Expr::Extract(part, time) => match self.evaluate(time)? {
                time if time.is_null() => Value::Null,
                time => Value::Integer(time.as_timestamp()?.part(*part)),
            },
            Expr::DateAdd(part, both) => match (self.evaluate(&both.0)?, self.evaluate(&both.1)?) {
                (quantity, time) if quantity.is_null() || time.is_null() => Value::Null,
                (quantity, time) => {
                    let moved = time.as_timestamp()?.plus(*part, quantity.as_integer()?);
                    Value::Timestamp(moved.ok_or_else(RowError::overflow)?)
                }
            },
            Expr::DateDiff(part, both) => {
                match (self.evaluate(&both.0)?, self.evaluate(&both.1)?) {
                    (from, to) if from.is_null() || to.is_null() => Value::Null,
                    (from, to) => {
                        let count = from.as_timestamp()?.until(to.as_timestamp()?, *part);
                        Value::Integer(count.ok_or_else(RowError::conversion)?)
                    }
                }
            }
        })
    }

    fn like(&self, value: Value<'a>, pattern: &'a LikePattern) -> Evaluated<'a> {
        match pattern {
            LikePattern::Fixed(pattern) => self.is_like(value, pattern),
            LikePattern::Evaluated(pattern, escape) => match self.evaluate(pattern)? {
                pattern if pattern.is_null() => Ok(Value::Null),
                pattern => {
                    let pattern = Pattern::new(&pattern.into_text(), *escape)?;
                    self.is_like(value, &pattern)
                }
            },
        }
    }

    fn between(&self, value: &'a Expr, (low, high): &'a (Expr, Expr)) -> Evaluated<'a> {
        let value = self.evaluate(value)?;
        let low = self.evaluate(low)?.compare(&value)?.map(Ordering::is_le);
        let high = self.evaluate(high)?.compare(&value)?.map(Ordering::is_ge);
        Ok(Value::truth(match (low, high) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }))
    }

    /// Evaluates AND and OR: the first term equal to `decisive` decides. Otherwise the result is
    /// null if any term is.
    fn connect(&self, terms: &'a [Expr], decisive: bool) -> Evaluated<'a> {
        let mut is_open = false;
        for term in terms {
            match self.evaluate(term)?.as_truth()? {
                Some(truth) if truth == decisive => return Ok(Value::Boolean(decisive)),
                Some(_) => {}
                None => is_open = true,
            }
        }
        Ok(Value::truth((!is_open).then_some(!decisive)))
    }

    fn is_like(&self, value: Value<'a>, pattern: &Pattern) -> Evaluated<'a> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        let is_like = pattern.matches(&value.into_text(), self.work)?;
        Ok(Value::Boolean(is_like))
    }

    fn is_in(&self, value: Value<'a>, list: &'a [Expr]) -> Evaluated<'a> {
        let mut is_open = false;
        for item in list {
            match self.evaluate(item)?.compare(&value)? {
                Some(Ordering::Equal) => return Ok(Value::Boolean(true)),
                Some(_) => {}
                None => is_open = true,
            }
        }
        Ok(Value::truth((!is_open).then_some(false)))
    }

    fn call(&self, function: Function, arguments: &'a [Expr]) -> Evaluated<'a> {
        match function {
            Function::UtcNow => return Ok(Value::Timestamp(self.now)),
            Function::Coalesce => {
                for argument in arguments {
                    match self.evaluate(argument)? {
                        value if value.is_null() => {}
                        value => return Ok(value),
                    }
                }
                return Ok(Value::Null);
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.evaluate(argument)?);
        }
        let mut values = values.into_iter();
        let first = values.next().unwrap_or(Value::Null);
        if function == Function::NullIf {
            let order = first.compare(&values.next().unwrap_or(Value::Null))?;
            return Ok(match order {
                Some(Ordering::Equal) => Value::Null,
                _ => first,
            });
        }
        let rest: Vec<_> = values.collect();
        if first.is_null() || rest.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        apply(function, first, &rest)
    }

    fn trim(&self, side: Side, characters: Option<&'a Expr>, value: &'a Expr) -> Evaluated<'a> {
        let characters = match characters {
            None => Value::Text(Cow::Borrowed(" ")),
            Some(characters) => self.evaluate(characters)?,
        };
        let value = self.evaluate(value)?;
        if characters.is_null() || value.is_null() {
            return Ok(Value::Null);
        }
        let (characters, text) = (characters.into_text(), value.into_text());
        let dropped: HashSet<char> = characters.chars().collect();
        let drops = |character: char| dropped.contains(&character);
        let mut kept = &*text;
        if side != Side::Trailing {
            kept = kept.trim_start_matches(drops);
        }
        if side != Side::Leading {
            kept = kept.trim_end_matches(drops);
        }
        Ok(Value::Text(Cow::Owned(kept.to_owned())))
    }
}

fn is_met(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// The rows of a document: the parts that the path `table` selects, in order.
pub fn rows(document: Json, table: &[Step]) -> Vec<Json> {
    let Some((next, rest)) = table.split_first() else {
        return vec![document];
    };
    match (document, next) {
        (Json::List(items), Step::Each) => items
            .into_iter()
            .flat_map(|item| rows(item, rest))
            .collect(),
        (Json::List(mut items), Step::Index(index)) if *index < items.len() => {
            rows(items.swap_remove(*index), rest)
        }
        (Json::Object(mut members), Step::Name(name)) => {
            match members.iter().position(|(known, _)| name.is(known)) {
                Some(place) => rows(members.swap_remove(place).1, rest),
                None => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::parser::parse;
    use crate::work::{ROW_STEPS_MAX, Signal};

    /// The value of an expression for a document.
    fn over(document: &str, expression: &str) -> Result<String, &'static str> {
        let statement = parse(&format!("SELECT {expression} FROM BlobStorage")).unwrap();
        let Select::Columns(columns) = &statement.select else {
            panic!("{expression}");
        };
        let json = json::parse(document.as_bytes()).unwrap();
        let work = Work::new(ROW_STEPS_MAX, &|| Signal::Continue);
        let scope = Scope {
            row: Row::Document(&json),
            fields: &statement.fields,
            now: Timestamp::parse("2026-11-22T01:02:03Z").unwrap(),
            record_bytes: document.len(),
            work: &work,
        };
        let value = scope
            .evaluate(&columns[0].value)
            .map_err(|error| error.name)?;
        Ok(serde_json::to_string(&value).unwrap())
    }

    fn is(expression: &str) -> Result<String, &'static str> {
        over("{}", expression)
    }

    #[test]
    fn arithmetic_respects_precedence_and_types() {
        for (expression, value) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("7 / 2", "3"),
            ("7 / 2.0", "3.5"),
            ("-7 % 3", "-1"),
            ("'2' + 3", "5"),
            ("10 - 2 - 3", "5"),
            ("'a' || 1 || TRUE", "\"a1true\""),
            ("1 + NULL", "null"),
            ("- -5", "5"),
            (
                "CAST('2020-01-01' AS TIMESTAMP) + 1.5",
                "\"2020-01-02T12:00:00Z\"",
            ),
        ] {
            assert_eq!(is(expression).as_deref(), Ok(value), "{expression}");
        }
        for (expression, error) in [
            ("1 / 0", "DivideByZero"),
            ("1 % 0.0", "DivideByZero"),
            ("9223372036854775807 + 1", "ArithmeticOverflow"),
            ("-9223372036854775807 - 2", "ArithmeticOverflow"),
            ("(-9223372036854775807 - 1) / -1", "ArithmeticOverflow"),
            ("1e308 * 10", "ArithmeticOverflow"),
            ("'a' + 1", "InvalidTypeConversion"),
            ("CAST('2020' AS TIMESTAMP) + 1e300", "ArithmeticOverflow"),
        ] {
            assert_eq!(is(expression), Err(error), "{expression}");
        }
    }

    #[test]
    fn conditions_on_nulls_are_null() {
        for (expression, value) in [
            ("NULL = NULL", "null"),
            ("NULL AND FALSE", "false"),
            ("NULL AND TRUE", "null"),
            ("NULL OR TRUE", "true"),
            ("NOT (NULL = 1)", "null"),
            ("1 IN (2, NULL)", "null"),
            ("1 IN (2, 1, NULL)", "true"),
            ("1 NOT IN (2, 3)", "true"),
            ("2 BETWEEN 1 AND 3", "true"),
            ("2 NOT BETWEEN 1 AND NULL", "null"),
            ("5 BETWEEN NULL AND 3", "false"),
            ("a IS NULL", "true"),
            ("a IS MISSING", "true"),
            ("NULL IS MISSING", "false"),
            ("COALESCE(NULL, a, 'x')", "\"x\""),
            ("NULLIF(1, 1)", "null"),
            ("NULLIF(1, 2)", "1"),
        ] {
            assert_eq!(is(expression).as_deref(), Ok(value), "{expression}");
        }
    }

    #[test]
    fn text_functions_trim_match_and_measure() {
        for (expression, value) in [
            ("CHARACTER_LENGTH('abcdefg')", "7"),
            ("CHAR_LENGTH('é')", "1"),
            ("LOWER('AbCdEfG')", "\"abcdefg\""),
            ("UPPER('é')", "\"É\""),
            ("SUBSTRING('123456789', 1, 5)", "\"23456\""),
            ("SUBSTRING('123456789' FROM 7)", "\"89\""),
            ("SUBSTRING('123', -1, 2)", "\"1\""),
            ("SUBSTRING('123', 9, 2)", "\"\""),
            ("SUBSTRING('123', 0, -9223372036854775807)", "\"\""),
            (
                "TRIM(BOTH '123' FROM '1112211Microsoft22211122')",
                "\"Microsoft\"",
            ),
            ("TRIM(LEADING FROM '  a ')", "\"a \""),
            ("TRAILING('  a ')", "\"  a\""),
            ("'abc' LIKE 'a%'", "true"),
            ("'abc' LIKE '_b_'", "true"),
            ("'abc' LIKE '%d%'", "false"),
            ("'abcabc' LIKE '%abc'", "true"),
            ("'50%' LIKE '50!%' ESCAPE '!'", "true"),
            ("'50x' LIKE '50!%' ESCAPE '!'", "false"),
            ("'' LIKE '%'", "true"),
            ("NULL LIKE 'a'", "null"),
        ] {
            assert_eq!(is(expression).as_deref(), Ok(value), "{expression}");
        }
    }

    #[test]
    fn date_functions_extract_and_add() {
        for (expression, value) in [
            ("UTCNOW()", "\"2026-11-22T01:02:03Z\""),
            ("EXTRACT(YEAR FROM '2010-01-01T')", "2010"),
            (
                "EXTRACT(timezone_minute FROM '2010-01-01T00:00+05:30')",
                "30",
            ),
            (
                "DATE_ADD('minute', 1, '2017-01-02T03:04:05.006Z')",
                "\"2017-01-02T03:05:05.006Z\"",
            ),
            (
                "DATE_DIFF('hour','2018-11-09T00:00+05:30','2018-11-09T01:00:23-08:00')",
                "15",
            ),
            (
                "TO_STRING(CAST('1969-07-20T20:18Z' AS TIMESTAMP), 'MMMM d, y')",
                "\"July 20, 1969\"",
            ),
            ("TO_TIMESTAMP('2007T')", "\"2007-01-01T00:00:00Z\""),
            ("'2020-01-01T00:00Z' < UTCNOW()", "true"),
            ("DATE_ADD('year', NULL, '2020')", "null"),
        ] {
            assert_eq!(is(expression).as_deref(), Ok(value), "{expression}");
        }
        assert_eq!(
            is("DATE_ADD('year', 99999, '2020')"),
            Err("ArithmeticOverflow")
        );
    }

    #[test]
    fn fields_are_found_by_path() {
        let document = r#"{"Weight":0.2,"tags":["wireless","accessory"],"a b":{"c":[{"d":null}]}}"#;
        for (expression, value) in [
            ("weight", "0.2"),
            ("\"weight\" IS MISSING", "true"),
            ("tags[1]", "\"accessory\""),
            ("tags[2] IS MISSING", "true"),
            ("\"a b\".c[0].d IS MISSING", "false"),
            ("\"a b\".c[0].d IS NULL", "true"),
            ("\"a b\".c", "[{\"d\":null}]"),
        ] {
            assert_eq!(
                over(document, expression).as_deref(),
                Ok(value),
                "{expression}"
            );
        }
        assert_eq!(over(document, "tags = 'x'"), Err("InvalidTypeConversion"));
    }
}

//! `$filter`: an expression over the properties of one entity, and whether it holds.
//!
//! Two-valued: a comparison with a missing property is false, whatever the operator, and `not` simply negates; so
//! `not (Missing eq 1)` is true where `Missing ne 1` is false. Source: Azure/Azurite issues 1929 and 2342.

mod parse;
#[cfg(test)]
mod tests;
mod token;

use crate::codec::ValueRef;
use crate::error::{InvalidInput, Result};
use crate::keys::compare_utf16;
use crate::model::Value;
use std::cmp::Ordering;

/// Longest filter that is read, in bytes: whatever fits into a URL.
pub const FILTER_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of `and`, `or` and `not` in each other. A chain of one operator is one level, parenthesised or not.
pub const FILTER_DEPTH_MAX: usize = 64;

/// A parsed filter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    pub(crate) expression: Expression,
    /// The properties it speaks of, sorted; the expression names them by index.
    pub(crate) names: Vec<String>,
}

/// A term that is true or false of an entity. Properties are indexes into [`Filter::names`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Compare {
        property: usize,
        operator: Operator,
        literal: Value,
    },
    /// A bare property: it exists, is a Boolean, and true.
    IsTrue(usize),
    Constant(bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    LessThan,
    LessThanOrEqual,
    GreaterThan,
    GreaterThanOrEqual,
}

impl Filter {
    /// Reads a filter; a blank one is none. Errors: `InvalidInput`, `NotImplemented`. Its size and depth are bounded.
    pub(crate) fn parse(text: &str) -> Result<Option<Filter>> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let (expression, names) = parse::parse(text)?;
        Ok(Some(Filter { expression, names }))
    }

    /// Reads a filter on tables: on `TableName` only, and without regard to case, as all look-ups of tables.
    pub(crate) fn parse_for_tables(text: &str) -> Result<Option<Filter>> {
        let Some(mut filter) = Filter::parse(text)? else {
            return Ok(None);
        };
        if filter.names.iter().any(|name| name != "TableName") {
            return Err(InvalidInput::Request.into());
        }
        filter.expression.make_literals_lowercase();
        Ok(Some(filter))
    }

    /// Where the value of a property goes in what [`Filter::matches`] is given.
    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.names
            .binary_search_by(|known| (**known).cmp(name))
            .ok()
    }

    /// As [`Filter::slot`], of a stored name.
    pub(crate) fn slot_of_bytes(&self, name: &[u8]) -> Option<usize> {
        match self.names.len() {
            // A comparison of lengths rules most names out.
            0..=4 => self.names.iter().position(|known| known.as_bytes() == name),
            _ => self
                .names
                .binary_search_by(|known| known.as_bytes().cmp(name))
                .ok(),
        }
    }

    /// Names only what the expression still speaks of, after terms have been taken from it.
    pub(crate) fn forget_unused_names(&mut self) {
        let mut used = vec![false; self.names.len()];
        self.expression
            .for_each_property(&mut |property| used[*property] = true);
        let mut kept = 0;
        let places: Vec<usize> = used
            .iter()
            .map(|used| {
                kept += usize::from(*used);
                kept - usize::from(*used)
            })
            .collect();
        self.expression
            .for_each_property(&mut |property| *property = places[*property]);
        let mut used = used.into_iter();
        self.names.retain(|_| used.next().is_some_and(|used| used));
    }

    /// Whether it holds of an entity with these values, one for each of [`Filter::names`].
    pub(crate) fn matches(&self, values: &[Option<ValueRef<'_>>]) -> bool {
        self.expression.matches(values)
    }
}

impl Expression {
    fn matches(&self, values: &[Option<ValueRef<'_>>]) -> bool {
        match self {
            Expression::And(terms) => terms.iter().all(|term| term.matches(values)),
            Expression::Or(terms) => terms.iter().any(|term| term.matches(values)),
            Expression::Not(term) => !term.matches(values),
            Expression::Compare {
                property,
                operator,
                literal,
            } => values[*property]
                .is_some_and(|value| operator.holds(compare(value, literal.into()))),
            Expression::IsTrue(property) => values[*property] == Some(ValueRef::Boolean(true)),
            Expression::Constant(truth) => *truth,
        }
    }

    fn for_each_property(&mut self, visit: &mut dyn FnMut(&mut usize)) {
        match self {
            Expression::And(terms) | Expression::Or(terms) => {
                terms
                    .iter_mut()
                    .for_each(|term| term.for_each_property(visit));
            }
            Expression::Not(term) => term.for_each_property(visit),
            Expression::Compare { property, .. } | Expression::IsTrue(property) => visit(property),
            Expression::Constant(_) => {}
        }
    }

    fn make_literals_lowercase(&mut self) {
        match self {
            Expression::And(terms) | Expression::Or(terms) => {
                terms
                    .iter_mut()
                    .for_each(Expression::make_literals_lowercase);
            }
            Expression::Not(term) => term.make_literals_lowercase(),
            Expression::Compare {
                literal: Value::String(text),
                ..
            } => text.make_ascii_lowercase(),
            _ => {}
        }
    }
}

/// How a stored value stands to a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Ordered(Ordering),
    /// Of one type, but one of them is NaN.
    Unordered,
    /// The types cannot be compared.
    Mismatch,
}

/// A literal Int32 compares with any number, a literal Int64 also with a Double; the literal is the one that is widened,
/// never the stored value. Source: the table of all pairs in `tests.rs`.
fn compare(value: ValueRef<'_>, literal: ValueRef<'_>) -> Comparison {
    use ValueRef::{Binary, Boolean, DateTime, Double, Guid, Int32, Int64, String};
    let ordering = match (value, literal) {
        (String(value), String(literal)) => compare_utf16(value, literal),
        (Int32(value), Int32(literal)) => value.cmp(&literal),
        (Int64(value), Int32(literal)) => value.cmp(&i64::from(literal)),
        (Int64(value), Int64(literal)) => value.cmp(&literal),
        (Double(value), Int32(literal)) => return compare_doubles(value, f64::from(literal)),
        (Double(value), Int64(literal)) => return compare_doubles(value, literal as f64),
        (Double(value), Double(literal)) => return compare_doubles(value, literal),
        (Boolean(value), Boolean(literal)) => value.cmp(&literal),
        (DateTime(value), DateTime(literal)) => value.cmp(&literal),
        (Guid(value), Guid(literal)) => value.cmp(&literal),
        (Binary(value), Binary(literal)) => value.cmp(literal),
        _ => return Comparison::Mismatch,
    };
    Comparison::Ordered(ordering)
}

fn compare_doubles(value: f64, literal: f64) -> Comparison {
    value
        .partial_cmp(&literal)
        .map_or(Comparison::Unordered, Comparison::Ordered)
}

impl Operator {
    pub(crate) fn parse(name: &str) -> Option<Operator> {
        match name {
            "eq" => Some(Operator::Equal),
            "ne" => Some(Operator::NotEqual),
            "lt" => Some(Operator::LessThan),
            "le" => Some(Operator::LessThanOrEqual),
            "gt" => Some(Operator::GreaterThan),
            "ge" => Some(Operator::GreaterThanOrEqual),
            _ => None,
        }
    }

    /// The operator that holds of (b, a) when this one holds of (a, b).
    fn mirrored(self) -> Operator {
        match self {
            Operator::LessThan => Operator::GreaterThan,
            Operator::LessThanOrEqual => Operator::GreaterThanOrEqual,
            Operator::GreaterThan => Operator::LessThan,
            Operator::GreaterThanOrEqual => Operator::LessThanOrEqual,
            same => same,
        }
    }

    /// The operator that holds of two texts when this one does not.
    pub(crate) fn negated(self) -> Operator {
        match self {
            Operator::Equal => Operator::NotEqual,
            Operator::NotEqual => Operator::Equal,
            Operator::LessThan => Operator::GreaterThanOrEqual,
            Operator::LessThanOrEqual => Operator::GreaterThan,
            Operator::GreaterThan => Operator::LessThanOrEqual,
            Operator::GreaterThanOrEqual => Operator::LessThan,
        }
    }

    /// Whether it holds of a stored value and a literal that compare so. A value of another type counts as different, and as
    /// smaller than any literal. Source: the table of all pairs in `tests.rs`.
    pub(crate) fn holds(self, comparison: Comparison) -> bool {
        let ordering = match comparison {
            Comparison::Ordered(ordering) => ordering,
            Comparison::Mismatch => Ordering::Less,
            Comparison::Unordered => return self == Operator::NotEqual,
        };
        match self {
            Operator::Equal => ordering.is_eq(),
            Operator::NotEqual => ordering.is_ne(),
            Operator::LessThan => ordering.is_lt(),
            Operator::LessThanOrEqual => ordering.is_le(),
            Operator::GreaterThan => ordering.is_gt(),
            Operator::GreaterThanOrEqual => ordering.is_ge(),
        }
    }
}

//! Expressions of filters, and their evaluation on the values of one entity.

use crate::codec::ValueRef;
use crate::keys::compare_utf16;
use crate::model::Value;
use std::cmp::Ordering;

/// An expression that is true or false for an entity. Properties are indexes into the names of the
/// filter.
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
    /// A property by itself: it exists, is a Boolean, and is true.
    IsTrue(usize),
    Constant(bool),
}

/// An operator that compares a property with a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `eq`
    Equal,
    /// `ne`
    NotEqual,
    /// `lt`
    LessThan,
    /// `le`
    LessThanOrEqual,
    /// `gt`
    GreaterThan,
    /// `ge`
    GreaterThanOrEqual,
}

impl Expression {
    pub(super) fn matches(&self, values: &[Option<ValueRef<'_>>]) -> bool {
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

    pub(super) fn for_each_property(&mut self, visit: &mut dyn FnMut(&mut usize)) {
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

    pub(super) fn make_literals_lowercase(&mut self) {
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

/// The result of comparing a stored value with a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Ordered(Ordering),
    /// The types agree, but one of the values is NaN.
    Unordered,
    /// The types cannot be compared.
    Mismatch,
}

/// Compares a stored value with a literal. An Int32 literal compares with any number, and an Int64
/// literal also with a Double. The literal is widened, never the stored value. Source: the table of
/// all pairs in `tests.rs`.
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

    /// The operator that is true for (b, a) if this one is true for (a, b).
    pub(super) fn mirrored(self) -> Operator {
        match self {
            Operator::LessThan => Operator::GreaterThan,
            Operator::LessThanOrEqual => Operator::GreaterThanOrEqual,
            Operator::GreaterThan => Operator::LessThan,
            Operator::GreaterThanOrEqual => Operator::LessThanOrEqual,
            same => same,
        }
    }

    /// The operator that is true for two texts if this one is false.
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

    /// True if the operator holds for a comparison of a stored value with a literal. A value of
    /// another type than the literal's is unequal to it, and smaller. Source: the table of all
    /// pairs in `tests.rs`.
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

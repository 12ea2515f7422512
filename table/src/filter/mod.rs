//! `$filter`: an expression over the properties of one entity.
//!
//! The logic is two-valued: a comparison with a missing property is false, with any operator, and
//! `not` simply negates. So `not (Missing eq 1)` is true where `Missing ne 1` is false. Source:
//! Azure/Azurite issues 1929 and 2342.

mod conditions;
mod expression;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use crate::codec::ValueRef;
use crate::error::{InvalidInput, Result};

pub use conditions::{Condition, conditions};
pub use expression::Operator;
pub(crate) use expression::{Comparison, Expression};

/// A parsed filter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    pub(crate) expression: Expression,
    /// The names of the properties in the expression, sorted. The expression refers to them by
    /// index.
    pub(crate) names: Vec<String>,
}

impl Filter {
    /// Parses a filter of bounded size and depth; `None` if it is blank. Errors: `InvalidInput`,
    /// `NotImplemented`.
    pub(crate) fn parse(text: &str) -> Result<Option<Filter>> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let (expression, names) = parse::parse(text)?;
        Ok(Some(Filter { expression, names }))
    }

    /// Parses a filter on tables, which may refer to `TableName` only. The filter ignores case, as
    /// all look-ups of tables do.
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

    /// The index of a property's value in the argument of [`Filter::matches`].
    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.names
            .binary_search_by(|known| (**known).cmp(name))
            .ok()
    }

    /// Like [`Filter::slot`], for a stored name.
    pub(crate) fn slot_of_bytes(&self, name: &[u8]) -> Option<usize> {
        match self.names.len() {
            // Comparing a few names in turn is fast, because most differ in length.
            0..=4 => self.names.iter().position(|known| known.as_bytes() == name),
            _ => self
                .names
                .binary_search_by(|known| known.as_bytes().cmp(name))
                .ok(),
        }
    }

    /// Removes names that the expression no longer uses after terms were removed from it.
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

    /// Whether the filter matches an entity with these values, one for each of [`Filter::names`].
    pub(crate) fn matches(&self, values: &[Option<ValueRef<'_>>]) -> bool {
        self.expression.matches(values)
    }
}

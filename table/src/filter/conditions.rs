//! The comparisons that every match of a filter fulfils, known without reading rows.

use crate::error::Result;
use crate::filter::{Expression, Filter, Operator};
use crate::model::Value;

/// A comparison of a property, or of a key, with a literal.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// `PartitionKey`, `RowKey`, or the name of a property.
    pub property: String,
    /// The operator, with the property at its left.
    pub operator: Operator,
    /// The literal at the right of the operator.
    pub literal: Value,
}

/// The comparisons that `and` joins at the top level of a filter, in their order: they hold for
/// every match. Parts below `or` and `not` are left out. Errors: `InvalidInput`, `NotImplemented`.
pub fn conditions(filter: &str) -> Result<Vec<Condition>> {
    let Some(filter) = Filter::parse(filter)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    collect(&filter.expression, &filter.names, &mut found);
    Ok(found)
}

fn collect(expression: &Expression, names: &[String], found: &mut Vec<Condition>) {
    match expression {
        Expression::And(terms) => {
            for term in terms {
                collect(term, names, found);
            }
        }
        Expression::Compare {
            property,
            operator,
            literal,
        } => found.push(Condition {
            property: names[*property].clone(),
            operator: *operator,
            literal: literal.clone(),
        }),
        Expression::IsTrue(property) => found.push(Condition {
            property: names[*property].clone(),
            operator: Operator::Equal,
            literal: Value::Boolean(true),
        }),
        Expression::Or(_) | Expression::Not(_) | Expression::Constant(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_that_every_match_fulfils() {
        let text =
            "(PartitionKey eq 'p' and 5 lt Total) and Paid and (A eq 1 or B eq 2) and not (C eq 3)";
        let found = conditions(text).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|condition| (condition.property.as_str(), condition.operator))
            .collect();
        let expected = [
            ("PartitionKey", Operator::Equal),
            ("Total", Operator::GreaterThan),
            ("Paid", Operator::Equal),
        ];
        assert_eq!(found, expected);
        assert_eq!(conditions(" ").unwrap(), []);
        assert!(conditions("A eq").is_err());
    }
}

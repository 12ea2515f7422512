//! Filters and addresses of entities, as they would be with other keys.

use crate::key::{KeyCondition, KeyExpression};
use lazurite_table::{Condition, FilterOperator, Result, Value, conditions};

/// The property that holds the former PartitionKey of an entity with other keys.
pub const OLD_PARTITION_KEY: &str = "OldPartitionKey";
/// The property that holds the former RowKey.
pub const OLD_ROW_KEY: &str = "OldRowKey";

/// The keys of a design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The expression of PartitionKey.
    pub partition: KeyExpression,
    /// The expression of RowKey.
    pub row: KeyExpression,
}

/// The conditions on the keys of the entities that a request looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The condition on PartitionKey.
    pub partition: KeyCondition,
    /// The condition on RowKey.
    pub row: KeyCondition,
}

impl Known {
    /// Whether both keys are known.
    pub fn is_point(&self) -> bool {
        let is_equal = |key: &KeyCondition| matches!(key, KeyCondition::Equal(_));
        is_equal(&self.partition) && is_equal(&self.row)
    }
}

impl Keys {
    /// The filter that finds the same entities in a table with these keys. The entities of that
    /// table have their former keys as the properties [`OLD_PARTITION_KEY`] and [`OLD_ROW_KEY`].
    /// Errors: the filter is invalid.
    pub fn rewritten(&self, filter: &str) -> Result<String> {
        let found = conditions(filter)?;
        let known = self.known(&found);
        let mut terms = comparisons("PartitionKey", &known.partition);
        terms.extend(comparisons("RowKey", &known.row));
        if !filter.trim().is_empty() {
            terms.push(format!("({})", renamed(filter)));
        }
        Ok(terms.join(" and "))
    }

    /// The conditions on the keys that `conditions` imply.
    pub fn known(&self, conditions: &[Condition]) -> Known {
        Known {
            partition: self.partition.implied(conditions),
            row: self.row.implied(conditions),
        }
    }

    /// The conditions on the new keys that follow from the former keys and from the values of the
    /// properties `others`.
    pub fn known_by_keys(&self, partition: &str, row: &str, others: &[(&str, Value)]) -> Known {
        let equal = |property: &str, literal: Value| Condition {
            property: property.to_owned(),
            operator: FilterOperator::Equal,
            literal,
        };
        let mut conditions = vec![
            equal("PartitionKey", Value::String(partition.to_owned())),
            equal("RowKey", Value::String(row.to_owned())),
        ];
        conditions.extend(
            others
                .iter()
                .map(|(name, value)| equal(name, value.clone())),
        );
        self.known(&conditions)
    }
}

fn comparisons(name: &str, known: &KeyCondition) -> Vec<String> {
    match known {
        KeyCondition::Equal(key) => vec![format!("{name} eq {}", quoted(key))],
        KeyCondition::Between(low, high) => {
            let low = low.iter().map(|key| format!("{name} ge {}", quoted(key)));
            let high = high.iter().map(|key| format!("{name} lt {}", quoted(key)));
            low.chain(high).collect()
        }
        KeyCondition::Unknown => Vec::new(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The text up to its closing quote, with doubled quotes as single ones. `None` if the quote is
/// missing.
pub(crate) fn unquoted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        out.push_str(part);
        let Some(more) = after.strip_prefix('\'') else {
            return Some(out);
        };
        out.push('\'');
        rest = more;
    }
}

/// The filter with `?` for each text and number: filters of one shape differ only in their values.
pub fn shape(filter: &str) -> String {
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let word = |word| if is_number(word) { "?" } else { word };
    let parts = parts(filter).map(|part| match part {
        Part::Text(_) => "?",
        Part::Other(other) => word(other),
    });
    let parts = parts.collect::<String>();
    // A sign or an exponent belongs to its number; filters have no arithmetic.
    let mut shape = parts.replace("-?", "?").replace("+?", "?");
    // A text with doubled quotes has several parts, which become one `?`.
    while shape.contains("??") {
        shape = shape.replace("??", "?");
    }
    shape
}

/// The filter with the properties of the former keys in place of `PartitionKey` and `RowKey`.
fn renamed(filter: &str) -> String {
    let mut out = String::with_capacity(filter.len() + 16);
    for part in parts(filter) {
        match part {
            Part::Text(text) => {
                out.push('\'');
                out.push_str(text);
                out.push('\'');
            }
            Part::Other("PartitionKey") => out.push_str(OLD_PARTITION_KEY),
            Part::Other("RowKey") => out.push_str(OLD_ROW_KEY),
            Part::Other(other) => out.push_str(other),
        }
    }
    out
}

/// A part of a filter.
enum Part<'a> {
    /// Between two quotes. A doubled quote ends a text and begins another.
    Text(&'a str),
    /// A word or number, or the text between two of them.
    Other(&'a str),
}

fn parts(filter: &str) -> impl Iterator<Item = Part<'_>> {
    let is_word = |c: char| c == '_' || c == '.' || c.is_alphanumeric();
    filter.split('\'').enumerate().flat_map(move |(at, part)| {
        let mut found = Vec::new();
        if at % 2 == 1 {
            found.push(Part::Text(part));
            return found;
        }
        let mut rest = part;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| is_word(c) != is_word(first));
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            found.push(Part::Other(word));
            rest = after;
        }
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_table::DateTime;
    use proptest::prelude::*;

    fn keys(partition: &str, row: &str) -> Keys {
        Keys {
            partition: KeyExpression::parse(partition).unwrap(),
            row: KeyExpression::parse(row).unwrap(),
        }
    }

    #[test]
    fn filters_get_the_keys_that_they_imply() {
        let keys = keys("Customer", "PartitionKey + '_' + RowKey");
        for (filter, expected) in [
            ("", ""),
            (
                "Customer eq 'O''Neil' and Total gt 5",
                "PartitionKey eq 'O''Neil' and (Customer eq 'O''Neil' and Total gt 5)",
            ),
            (
                "PartitionKey eq 'p' and Note eq 'RowKey'",
                "RowKey ge 'p_' and RowKey lt 'p`' and (OldPartitionKey eq 'p' and Note eq 'RowKey')",
            ),
            ("Total gt 5", "(Total gt 5)"),
        ] {
            assert_eq!(keys.rewritten(filter).unwrap(), expected);
        }
        assert!(keys.rewritten("Customer eq").is_err());
    }

    #[test]
    fn filters_that_differ_in_literals_have_one_shape() {
        for (filter, expected) in [
            ("A eq 'it''s' and B2 gt 5.5L", "A eq ? and B2 gt ?"),
            ("P eq datetime'2026-01-01T00:00:00Z'", "P eq datetime?"),
            ("A eq 'a''b''c' and B eq -5", "A eq ? and B eq ?"),
            ("A lt 1.5e-3 or B gt 1e+3", "A lt ? or B gt ?"),
            ("", ""),
        ] {
            assert_eq!(shape(filter), expected);
        }
    }

    #[test]
    fn an_address_is_a_point_only_if_the_keys_say_enough() {
        let by_customer = keys("Customer", "RowKey");
        assert!(!by_customer.known_by_keys("p", "r", &[]).is_point());
        let customer = [("Customer", Value::String("c".to_owned()))];
        assert!(by_customer.known_by_keys("p", "r", &customer).is_point());
        assert!(
            keys("start(RowKey, 2)", "PartitionKey")
                .known_by_keys("p", "r", &[])
                .is_point()
        );
    }

    const EXPRESSIONS: [&str; 12] = [
        "A",
        "A + '_' + pad(N, 4)",
        "pad(N, 4) + A",
        "'x' + A",
        "hash(A, 7) + A",
        "start(A, 2)",
        "day(D) + '_' + A",
        "A + '_' + month(D)",
        "A + hour(D) + pad(N, 3)",
        "inverted(D)",
        "A + inverted(D)",
        "D",
    ];

    proptest! {
        /// Every entity that a filter finds has keys that meet the conditions which the filter
        /// implies.
        #[test]
        fn matches_have_the_keys_that_their_filter_implies(
            expression in 0..EXPRESSIONS.len(),
            texts in ("[ab_]{0,3}", "[ab_]{0,3}"), numbers in (0i32..200, 0i32..200), days in (0u64..90, 0u64..90),
            operators in proptest::array::uniform3(0..6usize), is_asked in proptest::array::uniform3(any::<bool>()),
        ) {
            let instant = |days: u64| DateTime::from_ticks(639_000_000_000_000_000 + days * 400_000_000_000).unwrap();
            let own = [
                ("A", Value::String(texts.0.clone())), ("N", Value::Int32(numbers.0)), ("D", Value::DateTime(instant(days.0))),
            ];
            let asked = [
                ("A", Value::String(texts.1.clone()), texts.0.cmp(&texts.1)),
                ("N", Value::Int32(numbers.1), numbers.0.cmp(&numbers.1)),
                ("D", Value::DateTime(instant(days.1)), days.0.cmp(&days.1)),
            ];
            use FilterOperator::{Equal, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, NotEqual};
            let all = [Equal, NotEqual, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual];
            let mut conditions = Vec::new();
            let mut is_match = true;
            for (at, (name, literal, order)) in asked.into_iter().enumerate() {
                if !is_asked[at] {
                    continue;
                }
                let operator = all[operators[at]];
                is_match &= match operator {
                    Equal => order.is_eq(), NotEqual => order.is_ne(), LessThan => order.is_lt(),
                    LessThanOrEqual => order.is_le(), GreaterThan => order.is_gt(), GreaterThanOrEqual => order.is_ge(),
                };
                conditions.push(Condition { property: name.to_owned(), operator, literal });
            }
            prop_assume!(is_match);
            let key = KeyExpression::parse(EXPRESSIONS[expression]).unwrap();
            let value = |name: &str| own.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            if let Some(made) = key.of(value) {
                let known = key.implied(&conditions);
                prop_assert!(known.allows(&made), "{} {made} {known:?}", EXPRESSIONS[expression]);
            }
        }
    }
}

//! Filters and addresses of entities, as they would be with other keys.

use crate::key::{KeyCondition, KeyExpression};
use lazurite_table::{Condition, FilterOperator, Result, Value, conditions};

/// The properties that hold the former keys of an entity that has others.
pub const OLD_PARTITION_KEY: &str = "OldPartitionKey";
/// See [`OLD_PARTITION_KEY`].
pub const OLD_ROW_KEY: &str = "OldRowKey";

/// The keys of a design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// What PartitionKey is made of.
    pub partition: KeyExpression,
    /// What RowKey is made of.
    pub row: KeyExpression,
}

/// What is known of the keys of the entities that a request looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Of PartitionKey.
    pub partition: KeyCondition,
    /// Of RowKey.
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
    /// The filter that finds the same entities in a table with these keys, whose entities have
    /// their former keys as the properties [`OLD_PARTITION_KEY`] and [`OLD_ROW_KEY`]. Errors: the
    /// filter is invalid.
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

    /// What conditions say about the keys.
    pub fn known(&self, conditions: &[Condition]) -> Known {
        Known {
            partition: self.partition.implied(conditions),
            row: self.row.implied(conditions),
        }
    }

    /// What is known of the new keys by somebody who knows the former ones and the values of the
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

/// The filter that finds an entity by its former keys.
pub fn by_old_keys(partition: &str, row: &str) -> String {
    renamed(&format!(
        "PartitionKey eq {} and RowKey eq {}",
        quoted(partition),
        quoted(row)
    ))
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

/// The text up to its closing quote; doubled quotes are single ones. `None` if it is not closed.
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

/// The filter with `?` for each text and number: filters of one shape ask the same of other values.
pub fn shape(filter: &str) -> String {
    let mut shape = String::with_capacity(filter.len());
    let is_word = |c: char| c == '_' || c == '.' || c.is_alphanumeric();
    for (at, part) in filter.split('\'').enumerate() {
        // Between the quotes of one text there may be doubled ones.
        if at % 2 == 1 {
            if !shape.ends_with('?') {
                shape.push('?');
            }
            continue;
        }
        let mut rest = part;
        while !rest.is_empty() {
            let begins_word = rest.starts_with(is_word);
            let end = rest.find(|c| is_word(c) != begins_word);
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            shape.push_str(if is_number { "?" } else { word });
            rest = after;
        }
    }
    shape
}

/// The filter with the names of the properties that hold the former keys.
fn renamed(filter: &str) -> String {
    let mut out = String::with_capacity(filter.len() + 16);
    // A doubled quote ends a text and begins another.
    for (at, part) in filter.split('\'').enumerate() {
        if at > 0 {
            out.push('\'');
        }
        if at % 2 == 1 {
            out.push_str(part);
            continue;
        }
        let mut rest = part;
        while !rest.is_empty() {
            let is_word = |c: char| c == '_' || c.is_alphanumeric();
            let begins_word = rest.starts_with(is_word);
            let end = rest.find(|c| is_word(c) != begins_word);
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            out.push_str(match word {
                "PartitionKey" => OLD_PARTITION_KEY,
                "RowKey" => OLD_ROW_KEY,
                word => word,
            });
            rest = after;
        }
    }
    out
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
        assert_eq!(
            by_old_keys("a'b", "c"),
            "OldPartitionKey eq 'a''b' and OldRowKey eq 'c'"
        );
    }

    #[test]
    fn filters_that_differ_in_literals_have_one_shape() {
        for (filter, expected) in [
            ("A eq 'it''s' and B2 gt 5.5L", "A eq ? and B2 gt ?"),
            ("P eq datetime'2026-01-01T00:00:00Z'", "P eq datetime?"),
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
        /// No entity that a filter finds has keys outside of what the filter says of them.
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

//! The parts of a filter: the terms that `and` joins, a term that is added, and values as literals
//! of `$filter`. Source: Querying tables and entities, "Constructing filter strings".

use crate::value_text::{edit_text, hex, parse};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_table::Value;

/// The operators of a filter, with their symbols.
pub const OPERATORS: [(&str, &str); 6] = [
    ("eq", "="),
    ("ne", "≠"),
    ("gt", ">"),
    ("ge", "≥"),
    ("lt", "<"),
    ("le", "≤"),
];

/// The positions and lengths of the words `and` and `or` outside quotes and parentheses, and
/// whether there is an `or`.
fn joints(filter: &str) -> (Vec<(usize, usize)>, bool) {
    let (mut joints, mut has_or) = (Vec::new(), false);
    let (mut is_quoted, mut depth, mut word) = (false, 0_usize, None);
    let bytes = filter.as_bytes();
    for (at, &byte) in bytes.iter().chain([&b' ']).enumerate() {
        if byte == b'\'' {
            is_quoted = !is_quoted;
        } else if !is_quoted && byte == b'(' {
            depth += 1;
        } else if !is_quoted && byte == b')' {
            depth = depth.saturating_sub(1);
        }
        let is_letter = byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        if is_letter && !is_quoted {
            word = word.or(Some(at));
        } else if let Some(start) = word.take()
            && depth == 0
            && byte != b'\''
        {
            match &bytes[start..at] {
                b"and" => joints.push((start, 3)),
                b"or" => has_or = true,
                _ => {}
            }
        }
    }
    (joints, has_or)
}

/// The terms of a filter that must all be true. A filter with an `or` outside parentheses is a
/// single term.
pub fn terms(filter: &str) -> Vec<&str> {
    let (joints, has_or) = joints(filter);
    let mut terms = Vec::new();
    let mut start = 0;
    for (at, length) in joints.into_iter().filter(|_| !has_or) {
        terms.push(filter[start..at].trim());
        start = at + length;
    }
    terms.push(filter[start..].trim());
    terms.retain(|term| !term.is_empty());
    terms
}

/// Appends a term to a filter, with parentheses around the filter where precedence requires them.
pub fn with_term(filter: &str, joint: &str, term: &str) -> String {
    let filter = filter.trim();
    let (joints, has_or) = joints(filter);
    match joint {
        _ if filter.is_empty() => term.to_owned(),
        "or" if !joints.is_empty() && !has_or => format!("({filter}) or {term}"),
        "or" => format!("{filter} or {term}"),
        _ if has_or => format!("({filter}) and {term}"),
        _ => format!("{filter} and {term}"),
    }
}

/// The term in a form. Error: `400` for an unknown operator or a malformed value.
pub fn term(property: &str, operator: &str, type_name: &str, text: &str) -> Result<String> {
    let is_known = OPERATORS.iter().any(|(known, _)| *known == operator);
    // Filters cannot contain infinite numbers.
    let is_written =
        |value: &Value| !matches!(value, Value::Double(number) if number.is_infinite());
    let value = parse(type_name, text).filter(|value| is_known && is_written(value));
    let value = value.ok_or_else(|| {
        Failure::invalid_input(format!(
            "'{}' is not a value of the type {type_name}.",
            &text[..text.floor_char_boundary(100)]
        ))
    })?;
    Ok(format!(
        "{} {operator} {}",
        property.trim(),
        literal(&value)
    ))
}

/// A value as a literal of a filter.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Int32(_) | Value::Boolean(_) => edit_text(value),
        Value::Int64(number) => format!("{number}L"),
        Value::Double(number) => format!("{number:?}"),
        Value::DateTime(_) => format!("datetime'{}'", edit_text(value)),
        Value::Guid(_) => format!("guid'{}'", edit_text(value)),
        Value::Binary(bytes) => format!("X'{}'", hex(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_split_at_and_outside_quotes_and_parentheses() {
        for (filter, expected) in [
            ("", vec![]),
            ("A eq 1", vec!["A eq 1"]),
            (
                "A eq 1 and B eq 'x and y'",
                vec!["A eq 1", "B eq 'x and y'"],
            ),
            (
                "(A eq 1 and B eq 2)and not C",
                vec!["(A eq 1 and B eq 2)", "not C"],
            ),
            (
                "A eq 1 or B eq 2 and C eq 3",
                vec!["A eq 1 or B eq 2 and C eq 3"],
            ),
            (
                "Band eq 'it''s' and sand eq X'00'",
                vec!["Band eq 'it''s'", "sand eq X'00'"],
            ),
            ("and", vec![]),
            ("A eq 'é and", vec!["A eq 'é and"]),
        ] {
            assert_eq!(terms(filter), expected, "{filter}");
        }
    }

    #[test]
    fn a_term_is_added_with_the_parentheses_that_it_needs() {
        for (filter, joint, expected) in [
            (" ", "or", "C"),
            ("A", "and", "A and C"),
            ("A or B", "and", "(A or B) and C"),
            ("A or B", "or", "A or B or C"),
            ("A and B", "or", "(A and B) or C"),
        ] {
            assert_eq!(with_term(filter, joint, "C"), expected, "{filter}");
        }
    }

    #[test]
    fn values_are_written_so_that_a_filter_reads_their_type() {
        for (type_name, text, expected) in [
            ("String", "it's", "N eq 'it''s'"),
            ("Int32", "7", "N eq 7"),
            ("Int64", "7", "N eq 7L"),
            ("Double", "7", "N eq 7.0"),
            ("Boolean", "TRUE", "N eq true"),
            ("Binary", "0a FF", "N eq X'0aff'"),
            (
                "Guid",
                "c9da6455-213d-42c9-9a79-3e9149a57833",
                "N eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
            ),
        ] {
            assert_eq!(term("N", "eq", type_name, text).unwrap(), expected);
        }
        let time = term("N", "ge", "DateTime", "2026-11-25T19:00:00Z").unwrap();
        assert!(
            time.starts_with("N ge datetime'2026-11-25T19:00:00"),
            "{time}"
        );
        assert!(
            term("N", "like", "String", "x").is_err() && term("N", "eq", "Int32", "x").is_err()
        );
    }

    #[test]
    fn an_infinite_number_is_no_value_of_a_filter() {
        for text in ["INF", "-INF", "inf", "Infinity", "-Infinity", "1e999"] {
            let built = term("N", "eq", "Double", text);
            assert!(built.is_err(), "{text}: {built:?}");
        }
    }
}

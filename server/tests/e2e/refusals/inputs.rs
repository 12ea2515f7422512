//! The headers and parameters of the published specification, each with invalid values.

use std::collections::BTreeMap;

use crate::http::{Request, Response};

use super::Provocation;
use crate::operations::{FUTURE, Row, UNREACHED};

/// Service and `operationId` of every operation, followed by its headers, in lower case, and its
/// parameters, which begin with `?`.
const PUBLISHED: &str = include_str!("../../published_inputs.txt");

/// Longer than any valid input, and short enough for the head of a request.
const HUGE_BYTES: usize = 9_000;

const KINDS: [&str; 4] = ["empty", "bogus", "twice", "huge"];

pub(super) fn published() -> BTreeMap<String, Vec<&'static str>> {
    let lines = PUBLISHED.lines().map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("two words a line");
        (format!("{} {}", word(), word()), words.collect())
    });
    lines.collect()
}

/// Whether the specification has this input for the operation.
pub(super) fn has(row: &Row, input: &str) -> bool {
    let inputs = published();
    let inputs = inputs.get(row.name);
    inputs.is_some_and(|inputs| inputs.contains(&input))
}

/// Checks that each published operation has a row, or a reason for having none.
pub(super) fn check_complete<'a>(
    rows: impl Iterator<Item = &'a Row> + Clone,
    published: &BTreeMap<String, Vec<&'static str>>,
) {
    let unreached = UNREACHED.map(|(name, _)| name);
    for name in published.keys() {
        let count = rows.clone().filter(|row| row.name == name).count();
        let is_unreached = unreached.contains(&name.as_str());
        assert!((count > 0) != is_unreached, "{name} has {count} rows");
    }
}

pub(super) fn provocations(names: &[&'static str]) -> Vec<Provocation> {
    let pairs = names
        .iter()
        .flat_map(|name| KINDS.map(|kind| (*name, kind)));
    let provocations = pairs.map(|(name, kind)| Provocation {
        what: format!("{name}{}", if name.ends_with('-') { "*" } else { "" }),
        kind,
        request: Box::new(move |row| Some(with_input(row, name, kind))),
    });
    provocations.collect()
}

fn with_input(row: &Row, name: &str, kind: &str) -> Request {
    let request = row.request.clone();
    if name == "x-ms-meta-" {
        return match kind {
            "bogus" => request.input("x-ms-meta-1-2", &["1"]),
            "huge" => request.input("x-ms-meta-new", &[&"9".repeat(HUGE_BYTES)]),
            "twice" => request.input("x-ms-meta-new", &["1", "2"]),
            _ => request.input("x-ms-meta-new", &[""]),
        };
    }
    let given = request.get_input(name).map(str::to_owned);
    let right = given.unwrap_or_else(|| right_value(name).to_owned());
    match kind {
        "empty" => request.input(name, &[""]),
        "bogus" => request.input(name, &["bogus"]),
        "twice" => request.input(name, &[&right, "bogus"]),
        _ => request.input(name, &[&"9".repeat(HUGE_BYTES)]),
    }
}

/// A valid value for an input, so that only its repetition is wrong.
fn right_value(name: &str) -> &str {
    match name {
        "if-match" => "*",
        "if-none-match" => "\"0x1\"",
        "if-modified-since" => "Sat, 01 Jan 2000 00:00:00 GMT",
        "if-unmodified-since" | "x-ms-immutability-policy-until-date" => FUTURE,
        "x-ms-if-tags" => "\"a\" = '1'",
        "x-ms-immutability-policy-mode" => "Unlocked",
        "x-ms-legal-hold" => "false",
        "x-ms-tags" => "a=b",
        "x-ms-access-tier" => "Hot",
        "?comp" | "?restype" => "",
        _ => "1",
    }
}

/// Checks that an invalid header or parameter was not refused with `AuthenticationFailed`, which
/// would hide the refusal that it should cause. Provocations of such a refusal are exempt.
pub(super) fn check_reason(provocation: &Provocation, label: &str, response: &Response) {
    let Provocation { what, kind, .. } = provocation;
    let is_provoked = what.contains("signature") || what.contains("credentials");
    if !kind.is_empty() && !is_provoked {
        let code = response.code();
        assert_ne!(code, "AuthenticationFailed", "{label}: {what} {kind}");
    }
}

/// Codes whose sentences are about one header or parameter, which the refusal has to name.
const NAMING: [&str; 7] = [
    "InvalidHeaderValue",
    "MissingRequiredHeader",
    "UnsupportedHeader",
    "InvalidQueryParameterValue",
    "OutOfRangeQueryParameterValue",
    "MissingRequiredQueryParameter",
    "UnsupportedQueryParameter",
];

/// What is wrong with the names in the refusal of an invalid input; `None` if nothing is. Each name
/// is that of the input, or of one that the request lacks because of it.
pub(super) fn wrong_name(
    provocation: &Provocation,
    label: &str,
    request: &Request,
    response: &Response,
) -> Option<String> {
    let Provocation { what, kind, .. } = provocation;
    if kind.is_empty() || request.method() == "HEAD" || response.status < 300 {
        return None;
    }
    let text = response.text();
    let input = what.trim_start_matches('?').trim_end_matches('*');
    // They choose the operation, so that the refusal is another operation's.
    if matches!(input, "comp" | "restype") {
        return None;
    }
    let names = names_in(&text);
    let is_right = |name: &String| {
        let is_sent = |name: &str| {
            request
                .get_input(name)
                .is_some_and(|value| !value.is_empty())
        };
        name.to_lowercase().starts_with(&input.to_lowercase())
            || !is_sent(name) && !is_sent(&format!("?{name}"))
    };
    let code = response.code();
    let is_unnamed = names.is_empty() && NAMING.contains(&code.as_str());
    (is_unnamed || !names.iter().all(is_right))
        .then(|| format!("{label}: {what} {kind}: {code} names {names:?}"))
}

/// The names of headers and parameters in the fields of a refusal, in XML or in the message of JSON.
fn names_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for field in ["HeaderName", "QueryParameterName"] {
        let starts = [
            format!("<{field}>"),
            format!("\n{field}:"),
            format!("\\n{field}:"),
        ];
        for start in starts {
            let parts = text.split(&start).skip(1);
            let name = |part: &str| {
                let end = part.split(['<', '\n', '\\']);
                end.take(1).collect::<String>()
            };
            names.extend(parts.map(name));
        }
    }
    names
}

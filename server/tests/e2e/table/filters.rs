//! Random filters over HTTP against a plain evaluator that shares no code with the service: every
//! type, operator and literal form, missing properties, mismatched types, nesting, keys whose order
//! is right only in UTF-16, pages.
//!
//! `LAZURITE_FILTERS` sets the number of filters in a run, `LAZURITE_TEST_SEED` repeats a run. A
//! failure prints both the seed and the filter.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{NO_METADATA, request, with_table};
use crate::http::Connection;
use crate::random::{Random, environment_number, test_seeds};
use crate::server::Service;

const TEXTS: [&str; 12] = [
    "", "a", "A", "ab", "b", "a'b", "a b", "+%26", "é", "\u{e000}", "😀", "eq 'a'",
];
const OPERATORS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const MIRRORED: [&str; 6] = ["eq", "ne", "gt", "ge", "lt", "le"];
/// Times that differ only in the last digit of the fraction, and whole seconds.
const INSTANTS: [&str; 3] = [
    "2020-01-01T00:00:00Z",
    "2020-01-01T00:00:00.0000001Z",
    "2020-01-01T00:00:00.0000002Z",
];
const GUIDS: [&str; 2] = [
    "c9da6455-213d-42c9-9a79-3e9149a57833",
    "d9da6455-213d-42c9-9a79-3e9149a57833",
];

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(&'static str),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Truth(bool),
    /// An index in [`INSTANTS`], which is sorted.
    Instant(usize),
    /// An index in [`GUIDS`], which is sorted.
    Guid(usize),
    Bytes(Vec<u8>),
}

#[derive(Debug)]
enum Term {
    And(Vec<Term>),
    Or(Vec<Term>),
    Not(Box<Term>),
    Compare {
        name: &'static str,
        operator: usize,
        literal: Value,
        text: String,
    },
    Bare(&'static str),
    Constant(bool),
}

struct Row {
    partition_key: &'static str,
    row_key: &'static str,
    properties: Vec<(&'static str, Value)>,
}

fn text(random: &mut Random) -> &'static str {
    TEXTS[random.below(TEXTS.len() as u64) as usize]
}

fn value(random: &mut Random) -> Value {
    match random.below(10) {
        0 | 1 => Value::Text(text(random)),
        2 => Value::Int32(random.below(4) as i32 - 1),
        3 | 4 => Value::Int64([-1, 0, 1, 1 << 40][random.below(4) as usize]),
        5 => {
            let doubles = [
                -1.0,
                0.0,
                0.5,
                1.0,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
            ];
            Value::Double(doubles[random.below(doubles.len() as u64) as usize])
        }
        6 => Value::Truth(random.percent(50)),
        7 => Value::Instant(random.below(INSTANTS.len() as u64) as usize),
        8 => Value::Guid(random.below(2) as usize),
        _ => Value::Bytes(
            [vec![], vec![1], vec![1, 0], vec![0xfe]][random.below(4) as usize].clone(),
        ),
    }
}

/// The value as a literal, in one of the forms that filters allow.
fn literal(value: &Value, random: &mut Random) -> String {
    let either = |random: &mut Random, a: String, b: String| if random.percent(50) { a } else { b };
    match value {
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => either(random, format!("{number}L"), format!("{number}l")),
        Value::Double(number) if number.is_nan() => "NaN".to_string(),
        Value::Double(number) if *number == f64::INFINITY => "INF".to_string(),
        Value::Double(number) if *number == f64::NEG_INFINITY => "-INF".to_string(),
        Value::Double(number) => {
            let exponent = format!("{number:e}");
            either(random, format!("{number:?}"), exponent)
        }
        Value::Truth(truth) => truth.to_string(),
        Value::Instant(at) => format!("datetime'{}'", INSTANTS[*at]),
        Value::Guid(at) => {
            let upper = format!("guid'{}'", GUIDS[*at].to_uppercase());
            either(random, format!("guid'{}'", GUIDS[*at]), upper)
        }
        Value::Bytes(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            either(random, format!("X'{digits}'"), format!("binary'{digits}'"))
        }
    }
}

/// The JSON members of the property: its value, and its type if that is needed.
fn member(name: &str, value: &Value) -> Vec<(String, serde_json::Value)> {
    let typed = |edm: &str, value: String| {
        vec![
            (format!("{name}@odata.type"), json!(format!("Edm.{edm}"))),
            (name.to_string(), json!(value)),
        ]
    };
    let bare = |value: serde_json::Value| vec![(name.to_string(), value)];
    match value {
        Value::Text(text) => bare(json!(text)),
        Value::Int32(number) => bare(json!(number)),
        Value::Int64(number) => typed("Int64", number.to_string()),
        Value::Double(number) if number.is_finite() => bare(json!(number)),
        Value::Double(number) if number.is_nan() => typed("Double", "NaN".to_string()),
        Value::Double(number) if *number > 0.0 => typed("Double", "Infinity".to_string()),
        Value::Double(_) => typed("Double", "-Infinity".to_string()),
        Value::Truth(truth) => bare(json!(truth)),
        Value::Instant(at) => typed("DateTime", INSTANTS[*at].to_string()),
        Value::Guid(at) => typed("Guid", GUIDS[*at].to_string()),
        Value::Bytes(bytes) => {
            use base64::Engine as _;
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            typed("Binary", encoded)
        }
    }
}

fn term(random: &mut Random, depth: u64) -> Term {
    let several = |random: &mut Random| {
        let count = 2 + random.below(2);
        (0..count).map(|_| term(random, depth - 1)).collect()
    };
    match random.below(if depth == 0 { 10 } else { 17 }) {
        0 => Term::Bare(random_name(random)),
        1 => Term::Constant(random.percent(50)),
        2..=9 => comparison(random),
        10..=12 => Term::And(several(random)),
        13..=15 => Term::Or(several(random)),
        _ => Term::Not(Box::new(term(random, depth - 1))),
    }
}

fn random_name(random: &mut Random) -> &'static str {
    ["PartitionKey", "RowKey", "P", "Q", "Missing"][random.below(5) as usize]
}

fn comparison(random: &mut Random) -> Term {
    let name = random_name(random);
    let literal_value = match name {
        "PartitionKey" | "RowKey" if random.percent(85) => Value::Text(text(random)),
        _ => value(random),
    };
    let operator = random.below(OPERATORS.len() as u64) as usize;
    let written = literal(&literal_value, random);
    let text = if random.percent(25) {
        format!("{written} {}  {name}", MIRRORED[operator])
    } else {
        format!("{name} {} {written}", OPERATORS[operator])
    };
    Term::Compare {
        name,
        operator,
        literal: literal_value,
        text,
    }
}

impl Term {
    fn text(&self) -> String {
        let join = |terms: &[Term], word: &str| {
            let texts: Vec<String> = terms
                .iter()
                .map(|term| format!("({})", term.text()))
                .collect();
            texts.join(word)
        };
        match self {
            Term::And(terms) => join(terms, " and "),
            Term::Or(terms) => join(terms, " or "),
            Term::Not(term) => format!("not ({})", term.text()),
            Term::Compare { text, .. } => text.clone(),
            Term::Bare(name) => (*name).to_string(),
            Term::Constant(truth) => truth.to_string(),
        }
    }

    fn holds(&self, row: &Row) -> bool {
        match self {
            Term::And(terms) => terms.iter().all(|term| term.holds(row)),
            Term::Or(terms) => terms.iter().any(|term| term.holds(row)),
            Term::Not(term) => !term.holds(row),
            Term::Constant(truth) => *truth,
            Term::Bare(name) => row.value(name) == Some(Value::Truth(true)),
            Term::Compare {
                name,
                operator,
                literal,
                ..
            } => row
                .value(name)
                .is_some_and(|value| compares(&value, OPERATORS[*operator], literal)),
        }
    }
}

impl Row {
    fn value(&self, name: &str) -> Option<Value> {
        match name {
            "PartitionKey" => Some(Value::Text(self.partition_key)),
            "RowKey" => Some(Value::Text(self.row_key)),
            _ => {
                let found = self.properties.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.clone())
            }
        }
    }

    fn order(&self) -> (Vec<u16>, Vec<u16>) {
        (
            self.partition_key.encode_utf16().collect(),
            self.row_key.encode_utf16().collect(),
        )
    }

    fn json(&self) -> String {
        let mut members = serde_json::Map::new();
        members.insert("PartitionKey".to_string(), json!(self.partition_key));
        members.insert("RowKey".to_string(), json!(self.row_key));
        let own = self.properties.iter();
        members.extend(own.flat_map(|(name, value)| member(name, value)));
        serde_json::Value::Object(members).to_string()
    }
}

/// Compares as the service does: only the literal is widened; values of other types differ, and
/// count as less. Source: the table of all pairs in `table/src/filter/tests.rs`.
fn compares(value: &Value, operator: &str, literal: &Value) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let utf16 = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    let ordering = match (value, literal) {
        (Value::Text(a), Value::Text(b)) => Some(utf16(a).cmp(&utf16(b))),
        (Value::Int32(a), Value::Int32(b)) => Some(a.cmp(b)),
        (Value::Int64(a), Value::Int32(b)) => Some(a.cmp(&i64::from(*b))),
        (Value::Int64(a), Value::Int64(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Int32(b)) => a.partial_cmp(&f64::from(*b)),
        (Value::Double(a), Value::Int64(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Truth(a), Value::Truth(b)) => Some(a.cmp(b)),
        (Value::Instant(a), Value::Instant(b)) | (Value::Guid(a), Value::Guid(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        _ => Some(Less),
    };
    match operator {
        "eq" => ordering == Some(Equal),
        "ne" => ordering != Some(Equal),
        "lt" => ordering == Some(Less),
        "le" => matches!(ordering, Some(Less | Equal)),
        "gt" => ordering == Some(Greater),
        _ => matches!(ordering, Some(Greater | Equal)),
    }
}

/// The keys of all matching entities, read page by page.
fn query(connection: &mut Connection, filter: &str, top: u64) -> Vec<(String, String)> {
    let filter = utf8_percent_encode(filter, NON_ALPHANUMERIC);
    let start = format!("/T1x()?$filter={filter}&$select=PartitionKey,RowKey&$top={top}");
    let mut target = start.clone();
    let mut found = Vec::new();
    loop {
        let answer = connection
            .send(&request("GET", &target).header("Accept", NO_METADATA))
            .unwrap();
        let page = answer.is(200).json();
        let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_string();
        let rows = page["value"].as_array().unwrap();
        found.extend(
            rows.iter()
                .map(|row| (text(row, "PartitionKey"), text(row, "RowKey"))),
        );
        let Some(partition_key) = answer.header("x-ms-continuation-NextPartitionKey") else {
            return found;
        };
        let row_key = answer
            .header("x-ms-continuation-NextRowKey")
            .unwrap_or_default();
        target = format!("{start}&NextPartitionKey={partition_key}&NextRowKey={row_key}");
    }
}

#[test]
fn random_filters_find_the_entities_of_a_plain_evaluation() {
    let filters = environment_number("LAZURITE_FILTERS", 1500);
    for seed in test_seeds() {
        compare_filters(seed, filters);
    }
}

fn compare_filters(seed: u64, filters: u64) {
    let mut random = Random(seed);
    let server = with_table();
    let mut connection = Connection::open(&server, Service::Table).unwrap();
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..60 {
        let (partition_key, row_key) = (text(&mut random), text(&mut random));
        let mut properties = Vec::new();
        for name in ["P", "Q"] {
            if random.percent(80) {
                properties.push((name, value(&mut random)));
            }
        }
        let row = Row {
            partition_key,
            row_key,
            properties,
        };
        let insert = request("POST", "/T1x").json(row.json());
        match connection.send(&insert).unwrap().status {
            201 => rows.push(row),
            409 => {}
            other => panic!("{other} for {}, seed {seed}", row.json()),
        }
    }
    rows.sort_by_key(Row::order);
    for number in 0..filters {
        let term = term(&mut random, 4);
        let expected: Vec<(String, String)> = rows
            .iter()
            .filter(|row| term.holds(row))
            .map(|row| (row.partition_key.to_string(), row.row_key.to_string()))
            .collect();
        let top = if random.percent(20) { 5 } else { 1000 };
        let found = query(&mut connection, &term.text(), top);
        assert_eq!(
            found,
            expected,
            "filter {number}, seed {seed}: {}",
            term.text()
        );
    }
}

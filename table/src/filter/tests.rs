//! Tests of filters: the grammar and its errors, and random filters against a plain evaluator.
//!
//! The differential test runs the whole service, so that it compares tokens, parser, planner and
//! evaluation together with an evaluator that shares no code with them.

use super::*;
use crate::error::Error;
use crate::filter::expression::Expression;
use crate::limits::{FILTER_BYTES_MAX, FILTER_DEPTH_MAX};
use crate::model::{Entity, Guid, Value};
use crate::{AccessRange, DateTime, Query, TableService};
use lazurite_base::wall_clock::ManualWallClock;
use lazurite_engine::{Config, Db, Durability};
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::atomic::{AtomicUsize, Ordering as AtomicOrdering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

fn literal(text: &str) -> Value {
    let filter = Filter::parse(&format!("a eq {text}")).unwrap().unwrap();
    match filter.expression {
        Expression::Compare { literal, .. } => literal,
        other => panic!("{text} gave {other:?}"),
    }
}

fn message(text: &str) -> String {
    Filter::parse(text).unwrap_err().to_string()
}

#[test]
fn literals_of_all_types_are_parsed() {
    for (text, value) in [
        ("'it''s (and) %'", Value::String("it's (and) %".into())),
        ("''", Value::String(String::new())),
        ("'\n'", Value::String("\n".into())),
        ("5", Value::Int32(5)),
        ("-2147483648", Value::Int32(i32::MIN)),
        ("2147483648", Value::Int64(2_147_483_648)),
        ("+7L", Value::Int64(7)),
        ("-9223372036854775808l", Value::Int64(i64::MIN)),
        ("1.5", Value::Double(1.5)),
        ("1e10", Value::Double(1e10)),
        ("-0.5E-3", Value::Double(-0.0005)),
        ("2d", Value::Double(2.0)),
        ("INF", Value::Double(f64::INFINITY)),
        ("-INF", Value::Double(f64::NEG_INFINITY)),
        ("true", Value::Boolean(true)),
        ("False", Value::Boolean(false)),
        ("TRUE", Value::Boolean(true)),
        (
            "datetime'2020-01-01T00:00:00Z'",
            Value::DateTime(DateTime::parse("2020-01-01").unwrap()),
        ),
        (
            "datetimeoffset'2020-01-01T02:00:00+02:00'",
            Value::DateTime(DateTime::parse("2020-01-01").unwrap()),
        ),
        (
            "guid'00010203-0405-0607-0809-0A0B0C0D0E0F'",
            Value::Guid(Guid(std::array::from_fn(|at| at as u8))),
        ),
        ("X'00ff'", Value::Binary(vec![0, 255])),
        ("binary''", Value::Binary(vec![])),
    ] {
        assert_eq!(literal(text), value, "{text}");
    }
    assert!(matches!(literal("NaN"), Value::Double(number) if number.is_nan()));
}

#[test]
fn white_space_is_ignored_and_a_blank_text_is_no_filter() {
    assert_eq!(Filter::parse(" \n").unwrap(), None);
    let plain = Filter::parse("not (a eq 'x') and b").unwrap();
    for same in [
        " not(a eq'x')and b ",
        "not\n( a  eq 'x' )\tand\nb",
        "not a eq 'x' and (b)",
    ] {
        assert_eq!(Filter::parse(same).unwrap(), plain, "{same}");
    }
    assert_eq!(
        Filter::parse("5 lt a").unwrap(),
        Filter::parse("a gt 5").unwrap()
    );
}

#[test]
fn and_has_precedence_over_or() {
    let plain = Filter::parse("a or (b and (not c))").unwrap();
    assert_eq!(Filter::parse("a or b and not c").unwrap(), plain);
}

#[test]
fn syntax_errors_have_their_position_in_characters() {
    assert_eq!(
        message("é eq 'x' foo"),
        "Syntax error at position 9 in 'é eq 'x' foo'."
    );
    for (text, at) in [
        ("a eq", 4),
        ("eq 1", 0),
        ("a eq 1 and", 10),
        ("(a eq 1", 7),
        ("a eq 1)", 6),
        ("a eq 'x", 5),
        ("5", 0),
        ("null", 0),
        ("a eq 12x", 5),
        ("a eq 1.2.3", 5),
        ("a eq 1e400", 5),
        ("a eq 99999999999999999999", 5),
        ("a eq datetime'x'", 5),
        ("a eq X'0'", 5),
        ("a eq guid'1'", 5),
        ("a eq guid'000102030405060708090A0B0C0D0E0F'", 5),
        ("a = 1", 2),
        ("a/b eq 1", 1),
        ("a eq -", 5),
        ("a eq -infinity", 5),
        ("a eq -infinityd", 5),
        ("and", 0),
        ("a eq 1 b", 7),
        ("a-b eq 1", 1),
        ("a EQ 1", 2),
        ("a eq 1 eq 2", 7),
        ("()", 1),
        ("not", 3),
        ("a eq 0x10", 5),
        ("a eq X'é'", 5),
    ] {
        let expected = format!("Syntax error at position {at} in '{text}'.");
        assert_eq!(message(text), expected);
    }
}

#[test]
fn comparisons_with_null_have_their_own_errors() {
    assert_eq!(
        message("a eq null"),
        "One of the request inputs is not valid."
    );
    assert_eq!(
        message("null ne a"),
        "One of the request inputs is not valid."
    );
    let order = |name| {
        format!(
            "The operator '{name}' is not supported for the 'null' literal; only equality checks are supported."
        )
    };
    assert_eq!(message("a lt null"), order("LessThan"));
    assert_eq!(message("null lt a"), order("GreaterThan"));
    assert_eq!(message("a ge null"), order("GreaterThanOrEqual"));
}

#[test]
fn arithmetic_and_functions_are_not_implemented() {
    for text in [
        "a eq b",
        "1 eq 1",
        "null eq null",
        "startswith(a,'x')",
        "substringof('x', a)",
        "a eq tolower('x')",
        "a add 1 eq 2",
        "a eq 1 add 1",
        "not endswith(a,'x')",
        "5 mul 2 eq a",
        "length (a) eq 1",
    ] {
        assert!(
            matches!(Filter::parse(text), Err(Error::NotImplemented(_))),
            "{text}"
        );
    }
}

#[test]
fn an_unsupported_filter_is_refused_with_the_unsupported_word() {
    for (text, words) in [
        ("PartitionKey eq Sales", "write it in quotes: 'Sales'"),
        ("(Age gt 3) and (Name eq Don)", "write it in quotes: 'Don'"),
        ("'a' eq 'a'", "compares two values"),
        ("startswith(a,'x')", "the function 'startswith'"),
        ("a add 1 eq 2", "calculates with 'add'"),
    ] {
        let error = Filter::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// How every stored type compares with every type of literal. `v`: by value. `<`: the types differ,
/// and the stored value counts as smaller, whatever the values are. The last row is for the keys,
/// which are Strings.
///
/// Source: Andrei15193/CloudStub, `TableQueryComparisonTestData.cs`: tests of all pairs with all
/// six operators that run against an account of the hosted service. AzureStorageExplorer issue 5346
/// reports the same for Int32 and Int64.
const COMPARISONS: [(&str, &str); 9] = [
    //           S  i  l  d  b  t  g  x
    ("S", "v < < < < < < <"),
    ("I", "< v < < < < < <"),
    ("L", "< v v < < < < <"),
    ("D", "< v v v < < < <"),
    ("B", "< < < < v < < <"),
    ("T", "< < < < < v < <"),
    ("G", "< < < < < < v <"),
    ("X", "< < < < < < < v"),
    ("RowKey", "v < < < < < < <"),
];

/// For each type, in the order of [`COMPARISONS`]: the name of its property, then literals less
/// than, equal to and greater than the stored value. No Bool is greater than `true`, so that
/// literal is repeated.
const SAMPLES: [(&str, [&str; 3]); 8] = [
    ("S", ["'2'", "'3'", "'4'"]),
    ("I", ["2", "3", "4"]),
    ("L", ["2L", "3L", "4L"]),
    ("D", ["2.5", "3.0", "3.5"]),
    ("B", ["false", "true", "true"]),
    (
        "T",
        [
            "datetime'2019-01-22T00:00:00Z'",
            "datetime'2020-01-22T00:00:00Z'",
            "datetimeoffset'2021-01-22T00:00:00Z'",
        ],
    ),
    (
        "G",
        [
            "guid'58260b3f-beab-45e2-b900-33e2b442e724'",
            "guid'68260b3f-beab-45e2-b900-33e2b442e724'",
            "guid'78260b3f-beab-45e2-b900-33e2b442e724'",
        ],
    ),
    ("X", ["X'02'", "X'03'", "binary'04'"]),
];

#[test]
fn all_pairs_of_types_compare_as_in_the_table() {
    let stored = SAMPLES.map(|(name, [_, equal, _])| (name.to_owned(), literal(equal)));
    let table = table_of(&[Entity::new("p", "3", stored.into())]);
    let holds = |filter: &str| !query_all(&table, filter, None).is_empty();
    for (name, cells) in COMPARISONS {
        for (cell, (literals_of, literals)) in cells.split(' ').zip(SAMPLES) {
            for (literal, by_value) in literals.into_iter().zip(["gt", "eq", "lt"]) {
                let relation = match (cell, literals_of, literal) {
                    ("<", ..) => "lt",
                    (_, "B", "true") => "eq",
                    _ => by_value,
                };
                for (operator, mirrored, true_of) in [
                    ("eq", "eq", &["eq"][..]),
                    ("ne", "ne", &["lt", "gt"]),
                    ("lt", "gt", &["lt"]),
                    ("le", "ge", &["lt", "eq"]),
                    ("gt", "lt", &["gt"]),
                    ("ge", "le", &["gt", "eq"]),
                ] {
                    let expected = true_of.contains(&relation);
                    let filter = format!("{name} {operator} {literal}");
                    assert_eq!(holds(&filter), expected, "{filter}");
                    let filter = format!("not ({literal} {mirrored} {name})");
                    assert_eq!(holds(&filter), !expected, "{filter}");
                }
            }
        }
    }
}

#[test]
fn size_and_depth_are_limited() {
    let nested = |levels: usize| {
        let open = "(a or b and ".repeat(levels / 2);
        open + "a" + &")".repeat(levels / 2)
    };
    assert!(Filter::parse(&nested(FILTER_DEPTH_MAX)).is_ok());
    assert!(message(&nested(FILTER_DEPTH_MAX + 2)).contains("nesting depth"));
    let bytes = "a or ".repeat(FILTER_BYTES_MAX / 5);
    assert!(message(&(bytes + "a or a")).contains("length in bytes"));
}

#[test]
fn parentheses_and_chains_of_one_operator_do_not_count_as_depth() {
    let deep = FILTER_BYTES_MAX / 2 - 1;
    let parentheses = "(".repeat(deep) + "a" + &")".repeat(deep);
    let nots = "not ".repeat(FILTER_BYTES_MAX / 4 - 1) + "a";
    let plain = Filter::parse("a").unwrap();
    assert_eq!(Filter::parse(&parentheses).unwrap(), plain);
    assert_eq!(
        Filter::parse(&nots).unwrap(),
        Filter::parse("not a").unwrap()
    );
    for operator in [" or ", " and "] {
        let terms: Vec<String> = (0..900).map(|number| format!("a eq {number}")).collect();
        let flat = Filter::parse(&terms.join(operator)).unwrap();
        // As written by `TableQuery.CombineFilters` and LINQ.
        let join = |left: String, right: &String| format!("({left}){operator}({right})");
        let left = terms[1..].iter().fold(terms[0].clone(), join);
        assert_eq!(Filter::parse(&left).unwrap(), flat);
        let (last, rest) = terms.split_last().unwrap();
        let right = rest.iter().rev().fold(last.clone(), |right, left| {
            format!("({left}){operator}({right})")
        });
        assert_eq!(Filter::parse(&right).unwrap(), flat);
    }
}

#[test]
fn entities_selected_by_their_keys_are_read_as_points() {
    let keys = |number: usize| (format!("p{}", number % 7), format!("r{number}"));
    let entities: Vec<Entity> = (0..1000)
        .map(|number| {
            let (partition_key, row_key) = keys(number);
            Entity::new(partition_key, row_key, Vec::new())
        })
        .collect();
    let table = table_of(&entities);
    let term = |number| {
        let (partition_key, row_key) = keys(number);
        format!("(PartitionKey eq '{partition_key}' and RowKey eq '{row_key}')")
    };
    let terms: Vec<String> = (50..950).map(term).collect();
    let filter = terms.join(" or ");
    let query = Query {
        filter: Some(&filter),
        ..Query::default()
    };
    let page = service()
        .query_entities("account", &table, &query, &|| false)
        .unwrap();
    assert_eq!((page.cost.returned, page.cost.examined), (900, 900));
}

#[test]
fn filters_on_tables_ignore_case() {
    let filter = Filter::parse_for_tables("TableName eq 'ABC'")
        .unwrap()
        .unwrap();
    assert!(filter.matches(&[Some(ValueRef::String("abc"))]));
    assert!(Filter::parse_for_tables("Name eq 'abc'").is_err());
}

proptest! {
    #[test]
    fn parsing_never_panics(text in ".{0,60}", alike in "[aeqnot()'X0-9.eL ]{0,60}") {
        let _ = Filter::parse(&text);
        let _ = Filter::parse(&alike);
    }
}

// The rest of the file is a second, slow implementation of the rules.

const OPERATORS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

#[derive(Debug, Clone)]
enum TestExpression {
    And(Vec<TestExpression>),
    Or(Vec<TestExpression>),
    Not(Box<TestExpression>),
    Compare {
        name: &'static str,
        operator: &'static str,
        literal: Value,
        mirrored: bool,
    },
    Bare(&'static str),
    Constant(bool),
}

fn texts() -> impl Strategy<Value = String> {
    select(vec!["", "a", "ab", "b", "it's", "\u{e000}", "😀"]).prop_map(str::to_owned)
}

fn values() -> impl Strategy<Value = Value> {
    let instants = select(vec![
        "2020-01-01T00:00:00.0000001Z",
        "2020-01-01T00:00:00.0000002Z",
    ]);
    prop_oneof![
        3 => texts().prop_map(Value::String),
        2 => (-1..3).prop_map(Value::Int32),
        2 => select(vec![-1i64, 0, 1, 1 << 40]).prop_map(Value::Int64),
        2 => select(vec![-1.0, 0.0, 0.5, 1.0, f64::NAN, f64::INFINITY]).prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => instants.prop_map(|text| Value::DateTime(DateTime::parse(text).unwrap())),
        1 => (0..2u8).prop_map(|byte| Value::Guid(Guid([byte; 16]))),
        1 => select(vec![vec![], vec![1], vec![1, 0], vec![2]]).prop_map(Value::Binary),
    ]
}

fn terms() -> impl Strategy<Value = TestExpression> {
    let compare = |names: Vec<&'static str>, literals: BoxedStrategy<Value>| {
        let parts = (
            select(names),
            select(&OPERATORS[..]),
            literals,
            any::<bool>(),
        );
        parts.prop_map(
            |(name, operator, literal, mirrored)| TestExpression::Compare {
                name,
                operator,
                literal,
                mirrored,
            },
        )
    };
    let keys = || vec!["PartitionKey", "RowKey"];
    let leaf = prop_oneof![
        8 => compare(keys(), texts().prop_map(Value::String).boxed()),
        1 => compare(keys(), values().boxed()),
        6 => compare(vec!["P", "Q", "Missing", "Timestamp"], values().boxed()),
        1 => select(vec!["P", "RowKey", "Missing"]).prop_map(TestExpression::Bare),
        1 => any::<bool>().prop_map(TestExpression::Constant),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            3 => proptest::collection::vec(inner.clone(), 2..4).prop_map(TestExpression::And),
            3 => proptest::collection::vec(inner.clone(), 2..4).prop_map(TestExpression::Or),
            1 => inner.prop_map(|term| TestExpression::Not(Box::new(term))),
        ]
    })
}

impl TestExpression {
    fn text(&self) -> String {
        let join = |terms: &[TestExpression], word: &str| {
            let texts: Vec<String> = terms
                .iter()
                .map(|term| format!("({})", term.text()))
                .collect();
            texts.join(word)
        };
        match self {
            TestExpression::And(terms) => join(terms, " and "),
            TestExpression::Or(terms) => join(terms, "\nor "),
            TestExpression::Not(term) => format!("not ({})", term.text()),
            TestExpression::Compare {
                name,
                operator,
                literal,
                mirrored: false,
            } => {
                format!("{name} {operator} {}", literal_text(literal))
            }
            TestExpression::Compare {
                name,
                operator,
                literal,
                mirrored: true,
            } => {
                let at = OPERATORS
                    .iter()
                    .position(|known| known == operator)
                    .unwrap();
                let mirror = ["eq", "ne", "gt", "ge", "lt", "le"][at];
                format!("{} {mirror}  {name}", literal_text(literal))
            }
            TestExpression::Bare(name) => (*name).to_owned(),
            TestExpression::Constant(truth) => truth.to_string(),
        }
    }

    fn holds(&self, entity: &Entity) -> bool {
        match self {
            TestExpression::And(terms) => terms.iter().all(|term| term.holds(entity)),
            TestExpression::Or(terms) => terms.iter().any(|term| term.holds(entity)),
            TestExpression::Not(term) => !term.holds(entity),
            TestExpression::Constant(truth) => *truth,
            TestExpression::Bare(name) => value_of(entity, name) == Some(Value::Boolean(true)),
            TestExpression::Compare {
                name,
                operator,
                literal,
                ..
            } => {
                value_of(entity, name).is_some_and(|value| compare_holds(&value, operator, literal))
            }
        }
    }
}

fn literal_text(literal: &Value) -> String {
    match literal {
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => format!("{number}L"),
        Value::Double(number) if number.is_nan() => "NaN".into(),
        Value::Double(number) if number.is_infinite() => "INF".into(),
        Value::Double(number) => format!("{number:?}"),
        Value::Boolean(truth) => truth.to_string(),
        Value::DateTime(instant) => format!("datetime'{instant}'"),
        Value::Guid(guid) => format!("guid'{guid}'"),
        Value::Binary(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("X'{digits}'")
        }
    }
}

fn value_of(entity: &Entity, name: &str) -> Option<Value> {
    match name {
        "PartitionKey" => Some(Value::String(entity.partition_key.clone())),
        "RowKey" => Some(Value::String(entity.row_key.clone())),
        "Timestamp" => Some(Value::DateTime(entity.timestamp)),
        _ => entity.property(name).cloned(),
    }
}

fn compare_holds(value: &Value, operator: &str, literal: &Value) -> bool {
    let utf16 = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    let by = |less: bool, equal: bool, greater: bool| match operator {
        "eq" => equal,
        "ne" => !equal,
        "lt" => less,
        "le" => less || equal,
        "gt" => greater,
        _ => greater || equal,
    };
    let numbers = |value: f64, literal: f64| by(value < literal, value == literal, value > literal);
    match (value, literal) {
        (Value::String(a), Value::String(b)) => {
            by(utf16(a) < utf16(b), a == b, utf16(a) > utf16(b))
        }
        (Value::Int32(a), Value::Int32(b)) => by(a < b, a == b, a > b),
        (Value::Int64(a), Value::Int32(b)) => {
            by(*a < i64::from(*b), *a == i64::from(*b), *a > i64::from(*b))
        }
        (Value::Int64(a), Value::Int64(b)) => by(a < b, a == b, a > b),
        (Value::Double(a), Value::Int32(b)) => numbers(*a, f64::from(*b)),
        (Value::Double(a), Value::Int64(b)) => numbers(*a, *b as f64),
        (Value::Double(a), Value::Double(b)) => numbers(*a, *b),
        (Value::Boolean(a), Value::Boolean(b)) => by(!a & b, a == b, a & !b),
        (Value::DateTime(a), Value::DateTime(b)) => by(a < b, a == b, a > b),
        (Value::Guid(a), Value::Guid(b)) => {
            let (a, b) = (a.to_string(), b.to_string());
            by(a < b, a == b, a > b)
        }
        (Value::Binary(a), Value::Binary(b)) => by(a < b, a == b, a > b),
        _ => matches!(operator, "ne" | "lt" | "le"),
    }
}

fn service() -> &'static TableService {
    static SERVICE: OnceLock<(tempfile::TempDir, TableService)> = OnceLock::new();
    let (_, service) = SERVICE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            durability: Durability::Memory,
            ..Config::default()
        };
        let db = Db::open(directory.path(), config).unwrap();
        let service =
            TableService::open(&db, Arc::new(ManualWallClock::new(SystemTime::UNIX_EPOCH)))
                .unwrap();
        (directory, service)
    });
    service
}

/// A new table with these entities.
fn table_of(entities: &[Entity]) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let table = format!("table{}", NEXT.fetch_add(1, AtomicOrdering::Relaxed));
    let ticket = service().create_table("account", &table).unwrap();
    ticket.wait().unwrap();
    for entity in entities {
        let _ = service()
            .insert_or_replace_entity("account", &table, entity)
            .unwrap();
    }
    table
}

fn entities() -> impl Strategy<Value = Vec<Entity>> {
    let property = |name: &'static str| {
        proptest::option::of(values().prop_map(move |value| (name.to_owned(), value)))
    };
    let entity = (texts(), texts(), property("P"), property("Q"))
        .prop_map(|(p, r, a, b)| Entity::new(p, r, a.into_iter().chain(b).collect()));
    proptest::collection::vec(entity, 0..30)
}

/// All entities that match, queried in pages of three.
fn query_all(table: &str, filter: &str, access_range: Option<&AccessRange>) -> Vec<Entity> {
    query_by(3, table, filter, access_range)
}

fn query_by(
    top: usize,
    table: &str,
    filter: &str,
    access_range: Option<&AccessRange>,
) -> Vec<Entity> {
    let mut found = Vec::new();
    let mut next: Option<(String, String)> = None;
    loop {
        let continuation = next.as_ref().map(|(p, r)| (&**p, &**r));
        let query = Query {
            filter: Some(filter),
            top: Some(top as u32),
            continuation,
            access_range,
            ..Query::default()
        };
        let page = service()
            .query_entities("account", table, &query, &|| false)
            .unwrap();
        assert_eq!(page.cost.returned, page.entities.len());
        assert!(page.entities.len() <= top && page.cost.examined >= page.entities.len());
        found.extend(page.entities);
        next = page.next;
        if next.is_none() {
            return found;
        }
    }
}

fn key_order(entity: &Entity) -> (Vec<u16>, Vec<u16>) {
    (
        entity.partition_key.encode_utf16().collect(),
        entity.row_key.encode_utf16().collect(),
    )
}

proptest! {
    #[test]
    fn random_filters_match_the_reference_evaluator(
        entities in entities(),
        terms in proptest::collection::vec(terms(), 16),
    ) {
        let table = table_of(&entities);
        let mut stored = query_all(&table, "", None);
        prop_assert!(stored.is_sorted_by_key(key_order));
        stored.dedup_by_key(|entity| key_order(entity));
        for term in terms {
            let expected: Vec<&Entity> = stored.iter().filter(|entity| term.holds(entity)).collect();
            let found = query_all(&table, &term.text(), None);
            prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}", term.text());
        }
    }

    #[test]
    fn access_range_hides_entities_outside_it(
        entities in entities(),
        term in terms(),
        start in proptest::option::of((texts(), proptest::option::of(texts()))),
        end in proptest::option::of((texts(), proptest::option::of(texts()))),
    ) {
        let table = table_of(&entities);
        let (start_partition_key, start_row_key) = start.map_or((None, None), |(p, r)| (Some(p), r));
        let (end_partition_key, end_row_key) = end.map_or((None, None), |(p, r)| (Some(p), r));
        let range = AccessRange { start_partition_key, start_row_key, end_partition_key, end_row_key };
        let utf16 = |text: &Option<String>| text.as_ref().map(|text| text.encode_utf16().collect::<Vec<u16>>());
        let covered = |entity: &Entity| {
            let (p, r) = key_order(entity);
            let low = utf16(&range.start_partition_key)
                .is_none_or(|start| (&p, &r) >= (&start, &utf16(&range.start_row_key).unwrap_or_default()));
            let high = utf16(&range.end_partition_key).is_none_or(|end| {
                p < end || p == end && utf16(&range.end_row_key).is_none_or(|end| r <= end)
            });
            low && high
        };
        let stored = query_all(&table, "", None);
        for entity in &stored {
            prop_assert_eq!(range.contains(&entity.partition_key, &entity.row_key), covered(entity));
        }
        let expected: Vec<&Entity> = stored.iter().filter(|entity| covered(entity) && term.holds(entity)).collect();
        let found = query_all(&table, &term.text(), Some(&range));
        prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}", term.text());
    }
}

/// Terms on RowKeys of two digits, and sometimes on PartitionKeys.
fn key_terms() -> impl Strategy<Value = TestExpression> {
    let compare = |name| {
        let parts = (select(&OPERATORS[..]), "[0-3][0-9]");
        parts.prop_map(move |(operator, text)| TestExpression::Compare {
            name,
            operator,
            literal: Value::String(text),
            mirrored: false,
        })
    };
    let leaf = prop_oneof![4 => compare("RowKey"), 1 => compare("PartitionKey")];
    let any_of = proptest::collection::vec(leaf, 1..4).prop_map(TestExpression::Or);
    proptest::collection::vec(any_of, 1..4).prop_map(TestExpression::And)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The table has more partitions than a skip scan seeks through before its first probe.
    #[test]
    fn random_filters_on_keys_of_many_partitions_match_the_reference_evaluator(
        sizes in proptest::collection::vec(prop_oneof![0usize..3, 0usize..40], 50..150),
        terms in proptest::collection::vec(key_terms(), 8),
    ) {
        let rows = |(partition, size): (usize, &usize)| {
            let partition = format!("{partition:02}");
            (0..*size).map(move |row| Entity::new(&*partition, format!("{row:02}"), Vec::new())).collect::<Vec<_>>()
        };
        let mut stored: Vec<Entity> = sizes.iter().enumerate().flat_map(rows).collect();
        stored.sort_by_key(key_order);
        let table = table_of(&stored);
        for term in terms {
            let expected: Vec<_> = stored.iter().filter(|entity| term.holds(entity)).map(key_order).collect();
            for top in [50, 1000] {
                let found = query_by(top, &table, &term.text(), None);
                let found: Vec<_> = found.iter().map(key_order).collect();
                prop_assert_eq!(&found, &expected, "{}", term.text());
            }
        }
    }
}

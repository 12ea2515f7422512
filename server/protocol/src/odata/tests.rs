//! Tests of types and annotations. Source: Payload Format for Table Service Operations.

use super::*;
use lazurite_table::{DateTime, Entity, Error, Value};

fn read(text: &str) -> Result<Vec<(String, Value)>, Error> {
    read_entity(text.as_bytes()).map(|body| body.properties)
}

fn value(text: &str) -> Value {
    read(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .remove(0)
        .1
}

#[test]
fn bare_values_have_the_type_they_look_like() {
    assert_eq!(value(r#"{"x":"1"}"#), Value::String("1".to_owned()));
    assert_eq!(value(r#"{"x":1}"#), Value::Int32(1));
    assert_eq!(value(r#"{"x":-2147483648}"#), Value::Int32(i32::MIN));
    assert_eq!(value(r#"{"x":1.0}"#), Value::Double(1.0));
    assert_eq!(value(r#"{"x":1e3}"#), Value::Double(1000.0));
    assert_eq!(value(r#"{"x":true}"#), Value::Boolean(true));
}

#[test]
fn annotations_decide_wherever_they_stand() {
    assert_eq!(
        value(r#"{"x@odata.type":"Edm.Int64","x":"-9223372036854775808"}"#),
        Value::Int64(i64::MIN)
    );
    assert_eq!(
        value(r#"{"x":9223372036854775807,"x@odata.type":"Edm.Int64"}"#),
        Value::Int64(i64::MAX)
    );
    assert_eq!(
        value(r#"{"x@odata.type":"Edm.Double","x":"-Infinity"}"#),
        Value::Double(f64::NEG_INFINITY)
    );
    assert_eq!(
        value(r#"{"x@odata.type":"Edm.Double","x":5}"#),
        Value::Double(5.0)
    );
    assert_eq!(
        value(r#"{"x@odata.type":"Edm.Boolean","x":"true"}"#),
        Value::Boolean(true)
    );
    assert_eq!(
        value(r#"{"x@odata.type":"Edm.Binary","x":"AAEC"}"#),
        Value::Binary(vec![0, 1, 2])
    );
    assert_eq!(
        value(r#"{"x@odata.type":"Edm.String","x":"s"}"#),
        Value::String("s".to_owned())
    );
    let guid = value(r#"{"x@odata.type":"Edm.Guid","x":"C9DA6455-213d-42c9-9a79-3e9149a57833"}"#);
    assert!(
        matches!(guid, Value::Guid(guid) if guid.to_string() == "c9da6455-213d-42c9-9a79-3e9149a57833")
    );
    let instant = value(r#"{"x@odata.type":"Edm.DateTime","x":"2021-01-01T02:00:00+02:00"}"#);
    assert!(
        matches!(instant, Value::DateTime(instant) if instant.to_string() == "2021-01-01T00:00:00Z")
    );
}

#[test]
fn nulls_and_properties_of_the_server_are_dropped() {
    let body = read_entity(
        br#"{"odata.etag":"x","PartitionKey":"p","RowKey":null,"Timestamp":"never","Timestamp@odata.type":"Edm.DateTime","a":null,"b":1}"#,
    );
    let expected = EntityBody {
        partition_key: Some("p".to_owned()),
        row_key: None,
        has_typed_key: false,
        properties: vec![("b".to_owned(), Value::Int32(1))],
    };
    assert_eq!(body.unwrap(), expected);
}

#[test]
fn values_without_a_type_are_refused() {
    for text in [
        "",
        "x",
        "[]",
        "{",
        r#"{"x":[]}"#,
        r#"{"x":{}}"#,
        r#"{"x":2147483648}"#,
        r#"{"x":1e999}"#,
        r#"{"x@odata.type":"Edm.Int32","x":"1.5"}"#,
        r#"{"x@odata.type":"Edm.Other","x":"1"}"#,
        r#"{"x@odata.type":"Edm.DateTime","x":""}"#,
        r#"{"x@odata.type":"Edm.Binary","x":"?"}"#,
        r#"{"x@odata.type":"Edm.Double","x":"inf"}"#,
        r#"{"x":1}{}"#,
        r#"{"PartitionKey":1}"#,
        r#"{"x@odata.type":1,"x":1}"#,
    ] {
        assert!(matches!(read(text), Err(Error::InvalidInput(_))), "{text}");
    }
    let early = read(r#"{"x@odata.type":"Edm.DateTime","x":"1600-12-31T23:59:59Z"}"#).unwrap_err();
    assert_eq!(
        early.to_string(),
        "The 'x' parameter of value '1600-12-31T23:59:59Z' is out of range."
    );
    for twice in [
        r#"{"PartitionKey":"a","PartitionKey":"b"}"#,
        r#"{"PartitionKey":null,"PartitionKey":"b"}"#,
        r#"{"A":null,"A":2}"#,
        r#"{"A":2,"B":1,"A":null}"#,
        r#"{"A":null,"A":null}"#,
    ] {
        let refused = read_entity(twice.as_bytes()).unwrap_err();
        assert!(matches!(refused, Error::DuplicatePropertiesSpecified));
    }
}

#[test]
fn members_of_an_entity_are_bounded() {
    let object = |count: usize| {
        let members: Vec<_> = (0..count).map(|n| format!(r#""p{n}":null"#)).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(read(&object(5 * 255)).unwrap(), []);
    let refused = read(&object(5 * 255 + 1)).unwrap_err();
    assert!(matches!(refused, Error::TooManyProperties));
}

#[test]
fn a_key_that_is_annotated_with_another_type_than_string_is_reported() {
    for (annotation, is_typed) in [("Edm.String", false), ("Edm.Guid", true)] {
        for key in ["PartitionKey", "RowKey"] {
            let body = format!(r#"{{"{key}":"k","{key}@odata.type":"{annotation}"}}"#);
            let read = read_entity(body.as_bytes()).unwrap();
            assert_eq!(read.has_typed_key, is_typed, "{body}");
        }
    }
}

fn entity() -> Entity {
    let properties = vec![
        (
            "Name".to_owned(),
            Value::String("a\"b\\\n\u{1}é".to_owned()),
        ),
        ("Big".to_owned(), Value::Int64(9)),
        ("D".to_owned(), Value::Double(5.0)),
        ("N".to_owned(), Value::Double(f64::NAN)),
        ("I".to_owned(), Value::Double(f64::NEG_INFINITY)),
        ("Q".to_owned(), Value::String("\"".to_owned())),
    ];
    let timestamp = DateTime::parse("2021-09-20T21:54:20.9694602Z").unwrap();
    Entity {
        timestamp,
        ..Entity::new("p'k", "r k", properties)
    }
}

fn frame(level: Level, select: Option<&[String]>) -> Frame<'_> {
    Frame {
        level,
        base_url: "https://A.table",
        account: "A",
        table: "T",
        select,
    }
}

fn list(frame: Frame<'_>) -> String {
    let mut out = frame.begin_list();
    frame.entity(&mut out, &(&entity()).into()).unwrap();
    frame.end_list(&mut out);
    out
}

#[test]
fn the_three_metadata_levels_have_their_annotations() {
    let own = r#""Name":"a\"b\\\n\u0001é","#;
    assert_eq!(
        frame(Level::None, None)
            .single(&(&entity()).into())
            .unwrap(),
        format!(
            r#"{{"PartitionKey":"p'k","RowKey":"r k","Timestamp":"2021-09-20T21:54:20.9694602Z",{own}"Big":"9","D":5.0,"N":"NaN","I":"-Infinity","Q":"\""}}"#
        )
    );
    assert_eq!(
        frame(Level::Minimal, None)
            .single(&(&entity()).into())
            .unwrap(),
        format!(
            r#"{{"odata.metadata":"https://A.table/$metadata#T/@Element","odata.etag":"W/\"datetime'2021-09-20T21%3A54%3A20.9694602Z'\"","PartitionKey":"p'k","RowKey":"r k","Timestamp":"2021-09-20T21:54:20.9694602Z",{own}"Big@odata.type":"Edm.Int64","Big":"9","D":5.0,"N@odata.type":"Edm.Double","N":"NaN","I@odata.type":"Edm.Double","I":"-Infinity","Q":"\""}}"#
        )
    );
    let full = list(frame(Level::Full, None));
    let start = r#"{"odata.metadata":"https://A.table/$metadata#T","value":[{"odata.type":"A.T","odata.id":"https://A.table/T(PartitionKey='p''k',RowKey='r%20k')","odata.etag":"#;
    assert!(full.starts_with(start), "{full}");
    assert!(
        full.contains(
            r#""odata.editLink":"T(PartitionKey='p''k',RowKey='r%20k')","PartitionKey":"p'k""#
        ),
        "{full}"
    );
    assert!(
        full.contains(r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"#),
        "{full}"
    );
}

#[test]
fn selected_properties_that_are_missing_are_null() {
    let names = ["Big".to_owned(), "Missing".to_owned()];
    assert_eq!(
        list(frame(Level::None, Some(&names))),
        r#"{"value":[{"Big":"9","Missing":null}]}"#
    );
    let minimal = list(frame(Level::Minimal, Some(&names)));
    assert!(minimal.starts_with(r#"{"odata.metadata":"https://A.table/$metadata#T&$select=Big,Missing","value":[{"odata.etag":"#), "{minimal}");
}

#[test]
fn every_type_comes_back_from_its_own_json() {
    let read_back = read_entity(
        frame(Level::Minimal, None)
            .single(&(&entity()).into())
            .unwrap()
            .as_bytes(),
    )
    .unwrap();
    assert_eq!(
        format!("{:?}", read_back.properties),
        format!("{:?}", entity().properties)
    );
    assert_eq!(read_back.partition_key.as_deref(), Some("p'k"));
}

#[test]
fn tables_have_the_annotations_of_their_level() {
    let single = |level| table_single(level, "https://A.table", "A", "T");
    assert_eq!(single(Level::None), r#"{"TableName":"T"}"#);
    assert_eq!(
        single(Level::Minimal),
        r#"{"odata.metadata":"https://A.table/$metadata#Tables/@Element","TableName":"T"}"#
    );
    let of_table = |table: &str| {
        format!(
            r#""odata.type":"A.Tables","odata.id":"https://A.table/Tables('{table}')","odata.editLink":"Tables('{table}')","TableName":"{table}""#
        )
    };
    assert_eq!(
        single(Level::Full),
        format!(
            r#"{{"odata.metadata":"https://A.table/$metadata#Tables/@Element",{}}}"#,
            of_table("T")
        )
    );
    let names = ["T".to_owned(), "U".to_owned()];
    let list = |level| table_list(level, "https://A.table", "A", &names);
    assert_eq!(
        list(Level::None),
        r#"{"value":[{"TableName":"T"},{"TableName":"U"}]}"#
    );
    assert_eq!(
        list(Level::Full),
        format!(
            r#"{{"odata.metadata":"https://A.table/$metadata#Tables","value":[{{{}}},{{{}}}]}}"#,
            of_table("T"),
            of_table("U")
        )
    );
}

/// The JavaScript client takes braces in a part of a batch for an error document.
#[test]
fn a_path_of_an_entity_has_no_braces() {
    assert_eq!(
        entity_path("T", "{guid}", "a|b^c"),
        "T(PartitionKey='%7Bguid%7D',RowKey='a%7Cb%5Ec')"
    );
}

fn every_type() -> Entity {
    let guid = lazurite_table::Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
    let properties = [
        ("T", Value::Boolean(true)),
        ("F", Value::Boolean(false)),
        (
            "W",
            Value::DateTime(DateTime::parse("2021-01-01T00:00:00.5Z").unwrap()),
        ),
        ("G", Value::Guid(guid)),
        ("B", Value::Binary(vec![0, 255])),
        ("L", Value::Int64(i64::MIN)),
        ("I", Value::Int32(-1)),
        ("P", Value::Double(f64::INFINITY)),
        ("S", Value::String("\r\t\u{1f}".to_owned())),
    ];
    let properties = properties.map(|(name, value)| (name.to_owned(), value));
    Entity::new("p", "r", properties.into())
}

#[test]
fn every_type_has_its_json_and_is_read_from_it() {
    let entity = every_type();
    let text = frame(Level::Minimal, None)
        .single(&(&entity).into())
        .unwrap();
    for part in [
        r#""T":true,"F":false,"#,
        r#""W@odata.type":"Edm.DateTime","W":"2021-01-01T00:00:00.5Z""#,
        r#""G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833""#,
        r#""B@odata.type":"Edm.Binary","B":"AP8=""#,
        r#""P@odata.type":"Edm.Double","P":"Infinity""#,
        r#""S":"\r\t\u001f""#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(read(&text).unwrap(), entity.properties);
}

#[test]
fn keys_and_timestamp_can_be_selected() {
    let names = ["RowKey", "Timestamp", "PartitionKey"].map(str::to_owned);
    let text = list(frame(Level::None, Some(&names)));
    let stamp = "2021-09-20T21:54:20.9694602Z";
    let expected =
        format!(r#"{{"value":[{{"RowKey":"r k","Timestamp":"{stamp}","PartitionKey":"p'k"}}]}}"#);
    assert_eq!(text, expected);
}

#[test]
fn entities_of_a_page_are_separated() {
    let names = ["RowKey".to_owned()];
    let frame = frame(Level::None, Some(&names));
    let mut out = frame.begin_list();
    for _ in 0..3 {
        frame.entity(&mut out, &(&entity()).into()).unwrap();
    }
    frame.end_list(&mut out);
    let one = r#"{"RowKey":"r k"}"#;
    assert_eq!(out, format!(r#"{{"value":[{one},{one},{one}]}}"#));
}

#[test]
fn numbers_and_truth_values_are_read_with_and_without_quotes() {
    let typed = |edm: &str, text: &str| value(&format!(r#"{{"x@odata.type":"{edm}","x":{text}}}"#));
    for text in ["5", r#""5""#] {
        assert_eq!(typed("Edm.Int32", text), Value::Int32(5));
        assert_eq!(typed("Edm.Int64", text), Value::Int64(5));
        assert_eq!(typed("Edm.Double", text), Value::Double(5.0));
    }
    for text in ["false", r#""False""#] {
        assert_eq!(typed("Edm.Boolean", text), Value::Boolean(false));
    }
    assert_eq!(value(r#"{"x":false}"#), Value::Boolean(false));
    for (text, number) in [
        ("INF", f64::INFINITY),
        ("Infinity", f64::INFINITY),
        ("-INF", f64::NEG_INFINITY),
    ] {
        assert_eq!(
            typed("Edm.Double", &format!("\"{text}\"")),
            Value::Double(number)
        );
    }
    for text in ["inf", "infinity", "nan", "+inf", "1e999", "0x1"] {
        let text = format!(r#"{{"x@odata.type":"Edm.Double","x":"{text}"}}"#);
        assert!(matches!(read(&text), Err(Error::InvalidInput(_))), "{text}");
    }
}

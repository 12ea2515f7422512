//! The Table service by raw requests: the exact bytes of its answers at every metadata level, and its answers to input
//! no client would send.

use serde_json::{Value, json};

use crate::http::{Request, Response};
use crate::server::{Server, Service};

const INVALID: &str = "One of the request inputs is not valid.";
const NO_TABLE: &str = "The table specified does not exist.";
const NO_METADATA: &str = "application/json;odata=nometadata";
const MINIMAL_METADATA: &str = "application/json;odata=minimalmetadata";
const FULL_METADATA: &str = "application/json;odata=fullmetadata";

fn request(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
}

/// A server with one empty table named `T1x`.
fn with_table() -> Server {
    let server = Server::fresh();
    request("POST", "/Tables")
        .json(r#"{"TableName":"T1x"}"#)
        .send(&server)
        .is(201);
    server
}

#[track_caller]
fn insert(server: &Server, entity: &Value) -> Response {
    request("POST", "/T1x")
        .json(entity.to_string())
        .send(server)
}

/// The answer to an insert of an entity with this property.
fn insert_with(server: &Server, property: &str, value: &str) -> Response {
    let entity = format!(r#"{{"PartitionKey":"p","RowKey":"r","{property}":{value}}}"#);
    request("POST", "/T1x").json(entity).send(server)
}

#[test]
fn create_table_answers_at_every_metadata_level() {
    let server = Server::fresh();
    let base = server.endpoint(Service::Table);
    let create = |name: &str, accept: &str| {
        let body = json!({ "TableName": name }).to_string();
        request("POST", "/Tables")
            .header("Accept", accept)
            .json(body)
            .send(&server)
    };
    let made = create("TableNone", NO_METADATA);
    made.is(201).has_header(
        "Content-Type",
        &format!("{NO_METADATA};streaming=true;charset=utf-8"),
    );
    assert_eq!(made.text(), r#"{"TableName":"TableNone"}"#);
    made.has_header("Location", &format!("{base}/Tables('TableNone')"));
    assert_eq!(
        create("TableMinimal", MINIMAL_METADATA).text(),
        format!(
            r#"{{"odata.metadata":"{base}/$metadata#Tables/@Element","TableName":"TableMinimal"}}"#
        )
    );
    let full = create("TableFull", FULL_METADATA).json();
    assert_eq!(full["odata.type"], "devstoreaccount1.Tables");
    assert_eq!(full["odata.id"], format!("{base}/Tables('TableFull')"));
    assert_eq!(full["odata.editLink"], "Tables('TableFull')");
    let listed = request("GET", "/Tables")
        .header("Accept", NO_METADATA)
        .send(&server);
    assert_eq!(
        listed.is(200).text(),
        r#"{"value":[{"TableName":"TableFull"},{"TableName":"TableMinimal"},{"TableName":"TableNone"}]}"#
    );
    let listed = request("GET", "/Tables")
        .header("Accept", MINIMAL_METADATA)
        .send(&server)
        .json();
    assert_eq!(listed["odata.metadata"], format!("{base}/$metadata#Tables"));
    let one = request("GET", "/Tables('tablefull')")
        .header("Accept", NO_METADATA)
        .send(&server);
    assert_eq!(one.is(200).text(), r#"{"TableName":"TableFull"}"#);
}

#[test]
fn create_table_without_content() {
    let server = Server::fresh();
    let made = request("POST", "/Tables")
        .header("Prefer", "return-no-content")
        .json(r#"{"TableName":"Quiet"}"#)
        .send(&server);
    made.is(204)
        .has_header("Preference-Applied", "return-no-content");
    let location = format!("{}/Tables('Quiet')", server.endpoint(Service::Table));
    made.has_header("Location", &location)
        .has_header("DataServiceId", &location);
    assert!(made.body.is_empty());
}

#[test]
fn table_names_breaking_the_rules() {
    let server = Server::fresh();
    let create = |name: &str| {
        request("POST", "/Tables")
            .json(json!({ "TableName": name }).to_string())
            .send(&server)
    };
    for name in ["a-b", "1ab", "a_b", "tä1", "a b"] {
        create(name).is_error(
            400,
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        );
    }
    for name in ["ab", &"a".repeat(64)] {
        let message = "The specified resource name length is not within the permissible limits.";
        create(name).is_error(400, "OutOfRangeInput", message);
    }
    create("tables").is_error(400, "InvalidInput", INVALID);
    create("Fine").is(201);
    create("fINE").is_error(
        409,
        "TableAlreadyExists",
        "The table specified already exists.",
    );
    for body in ["", "{", "\u{0}"] {
        request("POST", "/Tables")
            .json(body)
            .send(&server)
            .is_error(400, "InvalidInput", INVALID);
    }
    for body in ["{}", "[]", r#"{"TableName":null}"#, r#"{"TableName":5}"#] {
        request("POST", "/Tables").json(body).send(&server).is(400);
    }
    let gone = "The specified resource does not exist.";
    request("DELETE", "/Tables('missing')")
        .send(&server)
        .is_error(404, "ResourceNotFound", gone);
    request("GET", "/Tables('missing')")
        .send(&server)
        .is_error(404, "ResourceNotFound", gone);
}

#[test]
fn insert_answers_at_every_metadata_level() {
    let server = with_table();
    let base = server.endpoint(Service::Table);
    let entity = |row: &str| {
        let typed = r#""Big@odata.type":"Edm.Int64","Big":"9","Real":5.0,"When@odata.type":"Edm.DateTime","When":"2021-01-01T00:00:00.000Z""#;
        format!(r#"{{"PartitionKey":"p","RowKey":"{row}","Name":"x",{typed}}}"#)
    };
    let insert = |row: &str, accept: &str| {
        request("POST", "/T1x")
            .header("Accept", accept)
            .json(entity(row))
            .send(&server)
    };
    let none = insert("none", NO_METADATA);
    none.is(201).has_header(
        "Content-Type",
        &format!("{NO_METADATA};streaming=true;charset=utf-8"),
    );
    none.has_header("X-Content-Type-Options", "nosniff")
        .has_header("Cache-Control", "no-cache");
    assert!(none.header("Preference-Applied").is_none());
    let stamp = none.json()["Timestamp"].as_str().unwrap().to_string();
    assert_eq!(stamp.len(), "2021-09-20T21:54:20.9694602Z".len(), "{stamp}");
    none.has_header(
        "ETag",
        &format!("W/\"datetime'{}'\"", stamp.replace(':', "%3A")),
    );
    let shown = |row: &str, stamp: &str| {
        format!(
            r#""PartitionKey":"p","RowKey":"{row}","Timestamp":"{stamp}","Name":"x","Big":"9","Real":5.0,"When":"2021-01-01T00:00:00Z"}}"#
        )
    };
    assert_eq!(none.text(), format!("{{{}", shown("none", &stamp)));
    none.has_header(
        "Location",
        &format!("{base}/T1x(PartitionKey='p',RowKey='none')"),
    );

    let minimal = insert("min", MINIMAL_METADATA);
    let stamp = minimal.json()["Timestamp"].as_str().unwrap().to_string();
    let etag = format!(r#"W/\"datetime'{}'\""#, stamp.replace(':', "%3A"));
    let typed = shown("min", &stamp)
        .replace(r#""Big":"#, r#""Big@odata.type":"Edm.Int64","Big":"#)
        .replace(r#""When":"#, r#""When@odata.type":"Edm.DateTime","When":"#);
    let head = format!(r#"{{"odata.metadata":"{base}/$metadata#T1x/@Element","#);
    assert_eq!(
        minimal.text(),
        format!(r#"{head}"odata.etag":"{etag}",{typed}"#)
    );

    let full = insert("full", FULL_METADATA).text();
    let stamp = serde_json::from_str::<Value>(&full).unwrap()["Timestamp"]
        .as_str()
        .unwrap()
        .to_string();
    let etag = format!(r#"W/\"datetime'{}'\""#, stamp.replace(':', "%3A"));
    let typed = shown("full", &stamp)
        .replace(r#""Big":"#, r#""Big@odata.type":"Edm.Int64","Big":"#)
        .replace(r#""When":"#, r#""When@odata.type":"Edm.DateTime","When":"#)
        .replace(
            r#""Timestamp":"#,
            r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"#,
        );
    let link = "T1x(PartitionKey='p',RowKey='full')";
    let kind = format!(r#""odata.type":"devstoreaccount1.T1x","odata.id":"{base}/{link}""#);
    assert_eq!(
        full,
        format!(r#"{head}{kind},"odata.etag":"{etag}","odata.editLink":"{link}",{typed}"#)
    );
}

#[test]
fn queries_answer_at_every_metadata_level() {
    let server = with_table();
    let base = server.endpoint(Service::Table);
    insert(
        &server,
        &json!({ "PartitionKey": "p", "RowKey": "r", "a": 1, "b": true }),
    )
    .is(201);
    let query = |target: &str, accept: &str| {
        request("GET", target)
            .header("Accept", accept)
            .send(&server)
    };
    assert_eq!(
        query("/T1x()?$select=a,c", NO_METADATA).text(),
        r#"{"value":[{"a":1,"c":null}]}"#
    );
    assert_eq!(
        query("/T1x?%24select=b", NO_METADATA).text(),
        r#"{"value":[{"b":true}]}"#
    );
    let minimal = query("/T1x()", MINIMAL_METADATA).json();
    assert_eq!(minimal["odata.metadata"], format!("{base}/$metadata#T1x"));
    assert!(
        minimal["value"][0]["odata.etag"]
            .as_str()
            .unwrap()
            .starts_with("W/\"datetime'")
    );
    assert!(minimal["value"][0].get("odata.id").is_none());
    let selected = query("/T1x()?$select=a,b", MINIMAL_METADATA).json();
    assert_eq!(
        selected["odata.metadata"],
        format!("{base}/$metadata#T1x&$select=a,b")
    );
    assert!(selected["value"][0].get("PartitionKey").is_none());
    let full = query("/T1x()", FULL_METADATA).json();
    assert_eq!(
        full["value"][0]["odata.id"],
        format!("{base}/T1x(PartitionKey='p',RowKey='r')")
    );
    assert_eq!(full["value"][0]["odata.type"], "devstoreaccount1.T1x");
    let entity = "/T1x(PartitionKey='p',RowKey='r')";
    assert_eq!(
        query(entity, MINIMAL_METADATA).json()["odata.metadata"],
        format!("{base}/$metadata#T1x/@Element")
    );
    // The level in the URL wins; blanks, a bare type and no type at all are understood.
    let format = "/T1x()?$format=application/json;odata=nometadata";
    assert!(
        query(format, FULL_METADATA)
            .json()
            .get("odata.metadata")
            .is_none()
    );
    assert!(
        query(entity, "application/json; odata=nometadata")
            .json()
            .get("odata.metadata")
            .is_none()
    );
    assert!(
        query(entity, "application/json")
            .json()
            .get("odata.metadata")
            .is_some()
    );
    assert!(
        request("GET", entity)
            .send(&server)
            .json()
            .get("odata.metadata")
            .is_some()
    );
    request("GET", "/T1X(RowKey='r',%20PartitionKey='p')")
        .send(&server)
        .is(200);
}

#[test]
fn malformed_json_is_refused() {
    let server = with_table();
    let bodies = [
        "",
        "{",
        "nonsense",
        "[]",
        "null",
        r#"{"PartitionKey":"p","RowKey":"r",}"#,
        r#"{"PartitionKey":"p","RowKey":"r","a":[1]}"#,
        r#"{"PartitionKey":"p","RowKey":"r","a":{"b":1}}"#,
        r#"{"PartitionKey":1,"RowKey":"r"}"#,
        r#"{"PartitionKey":"p","RowKey":"r"} x"#,
    ];
    for body in bodies {
        request("POST", "/T1x")
            .json(body)
            .send(&server)
            .is_error(400, "InvalidInput", INVALID);
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    insert_with(&server, "a", &deep).is_error(400, "InvalidInput", INVALID);
    request("POST", "/T1x")
        .json(b"{\"PartitionKey\":\"\xff\",\"RowKey\":\"r\"}".as_slice())
        .send(&server)
        .is(400);
    let listed = request("GET", "/T1x()")
        .header("Accept", NO_METADATA)
        .send(&server);
    assert_eq!(listed.text(), r#"{"value":[]}"#);
}

#[test]
fn values_that_do_not_fit_their_type_are_refused() {
    let server = with_table();
    let bad = [
        ("Int64", r#""9223372036854775808""#),
        ("Int64", r#""x""#),
        ("Int32", "2147483648"),
        ("Double", r#""x""#),
        ("DateTime", r#""""#),
        ("DateTime", r#""yesterday""#),
        ("Guid", r#""x""#),
        ("Binary", r#""*""#),
        ("Boolean", r#""maybe""#),
        ("Nonsense", r#""x""#),
    ];
    for (kind, value) in bad {
        let body = format!(
            r#"{{"PartitionKey":"p","RowKey":"r","a@odata.type":"Edm.{kind}","a":{value}}}"#
        );
        request("POST", "/T1x")
            .json(body)
            .send(&server)
            .is_error(400, "InvalidInput", INVALID);
    }
    insert_with(&server, "a", "3000000000").is_error(400, "InvalidInput", INVALID);
    insert_with(&server, "a", "1.797693134862316e308").is_error(400, "InvalidInput", INVALID);
    let early = r#"{"PartitionKey":"p","RowKey":"r","When@odata.type":"Edm.DateTime","When":"1600-01-01T00:00:00Z"}"#;
    let message = "The 'When' parameter of value '1600-01-01T00:00:00Z' is out of range.";
    request("POST", "/T1x")
        .json(early)
        .send(&server)
        .is_error(400, "OutOfRangeInput", message);
}

#[test]
fn keys_breaking_the_rules() {
    let server = with_table();
    let need = "The values are not specified for all properties in the entity.";
    for body in [
        json!({ "RowKey": "r" }),
        json!({ "PartitionKey": "p" }),
        json!({ "PartitionKey": "p", "RowKey": null }),
    ] {
        insert(&server, &body).is_error(400, "PropertiesNeedValue", need);
    }
    for key in ["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\u{7f}b", "a\u{85}b"] {
        let message = format!("The 'PartitionKey' parameter of value '{key}' is out of range.");
        insert(&server, &json!({ "PartitionKey": key, "RowKey": "r" })).is_error(
            400,
            "OutOfRangeInput",
            &message,
        );
    }
    let long = "k".repeat(2048);
    let answer = insert(&server, &json!({ "PartitionKey": "p", "RowKey": long }));
    answer.is(400);
    assert_eq!(answer.code(), "PropertyValueTooLarge");
}

#[test]
fn limits_of_an_entity() {
    let server = with_table();
    let with_properties = |count: usize| {
        let mut entity = json!({ "PartitionKey": "p", "RowKey": count.to_string() });
        for number in 0..count {
            entity[format!("p{number}")] = json!(number);
        }
        entity
    };
    insert(&server, &with_properties(252)).is(201);
    let too_many = "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. \
                    Each entity also has 3 system properties.";
    insert(&server, &with_properties(253)).is_error(400, "TooManyProperties", too_many);
    let merged = request("MERGE", "/T1x(PartitionKey='p',RowKey='252')")
        .header("If-Match", "*")
        .json(r#"{"more":1}"#);
    merged
        .send(&server)
        .is_error(400, "TooManyProperties", too_many);

    let mut large = json!({ "PartitionKey": "p", "RowKey": "large" });
    for number in 0..17 {
        large[format!("p{number}")] = json!("x".repeat(31_000));
    }
    insert(&server, &large).is_error(
        400,
        "EntityTooLarge",
        "The entity is larger than the maximum allowed size (1MB).",
    );
    let too_large = "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded \
                     and the maximum number of characters should be 32K or less.";
    insert_with(&server, "a", &format!("\"{}\"", "x".repeat(32_769))).is_error(
        400,
        "PropertyValueTooLarge",
        too_large,
    );
    let long_name = "The property name exceeds the maximum allowed length (255).";
    insert_with(&server, &"n".repeat(256), "1").is_error(400, "PropertyNameTooLong", long_name);
    insert_with(&server, "a b", "1").is_error(
        400,
        "PropertyNameInvalid",
        "The property name is invalid.",
    );
    let twice = r#"{"PartitionKey":"p","RowKey":"r","a":1,"a":2}"#;
    let message = "A property is specified more than one time.";
    request("POST", "/T1x").json(twice).send(&server).is_error(
        400,
        "DuplicatePropertiesSpecified",
        message,
    );
    let huge = format!(
        r#"{{"PartitionKey":"p","RowKey":"r","a":"{}"}}"#,
        "x".repeat(5 << 20)
    );
    let message = "The request body is too large and exceeds the maximum permissible limit.";
    request("POST", "/T1x")
        .json(huge)
        .send(&server)
        .is_error(413, "RequestBodyTooLarge", message);
}

#[test]
fn what_a_client_sends_back_is_not_stored() {
    let server = with_table();
    let entity = r#"{"odata.metadata":"m","odata.etag":"e","odata.id":"i","PartitionKey@odata.type":"Edm.String","PartitionKey":"p","RowKey":"r",
                     "Timestamp@odata.type":"Edm.DateTime","Timestamp":"2001-01-01T00:00:00Z","n@odata.type":"Edm.Double","n":7,"gone":null}"#;
    request("POST", "/T1x").json(entity).send(&server).is(201);
    let found = request("GET", "/T1x(PartitionKey='p',RowKey='r')")
        .header("Accept", NO_METADATA)
        .send(&server);
    let stamp = found.json()["Timestamp"].as_str().unwrap().to_string();
    assert!(!stamp.starts_with("2001"));
    assert_eq!(
        found.text(),
        format!(r#"{{"PartitionKey":"p","RowKey":"r","Timestamp":"{stamp}","n":7.0}}"#)
    );
}

#[test]
fn conditions_on_entities() {
    let server = with_table();
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "r" })).is(201);
    let entity = "/T1x(PartitionKey='p',RowKey='r')";
    let put = |name: &str, value: &str| {
        request("PUT", entity)
            .header(name, value)
            .json("{}")
            .send(&server)
    };
    let malformed = "The etag value 'W/\"x\"' specified in one of the request headers is not valid. Please make sure only one etag value is \
                     specified and is valid.";
    put("If-Match", "W/\"x\"").is_error(400, "InvalidInput", malformed);
    let unmet = "The update condition specified in the request was not satisfied.";
    put(
        "If-Match",
        "W/\"datetime'2001-01-01T00%3A00%3A00.0000000Z'\"",
    )
    .is_error(412, "UpdateConditionNotSatisfied", unmet);
    let refused = "If-None-Match HTTP header cannot be specified for PUT operations.";
    put("If-None-Match", "*").is_error(400, "InvalidInput", refused);
    let required = request("DELETE", entity).send(&server);
    assert_eq!(
        (required.status, required.code().as_str()),
        (400, "MissingRequiredHeader")
    );
    request("DELETE", entity)
        .header("If-Match", "*")
        .send(&server)
        .is(204);
    let gone = "The specified resource does not exist.";
    request("DELETE", entity)
        .header("If-Match", "*")
        .send(&server)
        .is_error(404, "ResourceNotFound", gone);
    request("DELETE", "/nosuch(PartitionKey='p',RowKey='r')")
        .header("If-Match", "*")
        .send(&server)
        .is_error(404, "TableNotFound", NO_TABLE);
}

#[test]
fn methods_through_x_http_method() {
    let server = with_table();
    let entity = "/T1x(PartitionKey='p',RowKey='r')";
    let through = |method: &str| request("POST", entity).header("X-HTTP-Method", method);
    through("MERGE").json(r#"{"a":1}"#).send(&server).is(204);
    through("PUT").json(r#"{"b":1}"#).send(&server).is(204);
    through("PATCH")
        .header("If-Match", "*")
        .json(r#"{"c":1}"#)
        .send(&server)
        .is(204);
    let found = request("GET", entity).send(&server).json();
    assert_eq!(
        (found.get("a"), &found["b"], &found["c"]),
        (None, &json!(1), &json!(1))
    );
    through("DELETE")
        .header("If-Match", "*")
        .send(&server)
        .is(204);
    let codes = [
        (
            request("GET", entity).header("X-HTTP-Method", "DELETE"),
            "XMethodNotUsingPost",
        ),
        (through("NONSENSE"), "XMethodIncorrectValue"),
        (
            through("MERGE").header("X-HTTP-Method", "PUT"),
            "XMethodIncorrectCount",
        ),
    ];
    for (request, code) in codes {
        let answer = request.send(&server);
        assert_eq!((answer.status, answer.code().as_str()), (400, code));
    }
}

#[test]
fn bad_queries_are_refused() {
    let server = with_table();
    let query = |query: &str| request("GET", &format!("/T1x()?{query}")).send(&server);
    for filter in [
        "a%20eq",
        "a%20eq%20'open",
        "(a%20eq%201",
        "a%20%3D%201",
        "datetime'x'%20eq%20a",
    ] {
        let answer = query(&format!("$filter={filter}"));
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "InvalidInput"),
            "{filter}"
        );
    }
    let syntax = query("$filter=a%20eq%20'open").message();
    assert!(
        syntax.starts_with("Syntax error at position ") && syntax.ends_with(" in 'a eq 'open'."),
        "{syntax}"
    );
    query("$filter=a%20eq%20null").is_error(400, "InvalidInput", INVALID);
    let null = "The operator 'LessThan' is not supported for the 'null' literal; only equality checks are supported.";
    query("$filter=a%20lt%20null").is_error(400, "InvalidInput", null);
    let not_implemented = "The requested operation is not implemented on the specified resource.";
    query("$filter=a%20eq%20b").is_error(501, "NotImplemented", not_implemented);
    query("$filter=startswith(a,'b')").is_error(501, "NotImplemented", not_implemented);
    for top in ["1001", "-1", "x", "99999999999999999999"] {
        query(&format!("$top={top}")).is_error(400, "InvalidInput", INVALID);
    }
    assert_eq!(query("$top=0").is(200).json()["value"], json!([]));
    assert_eq!(
        query("$filter=&$select=").is(200).json()["value"],
        json!([])
    );
    query("NextPartitionKey=1!4!----&NextRowKey=1!4!----").is(400);
    let deep = format!("$filter={}a%20eq%201{}", "(".repeat(1000), ")".repeat(1000));
    query(&deep).is(400);
    request("GET", "/nosuch()")
        .send(&server)
        .is_error(404, "TableNotFound", NO_TABLE);
}

#[test]
fn pages_carry_tokens_that_lead_on() {
    let server = with_table();
    for row in ["é", "b", "a"] {
        insert(
            &server,
            &json!({ "PartitionKey": "p\u{fc}", "RowKey": row }),
        )
        .is(201);
    }
    let mut rows = Vec::new();
    let mut next = String::new();
    loop {
        let page = request("GET", &format!("/T1x()?$top=1{next}")).send(&server);
        rows.push(
            page.is(200).json()["value"][0]["RowKey"]
                .as_str()
                .unwrap()
                .to_string(),
        );
        let (Some(partition), Some(row)) = (
            page.header("x-ms-continuation-NextPartitionKey"),
            page.header("x-ms-continuation-NextRowKey"),
        ) else {
            break;
        };
        assert!(partition.starts_with("1!") && partition.is_ascii() && row.is_ascii());
        next = format!(
            "&NextPartitionKey={}&NextRowKey={}",
            partition.replace('!', "%21"),
            row.replace('!', "%21")
        );
    }
    assert_eq!(rows, ["a", "b", "é"]);
    for name in ["Aaa", "Bbb"] {
        request("POST", "/Tables")
            .json(json!({ "TableName": name }).to_string())
            .send(&server)
            .is(201);
    }
    let page = request("GET", "/Tables?$top=2").send(&server);
    assert_eq!(page.json()["value"].as_array().unwrap().len(), 2);
    let token = page
        .header("x-ms-continuation-NextTableName")
        .unwrap()
        .replace('!', "%21");
    let last = request("GET", &format!("/Tables?$top=2&NextTableName={token}")).send(&server);
    assert_eq!(last.json()["value"][0]["TableName"], "T1x");
    assert!(last.header("x-ms-continuation-NextTableName").is_none());
}

#[test]
fn formats_nobody_uses_any_more_are_refused() {
    let server = with_table();
    let atom = request("POST", "/T1x")
        .header("Content-Type", "application/atom+xml")
        .body("<entry/>")
        .send(&server);
    atom.is_error(
        415,
        "AtomFormatNotSupported",
        "Atom format is not supported.",
    );
    let atom = request("GET", "/T1x()")
        .header("Accept", "application/atom+xml")
        .send(&server);
    atom.is_error(
        415,
        "AtomFormatNotSupported",
        "Atom format is not supported.",
    );
}

#[test]
fn access_policies_as_xml() {
    let server = with_table();
    let set = |body: &str| {
        request("PUT", "/T1x?comp=acl")
            .header("Content-Type", "application/xml")
            .body(body)
            .send(&server)
    };
    let get = || request("GET", "/T1x?comp=acl").send(&server);
    let policy = "<SignedIdentifier><Id>pol</Id><AccessPolicy><Start>2024-03-01</Start><Expiry>2024-03-02T00:00:00Z</Expiry>\
                  <Permission>raud</Permission></AccessPolicy></SignedIdentifier>";
    set(&format!("<SignedIdentifiers>{policy}</SignedIdentifiers>")).is(204);
    let found = get();
    found.is(200).has_header("Content-Type", "application/xml");
    found
        .has_element("Start", "2024-03-01T00:00:00.0000000Z")
        .has_element("Expiry", "2024-03-02T00:00:00.0000000Z");
    found.has_element("Permission", "raud");
    let malformed = "XML specified is not syntactically valid.";
    let six: String = (0..6)
        .map(|n| policy.replace("pol", &format!("pol{n}")))
        .collect();
    let doctype =
        format!("<!DOCTYPE x [<!ENTITY a \"b\">]><SignedIdentifiers>{policy}</SignedIdentifiers>");
    let six = format!("<SignedIdentifiers>{six}</SignedIdentifiers>");
    let deep = format!("{}{}", "<a>".repeat(50_000), "</a>".repeat(50_000));
    for body in [
        six.as_str(),
        "<SignedIdentifiers>",
        "nonsense",
        &doctype,
        &deep,
    ] {
        let refused = set(body);
        refused
            .is_error(400, "InvalidXmlDocument", malformed)
            .has_header("Content-Type", "application/xml");
    }
    get().has_element("Permission", "raud");
    set("").is(204);
    assert!(!get().text().contains("<Id>"));
    request("GET", "/nosuch?comp=acl")
        .send(&server)
        .is_error(404, "TableNotFound", NO_TABLE);
}

#[test]
fn statistics_are_not_on_the_primary() {
    let server = Server::fresh();
    let refused = request("GET", "/?restype=service&comp=stats").send(&server);
    let found = (refused.status, refused.code());
    assert_eq!(found, (400, "InvalidQueryParameterValue".to_string()));
}

/// One change of a transaction.
fn change(method: &str, target: &str, headers: &str, body: &str) -> String {
    format!(
        "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         {method} http://any.host:1/devstoreaccount1{target} HTTP/1.1\r\nContent-Type: application/json\r\n{headers}\r\n{body}\r\n"
    )
}

fn insert_change(partition: &str, row: &str) -> String {
    let body = json!({ "PartitionKey": partition, "RowKey": row }).to_string();
    change("POST", "/T1x", "Prefer: return-no-content\r\n", &body)
}

fn transaction(server: &Server, changes: &str) -> Response {
    let body = format!(
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n{changes}--changeset_1--\r\n--batch_1--\r\n"
    );
    request("POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=batch_1")
        .body(body)
        .send(server)
}

/// Checks that a transaction failed: the status line, code and message of its one sub-answer.
#[track_caller]
fn fails(answer: &Response, status: &str, code: &str, message: &str) {
    answer.is(202);
    let text = answer.text();
    assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
    assert!(text.contains(&format!("HTTP/1.1 {status}\r\n")), "{text}");
    let json = &text[text.find('{').expect("an error has a body")..=text.rfind('}').unwrap()];
    let error = &serde_json::from_str::<Value>(json).unwrap()["odata.error"];
    let value = error["message"]["value"].as_str().unwrap();
    assert_eq!(
        (
            error["code"].as_str().unwrap(),
            value.split("\nRequestId:").next().unwrap()
        ),
        (code, message)
    );
}

fn rows(server: &Server) -> Vec<String> {
    let found = request("GET", "/T1x()").send(server).json();
    found["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["RowKey"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn a_transaction_answers_part_by_part() {
    let server = with_table();
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "old" })).is(201);
    let with_body = change(
        "POST",
        "/T1x",
        "Accept: application/json;odata=nometadata\r\n",
        r#"{"PartitionKey":"p","RowKey":"b"}"#,
    );
    let delete = change(
        "DELETE",
        "/T1x(PartitionKey='p',RowKey='old')",
        "If-Match: *\r\n",
        "",
    );
    let answer = transaction(&server, &(insert_change("p", "a") + &with_body + &delete));
    answer.is(202);
    let kind = answer.header("Content-Type").unwrap();
    let boundary = kind.strip_prefix("multipart/mixed; boundary=").unwrap();
    assert!(boundary.starts_with("batchresponse_"));
    let text = answer.text();
    assert!(
        text.starts_with(&format!(
            "--{boundary}\r\nContent-Type: multipart/mixed; boundary=changesetresponse_"
        )),
        "{text}"
    );
    assert!(
        text.trim_end().ends_with(&format!("--{boundary}--")),
        "{text}"
    );
    let parts: Vec<&str> = text.split("--changesetresponse_").collect();
    assert_eq!(parts.len(), 5, "{text}");
    assert!(parts[1].contains("\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 204 No Content\r\n"));
    assert!(
        parts[1].contains("\r\nPreference-Applied: return-no-content\r\n"),
        "{}",
        parts[1]
    );
    assert!(
        parts[1].contains("/T1x(PartitionKey='p',RowKey='a')\r\n"),
        "{}",
        parts[1]
    );
    assert!(parts[1].contains("\r\nETag: W/\"datetime'"), "{}", parts[1]);
    assert!(
        parts[1].ends_with("\r\n\r\n\r\n") || parts[1].ends_with("\r\n\r\n"),
        "{:?}",
        parts[1]
    );
    assert!(
        parts[2].contains("HTTP/1.1 201 Created\r\n")
            && parts[2].contains(r#"{"PartitionKey":"p","RowKey":"b""#),
        "{}",
        parts[2]
    );
    assert!(
        parts[3].contains("HTTP/1.1 204 No Content\r\n") && !parts[3].contains("ETag"),
        "{}",
        parts[3]
    );
    assert_eq!(rows(&server), ["a", "b"]);
}

#[test]
fn a_transaction_that_fails_names_its_operation_and_does_nothing() {
    let server = with_table();
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "there" })).is(201);
    let first = insert_change("p", "new");
    let target = |row: &str| format!("/T1x(PartitionKey='p',RowKey='{row}')");
    let missing = change("MERGE", &target("absent"), "If-Match: *\r\n", "{}");
    let stale = change(
        "PUT",
        &target("there"),
        "If-Match: W/\"datetime'2001-01-01T00%3A00%3A00.0000000Z'\"\r\n",
        "{}",
    );
    let cases = [
        (
            insert_change("p", "there"),
            "409 Conflict",
            "EntityAlreadyExists",
            "1:The specified entity already exists.",
        ),
        (
            missing,
            "404 Not Found",
            "ResourceNotFound",
            "1:The specified resource does not exist.",
        ),
        (
            stale,
            "412 Precondition Failed",
            "UpdateConditionNotSatisfied",
            "1:The update condition specified in the request was not satisfied.",
        ),
        (
            insert_change("other", "r"),
            "400 Bad Request",
            "CommandsInBatchActOnDifferentPartitions",
            "1:All commands in a batch must operate on same entity group.",
        ),
        (
            insert_change("p", "new"),
            "400 Bad Request",
            "InvalidDuplicateRow",
            "1:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
        ),
    ];
    for (second, status, code, message) in cases {
        fails(
            &transaction(&server, &(first.clone() + &second)),
            status,
            code,
            message,
        );
        assert_eq!(rows(&server), ["there"]);
    }
    let elsewhere = change(
        "POST",
        "/nosuch",
        "",
        r#"{"PartitionKey":"p","RowKey":"r"}"#,
    );
    fails(
        &transaction(&server, &elsewhere),
        "404 Not Found",
        "TableNotFound",
        "0:The table specified does not exist.",
    );
    let many: String = (0..101)
        .map(|n| insert_change("p", &n.to_string()))
        .collect();
    let message = "99:The batch request operation exceeds the maximum 100 changes per change set.";
    fails(
        &transaction(&server, &many),
        "400 Bad Request",
        "InvalidInput",
        message,
    );
    assert_eq!(rows(&server), ["there"]);
}

#[test]
fn a_malformed_batch_is_refused_as_a_whole() {
    let server = with_table();
    let post = |kind: &str, body: &str| {
        request("POST", "/$batch")
            .header("Content-Type", kind)
            .body(body)
            .send(&server)
    };
    let multipart = "multipart/mixed; boundary=batch_1";
    for (kind, body) in [
        (multipart, ""),
        (multipart, "nonsense"),
        (multipart, "--batch_1\r\n\r\n\r\n--batch_1--\r\n"),
        ("multipart/mixed", "--batch_1--\r\n"),
        ("application/json", "{}"),
        (
            multipart,
            "--batch_1\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\nNONSENSE\r\n--c--\r\n--batch_1--\r\n",
        ),
    ] {
        let answer = post(kind, body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "InvalidInput"),
            "{kind} {body:?}: {}",
            answer.text()
        );
    }
    let message = "The request body is too large and exceeds the maximum permissible limit.";
    post(multipart, &"x".repeat((4 << 20) + 1)).is_error(413, "RequestBodyTooLarge", message);
}

#[test]
fn a_batch_may_be_one_get() {
    let server = with_table();
    insert(
        &server,
        &json!({ "PartitionKey": "p", "RowKey": "it's", "a": 1 }),
    )
    .is(201);
    let get = |row: &str| {
        let inner = format!(
            "GET /devstoreaccount1/T1x(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nAccept: {NO_METADATA}\r\n"
        );
        let body = format!(
            "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{inner}\r\n\r\n--batch_1--\r\n"
        );
        request("POST", "/$batch")
            .header("Content-Type", "multipart/mixed; boundary=\"batch_1\"")
            .body(body)
            .send(&server)
    };
    let found = get("it%27%27s");
    found.is(202);
    let text = found.text();
    assert!(
        text.contains("HTTP/1.1 200 OK\r\n")
            && text.contains(r#""RowKey":"it's""#)
            && text.contains(r#""a":1"#),
        "{text}"
    );
    let missing = get("none").text();
    assert!(
        missing.contains("HTTP/1.1 404 Not Found\r\n") && missing.contains("ResourceNotFound"),
        "{missing}"
    );
}

//! Entities: how they are written and returned, and which are refused.

use serde_json::{Value, json};

use super::{
    FULL_METADATA, INVALID, MINIMAL_METADATA, NO_METADATA, NO_TABLE, insert, insert_with, request,
    with_table,
};
use crate::http::Connection;
use crate::server::Service;

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
fn odata_annotations_of_a_client_are_not_stored() {
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
    let malformed = "The etag value '\"x\"' specified in one of the request headers is not valid. Please make sure only one etag value is \
                     specified and is valid.";
    put("If-Match", "\"x\"").is_error(400, "InvalidInput", malformed);
    let empty = malformed.replace("\"x\"", "");
    put("If-Match", "").is_error(400, "InvalidInput", &empty);
    let unmet = "The update condition specified in the request was not satisfied.";
    let other = "W/\"datetime'2001-01-01T00%3A00%3A00.0000000Z'\"";
    for etag in [other, "W/\"wrong\"", "w/\"wrong\"", "W/\"datetime'x'\""] {
        put("If-Match", etag).is_error(412, "UpdateConditionNotSatisfied", unmet);
    }
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
fn truth_is_read_in_any_case() {
    let server = with_table();
    for (row, text, truth) in [
        ("a", "True", true),
        ("b", "TRUE", true),
        ("c", "faLse", false),
    ] {
        let entity =
            json!({ "PartitionKey": "p", "RowKey": row, "B@odata.type": "Edm.Boolean", "B": text });
        assert_eq!(insert(&server, &entity).is(201).json()["B"], json!(truth));
    }
    let found = |filter: &str| {
        let target = format!("/T1x()?$filter={filter}&$select=RowKey");
        let rows = request("GET", &target)
            .header("Accept", NO_METADATA)
            .send(&server);
        rows.is(200).json()["value"].as_array().unwrap().len()
    };
    assert_eq!((found("B%20eq%20TRUE"), found("B%20eq%20False")), (2, 1));
    let wrong =
        json!({ "PartitionKey": "p", "RowKey": "d", "B@odata.type": "Edm.Boolean", "B": "yes" });
    insert(&server, &wrong).is_error(400, "InvalidInput", INVALID);
}

#[test]
fn a_body_that_is_needed_has_a_length() {
    let server = with_table();
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>kept</Id><AccessPolicy>\
         <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let acl = |method: &str| request(method, "/T1x?comp=acl");
    acl("PUT").body(policies).send(&server).is(204);
    let entity = "/T1x(PartitionKey='p',RowKey='r')";
    for (method, target) in [
        ("PUT", "/T1x?comp=acl"),
        ("PUT", "/?restype=service&comp=properties"),
        ("POST", "/Tables"),
        ("POST", "/T1x"),
        ("PUT", entity),
        ("PATCH", entity),
        ("MERGE", entity),
        ("POST", "/$batch"),
    ] {
        let refused = request(method, target).without("Content-Length");
        let refused = refused.send(&server);
        let message = "The Content-Length header was not specified.";
        refused.is_error(411, "MissingContentLengthHeader", message);
    }
    acl("GET").send(&server).is(200).has_element("Id", "kept");
    acl("PUT").send(&server).is(204);
    assert_eq!(acl("GET").send(&server).element("Id"), None);
    // Operations without a body need no Content-Length.
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "r" })).is(201);
    let deleted = request("DELETE", entity).header("If-Match", "*");
    deleted.without("Content-Length").send(&server).is(204);
}

#[test]
fn a_body_where_none_belongs_is_refused() {
    let server = with_table();
    let entity = "/T1x(PartitionKey='p',RowKey='r')";
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "r" })).is(201);
    for (method, target) in [
        ("GET", "/Tables"),
        ("GET", "/Tables('T1x')"),
        ("DELETE", "/Tables('T1x')"),
        ("GET", "/T1x()"),
        ("GET", entity),
        ("DELETE", entity),
        ("GET", "/T1x?comp=acl"),
        ("GET", "/?restype=service&comp=properties"),
    ] {
        let message = "The request has a body, which this operation does not take.";
        let request = || request(method, target).header("If-Match", "*");
        request()
            .json("{}")
            .send(&server)
            .is_error(400, "InvalidInput", message);
        let chunked = |body: &str| {
            let mut bytes = request().header("Transfer-Encoding", "chunked").bytes();
            bytes.extend(body.as_bytes());
            let mut connection = Connection::open(&server, Service::Table).unwrap();
            connection.send_bytes(&bytes, method).unwrap()
        };
        chunked("2\r\n{}\r\n0\r\n\r\n").is_error(400, "InvalidInput", message);
        if method == "GET" {
            chunked("0\r\n\r\n").is(200);
        }
    }
    request("GET", entity).send(&server).is(200);
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
fn addresses_that_mean_nothing() {
    let server = with_table();
    let syntax = "Bad Request - Error in query syntax.";
    for keys in [
        "PartitionKey='a%2Fb',RowKey='r'",
        "PartitionKey='a%5Cb',RowKey='r'",
        "PartitionKey='a'",
        "nonsense",
    ] {
        let refused = request("GET", &format!("/T1x({keys})")).send(&server);
        refused.is_error(400, "InvalidInput", syntax);
    }
    let range = "One of the request inputs is out of range.";
    for key in ["a%23b", "a%3Fb", "a%09b", "a%7Fb"] {
        let target = format!("/T1x(PartitionKey='{key}',RowKey='r')");
        let refused = request("GET", &target).send(&server);
        refused.is_error(400, "OutOfRangeInput", range);
    }
    let method = "The requested method is not allowed on the specified resource.";
    for (verb, target) in [
        ("POST", "/Tables('x')"),
        ("PUT", "/T1x()"),
        ("DELETE", "/T1x"),
    ] {
        let refused = request(verb, target).send(&server);
        refused.is_error(405, "MethodNotAllowed", method);
    }
    let other = request("PUT", "/T1x(PartitionKey='a',RowKey='r')").json(r#"{"PartitionKey":"b"}"#);
    let refused = other.send(&server);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "InvalidInput")
    );
    request("GET", "/T1x(PartitionKey='b',RowKey='r')")
        .send(&server)
        .is(404);
}

#[test]
fn timestamps_are_in_the_order_of_writes_and_not_of_arrivals() {
    let server = with_table();
    let upsert = |name: &str, value: &str| {
        request("PUT", "/T1x(PartitionKey='p',RowKey='r')")
            .json(format!(r#"{{"{name}":"{value}"}}"#))
    };
    let read =
        |response: crate::http::Response| response.is(204).header("ETag").unwrap().to_owned();
    let slow = upsert("Slow", "x").header("Expect", "100-continue").bytes();
    let body_start = slow.len() - r#"{"Slow":"x"}"#.len();
    let mut connection = Connection::open(&server, Service::Table).unwrap();
    let begun = connection.send_bytes(&slow[..body_start], "PUT").unwrap();
    begun.is(100);
    let quick = read(upsert("Quick", "x").send(&server));
    let slow = read(connection.send_bytes(&slow[body_start..], "PUT").unwrap());
    assert!(quick < slow, "{quick} {slow}");
}

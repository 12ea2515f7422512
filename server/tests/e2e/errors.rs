//! Each row of the services' error tables once, under its code: the request that causes it, its
//! status and its message. Rows that this server never answers are named with the reason. Source:
//! Table service error codes; Queue service error codes.

use crate::http::{Connection, Request};
use crate::server::{Server, Service};

/// A row: code, status and beginning of the message of an error, and a request that causes it.
pub(crate) type Row = (&'static str, u16, &'static str, Request);

/// Sends the request of each row in order, and compares the response.
pub(crate) fn check(server: &Server, rows: Vec<Row>) {
    for (code, status, message, request) in rows {
        let answer = request.send(server);
        let found = (answer.code(), answer.status);
        assert_eq!(
            found,
            (code.to_string(), status),
            "{message}\n{}",
            answer.text()
        );
        let text = answer.message();
        assert!(text.starts_with(message), "{code} says {text:?}");
    }
}

fn table(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
}

fn insert(properties: &str) -> Request {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"new",{properties}}}"#);
    table("POST", "/Things").json(body)
}

fn insert_at(partition_key: &str) -> Request {
    let body = format!(r#"{{"PartitionKey":"{partition_key}","RowKey":"new"}}"#);
    table("POST", "/Things").json(body)
}

fn create(name: &str) -> Request {
    table("POST", "/Tables").json(format!(r#"{{"TableName":"{name}"}}"#))
}

/// A transaction that inserts or merges these entities (partition, row).
fn transaction(rows: &[(&str, &str)]) -> Request {
    let mut body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_string();
    for (partition, row) in rows {
        body += &format!(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             PATCH /devstoreaccount1/Things(PartitionKey='{partition}',RowKey='{row}') HTTP/1.1\r\n\
             Content-Type: application/json\r\n\r\n{{\"a\":1}}\r\n"
        );
    }
    body += "--c--\r\n--b--\r\n";
    let request = table("POST", "/$batch").header("Content-Type", "multipart/mixed; boundary=b");
    request.body(body)
}

/// Codes of the documented table that this test leaves out: `EntityNotFound` (this server answers
/// `ResourceNotFound`, as the hosted service does), `TableBeingDeleted` (answered only with
/// `--as-azure`: `crate::targets`), `JsonFormatNotSupported` (every version gets JSON),
/// `InvalidValueType` (a value that does not fit its type is `InvalidInput`).
#[test]
fn each_row_of_the_tables_error_table() {
    let server = Server::fresh();
    create("Things").send(&server).is(201);
    table("POST", "/Things")
        .json(r#"{"PartitionKey":"p","RowKey":"r"}"#)
        .send(&server)
        .is(201);
    let there = "/Things(PartitionKey='p',RowKey='r')";
    let many: Vec<_> = (0..253).map(|n| format!(r#""p{n}":1"#)).collect();
    let text = format!("\"{}\"", "x".repeat(32_000));
    let large: Vec<_> = (0..20).map(|n| format!(r#""p{n}":{text}"#)).collect();
    let method = |value: &str| table("POST", there).header("X-HTTP-Method", value);
    let stale = r#"W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'""#;
    #[rustfmt::skip]
    let rows = vec![
        ("AtomFormatNotSupported", 415, "Atom format is not supported.",
         table("POST", "/Things")
             .header("Content-Type", "application/atom+xml")
             .body("<entry/>")),
        ("DuplicatePropertiesSpecified", 400, "A property is specified more than one time.",
         insert(r#""a":1,"a":2"#)),
        ("EntityAlreadyExists", 409, "The specified entity already exists.",
         table("POST", "/Things").json(r#"{"PartitionKey":"p","RowKey":"r"}"#)),
        ("EntityTooLarge", 400, "The entity is larger than the maximum allowed size (1MB).",
         insert(&large.join(","))),
        ("InvalidInput", 400, "One of the request inputs is not valid.", insert(r#""a":[1]"#)),
        ("InvalidInput", 400, "Bad Request - Error in query syntax.",
         table("GET", "/Things(PartitionKey='p')")),
        ("InvalidResourceName", 400, "The specifed resource name contains invalid characters.",
         create("a-b")),
        ("MethodNotAllowed", 405, "The requested method is not allowed on the specified resource.",
         table("PUT", "/Things").json("{}")),
        ("NotImplemented", 501, "The requested operation is not implemented on the specified resource.",
         table("GET", "/Things?$filter=a%20eq%20b")),
        ("OutOfRangeInput", 400, "The 'PartitionKey' parameter of value 'a/b' is out of range.",
         insert_at("a/b")),
        ("OutOfRangeInput", 400, "One of the request inputs is out of range.",
         table("GET", "/Things(PartitionKey='a%23b',RowKey='r')")),
        ("OutOfRangeInput", 400, "The specified resource name length is not within the permissible limits.",
         create("ab")),
        ("PropertiesNeedValue", 400, "The values are not specified for all properties in the entity.",
         table("POST", "/Things").json(r#"{"PartitionKey":"p"}"#)),
        ("PropertyNameInvalid", 400, "The property name is invalid.", insert(r#""a b":1"#)),
        ("PropertyNameTooLong", 400, "The property name exceeds the maximum allowed length (255).",
         insert(&format!(r#""{}":1"#, "n".repeat(256)))),
        ("PropertyValueTooLarge", 400, "The property value exceeds the maximum allowed size (64KB).",
         insert(&format!(r#""a":"{}""#, "x".repeat(32_769)))),
        ("RequestBodyTooLarge", 413, "The request body is too large and exceeds the maximum permissible limit.",
         insert(&format!(r#""a":"{}""#, "x".repeat(5 << 20)))),
        ("ResourceNotFound", 404, "The specified resource does not exist.",
         table("GET", "/Things(PartitionKey='p',RowKey='none')")),
        ("TableAlreadyExists", 409, "The table specified already exists.", create("tHINGS")),
        ("TableNotFound", 404, "The table specified does not exist.", table("GET", "/None()")),
        ("TooManyProperties", 400, "The entity contains more properties than allowed.",
         insert(&many.join(","))),
        ("UpdateConditionNotSatisfied", 412, "The update condition specified in the request was not satisfied.",
         table("PUT", there).header("If-Match", stale).json("{}")),
        ("XMethodIncorrectCount", 400, "X-HTTP-Method was specified more than once.",
         method("PUT").header("X-HTTP-Method", "PUT")),
        ("XMethodIncorrectValue", 400, "The specified X-HTTP-Method is invalid.",
         method("FETCH")),
        ("XMethodNotUsingPost", 400, "The request uses X-HTTP-Method with an HTTP verb other than POST.",
         table("PUT", there).header("X-HTTP-Method", "MERGE")),
    ];
    check(&server, rows);
}

#[test]
fn each_row_of_the_error_table_that_only_a_transaction_meets() {
    let server = Server::fresh();
    create("Things").send(&server).is(201);
    for (code, message, rows) in [
        (
            "CommandsInBatchActOnDifferentPartitions",
            "1:All commands in a batch must operate on same entity group.",
            [("p", "r"), ("q", "r")],
        ),
        (
            "InvalidDuplicateRow",
            "1:The batch request contains multiple changes with same row key.",
            [("p", "r"), ("p", "r")],
        ),
    ] {
        let answer = transaction(&rows).send(&server);
        let text = answer.is(202).text();
        assert!(
            text.contains("HTTP/1.1 400 ") && text.contains(code) && text.contains(message),
            "{text}"
        );
    }
}

#[test]
fn a_request_must_name_its_host() {
    let server = Server::fresh();
    for service in Service::ALL {
        let mut connection = Connection::open(&server, service).unwrap();
        let bytes = b"GET /devstoreaccount1?comp=list HTTP/1.1\r\n\r\n";
        let answer = connection.send_bytes(bytes, "GET").unwrap();
        let message = "The required host information is not present in the request";
        assert_eq!(
            (answer.status, &*answer.code()),
            (400, "HostInformationNotPresent")
        );
        assert!(answer.message().starts_with(message));
    }
}

fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

fn put(parameters: &str, text: &str) -> Request {
    let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    queue("POST", &format!("/things/messages{parameters}")).body(body)
}

/// Codes of the documented table that this test leaves out: `MessageTooLarge` (this server answers
/// `RequestBodyTooLarge`), `QueueBeingDeleted` (answered only with `--as-azure`: `crate::targets`),
/// `QueueDisabled` and `QueueNotEmpty` (no request causes them).
#[test]
fn each_row_of_the_queues_error_table() {
    let server = Server::fresh();
    queue("PUT", "/things")
        .header("x-ms-meta-a", "1")
        .send(&server)
        .is(201);
    let message = put("", "x").send(&server);
    let (id, old) = (
        message.element("MessageId").unwrap(),
        message.element("PopReceipt").unwrap(),
    );
    queue("GET", "/things/messages").send(&server).is(200);
    let at = |id: &str| format!("/things/messages/{id}");
    let unknown = "5974b586-0df3-4e2d-ad0c-18e3892bfca2";
    let value = "Value for one of the query parameters specified in the request URI is invalid.";
    let range = "One of the query parameters specified in the request URI is outside the permissible range.";
    #[rustfmt::skip]
    let rows = vec![
        ("InvalidMarker", 400, "The specified marker is invalid.",
         queue("GET", "/?comp=list&marker=%2Fother%2Fq")),
        ("InvalidQueryParameterValue", 400, value, put("?messagettl=0", "x")),
        ("InvalidResourceName", 400, "The specified resource name contains invalid characters.",
         queue("PUT", "/a--b")),
        ("InvalidXmlDocument", 400, "XML specified is not syntactically valid.",
         queue("POST", "/things/messages").body("<QueueMessage>")),
        ("MissingRequiredXmlNode", 400, "A required XML node was not specified in the request body.",
         queue("POST", "/things/messages").body("<QueueMessage/>")),
        ("MessageNotFound", 404, "The specified message does not exist.",
         queue("DELETE", &format!("{}?popreceipt={old}", at(unknown)))),
        ("MissingRequiredQueryParameter", 400, "A query parameter that's mandatory for this request is not specified.",
         queue("DELETE", &at(&id))),
        ("OutOfRangeInput", 400, "The specified resource name length is not within the permissible limits.",
         queue("PUT", "/ab")),
        ("OutOfRangeQueryParameterValue", 400, range,
         queue("GET", "/things/messages?numofmessages=33")),
        ("PopReceiptMismatch", 400, "The specified pop receipt did not match the pop receipt for a dequeued message.",
         queue("DELETE", &format!("{}?popreceipt={old}", at(&id)))),
        ("QueueAlreadyExists", 409, "The specified queue already exists.",
         queue("PUT", "/things").header("x-ms-meta-a", "2")),
        ("QueueNotFound", 404, "The specified queue does not exist.",
         queue("GET", "/none/messages")),
        ("RequestBodyTooLarge", 413, "The request body is too large and exceeds the maximum permissible limit.",
         put("", &"x".repeat(65_537))),
        ("EmptyMetadataKey", 400, "The key for one of the metadata key-value pairs is empty.",
         queue("PUT", "/more").header("x-ms-meta-", "1")),
        ("InvalidMetadata", 400, "The metadata specified is invalid.",
         queue("PUT", "/more").header("x-ms-meta-a-b", "1")),
        ("MetadataTooLarge", 400, "The metadata specified exceeds the maximum permissible limit (8KB).",
         queue("PUT", "/more").header("x-ms-meta-a", &"x".repeat(8_192))),
        ("UnsupportedHttpVerb", 405, "The resource doesn't support the specified HTTP verb.",
         queue("POST", "/things")),
    ];
    check(&server, rows);
}

/// Times to live of more than a week came with a later version. Source: Put Message, "URI
/// parameters", `messagettl`.
#[test]
fn old_versions_keep_messages_for_a_week_at_most() {
    let server = Server::fresh();
    queue("PUT", "/things").send(&server).is(201);
    for ttl in ["-1", "604801"] {
        let old = put(&format!("?messagettl={ttl}"), "x").header("x-ms-version", "2016-05-31");
        assert_eq!(old.send(&server).code(), "InvalidQueryParameterValue");
        put(&format!("?messagettl={ttl}"), "x")
            .header("x-ms-version", "2017-07-29")
            .send(&server)
            .is(201);
    }
}

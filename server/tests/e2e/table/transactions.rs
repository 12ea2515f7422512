//! Entity group transactions: the parts of their answers, and the operation that failed. After a
//! failure, nothing has changed.

use serde_json::{Value, json};

use super::{NO_METADATA, insert, request, with_table};
use crate::http::Response;
use crate::server::{KEY, Launch, Server};

/// One change of a transaction.
pub(super) fn change(method: &str, target: &str, headers: &str, body: &str) -> String {
    format!(
        "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         {method} http://any.host:1/devstoreaccount1{target} HTTP/1.1\r\nContent-Type: application/json\r\n{headers}\r\n{body}\r\n"
    )
}

pub(super) fn insert_change(partition: &str, row: &str) -> String {
    let body = json!({ "PartitionKey": partition, "RowKey": row }).to_string();
    change("POST", "/T1x", "Prefer: return-no-content\r\n", &body)
}

pub(super) fn transaction(server: &Server, changes: &str) -> Response {
    let body = format!(
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n{changes}--changeset_1--\r\n--batch_1--\r\n"
    );
    request("POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=batch_1")
        .body(body)
        .send(server)
}

/// Checks that a transaction failed with this status line, code and message in its only part.
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

/// As in a single operation, an input that the operation's row does not read is refused or has no
/// effect, and an unknown input passes.
#[test]
fn operations_of_a_batch_are_refused_inputs_that_they_do_not_read() {
    let server = with_table();
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "there" })).is(201);
    let there = "/T1x(PartitionKey='p',RowKey='there')";
    let new = json!({ "PartitionKey": "p", "RowKey": "new" }).to_string();
    let unsupported_header = "1:One of the HTTP headers specified in the request is not supported.";
    let invalid_parameter =
        "1:Value for one of the query parameters specified in the request URI is invalid.";
    for (second, status, code, message) in [
        (
            change("POST", "/T1x", "If-Match: *\r\n", &new),
            "400 Bad Request",
            "ConditionHeadersNotSupported",
            "1:Condition headers are not supported.",
        ),
        (
            change("PUT", there, "x-ms-lease-id: 1\r\n", "{}"),
            "400 Bad Request",
            "UnsupportedHeader",
            unsupported_header,
        ),
        (
            change("PUT", there, "If-Match: *\r\nif-match: *\r\n", "{}"),
            "400 Bad Request",
            "MultipleConditionHeadersNotSupported",
            "1:Multiple condition headers are not supported.",
        ),
        (
            change("PUT", &format!("{there}?$top=1"), "", "{}"),
            "400 Bad Request",
            "UnsupportedQueryParameter",
            "1:One of the query parameters specified in the request URI is not supported.",
        ),
        (
            change("PUT", &format!("{there}?$expand=a"), "", "{}"),
            "501 Not Implemented",
            "NotImplemented",
            "1:A query option of OData ($expand) is not supported by this version of Lazurite.",
        ),
        (
            change("PUT", &format!("{there}?timeout=soon"), "", "{}"),
            "400 Bad Request",
            "InvalidQueryParameterValue",
            invalid_parameter,
        ),
        (
            change("PUT", &format!("{there}?comp=acl"), "", "{}"),
            "400 Bad Request",
            "InvalidQueryParameterValue",
            invalid_parameter,
        ),
    ] {
        let answer = transaction(&server, &(insert_change("p", "first") + &second));
        fails(&answer, status, code, message);
        assert_eq!(rows(&server), ["there"], "{code}");
    }
    let ignored = change(
        "PUT",
        &format!("{there}?timeout=5&$format=json&_=1"),
        "Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\nx-ms-client-request-id: 1\r\n",
        "{}",
    );
    let answer = transaction(&server, &(insert_change("p", "first") + &ignored));
    assert_eq!(answer.text().matches("HTTP/1.1 204").count(), 2);
}

/// If such a row were written, it would be in a store that the client does not mean.
#[test]
fn operations_that_name_another_account_or_fork_are_refused() {
    let location = tempfile::TempDir::new().unwrap();
    let accounts = format!("devstoreaccount1:{KEY};other:{KEY}");
    let launch = Launch::on(location.path()).argument("--forks");
    let server = launch.environment("AZURITE_ACCOUNTS", &accounts).start();
    request("POST", "/Tables")
        .json(r#"{"TableName":"T1x"}"#)
        .send(&server)
        .is(201);
    let write = |place: &str, row: &str| {
        let usual = "http://any.host:1/devstoreaccount1/T1x";
        let change = insert_change("p", row).replace(usual, place);
        transaction(&server, &change)
    };
    for place in [
        "http://any.host:1/other/T1x",
        "http://any.host:1/devstoreaccount1--fork/T1x",
        "http://any.host:1/unknown/T1x",
        "/other/T1x",
        "http://other.table.localhost:1/T1x",
    ] {
        let text = write(place, "no").is(202).text();
        assert!(text.contains("HTTP/1.1 400 "), "{place}: {text}");
    }
    for (row, place) in [
        "http://any.host:1/devstoreaccount1/T1x",
        "http://any.host:1/proxy/devstoreaccount1/T1x",
        "http://devstoreaccount1.table.localhost:1/T1x",
        "/devstoreaccount1/T1x",
        "/T1x",
        "T1x",
    ]
    .into_iter()
    .enumerate()
    {
        let text = write(place, &row.to_string()).is(202).text();
        assert!(text.contains("HTTP/1.1 204 "), "{place}: {text}");
    }
    assert_eq!(rows(&server).len(), 6);
    let query = read_alone_at(&server, "http://any.host:1/other/T1x()");
    assert!(query.text().contains("HTTP/1.1 400 "), "{}", query.text());
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
        let address = format!("(PartitionKey='p',RowKey='{row}')");
        read_alone(&server, &address)
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
    let selected = get("it%27%27s").text();
    assert!(selected.contains(r#""a":1"#), "{selected}");
    let missing = get("none").text();
    assert!(
        missing.contains("HTTP/1.1 404 Not Found\r\n") && missing.contains("ResourceNotFound"),
        "{missing}"
    );
}

/// A batch with a single read in the table: of an entity, or a query.
fn read_alone(server: &Server, address: &str) -> Response {
    read_alone_at(server, &format!("/devstoreaccount1/T1x{address}"))
}

fn read_alone_at(server: &Server, target: &str) -> Response {
    let inner = format!("GET {target} HTTP/1.1\r\nAccept: {NO_METADATA}\r\n");
    let body = format!(
        "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{inner}\r\n\r\n--batch_1--\r\n"
    );
    request("POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=\"batch_1\"")
        .body(body)
        .send(server)
}

/// The head lines and the JSON of the only part of a response.
fn part(answer: &Response) -> (Vec<String>, serde_json::Value) {
    answer.is(202);
    let text = answer.text();
    let mut sections = text.splitn(3, "\r\n\r\n").skip(1);
    let head = sections.next().unwrap().lines().map(str::to_owned);
    let body = sections.next().unwrap();
    let body = &body[..body.rfind("--batchresponse").unwrap()];
    (head.collect(), serde_json::from_str(body.trim()).unwrap())
}

#[test]
fn a_batch_may_be_one_query() {
    let server = with_table();
    for row in 0..5 {
        let entity = json!({ "PartitionKey": "p", "RowKey": row.to_string(), "a": row, "b": "x" });
        insert(&server, &entity).is(201);
    }
    let (mut seen, mut continued) = (Vec::new(), String::new());
    for _ in 0..2 {
        let query = format!("()?$filter=a%20gt%200&$select=RowKey,a&$top=2{continued}");
        let (head, body) = part(&read_alone(&server, &query));
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        seen.extend(body["value"].as_array().unwrap().clone());
        let next = |name: &str| {
            let start = format!("x-ms-continuation-{name}: ");
            let line = head.iter().find_map(|line| line.strip_prefix(&start));
            line.map(|token| format!("&{name}={token}"))
        };
        continued = next("NextPartitionKey")
            .zip(next("NextRowKey"))
            .map_or(String::new(), |(partition, row)| partition + &row);
    }
    assert_eq!(continued, "");
    let expected: Vec<_> = (1..5)
        .map(|row| json!({ "RowKey": row.to_string(), "a": row }))
        .collect();
    assert_eq!(seen, expected);
    let all = part(&read_alone(&server, "")).1;
    assert_eq!(all["value"].as_array().unwrap().len(), 5);
    let (_, full) = part(&read_alone(
        &server,
        "()?$format=application/json;odata=fullmetadata&$top=1",
    ));
    assert!(full["odata.metadata"].is_string(), "{full}");
}

#[test]
fn a_refused_query_in_a_batch_fails_in_its_part() {
    let server = with_table();
    for (query, status, code) in [
        ("()?$filter=a%20gt", "400", "InvalidInput"),
        ("()?$top=1001", "400", "InvalidInput"),
        ("()?$orderby=a", "501", "NotImplemented"),
        ("?comp=acl", "400", "InvalidQueryParameterValue"),
        ("()?timeout=soon", "400", "InvalidQueryParameterValue"),
        ("none()", "404", "TableNotFound"),
        (
            "()?$format=application/atom%2Bxml",
            "415",
            "AtomFormatNotSupported",
        ),
    ] {
        let (head, body) = part(&read_alone(&server, query));
        assert!(
            head[0].starts_with(&format!("HTTP/1.1 {status} ")),
            "{head:?}"
        );
        assert_eq!(body["odata.error"]["code"], code, "{query}");
    }
}

/// As azure-storage 2.10.7 writes it: bare line feeds, lower-case names, Atom accepted for the
/// whole and JSON for the parts.
#[test]
fn the_legacy_client_of_node_js_is_understood() {
    let server = with_table();
    let part = |id: &str, request: &str, body: &str| {
        format!(
            "--changeset_1\ncontent-type: application/http\ncontent-transfer-encoding: binary\n\n{request} HTTP/1.1\n\
             content-length: {}\ncontent-type: application/json;type=entry\naccept: application/json;odata=minimalmetadata\n\
             maxdataserviceversion: 3.0;NetFx\n{id}\n{body}\n",
            body.len()
        )
    };
    let table = "POST http://127.0.0.1:10002/devstoreaccount1/T1x";
    let body = [
        "--batch_1\ncontent-type: multipart/mixed;charset=\"utf-8\";boundary=changeset_1\n\n",
        &part("", table, r#"{"PartitionKey":"p","RowKey":"x0"}"#),
        &part(
            "content-id: 1\n",
            table,
            r#"{"PartitionKey":"p","RowKey":"x1"}"#,
        ),
        "--changeset_1--\n--batch_1--\n",
    ];
    let answer = request("POST", "/$batch")
        .header(
            "Content-Type",
            "multipart/mixed; charset=\"utf-8\"; boundary=batch_1",
        )
        .header("Accept", "application/atom+xml,application/xml")
        .body(body.concat())
        .send(&server);
    answer.is(202);
    assert_eq!(answer.text().matches("HTTP/1.1 201 Created").count(), 2);
    assert_eq!(rows(&server), ["x0", "x1"]);
}

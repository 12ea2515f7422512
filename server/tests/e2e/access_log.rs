//! The access log: operation, cost and reason on each line, as text and as JSON. Also the refusals
//! of clients that use the wrong service or the wrong scheme.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Connection, Request};
use crate::server::{Launch, Server, Service};

fn get(service: Service, target: &str) -> Request {
    Request::new(service, "GET", target)
}

#[test]
fn a_line_has_the_reason_of_a_refusal_and_the_cost_of_a_query() {
    let mut server = Server::fresh();
    get(Service::Blob, "/none/b").send(&server).is(404);
    let line = server.wait_for_line("/none/b");
    assert!(
        line.contains("\"GET /devstoreaccount1/none/b HTTP/1.1\" 404 - GetBlob, "),
        "{line}"
    );
    assert!(
        line.ends_with(" B out, ContainerNotFound: The specified container does not exist."),
        "{line}"
    );
    Request::new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Logged"}"#)
        .send(&server)
        .is(201);
    get(Service::Table, "/Logged()?$filter=Age%20gt%201")
        .send(&server)
        .is(200);
    let line = server.wait_for_line("Logged()");
    assert!(
        line.contains(" 200 - QueryEntities, ") && line.ends_with(" 0 examined"),
        "{line}"
    );
}

#[test]
fn a_client_that_leaves_before_the_end_of_its_answer_is_recorded() {
    let mut server = Server::fresh();
    let put = |path: &str| Request::new(Service::Blob, "PUT", path);
    put("/con?restype=container").send(&server).is(201);
    // More than the socket buffers of both sides hold.
    const BYTES: usize = 32 << 20;
    put("/con/big")
        .header("x-ms-blob-type", "BlockBlob")
        .body(vec![7; BYTES])
        .send(&server)
        .is(201);
    let host = format!("127.0.0.1:{}", server.ports.blob);
    let request = get(Service::Blob, "/con/big");
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    connection
        .write(&request.header("Host", &host).bytes())
        .unwrap();
    connection.wait().unwrap();
    drop(connection);
    let line = server.wait_for_line("GET /devstoreaccount1/con/big");
    assert!(line.ends_with(" B out, disconnected"), "{line}");
    let shown = Request::exactly(Service::Blob, "GET", "/_lazurite/api/requests?after=0");
    let shown = shown.unsigned().send(&server).json();
    let records = shown["requests"].as_array().unwrap();
    let record = records
        .iter()
        .find(|record| record["ended"] == "disconnected");
    let record = record.unwrap();
    let sent = record["response_bytes"].as_u64().unwrap();
    assert!((1..BYTES as u64).contains(&sent), "{record}");
    assert_eq!(record["operation"], "GetBlob");
}

#[test]
fn an_operation_that_fails_its_batch_is_named() {
    let mut server = Server::fresh();
    Request::new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Logged"}"#)
        .send(&server)
        .is(201);
    let change = |row: &str| {
        format!(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST http://h/devstoreaccount1/Logged HTTP/1.1\r\n\
             Content-Type: application/json\r\n\r\n{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\r\n"
        )
    };
    let batch = || {
        let changes = change("1") + &change("2");
        let body = format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{changes}--c--\r\n--b--\r\n"
        );
        Request::new(Service::Table, "POST", "/$batch")
            .header("Content-Type", "multipart/mixed; boundary=b")
            .body(body)
            .send(&server)
    };
    batch().is(202);
    let failed = batch();
    failed.is(202);
    let line = server.wait_for_line("operation 1 of the batch");
    assert!(
        line.contains(" 202 - ")
            && line.contains("EntityAlreadyExists: operation 1 of the batch: "),
        "{line}"
    );
    let id = failed.header("x-ms-request-id").unwrap();
    let record = Request::exactly(
        Service::Blob,
        "GET",
        &format!("/_lazurite/api/requests/{id}"),
    )
    .unsigned()
    .send(&server)
    .json();
    assert_eq!(
        (&record["code"], &record["status"]),
        (&"EntityAlreadyExists".into(), &202.into())
    );
}

#[test]
fn lines_are_json_if_asked_for() {
    let location = TempDir::new().unwrap();
    let mut server = Launch::on(location.path())
        .argument("--log-format=json")
        .start();
    get(
        Service::Blob,
        "/none/b?sv=2020-08-04&sr=b&sp=r&se=2020-01-01&sig=c2VjcmV0",
    )
    .unsigned()
    .send(&server)
    .is(403);
    let line = server.wait_for_line("/none/b");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["code"], &line["operation"]),
        (&"AuthenticationFailed".into(), &"GetBlob".into())
    );
    assert!(
        line["duration_ms"].is_f64() && line["reason"].is_string(),
        "{line}"
    );
    assert!(!line.to_string().contains("c2VjcmV0"), "{line}");
}

#[test]
fn the_log_of_debug_has_headers_and_the_string_to_sign_without_secrets() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--debug=-").start();
    get(Service::Blob, "/none/b")
        .unsigned()
        .header("Authorization", "SharedKey devstoreaccount1:c2VjcmV0")
        .header(
            "x-ms-date",
            &httpdate::fmt_http_date(std::time::SystemTime::now()),
        )
        .header("x-ms-client-request-id", "mine")
        .send(&server)
        .is(403);
    server.wait_for_log("x-ms-client-request-id:mine");
    server.wait_for_log("string to sign: 'GET");
    assert!(!server.log().contains("c2VjcmV0"), "{}", server.log());
}

#[test]
fn a_refusal_names_the_port_of_the_right_service() {
    let mut server = Server::fresh();
    let port = server.ports.of(Service::Table);
    let shown = format!(
        "This is the port of the Blob service, but the client is for Table: the Table service listens on port {port}."
    );
    let refused = get(Service::Blob, "/Tables")
        .header("User-Agent", "azsdk-python-data-tables/12.5.0 Python/3.12")
        .send(&server);
    assert!(refused.status >= 400, "{}", refused.status);
    assert!(refused.text().contains(&shown), "{}", refused.text());
    let line = server.wait_for_line("/Tables");
    assert!(line.ends_with(&shown), "{line}");
    let refused = get(Service::Table, "/photos?restype=container").send(&server);
    assert!(
        refused
            .text()
            .contains("is for Blob: the Blob service listens on port"),
        "{}",
        refused.text()
    );
    let right =
        get(Service::Blob, "/none/b").header("User-Agent", "azsdk-net-Storage.Blobs/12.19.1");
    assert!(
        !right
            .send(&server)
            .is(404)
            .text()
            .contains("This is the port")
    );
}

/// The bytes with which a port answers these bytes.
fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn a_refusal_names_the_right_scheme() {
    let server = Server::fresh();
    // The start of a TLS handshake. Source: RFC 8446, section 5.1.
    exchange(server.ports.blob, &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0]);
    server.wait_for_log("speaks HTTPS to this port, which serves HTTP");
    let secure = Server::fresh_secure(&[]);
    let answer = exchange(
        secure.ports.blob,
        b"GET /devstoreaccount1?comp=list HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("This port serves HTTPS"), "{answer}");
}

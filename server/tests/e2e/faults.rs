//! `/_lazurite/faults` and `x-lazurite-fault`: errors, latency, resets, cut bodies and lost
//! answers.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Connection, Request, Response};
use crate::server::{Launch, Server, Service};
use crate::test_clock::{lazurite, page};

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

fn put(name: &str) -> Request {
    blob("PUT", &format!("/con/{name}"))
        .header("x-ms-blob-type", "BlockBlob")
        .body("0123456789")
}

fn with_container() -> Server {
    let server = Server::fresh();
    blob("PUT", "/con?restype=container").send(&server).is(201);
    server
}

fn set(server: &Server, rules: &Value) -> Response {
    let body = json!({ "rules": rules }).to_string();
    page("PUT", "faults").body(body).send(server)
}

fn rules(server: &Server) -> Vec<Value> {
    let shown = page("GET", "faults").send(server).is(200).json();
    shown["rules"].as_array().unwrap().clone()
}

/// The error of a connection that ends without a response.
fn broken(server: &Server, request: &Request) -> ErrorKind {
    let mut connection = Connection::open(server, Service::Blob).unwrap();
    let host = format!("127.0.0.1:{}", server.ports.blob);
    let request = request.clone().header("Host", &host);
    connection.send(&request).unwrap_err().kind()
}

#[test]
fn a_rule_is_added_and_removed_and_the_others_go_on() {
    let server = with_container();
    let first = json!({"operation": "PutBlob", "fault": "503", "seed": 1});
    set(&server, &json!([first])).is(200);
    assert_eq!(put("a").send(&server).status, 503);
    let more = json!({"rules": [{"operation": "GetBlob", "fault": "500", "seed": 2}]});
    page("POST", "faults")
        .body(more.to_string())
        .send(&server)
        .is(200);
    assert_eq!(blob("GET", "/con/a").send(&server).status, 500);
    let remove = |seed| page("DELETE", &format!("faults?seed={seed}")).send(&server);
    remove(2).is(200);
    remove(2).is(404);
    assert_eq!(blob("GET", "/con/a").send(&server).status, 404);
    let left = rules(&server);
    assert_eq!((left.len(), &left[0]["hits"]), (1, &json!(1)));
    page("POST", "faults").body("{}").send(&server).is(400);
}

#[test]
fn a_rule_for_a_fork_hits_that_fork_alone() {
    let server = with_container();
    for name in ["one", "two"] {
        let body = json!({ "name": name }).to_string();
        page("POST", "state/forks").body(body).send(&server).is(201);
    }
    let statuses = || {
        let of = |fork| put("a").in_fork(fork).send(&server).status;
        [put("a").send(&server).status, of("one"), of("two")]
    };
    let rule = |account: &str| json!([{"account": account, "fault": "503"}]);
    set(&server, &rule("devstoreaccount1--one")).is(200);
    assert_eq!(statuses(), [201, 503, 201]);
    assert_eq!(rules(&server)[0]["account"], "devstoreaccount1--one");
    assert_eq!(rules(&server)[0]["hits"], 1);
    set(&server, &rule("devstoreaccount1")).is(200);
    assert_eq!(statuses(), [503, 503, 503]);
    // Rules that can hit nothing.
    for (rule, part) in [
        (rule("otheraccount"), "no account of this server"),
        (
            json!([{"service": "table", "operation": "Batch", "resource": "Tab", "fault": "503"}]),
            "The path of a transaction is $batch",
        ),
    ] {
        let refused = set(&server, &rule).is(400).text();
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn errors_are_those_of_the_service_until_their_count_is_reached() {
    let server = with_container();
    let rule = json!({"operation": "PutBlob", "resource": "con/a b", "count": 2, "fault": "503; retry-after=2"});
    let timed_out = json!({"service": "table", "fault": "500 OperationTimedOut"});
    set(&server, &json!([rule, timed_out])).is(200);
    for _ in 0..2 {
        let busy = put("a%20b%20c").send(&server);
        assert_eq!((busy.status, busy.code().as_str()), (503, "ServerBusy"));
        busy.has_header("retry-after", "2");
        busy.has_header("x-lazurite-fault", "injected");
    }
    put("a%20b%20c").send(&server).is(201);
    put("other").send(&server).is(201);
    blob("GET", "/con/a%20b%20c").send(&server).is(200);
    let table = Request::new(Service::Table, "GET", "/Tables").header("Accept", "application/json");
    let table = table.send(&server);
    let error = table.is(500).json()["odata.error"].clone();
    assert_eq!(error["code"], "OperationTimedOut");
    let shown = rules(&server);
    assert_eq!(
        (&shown[0]["hits"], &shown[0]["matched"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(shown[1]["hits"], 1);
    // The server's own pages and refused requests have no faults.
    let forged = put("a%20b").header("Authorization", "SharedKey devstoreaccount1:AAAA");
    forged.send(&server).is(403);
    assert_eq!(rules(&server)[0]["matched"], 3);
    page("DELETE", "faults").send(&server).is(200);
    assert_eq!(rules(&server), Vec::<Value>::new());
    let list = Request::new(Service::Table, "GET", "/Tables");
    list.send(&server).is(200);
}

#[test]
fn latency_delays_the_operation() {
    let server = with_container();
    set(
        &server,
        &json!([{"operation": "GetBlob", "fault": "latency=300ms"}]),
    )
    .is(200);
    put("b").send(&server).is(201);
    let began = Instant::now();
    blob("GET", "/con/b").send(&server).is(200);
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn reset_comes_before_the_operation_and_a_lost_answer_after_it() {
    let server = with_container();
    let reset = json!({"resource": "con/never", "fault": "reset"});
    let lost = json!({"resource": "con/written", "operation": "PutBlob", "fault": "lose-answer"});
    set(&server, &json!([reset, lost])).is(200);
    assert_eq!(broken(&server, &put("never")), ErrorKind::ConnectionReset);
    assert_eq!(broken(&server, &put("written")), ErrorKind::ConnectionReset);
    blob("HEAD", "/con/written").send(&server).is(200);
    page("DELETE", "faults").send(&server).is(200);
    blob("HEAD", "/con/never").send(&server).is(404);
}

#[test]
fn cut_body_ends_in_the_middle() {
    let server = with_container();
    put("b").send(&server).is(201);
    let cut = |fault: &str| {
        let request = blob("GET", "/con/b").header("x-lazurite-fault", fault);
        let host = format!("127.0.0.1:{}", server.ports.blob);
        let bytes = request.header("Host", &host).bytes();
        let mut connection = Connection::open(&server, Service::Blob).unwrap();
        connection.write(&bytes).unwrap();
        connection.read_to_end()
    };
    let text = cut("cut-body");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.to_ascii_lowercase().contains("content-length: 10\r\n"));
    assert!(text.ends_with("\r\n\r\n01234"), "{text}");
    assert!(cut("cut-body=9").ends_with("\r\n\r\n012345678"));
    assert!(cut("cut-body=100").ends_with("\r\n\r\n012345678"));
    assert!(cut("cut-body=0").ends_with("\r\n\r\n"));
    let empty = put("c").header("x-lazurite-fault", "cut-body");
    empty.send(&server).is(201);
}

#[test]
fn header_makes_one_request_fail() {
    let server = with_container();
    let with = |fault: &str| put("b").header("x-lazurite-fault", fault);
    let busy = with("503; retry-after=2").send(&server);
    busy.is(503).has_header("retry-after", "2");
    with("latency=1ms").send(&server).is(201);
    assert_eq!(
        broken(&server, &with("lose-answer")),
        ErrorKind::ConnectionReset
    );
    let shown = page("GET", "faults").send(&server).json();
    assert_eq!(shown["headerHits"], 3);
    for fault in ["429", "", "explode", "latency=2m"] {
        let refused = with(fault).send(&server);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "InvalidHeaderValue"),
            "{fault}"
        );
        assert_eq!(
            refused.element("HeaderName").as_deref(),
            Some("x-lazurite-fault")
        );
    }
}

#[test]
fn header_needs_credentials_and_a_client_of_this_machine() {
    let server = with_container();
    let public = blob("PUT", "/open?restype=container").header("x-ms-blob-public-access", "blob");
    public.send(&server).is(201);
    let anonymous = blob("GET", "/open/b").unsigned();
    anonymous
        .header("x-lazurite-fault", "503")
        .send(&server)
        .is(403);
    let proxied = put("b")
        .header("x-lazurite-fault", "503")
        .header("X-Forwarded-For", "10.0.0.1");
    let refused = proxied.send(&server);
    assert!(refused.is(403).message().contains("--faults"));

    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--faults").start();
    proxied.send(&server).is(503);
}

#[test]
fn secured_connections_are_reset_too() {
    let server = Server::fresh_secure(&[]);
    let rule = json!([{"fault": "reset"}]).to_string();
    let body = format!("{{\"rules\":{rule}}}");
    page("PUT", "faults")
        .body(body)
        .send_secure(&server)
        .is(200);
    let list = blob("GET", "/?comp=list");
    let sent = std::panic::catch_unwind(|| list.send_secure(&server));
    assert!(sent.is_err());
}

#[test]
fn rules_that_are_not_understood_change_nothing() {
    let server = with_container();
    set(&server, &json!([{"fault": "503", "count": 1}])).is(200);
    let refused = set(
        &server,
        &json!([{"fault": "503"}, {"fault": "503", "probability": 2}]),
    );
    let error = refused.is(400).json()["error"].clone();
    assert_eq!(error["code"], "InvalidInput");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("rules[1].probability:"), "{message}");
    assert_eq!(rules(&server).len(), 1);
}

#[test]
fn command_shows_sets_and_clears_faults() {
    let server = with_container();
    let scratch = TempDir::new().unwrap();
    let file = scratch.path().join("rules.json");
    let rule = json!({"rules": [{"operation": "PutBlob", "fault": "503"}]});
    std::fs::write(&file, rule.to_string()).unwrap();
    let run = |words: &[&str]| lazurite(&server, words, None);
    let (succeeded, text) = run(&["faults", "set", file.to_str().unwrap()]);
    assert!(succeeded && text.contains("\"seed\""), "{text}");
    put("b").send(&server).is(503);
    let (succeeded, text) = run(&["faults"]);
    assert!(succeeded && text.contains("\"hits\": 1"), "{text}");
    let (succeeded, text) = run(&["faults", "clear"]);
    assert!(succeeded && text.contains("\"rules\": []"), "{text}");
    put("b").send(&server).is(201);
    std::fs::write(&file, "{}").unwrap();
    let (succeeded, text) = run(&["faults", "set", file.to_str().unwrap()]);
    assert!(!succeeded && text.contains("rules:"), "{text}");
}

//! `/_lazurite/clock`: tests move the store's clock, which never goes back.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Request, Response};
use crate::server::{Launch, Server, Service};

pub(crate) fn page(method: &str, name: &str) -> Request {
    Request::exactly(Service::Blob, method, &format!("/_lazurite/{name}")).unsigned()
}

fn move_by(server: &Server, step: &Value) -> Response {
    let body = step.to_string().into_bytes();
    page("PUT", "clock").body(body).send(server)
}

/// Advances the clock of the server by this number of seconds.
pub(crate) fn advance(server: &Server, seconds: u32) {
    move_by(server, &json!({"advance": format!("PT{seconds}S")})).is(200);
}

fn offset(server: &Server) -> f64 {
    let clock = page("GET", "clock").send(server).is(200).json();
    clock["offsetSeconds"].as_f64().unwrap()
}

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// Puts a blob and returns its Last-Modified.
fn put_blob(server: &Server) -> SystemTime {
    let put = blob("PUT", "/con/b").header("x-ms-blob-type", "BlockBlob");
    let put = put.send(server);
    let modified = put.is(201).header("last-modified").unwrap();
    httpdate::parse_http_date(modified).unwrap()
}

fn with_container(server: Server) -> Server {
    let create = blob("PUT", "/con?restype=container");
    create.send(&server).is(201);
    server
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn times_of_all_services_follow_a_moved_clock_and_stay_after_a_crash() {
    let location = TempDir::new().unwrap();
    let server = with_container(Launch::on(location.path()).start());
    let before = put_blob(&server);
    assert!(offset(&server).abs() < 1.0);
    let moved = move_by(&server, &json!({"advance": "PT1H"})).is(200).json();
    assert_eq!(moved["frozen"], false);
    assert!(moved["now"].as_str().unwrap().ends_with('Z'));
    assert!((3599.0..3602.0).contains(&offset(&server)));
    let after = put_blob(&server);
    assert!(after >= before + HOUR);
    let read = blob("GET", "/con/b").send(&server);
    let date = httpdate::parse_http_date(read.is(200).header("date").unwrap());
    assert!(date.unwrap() >= after, "the Date of answers");

    server.kill();
    let server = Launch::on(location.path()).start();
    server.wait_for_log("the clock of this store was moved");
    assert!(put_blob(&server) >= after);
    move_by(&server, &json!({"frozen": true})).is(200);
    let frozen = put_blob(&server);
    server.kill();
    let server = Launch::on(location.path()).start();
    assert_eq!(page("GET", "clock").send(&server).json()["frozen"], true);
    assert_eq!(put_blob(&server), frozen);
    let run = move_by(&server, &json!({"frozen": false})).is(200).json();
    assert_eq!(run["frozen"], false);
}

#[test]
fn clock_that_would_go_back_is_refused_with_a_reason() {
    let server = Server::fresh();
    for (step, status, code, word) in [
        (
            json!({"set": "2020-01-01T00:00:00Z"}),
            409,
            "ClockCannotGoBack",
            "never goes",
        ),
        (
            json!({"set": "0001-01-01"}),
            409,
            "ClockCannotGoBack",
            "ETags",
        ),
        (
            json!({"set": "9999-12-31T00:00:00Z"}),
            400,
            "InvalidInput",
            "ahead",
        ),
        (json!({"advance": -5}), 400, "InvalidInput", "advance"),
        (json!({"set": 5}), 400, "InvalidInput", "set"),
        (
            json!({}),
            400,
            "InvalidInput",
            "advance, set, frozen and reset",
        ),
    ] {
        let refused = move_by(&server, &step);
        let error = refused.is(status).json()["error"].clone();
        assert_eq!(error["code"], code, "{step}");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    move_by(&server, &json!({"reset": true})).is(200);
    move_by(&server, &json!({"advance": 60})).is(200);
    move_by(&server, &json!({"reset": true})).is(409);
    assert!(offset(&server) > 59.0);
    page("POST", "clock").send(&server).is(405);
}

#[test]
fn work_that_waits_for_a_time_is_done_soon_after_a_move() {
    let location = TempDir::new().unwrap();
    let server = with_container(Launch::on(location.path()).start());
    let policy = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>\
                  </StorageServiceProperties>";
    let properties = blob("PUT", "/?restype=service&comp=properties").body(policy);
    properties.send(&server).is(202);
    put_blob(&server);
    blob("DELETE", "/con/b").send(&server).is(202);
    let deleted = || {
        let list = blob("GET", "/con?restype=container&comp=list&include=deleted");
        list.send(&server).is(200).text().contains("<Deleted>true")
    };
    assert!(deleted());
    move_by(&server, &json!({"advance": "P6D"})).is(200);
    assert!(deleted());
    move_by(&server, &json!({"advance": "P1DT1S"})).is(200);
    assert!(!deleted());
    blob("PUT", "/con/b?comp=undelete").send(&server).is(404);
}

#[test]
fn clock_and_faults_are_changed_from_this_machine_only_and_by_no_foreign_page() {
    let server = Server::fresh();
    for name in ["clock", "faults"] {
        for (header, value) in [
            ("Origin", "http://example.com"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Host", "example.com"),
            ("X-Forwarded-For", "10.0.0.1"),
        ] {
            for method in ["GET", "PUT"] {
                let request = page(method, name).header(header, value);
                let body = json!({"advance": 1}).to_string().into_bytes();
                let refused = request.body(body).send(&server);
                assert_eq!(refused.status, 403, "{method} {name} {header}");
            }
        }
    }
    assert!(offset(&server) < 1.0);
}

#[test]
fn servers_with_own_keys_have_their_clock_moved_with_the_password_alone() {
    let location = TempDir::new().unwrap();
    let accounts = format!("own:{}", "A".repeat(64));
    let launch = |name: &str| {
        let launch = Launch::on(&location.path().join(name));
        launch.environment("AZURITE_ACCOUNTS", &accounts)
    };
    let body = json!({"advance": 5}).to_string().into_bytes();
    let advance = || page("PUT", "clock").body(body.clone());
    let server = launch("open").start();
    page("GET", "clock").send(&server).is(200);
    let refused = advance().send(&server).is(403).json();
    let message = refused["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("--console-password"), "{message}");
    drop(server);

    let server = launch("locked")
        .argument("--console-password=secret")
        .start();
    advance().send(&server).is(401);
    let basic = "Basic bGF6dXJpdGU6c2VjcmV0";
    advance()
        .header("Authorization", basic)
        .send(&server)
        .is(200);
    let output = lazurite(&server, &["clock", "advance", "5s"], Some("secret"));
    assert!(output.0, "{}", output.1);
    let output = lazurite(&server, &["clock"], None);
    assert!(!output.0 && output.1.contains("password"), "{}", output.1);
}

/// Runs a command against a server. Returns whether it succeeded, and its output.
pub(crate) fn lazurite(server: &Server, words: &[&str], password: Option<&str>) -> (bool, String) {
    lazurite_with(&server.connection_string(), words, password)
}

fn lazurite_with(connection: &str, words: &[&str], password: Option<&str>) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    command
        .args(words)
        .env("AZURE_STORAGE_CONNECTION_STRING", connection);
    if let Some(password) = password {
        command.env("LAZURITE_CONSOLE_PASSWORD", password);
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    (output.status.success(), text)
}

/// A connection string may name any server, which must not get the console's password.
#[test]
fn the_password_goes_to_no_server_but_one_that_asks_for_that_of_a_console() {
    for answer in [
        "200 OK\r\n",
        "401 Unauthorized\r\n",
        "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"other\"\r\n",
        "401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"Lazurite console\"\r\n",
    ] {
        for words in [&["clock"][..], &["faults", "show"], &["state", "list"]] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let url = format!("http://{address}/devstoreaccount1");
            let connection = format!(
                "AccountName=devstoreaccount1;AccountKey=AAAA;BlobEndpoint={url};QueueEndpoint={url};TableEndpoint={url}"
            );
            let answer = format!("HTTP/1.1 {answer}Content-Length: 0\r\nConnection: close\r\n\r\n");
            let (heads, received) = mpsc::channel();
            // Ends only with the process: it waits for connections that may not come.
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = BufReader::new(stream.unwrap());
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                    heads.send(head.to_lowercase()).unwrap();
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            });
            let (succeeded, text) = lazurite_with(&connection, words, Some("open sesame"));
            assert!(!succeeded, "{words:?}: {text}");
            let heads: Vec<String> = received.try_iter().collect();
            assert!(!heads.is_empty(), "{words:?} asked nothing");
            for head in heads {
                assert!(!head.contains("authorization: basic"), "{words:?}: {head}");
            }
        }
    }
}

#[test]
fn command_shows_and_moves_the_clock() {
    let server = Server::fresh();
    let run = |words: &[&str]| lazurite(&server, words, None);
    let good = |words: &[&str], part: &str| {
        let (succeeded, text) = run(words);
        assert!(succeeded && text.contains(part), "{words:?}: {text}");
    };
    good(&["clock"], "Z, ");
    good(&["clock", "advance", "30s"], "ahead of the machine's clock");
    good(&["clock", "freeze"], "frozen");
    good(&["clock", "show"], "frozen");
    good(
        &["clock", "set", "2090-01-01T00:00:00Z"],
        "2090-01-01T00:00:00.0000000Z",
    );
    good(&["clock", "run"], "2090-01-01T00:00:0");
    let (succeeded, text) = run(&["clock", "reset"]);
    assert!(!succeeded && text.contains("cannot go back"), "{text}");
    let (succeeded, text) = run(&["clock", "advance", "soon"]);
    assert!(!succeeded && text.contains("duration"), "{text}");
}

//! Forks: temporary stores, addressed as `ACCOUNT--FORK` on the same ports.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Connection, Request};
use crate::server::{ACCOUNT, Launch, PATIENCE, Server, Service};
use crate::state::{names, put, restore, set, state, take};
use crate::test_clock::page;

/// Makes a fork and returns the JSON of the response.
fn fork(server: &Server, body: &Value) -> Value {
    let made = state("POST", "forks").body(body.to_string()).send(server);
    made.is(201).json()
}

fn listed(server: &Server) -> Vec<String> {
    let forks = state("GET", "forks").send(server).is(200).json();
    let forks = forks["forks"].as_array().unwrap().iter();
    forks
        .map(|fork| fork["name"].as_str().unwrap().to_owned())
        .collect()
}

fn list() -> Request {
    Request::new(Service::Blob, "GET", "/?comp=list")
}

/// The letters of those containers `aaa`, `bbb` and `ccc` that the fork has.
fn containers(server: &Server, fork: &str) -> String {
    let text = list().in_fork(fork).send(server).is(200).text();
    let is_there = |letter: &char| text.contains(&format!("<Name>{letter}{letter}{letter}</Name>"));
    "abc".chars().filter(is_there).collect()
}

/// A server with containers of these names, and the directory of its data.
pub(crate) fn with_names(names: &[&str], arguments: &[&str]) -> (TempDir, Server) {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path());
    let launch = arguments
        .iter()
        .fold(launch, |launch, argument| launch.argument(argument));
    let server = launch.start();
    for name in names {
        put(name).send(&server).is(201);
    }
    (location, server)
}

/// Waits until there are at most `count` directories of stores.
fn wait_for_directories(location: &TempDir, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    let present = || {
        std::fs::read_dir(location.path().join("stores"))
            .unwrap()
            .count()
    };
    while present() > count {
        assert!(Instant::now() < deadline, "{} directories", present());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_fork_says_how_long_it_lives() {
    let (_location, server) = with_names(&["aaa"], &["--fork-lifetime=77"]);
    let made = fork(&server, &json!({"name": "one"}));
    assert_eq!(made["lifetimeSeconds"], 77, "{made}");
    let forks = state("GET", "forks").send(&server).is(200).json();
    assert_eq!(forks["forks"][0]["lifetimeSeconds"], 77, "{forks}");
}

#[test]
fn forks_of_the_store_and_of_a_snapshot_do_not_see_each_other() {
    let (location, server) = with_names(&["aaa"], &[]);
    take(&server, "seed");
    put("bbb").send(&server).is(201);
    let now = fork(&server, &json!({"from": null, "name": "now-1"}));
    let seed = fork(&server, &json!({"from": "seed"}));
    let seed = seed["name"].as_str().unwrap();
    assert_eq!(now["name"], "now-1");
    assert_eq!(now["account"], format!("{ACCOUNT}--now-1"));
    let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}--now-1", server.ports.queue);
    assert_eq!(now["endpoints"]["queue"], endpoint);
    let connection = now["connectionString"].as_str().unwrap();
    for part in [
        &format!("AccountName={ACCOUNT}--now-1;"),
        &format!("QueueEndpoint={endpoint};"),
    ] {
        assert!(connection.contains(part), "{connection}");
    }
    assert_eq!(
        (containers(&server, "now-1"), containers(&server, seed)),
        ("ab".into(), "a".into())
    );
    put("ccc").in_fork("now-1").send(&server).is(201);
    put("bbb").in_fork(seed).send(&server).is(201);
    Request::new(Service::Blob, "DELETE", "/aaa?restype=container")
        .send(&server)
        .is(202);
    assert_eq!(
        (containers(&server, "now-1"), containers(&server, seed)),
        ("abc".into(), "ab".into())
    );
    assert_eq!(names(&server), set(&["bbb"]));
    // A fork is not affected when its source is replaced.
    restore(&server, "seed");
    state("DELETE", "snapshots/seed").send(&server).is(200);
    assert_eq!(
        (containers(&server, "now-1"), containers(&server, seed)),
        ("abc".into(), "ab".into())
    );
    for name in ["now-1", seed] {
        state("DELETE", &format!("forks/{name}"))
            .send(&server)
            .is(200);
        let gone = list().in_fork(name).send(&server);
        assert_eq!(gone.is(404).code(), "ForkNotFound");
        state("DELETE", &format!("forks/{name}"))
            .send(&server)
            .is(404);
    }
    assert_eq!(names(&server), set(&["aaa"]));
    wait_for_directories(&location, 1);
}

#[test]
fn fork_has_all_services_under_both_styles_of_urls_and_its_secondary() {
    let (_location, server) = with_names(&[], &[]);
    fork(&server, &json!({"name": "t1"}));
    let queue = Request::new(Service::Queue, "PUT", "/work").in_fork("t1");
    queue.send(&server).is(201);
    let table = Request::new(Service::Table, "POST", "/Tables").json(r#"{"TableName":"Things"}"#);
    table.in_fork("t1").send(&server).is(201);
    put("con").in_fork("t1").send(&server).is(201);
    let blob = Request::new(Service::Blob, "PUT", "/con/b").header("x-ms-blob-type", "BlockBlob");
    blob.body("text").in_fork("t1").send(&server).is(201);
    // The source of the copy is in the fork.
    let source = format!("http://127.0.0.1:{}/{ACCOUNT}--t1/con/b", server.ports.blob);
    let copy =
        || Request::new(Service::Blob, "PUT", "/con/copy").header("x-ms-copy-source", &source);
    copy().in_fork("t1").send(&server).is(202);
    put("con").send(&server).is(201);
    let across = copy().send(&server);
    assert!(
        across.is(501).message().contains("fork"),
        "{}",
        across.message()
    );
    let secondary = format!("/{ACCOUNT}--t1-secondary/con/copy");
    let read = Request::exactly(Service::Blob, "GET", &secondary).signed_by_fork("t1");
    assert_eq!(read.send(&server).is(200).text(), "text");
    let host = format!("{ACCOUNT}--t1.blob.localhost:{}", server.ports.blob);
    let read = Request::exactly(Service::Blob, "GET", "/con/copy").signed_by_fork("t1");
    assert_eq!(
        read.header("Host", &host).send(&server).is(200).text(),
        "text"
    );
    for (service, target) in [(Service::Queue, "/?comp=list"), (Service::Table, "/Tables")] {
        let text = Request::new(service, "GET", target)
            .send(&server)
            .is(200)
            .text();
        assert!(!text.contains("work") && !text.contains("Things"), "{text}");
    }
}

#[test]
fn fork_is_made_at_first_use_by_requests_with_the_key_alone() {
    let (_location, server) = with_names(&["aaa"], &["--forks"]);
    list().in_fork("stranger").unsigned().send(&server).is(404);
    let forged = list().in_fork("stranger");
    let forged = forged.header(
        "Authorization",
        &format!("SharedKey {ACCOUNT}--stranger:AAAA"),
    );
    forged.send(&server).is(403);
    let foreign = list()
        .in_fork("stranger")
        .header("Origin", "http://example.com");
    foreign.send(&server).is(403);
    Request::exactly(Service::Blob, "GET", "/other--stranger/?comp=list")
        .send(&server)
        .is(400);
    assert_eq!(listed(&server), Vec::<String>::new());
    assert_eq!(containers(&server, "t1"), "a");
    put("bbb").in_fork("t2").send(&server).is(201);
    assert_eq!(
        (containers(&server, "t1"), containers(&server, "t2")),
        ("a".into(), "ab".into())
    );
    assert_eq!(names(&server), set(&["aaa"]));
    assert_eq!(listed(&server), ["t1", "t2"]);
    // An existing fork answers unauthenticated requests like the account.
    list().in_fork("t1").unsigned().send(&server).is(403);
}

#[test]
fn many_requests_at_once_make_one_fork() {
    let (_location, server) = with_names(&[], &["--forks"]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let mut connection = Connection::open(&server, Service::Blob).unwrap();
            scope.spawn(move || {
                let request = put(&format!("name-{number}")).in_fork("shared");
                connection.send(&request).unwrap().is(201);
            });
        }
    });
    let text = list().in_fork("shared").send(&server).text();
    assert_eq!(text.matches("<Name>").count(), 8, "{text}");
    assert_eq!(listed(&server), ["shared"]);
}

#[test]
fn forks_at_first_use_come_from_the_snapshot_that_the_flag_names() {
    let (_location, server) = with_names(&["aaa"], &["--forks=seed"]);
    let missing = list().in_fork("t1").send(&server);
    assert_eq!(missing.is(404).code(), "SnapshotNotFound");
    take(&server, "seed");
    put("bbb").send(&server).is(201);
    assert_eq!(containers(&server, "t1"), "a");
    assert_eq!(containers(&server, "t2"), "a");
}

#[test]
fn fork_ends_after_its_lifetime_without_requests_and_at_a_restart() {
    let (location, server) = with_names(&["aaa"], &["--fork-lifetime=4"]);
    fork(&server, &json!({"name": "kept"}));
    fork(&server, &json!({"name": "idle"}));
    let began = Instant::now();
    while listed(&server).len() == 2 {
        assert!(began.elapsed() < PATIENCE);
        list().in_fork("kept").send(&server).is(200);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(listed(&server), ["kept"]);
    server.kill();
    assert!(
        std::fs::read_dir(location.path().join("stores"))
            .unwrap()
            .count()
            > 0
    );
    let server = Launch::on(location.path()).start();
    assert_eq!(
        std::fs::read_dir(location.path().join("stores"))
            .unwrap()
            .count(),
        0
    );
    list().in_fork("kept").send(&server).is(404);
    assert_eq!(names(&server), set(&["aaa"]));
    fork(&server, &json!({"name": "stopped"}));
    assert_eq!(server.signal("TERM").0.code(), Some(0));
    assert_eq!(
        std::fs::read_dir(location.path().join("stores"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn bad_requests_for_forks_are_refused_with_a_sentence() {
    let (_location, server) = with_names(&[], &["--forks-max=2"]);
    take(&server, "seed");
    fork(&server, &json!({"name": "t1"}));
    let refused = |body: Value, status: u16, code: &str, word: &str| {
        let answer = state("POST", "forks").body(body.to_string()).send(&server);
        let error = answer.is(status).json()["error"].clone();
        assert_eq!(error["code"], code, "{body}");
        assert!(
            error["message"].as_str().unwrap().contains(word),
            "{body}: {error}"
        );
    };
    refused(
        json!({"from": "t1"}),
        409,
        "ForkOfFork",
        "no forks of forks",
    );
    refused(json!({"from": "absent"}), 404, "SnapshotNotFound", "seed");
    refused(json!({"from": "../seed"}), 404, "SnapshotNotFound", "seed");
    refused(json!({"name": "t1"}), 409, "ForkAlreadyExists", "t1");
    for name in [
        "",
        "A",
        "a.b",
        "-a",
        "a--b",
        "a/b",
        "..",
        "x-secondary",
        &"f".repeat(41),
    ] {
        refused(json!({"name": name}), 400, "InvalidForkName", "lower-case");
    }
    refused(json!({"from": 1}), 400, "InvalidInput", "from");
    refused(json!({"form": "seed"}), 400, "InvalidInput", "form");
    refused(json!([]), 400, "InvalidInput", "object");
    refused(
        json!({"account": "absent"}),
        404,
        "AccountNotFound",
        "absent",
    );
    for (header, value) in [
        ("Origin", "http://example.com"),
        ("X-Forwarded-For", "10.0.0.1"),
    ] {
        for (method, path) in [("POST", "forks"), ("DELETE", "forks/t1"), ("GET", "forks")] {
            let foreign = state(method, path).header(header, value);
            foreign.send(&server).is(403);
        }
    }
    fork(&server, &json!({"name": "t2"}));
    refused(json!({"name": "t3"}), 503, "ServerBusy", "--forks-max");
    state("DELETE", "forks/t1").send(&server).is(200);
    fork(&server, &json!({"name": "t3"}));
    assert_eq!(listed(&server), ["t2", "t3"]);
}

#[test]
fn clock_of_a_fork_is_its_own() {
    let (_location, server) = with_names(&[], &[]);
    fork(&server, &json!({"name": "t1"}));
    let offset = |name: &str| {
        let clock = page("GET", name).send(&server).is(200).json();
        clock["offsetSeconds"].as_f64().unwrap()
    };
    let body = json!({"advance": "PT1H"}).to_string();
    page("PUT", "clock?fork=t1")
        .body(body)
        .send(&server)
        .is(200);
    assert!(offset("clock") < 5.0);
    assert!((3595.0..3605.0).contains(&offset("clock?fork=t1")));
    page("GET", "clock?fork=absent").send(&server).is(404);
    let date = |request: Request| {
        let answer = request.send(&server);
        httpdate::parse_http_date(answer.header("date").unwrap()).unwrap()
    };
    let ahead = date(list().in_fork("t1"))
        .duration_since(date(list()))
        .unwrap();
    assert!((3590..3610).contains(&ahead.as_secs()), "{ahead:?}");
}

#[test]
fn requests_under_way_in_a_fork_end_before_it_does() {
    let (location, server) = with_names(&["aaa"], &[]);
    let body = vec![7; 20_000_000];
    let blob =
        Request::new(Service::Blob, "PUT", "/aaa/large").header("x-ms-blob-type", "BlockBlob");
    blob.body(body.clone()).send(&server).is(201);
    fork(&server, &json!({"name": "t1"}));
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let read = Request::new(Service::Blob, "GET", "/aaa/large").in_fork("t1");
    connection.write(&read.bytes()).unwrap();
    connection.wait().unwrap();
    state("DELETE", "forks/t1").send(&server).is(200);
    std::thread::sleep(Duration::from_millis(100));
    assert!(connection.read("GET").unwrap().is(200).body == body);
    drop(connection);
    wait_for_directories(&location, 0);
}

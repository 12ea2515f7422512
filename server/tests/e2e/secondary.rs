//! `--secondary-lag`: the secondary endpoint reads an older state of the store and reports its age.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use tempfile::TempDir;

use crate::http::{Request, Response};
use crate::server::{Launch, PATIENCE, Server, Service};
use crate::test_clock::page;

fn request(service: Service, method: &str, target: &str) -> Request {
    Request::new(service, method, target).header("Accept", "application/json, application/xml")
}

/// A request to the secondary endpoint.
fn secondary(service: Service, method: &str, target: &str) -> Request {
    let target = format!("/devstoreaccount1-secondary{target}");
    let request = Request::exactly(service, method, &target);
    request.header("Accept", "application/json, application/xml")
}

fn lagging(location: &Path, seconds: u32) -> Server {
    let flag = format!("--secondary-lag={seconds}");
    Launch::on(location).argument(&flag).start()
}

fn put(server: &Server, text: &str) {
    let put = request(Service::Blob, "PUT", "/con/b").header("x-ms-blob-type", "BlockBlob");
    put.body(text).send(server).is(201);
}

fn advance(server: &Server, seconds: u64) {
    let body = json!({ "advance": seconds }).to_string();
    page("PUT", "clock").body(body).send(server).is(200);
}

fn now(server: &Server) -> SystemTime {
    let response = request(Service::Blob, "GET", "/?comp=list").send(server);
    httpdate::parse_http_date(response.is(200).header("date").unwrap()).unwrap()
}

/// The Status and the LastSyncTime of Get Service Stats.
fn stats(server: &Server, service: Service) -> (String, String) {
    let stats = secondary(service, "GET", "/?restype=service&comp=stats").send(server);
    stats.is(200);
    let of = |name| stats.element(name).unwrap_or_default();
    (of("Status"), of("LastSyncTime"))
}

fn read(server: &Server) -> Response {
    secondary(Service::Blob, "GET", "/con/b").send(server)
}

#[test]
fn secondary_sees_a_write_once_the_lag_has_passed() {
    let location = TempDir::new().unwrap();
    let server = lagging(location.path(), 60);
    request(Service::Blob, "PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    put(&server, "first");
    let message = "<QueueMessage><MessageText>m</MessageText></QueueMessage>";
    request(Service::Queue, "PUT", "/work")
        .send(&server)
        .is(201);
    let send = request(Service::Queue, "POST", "/work/messages").body(message);
    send.send(&server).is(201);
    let table = json!({ "TableName": "Tab" }).to_string();
    request(Service::Table, "POST", "/Tables")
        .json(table)
        .send(&server)
        .is(201);
    let entity = json!({ "PartitionKey": "p", "RowKey": "r", "N": 1 }).to_string();
    request(Service::Table, "POST", "/Tab")
        .json(entity)
        .send(&server)
        .is(201);
    read(&server).is(404);
    assert_eq!(
        stats(&server, Service::Blob),
        ("bootstrap".to_owned(), String::new())
    );

    advance(&server, 58);
    read(&server).is(404);
    advance(&server, 3);
    assert_eq!(read(&server).is(200).text(), "first");
    let peek = secondary(Service::Queue, "GET", "/work/messages?peekonly=true").send(&server);
    assert!(peek.is(200).text().contains("<MessageText>m<"));
    let entity = secondary(Service::Table, "GET", "/Tab(PartitionKey='p',RowKey='r')");
    assert_eq!(entity.send(&server).is(200).json()["N"], 1);

    put(&server, "second");
    assert_eq!(read(&server).text(), "first");
    request(Service::Blob, "DELETE", "/con?restype=container")
        .send(&server)
        .is(202);
    advance(&server, 30);
    assert_eq!(read(&server).text(), "first");
    advance(&server, 31);
    read(&server).is(404);
}

#[test]
fn service_stats_name_the_time_of_the_snapshot() {
    let location = TempDir::new().unwrap();
    let server = lagging(location.path(), 100);
    advance(&server, 150);
    request(Service::Queue, "PUT", "/work")
        .send(&server)
        .is(201);
    advance(&server, 150);
    for service in Service::ALL {
        let (status, time) = stats(&server, service);
        assert_eq!(status, "live");
        let time = httpdate::parse_http_date(&time).unwrap();
        let behind = now(&server).duration_since(time).unwrap();
        assert!((99..=300).contains(&behind.as_secs()), "{behind:?}");
    }
    let list = secondary(Service::Queue, "GET", "/?comp=list").send(&server);
    assert!(list.is(200).text().contains("work"));
}

#[test]
fn secondary_that_lags_refuses_writes_and_the_primary_stats() {
    let location = TempDir::new().unwrap();
    let server = lagging(location.path(), 5);
    for (service, target) in [
        (Service::Blob, "/con?restype=container"),
        (Service::Queue, "/work"),
    ] {
        let refused = secondary(service, "PUT", target).send(&server);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "InsufficientAccountPermissions")
        );
    }
    let primary = request(Service::Blob, "GET", "/?restype=service&comp=stats");
    primary.send(&server).is(400);
}

#[test]
fn secondary_follows_in_real_time_and_its_directories_go() {
    let location = TempDir::new().unwrap();
    let server = lagging(location.path(), 1);
    request(Service::Blob, "PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    let deadline = Instant::now() + PATIENCE;
    for text in ["first", "second", "third"] {
        put(&server, text);
        while read(&server).text() != text {
            assert!(Instant::now() < deadline, "{text} never comes");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let directory = location.path().join("secondary");
    let copies = || std::fs::read_dir(&directory).map_or(0, Iterator::count);
    while copies() > 4 {
        assert!(Instant::now() < deadline, "{} directories", copies());
        std::thread::sleep(Duration::from_millis(100));
    }
    server.kill();
    assert!(copies() > 0);
    // A start without the flag removes the checkpoints too.
    let server = Launch::on(location.path()).start();
    assert!(!directory.exists());
    assert_eq!(read(&server).text(), "third");
    assert_eq!(stats(&server, Service::Blob).0, "live");
    drop(server);
    let server = lagging(location.path(), 1);
    assert_eq!(
        read(&server).text(),
        "third",
        "the store with which the server started"
    );
    server.signal("TERM");
    assert!(!directory.exists());
}

#[test]
fn secondary_of_a_store_in_memory_lags_too() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--inMemoryPersistence");
    let server = launch.argument("--secondary-lag=60").start();
    request(Service::Blob, "PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    put(&server, "first");
    read(&server).is(404);
    advance(&server, 61);
    assert_eq!(read(&server).text(), "first");
}

/// Reads of an older state use the present clock of the primary.
#[test]
fn snapshot_is_read_by_the_clock_of_the_primary() {
    let location = TempDir::new().unwrap();
    let server = lagging(location.path(), 60);
    request(Service::Queue, "PUT", "/work")
        .send(&server)
        .is(201);
    let message = "<QueueMessage><MessageText>m</MessageText></QueueMessage>";
    let send = request(
        Service::Queue,
        "POST",
        "/work/messages?visibilitytimeout=100",
    );
    send.body(message).send(&server).is(201);
    let shown = || {
        let peek = secondary(Service::Queue, "GET", "/work/messages?peekonly=true");
        peek.send(&server).is(200).text().contains("<MessageText>")
    };
    advance(&server, 70);
    assert!(!shown());
    advance(&server, 31);
    assert!(shown());
}

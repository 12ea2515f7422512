//! `/_lazurite/state/reset` with names in its body: a part of the store is emptied while clients
//! use all of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Connection, Request, Response};
use crate::server::{ACCOUNT, Launch, Server, Service};
use crate::state::{names, put, set, state};
use crate::test_clock::lazurite;

fn reset(server: &Server, part: &Value) -> Response {
    state("POST", "reset").body(part.to_string()).send(server)
}

fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

fn table(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
}

fn make_table(name: &str) -> Request {
    table("POST", "/Tables").json(json!({"TableName": name}).to_string())
}

fn put_blob(target: &str) -> Request {
    Request::new(Service::Blob, "PUT", target).header("x-ms-blob-type", "BlockBlob")
}

/// Creates two containers, queues and tables. The first of each is not empty.
fn fill(server: &Server) {
    let made = [
        put("aaa"),
        put("bbb"),
        put_blob("/aaa/blob").body("content"),
        queue("PUT", "/one"),
        queue("PUT", "/two"),
        queue("POST", "/one/messages")
            .body("<QueueMessage><MessageText>m</MessageText></QueueMessage>"),
        make_table("First"),
        make_table("Second"),
        table("PUT", "/First(PartitionKey='p',RowKey='r')").json("{}"),
    ];
    for request in &made {
        let status = request.send(server).status;
        assert!(
            (200..300).contains(&status),
            "{status} {}",
            request.target()
        );
    }
}

/// The names of the resources of all services.
fn everything(server: &Server) -> Vec<String> {
    let mut all: Vec<_> = names(server).into_iter().collect();
    let queues = queue("GET", "/?comp=list").send(server).is(200).text();
    let queues = queues.split("<Name>").skip(1);
    all.extend(queues.map(|rest| rest.split('<').next().unwrap().to_owned()));
    let tables = table("GET", "/Tables").send(server).is(200).json();
    let tables = tables["value"].as_array().unwrap().iter();
    all.extend(tables.map(|table| table["TableName"].as_str().unwrap().to_owned()));
    all
}

#[test]
fn reset_of_a_name_or_a_service_leaves_the_others() {
    let server = Server::fresh();
    for (part, left) in [
        (
            json!({"container": "aaa"}),
            &["bbb", "one", "two", "First", "Second"][..],
        ),
        (
            json!({"service": "queue", "queue": "one"}),
            &["aaa", "bbb", "two", "First", "Second"],
        ),
        (
            json!({"table": "first", "account": ACCOUNT}),
            &["aaa", "bbb", "one", "two", "Second"],
        ),
        (
            json!({"service": "blob"}),
            &["one", "two", "First", "Second"],
        ),
        (
            json!({"service": "queue"}),
            &["aaa", "bbb", "First", "Second"],
        ),
        (
            json!({"service": "table", "table": null}),
            &["aaa", "bbb", "one", "two"],
        ),
        (json!({"account": ACCOUNT}), &[]),
    ] {
        state("POST", "reset").send(&server).is(200);
        fill(&server);
        reset(&server, &part).is(200);
        assert_eq!(everything(&server), left, "{part}");
        // The names can be used again, and the new resources are empty.
        for request in [put("aaa"), queue("PUT", "/one"), make_table("First")] {
            let status = request.send(&server).status;
            assert!([201, 204, 409].contains(&status), "{part}: {status}");
        }
    }
    reset(&server, &json!({"container": "aaa"})).is(200);
    put("aaa").send(&server).is(201);
    let old = Request::new(Service::Blob, "GET", "/aaa/blob").send(&server);
    assert_eq!(old.is(404).code(), "BlobNotFound");
}

#[test]
fn leases_retention_and_reused_names_do_not_stand_against_a_reset() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--container-retention=7");
    let server = launch.argument("--as-azure").start();
    put("aaa").send(&server).is(201);
    Request::new(Service::Blob, "DELETE", "/aaa?restype=container")
        .send(&server)
        .is(202);
    assert_eq!(
        put("aaa").send(&server).is(409).code(),
        "ContainerBeingDeleted"
    );
    reset(&server, &json!({"container": "aaa"})).is(200);
    put("aaa").send(&server).is(201);
    let lease = Request::new(Service::Blob, "PUT", "/aaa?restype=container&comp=lease");
    let lease = lease
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1");
    lease.send(&server).is(201);
    reset(&server, &json!({"container": "aaa"})).is(200);
    let deleted = Request::new(Service::Blob, "GET", "/?comp=list&include=deleted").send(&server);
    assert!(!deleted.is(200).text().contains("<Name>aaa"));
    put("aaa").send(&server).is(201);
}

#[test]
fn reset_of_a_service_takes_back_its_properties() {
    let server = Server::fresh();
    let properties = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
                      <AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors>\
                      </StorageServiceProperties>";
    let target = "/?restype=service&comp=properties";
    for make in [Service::Blob, Service::Queue] {
        Request::new(make, "PUT", target)
            .body(properties)
            .send(&server)
            .is(202);
    }
    reset(&server, &json!({"service": "blob"})).is(200);
    let has_rule = |service| {
        let shown = Request::new(service, "GET", target).send(&server);
        shown.is(200).text().contains("a.example")
    };
    assert!(!has_rule(Service::Blob) && has_rule(Service::Queue));
}

#[test]
fn reset_of_an_account_in_a_fork_is_of_that_fork_only() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    for name in ["t1", "t2"] {
        let body = json!({"name": name}).to_string();
        state("POST", "forks").body(body).send(&server).is(201);
    }
    reset(&server, &json!({"account": format!("{ACCOUNT}--t1")})).is(200);
    let has = |fork: &str| {
        let list = Request::new(Service::Blob, "GET", "/?comp=list").in_fork(fork);
        list.send(&server).is(200).text().contains("<Name>aaa")
    };
    assert!(!has("t1") && has("t2"));
    assert_eq!(names(&server), set(&["aaa"]));
    let none = reset(&server, &json!({"account": format!("{ACCOUNT}--t3")}));
    assert!(none.is(404).text().contains("ForkNotFound"));
}

#[test]
fn names_that_contradict_each_other_or_are_unknown_are_refused_and_nothing_is_deleted() {
    let server = Server::fresh();
    fill(&server);
    let before = everything(&server);
    for (part, status, word) in [
        (
            json!({"container": "aaa", "queue": "one"}),
            400,
            "container and queue contradict",
        ),
        (
            json!({"service": "table", "container": "aaa"}),
            400,
            "the table service has no containers",
        ),
        (json!({"service": "files"}), 400, "blob, queue and table"),
        (
            json!({"bucket": "aaa"}),
            400,
            "bucket: there is no such field",
        ),
        (json!({"container": 7}), 400, "neither a text nor null"),
        (json!(["aaa"]), 400, "expected a JSON object"),
        (json!({"container": null}), 400, "names nothing"),
        (json!({"account": "other"}), 404, "There is no account"),
        (json!({"container": "ccc"}), 404, "no container"),
        (json!({"container": "../aaa"}), 404, "no container"),
        (json!({"queue": "three"}), 404, "no queue"),
        (json!({"table": "Third"}), 404, "no table"),
    ] {
        let refused = reset(&server, &part);
        let text = refused.text();
        assert!(
            refused.status == status && text.contains(word),
            "{part}: {text}"
        );
    }
    let twice = r#"{"container": "aaa", "container": null}"#;
    let refused = state("POST", "reset").body(twice).send(&server);
    assert!(refused.text().contains("container comes twice"));
    assert_eq!(everything(&server), before);
    // An object without fields resets everything, however it is formatted.
    state("POST", "reset").body("{ }\n").send(&server).is(200);
    assert!(everything(&server).is_empty());
}

/// Writes blobs, and makes their container again when it is gone. Returns the acknowledged blobs,
/// with the times at which their requests began and ended.
fn write_on(
    mut connection: Connection,
    container: &str,
    is_over: &AtomicBool,
) -> Vec<(String, Instant, Instant)> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("b{number}");
        let began = Instant::now();
        let answer = connection
            .send(&put_blob(&format!("/{container}/{name}")))
            .unwrap();
        match answer.status {
            201 => acknowledged.push((name, began, Instant::now())),
            503 => assert_eq!(answer.header("Retry-After"), Some("1")),
            404 => {
                let made = connection.send(&put(container)).unwrap();
                assert!([201, 503].contains(&made.status), "{}", made.status);
            }
            other => panic!("{container}: {other}"),
        }
    }
    acknowledged
}

#[test]
fn write_under_way_lands_before_a_reset_or_is_refused_and_others_go_on() {
    let server = Server::fresh();
    for name in ["aaa", "other"] {
        put(name).send(&server).is(201);
    }
    let is_over = AtomicBool::new(false);
    let (mut resets, mut written) = (Vec::new(), Vec::new());
    let mut others = Vec::new();
    std::thread::scope(|threads| {
        let [writer, other] = ["aaa", "other"].map(|container| {
            let connection = Connection::open(&server, Service::Blob).unwrap();
            let is_over = &is_over;
            threads.spawn(move || write_on(connection, container, is_over))
        });
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(10));
            let began = Instant::now();
            let status = reset(&server, &json!({"container": "aaa"})).status;
            // 404 if the writer has not created the container again yet.
            assert!([200, 404].contains(&status), "{status}");
            if status == 200 {
                resets.push((began, Instant::now()));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        written = writer.join().unwrap();
        others = other.join().unwrap();
    });
    let (last_began, last_ended) = *resets.last().unwrap();
    let list = Request::new(Service::Blob, "GET", "/aaa?restype=container&comp=list").send(&server);
    let text = list.text();
    for (name, began, ended) in &written {
        let is_there = text.contains(&format!("<Name>{name}</Name>"));
        assert!(
            !(is_there && *ended < last_began),
            "{name} was there before the reset"
        );
        assert!(
            is_there || *began < last_ended,
            "{name} was written after the reset"
        );
    }
    // Writes to other containers are not lost.
    let number = others.len();
    assert!(number > 20, "{number}");
    let last = &others.last().unwrap().0;
    Request::new(Service::Blob, "GET", &format!("/other/{last}"))
        .send(&server)
        .is(200);
}

#[test]
fn command_resets_a_part() {
    let server = Server::fresh();
    fill(&server);
    let (succeeded, text) = lazurite(&server, &["state", "reset", "--container", "aaa"], None);
    assert!(succeeded && text.contains("everything of aaa"), "{text}");
    let words = ["state", "reset", "--account", ACCOUNT, "--service", "queue"];
    let (succeeded, text) = lazurite(&server, &words, None);
    assert!(
        succeeded && text.contains("everything of queue of"),
        "{text}"
    );
    assert_eq!(everything(&server), ["bbb", "First", "Second"]);
    let (succeeded, text) = lazurite(&server, &["state", "reset", "--table", "none"], None);
    assert!(!succeeded && text.contains("no table"), "{text}");
}

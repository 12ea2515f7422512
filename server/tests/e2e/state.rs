//! `/_lazurite/state/…`: a store is reset, snapshotted and restored while clients use it, and the
//! process may be killed at any time.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Connection, Request, Response};
use crate::random::{Random, environment_number, test_seeds};
use crate::server::{Launch, Server, Service};
use crate::test_clock::{lazurite, page};

pub(crate) type Names = BTreeSet<String>;

pub(crate) fn state(method: &str, path: &str) -> Request {
    page(method, &format!("state/{path}"))
}

fn reset(server: &Server) {
    state("POST", "reset").send(server).is(200);
}

pub(crate) fn take(server: &Server, name: &str) -> Value {
    let taken = state("PUT", &format!("snapshots/{name}")).send(server);
    taken.is(201).json()
}

pub(crate) fn restore(server: &Server, name: &str) {
    let restored = state("POST", &format!("snapshots/{name}/restore"));
    restored.send(server).is(200);
}

fn snapshots(server: &Server) -> Names {
    let listed = state("GET", "snapshots").send(server).is(200).json();
    let listed = listed["snapshots"].as_array().unwrap().iter();
    listed
        .map(|snapshot| snapshot["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A request that creates a container with this name.
pub(crate) fn put(name: &str) -> Request {
    Request::new(Service::Blob, "PUT", &format!("/{name}?restype=container"))
}

/// The names of all containers.
pub(crate) fn names(server: &Server) -> Names {
    let (mut names, mut marker) = (Names::new(), String::new());
    loop {
        let target = format!("/?comp=list&marker={marker}");
        let page = Request::new(Service::Blob, "GET", &target).send(server);
        let text = page.is(200).text();
        let found = text.split("<Name>").skip(1);
        names.extend(found.map(|rest| rest.split('<').next().unwrap().to_owned()));
        marker = page.element("NextMarker").unwrap_or_default();
        if marker.is_empty() {
            return names;
        }
    }
}

pub(crate) fn set(names: &[&str]) -> Names {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn reset_empties_all_services_and_connected_clients_go_on() {
    let server = Server::fresh();
    let make = [
        put("con"),
        Request::new(Service::Queue, "PUT", "/work"),
        Request::new(Service::Table, "POST", "/Tables").json(r#"{"TableName":"Things"}"#),
    ];
    let list = ["/?comp=list", "/?comp=list", "/Tables"];
    let mut connections = Service::ALL.map(|service| Connection::open(&server, service).unwrap());
    for round in 0..3 {
        for (request, connection) in make.iter().zip(&mut connections) {
            connection.send(request).unwrap().is(201);
        }
        let blob =
            Request::new(Service::Blob, "PUT", "/con/b").header("x-ms-blob-type", "BlockBlob");
        blob.body(vec![7; 300_000]).send(&server).is(201);
        reset(&server);
        for ((service, target), connection) in
            Service::ALL.into_iter().zip(list).zip(&mut connections)
        {
            let answer = connection
                .send(&Request::new(service, "GET", target))
                .unwrap();
            let text = answer.is(200).text();
            let is_empty = ["con", "work", "Things"].iter().all(|name| {
                !text.contains(&format!(">{name}<")) && !text.contains(&format!("\"{name}\""))
            });
            assert!(is_empty, "round {round}: {text}");
        }
    }
}

#[test]
fn clock_of_a_store_ends_with_it_and_comes_back_with_its_snapshot() {
    let server = Server::fresh();
    let offset = || {
        page("GET", "clock").send(&server).json()["offsetSeconds"]
            .as_f64()
            .unwrap()
    };
    let body = json!({"advance": "PT1H"}).to_string().into_bytes();
    page("PUT", "clock").body(body).send(&server).is(200);
    take(&server, "later");
    reset(&server);
    assert!(offset() < 5.0);
    restore(&server, "later");
    assert!((3595.0..3605.0).contains(&offset()));
}

/// An attempt to write, with times by the client's clock.
struct Attempt {
    name: String,
    began: Instant,
    ended: Instant,
    status: u16,
}

/// Creates containers with new names until `is_over`.
fn write_on(mut connection: Connection, writer: usize, is_over: &AtomicBool) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{}", attempts.len());
        let began = Instant::now();
        let answer: Response = connection.send(&put(&name)).unwrap();
        if answer.status == 503 {
            assert_eq!(answer.header("Retry-After"), Some("1"));
            assert_eq!(answer.code(), "ServerBusy");
        } else {
            answer.is(201);
        }
        attempts.push(Attempt {
            name,
            began,
            ended: Instant::now(),
            status: answer.status,
        });
    }
    attempts
}

/// Runs `operate` while several clients write, and returns their attempts.
fn under_load(server: &Server, operate: impl FnOnce()) -> Vec<Attempt> {
    const WRITERS: usize = 4;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let is_over = &is_over;
                let connection = Connection::open(server, Service::Blob).unwrap();
                scope.spawn(move || write_on(connection, writer, is_over))
            })
            .collect();
        operate();
        is_over.store(true, Ordering::Relaxed);
        let attempts = writers.into_iter().map(|writer| writer.join().unwrap());
        attempts.flatten().collect()
    })
}

#[test]
fn no_write_is_acknowledged_behind_a_reset_and_none_that_was_refused_appears() {
    let server = Server::fresh();
    let mut last = None;
    let attempts = under_load(&server, || {
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(10));
            let began = Instant::now();
            reset(&server);
            last = Some((began, Instant::now()));
        }
        std::thread::sleep(Duration::from_millis(50));
    });
    let (began, ended) = last.unwrap();
    let present = names(&server);
    let mut after = 0;
    for attempt in attempts {
        let name = &attempt.name;
        if attempt.status == 503 {
            assert!(!present.contains(name), "{name} was refused");
        } else if attempt.began >= ended {
            assert!(
                present.contains(name),
                "{name} was acknowledged after the reset"
            );
            after += 1;
        } else if attempt.ended <= began {
            assert!(
                !present.contains(name),
                "{name} was written before the reset"
            );
        }
    }
    assert!(after > 0);
}

#[test]
fn snapshot_under_load_has_every_write_before_it_and_none_after() {
    let server = Server::fresh();
    let mut taken = None;
    let attempts = under_load(&server, || {
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        let snapshot = take(&server, "busy");
        assert!(snapshot["bytes"].as_u64().unwrap() > 0, "{snapshot}");
        taken = Some((began, Instant::now()));
        std::thread::sleep(Duration::from_millis(50));
    });
    let (began, ended) = taken.unwrap();
    restore(&server, "busy");
    let present = names(&server);
    for Attempt {
        name,
        began: from,
        ended: to,
        status,
    } in attempts
    {
        assert_eq!(status, 201);
        if to <= began {
            assert!(present.contains(&name), "{name} was acknowledged before");
        } else if from >= ended {
            assert!(!present.contains(&name), "{name} came after");
        }
    }
    assert!(!present.is_empty());
}

#[test]
fn snapshots_outlive_resets_restarts_and_each_other() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    put("aaa").send(&server).is(201);
    let one = take(&server, "one");
    assert!(one["time"].as_str().unwrap().ends_with('Z'), "{one}");
    put("bbb").send(&server).is(201);
    take(&server, "two.b");
    reset(&server);
    server.kill();

    let server = Launch::on(location.path()).start();
    assert_eq!(names(&server), set(&[]));
    assert_eq!(snapshots(&server), set(&["one", "two.b"]));
    restore(&server, "one");
    assert_eq!(names(&server), set(&["aaa"]));
    put("ccc").send(&server).is(201);
    state("DELETE", "snapshots/one").send(&server).is(200);
    assert_eq!(server.signal("TERM").0.code(), Some(0));

    let server = Launch::on(location.path()).start();
    assert_eq!(names(&server), set(&["aaa", "ccc"]));
    assert_eq!(snapshots(&server), set(&["two.b"]));
    restore(&server, "two.b");
    assert_eq!(names(&server), set(&["aaa", "bbb"]));
    let (status, refused) = Launch::on(location.path()).refused();
    assert!(
        !status.success() && refused.contains("in use by process"),
        "{refused}"
    );
    server.kill();
    verify(location.path(), &["(snapshot two.b)", "nothing is damaged"]);
}

/// Checks that `lazurite verify` finds no damage and prints these parts.
fn verify(directory: &Path, parts: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    let output = command.arg("verify").arg(directory).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{text}");
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn damaged_list_of_stores_is_refused_with_what_to_do() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    put("aaa").send(&server).is(201);
    reset(&server);
    put("bbb").send(&server).is(201);
    server.kill();
    let file = location.path().join("STORES.list");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[13] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let refused = || {
        let (status, text) = Launch::on(location.path()).refused();
        assert!(!status.success());
        for part in ["STORES.list", "backup", "verify"] {
            assert!(text.contains(part), "{text}");
        }
    };
    refused();
    bytes[13] ^= 1;
    std::fs::remove_file(&file).unwrap();
    refused();
    std::fs::write(&file, &bytes).unwrap();
    let server = Launch::on(location.path()).start();
    assert_eq!(names(&server), set(&["bbb"]));
}

#[test]
fn names_of_snapshots_that_are_none_are_refused() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    let refused = |method: &str, path: &str, status: u16, code: &str| {
        let answer = state(method, path).send(&server);
        let error = answer.is(status).json()["error"].clone();
        assert_eq!(error["code"], code, "{method} {path}: {error}");
    };
    let long = "n".repeat(65);
    for name in [
        "..%2F..%2Fescape",
        "%2e%2e",
        ".hidden",
        "a%2Fb",
        "a%5Cb",
        "a%00",
        "now",
        "caf%C3%A9",
        &long,
    ] {
        refused(
            "PUT",
            &format!("snapshots/{name}"),
            400,
            "InvalidSnapshotName",
        );
        refused(
            "DELETE",
            &format!("snapshots/{name}"),
            404,
            "SnapshotNotFound",
        );
        refused(
            "POST",
            &format!("snapshots/{name}/restore"),
            404,
            "SnapshotNotFound",
        );
    }
    for path in ["snapshots/../../escape", "snapshots/", "snapshots"] {
        let answer = state("PUT", path).send(&server);
        assert!(
            [404, 405].contains(&answer.status),
            "{path}: {}",
            answer.status
        );
    }
    take(&server, "one");
    refused("PUT", "snapshots/one", 409, "SnapshotAlreadyExists");
    state("POST", "reset").body("{}").send(&server).is(200);
    let everything = state("POST", "reset").body("[1]").send(&server);
    assert_eq!(everything.is(400).json()["error"]["code"], "InvalidInput");
    let entries: Names = std::fs::read_dir(location.path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!entries.contains("escape"));
}

#[test]
fn state_is_changed_from_this_machine_only_and_by_no_foreign_page() {
    let server = Server::fresh();
    take(&server, "one");
    put("aaa").send(&server).is(201);
    for (header, value) in [
        ("Origin", "http://example.com"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Host", "example.com"),
        ("X-Forwarded-For", "10.0.0.1"),
    ] {
        for (method, path) in [
            ("POST", "reset"),
            ("GET", "snapshots"),
            ("PUT", "snapshots/two"),
            ("DELETE", "snapshots/one"),
            ("POST", "snapshots/one/restore"),
        ] {
            let refused = state(method, path).header(header, value).send(&server);
            assert_eq!(refused.status, 403, "{method} {path} {header}");
        }
    }
    assert_eq!(snapshots(&server), set(&["one"]));
    assert_eq!(names(&server), set(&["aaa"]));
}

#[test]
fn store_in_memory_is_reset_kept_and_restored() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--inMemoryPersistence")
        .start();
    put("aaa").send(&server).is(201);
    let blob = Request::new(Service::Blob, "PUT", "/aaa/b").header("x-ms-blob-type", "BlockBlob");
    blob.body(vec![7; 300_000]).send(&server).is(201);
    assert_eq!(take(&server, "one")["bytes"], Value::Null);
    reset(&server);
    assert_eq!(names(&server), set(&[]));
    restore(&server, "one");
    let read = Request::new(Service::Blob, "GET", "/aaa/b").send(&server);
    assert_eq!(read.is(200).body, vec![7; 300_000]);
    assert_eq!(std::fs::read_dir(location.path()).unwrap().count(), 0);
}

/// The state that one client expects of a store that is killed under load.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Model {
    names: Names,
    snapshots: std::collections::BTreeMap<String, Names>,
}

impl Model {
    /// A random operation: its request, and the model afterwards.
    fn next(&self, random: &mut Random, number: u64) -> (Request, Model) {
        let mut next = self.clone();
        let snapshot = random.one_of(&["one", "two"]).to_owned();
        let kept = self.snapshots.get(&snapshot);
        let request = match (random.below(6), kept) {
            (0, Some(names)) => {
                next.names = names.clone();
                state("POST", &format!("snapshots/{snapshot}/restore"))
            }
            (1, Some(_)) => {
                next.snapshots.remove(&snapshot);
                state("DELETE", &format!("snapshots/{snapshot}"))
            }
            (2, _) => {
                next.names.clear();
                state("POST", "reset")
            }
            (0..=3, None) => {
                next.snapshots.insert(snapshot.clone(), self.names.clone());
                state("PUT", &format!("snapshots/{snapshot}"))
            }
            _ => {
                let name = format!("name-{number}");
                next.names.insert(name.clone());
                put(&name)
            }
        };
        (request, next)
    }

    fn matches(&self, server: &Server) -> bool {
        self.names == names(server)
            && self.snapshots.keys().cloned().collect::<Names>() == snapshots(server)
    }
}

#[test]
fn state_survives_kill_9_at_any_time() {
    let kills = environment_number("LAZURITE_KILLS", 6);
    for seed in test_seeds() {
        let mut random = Random(seed);
        let location = TempDir::new().unwrap();
        let (mut model, mut number) = (Model::default(), 0);
        for kill in 0..kills {
            let server = Launch::on(location.path()).start();
            let delay = Duration::from_millis(random.below(150));
            let killer = {
                let process = server.pid().to_string();
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    let killed = Command::new("kill").args(["-9", &process]).status();
                    assert!(killed.unwrap().success());
                })
            };
            let mut connection = Connection::open(&server, Service::Blob).unwrap();
            let next = loop {
                let (request, next) = model.next(&mut random, number);
                number += 1;
                match connection.send(&request) {
                    Ok(answer) => {
                        assert!((200..300).contains(&answer.status), "{}", answer.text());
                        model = next;
                    }
                    Err(_) => break next,
                }
            };
            killer.join().unwrap();
            server.ends();
            let server = Launch::on(location.path()).start();
            model = [model, next]
                .into_iter()
                .find(|model| model.matches(&server))
                .unwrap_or_else(|| {
                    panic!("kill {kill}: {:?} {:?}", names(&server), snapshots(&server))
                });
            let directories = std::fs::read_dir(location.path().join("stores"));
            let count = directories.map_or(0, |directories| directories.count());
            assert!(count <= model.snapshots.len() + 1, "left-overs are removed");
            for (name, names_then) in model.snapshots.clone() {
                restore(&server, &name);
                assert_eq!(names(&server), names_then, "kill {kill}: {name}");
                model.names = names_then;
            }
            server.kill();
        }
        verify(location.path(), &[]);
    }
}

#[test]
fn command_resets_keeps_restores_and_forks() {
    let server = Server::fresh();
    let good = |words: &[&str], part: &str| {
        let (succeeded, text) = lazurite(&server, words, None);
        assert!(succeeded && text.contains(part), "{words:?}: {text}");
    };
    put("aaa").send(&server).is(201);
    good(&["state", "snapshot", "one"], "saved");
    good(&["state", "reset"], "empty");
    assert_eq!(names(&server), set(&[]));
    good(&["state", "restore", "one"], "restored the snapshot one");
    assert_eq!(names(&server), set(&["aaa"]));
    good(
        &["state", "fork", "one", "--name", "t1"],
        "AccountName=devstoreaccount1--t1;",
    );
    good(&["state", "list"], "of one, idle for");
    good(&["state", "list", "--json"], "\"name\":\"one\"");
    good(&["state", "release", "t1"], "ended");
    good(&["state", "delete", "one"], "deleted");
    let (succeeded, text) = lazurite(&server, &["state", "restore", "../one"], None);
    assert!(!succeeded && text.contains("no snapshot"), "{text}");
}

//! `lazurite status`: the facts about a server, its snapshots and forks, and its disk space.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::Request;
use crate::server::{Launch, Server, Service};
use crate::test_clock::{lazurite, page};

fn status(server: &Server) -> Value {
    let (succeeded, text) = lazurite(server, &["status", "--json"], None);
    assert!(succeeded, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn status_shows_addresses_bytes_and_what_snapshots_and_forks_hold() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    let blob = |method: &str, target: &str| Request::new(Service::Blob, method, target);
    blob("PUT", "/con?restype=container").send(&server).is(201);
    let put = blob("PUT", "/con/a").header("x-ms-blob-type", "BlockBlob");
    put.body(vec![7; 2 << 20]).send(&server).is(201);
    page("PUT", "state/snapshots/seed").send(&server).is(201);
    let fork = json!({ "name": "pr42" }).to_string();
    page("POST", "state/forks").body(fork).send(&server).is(201);

    let status = status(&server);
    let bytes = |value: &Value| value.as_u64().unwrap();
    assert!(bytes(&status["live_bytes"]) > 2 << 20, "{status}");
    let on_disk = bytes(&status["disk_bytes"]);
    // The snapshot shares its files with the store, so they count once.
    assert!((2 << 20..6 << 20).contains(&on_disk), "{status}");
    let snapshot = &status["snapshots"][0];
    assert_eq!(snapshot["name"], "seed");
    assert!(bytes(&snapshot["bytes"]) > 2 << 20, "{status}");
    assert_eq!(status["forks"][0]["name"], "pr42");
    let queue = format!("127.0.0.1:{}", server.ports.queue);
    let endpoint = json!({ "service": "queue", "address": queue });
    assert!(
        status["endpoints"].as_array().unwrap().contains(&endpoint),
        "{status}"
    );
    if cfg!(target_os = "linux") {
        assert!(bytes(&status["memory_bytes"]) > 1 << 20, "{status}");
    }

    let (succeeded, text) = lazurite(&server, &["status"], None);
    assert!(succeeded, "{text}");
    let first = text.lines().next().unwrap_or_default();
    let place = format!(" on {}", location.path().display());
    assert!(first.starts_with("running at 127.0.0.1:"), "{first}");
    assert!(first.ends_with(&place), "{first}");
    for part in [
        "version",
        "snapshot  seed  2.",
        "fork      pr42  ",
        "on disk",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn status_of_a_store_in_memory_has_no_directory_and_of_no_server_is_a_sentence() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path());
    let server = server.argument("--inMemoryPersistence").start();
    let status = status(&server);
    assert_eq!(status["disk_bytes"], Value::Null);
    let mut absent = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    let string = "AccountName=a;AccountKey=AAAA;BlobEndpoint=http://127.0.0.1:1/a";
    let absent = absent
        .args(["status", "--connection-string", string])
        .output()
        .unwrap();
    assert!(!absent.status.success());
    let text = String::from_utf8(absent.stderr).unwrap();
    assert!(text.contains("nothing answers on 127.0.0.1:1"), "{text}");
}

//! `lazurite ls`, `tree`, `cat`, `put`, `rm`, `peek`, `send` and `query` against a running server.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::http::Request;
use crate::server::{Launch, Server, Service};
use crate::transfers::wait_until;

/// Runs a command. Returns whether it succeeded, and its output on both streams.
fn run(server: &Server, arguments: &[&str], input: &[u8]) -> (bool, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .args(arguments)
        .env(
            "AZURE_STORAGE_CONNECTION_STRING",
            server.connection_string(),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[track_caller]
fn printed(server: &Server, arguments: &[&str]) -> String {
    let (success, out, err) = run(server, arguments, b"");
    assert!(success, "{arguments:?}: {out}{err}");
    out
}

#[test]
fn host_and_port_lead_to_a_server_instead_of_a_connection_string() {
    let server = with_photos();
    let port = server.ports.blob.to_string();
    for arguments in [
        &["status", "--port", &port][..],
        &[
            "put",
            "-",
            "photos/a",
            "--host",
            "localhost",
            "--port",
            &port,
        ],
        &["cat", "photos/a", "--port", &port],
        &["requests", "--port", &port],
        &["state", "list", "--port", &port],
        &["clock", "--port", &port],
        &["clock", "show", "--port", &port],
        &["faults", "--port", &port, "show"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_lazurite"))
            .args(arguments)
            // Nothing listens there.
            .env(
                "AZURE_STORAGE_CONNECTION_STRING",
                "BlobEndpoint=http://127.0.0.1:1/a",
            )
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}");
    }
    for more in [
        &["--port", "65534"][..],
        &["--host", "http://localhost"],
        &[
            "--port",
            &port,
            "--connection-string",
            "UseDevelopmentStorage=true",
        ],
    ] {
        let arguments = [&["ls"], more].concat();
        let (success, _, err) = run(&server, &arguments, b"");
        assert!(
            !success && err.starts_with("error: "),
            "{arguments:?}: {err}"
        );
    }
}

/// A server with the container `photos`.
fn with_photos() -> Server {
    let server = Server::fresh();
    let photos = created(Service::Blob, "PUT", "/photos?restype=container");
    photos.send(&server).is(201);
    server
}

fn created(service: Service, method: &str, target: &str) -> Request {
    Request::new(service, method, target)
}

#[test]
fn standard_input_of_any_length_is_put_in_blocks() {
    const BLOCK: usize = 8 << 20;
    let server = with_photos();
    for (length, blocks) in [(0, 0), (BLOCK - 1, 0), (BLOCK, 1), (2 * BLOCK + 7, 3)] {
        let content: Vec<u8> = (0..length as u32)
            .map(|number| (number >> 4) as u8)
            .collect();
        let put = ["put", "-", "photos/piped", "--type", "text/plain"];
        let (success, _, err) = run(&server, &put, &content);
        assert!(success, "{err}");
        let got = created(Service::Blob, "GET", "/photos/piped").send(&server);
        assert!(got.is(200).body == content, "{length}");
        got.has_header("content-type", "text/plain");
        let list = created(Service::Blob, "GET", "/photos/piped?comp=blocklist").send(&server);
        assert_eq!(list.is(200).text().matches("<Block>").count(), blocks);
    }
}

/// Files of `/proc` report a length that is not that of their content.
#[test]
#[cfg(target_os = "linux")]
fn files_of_the_system_are_put_whole() {
    let server = with_photos();
    for file in ["/sys/devices/system/cpu/online", "/proc/version"] {
        printed(&server, &["put", file, "photos/system"]);
        let got = created(Service::Blob, "GET", "/photos/system").send(&server);
        assert!(got.is(200).body == std::fs::read(file).unwrap(), "{file}");
    }
    let (success, _, err) = run(&server, &["put", "/", "photos/directory"], b"");
    assert!(!success && err.contains("cannot read /: "), "{err}");
}

#[test]
fn contents_that_two_clients_put_in_blocks_are_not_mixed() {
    const BLOCK: usize = 8 << 20;
    let server = with_photos();
    let mut slow = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .args(["put", "-", "photos/both", "--connection-string"])
        .arg(server.connection_string())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = slow.stdin.take().unwrap();
    input.write_all(&vec![b'a'; BLOCK]).unwrap();
    let staged = "/photos/both?comp=blocklist&blocklisttype=uncommitted";
    let is_staged = || {
        let list = created(Service::Blob, "GET", staged).send(&server);
        list.text().contains("<Block>")
    };
    wait_until("the first block is there", is_staged);
    let quick = vec![b'b'; BLOCK + 1];
    let (success, _, err) = run(&server, &["put", "-", "photos/both"], &quick);
    assert!(success, "{err}");
    input.write_all(b"aa").unwrap();
    drop(input);
    let output = slow.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && err.contains("another client has written the blob meanwhile"),
        "{err}"
    );
    let got = created(Service::Blob, "GET", "/photos/both").send(&server);
    assert!(got.is(200).body == quick);
}

#[test]
fn blocks_that_are_refused_say_what_is_in_the_way() {
    let server = with_photos();
    let append =
        created(Service::Blob, "PUT", "/photos/log").header("x-ms-blob-type", "AppendBlob");
    append.send(&server).is(201);
    let foreign = created(
        Service::Blob,
        "PUT",
        "/photos/foreign?comp=block&blockid=YQ==",
    );
    foreign.body(b"x").send(&server).is(201);
    let content = vec![b'x'; (8 << 20) + 1];
    for (name, kind, reason) in [
        (
            "log",
            "text/plain",
            "a blob of another type has the name: remove it first",
        ),
        ("foreign", "text/plain", "put an empty file first"),
        ("wrong", "te\nx", "cannot be a Content-Type"),
    ] {
        let put = ["put", "-", &format!("photos/{name}"), "--type", kind];
        let (success, _, err) = run(&server, &put, &content);
        assert!(!success && err.contains(reason), "{name}: {err}");
    }
    let list = created(
        Service::Blob,
        "GET",
        "/photos/wrong?comp=blocklist&blocklisttype=all",
    );
    list.send(&server).is(404);
}

#[test]
fn slashes_in_the_name_of_a_blob_stay() {
    let server = with_photos();
    for name in ["x", "/x", "d/y", "d//y"] {
        let path = format!("photos/{name}");
        let (success, _, err) = run(&server, &["put", "-", &path], name.as_bytes());
        assert!(success, "{err}");
    }
    for name in ["x", "/x", "d/y", "d//y"] {
        assert_eq!(printed(&server, &["cat", &format!("photos/{name}")]), name);
    }
    printed(&server, &["rm", "photos//x"]);
    printed(&server, &["rm", "photos/d//y"]);
    assert_eq!(printed(&server, &["cat", "photos/x"]), "x");
    assert_eq!(printed(&server, &["cat", "photos/d/y"]), "d/y");
}

#[test]
fn blobs_are_put_listed_shown_and_removed() {
    let server = with_photos();
    created(Service::Queue, "PUT", "/orders")
        .send(&server)
        .is(201);
    created(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"People"}"#)
        .send(&server)
        .is(201);
    assert_eq!(
        printed(&server, &["ls"]),
        "container  photos\nqueue      orders\ntable      People\n"
    );
    let content: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
    for name in ["2026/a b#&.txt", "2026/11/c", "notes"] {
        let (success, _, err) = run(
            &server,
            &[
                "put",
                "-",
                &format!("photos/{name}"),
                "--type",
                "text/plain",
            ],
            b"blue",
        );
        assert!(success, "{err}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &content).unwrap();
    printed(
        &server,
        &["put", file.path().to_str().unwrap(), "photos/large"],
    );
    let shown = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .args([
            "cat",
            "photos/large",
            "--connection-string",
            &server.connection_string(),
        ])
        .output()
        .unwrap();
    assert!(shown.stdout == content);
    assert_eq!(printed(&server, &["cat", "photos/2026/a b#&.txt"]), "blue");
    let listed = printed(&server, &["ls", "photos"]);
    assert!(
        listed
            .lines()
            .next()
            .is_some_and(|line| line.ends_with("  2026/"))
            && listed
                .lines()
                .any(|line| line.starts_with("  3.0 MB  20") && line.ends_with("Z  large")),
        "{listed}"
    );
    let listed = printed(&server, &["ls", "photos/2026/", "--json"]);
    let kinds: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&kinds[0]["kind"], &kinds[1]["name"], &kinds[1]["bytes"]),
        (&"directory".into(), &"2026/a b#&.txt".into(), &4.into())
    );
    assert_eq!(
        printed(&server, &["tree", "photos"]),
        "2026/\n  11/\n    c\n  a b#&.txt\nlarge\nnotes\n"
    );
    printed(&server, &["rm", "photos/notes"]);
    let (success, _, err) = run(&server, &["cat", "photos/notes"], b"");
    assert!(
        !success && err.contains("there is no blob photos/notes"),
        "{err}"
    );
    let (success, _, err) = run(&server, &["rm", "photos"], b"");
    assert!(!success && err.contains("names no blob"), "{err}");
}

#[test]
fn a_directory_is_no_blob_and_the_refusal_says_what_to_do() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--hns").start();
    printed(&server, &["create", "container", "lake"]);
    let (success, ..) = run(&server, &["put", "-", "lake/raw/a.csv"], b"a");
    assert!(success);
    let file = location.path().join("file");
    let target = file.to_str().unwrap();
    for (arguments, reason) in [
        (&["cat", "lake/raw"][..], "`lazurite ls lake/raw` lists it"),
        (&["get", "lake/raw", target], "-r downloads what is in it"),
        (&["cp", "lake/raw", "lake/b"], "-r takes what is in it"),
        (&["mv", "lake/raw", "lake/b"], "-r takes what is in it"),
        (&["put", "-", "lake/raw"], "with a slash at the end"),
        (
            &["put", "-", "lake/raw/a.csv/b"],
            "a part of the path lake/raw/a.csv/b is a file",
        ),
        (&["rm", "lake/raw"], "-r deletes that"),
    ] {
        let (success, out, err) = run(&server, arguments, b"x");
        assert!(
            !success && err.contains(reason),
            "{arguments:?}: {out}{err}"
        );
    }
    assert!(!file.exists(), "a directory was downloaded as a file");
    assert_eq!(printed(&server, &["cat", "lake/raw/a.csv"]), "a");
}

#[test]
fn the_example_in_the_help_of_faults_is_one_that_the_server_takes() {
    let server = Server::fresh();
    let help = printed(&server, &["faults", "--help"]);
    let from = help.find("{\"rules\"").unwrap();
    let example = &help[from..help[from..].find("}]}").unwrap() + from + 3];
    let set = run(&server, &["faults", "set", "-"], example.as_bytes());
    assert!(set.0, "{example}: {}", set.2);
    let refused = run(&server, &["entity", "put", "People", "p/q", "r"], b"");
    assert!(
        refused.2.contains("none of the characters"),
        "{}",
        refused.2
    );
    for (directory, reason) in [
        ("/none/here", "there is no directory /none/here"),
        ("/proc/self/stat", "is a file"),
    ] {
        let (success, _, err) = run(&server, &["verify", directory], b"");
        assert!(!success && err.contains(reason), "{err}");
    }
}

#[test]
fn names_are_listed_as_they_are_and_all_tables_are() {
    let server = with_photos();
    for name in ["a&amp;b/<1>", "&lt;"] {
        let (success, _, err) = run(&server, &["put", "-", &format!("photos/{name}")], b"x");
        assert!(success, "{err}");
    }
    let listed = printed(&server, &["ls", "photos"]);
    let ends: Vec<_> = listed
        .lines()
        .map(|line| line.rsplit("  ").next().unwrap())
        .collect();
    assert_eq!(ends, ["a&amp;b/", "&lt;"], "{listed}");
    assert_eq!(
        printed(&server, &["tree", "photos"]),
        "&lt;\na&amp;b/\n  <1>\n"
    );
    for number in 0..1001 {
        created(Service::Table, "POST", "/Tables")
            .json(format!(r#"{{"TableName":"t{number:04}"}}"#))
            .send(&server)
            .is(201);
    }
    let listed = printed(&server, &["ls"]);
    assert!(
        listed.ends_with("table      t0999\ntable      t1000\n"),
        "{listed}"
    );
}

#[test]
fn messages_are_sent_and_looked_at() {
    let server = Server::fresh();
    created(Service::Queue, "PUT", "/orders")
        .send(&server)
        .is(201);
    printed(
        &server,
        &[
            "send",
            "orders",
            "a <b> & \u{1b}[2J".replace('\u{1b}', "").as_str(),
        ],
    );
    let (success, _, err) = run(&server, &["send", "orders", "-"], b"from a pipe");
    assert!(success, "{err}");
    let too_long = vec![b'x'; (64 << 10) + 1];
    let (success, _, err) = run(&server, &["send", "orders", "-"], &too_long);
    assert!(
        !success && err.contains("a message has at most 64 KiB"),
        "{err}"
    );
    let peeked = printed(&server, &["peek", "orders"]);
    assert!(
        peeked.contains("  0  a <b> & [2J\n") && peeked.ends_with("from a pipe\n"),
        "{peeked}"
    );
    let first: Value =
        serde_json::from_str(printed(&server, &["peek", "orders", "-n", "1", "--json"]).trim())
            .unwrap();
    assert_eq!(
        (&first["text"], &first["dequeue_count"]),
        (&"a <b> & [2J".into(), &0.into())
    );
}

#[test]
fn entities_are_printed_as_a_table_as_json_and_as_csv() {
    let server = Server::fresh();
    created(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"People"}"#)
        .send(&server)
        .is(201);
    for (row, rest) in [
        ("1", r#""Name":"Don, O'Hara""#),
        ("2", r#""Age":34"#),
        ("3", r#""Age":7"#),
    ] {
        let entity = format!(r#"{{"PartitionKey":"Sales","RowKey":"{row}",{rest}}}"#);
        created(Service::Table, "POST", "/People")
            .json(entity)
            .send(&server)
            .is(201);
    }
    let filter = "PartitionKey eq 'Sales' and Age gt 10";
    let (success, out, err) = run(
        &server,
        &["query", "People", filter, "--format", "json"],
        b"",
    );
    let entity: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(
        (success, &entity["RowKey"], &entity["Age"]),
        (true, &"2".into(), &34.into())
    );
    assert!(
        err.starts_with("plan ") && err.contains(" examined"),
        "{err}"
    );
    let csv = printed(&server, &["query", "People", "--format", "csv"]);
    let lines: Vec<_> = csv.lines().collect();
    assert!(
        lines[0].starts_with("PartitionKey,RowKey,") && lines[1].contains("\"Don, O'Hara\""),
        "{csv}"
    );
    assert_eq!(lines.len(), 4);
    let (_, table, err) = run(&server, &["query", "People", "--top", "2"], b"");
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(err.contains("there are more"), "{err}");
    let (success, _, err) = run(&server, &["query", "People", "PartitionKey eq Sales"], b"");
    assert!(!success && err.contains("write it in quotes"), "{err}");
}

//! Commands on many things: directories up and down, copies and moves between containers, accounts,
//! forks and servers, entities, and deletions beside writers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Connection, Request};
use crate::server::{ACCOUNT, KEY, Launch, PATIENCE, Server, Service};
use crate::test_clock::page;

fn run(server: &Server, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .args(words)
        .env(
            "AZURE_STORAGE_CONNECTION_STRING",
            server.connection_string(),
        )
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What a command prints on both streams, which succeeds.
#[track_caller]
fn ok(server: &Server, words: &[&str]) -> String {
    let output = run(server, words);
    let text = String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{words:?}: {text}");
    text
}

/// What a command prints on both streams, which fails.
#[track_caller]
fn fails(server: &Server, words: &[&str]) -> String {
    let output = run(server, words);
    let text = String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
    text
}

fn request(service: Service, method: &str, target: &str) -> Request {
    Request::new(service, method, target)
}

/// A server with the containers `photos` and `backup`.
fn with_containers() -> Server {
    let server = Server::fresh();
    ok(&server, &["create", "container", "photos", "backup"]);
    server
}

fn put(server: &Server, path: &str, content: &str) -> crate::http::Response {
    let put = request(Service::Blob, "PUT", path).header("x-ms-blob-type", "BlockBlob");
    put.body(content).send(server)
}

/// The names of a container, in order.
fn names(server: &Server, container: &str, words: &[&str]) -> Vec<String> {
    let words = [&["tree", container, "--json"], words].concat();
    let output = run(server, &words);
    let lines = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| {
        let fact: Value = serde_json::from_str(line).unwrap();
        fact["name"].as_str().unwrap().to_owned()
    };
    lines.lines().map(name).collect()
}

fn write(directory: &Path, name: &str, content: &str) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn directories_that_are_real_are_copied_moved_and_deleted_with_what_is_in_them() {
    let data = TempDir::new().unwrap();
    let server = Launch::on(data.path()).argument("--hns").start();
    ok(&server, &["create", "container", "lake", "backup"]);
    for path in ["a/1", "a/b/2", "a-b/3"] {
        put(&server, &format!("/lake/d/{path}"), "x").is(201);
    }
    let scratch = TempDir::new().unwrap();
    let down = scratch.path().join("down");
    let said = ok(&server, &["get", "-r", "lake/d", down.to_str().unwrap()]);
    assert!(said.contains("3 "), "{said}");
    assert_eq!(fs::read_to_string(down.join("a/b/2")).unwrap(), "x");
    let files = ["e/a", "e/a-b", "e/a-b/3", "e/a/1", "e/a/b", "e/a/b/2"];
    ok(&server, &["cp", "-r", "lake/d", "backup/e"]);
    assert_eq!(names(&server, "backup", &[]), [&["e"][..], &files].concat());
    ok(&server, &["mv", "-r", "lake/d", "lake/e"]);
    assert_eq!(
        names(&server, "lake", &[]),
        [&["d", "e"][..], &files].concat()
    );
    let said = ok(&server, &["rm", "-r", "lake/e", "--yes"]);
    assert!(said.contains("6"), "{said}");
    assert_eq!(names(&server, "lake", &[]), ["d", "e"]);
    ok(&server, &["rm", "lake/e", "--yes"]);
    assert_eq!(names(&server, "lake", &[]), ["d"]);
}

#[test]
fn directories_go_up_and_down() {
    let server = with_containers();
    let scratch = TempDir::new().unwrap();
    let (up, down) = (scratch.path().join("album"), scratch.path().join("down"));
    for (name, content) in [
        ("index.html", "<p>"),
        ("2026/a b#&.svg", "<svg>"),
        ("2026/.hidden", "x"),
        ("empty", ""),
    ] {
        write(&up, name, content);
    }
    let said = ok(
        &server,
        &["put", "-r", up.to_str().unwrap(), "photos/album"],
    );
    assert!(said.contains("uploaded 4 files, 9 B"), "{said}");
    let expected = [
        "album/2026/.hidden",
        "album/2026/a b#&.svg",
        "album/empty",
        "album/index.html",
    ];
    assert_eq!(names(&server, "photos", &[]), expected);
    for (name, kind) in [
        ("album/index.html", "text/html"),
        ("album/2026/a%20b%23&.svg", "image/svg+xml"),
        ("album/empty", "application/octet-stream"),
    ] {
        let head = request(Service::Blob, "HEAD", &format!("/photos/{name}")).send(&server);
        head.is(200).has_header("content-type", kind);
    }
    // A name that files cannot have.
    put(&server, "/photos/album//evil%3F", "out").is(201);
    let said = ok(
        &server,
        &["get", "-r", "photos/album/", down.to_str().unwrap()],
    );
    assert!(said.contains("downloaded 5 blobs"), "{said}");
    assert!(said.contains("files cannot have the name"), "{said}");
    for name in ["index.html", "2026/a b#&.svg", "2026/.hidden", "empty"] {
        assert_eq!(
            fs::read(up.join(name)).unwrap(),
            fs::read(down.join(name)).unwrap()
        );
    }
    // Nothing is left of files under way.
    let left = fs::read_dir(&down).unwrap().flatten();
    let left = left.map(|entry| entry.file_name().into_string().unwrap());
    assert_eq!(
        left.filter(|name| name.starts_with(".lazurite-")).count(),
        0
    );
    // What is there stays with --no-clobber.
    write(&down, "index.html", "mine");
    let words = ["get", "-r", "-n", "photos/album/", down.to_str().unwrap()];
    let said = ok(&server, &words);
    assert!(
        said.contains("downloaded 0 of 5 blobs; 5 were there already"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(down.join("index.html")).unwrap(), "mine");
    let words = ["put", "-r", "-n", up.to_str().unwrap(), "photos/album"];
    let said = ok(&server, &words);
    assert!(
        said.contains("uploaded 0 of 4 files; 4 were there already"),
        "{said}"
    );
}

#[test]
#[cfg(unix)]
fn links_are_left_out_and_named() {
    let server = with_containers();
    let scratch = TempDir::new().unwrap();
    write(scratch.path(), "a", "1");
    std::os::unix::fs::symlink("/etc/passwd", scratch.path().join("link")).unwrap();
    let said = fails(
        &server,
        &["put", "-r", scratch.path().to_str().unwrap(), "photos"],
    );
    assert!(
        said.contains("link: it is a link, and links are not followed"),
        "{said}"
    );
    assert!(
        said.contains("uploaded 1 of 1 files") || said.contains("uploaded 1 file"),
        "{said}"
    );
    assert_eq!(names(&server, "photos", &[]), ["a"]);
}

#[test]
fn a_deletion_counts_and_asks_and_deletes_what_it_named() {
    let server = with_containers();
    for name in ["a/1", "a/2", "a/b/3", "ab/4", "c"] {
        put(&server, &format!("/photos/{name}"), "x").is(201);
    }
    let said = fails(&server, &["rm", "-r", "photos/a"]);
    assert!(
        said.contains("Delete 3 blobs, 3 B, in photos/a/?"),
        "{said}"
    );
    assert_eq!(names(&server, "photos", &[]).len(), 5);
    let said = ok(&server, &["rm", "-r", "photos/a", "--yes"]);
    assert!(said.contains("deleted 3 blobs"), "{said}");
    assert_eq!(names(&server, "photos", &[]), ["ab/4", "c"]);
    put(&server, "/photos/abc", "x").is(201);
    ok(&server, &["rm", "--prefix", "photos/ab", "--yes"]);
    assert_eq!(names(&server, "photos", &[]), ["c"]);
    // A blob with snapshots stays, unless they may go too.
    request(Service::Blob, "PUT", "/photos/c?comp=snapshot")
        .send(&server)
        .is(201);
    let said = fails(&server, &["rm", "-r", "photos", "--yes"]);
    assert!(said.contains("--snapshots deletes them too"), "{said}");
    let said = fails(&server, &["rm", "photos/c"]);
    assert!(said.contains("--snapshots"), "{said}");
    ok(&server, &["rm", "-r", "photos", "--yes", "--snapshots"]);
    let said = ok(&server, &["ls", "photos"]);
    assert!(said.contains("photos is empty"), "{said}");
    let said = fails(&server, &["rm", "-r", "photos/a", "--yes"]);
    assert!(said.contains("photos/a has no blobs"), "{said}");
}

/// Writers overwrite and add blobs while all are deleted. Deleted is what was counted, as it was.
#[test]
fn a_deletion_beside_writers_deletes_exactly_what_it_counted() {
    let count = std::env::var("LAZURITE_DELETED_BLOBS");
    let count: u32 = count.map_or(2000, |count| count.parse().unwrap());
    let server = with_containers();
    let fill = |connection: &mut Connection, name: &str, content: &str| {
        let put = request(Service::Blob, "PUT", &format!("/photos/{name}"));
        let put = put.header("x-ms-blob-type", "BlockBlob").body(content);
        connection.send(&put).unwrap().is(201);
    };
    let open = || Connection::open(&server, Service::Blob).unwrap();
    std::thread::scope(|scope| {
        for part in 0..4 {
            let mut connection = open();
            scope.spawn(move || {
                for number in (part..count).step_by(4) {
                    fill(&mut connection, &format!("old/{number:06}"), "first");
                }
            });
        }
    });
    let is_over = AtomicBool::new(false);
    let mut connection = open();
    let (said, changed, added) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut changed, mut added) = (BTreeSet::new(), BTreeSet::new());
            // From the end, which the deletion reaches last.
            for number in (0..count).rev() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let old = format!("old/{number:06}");
                fill(&mut connection, &old, "second");
                changed.insert(old);
                let new = format!("old/new{number:06}");
                fill(&mut connection, &new, "added");
                added.insert(new);
            }
            (changed, added)
        });
        let output = run(&server, &["rm", "-r", "photos/old", "--yes", "--json"]);
        is_over.store(true, Ordering::Relaxed);
        let (changed, added) = writer.join().unwrap();
        (output, changed, added)
    });
    let outcome: Value = serde_json::from_slice(&said.stdout).unwrap();
    let number = |name: &str| outcome[name].as_u64().unwrap();
    assert_eq!(outcome["ended"], Value::Null, "{outcome}");
    let left: BTreeSet<String> = names(&server, "photos", &[]).into_iter().collect();
    let old: BTreeSet<_> = left
        .iter()
        .filter(|name| !name.contains("new"))
        .cloned()
        .collect();
    let new: BTreeSet<_> = left.difference(&old).cloned().collect();
    // Of the first blobs only those stay that the writer has changed.
    assert!(
        old.is_subset(&changed),
        "{:?}",
        old.difference(&changed).next()
    );
    for name in &old {
        let got = request(Service::Blob, "GET", &format!("/photos/{name}")).send(&server);
        assert_eq!(got.is(200).text(), "second");
    }
    // Of those that the writer has added, only what was there when they were counted is gone.
    let gone = added.difference(&new).count() as u64;
    let counted = number("total");
    assert!(
        counted >= u64::from(count) && gone <= counted - u64::from(count),
        "{outcome}"
    );
    // Everything that was counted is deleted, or was changed since.
    assert_eq!(number("skipped"), 0);
    let reasons = outcome["left_out"].as_array().unwrap();
    let stayed = counted - number("done");
    assert_eq!(reasons.is_empty(), stayed == 0, "{outcome}");
    let is_known = |reason: &Value| {
        let reason = reason.as_str().unwrap();
        reason.contains("changed since it was counted, and stays") || reason.starts_with("and ")
    };
    assert!(reasons.iter().all(is_known), "{outcome}");
    println!(
        "counted {counted}, deleted {}, stayed {stayed}",
        number("done")
    );
}

#[test]
fn copies_in_one_store_are_made_by_the_server() {
    let server = with_containers();
    put(&server, "/photos/a/lake%20%231.jpg", "blue").is(201);
    request(
        Service::Blob,
        "PUT",
        "/photos/a/lake%20%231.jpg?comp=metadata",
    )
    .header("x-ms-meta-owner", "anna")
    .send(&server)
    .is(200);
    request(Service::Blob, "PUT", "/photos/a/lake%20%231.jpg?comp=tags")
        .body("<?xml version=\"1.0\"?><Tags><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tags>")
        .send(&server)
        .is(204);
    put(&server, "/photos/a/b/2", "two").is(201);
    let said = ok(&server, &["cp", "photos/a/lake #1.jpg", "backup/"]);
    assert_eq!(
        said,
        "copied photos/a/lake #1.jpg -> backup/lake #1.jpg, 4 B\n"
    );
    let copy = request(Service::Blob, "GET", "/backup/lake%20%231.jpg").send(&server);
    assert_eq!(copy.is(200).text(), "blue");
    copy.has_header("x-ms-meta-owner", "anna")
        .has_header("x-ms-tag-count", "1");
    assert!(copy.header("x-ms-copy-status").is_some());
    let said = ok(&server, &["cp", "-r", "photos/a", "backup/deep/er"]);
    assert!(said.contains("copied 2 blobs, 7 B"), "{said}");
    let expected = ["deep/er/b/2", "deep/er/lake #1.jpg", "lake #1.jpg"];
    assert_eq!(names(&server, "backup", &[]), expected);
    // Into a directory below itself: only what was there before.
    let said = ok(&server, &["cp", "-r", "photos/a", "photos/a/copy"]);
    assert!(said.contains("copied 2 blobs"), "{said}");
    put(&server, "/backup/deep/er/b/2", "mine").is(201);
    let said = ok(&server, &["cp", "-rn", "photos/a/b", "backup/deep/er/b"]);
    assert!(
        said.contains("copied 0 of 1 blob; 1 were there already"),
        "{said}"
    );
    let kept = request(Service::Blob, "GET", "/backup/deep/er/b/2").send(&server);
    assert_eq!(kept.text(), "mine");
    let said = fails(&server, &["cp", "-r", "photos/a", "photos/a/"]);
    assert!(said.contains("are the same"), "{said}");
    let said = ok(&server, &["mv", "-r", "photos/a/copy", "backup/moved"]);
    assert!(said.contains("moved 2 blobs"), "{said}");
    assert_eq!(names(&server, "photos", &[]), ["a/b/2", "a/lake #1.jpg"]);
    // The copy of one blob has the name of another one, which may be moved before or after it.
    for name in ["a", "b/a"] {
        put(&server, &format!("/photos/in/{name}"), name).is(201);
    }
    ok(&server, &["mv", "-r", "photos/in", "photos/in/b"]);
    let text = |path| request(Service::Blob, "GET", path).send(&server);
    assert_eq!(text("/photos/in/b/b/a").is(200).text(), "b/a");
    let stayed_or_moved = ["/photos/in/a", "/photos/in/b/a"].map(text);
    let contents = stayed_or_moved.iter().filter(|answer| answer.status == 200);
    assert_eq!(
        contents.map(|answer| answer.text()).collect::<Vec<_>>(),
        ["a"]
    );
    ok(&server, &["rm", "-r", "photos/in", "--yes"]);
    // A snapshot keeps the original there.
    request(Service::Blob, "PUT", "/photos/a/b/2?comp=snapshot")
        .send(&server)
        .is(201);
    let said = fails(&server, &["mv", "photos/a/b/2", "backup/two"]);
    assert!(said.contains("copied, but the source is there"), "{said}");
}

/// Sends Ctrl-C to a command once the container `backup` has a blob. Returns what it printed.
fn interrupted(server: &Server, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    let connection = server.connection_string();
    command.args(words).stdin(Stdio::null());
    command.env("AZURE_STORAGE_CONNECTION_STRING", connection);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while names(server, "backup", &[]).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        assert!(Instant::now() < deadline, "nothing was copied");
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

#[test]
fn ctrl_c_ends_a_copy_and_a_move_after_whole_blobs_and_they_go_on() {
    for verb in ["cp", "mv"] {
        let server = with_containers();
        let all: Vec<String> = (0..80).map(|number| format!("in/{number:02}")).collect();
        for name in &all {
            put(&server, &format!("/photos/{name}"), name).is(201);
        }
        let rules = r#"{"rules":[{"operation":"CopyBlob","fault":"latency=1s"}]}"#;
        page("PUT", "faults").body(rules).send(&server).is(200);
        let said = interrupted(&server, &[verb, "-r", "photos/in", "backup/in"]);
        assert!(
            said.contains("stopped by Ctrl-C") && said.contains(" of 80 blobs"),
            "{said}"
        );
        let (left, there) = (names(&server, "photos", &[]), names(&server, "backup", &[]));
        assert!(!there.is_empty() && there.len() < 80, "{there:?}");
        for name in &all {
            assert!(
                left.contains(name) || there.contains(name),
                "{verb} lost {name}"
            );
        }
        page("DELETE", "faults").send(&server).is(200);
        // The sentence says how to go on.
        let go_on: &[&str] = match verb {
            "cp" => &["cp", "-rn", "photos/in", "backup/in"],
            _ => &["mv", "-r", "photos/in", "backup/in"],
        };
        assert_eq!(said.contains("--no-clobber"), verb == "cp", "{said}");
        ok(&server, go_on);
        assert_eq!(names(&server, "backup", &[]), all);
        assert_eq!(
            names(&server, "photos", &[]).len(),
            if verb == "cp" { 80 } else { 0 }
        );
        for name in &all {
            let copy = request(Service::Blob, "GET", &format!("/backup/{name}"));
            assert_eq!(&copy.send(&server).is(200).text(), name);
        }
    }
}

#[test]
fn blobs_go_to_another_account_to_a_fork_and_to_another_server() {
    let accounts = format!("{ACCOUNT}:{KEY};second:{KEY}");
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--accounts")
        .argument(&accounts)
        .start();
    let other = with_containers();
    ok(&server, &["create", "container", "photos"]);
    ok(
        &server,
        &["create", "container", "photos", "--account", "second"],
    );
    let large = "x".repeat(9 << 20);
    put(&server, "/photos/large", &large).is(201);
    put(&server, "/photos/small", "small").is(201);
    request(Service::Blob, "PUT", "/photos/pages")
        .header("x-ms-blob-type", "PageBlob")
        .header("x-ms-blob-content-length", "1024")
        .send(&server)
        .is(201);
    ok(&server, &["state", "fork", "--name", "pr42"]);
    let fork = format!("{ACCOUNT}--pr42");
    ok(
        &server,
        &["create", "container", "forked", "--account", &fork],
    );
    let port = other.ports.blob;
    let to_other = other.connection_string();
    for (to, words) in [
        ("photos", &["--to-account", "second"][..]),
        ("forked", &["--to-account", &fork]),
        ("photos", &["--to-connection-string", &to_other]),
    ] {
        let said = ok(&server, &[&["cp", "-r", "photos", to], words].concat());
        assert!(said.contains("copied 3 blobs"), "{words:?}: {said}");
    }
    let expected = ["large", "pages", "small"];
    assert_eq!(names(&server, "photos", &["--account", "second"]), expected);
    assert_eq!(names(&server, "forked", &["--account", &fork]), expected);
    assert_eq!(names(&other, "photos", &[]), expected);
    let got = request(Service::Blob, "GET", "/photos/large").send(&other);
    assert!(got.is(200).text() == large);
    let said = ok(
        &server,
        &[
            "mv",
            "photos/small",
            "backup/",
            "--to-connection-string",
            &to_other,
        ],
    );
    assert!(
        said.contains("moved photos/small -> backup/small"),
        "{said}"
    );
    request(Service::Blob, "GET", "/photos/small")
        .send(&server)
        .is(404);
    // A destination that is not there, before anything is read.
    let said = fails(
        &server,
        &[
            "cp",
            "-r",
            "photos",
            "absent",
            "--to-connection-string",
            &to_other,
        ],
    );
    assert!(
        said.contains("`lazurite create container absent`"),
        "{said}"
    );
    drop(other);
    let said = fails(
        &server,
        &[
            "cp",
            "-r",
            "photos",
            "backup",
            "--to-port",
            &port.to_string(),
        ],
    );
    assert!(said.contains("nothing answers"), "{said}");
}

#[test]
fn entities_are_written_with_types_and_conditions() {
    let server = Server::fresh();
    ok(&server, &["create", "table", "People"]);
    let keys = ["People", "it's", "a b é"];
    let put = |more: &[&'static str]| {
        let words: Vec<&'static str> = [&["entity", "put"], &keys[..], more].concat();
        words
    };
    let values = [
        "Name='Anna'",
        "Code=01234",
        "Age=34",
        "Big=5L",
        "Price=1.5",
        "Active=true",
        "Due=datetime'2026-11-30T18:00:00Z'",
        "Id=guid'6c9d3b06-1f0b-4c5e-8ee3-8e0d5f9a3c11'",
        "Photo=binary'00ff'",
    ];
    let said = ok(&server, &put(&values));
    assert!(
        said.contains("Code '01234'") && said.contains("Big 5L"),
        "{said}"
    );
    let get = ["entity", "get", keys[0], keys[1], keys[2]];
    let said = ok(&server, &get);
    for (name, value) in values.map(|value| value.split_once('=').unwrap()) {
        let value = if name == "Code" { "'01234'" } else { value };
        let line = said
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        assert!(
            line.is_some_and(|line| line.ends_with(value)),
            "{name}: {said}"
        );
    }
    let fields = || -> Value {
        let output = run(&server, &[&get[..], &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let etag = fields()["odata.etag"].as_str().unwrap().to_owned();
    let condition = ["--if-match", &etag];
    let merge = |age| [&put(&[age, "--merge"])[..], &condition[..]].concat();
    ok(&server, &merge("Age=35"));
    assert_eq!(
        (&fields()["Age"], &fields()["Name"]),
        (&35.into(), &"Anna".into())
    );
    let said = fails(&server, &merge("Age=36"));
    assert!(said.contains("has another ETag by now"), "{said}");
    let said = fails(&server, &put(&["Age=36", "--insert"]));
    assert!(said.contains("is there already"), "{said}");
    ok(&server, &put(&["Age=36"]));
    assert_eq!(
        (&fields()["Age"], &fields()["Name"]),
        (&36.into(), &Value::Null)
    );
    let delete = ["entity", "delete", keys[0], keys[1], keys[2]];
    fails(&server, &[&delete[..], &["--if-match", &etag]].concat());
    ok(&server, &delete);
    fails(&server, &delete);
    for number in 0..250 {
        let (partition, row) = (number % 2, number.to_string());
        let keys = format!(r#"{{"PartitionKey":"p{partition}","RowKey":"{row}","N":{number}}}"#);
        request(Service::Table, "POST", "/People")
            .json(keys)
            .send(&server)
            .is(201);
    }
    let filter = ["entity", "delete", "People", "--filter", "N ge 10"];
    let said = fails(&server, &filter);
    assert!(said.contains("Delete 240 entities of People"), "{said}");
    let said = ok(&server, &[&filter[..], &["--yes"]].concat());
    assert!(said.contains("deleted 240 entities"), "{said}");
    let said = ok(&server, &["query", "People", "--json"]);
    assert_eq!(
        said.lines().filter(|line| line.starts_with('{')).count(),
        10
    );
}

#[test]
fn resources_are_created_and_deleted() {
    let server = Server::fresh();
    ok(
        &server,
        &["create", "container", "open", "--public", "blob"],
    );
    put(&server, "/open/x", "x").is(201);
    request(Service::Blob, "GET", "/open/x")
        .unsigned()
        .send(&server)
        .is(200);
    ok(&server, &["create", "queue", "one", "two"]);
    ok(&server, &["create", "table", "Tab"]);
    let said = ok(&server, &["ls"]);
    assert_eq!(
        said,
        "container  open\nqueue      one\nqueue      two\ntable      Tab\n"
    );
    ok(&server, &["send", "one", "hello"]);
    let said = fails(&server, &["delete", "queue", "one"]);
    assert!(
        said.contains("Delete queue one with its 1 messages?"),
        "{said}"
    );
    for words in [
        ["queue", "one"],
        ["queue", "two"],
        ["table", "Tab"],
        ["container", "open"],
    ] {
        ok(&server, &["delete", words[0], words[1], "--yes"]);
    }
    let said = ok(&server, &["ls"]);
    assert!(said.contains("nothing is stored here yet"), "{said}");
}

#[test]
fn doctor_and_advice_leave_no_traces() {
    let server = with_containers();
    let before = ok(&server, &["requests", "--json"]).lines().count();
    ok(&server, &["doctor"]);
    ok(&server, &["advice"]);
    let after = ok(&server, &["requests", "--json"]);
    assert_eq!(after.lines().count(), before, "{after}");
    assert!(!after.contains("403"), "{after}");
}

#[test]
fn a_start_with_a_seed_says_so_in_three_lines() {
    let scratch = TempDir::new().unwrap();
    for number in 0..50 {
        write(scratch.path(), &format!("seed/blobs/photos/{number}"), "x");
    }
    let seed = scratch.path().join("seed");
    let server = Launch::on(&scratch.path().join("data"))
        .argument("--seed")
        .argument(seed.to_str().unwrap())
        .start();
    server.wait_for_log("lazurite: seed: all of it is new");
    let said: Vec<_> = server
        .log()
        .lines()
        .filter(|line| line.contains("seed: "))
        .map(str::to_owned)
        .collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[1].contains("50 blobs"), "{said:?}");
    // The requests of the server to itself are not those of clients.
    let (_, printed) = server.signal("TERM");
    assert!(
        !printed.iter().any(|line| line.contains("\"PUT ")),
        "{printed:?}"
    );
}

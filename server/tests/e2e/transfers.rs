//! Exports and imports over HTTP: the archive of the commands, who may have the archive, and what
//! remains when an export or import ends early.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::export::{fill, ok};
use crate::forks::with_names;
use crate::http::{Connection, Request, Response};
use crate::random::Random;
use crate::server::{ACCOUNT, Launch, PATIENCE, Server, Service};
use crate::state::{names, put, set, state};
use crate::test_clock::page;

const MANIFEST: &str = "lazurite-export.json";

fn export(query: &str) -> Request {
    state("GET", &format!("export{query}"))
}

fn import(query: &str, archive: impl Into<Vec<u8>>) -> Request {
    state("POST", &format!("import{query}")).body(archive)
}

fn put_blob(server: &Server, name: &str, content: Vec<u8>) {
    let put = Request::new(Service::Blob, "PUT", &format!("/aaa/{name}"));
    let put = put.header("x-ms-blob-type", "BlockBlob");
    put.body(content).send(server).is(201);
}

/// Bytes that cannot be compressed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let words = (0..length / 8).flat_map(|_| random.below(u64::MAX).to_le_bytes());
    words.collect()
}

#[track_caller]
fn refused(answer: &Response, status: u16, code: &str) -> String {
    answer.is(status);
    let error = &answer.json()["error"];
    assert_eq!(error["code"], code, "{error}");
    error["message"].as_str().unwrap().to_owned()
}

/// The intermediate files in a data directory.
fn scratch(location: &Path) -> Vec<String> {
    let entries = fs::read_dir(location).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with(".transfer-"))
        .collect()
}

/// The names of the forks.
fn forks(server: &Server) -> Vec<Value> {
    let listed = state("GET", "forks").send(server).is(200).json();
    listed["forks"].as_array().unwrap().clone()
}

#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn wait_for_no_left_overs(location: &TempDir, server: &Server) {
    wait_until("intermediate files are gone", || {
        scratch(location.path()).is_empty() && forks(server).is_empty()
    });
}

/// A compressed archive with these files.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        // Set as bytes, because the library refuses names that lead out of the archive.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    zstd::encode_all(&builder.into_inner().unwrap()[..], 1).unwrap()
}

#[test]
fn export_is_that_of_the_command_and_its_import_is_exported_equally() {
    let (location, server) = with_names(&[], &[]);
    fill(&server);
    let file = TempDir::new().unwrap();
    let path = file.path().join("state.tar.zst");
    ok(&server, &["export", path.to_str().unwrap()]);
    let exported = export("").send(&server);
    exported.is(200);
    assert!(exported.body == fs::read(&path).unwrap());
    exported.has_header("content-type", "application/zstd");
    exported.has_header("x-lazurite-not-exported", "0");
    let name = format!("attachment; filename=\"{ACCOUNT}.tar.zst\"");
    exported.has_header("content-disposition", &name);
    let head = state("HEAD", "export").send(&server);
    head.is(200).has_header("content-disposition", &name);

    let (other_location, other) = with_names(&[], &[]);
    let imported = import("", exported.body.clone()).send(&other);
    let imported = imported.is(200).json();
    let counts = json!({
        "containers": 2, "blobs": 9, "bytes": 10_585_816, "queues": 1, "messages": 100, "tables": 1, "entities": 250,
    });
    assert_eq!(imported, json!({"imported": counts, "notes": []}));
    let again = export("").send(&other);
    assert!(again.is(200).body == exported.body);
    wait_for_no_left_overs(&location, &server);
    wait_for_no_left_overs(&other_location, &other);
}

#[test]
fn store_in_memory_is_exported_and_imported() {
    let (location, server) = with_names(&[], &["--inMemoryPersistence"]);
    fill(&server);
    let exported = export("").send(&server).is(200).body.clone();
    state("POST", "reset").send(&server).is(200);
    import("", exported.clone()).send(&server).is(200);
    assert!(export("").send(&server).is(200).body == exported);
    assert_eq!(fs::read_dir(location.path()).unwrap().count(), 0);
}

#[test]
fn faults_for_clients_do_not_hit_exports_and_imports() {
    let (_location, server) = with_names(&[], &[]);
    let rules = r#"{"rules": [{"fault": "503"}]}"#;
    let faults = page("PUT", "faults").body(rules);
    let shown = faults.send(&server).is(200).json();
    assert_eq!(shown["rules"][0]["hits"], 0);
    let one_blob = archive(&[("blobs/aaa/name", "content"), (MANIFEST, "{\"format\":1}")]);
    import("", one_blob).send(&server).is(200);
    export("").send(&server).is(200);
    let shown = page("GET", "faults").send(&server).json();
    assert_eq!(shown["rules"][0]["matched"], 0);
    let read = Request::new(Service::Blob, "GET", "/aaa/name");
    assert_eq!(read.send(&server).status, 503);
}

#[test]
fn snapshots_forks_and_accounts_are_exported_and_imported_by_name() {
    let accounts = "one:a2V5LW9uZQ==;two:a2V5LXR3bw==";
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).environment("LAZURITE_ACCOUNTS", accounts);
    let server = launch
        .argument("--console-password")
        .argument("secret")
        .start();
    let with_password = |request: Request| request.header("Authorization", "Basic eDpzZWNyZXQ=");
    let send = |request: Request| with_password(request).send(&server);
    let archive = |container: &str| {
        let file = format!("blobs/{container}/name");
        archive(&[(&file, "content"), (MANIFEST, "{\"format\":1}")])
    };
    // Checks the name of the exported file, not its content.
    let holds = |query: &str, container: &str| {
        let exported = send(export(query));
        let archive = zstd::decode_all(&exported.is(200).body[..]).unwrap();
        let mut archive = tar::Archive::new(&archive[..]);
        let mut entries = archive.entries().unwrap();
        let file = format!("blobs/{container}/name");
        entries.any(|entry| entry.unwrap().path().unwrap() == Path::new(&file))
    };
    send(import("", archive("first"))).is(200);
    send(import("?account=two", archive("second"))).is(200);
    send(state("PUT", "snapshots/kept")).is(201);
    send(import("?account=one&fork=", archive("later"))).is(200);
    let fork = json!({"name": "f", "from": "kept"}).to_string();
    send(state("POST", "forks").body(fork)).is(201);
    send(import("?account=two&fork=f", archive("forked"))).is(200);
    for (query, container, is_there) in [
        ("", "first", true),
        ("", "second", false),
        ("", "later", true),
        ("?account=one", "first", true),
        ("?account=two", "second", true),
        ("?account=two", "forked", false),
        ("?snapshot=kept", "first", true),
        ("?snapshot=kept", "later", false),
        ("?account=two&snapshot=kept", "second", true),
        ("?account=two&fork=f", "forked", true),
        ("?account=one&fork=f", "later", false),
    ] {
        assert_eq!(holds(query, container), is_there, "{query} {container}");
    }
    let name = "attachment; filename=\"two--f.tar.zst\"";
    send(export("?account=two&fork=f")).has_header("content-disposition", name);
    for (query, status, code) in [
        ("?account=three", 404, "AccountNotFound"),
        ("?fork=none", 404, "ForkNotFound"),
        ("?snapshot=none", 404, "SnapshotNotFound"),
        ("?snapshot=kept&fork=f", 400, "InvalidInput"),
        ("?incomplete=yes", 400, "InvalidInput"),
    ] {
        refused(&send(export(query)), status, code);
    }
    for (query, status, code) in [
        ("?account=three", 404, "AccountNotFound"),
        ("?fork=none", 404, "ForkNotFound"),
        ("?existing=merge", 400, "InvalidInput"),
    ] {
        refused(&send(import(query, archive("x"))), status, code);
    }
    // Without the password, exports and imports are refused.
    assert_eq!(export("?account=two").send(&server).status, 401);
    assert_eq!(import("", archive("x")).send(&server).status, 401);
    assert_eq!(
        send(state("GET", "forks")).json()["forks"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn archives_are_exported_and_imported_from_this_machine_only_and_by_no_foreign_page() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    let archive = archive(&[("blobs/bbb/name", "content"), (MANIFEST, "{\"format\":1}")]);
    for (header, value) in [
        ("Origin", "http://example.com"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Host", "example.com"),
        ("X-Forwarded-For", "10.0.0.1"),
    ] {
        for request in [export(""), import("", archive.clone())] {
            let refused = request.header(header, value).send(&server);
            assert_eq!(refused.status, 403, "{header}");
        }
    }
    // A link from another site is refused because it would start work, unlike a link to a page.
    let link = export("").header("Sec-Fetch-Site", "cross-site");
    let link = link.header("Sec-Fetch-Mode", "navigate");
    assert_eq!(
        link.header("Sec-Fetch-Dest", "document")
            .send(&server)
            .status,
        403
    );
    assert_eq!(names(&server), set(&["aaa"]));
    let accounts = "mine:a2V5LW9uZQ==;devstoreaccount1:Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).environment("LAZURITE_ACCOUNTS", accounts);
    let server = launch.start();
    // Without a password, other accounts are not shown, and imports are refused.
    assert_eq!(export("?account=mine").send(&server).status, 404);
    export(&format!("?account={ACCOUNT}")).send(&server).is(200);
    assert_eq!(import("", archive).send(&server).status, 403);
}

#[test]
fn server_without_account_keys_says_that_it_needs_them() {
    let (_location, server) = with_names(&[], &["--oauth", "basic", "--no-shared-key"]);
    for request in [export(""), import("", b"x")] {
        refused(&request.send(&server), 501, "NotImplemented");
    }
}

#[test]
fn bodies_that_are_no_whole_archive_change_nothing() {
    let (location, server) = with_names(&[], &[]);
    let good = ("blobs/aaa/name", "content");
    let manifest = (MANIFEST, "{\"format\":1}");
    let whole = archive(&[good, manifest]);
    let newer = archive(&[good, (MANIFEST, "{\"format\":2}")]);
    let wrong_line = ("tables/Tab.entities.jsonl", "{\"PartitionKey\":\"p\"}\n");
    for (body, reason) in [
        (Vec::new(), "ends early"),
        (b"no archive".to_vec(), "cannot be read"),
        (whole[..whole.len() / 2].to_vec(), "ends early"),
        (whole[..whole.len() - 1].to_vec(), "ends early"),
        (archive(&[good]), "no whole export"),
        (newer, "its format is 2, and this release reads 1"),
        (archive(&[("../../escaped", "x"), manifest]), "leads out"),
        (archive(&[("/tmp/escaped", "x"), manifest]), "leads out"),
        (archive(&[good, good, manifest]), "comes twice"),
        (archive(&[good, wrong_line, manifest]), "line 1"),
        (
            archive(&[good, ("other/file", "x"), manifest]),
            "other: it is no part",
        ),
    ] {
        let refusal = import("", body).send(&server);
        let message = refused(&refusal, 400, "InvalidArchive");
        assert!(message.contains(reason), "{message}");
        assert!(message.ends_with("Nothing was imported."), "{message}");
        assert!(
            !message.contains(".transfer-") || reason.contains('/'),
            "{message}"
        );
    }
    let form = import("", whole.clone()).header("Content-Type", "multipart/form-data; boundary=x");
    let message = refused(&form.send(&server), 400, "InvalidInput");
    assert!(message.contains("curl -T"), "{message}");
    let huge = import("", "").header("Content-Length", &(1_u64 << 40).to_string());
    let huge = huge.header("Expect", "100-continue");
    let message = refused(&huge.send(&server), 413, "RequestBodyTooLarge");
    assert!(message.contains("274877906944 bytes"), "{message}");
    assert_eq!(names(&server), set(&[]));
    assert!(scratch(location.path()).is_empty());
    import("", whole).send(&server).is(200);
    assert_eq!(names(&server), set(&["aaa"]));
}

#[test]
fn import_says_what_it_does_with_what_is_there() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    put_blob(&server, "name", b"mine".to_vec());
    let archive = archive(&[("blobs/aaa/name", "theirs"), (MANIFEST, "{\"format\":1}")]);
    let read = || {
        Request::new(Service::Blob, "GET", "/aaa/name")
            .send(&server)
            .text()
    };
    let refusal = import("", archive.clone()).send(&server);
    let message = refused(&refusal, 409, "DestinationNotEmpty");
    assert!(
        message.contains("container aaa") && message.contains("existing=skip"),
        "{message}"
    );
    assert_eq!(read(), "mine");
    let skipped = import("?existing=skip", archive.clone()).send(&server);
    let skipped = skipped.is(200).json();
    assert_eq!(
        skipped["notes"],
        json!(["container aaa is there: left as it is"])
    );
    assert_eq!(skipped["imported"]["blobs"], 0);
    assert_eq!(read(), "mine");
    let replaced = import("?existing=replace", archive).send(&server);
    assert_eq!(replaced.is(200).json()["imported"]["blobs"], 1);
    assert_eq!(read(), "theirs");
}

#[test]
fn export_that_leaves_something_out_is_refused_unless_it_is_wanted() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    put_blob(&server, "frozen", b"1".to_vec());
    put_blob(&server, "warm", b"2".to_vec());
    let tier = Request::new(Service::Blob, "PUT", "/aaa/frozen?comp=tier");
    tier.header("x-ms-access-tier", "Archive").send(&server);
    let message = refused(&export("").send(&server), 409, "ExportIncomplete");
    assert!(
        message.contains("aaa/frozen: its tier is Archive"),
        "{message}"
    );
    let page = export("").header("Accept", "text/html").send(&server);
    assert!(page.is(409).text().contains("aaa/frozen"));
    let exported = export("?incomplete=allow").send(&server);
    exported.is(200).has_header("x-lazurite-not-exported", "1");
    state("POST", "reset").send(&server).is(200);
    let imported = import("", exported.body).send(&server).is(200).json();
    assert_eq!(imported["imported"]["blobs"], 1);
}

#[test]
fn second_import_and_third_export_wait_for_none_of_the_first() {
    let (location, server) = with_names(&[], &[]);
    put("aaa").send(&server).is(201);
    put_blob(&server, "large", noise(1, 24 << 20));
    let body = export("").send(&server).is(200).body.clone();
    // The clients of these exports read nothing.
    let unread = || {
        let mut connection = Connection::open(&server, Service::Blob).unwrap();
        connection.write(&export("").bytes()).unwrap();
        connection.wait().unwrap();
        connection
    };
    let exports = [unread(), unread()];
    let message = refused(&export("").send(&server), 409, "TransferUnderWay");
    assert!(message.contains("Two exports are under way"), "{message}");
    // An import of which half has arrived.
    let mut first = Connection::open(&server, Service::Blob).unwrap();
    let bytes = import("?existing=skip", body.clone()).bytes();
    let (begin, end) = bytes.split_at(bytes.len() / 2);
    first.write(begin).unwrap();
    wait_until("an import has begun", || {
        scratch(location.path()).len() == 3
    });
    let message = refused(&import("", body).send(&server), 409, "TransferUnderWay");
    assert!(message.contains("Another import is under way"), "{message}");
    first.send_bytes(end, "POST").unwrap().is(200);
    // The clients disconnect.
    drop(exports);
    wait_for_no_left_overs(&location, &server);
    export("").send(&server).is(200);
}

#[test]
fn client_that_leaves_ends_its_export_and_an_upload_that_breaks_off_changes_nothing() {
    const BLOBS: usize = 4000;
    let (location, server) = with_names(&[], &["--debug", "/dev/stdout"]);
    put("aaa").send(&server).is(201);
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    for number in 0..BLOBS {
        let put = Request::new(Service::Blob, "PUT", &format!("/aaa/{number}"));
        let put = put.header("x-ms-blob-type", "BlockBlob").body("1");
        connection.send(&put).unwrap().is(201);
    }
    let mut leaving = Connection::open(&server, Service::Blob).unwrap();
    leaving.write(&export("").bytes()).unwrap();
    wait_until("an export has begun", || {
        !scratch(location.path()).is_empty()
    });
    drop(leaving);
    wait_for_no_left_overs(&location, &server);
    let archive = archive(&[("blobs/bbb/name", "content"), (MANIFEST, "{\"format\":1}")]);
    // The permit of an import is released only after its files are removed.
    let wait_for_place = || {
        wait_until("an import may begin", || {
            import("", b"").send(&server).status == 400
        });
    };
    for kept in [1, archive.len() / 2, archive.len() - 1] {
        wait_for_place();
        let mut leaving = Connection::open(&server, Service::Blob).unwrap();
        let bytes = import("", archive.clone()).bytes();
        let cut = bytes.len() - archive.len() + kept;
        leaving.write(&bytes[..cut]).unwrap();
        wait_until("an import has begun", || {
            !scratch(location.path()).is_empty()
        });
        drop(leaving);
        wait_for_no_left_overs(&location, &server);
    }
    assert_eq!(names(&server), set(&["aaa"]));
    // An import that was received completely is completed although its client disconnects.
    wait_for_place();
    let mut leaving = Connection::open(&server, Service::Blob).unwrap();
    leaving.write(&import("", archive).bytes()).unwrap();
    drop(leaving);
    wait_until("the import has ended", || {
        names(&server) == set(&["aaa", "bbb"])
    });
    wait_for_no_left_overs(&location, &server);
    // The ring has only the clients' requests; the log of --debug has the export's too.
    let requests = "/_lazurite/api/requests?filter=GetBlob";
    let requests = Request::exactly(Service::Blob, "GET", requests).unsigned();
    let kept = requests.send(&server).is(200).json();
    assert_eq!(kept["requests"], json!([]));
    export("").send(&server).is(200);
    let (_, lines) = server.signal("TERM");
    let is_read = |line: &&String| line.contains(" method=GET ") && line.contains("/aaa/");
    let read = lines.iter().filter(is_read).count();
    assert!(
        (BLOBS..BLOBS * 3 / 2).contains(&read),
        "{read} reads of {BLOBS} blobs, by a whole export and one whose client had left"
    );
}

#[test]
fn server_stops_during_an_export_and_an_import_and_the_next_start_finds_no_files_of_them() {
    let (location, server) = with_names(&[], &[]);
    put("aaa").send(&server).is(201);
    put_blob(&server, "large", noise(2, 24 << 20));
    let mut exporting = Connection::open(&server, Service::Blob).unwrap();
    exporting.write(&export("").bytes()).unwrap();
    exporting.wait().unwrap();
    let mut importing = Connection::open(&server, Service::Blob).unwrap();
    let head = import("", vec![0; 9]).bytes();
    importing.write(&head[..head.len() - 5]).unwrap();
    let began = Instant::now();
    let (status, _) = server.signal("TERM");
    assert!(status.success(), "{status}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    fs::create_dir(location.path().join(".transfer-killed")).unwrap();
    fs::write(location.path().join(".transfer-killed/file"), "x").unwrap();
    let server = Launch::on(location.path()).start();
    assert!(scratch(location.path()).is_empty());
    export("").send(&server).is(200);
}

#[test]
fn fork_does_not_end_by_its_lifetime_while_an_import_into_it_is_uploaded() {
    let (_location, server) = with_names(&[], &["--fork-lifetime=1"]);
    let make = |name: &str| {
        let body = json!({ "name": name }).to_string();
        state("POST", "forks").body(body).send(&server).is(201);
    };
    make("imported");
    make("idle");
    let archive = archive(&[("blobs/aaa/name", "content"), (MANIFEST, "{\"format\":1}")]);
    let begin = || {
        let mut importing = Connection::open(&server, Service::Blob).unwrap();
        let bytes = import("?fork=imported", archive.clone()).bytes();
        let (most, last) = bytes.split_at(bytes.len() - 1);
        importing.write(most).unwrap();
        (importing, last.to_vec())
    };
    let (mut importing, last) = begin();
    // Listing the forks does not count as a use of one.
    wait_until("the idle fork has ended", || forks(&server).len() == 1);
    importing.write(&last).unwrap();
    let imported = importing.read("POST").unwrap();
    assert_eq!(imported.is(200).json()["imported"]["blobs"], 1);

    // A new fork with the name of a released one must not get the import's data.
    let (mut importing, last) = begin();
    state("DELETE", "forks/imported").send(&server).is(200);
    make("imported");
    importing.write(&last).unwrap();
    refused(&importing.read("POST").unwrap(), 404, "ForkNotFound");
}

#[test]
fn full_disk_is_said_of_exports_and_imports() {
    let may_mount = Command::new("unshare").args(["-m", "true"]).output();
    if !may_mount.is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: it takes the right to mount");
        return;
    }
    let location = TempDir::new().unwrap();
    let script = "mount -t tmpfs -o size=64m none \"$0\" && exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_lazurite");
    let place = location.path().to_str().unwrap();
    let words = ["-m", "sh", "-c", script, place, program, "-l", place];
    let words = words.map(str::to_owned);
    let work = TempDir::new().unwrap();
    let launch = Launch::exactly(Path::new("unshare"), &words, work.path());
    let server = launch.environment("LAZURITE_PORT", "0").start();
    put("aaa").send(&server).is(201);
    for number in 0..3 {
        put_blob(&server, &format!("b{number}"), noise(number, 8 << 20));
    }
    let (_other_location, other) = with_names(&[], &[]);
    put("bbb").send(&other).is(201);
    for number in 0..6 {
        let put = Request::new(Service::Blob, "PUT", &format!("/bbb/b{number}"));
        let put = put.header("x-ms-blob-type", "BlockBlob");
        put.body(noise(number, 8 << 20)).send(&other).is(201);
    }
    let archive = export("").send(&other).is(200).body.clone();
    let message = refused(
        &import("", archive).send(&server),
        507,
        "InsufficientStorage",
    );
    assert!(message.contains("Nothing was imported"), "{message}");
    assert_eq!(names(&server), set(&["aaa"]));
    for number in 3..5 {
        put_blob(&server, &format!("b{number}"), noise(number, 8 << 20));
    }
    let message = refused(&export("").send(&server), 507, "InsufficientStorage");
    assert!(message.contains("/.transfer-"), "{message}");
    // When the second of two concurrent exports fails, the disk may have space again.
    for _ in 0..4 {
        std::thread::scope(|scope| {
            let connections = [(), ()].map(|()| Connection::open(&server, Service::Blob).unwrap());
            let exports = connections
                .map(|mut connection| scope.spawn(move || connection.send(&export("")).unwrap()));
            for exported in exports {
                let exported = exported.join().unwrap();
                let message = refused(&exported, 507, "InsufficientStorage");
                assert!(message.contains("no space left"), "{message}");
            }
        });
    }
    // Once the files of the exports are removed, the space is free again.
    let again = Request::new(Service::Blob, "PUT", "/aaa/b5").header("x-ms-blob-type", "BlockBlob");
    let again = again.body(noise(5, 4 << 20));
    let deadline = Instant::now() + Duration::from_secs(60);
    while again.send(&server).status != 201 {
        assert!(Instant::now() < deadline, "the export left no room");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn import_replaces_a_blob_that_has_uncommitted_blocks_with_ids_of_another_length() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    put_blob(&server, "name", b"mine".to_vec());
    let block = Request::new(
        Service::Blob,
        "PUT",
        "/aaa/name?comp=block&blockid=QQ%3D%3D",
    );
    block.body("left").send(&server).is(201);
    let archive = archive(&[("blobs/aaa/name", "theirs"), (MANIFEST, "{\"format\":1}")]);
    import("?existing=replace", archive).send(&server).is(200);
    let read = Request::new(Service::Blob, "GET", "/aaa/name").send(&server);
    assert_eq!(read.is(200).text(), "theirs");
}

#[test]
fn import_takes_header_values_with_a_tab() {
    let server = Server::fresh();
    let archive = archive(&[
        ("blobs/aaa.json", r#"{"metadata":{"note":"a\tb"}}"#),
        (
            "blobs/aaa.blobs.jsonl",
            r#"{"name":"name","contentLanguage":"en\tde","metadata":{"note":"c\td"}}"#,
        ),
        ("blobs/aaa/name", "content"),
        (MANIFEST, "{\"format\":1}"),
    ]);
    import("", archive).send(&server).is(200);
    let container = Request::new(Service::Blob, "GET", "/aaa?restype=container");
    let container = container.send(&server);
    container.is(200).has_header("x-ms-meta-note", "a\tb");
    let blob = Request::new(Service::Blob, "GET", "/aaa/name").send(&server);
    blob.is(200)
        .has_header("x-ms-meta-note", "c\td")
        .has_header("content-language", "en\tde");
}

#[test]
fn import_that_fails_in_the_middle_says_that_a_part_is_there() {
    let server = Server::fresh();
    // Each file is valid, but the server refuses them together.
    let container = "{\"defaultEncryptionScope\":\"one\",\"denyEncryptionScopeOverride\":\"true\"}";
    let blob = "{\"name\":\"secret\",\"encryptionScope\":\"two\"}";
    let archive = archive(&[
        ("blobs/aaa/name", "content"),
        ("blobs/bbb/secret", "content"),
        ("blobs/bbb.blobs.jsonl", blob),
        ("blobs/bbb.json", container),
        (MANIFEST, "{\"format\":1}"),
    ]);
    let refusal = import("", archive).send(&server);
    let message = refused(&refusal, 400, "ImportFailed");
    assert!(
        message.contains("What came before it is imported"),
        "{message}"
    );
    assert!(!message.contains(".."), "{message}");
    assert_eq!(names(&server), set(&["aaa", "bbb"]));
}

#[test]
fn import_names_metadata_that_is_not_ascii_and_imports_nothing() {
    let server = Server::fresh();
    for (path, text, place) in [
        (
            "blobs/aaa.blobs.jsonl",
            r#"{"name":"name","metadata":{"plain":"1","note":"caf\u00e9"}}"#,
            "blobs/aaa.blobs.jsonl, line 1",
        ),
        (
            "blobs/aaa.json",
            r#"{"metadata":{"note":"caf\u00e9"}}"#,
            "blobs/aaa.json",
        ),
        (
            "queues/aaa.json",
            r#"{"metadata":{"note":"caf\u00e9"}}"#,
            "queues/aaa.json",
        ),
    ] {
        let archive = archive(&[
            (path, text),
            ("blobs/aaa/name", "content"),
            (MANIFEST, "{\"format\":1}"),
        ]);
        let message = refused(&import("", archive).send(&server), 400, "InvalidArchive");
        assert!(message.contains(place), "{message}");
        assert!(message.contains("metadata.note: its value is not ASCII"));
    }
    assert_eq!(names(&server), set(&[]));
}

#[test]
fn properties_in_latin_1_are_imported_as_the_text_that_listings_show() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    let mut bytes = Request::new(Service::Blob, "PUT", "/aaa/name")
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-blob-content-disposition", "caf#")
        .credited(&crate::rights::account_sas_for("b", "o", "w"))
        .bytes();
    let at = bytes.iter().position(|byte| *byte == b'#').unwrap();
    bytes[at] = 0xe9;
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    connection.send_bytes(&bytes, "PUT").unwrap().is(201);
    let archive = export("").send(&server).is(200).body.clone();
    state("POST", "reset").send(&server).is(200);
    import("", archive).send(&server).is(200);
    let read = Request::new(Service::Blob, "GET", "/aaa/name").send(&server);
    read.is(200).has_header("content-disposition", "café");
}

#[test]
fn import_that_replaces_is_not_advised_to_replace() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    put_blob(&server, "held", b"mine".to_vec());
    let hold = Request::new(Service::Blob, "PUT", "/aaa/held?comp=legalhold");
    let hold = hold.header("x-ms-legal-hold", "true");
    hold.send(&server).is(200);
    let archive = archive(&[("blobs/aaa/held", "theirs"), (MANIFEST, "{\"format\":1}")]);
    let refusal = import("?existing=replace", archive).send(&server);
    let message = refused(&refusal, 409, "ImportFailed");
    assert!(!message.contains("existing="), "{message}");
    assert!(message.contains("legal hold"), "{message}");
}

#[test]
fn export_says_how_many_blobs_lose_their_protection() {
    let server = Server::fresh();
    put("aaa").send(&server).is(201);
    for name in ["held", "kept", "free"] {
        put_blob(&server, name, b"1".to_vec());
    }
    let hold = Request::new(Service::Blob, "PUT", "/aaa/held?comp=legalhold");
    let hold = hold.header("x-ms-legal-hold", "true");
    hold.send(&server).is(200);
    let policy = Request::new(Service::Blob, "PUT", "/aaa/kept?comp=immutabilityPolicies");
    policy
        .header(
            "x-ms-immutability-policy-until-date",
            "Fri, 01 Jan 2100 00:00:00 GMT",
        )
        .send(&server)
        .is(200);
    let exported = export("").send(&server);
    exported
        .is(200)
        .has_header("x-lazurite-not-exported", "0")
        .has_header("x-lazurite-exported-unprotected", "2");
}

#[test]
#[cfg(target_os = "linux")]
fn import_that_a_stop_of_the_server_ends_says_that_a_part_may_be_there() {
    let (_location, server) = with_names(&[], &[]);
    let blobs: Vec<String> = (0..5000).map(|n| format!("blobs/aaa/{n}")).collect();
    let mut files: Vec<(&str, &str)> = blobs.iter().map(|name| (&**name, "content")).collect();
    files.push((MANIFEST, "{\"format\":1}"));
    let bytes = import("", archive(&files)).bytes();
    let mut importing = Connection::open(&server, Service::Blob).unwrap();
    let answer = std::thread::scope(|scope| {
        let answer = scope.spawn(|| importing.send_bytes(&bytes, "POST").unwrap());
        wait_until("the first blobs are there", || !names(&server).is_empty());
        kill(&server, "-TERM");
        answer.join().unwrap()
    });
    let message = refused(&answer, 503, "ServerBusy");
    assert!(
        message.contains("A part of the archive may have been imported"),
        "{message}"
    );
}

/// Peak memory of the server in MiB.
#[cfg(target_os = "linux")]
fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
    kibibytes.parse::<u64>().unwrap() / 1024
}

#[test]
#[cfg(target_os = "linux")]
fn large_stores_pass_through_little_memory() {
    const MEBIBYTES: usize = 200;
    let (_location, server) = with_names(&[], &[]);
    put("aaa").send(&server).is(201);
    for number in 0..4 {
        put_blob(
            &server,
            &format!("b{number}"),
            noise(number, MEBIBYTES << 18),
        );
    }
    let exported = export("").send(&server).is(200).body.clone();
    assert!(exported.len() > MEBIBYTES << 20);
    let (_other_location, other) = with_names(&[], &[]);
    let imported = import("", exported).send(&other).is(200).json();
    assert_eq!(imported["imported"]["bytes"], MEBIBYTES << 20);
    for (what, server) in [("export", server), ("import", other)] {
        let peak = peak(&server);
        assert!(
            peak < 128,
            "{peak} MiB resident for an {what} of {MEBIBYTES} MiB"
        );
    }
}

/// The ports on which a process listens.
#[cfg(target_os = "linux")]
fn listening(pid: u32) -> BTreeSet<u16> {
    let sockets = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = sockets.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let own: HashSet<String> = links
        .filter_map(|link| {
            let link = link.to_str()?.strip_prefix("socket:[")?;
            Some(link.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let ports = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_listening = fields[3] == "0A" && own.contains(fields[9]);
        let port = u16::from_str_radix(fields[1].rsplit(':').next()?, 16).ok()?;
        is_listening.then_some(port)
    });
    ports.collect()
}

/// Sends requests to a port for the server's own requests.
#[cfg(target_os = "linux")]
fn ask(port: u16) -> Vec<TcpStream> {
    let targets = [
        "POST /_lazurite/state/reset",
        "GET /devstoreaccount1/aaa/b1",
    ];
    let asked = targets.map(|target| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
        let head = format!(
            "{target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).ok()?;
        Some(socket)
    });
    asked.into_iter().flatten().collect()
}

/// Whether the request was answered, which must be a refusal. False if the export ended first.
#[cfg(target_os = "linux")]
fn is_refused(mut socket: TcpStream) -> bool {
    let mut answer = String::new();
    let is_answered = socket.read_to_string(&mut answer).is_ok() && !answer.is_empty();
    assert!(
        !is_answered || answer.starts_with("HTTP/1.1 403 "),
        "{answer}"
    );
    is_answered
}

/// Sends the server a signal, such as one that stops or continues it.
#[cfg(target_os = "linux")]
fn kill(server: &Server, signal: &str) {
    let pid = server.pid().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn ports_of_the_server_for_itself_serve_nobody_else() {
    let (_location, server) = with_names(&[], &[]);
    put("aaa").send(&server).is(201);
    for number in 0..40 {
        put_blob(&server, &format!("b{number}"), noise(number, 1 << 20));
    }
    let known = listening(server.pid());
    let mut answers = 0;
    let deadline = Instant::now() + PATIENCE;
    for delay in [5, 20, 80, 40, 10].into_iter().cycle() {
        let mut connection = Connection::open(&server, Service::Blob).unwrap();
        std::thread::scope(|scope| {
            let exporting = scope.spawn(move || connection.send(&export("")).unwrap().status);
            std::thread::sleep(Duration::from_millis(delay));
            // Stop the server while its ports are found, which may take longer than the export.
            kill(&server, "-STOP");
            let ports = listening(server.pid());
            let asked: Vec<_> = ports
                .difference(&known)
                .flat_map(|port| ask(*port))
                .collect();
            kill(&server, "-CONT");
            let refused = asked.into_iter().map(is_refused);
            answers += refused.filter(|is_refused| *is_refused).count();
            assert_eq!(exporting.join().unwrap(), 200);
        });
        if answers > 0 {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "no port was found while an export ran"
        );
    }
    assert_eq!(names(&server), set(&["aaa"]));
}

#[cfg(target_os = "linux")]
#[test]
fn fork_that_ends_under_its_export_is_not_made_again() {
    let (_location, server) = with_names(&[], &["--forks"]);
    put("aaa").send(&server).is(201);
    for number in 0..400 {
        put_blob(&server, &format!("b{number}"), noise(number, 1 << 10));
    }
    let made = state("POST", "forks").body("{}").send(&server);
    let made: Value = serde_json::from_slice(&made.is(201).body).unwrap();
    let fork = made["name"].as_str().unwrap();
    let known = listening(server.pid());
    let exported = export(&format!("?fork={fork}"));
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    std::thread::scope(|scope| {
        let exporting = scope.spawn(move || connection.send(&exported).unwrap().status);
        while !exporting.is_finished() && listening(server.pid()).is_subset(&known) {}
        state("DELETE", &format!("forks/{fork}"))
            .send(&server)
            .is(200);
    });
    let forks = state("GET", "forks").send(&server);
    let forks: Value = serde_json::from_slice(&forks.is(200).body).unwrap();
    assert!(!forks.to_string().contains(fork), "{forks}");
}

#[test]
fn an_import_can_be_stopped_and_the_next_one_runs() {
    let (location, server) = with_names(&[], &[]);
    let stop = || state("DELETE", "import").send(&server);
    assert_eq!(stop().status, 404);
    let archive = archive(&[("blobs/bbb/name", "content"), (MANIFEST, "{\"format\":1}")]);
    let bytes = import("", archive.clone()).bytes();
    let mut importing = Connection::open(&server, Service::Blob).unwrap();
    importing.write(&bytes[..bytes.len() - 1]).unwrap();
    wait_until("an import has begun", || {
        !self::scratch(location.path()).is_empty()
    });
    let under_way = refused(
        &import("", archive.clone()).send(&server),
        409,
        "TransferUnderWay",
    );
    assert!(under_way.contains("DELETE"), "{under_way}");
    stop().is(200);
    let message = refused(&importing.read("POST").unwrap(), 409, "ImportStopped");
    assert!(message.contains("Nothing was imported"), "{message}");
    assert_eq!(stop().status, 404);
    import("", archive).send(&server).is(200);
    assert_eq!(names(&server), set(&["bbb"]));
}

/// 150 MiB of zeros take a few kilobytes in an archive.
#[test]
fn an_archive_counts_against_the_quota() {
    let (location, server) = with_names(&[], &["--disk-quota=256"]);
    let zeros = "\0".repeat(150 << 20);
    let archive = archive(&[("blobs/bbb/name", &zeros), (MANIFEST, "{\"format\":1}")]);
    let message = refused(
        &import("", archive).send(&server),
        507,
        "InsufficientStorage",
    );
    assert!(message.contains("--disk-quota"), "{message}");
    assert!(scratch(location.path()).is_empty());
    assert_eq!(names(&server), set(&[]));
}

//! `lazurite copy`: everything arrives, once, whatever ends in the middle; between our servers and
//! from and to Azurite.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::azurite_process::{Azurite, NEWEST_RELEASE};
use crate::blob::account_sas;
use crate::clients::skips_clients;
use crate::export::{files, fill, ok, put_odd_properties};
use crate::http::Request;
use crate::server::{ACCOUNT, KEY, Launch, PATIENCE, Ports, Server, Service};
use crate::test_clock::page;

fn command(from: &str, to: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    command.args(["copy", from, "env:COPY_TO"]).args(words);
    command.env("COPY_TO", to);
    command
}

/// Whether a copy succeeded, and what it printed.
fn run(from: &str, to: &str, words: &[&str]) -> (bool, String) {
    let output = command(from, to, words).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

fn copied(from: &Server, to: &Server, words: &[&str]) -> String {
    let (succeeded, text) = run(&from.connection_string(), &to.connection_string(), words);
    assert!(succeeded, "{words:?}: {text}");
    text
}

fn not_copied(from: &str, to: &str, words: &[&str]) -> String {
    let (succeeded, text) = run(from, to, words);
    assert!(!succeeded, "{words:?}: {text}");
    text
}

fn exported(server: &Server) -> BTreeMap<String, Vec<u8>> {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("export");
    ok(server, &["export", path.to_str().unwrap()]);
    files(&path)
}

#[track_caller]
fn assert_equal_exports(one: &Server, other: &Server) {
    let (one, other) = (exported(one), exported(other));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (name, bytes) in &one {
        assert!(
            other[name] == *bytes,
            "{name} differs: {} {}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]),
            String::from_utf8_lossy(&other[name][..other[name].len().min(2000)])
        );
    }
}

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

fn put(server: &Server, target: &str, body: impl Into<Vec<u8>>) {
    let put = blob("PUT", target).header("x-ms-blob-type", "BlockBlob");
    put.body(body).send(server).is(201);
}

/// Puts the contents of [`fill`], and some that take several pieces to copy.
fn fill_more(server: &Server) {
    fill(server);
    let noise = |seed: u32, bytes: usize| {
        let mut state = seed;
        let byte = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..bytes).map(byte).collect::<Vec<u8>>()
    };
    put(server, "/photos/large", noise(1, 9 << 20));
    for seed in 2..5 {
        blob("PUT", "/photos/log2?comp=appendblock")
            .body(noise(seed, 3 << 20))
            .send(with_log(server))
            .is(201);
    }
}

/// Creates the append blob of [`fill_more`] unless it exists.
fn with_log(server: &Server) -> &Server {
    let create = blob("PUT", "/photos/log2").header("x-ms-blob-type", "AppendBlob");
    let created = create.header("If-None-Match", "*").send(server);
    assert!(matches!(created.status, 201 | 409));
    server
}

fn set_faults(server: &Server, rules: &Value) {
    let body = json!({ "rules": rules }).to_string();
    page("PUT", "faults").body(body).send(server).is(200);
}

#[test]
fn copy_between_two_servers_is_equal_in_an_export() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill_more(&from);
    let text = copied(&from, &to, &[]);
    assert!(
        text.contains("copied: 11 blobs") && text.contains("100 messages, 250 entities"),
        "{text}"
    );
    assert_equal_exports(&from, &to);
    let ranges = blob("GET", "/photos/disk?comp=pagelist").send(&to).text();
    assert!(
        ranges.contains("<Start>5242880</Start><End>5243391</End>"),
        "{ranges}"
    );
}

#[test]
fn copy_of_names_copies_only_these() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill(&from);
    let text = copied(&from, &to, &["--queues", "work", "--parallel", "1"]);
    assert!(
        text.contains("0 blobs (0 B), 100 messages, 0 entities"),
        "{text}"
    );
    blob("GET", "/photos?restype=container").send(&to).is(404);
    let (from, to) = (from.connection_string(), to.connection_string());
    let text = not_copied(&from, &to, &["--tables", "Customers,Absent"]);
    assert!(text.contains("FROM has no table Absent"), "{text}");
}

#[test]
fn copy_does_with_what_is_there_as_it_is_told() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill(&from);
    copied(&from, &to, &[]);
    put(&to, "/photos/2026/lake.jpg", "changed");
    put(&to, "/photos/mine", "mine");
    let lake = || blob("GET", "/photos/2026/lake.jpg").send(&to).text();
    let strings = (from.connection_string(), to.connection_string());
    let text = not_copied(&strings.0, &strings.1, &[]);
    assert!(
        text.contains("container photos is there") && text.contains("Nothing was copied"),
        "{text}"
    );
    let text = copied(&from, &to, &["--existing", "skip"]);
    assert!(text.contains("container photos is there: left"), "{text}");
    assert_eq!(lake(), "changed");
    let text = copied(&from, &to, &["--existing", "replace"]);
    assert!(
        text.contains("queue work is there: its messages are deleted first"),
        "{text}"
    );
    assert_eq!(lake(), "content");
    blob("GET", "/photos/mine").send(&to).is(200);
    blob("DELETE", "/photos/mine").send(&to).is(202);
    assert_equal_exports(&from, &to);
}

#[test]
fn copy_of_a_store_onto_itself_is_refused_and_deletes_nothing() {
    let server = Server::fresh();
    fill(&server);
    let before = exported(&server);
    let from = server.connection_string();
    let to = from.replace("127.0.0.1", "localhost");
    for existing in ["refuse", "skip", "replace"] {
        let text = not_copied(&from, &to, &["--existing", existing]);
        assert!(text.contains("are the same Blob service"), "{text}");
    }
    assert!(before == exported(&server));
}

/// Runs a copy whose blobs are sent slowly. Once it has made the container, `interfere` writes to
/// the destination. Returns the output of the failed copy.
fn copied_while(from: &Server, to: &Server, interfere: impl Fn()) -> String {
    set_faults(
        from,
        &json!([{"operation": "GetBlob", "fault": "latency=300ms"}]),
    );
    let strings = (from.connection_string(), to.connection_string());
    let mut copy = command(&strings.0, &strings.1, &["--parallel", "1"]);
    copy.stdout(Stdio::piped()).stderr(Stdio::piped());
    let copy = copy.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let container = || blob("GET", "/photos?restype=container").send(to).status;
    while container() != 200 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    interfere();
    set_faults(from, &json!([]));
    let ended = copy.wait_with_output().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success(), "{text}");
    text
}

#[test]
fn contents_that_arrive_at_the_destination_during_a_copy_stay() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill(&from);
    let message = "<QueueMessage><MessageText>mine</MessageText></QueueMessage>";
    let queue = |method: &str, target: &str| Request::new(Service::Queue, method, target);
    let text = copied_while(&from, &to, || {
        queue("PUT", "/work").send(&to).is(201);
        let put = queue("POST", "/work/messages").body(message);
        put.send(&to).is(201);
    });
    assert!(
        text.contains("queue work: something was put there while the copy ran"),
        "{text}"
    );
    let peeked = queue("GET", "/work/messages?peekonly=true").send(&to);
    assert!(peeked.text().contains(">mine<"));

    let (from, to) = (Server::fresh(), Server::fresh());
    blob("PUT", "/photos?restype=container").send(&from).is(201);
    put(&from, "/photos/a", "a");
    put(&from, "/photos/b", "b");
    let text = copied_while(&from, &to, || put(&to, "/photos/b", "mine"));
    assert!(
        text.contains("photos/b: another blob was put there while the copy ran"),
        "{text}"
    );
    assert_eq!(blob("GET", "/photos/b").send(&to).text(), "mine");
}

/// Starts a copy, and kills it once `is_reached` is true.
fn kill_when(from: &str, to: &str, words: &[&str], is_reached: impl Fn() -> bool) {
    let mut command = command(from, to, words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !is_reached() {
        assert!(Instant::now() < deadline, "the copy did not come so far");
        assert!(child.try_wait().unwrap().is_none(), "the copy has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_copy_goes_on_where_it_was() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill(&from);
    for number in 0..40 {
        put(
            &from,
            &format!("/photos/many/{number}"),
            format!("{number}"),
        );
    }
    let scratch = TempDir::new().unwrap();
    let journal = scratch.path().join("journal");
    let words = ["--resume", journal.to_str().unwrap()];
    let slow = |operation: &str| json!([{"operation": operation, "fault": "latency=20ms"}]);
    let lines = |kind: &str| {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        text.lines().filter(|line| line.contains(kind)).count()
    };
    let strings = (from.connection_string(), to.connection_string());
    set_faults(&to, &slow("PutBlob"));
    kill_when(&strings.0, &strings.1, &words, || {
        lines("\"copyEtag\"") >= 10
    });
    set_faults(&to, &slow("PutMessage"));
    kill_when(&strings.0, &strings.1, &words, || {
        let queue = Request::new(Service::Queue, "GET", "/work?comp=metadata").send(&to);
        let count = queue.header("x-ms-approximate-messages-count");
        count.is_some_and(|count| count.parse::<u32>().unwrap() >= 10)
    });
    set_faults(&to, &json!([]));
    // Blobs that were changed since are copied again.
    put(&from, "/photos/many/0", "changed");
    let text = copied(&from, &to, &words);
    assert!(text.contains("from an earlier run"), "{text}");
    assert_equal_exports(&from, &to);
    let text = copied(&from, &to, &words);
    assert!(text.contains("copied: 0 blobs"), "{text}");
    let other = Server::fresh();
    let (from, other) = (from.connection_string(), other.connection_string());
    let text = not_copied(&from, &other, &words);
    let places = "another copy, from account devstoreaccount1 at 127.0.0.1:";
    assert!(text.contains(places) && !text.contains('{'), "{text}");
}

#[test]
fn resumed_copy_copies_again_what_has_left_the_destination() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill(&from);
    let scratch = TempDir::new().unwrap();
    let journal = scratch.path().join("journal");
    let words = ["--resume", journal.to_str().unwrap()];
    copied(&from, &to, &words);
    let request = |service, target| Request::new(service, "DELETE", target);
    request(Service::Queue, "/work").send(&to).is(204);
    let table = request(Service::Table, "/Tables('Customers')");
    table.header("Accept", "application/json").send(&to).is(204);
    let text = copied(&from, &to, &words);
    assert!(text.contains("100 messages, 250 entities"), "{text}");
    assert_equal_exports(&from, &to);
    // A consumer has deleted the copied messages in the meantime.
    let messages = request(Service::Queue, "/work/messages");
    messages.send(&to).is(204);
    let text = not_copied(&from.connection_string(), &to.connection_string(), &words);
    assert!(
        text.contains("an earlier run copied 100 messages, and the destination has 0"),
        "{text}"
    );
}

#[test]
fn copy_with_a_sas_names_what_the_sas_does_not_give_and_copies_the_rest() {
    let (from, to) = (Server::fresh(), Server::fresh());
    blob("PUT", "/photos?restype=container").send(&from).is(201);
    put(&from, "/photos/a", "a");
    let queue = |method: &str, target: &str| Request::new(Service::Queue, method, target);
    queue("PUT", "/work").send(&from).is(201);
    for hidden in ["", "?visibilitytimeout=600"] {
        let message = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
        let put = queue("POST", &format!("/work/messages{hidden}"));
        put.body(message).send(&from).is(201);
    }
    let sas = account_sas("rltf", "bqt", "sco", "", "https,http");
    let mut source = format!("SharedAccessSignature={sas};");
    for service in Service::ALL {
        let port = from.ports.of(service);
        source += &format!("{service:?}Endpoint=http://127.0.0.1:{port}/{ACCOUNT};");
    }
    let scratch = TempDir::new().unwrap();
    let journal = scratch.path().join("journal");
    let words = ["--resume", journal.to_str().unwrap()];
    // A second run leaves the same items out.
    for _ in 0..2 {
        let text = not_copied(&source, &to.connection_string(), &words);
        assert!(
            text.contains("queue work: 1 of its messages, which this server shows")
                && text.contains("copied: "),
            "{text}"
        );
    }
    assert_eq!(blob("GET", "/photos/a").send(&to).text(), "a");
}

#[test]
fn connections_that_break_are_tried_again_and_nothing_comes_twice() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill_more(&from);
    set_faults(
        &from,
        &json!([
            {"operation": "GetBlob", "count": 2, "fault": "cut-body"},
            {"operation": "ListBlobs", "count": 1, "fault": "reset"},
            {"operation": "PeekMessages", "count": 1, "fault": "cut-body"},
            {"operation": "QueryEntities", "count": 1, "fault": "cut-body"},
        ]),
    );
    set_faults(
        &to,
        &json!([
            {"operation": "PutBlock", "count": 1, "fault": "reset"},
            {"operation": "PutBlock", "count": 1, "fault": "500"},
            {"operation": "PutBlockList", "count": 1, "fault": "lose-answer"},
            {"operation": "AppendBlock", "count": 2, "fault": "lose-answer"},
            {"operation": "PutPage", "count": 1, "fault": "lose-answer"},
            {"operation": "PutMessage", "count": 1, "fault": "lose-answer"},
            {"operation": "Batch", "count": 2, "fault": "lose-answer"},
        ]),
    );
    copied(&from, &to, &[]);
    for server in [&from, &to] {
        let rules = page("GET", "faults").send(server).is(200).json();
        for rule in rules["rules"].as_array().unwrap() {
            assert_eq!(rule["hits"], rule["count"], "{rule}");
        }
        set_faults(server, &json!([]));
    }
    assert_equal_exports(&from, &to);
}

#[test]
fn md5_of_another_length_and_a_missing_content_type_are_copied() {
    let (from, to) = (Server::fresh(), Server::fresh());
    put_odd_properties(&from);
    copied(&from, &to, &[]);
    assert_equal_exports(&from, &to);
    for name in ["block", "long", "log", "disk"] {
        let head = blob("HEAD", &format!("/photos/{name}")).send(&to);
        head.is(200).has_header("content-md5", "AAEC");
    }
}

#[test]
fn policies_that_a_copy_did_not_come_to_are_set_by_the_next_run() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill(&from);
    let scratch = TempDir::new().unwrap();
    let journal = scratch.path().join("journal");
    let words = ["--retry", "0", "--resume", journal.to_str().unwrap()];
    set_faults(
        &to,
        &json!([{"operation": "SetContainerAcl", "count": 1, "fault": "reset"}]),
    );
    let (source, destination) = (from.connection_string(), to.connection_string());
    not_copied(&source, &destination, &words);
    blob("GET", "/photos?restype=container").send(&to).is(200);
    copied(&from, &to, &words);
    assert_equal_exports(&from, &to);
}

#[test]
fn copy_ends_with_a_sentence_when_a_server_is_gone_and_goes_on_when_it_is_back() {
    let location = TempDir::new().unwrap();
    let (from, to) = (Server::fresh(), Launch::on(location.path()).start());
    fill(&from);
    let (ports, scratch) = (to.ports, TempDir::new().unwrap());
    let journal = scratch.path().join("journal");
    let words = ["--retry", "1", "--resume", journal.to_str().unwrap()];
    set_faults(
        &to,
        &json!([{"operation": "PutMessage", "fault": "latency=50ms"}]),
    );
    let strings = (from.connection_string(), to.connection_string());
    let mut copy = command(&strings.0, &strings.1, &words);
    copy.stdout(Stdio::piped()).stderr(Stdio::piped());
    let copy = copy.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&journal).is_ok_and(|text| text.contains("queue work")) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    to.kill();
    let ended = copy.wait_with_output().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success(), "{text}");
    assert!(
        text.contains("nothing answers on") && text.contains("The same command goes on"),
        "{text}"
    );
    let to = Launch::on(location.path()).ports(ports).start();
    copied(&from, &to, &words);
    assert_equal_exports(&from, &to);
}

#[test]
fn wrong_keys_and_silent_addresses_are_named_before_anything_is_written() {
    let (from, to) = (Server::fresh(), Server::fresh());
    fill(&from);
    let (from, good) = (from.connection_string(), to.connection_string());
    let wrong = good.replace(KEY, &KEY.replace("Eby8", "Ebz8"));
    let text = not_copied(&from, &wrong, &[]);
    assert!(
        text.contains("TO, Blob: 403 AuthenticationFailed"),
        "{text}"
    );
    let ports = Ports {
        blob: 1,
        queue: 1,
        table: 1,
    };
    let silent = ports.connection_string("http");
    let text = not_copied(&silent, &good, &[]);
    assert!(text.contains("FROM, Blob: nothing answers on"), "{text}");
    let text = not_copied("env:ABSENT_VARIABLE", &good, &[]);
    assert!(text.contains("has no variable ABSENT_VARIABLE"), "{text}");
    blob("GET", "/photos?restype=container").send(&to).is(404);
}

#[test]
fn snapshots_leases_and_protection_are_named() {
    let (from, to) = (Server::fresh(), Server::fresh());
    blob("PUT", "/photos?restype=container").send(&from).is(201);
    put(&from, "/photos/a", "a");
    blob("PUT", "/photos/a?comp=snapshot").send(&from).is(201);
    let lease = blob("PUT", "/photos/a?comp=lease").header("x-ms-lease-action", "acquire");
    let lease = lease.header("x-ms-lease-duration", "-1");
    lease.send(&from).is(201);
    put(&from, "/photos/b", "b");
    let hold = blob("PUT", "/photos/b?comp=legalhold").header("x-ms-legal-hold", "true");
    hold.send(&from).is(200);
    let policy = blob("PUT", "/photos/b?comp=immutabilitypolicies")
        .header("x-ms-immutability-policy-mode", "Unlocked");
    let until = "Fri, 01 Jan 2038 00:00:00 GMT";
    let policy = policy.header("x-ms-immutability-policy-until-date", until);
    policy.send(&from).is(200);
    let text = copied(&from, &to, &[]);
    let named = "1 snapshots, 1 leases, 1 immutability policies, 1 legal holds";
    let line = format!("container photos: not copied: {named}");
    assert!(text.contains(&line), "{text}");
}

/// The lines of an export's files, except the properties of services, for which Azurite uses other
/// words.
fn comparable(files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<String>> {
    let kept = files
        .into_iter()
        .filter(|(name, _)| !name.starts_with("services/"));
    let lines = kept.map(|(name, bytes)| {
        let text = String::from_utf8_lossy(&bytes);
        (name, text.lines().map(str::to_owned).collect())
    });
    lines.collect()
}

#[test]
fn copy_to_azurite_and_back_is_equal() {
    if skips_clients() {
        return;
    }
    let location = TempDir::new().unwrap();
    let azurite = Azurite::start(NEWEST_RELEASE, location.path());
    let (from, to) = (Server::fresh(), Server::fresh());
    fill_more(&from);
    let between = azurite.connection_string();
    let (succeeded, text) = run(&from.connection_string(), &between, &[]);
    assert!(succeeded, "{text}");
    let back = to.connection_string();
    let text = not_copied(&between, &back, &[]);
    assert!(
        text.contains("queue work: its server shows 32 of its 100 messages; --first-messages"),
        "{text}"
    );
    let words = ["--first-messages", "--queues", "work"];
    let text = not_copied(&between, &back, &words);
    assert!(
        text.contains("queue work: 68 of its messages, which this server shows to consumers only"),
        "{text}"
    );
    let (mut one, mut other) = (comparable(exported(&from)), comparable(exported(&to)));
    let messages = "queues/work.messages.jsonl";
    let shown = one.remove(messages).unwrap()[..32].to_vec();
    assert_eq!(other.remove(messages).unwrap(), shown);
    for (name, lines) in &one {
        assert_eq!(lines, &other[name], "{name}");
    }
    assert_eq!(one.len(), other.len());
}

#[test]
fn killed_copy_to_azurite_goes_on_where_it_was() {
    if skips_clients() {
        return;
    }
    let location = TempDir::new().unwrap();
    let azurite = Azurite::start(NEWEST_RELEASE, location.path());
    let from = Server::fresh();
    fill(&from);
    let between = azurite.connection_string();
    let scratch = TempDir::new().unwrap();
    let journal = scratch.path().join("journal");
    let words = ["--resume", journal.to_str().unwrap()];
    // Slow reads leave time for the kill.
    set_faults(
        &from,
        &json!([{"operation": "GetBlob", "fault": "latency=50ms"}]),
    );
    let has_blobs = || {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        text.contains("\"copyEtag\"")
    };
    kill_when(&from.connection_string(), &between, &words, has_blobs);
    set_faults(&from, &json!([]));
    let (succeeded, text) = run(&from.connection_string(), &between, &words);
    assert!(succeeded && text.contains("from an earlier run"), "{text}");
    let (_, text) = run(&from.connection_string(), &between, &words);
    assert!(
        text.contains("copied: 0 blobs (0 B), 0 messages, 0 entities"),
        "{text}"
    );
}

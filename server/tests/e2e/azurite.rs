//! `lazurite import-azurite` and adoption: directories that Azurite has written, whole, damaged and
//! hostile.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::azurite_process::{Azurite, NEWEST_RELEASE, releases};
use crate::clients::{SCRIPT_SILENCE_MAX, finish, python_command, skips_clients, text};
use crate::export::{files, ok, refused};
use crate::http::{Request, Response};
use crate::server::{KEY, Launch, Server, Service};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/azurite.py");
const BLOBS: &str = "__azurite_db_blob__.json";

fn script(action: &str, connection_string: &str) -> String {
    let mut command = python_command();
    command.args([SCRIPT, action]);
    command.env("AZURE_STORAGE_CONNECTION_STRING", connection_string);
    let output = finish(
        &mut command,
        SCRIPT_SILENCE_MAX,
        "the client cannot be started",
    );
    assert!(output.status.success(), "{action}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn shown(connection_string: &str) -> Value {
    serde_json::from_str(&script("show", connection_string)).unwrap()
}

/// The directory of a release of Azurite, and what official clients read from it.
struct Written {
    directory: TempDir,
    shown: Value,
}

fn write(release: &str) -> Written {
    let directory = TempDir::new().unwrap();
    let azurite = Azurite::start(release, directory.path());
    script("fill", &azurite.connection_string());
    let shown = shown(&azurite.connection_string());
    azurite.stop();
    Written { directory, shown }
}

/// The directory of the newest release, written once. Tests that change it use a copy.
static NEWEST: LazyLock<Written> = LazyLock::new(|| write(NEWEST_RELEASE));

fn copy_of_newest() -> TempDir {
    let copy = TempDir::new().unwrap();
    for (name, bytes) in files(NEWEST.directory.path()) {
        let path = copy.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    copy
}

/// Compares everything with what Azurite showed. The times at which messages expire may be later by
/// what has passed since `began`, when the import began: each message comes with the time that it
/// has left.
fn assert_same(mut found: Value, mut expected: Value, began: Instant) {
    let expires = |shown: &mut Value| shown["queues"]["work"]["expires"].take();
    let (before, after) = (expires(&mut expected), expires(&mut found));
    let seconds = |times: &Value| -> Vec<i64> { serde_json::from_value(times.clone()).unwrap() };
    let later_max = i64::try_from(began.elapsed().as_secs()).unwrap() + 1;
    for (before, after) in seconds(&before).into_iter().zip(seconds(&after)) {
        assert!(
            (-1..=later_max).contains(&(after - before)),
            "{before} {after}"
        );
    }
    for (kind, resources) in expected.as_object().unwrap() {
        let Some(resources) = resources.as_object() else {
            continue;
        };
        for (name, resource) in resources {
            let other = &found[kind][name];
            for blob in resource["blobs"].as_object().into_iter().flatten() {
                assert_eq!(other["blobs"][blob.0], *blob.1, "{name}/{}", blob.0);
            }
            assert_eq!(other, resource, "{kind} {name}");
        }
    }
    assert_eq!(found, expected);
}

fn import(server: &Server, directory: &Path) -> String {
    ok(server, &["import-azurite", directory.to_str().unwrap()])
}

fn import_in_part(server: &Server, directory: &Path) -> String {
    refused(server, &["import-azurite", directory.to_str().unwrap()])
}

fn get(server: &Server, service: Service, target: &str) -> Response {
    let get = Request::new(service, "GET", target);
    get.header("Accept", "application/json, application/xml")
        .send(server)
}

#[test]
fn everything_that_azurite_served_is_served_after_an_import_of_its_files() {
    if skips_clients() {
        return;
    }
    for &release in releases() {
        let Written {
            directory,
            shown: expected,
        } = write(release);
        let before = files(directory.path());
        let server = Server::fresh();
        let began = Instant::now();
        let said = import(&server, directory.path());
        assert!(
            said.contains("2 containers, 2 queues, 2 tables, 10 blobs")
                && said.contains("4 messages, 301 entities"),
            "{release}: {said}"
        );
        assert_same(shown(&server.connection_string()), expected, began);
        assert!(
            files(directory.path()) == before,
            "{release}: the source has changed"
        );
        // Azurite hides this message, so wait until it is visible.
        ok(&server, &["clock", "advance", "2h"]);
        let peek = get(
            &server,
            Service::Queue,
            "/work/messages?peekonly=true&numofmessages=32",
        )
        .text();
        assert!(peek.contains(">hidden<"), "{peek}");
    }
}

#[test]
fn import_is_exact_while_a_client_writes_and_the_client_loses_nothing() {
    if skips_clients() {
        return;
    }
    let directory = copy_of_newest();
    let before = files(directory.path());
    let server = Server::fresh();
    let connection_string = server.connection_string();
    let load = thread::spawn(move || script("load", &connection_string));
    let has_begun = || get(&server, Service::Blob, "/load/0?comp=metadata").status == 200;
    while !has_begun() {
        assert!(!load.is_finished(), "{:?}", load.join());
        thread::sleep(Duration::from_millis(20));
    }
    let began = Instant::now();
    import(&server, directory.path());
    Request::new(Service::Blob, "PUT", "/stop?restype=container")
        .send(&server)
        .is(201);
    let writes: u64 = load.join().unwrap().trim().parse().unwrap();
    assert!(writes > 1, "{writes}");
    assert_same(
        shown(&server.connection_string()),
        NEWEST.shown.clone(),
        began,
    );
    assert!(files(directory.path()) == before, "the source has changed");
}

#[test]
fn blocks_that_are_not_committed_and_snapshots_are_named_and_left_out() {
    if skips_clients() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let azurite = Azurite::start(NEWEST_RELEASE, directory.path());
    script("fill", &azurite.connection_string());
    script("leave", &azurite.connection_string());
    azurite.stop();
    let server = Server::fresh();
    let said = import_in_part(&server, directory.path());
    assert!(
        said.contains("not imported: blob photos/staged: a block that is not committed"),
        "{said}"
    );
    assert!(
        said.contains("not imported: blob photos/snapped: its snapshot of 20"),
        "{said}"
    );
    assert!(said.contains(", 11 blobs"), "{said}");
    get(&server, Service::Blob, "/photos/snapped").is(200);
    get(&server, Service::Blob, "/photos/staged").is(404);
}

#[test]
fn database_that_is_cut_in_its_middle_is_imported_up_to_there() {
    if skips_clients() {
        return;
    }
    let directory = copy_of_newest();
    let path = directory.path().join(BLOBS);
    let database = fs::read_to_string(&path).unwrap();
    let cut = database.find("\"name\":\"disk\"").unwrap();
    fs::write(&path, &database[..cut]).unwrap();
    let server = Server::fresh();
    let said = import_in_part(&server, directory.path());
    let place = format!("not imported: {BLOBS}: the documents after byte ");
    let (_, offset) = said.split_once(&place).expect(&said);
    let offset: usize = offset.split(':').next().unwrap().parse().unwrap();
    assert!(
        offset < cut && database[..=offset].contains("\"name\":\"log\""),
        "{said}"
    );
    assert!(said.contains("the file ends early"), "{said}");
    for (blob, status) in [
        ("log", 200),
        ("2026/lake.jpg", 200),
        ("disk", 404),
        ("copied", 404),
    ] {
        get(&server, Service::Blob, &format!("/photos/{blob}")).is(status);
    }
    assert!(
        said.contains("4 messages, 301 entities"),
        "the other services are whole: {said}"
    );
}

#[test]
fn blobs_of_an_extent_that_is_gone_are_named_and_the_others_imported() {
    if skips_clients() {
        return;
    }
    let directory = copy_of_newest();
    let database: Value =
        serde_json::from_slice(&fs::read(directory.path().join(BLOBS)).unwrap()).unwrap();
    let collections = database["collections"].as_array().unwrap();
    let documents = collections
        .iter()
        .find(|collection| collection["name"] == "$BLOBS_COLLECTION$");
    let documents = documents.unwrap()["data"].as_array().unwrap();
    let of = |name: &str| documents.iter().find(|blob| blob["name"] == name).unwrap();
    let lost = of("2026/lake.jpg")["persistency"]["id"].as_str().unwrap();
    fs::remove_file(directory.path().join("__blobstorage__").join(lost)).unwrap();
    let server = Server::fresh();
    let said = import_in_part(&server, directory.path());
    let gone = format!("its extent {lost:?} is missing");
    for blob in documents {
        let name = blob["name"].as_str().unwrap();
        let is_lost = blob["properties"]["contentLength"] != 0 && blob.to_string().contains(lost);
        let line = format!("not imported: blob photos/{name}: {gone}");
        assert_eq!(said.contains(&line), is_lost, "{name}: {said}");
    }
    get(&server, Service::Blob, "/photos/2026/lake.jpg").is(404);
    get(&server, Service::Blob, "/photos/empty").is(200);
    assert!(said.contains("4 messages, 301 entities"), "{said}");
}

#[test]
fn account_that_the_destination_does_not_have_is_named_or_mapped() {
    let directory = TempDir::new().unwrap();
    write_database(
        directory.path(),
        BLOBS,
        &[(
            "$CONTAINERS_COLLECTION$",
            &[json!({"accountName": "other", "name": "photos", "properties": {}})],
        )],
    );
    let server = Server::fresh();
    let said = import_in_part(&server, directory.path());
    assert!(said.contains("not imported: account \"other\""), "{said}");
    get(&server, Service::Blob, "/photos?restype=container").is(404);
    let path = directory.path().to_str().unwrap();
    ok(
        &server,
        &["import-azurite", path, "--from-account", "other"],
    );
    get(&server, Service::Blob, "/photos?restype=container").is(200);
}

fn write_database(directory: &Path, name: &str, collections: &[(&str, &[Value])]) {
    let collections: Vec<_> = collections
        .iter()
        .map(|(name, documents)| json!({"name": name, "data": documents, "idIndex": [1]}))
        .collect();
    // The name precedes the data, as in files of LokiJS.
    let texts = collections.iter().map(|collection| {
        format!(
            "{{\"name\":{},\"data\":{}}}",
            collection["name"], collection["data"]
        )
    });
    let text = format!(
        "{{\"collections\":[{}]}}",
        texts.collect::<Vec<_>>().join(",")
    );
    fs::write(directory.join(name), text).unwrap();
}

fn blob(name: &str, changes: Value) -> Value {
    let mut blob = json!({
        "accountName": "devstoreaccount1", "containerName": "photos", "name": name, "isCommitted": true,
        "properties": {"blobType": "BlockBlob", "contentLength": 3},
        "persistency": {"id": "good", "offset": 0, "count": 3},
    });
    for (field, value) in changes.as_object().unwrap() {
        blob[field] = value.clone();
    }
    blob
}

/// For each invalid blob: its name, its document, and the name of the fault in messages.
fn hostile_blobs() -> Vec<(&'static str, Value, &'static str)> {
    let part =
        |id: &str, offset: u64, count: u64| json!({"id": id, "offset": offset, "count": count});
    let page = |length: u64, ranges: Value| json!({"properties": {"blobType": "PageBlob", "contentLength": length}, "pageRangesInOrder": ranges});
    vec![
        (
            "up",
            json!({"persistency": part("../secret", 0, 3)}),
            "leads out",
        ),
        (
            "root",
            json!({"persistency": part("/etc/hostname", 0, 3)}),
            "missing",
        ),
        #[cfg(unix)]
        ("link", json!({"persistency": part("link", 0, 3)}), "a link"),
        ("nowhere", json!({"persistency": part("", 0, 3)}), "no file"),
        (
            "absent",
            json!({"persistency": part("absent", 0, 3)}),
            "is missing",
        ),
        (
            "long",
            json!({"persistency": part("good", 1, 3)}),
            "has 3 bytes",
        ),
        (
            "huge",
            json!({"persistency": part("good", u64::MAX, 3)}),
            "has 3 bytes",
        ),
        (
            "overflow",
            json!({"committedBlocksInOrder": [
            {"persistency": part("*ZERO*", 0, u64::MAX)}, {"persistency": part("*ZERO*", 0, u64::MAX)}]}),
            "only page blobs",
        ),
        (
            "zeros",
            json!({"properties": {"blobType": "AppendBlob", "contentLength": 1_u64 << 40}, "persistency": part("*ZERO*", 0, 1_u64 << 40)}),
            "only page blobs",
        ),
        (
            "again",
            json!({"properties": {"blobType": "BlockBlob", "contentLength": 3000},
                "committedBlocksInOrder": vec![json!({"persistency": part("good", 0, 3)}); 1000]}),
            "have 3000 bytes, and all extents have 3",
        ),
        (
            "other",
            json!({"persistency": part("good", 0, 2)}),
            "has 3 bytes, and its parts have 2",
        ),
        (
            "type",
            json!({"properties": {"blobType": "Tape", "contentLength": 3}}),
            "type \"Tape\"",
        ),
        (
            "md5",
            json!({"properties": {"blobType": "BlockBlob", "contentLength": 3, "contentMD5": [1]}}),
            "Content-MD5",
        ),
        (
            "control",
            json!({"metadata": {"a": "b\r\nx-ms-lease-id: c"}}),
            "it holds a control character",
        ),
        ("name", json!({"metadata": {"1 2": "x"}}), "not permitted"),
        (
            "names",
            json!({"metadata": {"a": "x", "A": "y"}}),
            "not permitted",
        ),
        (
            "tag",
            json!({"blobTags": {"blobTagSet": [{"key": "", "value": "x"}]}}),
            "400",
        ),
        (
            "pages",
            page(
                1024,
                json!([{"start": 9, "end": 3, "persistency": part("good", 0, 3)}]),
            ),
            "contradict",
        ),
        (
            "part",
            page(
                1024,
                json!([{"start": 3, "end": 5, "persistency": part("good", 0, 3)}]),
            ),
            "4",
        ),
        ("endless", page(u64::MAX, json!([])), "4"),
        ("odd", page(513, json!([])), "4"),
    ]
}

#[test]
fn hostile_files_of_azurite_are_named_and_what_is_sound_is_imported() {
    let directory = TempDir::new().unwrap();
    let storage = directory.path().join("__blobstorage__");
    fs::create_dir(&storage).unwrap();
    fs::write(storage.join("good"), "abc").unwrap();
    fs::write(directory.path().join("secret"), "abc").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret", storage.join("link")).unwrap();
    let hostile = hostile_blobs();
    let mut documents = vec![
        blob("sound", json!({})),
        blob("con", json!({"containerName": "../photos"})),
        blob("log", json!({"containerName": "$logs"})),
    ];
    documents.extend(
        hostile
            .iter()
            .map(|(name, changes, _)| blob(name, changes.clone())),
    );
    let wrong = [
        json!(7),
        json!([]),
        json!({}),
        blob("number", json!({"name": 7})),
        blob(
            "float",
            json!({"persistency": {"id": "good", "offset": 0.5, "count": 3}}),
        ),
    ];
    documents.extend(wrong);
    let containers = [
        json!({"accountName": "devstoreaccount1", "name": "../../up", "properties": {}}),
        json!({"accountName": "devstoreaccount1", "name": "$logs", "properties": {}}),
        json!({"accountName": "devstoreaccount1", "name": "photos", "properties": {}, "containerAcl": [{"id": "x", "accessPolicy": {"expiry": "never"}}]}),
    ];
    write_database(
        directory.path(),
        BLOBS,
        &[
            ("$CONTAINERS_COLLECTION$", &containers),
            ("$BLOBS_COLLECTION$", &documents),
        ],
    );
    write_hostile_queues_and_tables(directory.path());
    let before = files(directory.path());
    let server = Server::fresh();
    let said = import_in_part(&server, directory.path());
    for (name, _, reason) in &hostile {
        let place = format!("not imported: blob photos/{name}: ");
        let line = said.lines().find(|line| line.starts_with(&place));
        assert!(
            line.is_some_and(|line| line.contains(reason)),
            "{name}: {said}"
        );
    }
    assert_eq!(
        said.matches(&format!("{BLOBS}, the document that ends at byte"))
            .count(),
        5,
        "{said}"
    );
    for part in [
        "container ../../up",
        "container $logs: only the service itself",
        "blob $logs/log: only the service itself",
        "blob ../photos/con: ",
        "container photos: 400",
        "queue UPPER",
        "message huge of queue work",
        "table 1st",
        "an entity of table Tab",
        "PartitionKey: it is no text",
        "message control of queue work: its text has a character that XML does not allow",
        "__azurite_db_table__.json: the documents after byte",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(get(&server, Service::Blob, "/photos/sound").text(), "abc");
    assert_eq!(
        get(
            &server,
            Service::Table,
            "/Tab(PartitionKey='p',RowKey='sound')"
        )
        .json()["N"],
        1
    );
    let names = get(
        &server,
        Service::Blob,
        "/photos?restype=container&comp=list",
    )
    .text();
    assert_eq!(names.matches("<Blob>").count(), 1, "{names}");
    assert!(files(directory.path()) == before);
}

fn write_hostile_queues_and_tables(directory: &Path) {
    let message = |id: &str, changes: Value| {
        let mut message = json!({
            "accountName": "devstoreaccount1", "queueName": "work", "messageId": id, "timeNextVisible": 0,
            "expirationTime": "9999-12-31T23:59:59.999Z", "dequeueCount": 0, "persistency": {"id": "*ZERO*", "offset": 0, "count": 0},
        });
        for (field, value) in changes.as_object().unwrap() {
            message[field] = value.clone();
        }
        message
    };
    let messages = [
        message(
            "huge",
            json!({"persistency": {"id": "*ZERO*", "offset": 0, "count": u64::MAX}}),
        ),
        message("time", json!({"expirationTime": "x"})),
        message(
            "control",
            json!({"persistency": {"id": "control", "offset": 0, "count": 3}}),
        ),
        message("late", json!({"timeNextVisible": u64::MAX})),
        message("count", json!({"dequeueCount": -1})),
        message("up", json!({"queueName": "../up"})),
    ];
    fs::create_dir(directory.join("__queuestorage__")).unwrap();
    fs::write(directory.join("__queuestorage__/control"), "a\u{1}b").unwrap();
    let queues = [json!({"accountName": "devstoreaccount1", "name": "UPPER"})];
    write_database(
        directory,
        "__azurite_db_queue__.json",
        &[
            ("$QUEUES_COLLECTION$", &queues),
            ("$MESSAGES_COLLECTION$", &messages),
        ],
    );
    let deep = "[".repeat(100_000);
    let entity = |row: &str, properties: &str| {
        format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"properties\":{properties}}}")
    };
    let entities = [
        entity("wrong", "{\"A\":{}}"),
        entity("number", "{\"A\":1e999}"),
        entity("guid", "{\"A\":7,\"A@odata.type\":\"Edm.Guid\"}"),
        "{\"PartitionKey\":7,\"RowKey\":\"r\",\"properties\":{}}".to_owned(),
        entity("sound", "{\"N\":1}"),
        "7".to_owned(),
        entity("deep", &format!("{{\"A\":{deep}")),
    ];
    let text = format!(
        "{{\"collections\":[{{\"name\":\"$TABLES_COLLECTION$\",\"data\":[{{\"account\":\"devstoreaccount1\",\"table\":\"1st\"}}]}},\
         {{\"name\":\"devstoreaccount1$Tab\",\"data\":[{}",
        entities.join(",")
    );
    fs::write(directory.join("__azurite_db_table__.json"), text).unwrap();
}

#[test]
fn directory_without_data_of_azurite_is_refused() {
    let directory = TempDir::new().unwrap();
    let server = Server::fresh();
    let said = import_in_part(&server, directory.path());
    assert!(said.contains("it holds no data of Azurite"), "{said}");
    let said = import_in_part(&server, &directory.path().join("absent"));
    assert!(said.contains("it holds no data of Azurite"), "{said}");
}

#[test]
fn first_start_on_a_directory_of_azurite_imports_it_and_later_ones_do_not() {
    if skips_clients() {
        return;
    }
    let directory = copy_of_newest();
    let before = files(directory.path());
    let began = Instant::now();
    let server = Launch::on(directory.path()).start();
    server.wait_for_log("2 containers, 2 queues, 2 tables, 10 blobs");
    server.wait_for_log("nothing was left out");
    assert_same(
        shown(&server.connection_string()),
        NEWEST.shown.clone(),
        began,
    );
    Request::new(Service::Blob, "DELETE", "/photos?restype=container")
        .send(&server)
        .is(202);
    server.signal("TERM");
    let server = Launch::on(directory.path()).start();
    get(&server, Service::Blob, "/photos?restype=container").is(404);
    get(&server, Service::Blob, "/empty?restype=container").is(200);
    assert!(!server.log().contains("imported"), "{}", server.log());
    drop(server);
    let store = directory.path().join(".lazurite");
    let report = fs::read_to_string(store.join("azurite-import.txt")).unwrap();
    assert!(report.starts_with("imported: 2 containers"), "{report}");
    fs::remove_dir_all(store).unwrap();
    assert!(
        files(directory.path()) == before,
        "the files of Azurite have changed"
    );
}

/// Writes a directory of Azurite with `count` blobs and `count` messages.
fn write_many(directory: &Path, count: usize) {
    fs::create_dir(directory.join("__blobstorage__")).unwrap();
    fs::write(directory.join("__blobstorage__/good"), "abc").unwrap();
    let blobs: Vec<_> = (0..count)
        .map(|number| blob(&format!("b{number}"), json!({})))
        .collect();
    write_database(directory, BLOBS, &[("$BLOBS_COLLECTION$", &blobs)]);
}

fn blob_count(server: &Server) -> usize {
    let list = get(server, Service::Blob, "/photos?restype=container&comp=list").text();
    list.matches("<Blob>").count()
}

#[test]
fn import_that_is_killed_in_its_middle_begins_again_at_the_next_start() {
    let directory = TempDir::new().unwrap();
    write_many(directory.path(), 2000);
    let launch = || Launch::on(directory.path());
    // Lines of the log show progress: there is one, and one with headers, for each request of the
    // import.
    let logging = launch().argument("--debug").argument("/dev/stdout");
    logging.killed_after(600);
    let store = directory.path().join(".lazurite");
    assert!(store.join(".azurite-import-begun").exists());
    assert!(!store.join("azurite-import.txt").exists());
    // Starts that fail must not write to a store that the next start empties.
    for launch in [
        launch()
            .argument("--no-shared-key")
            .argument("--oauth=basic"),
        Launch::on(&store),
    ] {
        let (status, text) = launch.refused();
        let reason = "an import of Azurite's data broke off";
        assert!(!status.success() && text.contains(reason), "{text}");
    }
    let server = launch().start();
    assert_eq!(blob_count(&server), 2000);
    server.wait_for_log("2000 blobs");
    let left = |name: &str| store.join(name).exists();
    assert!(
        left("azurite-import.txt") && !left(".azurite-import-begun") && !left(".azurite-import")
    );
}

#[test]
fn store_that_holds_something_is_not_mixed_with_data_of_azurite() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("other.txt"), "").unwrap();
    let server = Launch::on(directory.path()).start();
    Request::new(Service::Queue, "PUT", "/mine")
        .send(&server)
        .is(201);
    server.signal("TERM");
    write_many(directory.path(), 1);
    let server = Launch::on(directory.path()).start();
    server.wait_for_log("is not imported: the store is not new");
    get(&server, Service::Blob, "/photos?restype=container").is(404);
    get(&server, Service::Queue, "/mine?comp=metadata").is(200);
}

#[test]
fn store_with_an_account_that_the_start_does_not_name_is_not_emptied() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("other.txt"), "").unwrap();
    let server = Launch::on(directory.path())
        .environment("AZURITE_ACCOUNTS", &format!("other:{KEY}"))
        .argument("--queues=mine")
        .start();
    server.signal("TERM");
    write_many(directory.path(), 1);
    let server = Launch::on(directory.path()).start();
    server.wait_for_log("is not imported: the store is not new");
    let mark = directory.path().join(".lazurite/.azurite-import-begun");
    assert!(!mark.exists());
}

#[cfg(unix)]
#[test]
fn adoption_waits_for_files_that_cannot_be_read() {
    let directory = TempDir::new().unwrap();
    write_many(directory.path(), 3);
    for name in ["__blobstorage__", BLOBS] {
        let (path, aside) = (directory.path().join(name), directory.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        std::os::unix::fs::symlink("aside", &path).unwrap();
        let (status, text) = Launch::on(directory.path()).refused();
        assert!(!status.success() && text.contains(name), "{text}");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    let server = Launch::on(directory.path()).start();
    server.wait_for_log("nothing was left out");
    assert_eq!(blob_count(&server), 3);
}

#[test]
fn container_is_imported_as_private_where_public_access_is_not_permitted() {
    let directory = TempDir::new().unwrap();
    let containers = [
        json!({"accountName": "devstoreaccount1", "name": "photos", "properties": {"publicAccess": "blob"}}),
    ];
    let collections: [(&str, &[Value]); 1] = [("$CONTAINERS_COLLECTION$", &containers)];
    write_database(directory.path(), BLOBS, &collections);
    let server = Launch::on(directory.path())
        .argument("--no-public-access")
        .start();
    server.wait_for_log("container photos: its public access");
    get(&server, Service::Blob, "/photos?restype=container").is(200);
}

#[test]
fn adoption_names_in_one_line_what_it_left_out() {
    let directory = TempDir::new().unwrap();
    write_many(directory.path(), 3);
    let path = directory.path().join(BLOBS);
    let database = fs::read_to_string(&path).unwrap();
    fs::write(&path, &database[..database.len() - 20]).unwrap();
    let server = Launch::on(directory.path()).start();
    server.wait_for_log("2 blobs");
    server.wait_for_log("not imported: __azurite_db_blob__.json: the documents after byte");
    assert_eq!(blob_count(&server), 2);
}

#[test]
fn accounts_of_azurite_are_adopted_if_they_are_configured() {
    let directory = TempDir::new().unwrap();
    let container =
        |account: &str| json!({"accountName": account, "name": "photos", "properties": {}});
    let containers = ["first", "second", "third"].map(container);
    write_database(
        directory.path(),
        BLOBS,
        &[("$CONTAINERS_COLLECTION$", &containers)],
    );
    let accounts = format!("first:{KEY};second:{KEY}");
    let server = Launch::on(directory.path())
        .environment("AZURITE_ACCOUNTS", &accounts)
        .start();
    server.wait_for_log("2 containers");
    server.wait_for_log("not imported: account \"third\"");
}

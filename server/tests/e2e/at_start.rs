//! `--containers`, `--queues` and `--tables`: the resources that exist after the start.

use tempfile::TempDir;

use crate::http::Request;
use crate::server::{Launch, Server, Service};

fn list(server: &Server, service: Service, target: &str) -> String {
    let list =
        Request::new(service, "GET", target).header("Accept", "application/json, application/xml");
    list.send(server).is(200).text()
}

#[test]
fn named_containers_queues_and_tables_are_made_once() {
    let location = TempDir::new().unwrap();
    let launch = || {
        let launch = Launch::on(location.path()).argument("--containers=photos,logs");
        let launch = launch.argument("--queues=work").argument("--queues=poison");
        launch.environment("LAZURITE_TABLES", "Customers,Orders")
    };
    let server = launch().start();
    server.wait_for_log(
        "made containers photos, logs; queues work, poison; tables Customers, Orders",
    );
    let containers = list(&server, Service::Blob, "/?comp=list");
    let queues = list(&server, Service::Queue, "/?comp=list");
    let tables = list(&server, Service::Table, "/Tables");
    for (list, names) in [
        (containers, ["<Name>photos<", "<Name>logs<"]),
        (queues, ["<Name>work<", "<Name>poison<"]),
        (tables, ["\"Customers\"", "\"Orders\""]),
    ] {
        assert!(names.iter().all(|name| list.contains(name)), "{list}");
    }
    drop(server);
    let server = launch().argument("--containers=more").start();
    server.wait_for_log("made containers more (account devstoreaccount1)");
    drop(server);
    launch().start().wait_for_log("were there");
}

#[test]
fn wrong_name_stops_the_start_before_anything_is_made() {
    let location = TempDir::new().unwrap();
    for (flag, name) in [
        (
            "--containers=photos,Lake",
            "--containers Lake: the name of a container has 3 to 63 lower-case letters",
        ),
        (
            "--queues=a",
            "--queues a: the name of a queue has 3 to 63 lower-case letters",
        ),
        (
            "--tables=1st",
            "--tables 1st: the name of a table has 3 to 63 letters and digits",
        ),
    ] {
        let (status, text) = Launch::on(location.path())
            .argument("--containers=first")
            .argument(flag)
            .refused();
        assert!(!status.success() && text.contains(name), "{text}");
    }
    let server = Launch::on(location.path()).start();
    assert!(!list(&server, Service::Blob, "/?comp=list").contains("first"));
}

#[test]
fn seed_is_there_once_the_server_is_ready_and_does_nothing_at_the_next_start() {
    let location = TempDir::new().unwrap();
    let seed = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = seed.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("blobs/photos/lake.txt", "first");
    write("queues/work.messages.jsonl", "{\"text\":\"one\"}");
    let launch = || {
        let launch = Launch::on(&location.path().join("data"));
        launch.environment("LAZURITE_SEED", seed.path().to_str().unwrap())
    };
    let server = launch().start();
    let lake = |server: &Server| list(server, Service::Blob, "/photos/lake.txt");
    assert_eq!(lake(&server), "first");
    server.wait_for_log("1 container, 1 queue, 0 tables, 1 blob (5 B), 1 message");
    drop(server);
    write("blobs/photos/lake.txt", "second");
    write("tables/Orders.json", "{}");
    let server = launch().start();
    assert_eq!(lake(&server), "first");
    assert!(list(&server, Service::Table, "/Tables").contains("Orders"));
    server.wait_for_log("container photos is there: left as it is");
    drop(server);

    write(
        "queues/other.messages.jsonl",
        "{\"text\":\"one\"}\n{\"txt\":\"two\"}",
    );
    let (status, text) = Launch::on(&location.path().join("fresh"))
        .environment("LAZURITE_SEED", seed.path().to_str().unwrap())
        .refused();
    assert!(
        !status.success()
            && text.contains("other.messages.jsonl, line 2: txt: it is none of the fields text"),
        "{text}"
    );
    let server = Launch::on(&location.path().join("fresh")).start();
    assert!(!list(&server, Service::Blob, "/?comp=list").contains("photos"));
}

#[test]
fn short_toml_file_seeds_containers_queues_tables_and_cors_rules() {
    let scratch = TempDir::new().unwrap();
    let seed = scratch.path().join("seed.toml");
    let write = |text: &str| std::fs::write(&seed, text).unwrap();
    let launch = |data: &str| {
        let launch = Launch::on(&scratch.path().join(data));
        launch.argument("--seed").argument(seed.to_str().unwrap())
    };
    write("[containers.photos]\naccess = \"all\"\n");
    let (status, text) = launch("data").refused();
    assert!(
        !status.success() && text.contains("seed.toml: line 2: "),
        "{text}"
    );
    let good = "[containers.photos]\naccess = \"blob\"\nmetadata = { owner = \"anna\" }\n[queues.work]\n[tables.Customers]\n\
                [[cors]]\norigins = [\"http://a.example\"]\nmethods = [\"GET\"]\n";
    let wrong = "[[cors]]\norigins = [\"*\"]\nmethods = [\"FLY\"]\n";
    write(&format!("{good}{wrong}"));
    let (status, text) = launch("data").refused();
    assert!(
        !status.success() && text.contains("seed.toml: line 9: "),
        "{text}"
    );
    let server = Launch::on(&scratch.path().join("data")).start();
    assert!(!list(&server, Service::Blob, "/?comp=list").contains("photos"));
    drop(server);
    write(good);
    for _ in 0..2 {
        let server = launch("data").start();
        let container =
            Request::new(Service::Blob, "GET", "/photos?restype=container").send(&server);
        container
            .is(200)
            .has_header("x-ms-blob-public-access", "blob")
            .has_header("x-ms-meta-owner", "anna");
        assert!(list(&server, Service::Queue, "/?comp=list").contains("<Name>work<"));
        assert!(list(&server, Service::Table, "/Tables").contains("\"Customers\""));
        for service in Service::ALL {
            let properties = list(&server, service, "/?restype=service&comp=properties");
            assert!(properties.contains("http://a.example"), "{properties}");
        }
    }
}

#[test]
fn archive_is_imported_before_names_are_made_and_never_replaced_by_less() {
    let scratch = TempDir::new().unwrap();
    let archive = scratch.path().join("state.tar.zst");
    let seed = scratch.path().join("seed.toml");
    std::fs::write(&seed, "[containers.seeded]\n").unwrap();
    let carrying = |launch: Launch| {
        let launch = launch
            .argument("--import")
            .argument(archive.to_str().unwrap());
        let launch = launch
            .argument("--containers=photos")
            .argument("--seed")
            .argument(seed.to_str().unwrap());
        launch.argument("--export-on-exit")
    };
    let launch = || carrying(Launch::on(scratch.path()).argument("--inMemoryPersistence"));
    let server = launch().start();
    for container in ["photos", "seeded"] {
        let put = Request::new(Service::Blob, "PUT", &format!("/{container}/a"));
        let put = put.header("x-ms-blob-type", "BlockBlob").body(b"a");
        put.send(&server).is(201);
    }
    assert!(server.signal("TERM").0.success());
    for _ in 0..2 {
        let server = launch().start();
        for container in ["photos", "seeded"] {
            let blob = list(&server, Service::Blob, &format!("/{container}/a"));
            assert_eq!(blob, "a");
        }
        assert!(server.signal("TERM").0.success());
    }
    let before = std::fs::read(&archive).unwrap();
    let disk = TempDir::new().unwrap();
    let server = Launch::on(disk.path()).start();
    Request::new(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    assert!(server.signal("TERM").0.success());
    let (status, text) = carrying(Launch::on(disk.path())).refused();
    assert!(
        !status.success() && text.contains("container photos is in the store already"),
        "{text}"
    );
    assert!(std::fs::read(&archive).unwrap() == before);
}

#[test]
fn export_on_exit_that_is_not_whole_keeps_the_earlier_archive() {
    let scratch = TempDir::new().unwrap();
    let archive = scratch.path().join("state.tar.zst");
    let launch = || {
        let launch = Launch::on(scratch.path()).argument("--inMemoryPersistence");
        let launch = launch
            .argument("--import")
            .argument(archive.to_str().unwrap());
        launch
            .argument("--containers=photos")
            .argument("--export-on-exit")
    };
    assert!(launch().start().signal("TERM").0.success());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = || std::fs::metadata(&archive).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&archive, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(launch().start().signal("TERM").0.success());
        assert_eq!(mode(), 0o640, "a file that is replaced keeps its mode");
    }
    let whole = std::fs::read(&archive).unwrap();
    let server = launch().start();
    Request::new(Service::Blob, "PUT", "/photos/frozen")
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-access-tier", "Archive")
        .body("a")
        .send(&server)
        .is(201);
    assert!(!server.signal("TERM").0.success());
    assert!(std::fs::read(&archive).unwrap() == whole);
    assert!(scratch.path().join("state.tar.zst.incomplete").exists());
}

#[test]
fn archive_carries_the_state_from_one_run_to_the_next() {
    let scratch = TempDir::new().unwrap();
    let archive = scratch.path().join("state.tar.zst");
    let launch = || {
        let launch = Launch::on(scratch.path()).argument("--inMemoryPersistence");
        let launch = launch
            .argument("--import")
            .argument(archive.to_str().unwrap());
        launch.argument("--export-on-exit")
    };
    let put = |server: &Server, name: &str| {
        let put = Request::new(Service::Blob, "PUT", &format!("/photos/{name}"));
        put.header("x-ms-blob-type", "BlockBlob")
            .body(name.as_bytes())
            .send(server)
            .is(201);
    };
    let server = launch().start();
    server.wait_for_log("state.tar.zst is not there");
    Request::new(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    put(&server, "first");
    let (status, _) = server.signal("TERM");
    assert!(status.success());
    let first = std::fs::read(&archive).unwrap();
    let server = launch().start();
    assert_eq!(list(&server, Service::Blob, "/photos/first"), "first");
    put(&server, "second");
    // A killed server does not write the archive.
    server.kill();
    assert!(std::fs::read(&archive).unwrap() == first);
    let server = launch().start();
    put(&server, "third");
    assert!(server.signal("TERM").0.success());
    let server = launch().start();
    for (name, status) in [("first", 200), ("second", 404), ("third", 200)] {
        let get = Request::new(Service::Blob, "GET", &format!("/photos/{name}"));
        get.send(&server).is(status);
    }
    server.kill();
    let names = std::fs::read_dir(scratch.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["state.tar.zst"], "nothing is left beside it");
    std::fs::write(&archive, &first[..first.len() / 2]).unwrap();
    let (status, text) = launch().refused();
    assert!(!status.success() && text.contains("--import"), "{text}");
    let (status, text) = Launch::on(scratch.path())
        .argument("--import=state.json")
        .argument("--export-on-exit")
        .refused();
    assert!(!status.success() && text.contains(".tar.zst"), "{text}");
}

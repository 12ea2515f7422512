//! `--containers`, `--queues` and `--tables`: what is there once the server is.

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
        ("--containers=photos,Lake", "--containers Lake:"),
        ("--queues=a", "--queues a:"),
        ("--tables=1st", "--tables 1st:"),
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
    server.wait_for_log("1 blobs");
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
        !status.success() && text.contains("other.messages.jsonl, line 2: text"),
        "{text}"
    );
    let server = Launch::on(&location.path().join("fresh")).start();
    assert!(!list(&server, Service::Blob, "/?comp=list").contains("photos"));
}

//! Copies from other servers: which servers may be asked, and the fate of a copy when this server
//! stops. Successful copies are in `clients/foreign.py`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use super::{put_blob, request};
use crate::http::Connection;
use crate::server::{Launch, PATIENCE, Server, Service};

/// A server that sends `answer` to its first client, and keeps the connection open. The channel
/// yields the connection.
fn source(answer: &'static str) -> (u16, Receiver<TcpStream>) {
    source_at("127.0.0.1:0", answer)
}

fn source_at(address: &str, answer: &'static str) -> (u16, Receiver<TcpStream>) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let _ = connection.read(&mut [0; 4096]);
        connection.write_all(answer.as_bytes()).unwrap();
        let _ = sender.send(connection);
    });
    (port, receiver)
}

fn start(location: &Path, hosts: &[&str]) -> Server {
    let launch = Launch::on(location);
    let flag = |host: &&str| format!("--allow-copy-from={host}");
    let flags = hosts.iter().map(flag);
    let server = flags.fold(launch, |launch, flag| launch.argument(&flag));
    let server = server.start();
    let created = request("PUT", "/con?restype=container").send(&server);
    assert!([201, 409].contains(&created.status), "{created:?}");
    server
}

fn copy(server: &Server, source: &str) -> crate::http::Response {
    let request = request("PUT", "/con/copy").header("x-ms-copy-source", source);
    request.send(server)
}

#[test]
fn names_are_not_an_invitation_to_private_addresses() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &["localhost"]);
    let (port, asked) = source(answer);
    let url = format!("http://localhost:{port}/file");
    let refused = copy(&server, &url);
    refused.is(403);
    assert_eq!(refused.code(), "CannotVerifyCopySource");
    assert!(
        refused.text().contains("private:HOST"),
        "{}",
        refused.text()
    );
    assert!(asked.try_recv().is_err());
    request("HEAD", "/con/copy").send(&server).is(404);
    // An address is not allowed just because an allowed name resolves to it.
    copy(&server, &url.replace("localhost", "127.0.0.1")).is(501);
    drop(server);
    let server = start(location.path(), &["private:localhost"]);
    copy(&server, &url).is(202);
    asked.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_copy_ends_when_its_client_has_left() {
    let location = tempfile::TempDir::new().unwrap();
    let mut server = start(location.path(), &["127.0.0.1"]);
    let operations = [
        ("PUT", "/con/copy", "BlockBlob", "PutBlobFromUrl"),
        (
            "PUT",
            "/con/copy?comp=block&blockid=AAAA",
            "",
            "PutBlockFromUrl",
        ),
    ];
    for (method, target, kind, operation) in operations {
        let (port, asked) = source("HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\nbody");
        let host = format!("127.0.0.1:{}", server.ports.blob);
        let request = request(method, target)
            .header("Host", &host)
            .header("x-ms-copy-source", &format!("http://127.0.0.1:{port}/file"));
        let request = match kind {
            "" => request,
            kind => request.header("x-ms-blob-type", kind),
        };
        let mut client = Connection::open(&server, Service::Blob).unwrap();
        client.write(&request.bytes()).unwrap();
        let mut from = asked.recv_timeout(PATIENCE).unwrap();
        drop(client);
        from.set_read_timeout(Some(PATIENCE)).unwrap();
        let end = from.read(&mut [0]);
        assert!(matches!(end, Ok(0)), "the source is still read: {end:?}");
        let line = server.wait_for_line(operation);
        assert!(
            line.contains("\" 499 - ") && line.ends_with(", disconnected"),
            "{line}"
        );
    }
    request("HEAD", "/con/copy").send(&server).is(404);
    let blocks = request("GET", "/con/copy?comp=blocklist&blocklisttype=all");
    blocks.send(&server).is(404);
}

#[test]
fn an_account_by_its_hosted_name_is_the_one_served_here() {
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &[]);
    let put = request("PUT", "/con/from").header("x-ms-blob-type", "BlockBlob");
    put.body("content").send(&server).is(201);
    copy(
        &server,
        "https://devstoreaccount1.blob.core.windows.net/con/from",
    )
    .is(202);
    let copied = request("GET", "/con/copy").send(&server);
    assert_eq!(copied.text(), "content");
    copy(&server, "https://another.blob.core.windows.net/con/from").is(501);
}

#[test]
fn another_server_may_have_the_same_port() {
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &["127.0.0.2"]);
    let address = format!("127.0.0.2:{}", server.ports.blob);
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    let (_, asked) = source_at(&address, answer);
    request("PUT", "/con/copy")
        .header("x-ms-copy-source", &format!("http://{address}/file"))
        .header("x-ms-requires-sync", "true")
        .send(&server)
        .is(202)
        .has_header("x-ms-copy-status", "success");
    asked.recv_timeout(PATIENCE).unwrap();
    assert_eq!(request("GET", "/con/copy").send(&server).text(), "body");
    // A URL with the server's own name addresses the server itself.
    let own = format!(
        "http://localhost:{}/devstoreaccount1/con/none",
        server.ports.blob
    );
    copy(&server, &own).is(404);
}

#[test]
fn redirects_are_not_followed() {
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &["127.0.0.1"]);
    let (port, _asked) = source(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
    );
    let refused = copy(&server, &format!("http://127.0.0.1:{port}/file"));
    refused.is(400);
    assert_eq!(refused.code(), "CannotVerifyCopySource");
}

#[test]
fn sources_that_are_too_long_are_refused_before_they_are_read() {
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &["127.0.0.1"]);
    let (port, _asked) = source("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n");
    let refused = copy(&server, &format!("http://127.0.0.1:{port}/file"));
    refused.is(413);
    request("HEAD", "/con/copy").send(&server).is(404);
    let (port, _asked) = source("HTTP/1.1 200 OK\r\nContent-Length: 268435457\r\n\r\n");
    request("PUT", "/con/copy")
        .header("x-ms-copy-source", &format!("http://127.0.0.1:{port}/file"))
        .header("x-ms-requires-sync", "true")
        .send(&server)
        .is(413);
    request("HEAD", "/con/copy").send(&server).is(404);
}

/// A server that answers requests for tags with this document, and other requests with content.
fn tagged_source(tags: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let length = connection.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let body = if head.starts_with("GET /file?sig=x&comp=tags HTTP") {
                tags
            } else {
                "content"
            };
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}");
            let _ = write!(connection, "{head}\r\n\r\n{body}");
        }
    });
    port
}

#[test]
fn tags_of_a_source_on_another_server_are_copied() {
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &["127.0.0.1"]);
    let copy = |port: u16, header: (&str, &str)| {
        request("PUT", "/con/copy")
            .header(
                "x-ms-copy-source",
                &format!("http://127.0.0.1:{port}/file?sig=x"),
            )
            .header("x-ms-copy-source-tag-option", "COPY")
            .header(header.0, header.1)
            .send(&server)
    };
    let port = tagged_source(
        "<?xml version=\"1.0\"?><Tags><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tags>",
    );
    for header in [
        ("x-ms-requires-sync", "true"),
        ("x-ms-blob-type", "BlockBlob"),
    ] {
        let copied = copy(port, header);
        assert!([201, 202].contains(&copied.status), "{copied:?}");
        let tags = request("GET", "/con/copy?comp=tags").send(&server);
        let text = tags.is(200).text();
        assert!(text.contains("<Key>a</Key><Value>1</Value>"), "{text}");
        assert_eq!(request("GET", "/con/copy").send(&server).text(), "content");
        request("DELETE", "/con/copy").send(&server).is(202);
        let refused = copy(tagged_source("no tags"), header);
        assert_eq!(refused.code(), "CannotVerifyCopySource");
        request("HEAD", "/con/copy").send(&server).is(404);
    }
}

/// A server that begins a response to each request and never completes it.
fn slow_source() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut connection in listener.incoming().map_while(Result::ok) {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun");
            open.push(connection);
        }
    });
    port
}

#[test]
fn copies_beyond_the_places_for_them_change_nothing_and_are_tried_again() {
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &["127.0.0.1"]);
    let url = format!("http://127.0.0.1:{}/file", slow_source());
    let copy_to = |name: &str| {
        let put = request("PUT", &format!("/con/{name}"));
        put.header("x-ms-copy-source", &url)
    };
    let mut ids = Vec::new();
    for i in 0..64 {
        let started = copy_to(&format!("slow{i}")).send(&server);
        started.is(202);
        ids.push(started.header("x-ms-copy-id").unwrap().to_owned());
    }
    let refused = copy_to("more").send(&server);
    refused.is(503);
    assert_eq!(refused.code(), "ServerBusy");
    assert!(refused.text().contains("64 copies"), "{}", refused.text());
    request("HEAD", "/con/more").send(&server).is(404);
    // An aborted copy frees its place shortly after the abort is answered, although its source
    // never ends.
    request("PUT", &format!("/con/slow7?comp=copy&copyid={}", ids[7]))
        .header("x-ms-copy-action", "abort")
        .send(&server)
        .is(204);
    let deadline = Instant::now() + PATIENCE;
    while copy_to("more").send(&server).status == 503 {
        assert!(Instant::now() < deadline, "the place is not free");
    }
    let more = request("HEAD", "/con/more").send(&server);
    more.is(200).has_header("x-ms-copy-status", "pending");
}

#[test]
fn copies_that_a_restart_cuts_off_have_failed() {
    let location = tempfile::TempDir::new().unwrap();
    let server = start(location.path(), &["127.0.0.1"]);
    let (port, asked) = source("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun");
    copy(&server, &format!("http://127.0.0.1:{port}/file"))
        .is(202)
        .has_header("x-ms-copy-status", "pending");
    let _connection = asked.recv_timeout(PATIENCE).unwrap();
    put_blob("copy", "meanwhile").send(&server).is(409);
    server.kill();
    let server = start(location.path(), &["127.0.0.1"]);
    let found = request("HEAD", "/con/copy").send(&server);
    found
        .is(200)
        .has_header("content-length", "0")
        .has_header("x-ms-copy-status", "failed");
    let described = found.header("x-ms-copy-status-description").unwrap();
    assert!(described.contains("restarted"), "{described}");
    put_blob("copy", "afterwards").send(&server).is(201);
}

//! Clients that stall: they cost little memory, harm no neighbour, and are given up within a minute.

#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::http::{Connection, Request};
use crate::server::{Server, Service};

const MIB: usize = 1 << 20;

/// How many clients of each kind stall.
const CLIENTS: usize = 150;

/// A connection on which something was begun and not ended.
fn stall(server: &Server, bytes: &[u8]) -> TcpStream {
    stall_on(server, Service::Blob, bytes)
}

fn stall_on(server: &Server, service: Service, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports.of(service))).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    // The server may take less than that before it waits for memory.
    let _ = stream.write_all(bytes);
    stream
}

/// Bytes that the server has sent before it closed the connection; `None` if it is open.
fn sent_before_close(stream: &mut TcpStream) -> Option<usize> {
    let patience = Some(Duration::from_secs(2));
    stream.set_read_timeout(patience).unwrap();
    let mut buffer = [0; 64 << 10];
    let mut sent = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Some(sent),
            Ok(bytes) => sent += bytes,
            Err(error) => {
                let is_open = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                return (!is_open).then_some(sent);
            }
        }
    }
}

/// Memory of the server that is not that of files.
fn anonymous_bytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    kibibytes.unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn stalled_clients_cost_little_and_are_given_up_within_a_minute() {
    let server = Server::fresh();
    let request = |method, target| Request::new(Service::Blob, method, target);
    request("PUT", "/slow?restype=container")
        .send(&server)
        .is(201);
    request("PUT", "/slow/large")
        .header("x-ms-blob-type", "BlockBlob")
        .body(vec![7; 32 * MIB])
        .send(&server)
        .is(201);
    let before = anonymous_bytes(&server);
    let began = Instant::now();
    let reader = request("GET", "/slow/large").bytes();
    let writer = request("PUT", "/slow/written")
        .header("x-ms-blob-type", "BlockBlob")
        .body(vec![7; MIB])
        .bytes();
    let head = format!(
        "GET /devstoreaccount1 HTTP/1.1\r\nx-ms-meta-a: {}",
        "a".repeat(30_000)
    );
    let mut writers = Vec::new();
    let mut heads = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..CLIENTS {
        readers.push(stall(&server, &reader));
        writers.push(stall(&server, &writer[..writer.len() - 700_000]));
        heads.push(stall(&server, head.as_bytes()));
    }
    let held = anonymous_bytes(&server).saturating_sub(before);
    assert!(held < 256 * MIB, "{} MiB", held / MIB);
    let mut neighbour = Connection::open(&server, Service::Blob).unwrap();
    let small = request("HEAD", "/slow/large");
    while began.elapsed() < Duration::from_secs(45) {
        let asked = Instant::now();
        neighbour.send(&small).unwrap().is(200);
        assert!(asked.elapsed() < Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(200));
    }
    for (what, clients) in [
        ("head", &mut heads),
        ("body", &mut writers),
        ("reading", &mut readers),
    ] {
        for stream in clients {
            let sent = sent_before_close(stream);
            assert!(sent.is_some_and(|sent| sent < 32 * MIB), "{what}: {sent:?}");
        }
    }
    // The server can be asked for large bodies as before.
    let blob = request("GET", "/slow/large").send(&server);
    assert_eq!(blob.is(200).body.len(), 32 * MIB);
}

/// Pages are made whole: those that no client takes have room, or are not made.
#[test]
fn pages_that_are_not_taken_cost_little() {
    let server = Server::fresh();
    let request = |method, target: &str| Request::new(Service::Table, method, target);
    request("POST", "/Tables")
        .header("Content-Type", "application/json")
        .body(r#"{"TableName":"Slow"}"#)
        .send(&server)
        .is(201);
    let text = "a".repeat(30_000);
    for row in 0..40 {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","Text":"{text}"}}"#);
        request("POST", "/Slow")
            .header("Content-Type", "application/json")
            .body(entity)
            .send(&server)
            .is(201);
    }
    let page = request("GET", "/Slow()");
    assert!(page.send(&server).is(200).body.len() > MIB / 2);
    let before = anonymous_bytes(&server);
    let asked = page.bytes();
    let mut readers: Vec<TcpStream> = (0..400)
        .map(|_| stall_on(&server, Service::Table, &asked))
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let held = anonymous_bytes(&server).saturating_sub(before);
    assert!(held < 160 * MIB, "{} MiB", held / MIB);
    // Others wait until those have been given up.
    let began = Instant::now();
    page.send(&server).is(200);
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
    readers.clear();
}

/// Bodies that are announced and hardly come hold no memory that others need.
#[test]
fn slow_batches_leave_room_for_the_uploads_of_others() {
    let server = Server::fresh();
    Request::new(Service::Blob, "PUT", "/slow?restype=container")
        .send(&server)
        .is(201);
    let batch = Request::new(Service::Blob, "POST", "/?comp=batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(vec![b'x'; 4 * MIB])
        .bytes();
    let head = batch.len() - 4 * MIB;
    let mut slow: Vec<TcpStream> = (0..16)
        .map(|_| stall(&server, &batch[..head + (70 << 10)]))
        .collect();
    let mut neighbour = Connection::open(&server, Service::Blob).unwrap();
    let began = Instant::now();
    let uploading = std::thread::scope(|scope| {
        let upload = scope.spawn(move || {
            let upload = Request::new(Service::Blob, "PUT", "/slow/blob")
                .header("x-ms-blob-type", "BlockBlob")
                .body(vec![7; 300 << 10]);
            neighbour.send(&upload).unwrap().status
        });
        while !upload.is_finished() {
            for stream in &mut slow {
                let _ = stream.write_all(&[b'x'; 2000]);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        upload.join().unwrap()
    });
    assert_eq!(uploading, 201);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

/// More of them than there is memory for at once: each has room for its body or waits for it, and none waits for more while it has some.
#[test]
fn batches_that_come_together_do_not_wait_for_each_other() {
    let server = Server::fresh();
    let batch = Request::new(Service::Blob, "POST", "/?comp=batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(vec![b'x'; MIB])
        .bytes();
    let begun = batch.len() - MIB + (10 << 10);
    let streams: Vec<TcpStream> = (0..60).map(|_| stall(&server, &batch[..begun])).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for mut stream in streams {
            let rest = &batch[begun..];
            scope.spawn(move || {
                stream.set_write_timeout(None).unwrap();
                stream.write_all(rest).unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"HTTP/1.1 400");
            });
        }
    });
    let elapsed = began.elapsed();
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}

/// Debug builds log each request that holds a connection thread for more than 10 ms of processor time.
#[test]
#[cfg(debug_assertions)]
fn heavy_documents_do_not_hold_a_connection_thread() {
    let server = Server::fresh();
    let request = |service, method, target: &str| Request::new(service, method, target);
    request(Service::Blob, "PUT", "/heavy?restype=container")
        .send(&server)
        .is(201);
    request(Service::Queue, "PUT", "/heavy")
        .send(&server)
        .is(201);
    let list = format!(
        "<BlockList>{}</BlockList>",
        "<Latest>AAAA</Latest>".repeat(50_000)
    );
    request(Service::Blob, "PUT", "/heavy/b?comp=blocklist")
        .body(list)
        .send(&server)
        .is(400);
    let elements = format!("<BlockList>{}</BlockList>", "<a/>".repeat(2_000_000));
    request(Service::Blob, "PUT", "/heavy/b?comp=blocklist")
        .body(elements)
        .send(&server)
        .is(400);
    let message = format!(
        "<QueueMessage><MessageText>{}</MessageText></QueueMessage>",
        "&lt;".repeat(64 << 10)
    );
    request(Service::Queue, "POST", "/heavy/messages")
        .body(message)
        .send(&server)
        .is(201);
    request(Service::Queue, "POST", "/heavy/messages")
        .body(vec![b'<'; 4 * MIB])
        .send(&server)
        .is(413);
    let log = server.log();
    assert!(!log.contains("connection thread was held"), "{log}");
}

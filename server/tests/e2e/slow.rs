//! Clients that stall: they take little memory, do not affect other clients, and are disconnected
//! within a minute.

#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::http::{Connection, Request};
use crate::rights::service_sas;
use crate::server::{Server, Service};

const MIB: usize = 1 << 20;

/// Number of stalled clients of each kind.
const CLIENTS: usize = 150;

/// The budget for bodies, and 100 KiB for each connection. 65 MiB in all were observed.
const MEMORY_MAX: usize = 40 * MIB + 3 * CLIENTS * (100 << 10);

/// A connection with an incomplete request.
fn stall(server: &Server, bytes: &[u8]) -> TcpStream {
    stall_on(server, Service::Blob, bytes)
}

fn stall_on(server: &Server, service: Service, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports.of(service))).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    // The write may fail: the server stops reading when it waits for memory.
    let _ = stream.write_all(bytes);
    stream
}

/// Number of bytes received before the server closed the connection; `None` if the connection is
/// still open at `until`.
fn sent_before_close(stream: &mut TcpStream, until: Instant) -> Option<usize> {
    let patience = until.saturating_duration_since(Instant::now());
    let patience = patience.max(Duration::from_millis(100));
    stream.set_read_timeout(Some(patience)).unwrap();
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

/// Anonymous memory of the server in bytes.
fn anonymous_bytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    kibibytes.unwrap().parse::<usize>().unwrap() << 10
}

/// Number of files and connections that the server has open.
fn open_files(server: &Server) -> usize {
    let handles = std::fs::read_dir(format!("/proc/{}/fd", server.pid()));
    handles.unwrap().count()
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
    let (before, files) = (anonymous_bytes(&server), open_files(&server));
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
    assert!(held < MEMORY_MAX, "{} MiB", held / MIB);
    let mut neighbour = Connection::open(&server, Service::Blob).unwrap();
    let small = request("HEAD", "/slow/large");
    while began.elapsed() < Duration::from_secs(45) {
        let asked = Instant::now();
        neighbour.send(&small).unwrap().is(200);
        // A request that waits for a stalled client would take 30 seconds.
        assert!(asked.elapsed() < Duration::from_secs(15));
        std::thread::sleep(Duration::from_millis(200));
    }
    // Half a minute of waiting for memory, half a minute for the client, and the time that a busy
    // machine takes to deliver the answer. Without the limits, the connections would stay open for
    // ever.
    let until = began + Duration::from_secs(180);
    // The server may keep sending to a reader that still makes progress.
    while open_files(&server) > files + CLIENTS / 10 {
        assert!(Instant::now() < until, "{} files", open_files(&server));
        std::thread::sleep(Duration::from_millis(200));
    }
    for (what, clients) in [
        ("head", &mut heads),
        ("body", &mut writers),
        ("reading", &mut readers),
    ] {
        for stream in clients {
            let sent = sent_before_close(stream, until);
            assert!(sent.is_some_and(|sent| sent < 32 * MIB), "{what}: {sent:?}");
        }
    }
    // Afterwards the server answers requests for large blobs as before.
    let blob = request("GET", "/slow/large").send(&server);
    assert_eq!(blob.is(200).body.len(), 32 * MIB);
}

/// Pages are rendered as a whole: memory is reserved for each, or it is not rendered.
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
    // Other requests wait until the stalled ones are given up.
    let began = Instant::now();
    page.send(&server).is(200);
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
    readers.clear();
}

/// Large announced bodies that hardly arrive must not hold memory that others need.
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

/// Regression test: uploads over 64 KiB waited for 30 seconds and were refused.
#[test]
fn slow_uploads_with_one_sas_leave_room_for_the_uploads_of_others() {
    let server = Server::fresh();
    Request::new(Service::Blob, "PUT", "/slow?restype=container")
        .send(&server)
        .is(201);
    let put = |name: &str, bytes: usize| {
        Request::new(Service::Blob, "PUT", &format!("/slow/{name}"))
            .header("x-ms-blob-type", "BlockBlob")
            .body(vec![7; bytes])
    };
    let sas = service_sas(Service::Blob, "slow", &[("sr", "c"), ("sp", "w")]).sign();
    let begun = put("held", 8 * MIB).credited(&sas).bytes();
    let begun = &begun[..begun.len() - 8 * MIB + 60_000];
    let held: Vec<TcpStream> = (0..CLIENTS).map(|_| stall(&server, begun)).collect();
    for bytes in [1000, 100_000, MIB, 4 * MIB] {
        put("mine", bytes).send(&server).is(201);
    }
    drop(held);
}

/// More batches than there is memory for at once. Each gets room for its whole body, or waits for
/// the room and holds no memory meanwhile.
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

/// Debug builds log each request that holds a connection thread for more than 40 ms of processor
/// time, and tests fail on such a line: see [`Server`].
#[test]
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
    request(Service::Queue, "POST", "/heavy/messages")
        .body(vec![b'<'; 4 * MIB])
        .send(&server)
        .is(413);
}

#[test]
fn many_long_messages_do_not_hold_a_connection_thread() {
    let server = Server::fresh();
    let request = |method, target: &str| Request::new(Service::Queue, method, target);
    request("PUT", "/heavy").send(&server).is(201);
    let message = format!(
        "<QueueMessage><MessageText>{}</MessageText></QueueMessage>",
        "&lt;".repeat(64 << 10)
    );
    for _ in 0..32 {
        let put = request("POST", "/heavy/messages").body(&*message);
        put.send(&server).is(201);
    }
    for target in ["?peekonly=true&numofmessages=32", "?numofmessages=32"] {
        let messages = request("GET", &format!("/heavy/messages{target}")).send(&server);
        assert!(messages.is(200).body.len() > 8 * MIB);
    }
    request("DELETE", "/heavy/messages").send(&server).is(204);
}

#[test]
fn blobs_of_many_parts_do_not_hold_a_connection_thread() {
    let server = Server::fresh();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let request = |method, target: &str| Request::new(Service::Blob, method, target);
    let mut send = |request: Request| connection.send(&request).unwrap();
    send(request("PUT", "/heavy?restype=container")).is(201);
    send(request("PUT", "/heavy/b?comp=block&blockid=AAAA").body([b'x'; 512])).is(201);
    let list = format!(
        "<BlockList>{}</BlockList>",
        "<Latest>AAAA</Latest>".repeat(50_000)
    );
    send(request("PUT", "/heavy/b?comp=blocklist").body(list)).is(201);
    let list = send(request("GET", "/heavy/b?comp=blocklist"));
    assert!(list.is(200).body.len() > MIB);
    let length = send(request("GET", "/heavy/b")).is(200).body.len();
    assert_eq!(length, 50_000 * 512);
    send(request("PUT", "/heavy/log").header("x-ms-blob-type", "AppendBlob")).is(201);
    let mut content = Vec::new();
    for number in 0..1500_u32 {
        let line = format!("{number:0511}\n");
        content.extend_from_slice(line.as_bytes());
        send(request("PUT", "/heavy/log?comp=appendblock").body(line)).is(201);
    }
    assert!(send(request("GET", "/heavy/log")).is(200).body == content);
    let range = request("GET", "/heavy/log").header("Range", "bytes=100-700000");
    assert!(send(range).is(206).body == content[100..=700_000]);
}

#[test]
fn large_batches_do_not_hold_a_connection_thread() {
    let server = Server::fresh();
    Request::new(Service::Blob, "PUT", "/heavy?restype=container")
        .send(&server)
        .is(201);
    Request::new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Heavy"}"#)
        .send(&server)
        .is(201);
    let text = "x".repeat(30_000);
    let transaction: String = (0..100)
        .map(|row| {
            format!(
                "--b\r\nContent-Type: application/http\r\n\r\nPUT http://127.0.0.1/devstoreaccount1/Heavy(PartitionKey='p',RowKey='{row}') \
                 HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{{\"Text\":\"{text}\"}}\r\n"
            )
        })
        .collect();
    Request::new(Service::Table, "POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=a")
        .body(format!(
            "--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{transaction}--b--\r\n--a--\r\n"
        ))
        .send(&server)
        .is(202);
    let page = Request::new(Service::Table, "GET", "/Heavy()").send(&server);
    assert!(page.is(200).body.len() > 2 * MIB);
    let signed = |deletion: Request| deletion;
    // Before the refusal, the signature is compared with those of all forms of the request.
    let badly_signed = |deletion: Request| {
        let deletion = deletion.header("x-ms-client-request-id", &"x".repeat(8000));
        deletion.header("Authorization", "SharedKey devstoreaccount1:AAAA")
    };
    for form in [signed as fn(Request) -> Request, badly_signed] {
        let deletions: String = (0..256)
            .map(|number| {
                let deletion = Request::new(Service::Blob, "DELETE", &format!("/heavy/{number}"));
                let deletion = String::from_utf8(form(deletion).bytes()).unwrap();
                format!(
                    "--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n{deletion}\r\n"
                )
            })
            .collect();
        Request::new(Service::Blob, "POST", "/?comp=batch")
            .header("Content-Type", "multipart/mixed; boundary=b")
            .body(format!("{deletions}--b--\r\n"))
            .send(&server)
            .is(202);
    }
}

/// A change of a container waits for writes to its blobs, and does so on the blocking pool.
#[test]
fn container_changes_during_writes_do_not_block_a_connection_thread() {
    let server = Server::fresh();
    let request = |method, target: &str| Request::new(Service::Blob, method, target);
    request("PUT", "/heavy?restype=container")
        .send(&server)
        .is(201);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let mut connection = Connection::open(&server, Service::Blob).unwrap();
            scope.spawn(move || {
                for _ in 0..50 {
                    let put = request("PUT", &format!("/heavy/{writer}"))
                        .header("x-ms-blob-type", "BlockBlob")
                        .body(vec![7; 100 << 10]);
                    connection.send(&put).unwrap().is(201);
                }
            });
        }
        let mut connection = Connection::open(&server, Service::Blob).unwrap();
        for round in 0..50 {
            let set = request("PUT", "/heavy?restype=container&comp=metadata")
                .header("x-ms-meta-round", &round.to_string());
            connection.send(&set).unwrap().is(200);
        }
    });
}

/// Idle connections are probed, to notice clients that vanished.
#[test]
fn accepted_connections_are_kept_alive() {
    let server = Server::fresh();
    for service in Service::ALL {
        let port = server.ports.of(service);
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let client_port = client.local_addr().unwrap().port();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_kept_alive(port, client_port) {
            assert!(Instant::now() < deadline, "{service:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// True if the timer of the connection between two local ports is that of TCP keep-alive. Source:
/// proc(5), `/proc/net/tcp`.
fn is_kept_alive(local: u16, remote: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[1].ends_with(&format!(":{local:04X}"))
            && fields[2].ends_with(&format!(":{remote:04X}"))
            && fields[5].starts_with("02:")
    })
}

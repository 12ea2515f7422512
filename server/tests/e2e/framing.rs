//! Attacks on the framing of HTTP, and oversized requests: each is answered, and the connection
//! closed.

use crate::http::{Connection, Request, Response};
use crate::server::{Launch, Server, Service};

/// Sends bytes to the Blob service. The refusal must be followed by the end of the connection.
#[track_caller]
fn refused(server: &Server, bytes: &[u8]) -> Response {
    let mut connection = Connection::open(server, Service::Blob).unwrap();
    let answer = connection.send_bytes(bytes, "GET").unwrap();
    assert!(
        connection.is_closed(),
        "the connection stays open after {} to {:?}",
        answer.status,
        String::from_utf8_lossy(bytes)
    );
    assert!(answer.header("x-ms-request-id").is_some(), "{answer:?}");
    assert!(!answer.code().is_empty(), "{answer:?}");
    answer
}

#[test]
fn bodies_of_two_lengths_are_refused() {
    let server = Server::fresh();
    let smuggled = "GET /_lazurite/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let framings = [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Transfer-Encoding: identity, chunked\r\nContent-Length: 5\r\n",
    ];
    for framing in framings {
        let request = format!(
            "PUT /devstoreaccount1/con/b HTTP/1.1\r\nHost: 127.0.0.1\r\n{framing}\r\n0\r\n\r\n{smuggled}"
        );
        refused(&server, request.as_bytes()).is(400);
    }
}

#[test]
fn heads_that_are_read_differently_by_others_are_refused() {
    let server = Server::fresh();
    let heads: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-meta-a: b\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-meta-a: b\rc\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-meta-a: b\0c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ];
    for head in heads {
        refused(&server, head).is(400);
    }
}

#[test]
fn heads_without_measure_are_refused() {
    let server = Server::fresh();
    let header = format!(
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-meta-a: {}\r\n\r\n",
        "a".repeat(64 * 1024)
    );
    refused(&server, header.as_bytes()).is(431);
    let headers: String = (0..6000)
        .map(|n| format!("x-ms-meta-{n}: {n}\r\n"))
        .collect();
    refused(
        &server,
        format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n").as_bytes(),
    )
    .is(431);
    let target = format!(
        "GET /{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "a".repeat(128 * 1024)
    );
    refused(&server, target.as_bytes()).is(414);
}

#[test]
fn a_head_that_cannot_be_read_has_a_line_in_the_log() {
    let mut server = Server::fresh();
    let answer = refused(&server, b"GET / HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!((answer.status, &*answer.code()), (400, "InvalidInput"));
    let line = server.wait_for_line("InvalidInput");
    assert!(line.contains("\"- * HTTP/1.1\" 400 - "), "{line}");
    // The response to an earlier request on the connection is not changed.
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let health = "GET /_lazurite/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HTTP/3.0\r\n\r\n";
    let answer = connection.send_bytes(health.as_bytes(), "GET");
    answer.unwrap().is(200);
    let answer = connection.read("GET").unwrap();
    assert_eq!((answer.status, &*answer.code()), (400, "InvalidInput"));
}

#[test]
fn a_request_of_http_1_0_needs_no_host() {
    let server = Server::fresh();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let check = b"GET /_lazurite/health HTTP/1.0\r\n\r\n";
    connection.send_bytes(check, "GET").unwrap().is(200);
    assert!(connection.is_closed());
}

#[test]
fn a_declared_length_costs_nothing_before_authentication() {
    let server = Server::fresh();
    let head = "PUT /devstoreaccount1/con/b HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2026-10-06\r\nx-ms-blob-type: BlockBlob\r\n\
                Content-Length: 4294967296\r\nAuthorization: SharedKey devstoreaccount1:AAAA\r\nx-ms-date: Sat, 01 Jan 2000 00:00:00 GMT\r\n\r\n";
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    connection
        .send_bytes(head.as_bytes(), "PUT")
        .unwrap()
        .is(403);
}

#[test]
fn browsers_are_kept_out() {
    let server = Server::fresh();
    let list = || Request::new(Service::Blob, "GET", "/?comp=list");
    let page = || list().header("Accept-Language", "en");
    page().header("Host", "evil.example").send(&server).is(403);
    page()
        .header("Host", "evil.example:10000")
        .send(&server)
        .is(403);
    list()
        .header("Host", "[::1].evil.example")
        .send(&server)
        .is(400);
    for host in [
        "localhost",
        "127.0.0.1:10000",
        "[::1]:10000",
        "devstoreaccount1.blob.localhost",
        "host.docker.internal",
    ] {
        // The path has the account only if the host name does not have it.
        let list = if host.starts_with("devstoreaccount1.") {
            Request::exactly(Service::Blob, "GET", "/?comp=list")
        } else {
            list()
        };
        list.header("Host", host).send(&server).is(200);
    }
    let write = || Request::new(Service::Blob, "PUT", "/con?restype=container");
    write()
        .header("Origin", "http://evil.example")
        .send(&server)
        .is(403);
    write()
        .header("Sec-Fetch-Site", "cross-site")
        .send(&server)
        .is(403);
    write().send(&server).is(201);
    let queue = |method, target| Request::new(Service::Queue, method, target);
    queue("PUT", "/framing").send(&server).is(201);
    let message = "<QueueMessage><MessageText>m</MessageText></QueueMessage>";
    queue("POST", "/framing/messages")
        .body(message)
        .send(&server)
        .is(201);
    queue("GET", "/framing/messages?visibilitytimeout=604800")
        .header("Sec-Fetch-Site", "cross-site")
        .send(&server)
        .is(403);
    let peek = || {
        let peek = queue("GET", "/framing/messages?peekonly=true");
        peek.header("Sec-Fetch-Site", "cross-site")
    };
    peek().send(&server).is(403);
    peek()
        .header("Referer", "http://localhost:3000/")
        .send(&server)
        .is(200);
    let taken = queue("GET", "/framing/messages").send(&server);
    assert!(taken.text().contains("<DequeueCount>1<"));
    let preflight = Request::new(Service::Blob, "OPTIONS", "/con")
        .unsigned()
        .header("Origin", "http://evil.example");
    let preflight = preflight
        .header("Access-Control-Request-Method", "PUT")
        .send(&server);
    let message = "CORS not enabled or no matching rule found for this request.";
    preflight.is_error(403, "CorsPreflightFailure", message);
    assert!(
        !preflight
            .headers
            .iter()
            .any(|(name, _)| name.to_lowercase().starts_with("access-control-"))
    );
}

#[test]
fn a_host_may_be_allowed() {
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--allowed-host=storage.example")
        .start();
    let list = Request::new(Service::Blob, "GET", "/?comp=list").header("Accept-Language", "en");
    list.clone()
        .header("Host", "storage.example")
        .send(&server)
        .is(200);
    list.header("Host", "evil.example").send(&server).is(403);
}

#[test]
fn requests_follow_one_another_on_a_connection() {
    let server = Server::fresh();
    for service in Service::ALL {
        let mut connection = Connection::open(&server, service).unwrap();
        for _ in 0..3 {
            connection.send(&list(service)).unwrap().is(200);
        }
    }
}

fn list(service: Service) -> Request {
    let is_table = service == Service::Table;
    Request::new(
        service,
        "GET",
        if is_table { "/Tables" } else { "/?comp=list" },
    )
}

/// A refusal must announce whether its connection closes. If the connection closes unannounced,
/// clients send the next request on it, and report a puzzling error.
#[test]
fn a_refusal_that_leaves_the_body_unread_closes_the_connection_or_keeps_it_as_announced() {
    let server = Server::fresh();
    for service in Service::ALL {
        let refused = |target: &str| Request::new(service, "PUT", target);
        let requests = [
            refused("/?restype=service&comp=properties"),
            refused("/nosuch?comp=acl"),
            refused("/nosuch/thing?comp=nonsense"),
            refused("/nosuch").header("Authorization", "SharedKey devstoreaccount1:AAAA"),
            refused("/nosuch/thing").header("x-ms-version", "nonsense"),
        ];
        for bytes in [10, 10_000, 300_000, 3_000_000] {
            for request in &requests {
                let request = request.clone().body(vec![b'x'; bytes]);
                let mut connection = Connection::open(&server, service).unwrap();
                let answer = connection.send(&request).unwrap();
                assert!(answer.status >= 400, "{answer:?}");
                if answer.header("Connection") == Some("close") {
                    assert!(connection.is_closed());
                    continue;
                }
                let next = connection.send(&list(service));
                let next = next.unwrap_or_else(|error| {
                    panic!("{error} after {bytes} bytes of a body and {answer:?}")
                });
                next.is(200);
            }
        }
    }
}

/// Stores a blob with a metadata name in mixed case, on a connection that has sent `before`, and
/// expects the name back as sent.
#[track_caller]
fn keeps_case(server: &Server, before: &[u8], answers_before: usize) {
    let mut connection = Connection::open(server, Service::Blob).unwrap();
    let put = Request::new(Service::Blob, "PUT", "/framing/b")
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-meta-CaMeL", "1");
    connection.write(&[before, &put.bytes()].concat()).unwrap();
    for _ in 0..answers_before {
        connection.read("PUT").unwrap().is(403);
    }
    connection.read("PUT").unwrap().is(201);
    let head = connection
        .send(&Request::new(Service::Blob, "HEAD", "/framing/b"))
        .unwrap();
    let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("x-ms-meta-camel");
    let (name, _) = head.headers.iter().find(named).unwrap();
    assert_eq!(name, "x-ms-meta-CaMeL");
}

#[test]
fn metadata_keeps_its_case_after_any_requests_on_the_connection() {
    let server = Server::fresh();
    Request::new(Service::Blob, "PUT", "/framing?restype=container")
        .send(&server)
        .is(201);
    let refused = Request::new(Service::Blob, "PUT", "/framing/a")
        .header("Authorization", "SharedKey devstoreaccount1:AAAA")
        .header("x-ms-blob-type", "BlockBlob")
        .body(&b"\r\n\r\nx-ms-meta-camel: 2\r\n\r\n"[..]);
    keeps_case(&server, b"\r\n\r\n", 0);
    keeps_case(&server, &refused.bytes(), 1);
    keeps_case(
        &server,
        &[refused.bytes(), b"\r\n".to_vec(), refused.bytes()].concat(),
        2,
    );
}

#[test]
fn bodies_of_two_lengths_are_refused_behind_other_requests_too() {
    let server = Server::fresh();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let health = "GET /_lazurite/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let put = "PUT /devstoreaccount1/c/b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\
               Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    connection
        .write(format!("{health}\r\n{put}{health}").as_bytes())
        .unwrap();
    connection.read("GET").unwrap().is(200);
    connection.read("PUT").unwrap().is(400);
    assert!(connection.is_closed());
}

//! Checks that our reader of framing and the HTTP library agree on every request that the library
//! serves: on random connections, well-formed and malformed, each request gets the facts of its own
//! head.
//!
//! If the two disagreed where a body ends, a client could pass one request off as part of another.

use crate::connection::HeaderNames;
use crate::connection::framing::RawHead;
use crate::connection::head_stream::HeadStream;
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderMap, HeaderValue};
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::convert::Infallible;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Number of connections, with one to five requests each. A failure prints the seed.
const CASES: u32 = 4096;

const METHODS: [&str; 7] = ["GET", "PUT", "POST", "HEAD", "OPTIONS", "CONNECT", "get"];
const TARGETS: [&str; 5] = ["/", "/a/c/b?x=1", "*", "http://h/a", "/a b"];
const VERSIONS: [&str; 5] = ["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.1 "];
const LINE_ENDS: [&str; 4] = ["\r\n", "\r\n", "\n", "\r\r\n"];
/// Headers that do not affect the framing.
const OTHERS: [&str; 18] = [
    "Host: h",
    "x-ms-meta-One: 1",
    "X-MS-META-Two:2",
    "x-ms-meta-One: again",
    "x-ms-meta-: empty",
    "x-ms-meta",
    "x-ms-meta-space : 1",
    "x-ms-meta-\u{fc}: 1",
    "x-ms-metadata: 1",
    " x-ms-meta-folded: 1",
    "\tfolded",
    ": no name",
    "no colon",
    "Content-Lengths: 3",
    "Transfer-Encodings: chunked",
    "Connection: close",
    "Connection: keep-alive",
    "Expect: 100-continue",
];
/// Headers that determine the framing. `N` is replaced with the length of the body.
const FRAMINGS: [&str; 26] = [
    "",
    "Content-Length: N",
    "Content-Length: N",
    "content-length:N",
    "CONTENT-LENGTH:\t N \t",
    "Content-Length: 0N",
    "Content-Length: +N",
    "Content-Length: -N",
    "Content-Length: 0xN",
    "Content-Length: N, N",
    "Content-Length: N\r\nContent-Length: N",
    "Content-Length: N\r\nContent-Length: 0",
    "Content-Length: 0\r\nContent-Length: N",
    "Content-Length : N",
    "Content-Length:\r\n N",
    "Content-Length:",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked",
    "transfer-encoding:CHUNKED",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Content-Length: N\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: N",
];
/// Pieces of bodies, some of which look like requests.
const PIECES: [&str; 8] = [
    "",
    "\r\n",
    "\r\n\r\n",
    "text",
    "0\r\n\r\n",
    "GET /smuggled HTTP/1.1\r\nx-ms-meta-Smuggled: 1\r\n\r\n",
    "PUT / HTTP/1.1\r\nx-ms-meta-Inner: 1\r\nContent-Length: 400\r\n\r\n",
    "x-ms-meta-Body: 1\r\n",
];
/// Forms of a chunk. `X` is replaced with its length and `D` with its data.
const CHUNKS: [&str; 10] = [
    "X\r\nD\r\n",
    "X\r\nD\r\n",
    "X\r\nD\r\n",
    "0X\r\nD\r\n",
    "X;name=\"value\"\r\nD\r\n",
    "X \r\nD\r\n",
    " X\r\nD\r\n",
    "0xX\r\nD\r\n",
    "X\nD\n",
    "X\r\nD",
];
/// Ends of a chunked body.
const LAST_CHUNKS: [&str; 5] = [
    "0\r\n\r\n",
    "0\r\n\r\n",
    "0\r\nx-ms-meta-Trailer: 1\r\n\r\n",
    "000\r\n\r\n",
    "0\n\n",
];

/// One request as head and body, without the headers that identify it.
fn request() -> impl Strategy<Value = (String, String)> {
    let line = (
        select(&METHODS[..]),
        select(&TARGETS[..]),
        select(&VERSIONS[..]),
    );
    let head = (line, vec(select(&OTHERS[..]), 0..4), select(&FRAMINGS[..]));
    let body = (
        vec(select(&PIECES[..]), 0..3),
        vec(select(&CHUNKS[..]), 3),
        select(&LAST_CHUNKS[..]),
    );
    // Most lines end correctly, so that most requests are served.
    (head, body, select(&LINE_ENDS[..]), 0..8u8, 0..200usize).prop_map(
        |((line, others, framing), (pieces, chunks, last), line_end, rarely, many)| {
            let line_end = if rarely == 0 { line_end } else { "\r\n" };
            let content = pieces.concat();
            let (method, target, version) = line;
            let mut head = format!("{method} {target} {version}{line_end}");
            let framing = framing.replace('N', &content.len().to_string());
            for header in others.iter().copied().chain([framing.as_str()]) {
                if !header.is_empty() {
                    head += header;
                    head += line_end;
                }
            }
            // One head in eight has additional lines, often more than the HTTP library accepts.
            for number in 0..if rarely == 1 { many } else { 0 } {
                head += &format!("x-ms-meta-Many{number}: {number}{line_end}");
            }
            let is_chunked = framing.to_ascii_lowercase().contains("chunked");
            let mut body = content;
            if is_chunked {
                let written = pieces
                    .iter()
                    .zip(&chunks)
                    .filter(|(piece, _)| !piece.is_empty());
                let chunks = written.map(|(piece, chunk)| {
                    let length = format!("{:x}", piece.len());
                    chunk.replace('X', &length).replace('D', piece)
                });
                body = chunks.collect::<String>() + last;
            }
            (head, body)
        },
    )
}

/// The metadata names of a head, as the HTTP library and as our reader report them.
fn names(headers: &HeaderMap, raw: &RawHead) -> [Vec<String>; 2] {
    let served = headers.keys().flat_map(|name| {
        let count = headers.get_all(name).iter().count();
        std::iter::repeat_n(name.as_str().to_owned(), count)
    });
    let more = raw.more_metadata.iter();
    let more = more.map(|(name, _)| name.as_str().to_owned());
    let mut served: Vec<String> = served
        .chain(more)
        .filter(|name| name.starts_with("x-ms-meta-"))
        .collect();
    let read = raw
        .metadata_names
        .iter()
        .map(|name| name.to_ascii_lowercase());
    let mut read: Vec<String> = read.collect();
    served.sort();
    read.sort();
    [served, read]
}

/// Sends bytes over a connection. Returns the metadata names of each request that was served.
async fn serve(sent: &[u8], piece_bytes: usize) -> Vec<[Vec<String>; 2]> {
    let (client, server) = tokio::io::duplex(64);
    let (notes, served) = (HeaderNames::default(), Mutex::new(Vec::new()));
    let answer = service_fn(|request: Request<Incoming>| {
        let raw = notes.take_head();
        served.lock().unwrap().push(names(request.headers(), &raw));
        async move {
            let _ = request.into_body().collect().await;
            let mut response = Response::new(Body::from("answer"));
            if raw.ambiguous_length {
                // Closes the connection as the server does, which refuses such a request.
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let socket = TokioIo::new(HeadStream::new(server, notes.clone(), |_| Vec::new()));
    let connection = hyper::server::conn::http1::Builder::new()
        .half_close(true)
        .serve_connection(socket, answer);
    let (mut answers, mut requests) = tokio::io::split(client);
    let sending = async move {
        for piece in sent.chunks(piece_bytes) {
            if requests.write_all(piece).await.is_err() {
                return;
            }
        }
        let _ = requests.shutdown().await;
    };
    let reading = async move {
        let mut bytes = Vec::new();
        let _ = answers.read_to_end(&mut bytes).await;
    };
    let _ = tokio::join!(connection, sending, reading);
    served.into_inner().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn every_request_that_is_served_has_the_facts_of_its_own_head(
        requests in vec(request(), 1..6),
        piece_bytes in 1..200usize,
    ) {
        let mut sent = Vec::new();
        for (number, (head, body)) in requests.iter().enumerate() {
            sent.extend(head.bytes());
            sent.extend(format!("x-ms-meta-Id{number}: 1\r\n\r\n").bytes());
            sent.extend(body.bytes());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let served = runtime.block_on(serve(&sent, piece_bytes));
        for [served, read] in served {
            prop_assert_eq!(served, read, "{}", String::from_utf8_lossy(&sent));
        }
    }
}

//! Every parser that sees bytes before it is known who sent them, on bytes of any kind: none may panic, and none may take long. Half of
//! the inputs are put together from what requests are made of, so that they get past the first check.

use super::context::{ApiVersion, Arrival, Context, Query, ServiceKind};
use super::framing::{FramingReader, RawHead};
use super::{address, blob, browser, queue, table};
use crate::access_log::redact;
use crate::accounts::Accounts;
use crate::auth;
use crate::codec::{date, multipart};
use axum::http::{HeaderName, HeaderValue, Request};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

/// Inputs of each test. The seed is printed when one fails.
const CASES: u32 = 2048;

/// What requests are made of.
const PIECES: [&str; 60] = [
    "",
    "/",
    "//",
    "?",
    "&",
    "=",
    ";",
    ",",
    ":",
    "%",
    "%2F",
    "%5C",
    "%00",
    "%0A",
    "%ff",
    "+",
    "\\",
    "'",
    "''",
    "(",
    ")",
    "\"",
    "W/",
    "*",
    ".",
    "..",
    "$root",
    "$web",
    "devstoreaccount1",
    "devstoreaccount1-secondary",
    "sv=2022-11-02",
    "sr=b",
    "sr=c",
    "sr=d",
    "sdd=2",
    "sig=AAAA",
    "se=2099-01-01",
    "st=2020-01-01T00:00:00.1234567Z",
    "sp=rwdl",
    "ss=bqt",
    "srt=sco",
    "skoid=a",
    "ske=2099-01-01",
    "srh=a,b",
    "srq=x",
    "comp=list",
    "restype=container",
    "snapshot=2024-01-01T00:00:00.0000000Z",
    "SharedKey ",
    "SharedKeyLite ",
    "Bearer ",
    "eyJhbGciOiJub25lIn0",
    "bytes=0-",
    "localhost",
    "[::1]",
    "PartitionKey='a',RowKey='b'",
    "Tables",
    "é",
    "\u{10ffff}",
    "18446744073709551616",
];

/// Text of any letters, or of pieces of requests.
fn text() -> impl Strategy<Value = String> {
    let pieces = vec(prop::sample::select(&PIECES[..]), 0..24).prop_map(|pieces| pieces.concat());
    prop_oneof![".{0,200}", pieces]
}

fn accounts() -> Accounts {
    Accounts::parse(&format!(
        "other:AAAA;devstoreaccount1:{}",
        crate::accounts::DEVELOPMENT_KEY
    ))
    .unwrap()
}

/// A request as far as the HTTP library lets it pass.
fn context(service: ServiceKind, target: &str, headers: &[(String, String)]) -> Option<Context> {
    let mut request = Request::builder().uri(target).header("host", "127.0.0.1");
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        request = request.header(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
    }
    let (parts, ()) = request.body(()).ok()?.into_parts();
    let arrival = Arrival {
        service,
        now: date::parse_iso8601("2026-01-01T00:00:00Z").unwrap(),
        peer: "10.1.2.3:4".parse().unwrap(),
        secure: true,
        request_id: "id".to_owned(),
    };
    Context::new(&arrival, &accounts(), &parts).ok()
}

/// What is noted of the first heads in a stream, and whether it ends within one.
fn heads(pieces: &[&[u8]]) -> ([RawHead; 4], bool) {
    let mut reader = FramingReader::default();
    pieces.iter().for_each(|piece| reader.read(piece));
    let within = reader.is_within_head();
    ([(); 4].map(|()| reader.take_head()), within)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn framing_is_read_alike_in_pieces_of_any_size(bytes in vec(any::<u8>(), 0..400), text in text(), cut in 0usize..300) {
        let head = format!("PUT /{text} HTTP/1.1\r\nContent-Length: 3\r\nx-ms-meta-A: {text}\r\n\r\nabc");
        for bytes in [&bytes[..], head.as_bytes()] {
            let cut = cut.min(bytes.len());
            let (first, second) = bytes.split_at(cut);
            prop_assert_eq!(heads(&[bytes]), heads(&[first, second]));
        }
    }

    #[test]
    fn targets_hosts_and_credentials_of_any_kind_are_read(
        target in text(),
        query in text(),
        authorization in text(),
        host in text(),
        extra in text(),
    ) {
        let _ = Query::parse(&query).map(|query| {
            let _ = query.contradicted();
            let _ = (query.joined("include"), query.get("sig"));
        });
        let _ = redact(&format!("{target}?{query}"));
        let _ = browser::check_host(&host, &browser_headers(), &[]);
        let _ = blob::website::account_of(&host, &accounts());
        let headers = [
            ("authorization".to_owned(), authorization),
            ("x-ms-date".to_owned(), "Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
            ("x-ms-version".to_owned(), "2022-11-02".to_owned()),
            ("origin".to_owned(), host),
            ("x-ms-copy-source".to_owned(), extra),
        ];
        for service in ServiceKind::ALL {
            for headers in [&headers[1..], &headers[..], &headers[1..2]] {
                let Some(context) = context(service, &format!("/devstoreaccount1/{target}?{query}"), headers) else {
                    continue;
                };
                let _ = address::blob_names(&context);
                let _ = match service {
                    ServiceKind::Blob => blob::logged(&context),
                    ServiceKind::Queue => queue::logged(&context),
                    ServiceKind::Table => table::logged(&context),
                };
                let _ = browser::check_page(&context.headers);
                let _ = browser::check_origin(&context.headers, "127.0.0.1");
                let keys = accounts().keys("devstoreaccount1");
                let sas = auth::sas_of(&context);
                let _ = sas.and_then(|sas| auth::authenticate(&context, &keys, sas, None, true));
            }
        }
    }

    #[test]
    fn dates_versions_and_batches_of_any_kind_are_read(text in text(), bytes in vec(any::<u8>(), 0..300)) {
        let _ = (date::parse_http(&text), date::parse_iso8601(&text), ApiVersion::parse(&text));
        let _ = multipart::read_each(&text, &Bytes::from(bytes));
        let batch = format!("--b\r\n{text}\r\n\r\nPUT {text} HTTP/1.1\r\n{text}\r\n\r\n--b--");
        let batch = Bytes::from(batch);
        for part in multipart::read_each("multipart/mixed; boundary=b", &batch).into_iter().flatten() {
            let _ = (part.1.header("a"), part.1.headers().count());
        }
        let _ = multipart::read("multipart/mixed; boundary=b", &batch);
    }
}

/// What costs most before it is known who asks: many parameters, in all the forms that clients may have signed.
#[test]
fn credentials_cost_little_whatever_is_sent() {
    let query: String = (0..50)
        .map(|number| format!("a{number}=+{}&", "x".repeat(1000)))
        .collect();
    let target = format!("/devstoreaccount1-secondary/c/it's%27%20b?a0=1&{query}");
    let signature = format!("SharedKey devstoreaccount1:{}=", "A".repeat(43));
    let headers = [
        ("authorization", &*signature),
        ("x-ms-date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("content-language", "en"),
        ("content-length", "0"),
        ("x-ms-a-b", "1"),
        ("x-ms-aa", "1"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let context = context(ServiceKind::Blob, &target, &headers).unwrap();
    let keys = accounts().keys("devstoreaccount1");
    let before = auth::hashed_bytes();
    assert!(auth::authenticate(&context, &keys, None, None, false).is_err());
    let hashed = auth::hashed_bytes() - before;
    assert!(hashed < 512 * 1024, "{hashed}");
}

/// Marks a request as a browser's, so that its host name is looked at.
fn browser_headers() -> axum::http::HeaderMap {
    let language = axum::http::HeaderValue::from_static("en");
    axum::http::HeaderMap::from_iter([(axum::http::header::ACCEPT_LANGUAGE, language)])
}

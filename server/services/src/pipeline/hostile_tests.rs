//! Gives random input to all parsers of unauthenticated bytes. No parser may panic. The bytes that
//! are hashed and answered may be at most a few times the bytes that were sent. Half of the inputs
//! are composed of parts of requests, so that they pass the first check.

use crate::browser_guard;
use crate::connection::framing::{FramingReader, RawHead};
use crate::{auth, blob};
use axum::http::{HeaderName, HeaderValue, Request, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::properties::{StaticWebsite, cors};
use lazurite_protocol::request::blob_names;
use lazurite_protocol::request::context::{ApiVersion, Context, Query, RequestOrigin, ServiceKind};
use lazurite_protocol::response::common_headers::CommonHeaders;
use lazurite_protocol::response::error::Failure;
use lazurite_protocol::target::redact;
use lazurite_protocol::{date, multipart, xml};
use proptest::collection::vec;
use proptest::prelude::*;

/// Number of inputs of each test. A failure prints the seed.
const CASES: u32 = 2048;

/// Number of inputs of each test with long inputs.
const LONG_CASES: u32 = 96;

/// Maximum number of bytes hashed and answered for each byte of a request: an account has two keys,
/// and a name two spellings. `WORK_BYTES_FREE` is added for short requests: all their forms are
/// tried.
const WORK_FACTOR_MAX: usize = 4;
const WORK_BYTES_FREE: usize = 512 * 1024;

/// Pieces from which request texts are made.
const PIECES: [&str; 65] = [
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
    "sv=2026-04-06",
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
    "srh=x-ms-date,origin,a",
    ",a",
    "srq=x",
    "srq=sig,sig",
    "x-ms-copy-source,",
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

/// Pieces of requests, repeated up to half of the maximum size of all headers together.
fn long_text() -> impl Strategy<Value = String> {
    (vec(prop::sample::select(&PIECES[..]), 1..24), 1usize..4096).prop_map(|(pieces, times)| {
        let mut text = pieces.concat().repeat(times);
        text.truncate(text.floor_char_boundary(crate::request::limits::HEADER_BYTES_MAX / 2));
        text
    })
}

/// JSON of any shape, with the names that tokens have.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        text().prop_map(Into::into),
        Just("https://sts.windows.net/".into()),
        Just("https://storage.azure.com".into()),
        Just(1.7e9.into()),
        Just(1.8e9.into()),
    ];
    leaf.prop_recursive(3, 24, 8, |inner| {
        const NAMES: [&str; 8] = ["iss", "aud", "nbf", "iat", "exp", "oid", "tid", "x"];
        let member = (prop::sample::select(&NAMES[..]), inner.clone());
        let members = vec(member, 0..8).prop_map(|members| {
            let members = members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            serde_json::Value::Object(members.collect())
        });
        prop_oneof![vec(inner, 0..4).prop_map(Into::into), members]
    })
}

/// Arbitrary text, or pieces of requests.
fn text() -> impl Strategy<Value = String> {
    let pieces = vec(prop::sample::select(&PIECES[..]), 0..24).prop_map(|pieces| pieces.concat());
    prop_oneof![".{0,200}", pieces]
}

fn accounts() -> Accounts {
    Accounts::parse(&format!(
        "other:AAAA;devstoreaccount1:{}",
        lazurite_protocol::accounts::DEVELOPMENT_KEY
    ))
    .unwrap()
}

fn rules() -> [cors::CorsRule; 1] {
    let words = |text: &str| vec![text.to_owned()];
    [cors::CorsRule {
        allowed_origins: words("https://*.example"),
        allowed_methods: words("GET"),
        allowed_headers: words("x-ms-meta-*"),
        exposed_headers: words("*"),
        max_age_seconds: 5,
    }]
}

/// Runs everything that reads a request before it is authenticated. Returns the number of bytes of
/// the refusal, 0 if there is none.
fn read(context: &Context) -> usize {
    let _ = blob_names::blob_names(context);
    let _ = crate::pipeline::route::Route::new(context).facts(context);
    let _ = browser_guard::check_page(&context.headers);
    let _ = browser_guard::check_origin(&context.headers, "127.0.0.1");
    let _ = cors::allows(&rules(), context);
    let _ = cors::preflight(&rules(), context);
    let _ = context.query.contradicted();
    let accept = context.headers.get("accept");
    let _ = crate::pipeline::refusal::error_format(context.service, &context.target, accept);
    // Two keys, as of an account whose keys are being rotated.
    let keys = [accounts().keys("devstoreaccount1")[0].clone(), vec![7; 32]];
    let sas = auth::sas_of(context);
    let refused = sas.and_then(|sas| auth::authenticate(context, &keys, sas, None, true));
    refused.err().map_or(0, |failure| bytes_of(&failure))
}

fn bytes_of(failure: &Failure) -> usize {
    let details = failure.details.iter().map(|(_, text)| text.len());
    failure.message.len() + details.sum::<usize>()
}

/// Like [`read`], but also checks that the cost is bounded by the request's `bytes` bytes.
fn read_within_bounds(context: &Context, bytes: usize) {
    let before = lazurite_protocol::auth::signature::hashed_bytes();
    let answered = read(context);
    let work = lazurite_protocol::auth::signature::hashed_bytes() - before + answered;
    let most = WORK_FACTOR_MAX * bytes + WORK_BYTES_FREE;
    assert!(work <= most, "{work} of {most} for {}", context.target);
}

/// A request, if the HTTP library would accept it.
fn context(
    service: ServiceKind,
    target: &str,
    headers: &[(String, String)],
) -> Option<Box<Context>> {
    let mut request = Request::builder().uri(target).header("host", "127.0.0.1");
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        request = request.header(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
    }
    let (parts, ()) = request.body(()).ok()?.into_parts();
    let arrival = RequestOrigin {
        service,
        now: date::parse_iso8601("2026-01-01T00:00:00Z").unwrap(),
        system_now: date::parse_iso8601("2026-01-01T00:00:00Z").unwrap(),
        sas_now: date::parse_iso8601("2026-01-01T00:00:00Z").unwrap(),
        peer: "10.1.2.3:4".parse().unwrap(),
        secure: true,
        request_id: "id".to_owned(),
    };
    Context::new(&arrival, &accounts(), &parts).ok()
}

/// The first heads of a stream as our reader reports them, and whether the stream ends in a head.
fn heads(pieces: &[&[u8]]) -> ([RawHead; 4], bool) {
    let mut reader = FramingReader::default();
    for piece in pieces {
        reader.read(piece);
    }
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
        let _ = Query::parse(&query).map(|query| (query.joined("include"), query.get("sig")));
        let _ = redact(&format!("{target}?{query}"));
        let _ = browser_guard::check_host(&host, &browser_headers(), &[]);
        let _ = blob::website::account_of(&host, &accounts());
        let website = StaticWebsite { index_document: Some(extra.clone()), ..StaticWebsite::default() };
        let _ = blob::website::documents_of(&website, &target);
        let request = Request::builder().header("x-ms-version", &extra).header("x-ms-client-request-id", &query);
        let _ = request.body(()).map(|request| CommonHeaders::of(&request));
        let _ = target.parse::<Uri>().map(|uri| crate::pipeline::refusal::error_format(ServiceKind::Table, &uri, None));
        let headers = [
            ("authorization".to_owned(), authorization),
            ("x-ms-date".to_owned(), "Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
            ("x-ms-version".to_owned(), "2022-11-02".to_owned()),
            ("origin".to_owned(), host.clone()),
            ("access-control-request-method".to_owned(), host),
            ("x-ms-copy-source".to_owned(), extra),
        ];
        let target = format!("/devstoreaccount1/{target}?{query}");
        let bytes = target.len() + headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        for service in ServiceKind::ALL {
            for headers in [&headers[1..], &headers[..], &headers[1..2]] {
                if let Some(context) = context(service, &target, headers) {
                    read_within_bounds(&context, bytes);
                }
            }
        }
    }

    #[test]
    fn tokens_of_any_shape_are_read(header in json(), claims in json(), more in text()) {
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        for token in [
            format!("{}.{}.{more}", part(&header), part(&claims)),
            format!("{}.{}.AAAA", part(&serde_json::json!({})), part(&claims)),
        ] {
            let headers = [("authorization".to_owned(), format!("Bearer {token}"))];
            for service in ServiceKind::ALL {
                if let Some(context) = context(service, "/devstoreaccount1/c", &headers) {
                    read_within_bounds(&context, token.len());
                }
            }
        }
    }

    #[test]
    fn documents_of_any_kind_are_read(text in text(), bytes in vec(any::<u8>(), 0..300)) {
        let list = format!("<L><A>{text}</A>{text}<B/></L>");
        for bytes in [&bytes[..], text.as_bytes(), list.as_bytes()] {
            let _ = xml::parse(bytes);
            let _ = xml::read_list(bytes, "L", |_, _| Ok::<(), xml::Malformed>(()));
            let _ = lazurite_protocol::odata::read_entity(bytes);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(LONG_CASES))]

    #[test]
    fn requests_as_long_as_they_may_be_cost_a_few_times_their_length(
        target in text(),
        query in long_text(),
        authorization in long_text(),
        header in long_text(),
    ) {
        let sas = "sv=2026-04-06&sr=b&sp=r&se=2099-01-01&skoid=a&sktid=b&skt=2020-01-01&ske=2099-01-01&sks=b&skv=2026-04-06&sig=AAAA";
        let headers = [
            ("authorization".to_owned(), format!("SharedKey devstoreaccount1:{authorization}")),
            ("x-ms-date".to_owned(), "Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
            ("a".to_owned(), header),
        ];
        let target = format!("/devstoreaccount1/c/{target}?{sas}&srh={query}");
        let bytes = target.len() + headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        for service in ServiceKind::ALL {
            for headers in [&headers[1..], &headers[..]] {
                if let Some(context) = context(service, &target, headers) {
                    read_within_bounds(&context, bytes);
                }
            }
        }
    }
}

/// Sends the costliest request without authentication: many parameters, in all the forms that
/// clients may have signed.
#[test]
fn credentials_cost_little_for_any_request() {
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
    read_within_bounds(&context, target.len());
}

/// Each name in `srh` or `srq` copies a value into the string to sign. A repeated name must not
/// copy its value again.
#[test]
fn names_that_a_signature_covers_cost_no_more_than_they_hold() {
    let fields = "sv=2026-04-06&sr=b&sp=r&se=2099-01-01&skoid=a&sktid=b&skt=2020-01-01&ske=2099-01-01&sks=b&skv=2026-04-06&sig=AAAA";
    let large = "x".repeat(8000);
    for (list, parameter) in [("srh", String::new()), ("srq", format!("&a={large}"))] {
        for names in [vec!["a"; 2000].join(","), "a".to_owned(), "A,a".to_owned()] {
            let target = format!("/devstoreaccount1/c/b%5Cc?{fields}&{list}={names}{parameter}");
            let headers = [("a".to_owned(), large.clone())];
            let context = context(ServiceKind::Blob, &target, &headers).unwrap();
            read_within_bounds(&context, target.len() + large.len());
        }
    }
}

/// Headers that mark a request as a browser's, so that its host name is checked.
fn browser_headers() -> axum::http::HeaderMap {
    let language = axum::http::HeaderValue::from_static("en");
    axum::http::HeaderMap::from_iter([(axum::http::header::ACCEPT_LANGUAGE, language)])
}

//! Tests of the ring: what is kept, dropped and counted, and which secrets are removed.

use super::*;
use crate::observer::{End, ExchangeFacts, HowEnded, Observer};
use axum::body::Body;
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use lazurite_protocol::request::context::{RequestOrigin, ServiceKind};
use lazurite_protocol::response::error::ClientSigned;
use std::time::{Duration, SystemTime};

fn serve(ring: &Ring, id: u64, target: &str, headers: &[(&str, &str)], status: u16) {
    serve_until(ring, id, target, headers, status, HowEnded::Whole);
}

fn facts(id: u64, target: &str, headers: &HeaderMap, status: u16) -> ExchangeFacts {
    let origin = RequestOrigin {
        request_id: format!("id-{id}"),
        ..lazurite_protocol::testing::origin(ServiceKind::Blob)
    };
    ExchangeFacts {
        account: Some("a".into()),
        operation: "GetBlob",
        status: StatusCode::from_u16(status).unwrap(),
        ..ExchangeFacts::new(origin, Method::GET, target.parse().unwrap(), headers)
    }
}

/// Serves a request whose response ends this way after five bytes.
fn serve_until(
    ring: &Ring,
    id: u64,
    target: &str,
    headers: &[(&str, &str)],
    status: u16,
    how: HowEnded,
) {
    let pairs = headers.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    });
    let headers: HeaderMap = pairs.collect();
    let facts = facts(id, target, &headers, status);
    let mut answer = Response::new(Body::from("hello"));
    *answer.status_mut() = facts.status;
    let end = End {
        received: 0,
        sent: 5,
        took: facts.started.elapsed(),
        how,
    };
    if let Some(mut request) = RequestUnderWay::begun(ring, &facts, &headers)
        && request.answered(ring, &facts, &mut answer)
    {
        request.ended(ring, &facts, &end);
    }
}

#[test]
fn an_answer_that_is_broken_off_is_an_error_and_one_that_its_client_leaves_is_not() {
    let ring = Ring::new(10, usize::MAX);
    serve_until(&ring, 1, "/a/c/b", &[], 200, HowEnded::Disconnected);
    serve_until(&ring, 2, "/a/c/b", &[], 200, HowEnded::BrokenOff);
    serve_until(&ring, 3, "/a/c/b", &[], 404, HowEnded::BrokenOff);
    assert_eq!(ring.totals().errors, 2);
    let is_error = |id: &str| ring.find(id).unwrap().is_error();
    assert_eq!(["id-1", "id-2", "id-3"].map(is_error), [false, true, true]);
    assert_eq!(ring.find("id-1").unwrap().ended, HowEnded::Disconnected);
}

#[test]
fn requests_that_come_too_fast_are_counted_and_their_errors_kept() {
    let ring = Ring::new(100_000, usize::MAX);
    let all = 20 * u64::from(SECOND_RECORDS_MAX);
    for id in 0..all {
        serve(&ring, id, "/a/c/b?sig=x", &[("user-agent", "test")], 200);
    }
    serve(&ring, all, "/a/c/b?sig=x", &[("user-agent", "test")], 404);
    let totals = ring.totals();
    assert_eq!((totals.seen, totals.errors), (all + 1, 1));
    assert_eq!(totals.skipped + totals.kept, all + 1);
    assert!(totals.skipped > 0, "{totals:?}");
    let error = &ring.latest(1, |_| true)[0];
    assert_eq!(
        (error.status, &*error.target()),
        (404, "/a/c/b?sig=REDACTED")
    );
    assert_eq!(error.number, totals.newest);
}

#[test]
fn oldest_requests_are_dropped_and_counted() {
    let ring = Ring::new(3, usize::MAX);
    for id in 1..=5 {
        serve(&ring, id, "/a/c/b", &[], if id == 5 { 404 } else { 200 });
    }
    let totals = ring.totals();
    assert_eq!((totals.seen, totals.errors, totals.kept), (5, 1, 3));
    let batch = ring.after(0, 10, |_| true);
    let numbers: Vec<_> = batch.records.iter().map(|record| record.number).collect();
    assert_eq!((numbers, batch.missed, batch.next), (vec![3, 4, 5], 2, 5));
    let batch = ring.after(4, 10, |_| true);
    assert_eq!((batch.records.len(), batch.missed, batch.next), (1, 0, 5));
    assert_eq!(ring.after(5, 10, |_| true).next, 5);
    assert_eq!(ring.after(u64::MAX, 10, |_| true).next, 5);
    assert_eq!(ring.after(0, 2, |_| true).next, 4);
    assert!(ring.find("id-2").is_none());
    assert_eq!(ring.find("id-4").unwrap().response_bytes, 5);
    assert_eq!(ring.latest_errors(9, |_| true)[0].number, 5);
}

#[test]
fn a_busy_resource_leaves_the_last_requests_of_others() {
    let ring = Ring::new(100, usize::MAX);
    for id in 0..30 {
        serve(&ring, id, "/a/quiet/b?x=1", &[], 200);
    }
    for id in 30..35 {
        serve(&ring, id, "/a/Rare(PartitionKey='p',RowKey='r')", &[], 404);
    }
    for id in 35..500 {
        let target = if id % 2 == 0 {
            "/a/busy"
        } else {
            "/a?comp=list"
        };
        serve(&ring, id, target, &[], 200);
    }
    assert_eq!(ring.totals().kept, 100);
    let ids = |targets: &str| {
        let of = |record: &Record| record.target().starts_with(targets);
        let records = ring.latest(usize::MAX, of);
        let ids = records.iter().rev().map(|record| record.number - 1);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids("/a/quiet"), (10..30).collect::<Vec<_>>());
    assert_eq!(ids("/a/Rare"), (30..35).collect::<Vec<_>>());
    assert!(ring.find("id-10").is_some() && ring.find("id-9").is_none());
    // Read page by page, each dropped record is counted once.
    let (mut after, mut seen, mut missed) = (0, Vec::new(), 0);
    loop {
        let batch = ring.after(after, 7, |_| true);
        seen.extend(batch.records.iter().map(|record| record.number));
        missed += batch.missed;
        if batch.next == after {
            break;
        }
        after = batch.next;
    }
    assert!(seen.is_sorted() && seen.len() == 100, "{seen:?}");
    assert_eq!((after, missed), (500, 400));
}

#[test]
fn resources_that_are_many_keep_a_share_of_the_ring() {
    let ring = Ring::new(100, usize::MAX);
    for id in 0..1000 {
        serve(&ring, id, &format!("/a/c{id}/b"), &[], 200);
    }
    for id in 1000..1500 {
        serve(&ring, id, "/a/busy/b", &[], 200);
    }
    let busy = ring.latest(usize::MAX, |record| record.target() == "/a/busy/b");
    assert!((75..=100).contains(&busy.len()), "{}", busy.len());
    assert_eq!(ring.totals().kept, 100);
    let none = Ring::new(1, usize::MAX);
    for id in 0..3 {
        serve(&none, id, &format!("/a/c{id}/b"), &[], 200);
    }
    assert_eq!((none.totals().kept, none.totals().newest), (1, 3));
}

fn record(account: &str, service: ServiceKind, head: &str) -> Record {
    Record {
        number: 0,
        at: SystemTime::UNIX_EPOCH,
        took: Duration::ZERO,
        service,
        peer: [127, 0, 0, 1].into(),
        secure: false,
        request_id: "id".to_owned(),
        account: Some(account.into()),
        operation: "GetBlob",
        status: 200,
        refusal: None,
        request_bytes: 0,
        declared_bytes: None,
        response_bytes: 0,
        ended: HowEnded::Whole,
        resource: 0,
        head: head.into(),
        bodies: None,
    }
}

#[test]
fn a_resource_is_the_same_however_its_account_is_addressed() {
    use ServiceKind::{Blob, Table};
    let of = |account, service, host: &str, path: &str| {
        let head = format!("GET {path}?x=/\nhost:{host}\n\n");
        record(account, service, &head)
    };
    let photos = of("acct", Blob, "127.0.0.1:1", "/acct/photos/b").resource_number();
    for (host, path, resource) in [
        ("127.0.0.1:1", "/acct/photos/a/b", "photos/a/b"),
        ("127.0.0.1:1", "/acct-secondary/photos", "photos"),
        ("127.0.0.1:1", "/acct--pr-42/photos/b", "photos/b"),
        ("127.0.0.1:1", "/acct//photos//b", "photos//b"),
        ("acct.blob.localhost:1", "/photos/b", "photos/b"),
        ("ACCT-secondary.blob.localhost", "/photos/b", "photos/b"),
        ("acct:1", "/acct/photos/b", "photos/b"),
    ] {
        let record = of("acct", Blob, host, path);
        assert_eq!(record.below_account(path), resource, "{host} {path}");
        assert_eq!(record.resource_number(), photos, "{host} {path}");
    }
    for (service, host, path, resource) in [
        // Containers whose names begin with the account's name.
        (Blob, "acct.blob.localhost:1", "/accts/b", "accts/b"),
        (Blob, "acct.blob.localhost:1", "/acct/b", "acct/b"),
        (Blob, "127.0.0.1:1", "/acct/accts/b", "accts/b"),
        (Blob, "127.0.0.1:1", "/acct-secondary/acct/b", "acct/b"),
        (Blob, "127.0.0.1:1", "/other/photos/b", "other/photos/b"),
        (Table, "127.0.0.1:1", "/acct-secondary/acct/T(x)", "T(x)"),
        (Table, "127.0.0.1:1", "/acct/photos/b", "photos/b"),
    ] {
        let record = of("acct", service, host, path);
        assert_eq!(record.below_account(path), resource, "{host} {path}");
        assert!(![0, photos].contains(&record.resource_number()), "{path}");
    }
    let other = of("other", Blob, "127.0.0.1:1", "/other/photos/b");
    assert_ne!(other.resource_number(), photos);
    for path in ["/acct", "/acct/", "/acct-secondary"] {
        let account = of("acct", Blob, "127.0.0.1:1", path);
        assert_eq!(account.resource_number(), 0, "{path}");
    }
}

#[test]
fn requests_stay_within_the_bytes() {
    let long = || "x".repeat(4000);
    let refusal = |details, mistake: String| {
        Some(Arc::new(WhyRefused {
            code: String::new(),
            reason: String::new(),
            details,
            client_signed: Some(Box::new(ClientSigned {
                text: String::new(),
                mistake: mistake.into(),
            })),
        }))
    };
    let plain = || record("a", ServiceKind::Blob, "GET /a/c/b\n\n");
    let texts: [&dyn Fn() -> Record; 4] = [
        &|| Record {
            account: Some(long().into()),
            ..plain()
        },
        &|| Record {
            refusal: refusal(vec![("", long())], String::new()),
            ..plain()
        },
        &|| Record {
            refusal: refusal(vec![("", String::new()); 100], String::new()),
            ..plain()
        },
        &|| Record {
            refusal: refusal(Vec::new(), long()),
            ..plain()
        },
    ];
    for (field, text) in texts.iter().enumerate() {
        let ring = Ring::new(1000, 64 << 10);
        for _ in 0..100 {
            ring.push(text());
        }
        let kept = ring.totals().kept;
        assert!((1..=16).contains(&kept), "{field}: {kept}");
    }
}

/// Compares the counts of a ring with a recount.
fn check_counts(ring: &Ring) {
    let kept = ring.kept();
    let all: Vec<_> = kept.behind(0).collect();
    let bytes: usize = all.iter().map(|record| record.bytes()).sum();
    assert_eq!((kept.bytes, kept.len()), (bytes, all.len()));
    assert!(all.is_sorted_by(|a, b| a.number < b.number));
    assert_eq!(all.last().map(|newest| newest.number), Some(kept.newest));
    assert!(kept.len() <= ring.count_max && kept.aside.len() <= ring.count_max / ASIDE_SHARE);
    assert!(kept.bytes <= ring.bytes_max || kept.len() == 1);
    let mut of_resource = HashMap::new();
    for record in kept.records.iter().filter(|record| record.resource != 0) {
        *of_resource.entry(record.resource).or_default() += 1;
    }
    assert_eq!(kept.of_resource, of_resource);
    let mut aside = HashMap::<u64, usize>::new();
    for record in kept.aside.range(..) {
        *aside.entry(record.resource).or_default() += 1;
    }
    for (resource, aside) in aside {
        let in_ring = of_resource.get(&resource).copied().unwrap_or(0);
        assert!(aside + in_ring <= OF_RESOURCE_MAX, "{aside} and {in_ring}");
    }
}

#[test]
fn counts_hold_whatever_comes_and_each_resource_keeps_its_newest() {
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    for (count_max, bytes_max) in [(1, 4000), (40, usize::MAX), (40, 20_000), (400, 20_000)] {
        let ring = Ring::new(count_max, bytes_max);
        let mut served: HashMap<u64, Vec<u64>> = HashMap::new();
        for number in 1..=2000 {
            // One container gets as many requests as all others together.
            let name = if next(2) == 0 { 0 } else { next(12) };
            let length = next(3000) as usize;
            let head = format!("GET /a/c{name}/{}\n\n", "x".repeat(length));
            ring.push(record("a", ServiceKind::Blob, &head));
            let resource = ring.kept().records.back().unwrap().resource;
            served.entry(resource).or_default().push(number);
            check_counts(&ring);
        }
        for (resource, served) in served {
            let kept = ring.latest(usize::MAX, |record| record.resource == resource);
            let kept: Vec<_> = kept.iter().rev().map(|record| record.number).collect();
            assert!(served.ends_with(&kept), "{kept:?} of {served:?}");
        }
    }
}

#[test]
fn bodies_of_the_oldest_go_before_requests_do() {
    let ring = Ring::new(100, 64 << 10).with_bodies(8 << 10);
    for id in 0..10 {
        let mut head = facts(id, "/a/c/b", &HeaderMap::new(), 201);
        head.operation = "PutBlob";
        let mut request = RequestUnderWay::begun(&ring, &head, &HeaderMap::new()).unwrap();
        request.request_copy().unwrap().take(&[b'x'; 8 << 10]);
        assert!(request.answered(&ring, &head, &mut Response::new(Body::empty())));
        let end = End {
            received: 0,
            sent: 0,
            took: Duration::ZERO,
            how: HowEnded::Whole,
        };
        request.ended(&ring, &head, &end);
    }
    let records = ring.latest(usize::MAX, |_| true);
    assert_eq!(records.len(), 10);
    let has_body = |record: &Arc<Record>| !record.bodies().unwrap()[0].bytes.is_empty();
    let newest = records.iter().take_while(|record| has_body(record));
    assert_eq!(newest.count(), 4, "half of the bytes");
    assert!(!records[4..].iter().any(has_body));
    assert_eq!(records[9].bodies().unwrap()[0].passed, 8 << 10);
}

#[test]
fn bodies_that_a_client_encrypts_with_its_own_key_are_not_copied() {
    let key = ("x-ms-encryption-key", HeaderValue::from_static("c2VjcmV0"));
    for (bodies, key, is_copied) in [
        (8 << 10, None, true),
        (8 << 10, Some(key.clone()), false),
        (0, None, false),
        (0, Some(key), false),
    ] {
        let ring = Ring::new(10, 64 << 10).with_bodies(bodies);
        let mut sent = HeaderMap::new();
        sent.extend(key.map(|(name, value)| (HeaderName::from_static(name), value)));
        let facts = facts(1, "/a/c/b", &sent, 201);
        let request = RequestUnderWay::begun(&ring, &facts, &sent).unwrap();
        assert_eq!(
            request.request_copy().is_some(),
            is_copied,
            "{bodies} {sent:?}"
        );
    }
}

#[test]
fn ring_stays_within_its_bytes() {
    let ring = Ring::new(1000, 64 << 10);
    let long = "x".repeat(4000);
    for id in 0..100 {
        serve(&ring, id, &format!("/a/c/{long}"), &[], 200);
    }
    assert!(ring.totals().kept < 20);
    assert!(ring.kept().bytes <= 64 << 10);
    let huge = "y".repeat(100_000);
    serve(&ring, 0, "/a", &[("x-huge", &huge)], 200);
    assert_eq!(ring.latest(1, |_| true)[0].header("x-huge"), None);
}

#[test]
fn secrets_do_not_reach_the_ring() {
    let ring = Ring::new(10, usize::MAX);
    let headers = [
        ("authorization", "SharedKey devstoreaccount1:c2VjcmV0"),
        ("cookie", "session=c2VjcmV0"),
        ("x-functions-key", "c2VjcmV0"),
        ("x-api-key", "c2VjcmV0"),
        ("api-key", "c2VjcmV0"),
        ("ocp-apim-subscription-key", "c2VjcmV0"),
        ("x-forwarded-authorization", "Bearer c2VjcmV0"),
        ("x-ms-authorization-auxiliary", "Bearer c2VjcmV0"),
        ("x-ms-encryption-key", "c2VjcmV0"),
        ("x-ms-copy-source", "http://h/a/c/b?sv=1&sig=c2VjcmV0"),
        ("x-ms-copy-source-authorization", "Bearer c2VjcmV0"),
        ("user-agent", "test"),
        ("x-other", "http://h/a?SIG=c2VjcmV0"),
        ("x-encoded", "http%3A%2F%2Fh%2Fa%3Fsig%3Dc2VjcmV0"),
        ("x-ms-meta-s", "AccountName=a;AccountKey=c2VjcmV0==;X=y"),
    ];
    let target = "/a/c/b?sv=1&sig=c2VjcmV0&code=c2VjcmV0&access_token=c2VjcmV0";
    serve(&ring, 1, target, &headers, 200);
    let record = ring.find("id-1").unwrap();
    assert_eq!(
        record.target(),
        "/a/c/b?sv=1&sig=REDACTED&code=REDACTED&access_token=REDACTED"
    );
    let memory = String::from_utf8_lossy(&record.head).into_owned();
    assert!(!memory.contains("c2VjcmV0"), "{memory}");
    assert_eq!(
        record.header("authorization").unwrap(),
        "SharedKey devstoreaccount1:…"
    );
    assert_eq!(record.header("user-agent").unwrap(), "test");
    let shown = format!("{:?} {}", record.headers(), record.target());
    assert!(!shown.contains("c2VjcmV0"), "{shown}");
}

#[test]
fn headers_of_a_request_and_of_its_response_are_kept_apart() {
    let ring = Ring::new(1, usize::MAX);
    let facts = facts(1, "/a/c/b", &HeaderMap::new(), 200);
    let mut sent = HeaderMap::new();
    sent.insert("user-agent", HeaderValue::from_static("test"));
    let mut answer = Response::new(Body::empty());
    let received = HeaderValue::from_static("\"1\"");
    answer.headers_mut().insert("etag", received);
    let mut request = RequestUnderWay::begun(&ring, &facts, &sent).unwrap();
    assert!(request.answered(&ring, &facts, &mut answer));
    let end = End {
        received: 0,
        sent: 0,
        took: Duration::ZERO,
        how: HowEnded::Whole,
    };
    request.ended(&ring, &facts, &end);
    let record = ring.find("id-1").unwrap();
    assert_eq!(record.header("user-agent").as_deref(), Some("test"));
    assert_eq!(record.response_header("etag").as_deref(), Some("\"1\""));
    assert_eq!(record.header("etag"), None);
    assert_eq!(record.response_header("user-agent"), None);
}

#[test]
fn credentials_are_shown_by_their_scheme_and_the_account_of_a_key() {
    for (sent, shown) in [
        ("Bearer c2VjcmV0", "Bearer…"),
        ("Bearer c2:VjcmV0", "Bearer…"),
        ("SharedKeyLite a:c2VjcmV0", "SharedKeyLite a:…"),
        ("SharedKey c2VjcmV0", "SharedKey…"),
        ("c2VjcmV0", "…"),
    ] {
        let ring = Ring::new(1, usize::MAX);
        serve(&ring, 1, "/a/c", &[("authorization", sent)], 403);
        let record = ring.find("id-1").unwrap();
        assert_eq!(record.header("authorization").unwrap(), shown, "{sent}");
    }
}

#[test]
fn credentials_in_a_batch_are_removed_however_they_are_written() {
    for text in [
        "Authorization: SharedKey a:c2VjcmV0",
        "Authorization : SharedKey a:c2VjcmV0",
        " Authorization: SharedKey a:c2VjcmV0",
        "Authorization:\r\n SharedKey a:c2VjcmV0\r\n",
        "Accept: a\rAuthorization: SharedKey a:c2VjcmV0",
        "COOKIE:\n\tc2VjcmV0",
    ] {
        let shown = without_secrets(text);
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
    }
    let harmless = "Accept: a…\r\n folded\r\nX: y…\n  z\r\n";
    assert_eq!(without_secrets(harmless), harmless);
}

#[test]
fn details_of_a_refusal_hold_no_secrets() {
    let text = "Server used following string to sign: 'PUT\n\nx-ms-copy-source:http://h/a/c/b?sv=1&sig=c2VjcmV0\n\
                x-ms-copy-source-authorization:Bearer c2VjcmV0\nx-ms-encryption-key:c2VjcmV0\nx-ms-version:2021-12-02\n/a/a/c/b'.";
    let mut failure = lazurite_protocol::response::error::common::AUTHENTICATION_FAILED
        .with("AuthenticationErrorDetail", text)
        .with("HeaderValue", "/a/c/b?sig=c2VjcmV0");
    failure.client_signed = Some(Box::new(ClientSigned {
        text: text.to_owned(),
        mistake: "A mistake.".into(),
    }));
    let why = format!("{:?}", WhyRefused::of(&failure));
    assert!(!why.contains("c2VjcmV0"), "{why}");
    assert!(why.contains("x-ms-version:2021-12-02"), "{why}");
}

#[test]
fn reason_of_a_refused_signature_is_a_phrase_without_the_signature() {
    let failure = lazurite_protocol::response::error::common::AUTHENTICATION_FAILED.with(
        "AuthenticationErrorDetail",
        "The MAC signature found in the HTTP request 'c2ln' is not the same as any computed signature. Server used following string to \
         sign: 'GET\n\n'.",
    );
    let why = WhyRefused::of(&failure);
    assert_eq!(why.code, "AuthenticationFailed");
    assert_eq!(
        why.reason,
        "The MAC signature found in the HTTP request '…' is not the same as any computed signature."
    );
    assert!(why.details[0].1.contains("GET\n") && !why.details[0].1.contains("c2ln"));
}

#[test]
fn pages_of_the_console_are_not_kept() {
    let ring = Ring::new(10, usize::MAX);
    serve(&ring, 1, "/_lazurite/requests", &[], 200);
    assert_eq!(ring.totals().seen, 0);
    let none = Ring::new(0, usize::MAX);
    serve(&none, 1, "/a/c", &[], 200);
    assert_eq!(none.totals().seen, 0);
}

#[test]
fn values_that_are_not_utf_8_are_read_as_latin_1() {
    let headers = [
        ("x-first", &b"\xe9=1"[..], "\u{e9}=1"),
        ("x-second", "\u{e9}".as_bytes(), "\u{e9}"),
        ("x-third", b"\xe9", "\u{e9}"),
    ];
    let value = |bytes| HeaderValue::from_bytes(bytes).unwrap();
    let map: HeaderMap = headers
        .iter()
        .map(|(name, sent, _)| (HeaderName::from_static(name), value(sent)))
        .collect();
    let shown: Vec<_> = headers
        .iter()
        .map(|(name, _, shown)| ((*name).to_owned(), (*shown).to_owned()))
        .collect();
    let check = |map: &HeaderMap, shown: &[Header]| {
        let mut head = Vec::new();
        push_headers(&mut head, map);
        assert_eq!(head::lines(&text_in(&head)), shown);
    };
    check(&map, &shown);
    let mut with_secret = map;
    with_secret.insert("x-secret", value(b"sig=S3CRET"));
    let cut = ("x-secret".to_owned(), "sig=REDACTED".to_owned());
    check(&with_secret, &[shown, vec![cut]].concat());
}

//! The Blob service by raw requests: the exact XML and headers of its answers, and its answers to
//! input no client would send. Blocks and lists have modules of their own.

mod arrow;
mod batches;
mod blocks;
mod errors;
mod foreign;
mod framing;
mod headers;
mod hosted;
mod keys;
mod lists;
mod query;
mod scopes;
mod sources;
mod tools;

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::http::{Connection, Request, Response, sign};
use crate::server::{ACCOUNT, Server, Service};

const UNMET: &str = "The condition specified using HTTP conditional header(s) is not met.";
pub(super) const INVALID_PARAMETER: &str =
    "Value for one of the query parameters specified in the request URI is invalid.";

pub(super) fn request(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// A server with one empty container named `con`.
pub(super) fn with_container() -> Server {
    let server = Server::fresh();
    request("PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    server
}

pub(super) fn put_blob(name: &str, data: &str) -> Request {
    request("PUT", &format!("/con/{name}"))
        .header("x-ms-blob-type", "BlockBlob")
        .body(data)
}

pub(super) fn put_block(server: &Server, name: &str, id: &str, data: &str) -> Response {
    request(
        "PUT",
        &format!("/con/{name}?comp=block&blockid={}", id.replace('=', "%3D")),
    )
    .body(data)
    .send(server)
}

/// A signed account SAS that is valid for a day. Source: Create an account SAS.
pub(super) fn account_sas(
    permissions: &str,
    services: &str,
    types: &str,
    address: &str,
    protocol: &str,
) -> String {
    sas_for_scope(permissions, services, types, address, protocol, "")
}

/// As [`account_sas`], for writes in an encryption scope.
pub(super) fn sas_for_scope(
    permissions: &str,
    services: &str,
    types: &str,
    address: &str,
    protocol: &str,
    scope: &str,
) -> String {
    let time = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    let times = (permissions, services, types, &*end_of_day(time));
    sas_until(times, address, protocol, scope)
}

/// Like [`sas_for_scope`], with permissions, services, types and an expiry in one argument.
pub(super) fn sas_until(
    (permissions, services, types, expiry): (&str, &str, &str, &str),
    address: &str,
    protocol: &str,
    scope: &str,
) -> String {
    let version = "2022-11-02";
    let text = format!(
        "{ACCOUNT}\n{permissions}\n{services}\n{types}\n\n{expiry}\n{address}\n{protocol}\n{version}\n{scope}\n"
    );
    let signature =
        percent_encoding::utf8_percent_encode(&sign(&text), percent_encoding::NON_ALPHANUMERIC)
            .to_string();
    let scope = match scope {
        "" => String::new(),
        scope => format!("&ses={scope}"),
    };
    format!(
        "sv={version}&ss={services}&srt={types}&sp={permissions}&se={expiry}&sip={address}&spr={protocol}{scope}&sig={signature}"
    )
}

/// The end of a day, in the format of a SAS.
fn end_of_day(time: SystemTime) -> String {
    let date = httpdate::fmt_http_date(time);
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = months.find(&date[8..11]).unwrap() / 3 + 1;
    format!("{}-{month:02}-{}T23:59:59Z", &date[12..16], &date[5..7])
}

#[test]
fn names_breaking_the_rules() {
    let server = Server::fresh();
    for name in ["Upper", "under_score", "-ab", "double--hyphen"] {
        let message = "The specified resource name contains invalid characters.";
        request("PUT", &format!("/{name}?restype=container"))
            .send(&server)
            .is_error(400, "InvalidResourceName", message);
        request("GET", &format!("/{name}?restype=container"))
            .send(&server)
            .is_error(400, "InvalidResourceName", message);
    }
    for name in ["ab", &"a".repeat(64)] {
        let message = "The specified resource name length is not within the permissible limits.";
        request("PUT", &format!("/{name}?restype=container"))
            .send(&server)
            .is_error(400, "OutOfRangeInput", message);
    }
    let missing = "The specified container does not exist.";
    request("GET", "/missing?restype=container")
        .send(&server)
        .is_error(404, "ContainerNotFound", missing);
    let head = request("HEAD", "/missing?restype=container").send(&server);
    head.is(404)
        .has_header("x-ms-error-code", "ContainerNotFound");
    let kind = "An HTTP header that's mandatory for this request is not specified.";
    request("PUT", "/missing/b")
        .send(&server)
        .is_error(400, "MissingRequiredHeader", kind)
        .has_element("HeaderName", "x-ms-blob-type");
}

#[test]
fn put_and_get() {
    let server = with_container();
    let put = put_blob("b", "content")
        .header("Content-Type", "text/plain")
        .header("x-ms-meta-MixedCase", "v")
        .send(&server);
    put.is(201)
        .has_header("Content-MD5", "mgNkuembtIDdJeHwKEyFVQ==")
        .has_header("x-ms-request-server-encrypted", "true");
    let etag = put.header("ETag").unwrap();
    let get = request("GET", "/con/b").send(&server);
    get.is(200)
        .has_header("ETag", etag)
        .has_header("Content-Type", "text/plain")
        .has_header("Content-Length", "7");
    get.has_header("x-ms-blob-type", "BlockBlob")
        .has_header("Accept-Ranges", "bytes")
        .has_header("x-ms-server-encrypted", "true");
    get.has_header("x-ms-lease-state", "available")
        .has_header("x-ms-lease-status", "unlocked");
    assert_eq!(get.text(), "content");
    assert!(
        get.headers
            .iter()
            .any(|(name, value)| name == "x-ms-meta-MixedCase" && value == "v"),
        "{:?}",
        get.headers
    );
    let head = request("HEAD", "/con/b").send(&server);
    head.is(200)
        .has_header("Content-Length", "7")
        .has_header("ETag", etag);
    let missing = request("GET", "/con/missing").send(&server);
    missing
        .is_error(404, "BlobNotFound", "The specified blob does not exist.")
        .has_header("x-ms-error-code", "BlobNotFound");
    missing.has_header("Content-Type", "application/xml");
    request("HEAD", "/con/missing")
        .send(&server)
        .is(404)
        .has_header("x-ms-error-code", "BlobNotFound");
}

#[test]
fn ranges() {
    let server = with_container();
    put_blob("b", "0123456789").send(&server).is(201);
    put_blob("empty", "").send(&server).is(201);
    let get = |range: &str| {
        request("GET", "/con/b")
            .header("Range", range)
            .send(&server)
    };
    for (range, content, header) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=3-", "3456789", "bytes 3-9/10"),
        ("bytes=8-100", "89", "bytes 8-9/10"),
        ("bytes=0-9", "0123456789", "bytes 0-9/10"),
    ] {
        let part = get(range);
        part.is(206).has_header("Content-Range", header);
        assert_eq!(part.text(), content);
        assert!(
            part.header("Content-MD5").is_none(),
            "the MD5 of the whole does not belong to a part"
        );
    }
    for range in [
        "nonsense",
        "bytes=",
        "bytes=x-y",
        "bytes=5-2",
        "chars=0-1",
        "bytes=0-1,3-4",
    ] {
        assert_eq!(get(range).is(200).text(), "0123456789", "{range}");
    }
    let both = request("GET", "/con/b")
        .header("Range", "bytes=0-0")
        .header("x-ms-range", "bytes=9-9")
        .send(&server);
    assert_eq!(both.is(206).text(), "9");
    let beyond = "The range specified is invalid for the current size of the resource.";
    get("bytes=10-")
        .is_error(416, "InvalidRange", beyond)
        .has_header("Content-Range", "bytes */10");
    let empty = request("GET", "/con/empty")
        .header("x-ms-range", "bytes=0-99")
        .send(&server);
    empty
        .is_error(416, "InvalidRange", beyond)
        .has_header("Content-Range", "bytes */0");
    request("GET", "/con/empty")
        .send(&server)
        .is(200)
        .has_header("Content-Length", "0");
}

#[test]
fn conditions() {
    let server = with_container();
    let etag = put_blob("b", "x")
        .send(&server)
        .header("ETag")
        .unwrap()
        .to_string();
    let get = |name: &str, value: &str| request("GET", "/con/b").header(name, value).send(&server);
    let unchanged = get("If-None-Match", &etag);
    unchanged
        .is(304)
        .has_header("x-ms-error-code", "ConditionNotMet")
        .has_header("ETag", &etag);
    get("If-None-Match", &etag.replace('"', "")).is(304);
    get("If-None-Match", &format!("\"0x1\", {etag}")).is(304);
    get("If-Match", &format!("\"0x1\", {etag}")).is(200);
    get("If-Match", "\"0x1\"").is_error(412, "ConditionNotMet", UNMET);
    let unsatisfiable = "The request includes an unsatisfiable condition for this operation.";
    get("If-None-Match", "*").is_error(400, "UnsatisfiableCondition", unsatisfiable);
    let past = "Sat, 01 Jan 2000 00:00:00 GMT";
    get("If-Unmodified-Since", past).is_error(412, "ConditionNotMet", UNMET);
    let either = request("GET", "/con/b")
        .header("If-None-Match", &etag)
        .header("If-Modified-Since", past)
        .send(&server);
    either.is(200);
    let format = "The value for one of the HTTP headers is not in the correct format.";
    get("If-Modified-Since", "yesterday")
        .is_error(400, "InvalidHeaderValue", format)
        .has_element("HeaderValue", "yesterday");
    let exists = "The specified blob already exists.";
    put_blob("b", "y")
        .header("If-None-Match", "*")
        .send(&server)
        .is_error(409, "BlobAlreadyExists", exists);
    put_blob("b", "y")
        .header("If-None-Match", &etag)
        .send(&server)
        .is_error(412, "ConditionNotMet", UNMET);
    put_blob("new", "y")
        .header("If-Match", "*")
        .send(&server)
        .is_error(412, "ConditionNotMet", UNMET);
    let three = put_blob("b", "y")
        .header("If-Match", &etag)
        .header("If-None-Match", "\"0x1\"")
        .send(&server);
    three.is_error(
        400,
        "MultipleConditionHeadersNotSupported",
        "Multiple condition headers are not supported.",
    );
    assert_eq!(request("GET", "/con/b").send(&server).text(), "x");
}

#[test]
fn checksums() {
    let server = with_container();
    let wrong = BASE64.encode([0; 16]);
    let mismatch = "The MD5 value specified in the request did not match with the MD5 value calculated by the server.";
    let refused = put_blob("b", "x")
        .header("Content-MD5", &wrong)
        .send(&server);
    refused
        .is_error(400, "Md5Mismatch", mismatch)
        .has_element("UserSpecifiedMd5", &wrong);
    refused.has_element("ServerCalculatedMd5", "ndTkYSaMgDT1yFZOFVxnpg==");
    let invalid = "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded.";
    put_blob("b", "x")
        .header("Content-MD5", "short")
        .send(&server)
        .is_error(400, "InvalidMd5", invalid);
    request("GET", "/con/b").send(&server).is(404);
}

#[test]
fn metadata_breaking_the_rules() {
    let server = with_container();
    let invalid = "The metadata specified is invalid. It has characters that are not permitted.";
    put_blob("b", "x")
        .header("x-ms-meta-not-a-name", "v")
        .send(&server)
        .is_error(400, "InvalidMetadata", invalid);
    put_blob("b", "x")
        .header("x-ms-meta-1st", "v")
        .send(&server)
        .is_error(400, "InvalidMetadata", invalid);
    let large = "The metadata specified exceeds the maximum permissible limit (8KB).";
    put_blob("b", "x")
        .header("x-ms-meta-a", &"v".repeat(8_192))
        .send(&server)
        .is_error(400, "MetadataTooLarge", large);
    let empty = "The key for one of the metadata key-value pairs is empty.";
    put_blob("b", "x")
        .header("x-ms-meta-", "v")
        .send(&server)
        .is_error(400, "EmptyMetadataKey", empty);
}

#[test]
fn metadata_may_be_in_any_number_of_pairs() {
    let server = with_container();
    let letters = || ('a'..='z').chain(['_']);
    let names = letters().flat_map(|first| {
        let second = letters().map(move |second| format!("{first}{second}"));
        let third = second.clone().map(|name| format!("{name}M"));
        std::iter::once(first.to_string())
            .chain(second)
            .chain(third)
    });
    let names: Vec<String> = names.collect();
    let put = names.iter().fold(put_blob("b", "x"), |put, name| {
        put.header(&format!("x-ms-meta-{name}"), "1")
    });
    put.send(&server).is(201);
    let got = request("GET", "/con/b").send(&server);
    let got = got.is(200).headers.iter();
    let got: std::collections::BTreeSet<_> = got
        .filter_map(|(name, _)| name.strip_prefix("x-ms-meta-"))
        .collect();
    assert_eq!(got, names.iter().map(|name| &**name).collect());
    assert!(got.len() > 1400, "{}", got.len());
}

#[test]
fn a_body_in_chunks_and_a_body_asked_for() {
    let server = with_container();
    let target = "/con/chunked";
    let chunked = request("PUT", target)
        .header("x-ms-blob-type", "BlockBlob")
        .header("Transfer-Encoding", "chunked");
    let mut bytes = chunked.header("Content-Length", "").bytes();
    let head = String::from_utf8(std::mem::take(&mut bytes))
        .unwrap()
        .replace("Content-Length: \r\n", "");
    let body = "3\r\nabc\r\n4;extension=1\r\ndefg\r\n0\r\n\r\n";
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    connection
        .send_bytes(format!("{head}{body}").as_bytes(), "PUT")
        .unwrap()
        .is(201);
    assert_eq!(request("GET", target).send(&server).text(), "abcdefg");

    let expecting = put_blob("expected", "content")
        .header("Expect", "100-continue")
        .bytes();
    let head = expecting.len() - "content".len();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    connection
        .send_bytes(&expecting[..head], "PUT")
        .unwrap()
        .is(100);
    connection
        .send_bytes(&expecting[head..], "PUT")
        .unwrap()
        .is(201);
    let refused = put_blob("expected", "content")
        .header("Expect", "100-continue")
        .header("Authorization", "SharedKey x:y")
        .bytes();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    connection
        .send_bytes(&refused[..refused.len() - "content".len()], "PUT")
        .unwrap()
        .is(403);
}

#[test]
fn a_refusal_comes_before_the_body_is_asked_for() {
    let server = with_container();
    let lease = |target: &str| {
        let acquire = request("PUT", target)
            .header("x-ms-lease-action", "acquire")
            .header("x-ms-lease-duration", "-1");
        acquire.send(&server).is(201);
    };
    put_blob("leased", "x").send(&server).is(201);
    lease("/con/leased?comp=lease");
    put_blob("there", "x").send(&server).is(201);
    let typed = |name: &str, kind: &str| {
        let put = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", kind);
        let put = put.header("x-ms-blob-content-length", "512");
        put.send(&server).is(201);
    };
    typed("sealed", "AppendBlob");
    request("PUT", "/con/sealed?comp=seal")
        .send(&server)
        .is(200);
    typed("pages", "PageBlob");
    let page = |target: &str| {
        let put = request("PUT", target).header("x-ms-page-write", "update");
        put.header("x-ms-range", "bytes=0-511")
    };
    let put = |target: &str| request("PUT", target).header("x-ms-blob-type", "BlockBlob");
    let queue = |target: &str| Request::new(Service::Queue, "POST", target);
    let table = |target: &str| Request::new(Service::Table, "POST", target);
    let (none, lost) = ("ContainerNotFound", "BlobNotFound");
    let (held, unmet) = ("LeaseIdMissing", "ConditionNotMet");
    let rows = [
        (put("/none/b"), 404, none),
        (put("/con/leased"), 412, held),
        (
            put("/con/there").header("If-None-Match", "*"),
            409,
            "BlobAlreadyExists",
        ),
        (put("/con/there").header("If-Match", "\"0x1\""), 412, unmet),
        (put("/none/b?comp=block&blockid=AAAA"), 404, none),
        (put("/con/leased?comp=block&blockid=AAAA"), 412, held),
        (
            put("/con/pages?comp=block&blockid=AAAA"),
            409,
            "InvalidBlobType",
        ),
        (put("/none/b?comp=blocklist"), 404, none),
        (put("/con/leased?comp=blocklist"), 412, held),
        (put("/none/b?comp=appendblock"), 404, none),
        (put("/con/b?comp=appendblock"), 404, lost),
        (put("/con/leased?comp=appendblock"), 409, "InvalidBlobType"),
        (put("/con/sealed?comp=appendblock"), 409, "BlobIsSealed"),
        (page("/none/b?comp=page"), 404, none),
        (page("/con/b?comp=page"), 404, lost),
        (
            page("/con/pages?comp=page").header("If-Match", "\"0x1\""),
            412,
            unmet,
        ),
        (put("/none/b?comp=tags"), 404, none),
        (put("/none?restype=container&comp=acl"), 404, none),
        (request("POST", "/none/b?comp=query"), 404, none),
        (queue("/none/messages"), 404, "QueueNotFound"),
        (
            Request::new(Service::Queue, "PUT", "/none?comp=acl"),
            404,
            "QueueNotFound",
        ),
        (table("/None"), 404, "TableNotFound"),
        (
            Request::new(Service::Table, "PUT", "/None?comp=acl"),
            404,
            "TableNotFound",
        ),
    ];
    for (request, status, code) in rows {
        let request = request.body(vec![0; 512]);
        let (service, what) = (request.service, request.target.clone());
        let mut connection = Connection::open(&server, service).unwrap();
        let refusal = connection.send_awaiting(request).unwrap();
        assert_eq!((refusal.status, &*refusal.code()), (status, code), "{what}");
    }
}

#[test]
fn an_upload_cut_short_leaves_the_old_blob() {
    let server = with_container();
    put_blob("b", "old").send(&server).is(201);
    let bytes = put_blob("b", &"new".repeat(100_000)).bytes();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.ports.blob)).unwrap();
    std::io::Write::write_all(&mut stream, &bytes[..bytes.len() / 2]).unwrap();
    drop(stream);
    assert_eq!(request("GET", "/con/b").send(&server).text(), "old");
}

#[test]
fn checksums_by_crc64() {
    let server = with_container();
    let put = |data: &str, crc64: &str| put_blob("b", data).header("x-ms-content-crc64", crc64);
    put("Hello World", "YeJLfssylmU=").send(&server).is(201);
    put("123456789", "iJh5CoYUi64=").send(&server).is(201);
    let mismatch = put("123456780", "iJh5CoYUi64=").send(&server);
    assert_eq!(
        (mismatch.status, mismatch.code().as_str()),
        (400, "Crc64Mismatch")
    );
    let both = put("123456789", "iJh5CoYUi64=")
        .header("Content-MD5", "JfnnlDI7RTiF9RgfGcbAzw==")
        .send(&server);
    both.is_error(
        400,
        "BothCrc64AndMd5HeaderPresent",
        "Both x-ms-content-crc64 header and Content-MD5 header are present.",
    );
    assert_eq!(request("GET", "/con/b").send(&server).text(), "123456789");
    let block = put_block(&server, "b", "AAAA", "Hello World");
    block
        .is(201)
        .has_header("x-ms-content-crc64", "YeJLfssylmU=");
}

#[test]
fn the_crc64_of_a_range_and_of_a_block_list() {
    let server = with_container();
    put_blob("b", "Hello World!").send(&server).is(201);
    let get = request("GET", "/con/b").header("x-ms-range-get-content-crc64", "true");
    let part = get.clone().header("Range", "bytes=0-10").send(&server);
    part.is(206)
        .has_header("x-ms-content-crc64", "YeJLfssylmU=");
    assert_eq!(
        get.clone().send(&server).status,
        400,
        "it is for ranges only"
    );
    let both = get
        .header("Range", "bytes=0-1")
        .header("x-ms-range-get-content-md5", "true");
    assert_eq!(both.send(&server).status, 400);
    let list = |crc64: &str| {
        let request = request("PUT", "/con/b?comp=blocklist").body("<BlockList/>");
        request.header("x-ms-content-crc64", crc64).send(&server)
    };
    assert_eq!(list("YeJLfssylmU=").code(), "Crc64Mismatch");
    let found = list("AAAAAAAAAAA=");
    let calculated = found.element("ServerCalculatedCrc").unwrap();
    list(&calculated).is(201);
}

/// A structured body with one segment for each piece.
fn in_segments(pieces: &[&[u8]], checksums: &[u64]) -> Vec<u8> {
    let content: usize = pieces.iter().map(|piece| piece.len()).sum();
    let length = 13 + 8 + content + pieces.len() * 18;
    let mut body = vec![1];
    body.extend((length as u64).to_le_bytes());
    body.extend(1_u16.to_le_bytes());
    body.extend((pieces.len() as u16).to_le_bytes());
    for (number, piece) in pieces.iter().enumerate() {
        body.extend((number as u16 + 1).to_le_bytes());
        body.extend((piece.len() as u64).to_le_bytes());
        body.extend(*piece);
        body.extend(checksums[number].to_le_bytes());
    }
    body.extend(checksums[pieces.len()].to_le_bytes());
    body
}

#[test]
fn structured_bodies_both_ways() {
    const FORM: &str = "XSM/1.0; properties=crc64";
    // The checksums of "Hello World", "123456789" and their concatenation are known; so is that of
    // no bytes.
    let (hello, digits) = (0x6596_32CB_7E4B_E261, 0xAE8B_1486_0A79_9888);
    let server = with_container();
    let put = |name: &str, body: Vec<u8>, length: usize| {
        let request = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", "BlockBlob");
        let request = request.header("x-ms-structured-body", FORM);
        request
            .header("x-ms-structured-content-length", &length.to_string())
            .body(body)
            .send(&server)
    };
    put("b", in_segments(&[b"Hello World"], &[hello, hello]), 11)
        .is(201)
        .has_header("x-ms-structured-body", FORM);
    put("none", in_segments(&[b""], &[0, 0]), 0).is(201);
    let wrong = put("b", in_segments(&[b"Hello world"], &[hello, hello]), 11);
    wrong.is(400).has_element("Code", "Crc64Mismatch");
    assert_eq!(
        put("b", in_segments(&[b"Hello World"], &[hello, digits]), 11).code(),
        "Crc64Mismatch"
    );
    assert_eq!(
        put("b", in_segments(&[b"Hello World"], &[hello, hello]), 12).code(),
        "InvalidInput"
    );
    assert_eq!(request("GET", "/con/b").send(&server).text(), "Hello World");

    let get =
        |name: &str| request("GET", &format!("/con/{name}")).header("x-ms-structured-body", FORM);
    let found = get("b").send(&server);
    found
        .is(200)
        .has_header("x-ms-structured-body", FORM)
        .has_header("x-ms-structured-content-length", "11");
    assert_eq!(found.body, in_segments(&[b"Hello World"], &[hello, hello]));
    assert_eq!(get("none").send(&server).body, in_segments(&[b""], &[0, 0]));
    put_blob("digits", "xx123456789xx").send(&server).is(201);
    let part = get("digits").header("Range", "bytes=2-10").send(&server);
    part.is(206).has_header("Content-Range", "bytes 2-10/13");
    assert_eq!(part.body, in_segments(&[b"123456789"], &[digits, digits]));
    let other = request("GET", "/con/b")
        .header("x-ms-structured-body", "XSM/2.0")
        .send(&server);
    assert_eq!(other.code(), "InvalidHeaderValue");
}

#[test]
fn a_long_structured_body_passes_in_segments_of_four_mebibytes() {
    let server = with_container();
    let content: Vec<u8> = (0..9 << 20).map(|at: u32| (at / 7) as u8).collect();
    request("PUT", "/con/long")
        .header("x-ms-blob-type", "BlockBlob")
        .body(content.clone())
        .send(&server)
        .is(201);
    let get =
        request("GET", "/con/long").header("x-ms-structured-body", "XSM/1.0; properties=crc64");
    let body = get.send(&server).body;
    assert_eq!(body.len(), content.len() + 13 + 8 + 3 * 18);
    let put = request("PUT", "/con/again?comp=block&blockid=AAAA")
        .header("x-ms-structured-body", "XSM/1.0; properties=crc64");
    let put = put.header("x-ms-structured-content-length", &content.len().to_string());
    put.body(body).send(&server).is(201);
    request("PUT", "/con/again?comp=blocklist")
        .body("<BlockList><Latest>AAAA</Latest></BlockList>")
        .send(&server)
        .is(201);
    assert!(request("GET", "/con/again").send(&server).body == content);
}

#[test]
fn the_md5_of_a_range() {
    let server = with_container();
    put_blob("b", "0123456789").send(&server).is(201);
    let get = request("GET", "/con/b").header("x-ms-range-get-content-md5", "true");
    let part = get.clone().header("Range", "bytes=0-0").send(&server);
    part.is(206)
        .has_header("Content-MD5", "z80ghJXVZe9m59/5+Ydk2g==")
        .has_header("x-ms-blob-content-md5", "eB5eJF1ptWaXm4bijSPyxw==");
    assert_eq!(get.send(&server).status, 400, "it is for ranges only");
}

#[test]
fn requests_that_mean_nothing() {
    let server = with_container();
    let verb = "The resource doesn't support the specified HTTP verb.";
    for target in ["/con/b", "/con?restype=container"] {
        let refused = request("POST", target).send(&server);
        refused.is_error(405, "UnsupportedHttpVerb", verb);
    }
    for target in [
        "/?comp=list&marker=nonsense",
        "/?comp=list&include=nonsense",
        "/?comp=list&include=metadata,nonsense",
        "/con?restype=container&comp=list&include=metadata,nonsense",
        "/con?restype=container&comp=list&marker=nonsense",
        "/con/b?comp=blocklist&blocklisttype=nonsense",
        "/con/b?comp=nonsense",
    ] {
        let refused = request("GET", target).send(&server);
        refused.is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
    }
    let uri = "The requested URI does not represent any resource on the server.";
    for name in ["%FF%FE", "%2E%2E", "a/../b"] {
        put_blob(name, "x")
            .send(&server)
            .is_error(400, "InvalidUri", uri);
    }
    let header = "The value for one of the HTTP headers is not in the correct format.";
    let kind = request("PUT", "/con/b")
        .header("x-ms-blob-type", "Nonsense")
        .body("x");
    kind.send(&server)
        .is_error(400, "InvalidHeaderValue", header);
    let access = request("PUT", "/new?restype=container").header("x-ms-blob-public-access", "all");
    access
        .send(&server)
        .is_error(400, "InvalidHeaderValue", header);
    let missing = "A query parameter that's mandatory for this request is not specified.";
    let block = request("PUT", "/con/b?comp=block").body("x").send(&server);
    block.is_error(400, "MissingRequiredQueryParameter", missing);
}

/// A resource type that does not fit the path, or a verb that does not fit the resource, must not
/// lead to another operation.
#[test]
fn an_operation_on_the_account_is_not_mistaken_for_one_on_a_blob() {
    let server = with_container();
    put_blob("b", "kept").send(&server).is(201);
    let verb = "The resource doesn't support the specified HTTP verb.";
    for path in ["/", "/con", "/con/b"] {
        let target = format!("{path}?restype=account&comp=properties");
        for method in ["DELETE", "PUT", "POST"] {
            let refused = request(method, &target).send(&server);
            refused.is_error(405, "UnsupportedHttpVerb", verb);
        }
        for method in ["GET", "HEAD"] {
            let answer = request(method, &target).send(&server);
            answer.is(200).has_header("x-ms-account-kind", "StorageV2");
        }
    }
    let of_container = |method: &str, path: &str| {
        let request = request(method, &format!("{path}?restype=container"));
        request.header("x-ms-blob-type", "BlockBlob").send(&server)
    };
    for (method, path) in [
        ("GET", "/con/b"),
        ("PUT", "/con/b"),
        ("PUT", "/con/new"),
        ("DELETE", "/con/b"),
    ] {
        let refused = of_container(method, path);
        refused.is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
    }
    let kept = request("GET", "/con/b").send(&server);
    assert_eq!(kept.is(200).text(), "kept");
    request("HEAD", "/con/new").send(&server).is(404);
    let website = |method: &str, restype: &str| {
        request(method, &format!("/$web?restype={restype}")).send(&server)
    };
    website("PUT", "container").is(201);
    let refused = website("DELETE", "service");
    refused.is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
    website("HEAD", "container").is(200);
}

/// Unsupported features are refused by their names, and change nothing.
#[test]
fn unsupported_features_are_named() {
    let server = with_container();
    put_blob("b", "x").send(&server).is(201);
    let blob = |method: &str, parameters: &str| request(method, &format!("/con/b{parameters}"));
    let cases = [
        (
            blob("PUT", "").header("x-ms-copy-source", "http://127.0.0.1/x"),
            "another server",
        ),
        (
            blob("PUT", "?comp=block&blockid=AAAA")
                .header("x-ms-copy-source", "http://127.0.0.1/x"),
            "another server",
        ),
    ];
    for (request, name) in cases {
        let refused = request.send(&server);
        refused.is(501);
        assert_eq!(refused.code(), "NotImplemented", "{name}");
        let message = refused.message().to_lowercase();
        assert!(
            message.contains(name) && message.contains("not supported"),
            "{name}: {message}"
        );
    }
    let found = request("GET", "/con/b").send(&server);
    assert_eq!(found.is(200).text(), "x");
}

#[test]
fn operations_with_the_id_of_no_lease_are_refused() {
    let server = with_container();
    put_blob("b", "x").send(&server).is(201);
    let lease = "5974b586-0df3-4e2d-ad0c-18e3892bfca2";
    let refused = put_blob("b", "y")
        .header("x-ms-lease-id", lease)
        .send(&server);
    let message = "There is currently no lease on the blob.";
    refused.is_error(412, "LeaseNotPresentWithBlobOperation", message);
    let refused = request("DELETE", "/con?restype=container").header("x-ms-lease-id", lease);
    let message = "There is currently no lease on the container.";
    refused
        .send(&server)
        .is_error(412, "LeaseNotPresentWithContainerOperation", message);
}

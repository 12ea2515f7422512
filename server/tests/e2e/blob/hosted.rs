//! Responses that recordings of the hosted service and public reports show.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{account_sas, put_blob, put_block, request, with_container};
use crate::http::{Request, Response};
use crate::server::{ACCOUNT, Launch, Server, Service};

const LEASE: &str = "5974b586-0df3-4e2d-ad0c-18e3892bfca2";
const UNMET_TIER: &str =
    "The condition specified using access tier change time conditional header(s) is not met.";

/// A server that keeps versions, with one empty container named `con`.
fn with_versions(location: &Path) -> Server {
    let launch = Launch::on(location).argument("--blob-versioning");
    let server = launch.start();
    request("PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    server
}

fn retain_deleted(server: &Server) {
    let retention = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled>\
        <Days>1</Days></DeleteRetentionPolicy></StorageServiceProperties>";
    let properties = request("PUT", "/?restype=service&comp=properties");
    properties.body(retention).send(server).is(202);
}

fn version_of(response: &Response) -> String {
    response.header("x-ms-version-id").unwrap().to_owned()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn url(server: &Server, path: &str) -> String {
    format!("http://127.0.0.1:{}/{ACCOUNT}/{path}", server.ports.blob)
}

fn readable(server: &Server, path: &str) -> String {
    format!(
        "{}?{}",
        url(server, path),
        account_sas("rt", "b", "o", "", "https,http")
    )
}

#[test]
fn a_search_compares_ten_tags_wherever_it_searches() {
    let server = with_container();
    let tags: Vec<_> = (0..10).map(|index| format!("key{index}=v")).collect();
    let put = put_blob("b", "x").header("x-ms-tags", &tags.join("&"));
    put.send(&server).is(201);
    let find = |scope: &str, searched: &str| {
        let target = format!("/{scope}comp=blobs&where={}", encoded(searched));
        request("GET", &target).send(&server)
    };
    let container = "con?restype=container&";
    let each = |compared: fn(usize) -> String| {
        let all: Vec<_> = (0..10).map(compared).collect();
        all.join(" AND ")
    };
    let values = each(|index| format!("key{index}='v'"));
    let ranges = each(|index| format!("key{index}>'a' AND key{index}<'z'"));
    for (scope, searched) in [
        ("?", &values),
        (container, &values),
        ("?", &format!("{values} AND @container='con'")),
        ("?", &ranges),
        (container, &ranges),
    ] {
        let found = find(scope, searched);
        assert!(
            found.is(200).text().contains("<Name>b</Name>"),
            "{searched}"
        );
    }
    let eleven = format!("{values} AND key10='v'");
    for scope in ["?", container] {
        find(scope, &eleven)
            .is_error(
                400,
                "InvalidQueryParameterValue",
                "Error parsing query: there can be at most 10 unique tags in a query",
            )
            .has_element("QueryParameterName", "where")
            .has_element("QueryParameterValue", &eleven);
        find(scope, "a='1' OR b='2'").is_error(
            400,
            "InvalidQueryParameterValue",
            "Error parsing query at or near character position 7: unexpected 'OR'",
        );
    }
    let both = "key0='v' AND @container='con'";
    find(container, both)
        .is_error(
            400,
            "InvalidQueryParameterValue",
            "Error parsing query: Cannot have container in both uri and query",
        )
        .has_element("QueryParameterValue", both);
    find("none?restype=container&", "key0='v'").is(404);
}

#[test]
fn a_condition_on_tags_may_be_as_long_as_a_header() {
    let server = with_container();
    let put = put_blob("b", "x").header("x-ms-tags", "a=1");
    put.send(&server).is(201);
    let get = |condition: &str| {
        let get = request("GET", "/con/b").header("x-ms-if-tags", condition);
        get.send(&server).status
    };
    assert_eq!(get(&vec!["a = '1'"; 1000].join(" AND ")), 200);
    assert_eq!(get(&vec!["a = '2'"; 1000].join(" OR ")), 412);
    assert_eq!(get(&format!("{} <> 'x'", "k".repeat(143))), 412);
    assert_eq!(get(&format!("a <> '{}'", "v".repeat(300))), 200);
}

#[test]
fn a_deletion_whose_condition_on_the_tier_is_not_met_says_so() {
    let server = with_container();
    put_blob("b", "x").send(&server).is(201);
    let snapshot = request("PUT", "/con/b?comp=snapshot").send(&server);
    let snapshot = snapshot.header("x-ms-snapshot").unwrap().to_owned();
    let tier = request("PUT", "/con/b?comp=tier").header("x-ms-access-tier", "Cool");
    tier.send(&server).is(200);
    let (before, after) = (
        "Fri, 01 Jan 2010 00:00:00 GMT",
        "Fri, 01 Jan 2038 00:00:00 GMT",
    );
    for target in ["/con/b".to_owned(), format!("/con/b?snapshot={snapshot}")] {
        for (name, value) in [
            ("x-ms-access-tier-if-unmodified-since", before),
            ("x-ms-access-tier-if-modified-since", after),
        ] {
            let delete = request("DELETE", &target).header(name, value);
            let code = "AccessTierChangeTimeConditionNotMet";
            delete.send(&server).is_error(412, code, UNMET_TIER);
        }
    }
    let delete = request("DELETE", "/con/b").header("x-ms-delete-snapshots", "include");
    let met = delete.header("x-ms-access-tier-if-modified-since", before);
    met.send(&server).is(202);
}

#[test]
fn undelete_of_a_blob_that_is_a_version_changes_nothing() {
    let location = tempfile::TempDir::new().unwrap();
    let server = with_versions(location.path());
    retain_deleted(&server);
    put_blob("b", "x").send(&server).is(201);
    request("DELETE", "/con/b").send(&server).is(202);
    let list = || {
        let target = "/con?restype=container&comp=list&include=versions,deleted";
        request("GET", target).send(&server).text()
    };
    let before = list();
    let undelete = |name: &str| {
        let target = format!("/con/{name}?comp=undelete");
        request("PUT", &target).send(&server)
    };
    undelete("b").is(200);
    assert_eq!(list(), before);
    request("HEAD", "/con/b").send(&server).is(404);
    assert_eq!(undelete("never").is(404).code(), "BlobNotFound");
}

/// A request for each operation that creates a blob.
fn creations(server: &Server) -> Vec<(&'static str, Request)> {
    let source = readable(server, "con/source");
    let put = |target: &str| request("PUT", target);
    let list = "<BlockList><Uncommitted>AAAA</Uncommitted></BlockList>";
    let copy = || put("/con/b").header("x-ms-copy-source", &source);
    vec![
        ("Put Blob", put_blob("b", "y")),
        (
            "Put Blob, append",
            put("/con/b").header("x-ms-blob-type", "AppendBlob"),
        ),
        (
            "Put Blob, page",
            put("/con/b")
                .header("x-ms-blob-type", "PageBlob")
                .header("x-ms-blob-content-length", "512"),
        ),
        ("Put Block List", put("/con/b?comp=blocklist").body(list)),
        ("Copy Blob", copy()),
        (
            "Copy Blob From URL",
            copy().header("x-ms-requires-sync", "true"),
        ),
        (
            "Put Blob From URL",
            copy().header("x-ms-blob-type", "BlockBlob"),
        ),
    ]
}

#[test]
fn a_lease_is_looked_at_before_the_existence_of_its_blob() {
    let server = with_container();
    for name in ["b", "source"] {
        put_blob(name, "x").send(&server).is(201);
    }
    let creations = creations(&server);
    let exists = |request: Request| request.header("If-None-Match", "*").send(&server);
    for (what, creation) in &creations {
        put_block(&server, "b", "AAAA", "y").is(201);
        let refused = exists(creation.clone());
        assert_eq!(
            (refused.status, refused.code()),
            (409, "BlobAlreadyExists".into()),
            "{what}"
        );
    }
    let lease = request("PUT", "/con/b?comp=lease")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1")
        .header("x-ms-proposed-lease-id", LEASE);
    lease.send(&server).is(201);
    let other = LEASE.replace('5', "6");
    for (what, creation) in &creations {
        let refused = exists(creation.clone());
        assert_eq!(
            (refused.status, refused.code()),
            (412, "LeaseIdMissing".into()),
            "{what}"
        );
        let refused = exists(creation.clone().header("x-ms-lease-id", &other));
        let code = "LeaseIdMismatchWithBlobOperation";
        assert_eq!(
            (refused.status, refused.code()),
            (412, code.into()),
            "{what}"
        );
    }
    let waiting = put_blob("b", "y").header("Expect", "100-continue");
    assert_eq!(exists(waiting).is(412).code(), "LeaseIdMissing");
    // The holder of the lease may overwrite the blob, but not with permission to create alone.
    let create_only = account_sas("ct", "b", "o", "", "https,http");
    let held = || put_blob("b", "z").header("x-ms-lease-id", LEASE);
    for refused in [
        exists(put_blob("b", "z").credited(&create_only)),
        exists(held().credited(&create_only)),
        held().credited(&create_only).send(&server),
    ] {
        assert_eq!(refused.is(403).code(), "UnauthorizedBlobOverwrite");
    }
    assert_eq!(request("GET", "/con/b").send(&server).text(), "x");
    exists(held()).is(201);
    assert_eq!(request("GET", "/con/b").send(&server).text(), "z");
}

/// A request for each operation that accepts metadata.
fn with_metadata(server: &Server) -> Vec<(&'static str, Request)> {
    let queue = |target: &str| Request::new(Service::Queue, "PUT", target);
    let mut requests = creations(server);
    requests.extend([
        ("Set Blob Metadata", request("PUT", "/con/b?comp=metadata")),
        ("Snapshot Blob", request("PUT", "/con/b?comp=snapshot")),
        ("Create Container", request("PUT", "/new?restype=container")),
        (
            "Set Container Metadata",
            request("PUT", "/con?restype=container&comp=metadata"),
        ),
        ("Create Queue", queue("/new")),
        ("Set Queue Metadata", queue("/queue?comp=metadata")),
    ]);
    requests
}

#[test]
fn metadata_that_is_not_ascii_is_refused_by_every_operation() {
    let server = with_container();
    for name in ["b", "source"] {
        put_blob(name, "x").send(&server).is(201);
    }
    Request::new(Service::Queue, "PUT", "/queue")
        .send(&server)
        .is(201);
    let message = "The metadata specified is invalid. It has characters that are not permitted.";
    for (what, request) in with_metadata(&server) {
        for value in ["ñ", "a\u{80}", "日本"] {
            let refused = request
                .clone()
                .header("x-ms-meta-name", value)
                .send(&server);
            assert_eq!(refused.status, 400, "{what}: {}", refused.text());
            refused.is_error(400, "InvalidMetadata", message);
        }
    }
    let latin = put_blob("b", "y").header("x-ms-meta-name", "@@");
    assert!(sent_raw(&server, &latin, b"@@", b"\xf1").starts_with(b"HTTP/1.1 400"));
    let read = request("GET", "/con/b").send(&server);
    assert_eq!(read.header("x-ms-meta-name"), None);
}

/// Sends a request with one part replaced, and returns the response as bytes.
fn sent_raw(server: &Server, request: &Request, part: &[u8], by: &[u8]) -> Vec<u8> {
    let sas = account_sas("rcwl", "b", "co", "", "https,http");
    let request = request.clone().credited(&sas).header("Connection", "close");
    let bytes = request.bytes();
    let at = bytes.windows(part.len()).position(|window| window == part);
    let at = at.unwrap();
    let bytes = [&bytes[..at], by, &bytes[at + part.len()..]].concat();
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports.blob)).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    response
}

#[test]
fn properties_come_back_byte_for_byte() {
    let server = with_container();
    let put = put_blob("b", "x").header("x-ms-blob-content-disposition", "name=@@");
    let get = request("GET", "/con/b");
    let list = request("GET", "/con?restype=container&comp=list");
    for (sent, listed) in [
        (&b"caf\xe9"[..], "café"),
        ("café".as_bytes(), "café"),
        (b"\xff\x80", "\u{ff}"),
    ] {
        assert!(sent_raw(&server, &put, b"@@", sent).starts_with(b"HTTP/1.1 201"));
        let read = sent_raw(&server, &get, b"GET", b"GET");
        let line = [b"\r\ncontent-disposition: name=", sent, b"\r\n"].concat();
        let head = read.to_ascii_lowercase();
        assert!(
            head.windows(line.len()).any(|window| window == line),
            "{}",
            read.escape_ascii()
        );
        let text = list.send(&server).text();
        assert!(text.contains(&format!("name={listed}")), "{text}");
    }
}

#[test]
fn a_missing_snapshot_or_version_that_can_be_restored_says_so() {
    let location = tempfile::TempDir::new().unwrap();
    let server = with_versions(location.path());
    retain_deleted(&server);
    let old = version_of(put_blob("b", "old").send(&server).is(201));
    put_blob("b", "new").send(&server).is(201);
    let snapshot = request("PUT", "/con/b?comp=snapshot").send(&server);
    let snapshot = snapshot.is(201).header("x-ms-snapshot").unwrap().to_owned();
    let states = [format!("versionid={old}"), format!("snapshot={snapshot}")];
    for state in &states {
        let target = format!("/con/b?{state}");
        request("DELETE", &target).send(&server).is(202);
        for (method, comp) in [
            ("HEAD", ""),
            ("GET", ""),
            ("GET", "&comp=metadata"),
            ("GET", "&comp=tags"),
            ("PUT", "&comp=tier"),
            ("DELETE", ""),
        ] {
            let mut again = request(method, &format!("{target}{comp}"));
            if comp == "&comp=tier" {
                again = again.header("x-ms-access-tier", "Cool");
            }
            let missing = again.send(&server);
            assert_eq!(missing.code(), "BlobNotFound", "{method} {comp}");
            missing.is(404).has_header("x-ms-is-soft-deleted", "true");
        }
    }
    let never = "2020-01-01T00:00:00.0000000Z";
    for state in ["versionid", "snapshot"] {
        let missing = request("HEAD", &format!("/con/b?{state}={never}")).send(&server);
        assert_eq!(missing.is(404).header("x-ms-is-soft-deleted"), None);
    }
    request("PUT", "/con/b?comp=undelete").send(&server).is(200);
    for state in &states {
        request("HEAD", &format!("/con/b?{state}"))
            .send(&server)
            .is(200);
    }
}

#[test]
fn a_previous_version_has_no_lease() {
    let location = tempfile::TempDir::new().unwrap();
    let server = with_versions(location.path());
    let old = version_of(put_blob("b", "old").send(&server).is(201));
    let new = version_of(put_blob("b", "new").send(&server).is(201));
    let leases = |method: &str, target: &str| {
        let response = request(method, target).send(&server);
        response.is(200);
        ["x-ms-lease-state", "x-ms-lease-status"]
            .map(|name| response.header(name).map(str::to_owned))
    };
    let available = [Some("available".to_owned()), Some("unlocked".to_owned())];
    for (method, comp) in [("HEAD", ""), ("GET", ""), ("GET", "&comp=metadata")] {
        let previous = format!("/con/b?versionid={old}{comp}");
        assert_eq!(leases(method, &previous), [None, None], "{method} {comp}");
        let current = format!("/con/b?versionid={new}{comp}");
        assert_eq!(leases(method, &current), available, "{method} {comp}");
    }
    let refused = request("DELETE", &format!("/con/b?versionid={new}")).send(&server);
    let message = "The specified operation is not allowed on root blob.";
    refused.is_error(403, "OperationNotAllowedOnRootBlob", message);
}

#[test]
fn the_source_of_a_copy_is_returned_as_it_was_sent() {
    let server = with_container();
    put_blob("source", "x").send(&server).is(201);
    let taken = request("PUT", "/con/source?comp=snapshot").send(&server);
    let moment = taken.header("x-ms-snapshot").unwrap().replace(':', "%3a");
    let sas = account_sas("r", "b", "o", "", "https,http");
    let source = url(&server, "con/source");
    for (sent, returned) in [
        (
            format!("{source}?snapshot={moment}"),
            format!("{source}?snapshot={moment}"),
        ),
        (
            format!("{source}?{sas}&Snapshot={moment}"),
            format!("{source}?Snapshot={moment}"),
        ),
        (format!("{source}?{sas}"), source.clone()),
    ] {
        for requires_sync in ["false", "true"] {
            if requires_sync == "true" && !sent.contains("sig=") {
                continue;
            }
            let copy = request("PUT", "/con/b").header("x-ms-copy-source", &sent);
            let copy = copy.header("x-ms-requires-sync", requires_sync);
            copy.send(&server).is(202);
            let head = request("HEAD", "/con/b").send(&server);
            head.is(200).has_header("x-ms-copy-source", &returned);
            let list = "/con?restype=container&comp=list&include=copy";
            let listed = request("GET", list).send(&server);
            listed.has_element("CopySource", &returned);
        }
    }
}

#[test]
fn only_block_blobs_are_copied_from_a_url() {
    let location = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--allow-copy-from=127.0.0.1");
    let server = launch.start();
    let other = with_container();
    request("PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    let message = "The copy source must be a block blob.";
    for owner in [&server, &other] {
        for (name, blob_type) in [("append", "AppendBlob"), ("page", "PageBlob")] {
            let put = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", blob_type);
            let put = put.header("x-ms-blob-content-length", "512");
            put.send(owner).is(201);
            let source = readable(owner, &format!("con/{name}"));
            let copy = request("PUT", "/con/b").header("x-ms-copy-source", &source);
            let copy = copy.header("x-ms-requires-sync", "true").send(&server);
            copy.is_error(409, "CannotVerifyCopySource", message);
        }
    }
    request("HEAD", "/con/b").send(&server).is(404);
}

#[test]
fn an_incremental_copy_is_pending_in_its_response_and_done_for_readers() {
    let server = with_container();
    let put = request("PUT", "/con/source").header("x-ms-blob-type", "PageBlob");
    put.header("x-ms-blob-content-length", "512")
        .send(&server)
        .is(201);
    let taken = request("PUT", "/con/source?comp=snapshot").send(&server);
    let moment = taken.header("x-ms-snapshot").unwrap();
    let source = format!("{}?snapshot={moment}", url(&server, "con/source"));
    let copy = request("PUT", "/con/b?comp=incrementalcopy");
    let copy = copy.header("x-ms-copy-source", &source).send(&server);
    copy.is(202).has_header("x-ms-copy-status", "pending");
    let head = request("HEAD", "/con/b").send(&server);
    head.is(200)
        .has_header("x-ms-copy-status", "success")
        .has_header("x-ms-copy-id", copy.header("x-ms-copy-id").unwrap());
}

/// A blob created without content has nothing that the MD5 could be compared with.
#[test]
fn an_md5_of_a_blob_that_is_made_without_content_is_kept_as_given() {
    let server = with_container();
    put_block(&server, "b", "AAAA", "x").is(201);
    for (what, request) in [
        (
            "append",
            request("PUT", "/con/a").header("x-ms-blob-type", "AppendBlob"),
        ),
        (
            "page",
            request("PUT", "/con/p")
                .header("x-ms-blob-type", "PageBlob")
                .header("x-ms-blob-content-length", "512"),
        ),
        (
            "block list",
            request("PUT", "/con/b?comp=blocklist")
                .body("<BlockList><Latest>AAAA</Latest></BlockList>"),
        ),
        (
            "resize",
            request("PUT", "/con/p?comp=properties").header("x-ms-blob-content-length", "1024"),
        ),
    ] {
        let target = request.target().split('?').next().unwrap().to_owned();
        let put = request.header("x-ms-blob-content-md5", "AQIDBA==");
        let put = put.send(&server);
        assert!([200, 201].contains(&put.status), "{what}: {}", put.text());
        let head = Request::exactly(Service::Blob, "HEAD", &target).send(&server);
        head.is(200).has_header("Content-MD5", "AQIDBA==");
    }
}

/// Source: List Containers, List Blobs and List Queues, "Response body".
#[test]
fn listings_before_2013_have_the_url_of_each_resource() {
    let server = with_container();
    put_blob("a%20%C3%A9/b", "x").send(&server).is(201);
    let taken = request("PUT", "/con/a%20%C3%A9/b?comp=snapshot").send(&server);
    let moment = taken.header("x-ms-snapshot").unwrap();
    request("PUT", "/$root?restype=container")
        .send(&server)
        .is(201);
    let at_root = request("PUT", "/top").header("x-ms-blob-type", "BlockBlob");
    at_root.send(&server).is(201);
    Request::new(Service::Queue, "PUT", "/queue")
        .send(&server)
        .is(201);
    let base = server.endpoint(Service::Blob);
    let queues = server.endpoint(Service::Queue);
    let blob = format!("{base}/con/a%20%C3%A9/b");
    let snapshots = "/con?restype=container&comp=list&include=snapshots";
    let cases: [(Service, &str, Vec<String>, Vec<String>); 4] = [
        (
            Service::Blob,
            "/?comp=list",
            vec![
                format!("<EnumerationResults AccountName=\"{base}/\">"),
                format!("<Name>con</Name><Url>{base}/con</Url><Properties>"),
            ],
            vec![format!("<EnumerationResults ServiceEndpoint=\"{base}/\">")],
        ),
        (
            Service::Blob,
            snapshots,
            vec![
                format!("<EnumerationResults ContainerName=\"{base}/con\">"),
                format!("<Name>a é/b</Name><Url>{blob}</Url><Properties>"),
                format!("<Snapshot>{moment}</Snapshot><Url>{blob}?snapshot={moment}</Url>"),
            ],
            vec![format!(
                "ServiceEndpoint=\"{base}/\" ContainerName=\"con\">"
            )],
        ),
        (
            Service::Blob,
            "/$root?restype=container&comp=list",
            vec![
                format!("<EnumerationResults ContainerName=\"{base}/$root\">"),
                format!("<Name>top</Name><Url>{base}/top</Url>"),
            ],
            vec!["ContainerName=\"$root\">".to_owned()],
        ),
        (
            Service::Queue,
            "/?comp=list",
            vec![
                format!("<EnumerationResults AccountName=\"{queues}/\">"),
                format!("<Queue><Name>queue</Name><Url>{queues}/queue</Url></Queue>"),
            ],
            vec![format!(
                "<EnumerationResults ServiceEndpoint=\"{queues}/\">"
            )],
        ),
    ];
    for (service, target, old, new) in cases {
        let listed = |version: &str| {
            let list = Request::new(service, "GET", target).header("x-ms-version", version);
            list.send(&server).is(200).text()
        };
        for version in ["2009-09-19", "2012-02-12"] {
            let text = listed(version);
            for part in &old {
                assert!(text.contains(part), "{version} {part}: {text}");
            }
            assert!(!text.contains("ServiceEndpoint"), "{text}");
        }
        let text = listed("2013-08-15");
        for part in &new {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<Url>"), "{text}");
    }
}

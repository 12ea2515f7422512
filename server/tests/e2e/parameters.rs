//! Malformed values of the parameters and headers that hold numbers and flags, on all services. A
//! malformed value does not count as absent.

use crate::http::{BLOB_VERSION, Connection, Request};
use crate::rights::account_sas_for;
use crate::server::{ACCOUNT, Server, Service};

/// A server with a container, a block blob, a page blob, a queue with a message, and a table.
fn with_resources() -> Server {
    let server = Server::fresh();
    for (service, method, target, status) in [
        (Service::Blob, "PUT", "/con?restype=container", 201),
        (Service::Queue, "PUT", "/que", 201),
    ] {
        Request::new(service, method, target)
            .send(&server)
            .is(status);
    }
    let blob = |name: &str, kind: &str| {
        Request::new(Service::Blob, "PUT", &format!("/con/{name}")).header("x-ms-blob-type", kind)
    };
    blob("b", "BlockBlob").body("text").send(&server).is(201);
    let page_blob = blob("p", "PageBlob").header("x-ms-blob-content-length", "512");
    page_blob.send(&server).is(201);
    Request::new(Service::Queue, "POST", "/que/messages")
        .body("<QueueMessage><MessageText>kept</MessageText></QueueMessage>")
        .send(&server)
        .is(201);
    Request::new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Tab"}"#.to_owned())
        .send(&server)
        .is(201);
    server
}

#[test]
fn a_timeout_is_a_number_of_seconds() {
    let server = with_resources();
    for (service, target) in [
        (Service::Blob, "/?comp=list"),
        (Service::Blob, "/con?restype=container&comp=list"),
        (Service::Blob, "/con/b?"),
        (Service::Queue, "/?comp=list"),
        (Service::Queue, "/que/messages?peekonly=true"),
        (Service::Table, "/Tables?"),
        (Service::Table, "/Tab()?"),
    ] {
        for timeout in ["abc", "-1", "1.5", "30s", "0x10"] {
            let target = format!("{target}&timeout={timeout}");
            let refused = Request::new(service, "GET", &target).send(&server);
            assert_eq!(
                (refused.status, refused.code()),
                (400, "InvalidQueryParameterValue".to_owned()),
                "{target}"
            );
        }
        // The service limits a large value and treats an empty one as absent.
        for timeout in ["0", "30", "2147483648", "99999999999999999999", ""] {
            let target = format!("{target}&timeout={timeout}");
            let served = Request::new(service, "GET", &target).send(&server);
            assert_eq!(served.status, 200, "{target}");
        }
    }
}

#[test]
fn parameters_that_cannot_be_read_are_refused() {
    let server = with_resources();
    for (service, method, target) in [
        (Service::Blob, "GET", "/?comp=list&maxresults="),
        (Service::Blob, "GET", "/?comp=list&include="),
        (
            Service::Blob,
            "GET",
            "/con?restype=container&comp=list&maxresults=",
        ),
        (
            Service::Blob,
            "GET",
            "/con?restype=container&comp=list&include=",
        ),
        (
            Service::Blob,
            "GET",
            "/con?restype=container&comp=list&showonly=",
        ),
        (
            Service::Blob,
            "GET",
            "/con?restype=container&comp=blobs&where=a%3D%27b%27&maxresults=",
        ),
        (Service::Blob, "GET", "/con/b?snapshot="),
        (Service::Blob, "GET", "/con/b?versionid="),
        (Service::Blob, "GET", "/con/b?comp=blocklist&blocklisttype="),
        (Service::Blob, "GET", "/con/p?comp=pagelist&maxresults="),
        (Service::Blob, "DELETE", "/con/b?deletetype="),
        (Service::Queue, "GET", "/?comp=list&maxresults="),
        (Service::Queue, "GET", "/?comp=list&include="),
        (Service::Queue, "GET", "/que/messages?numofmessages="),
        (Service::Queue, "GET", "/que/messages?peekonly="),
        (
            Service::Queue,
            "GET",
            "/que/messages?peekonly=true&numofmessages=",
        ),
        (Service::Queue, "GET", "/que/messages?visibilitytimeout="),
        (Service::Queue, "POST", "/que/messages?messagettl="),
        (Service::Queue, "POST", "/que/messages?visibilitytimeout="),
        (Service::Table, "GET", "/Tables?$top="),
        (Service::Table, "GET", "/Tab()?$top="),
    ] {
        for value in ["abc", "1.5x"] {
            let target = format!("{target}{value}");
            let request = Request::new(service, method, &target);
            let refused = if method == "POST" {
                let body = "<QueueMessage><MessageText>new</MessageText></QueueMessage>";
                request.body(body).send(&server)
            } else {
                request.send(&server)
            };
            assert_eq!(refused.status, 400, "{target}: {}", refused.text());
        }
    }
}

#[test]
fn headers_that_cannot_be_read_are_refused() {
    let server = with_resources();
    for (method, target, given, header) in [
        (
            "GET",
            "/con/b",
            "range: bytes=0-1",
            "x-ms-range-get-content-md5",
        ),
        (
            "GET",
            "/con/b",
            "range: bytes=0-1",
            "x-ms-range-get-content-crc64",
        ),
        ("GET", "/con/b", "", "if-modified-since"),
        ("GET", "/con/b", "", "x-ms-lease-id"),
        ("DELETE", "/con/b", "", "x-ms-delete-snapshots"),
        ("PUT", "/con/b?comp=legalhold", "", "x-ms-legal-hold"),
        ("PUT", "/con/b?comp=tier", "", "x-ms-access-tier"),
        (
            "PUT",
            "/con/b?comp=tier",
            "x-ms-access-tier: Cool",
            "x-ms-rehydrate-priority",
        ),
        (
            "PUT",
            "/con/b?comp=lease",
            "x-ms-lease-action: acquire",
            "x-ms-lease-duration",
        ),
        (
            "PUT",
            "/con/b?comp=lease",
            "x-ms-lease-action: break",
            "x-ms-lease-break-period",
        ),
        ("PUT", "/con/b?comp=lease", "", "x-ms-lease-action"),
        (
            "PUT",
            "/con/c",
            "x-ms-blob-type: PageBlob",
            "x-ms-blob-content-length",
        ),
        (
            "PUT",
            "/con/p?comp=properties",
            "",
            "x-ms-blob-content-length",
        ),
        (
            "PUT",
            "/con/p?comp=properties",
            "x-ms-sequence-number-action: update",
            "x-ms-blob-sequence-number",
        ),
        (
            "PUT",
            "/con/p?comp=properties",
            "x-ms-blob-sequence-number: 1",
            "x-ms-sequence-number-action",
        ),
        (
            "PUT",
            "/con/p?comp=page",
            "x-ms-range: bytes=0-511",
            "x-ms-page-write",
        ),
        (
            "PUT",
            "/new?restype=container",
            "",
            "x-ms-blob-public-access",
        ),
        (
            "PUT",
            "/new?restype=container",
            "x-ms-default-encryption-scope: s",
            "x-ms-deny-encryption-scope-override",
        ),
    ] {
        for value in ["bogus", "1.5x"] {
            let mut request = Request::new(Service::Blob, method, target).header(header, value);
            if let Some((name, text)) = given.split_once(": ") {
                request = request.header(name, text);
            }
            let refused = request.send(&server);
            assert_eq!(
                refused.status,
                400,
                "{method} {target} {header}: {value}: {}",
                refused.text()
            );
        }
    }
}

#[test]
fn flags_of_a_copy_are_true_or_false() {
    let server = with_resources();
    let source = format!("{}/con/b", server.endpoint(Service::Blob));
    let copy = |flag: &str, value: &str| {
        let copy = Request::new(Service::Blob, "PUT", "/con/c").header(flag, value);
        copy.header("x-ms-copy-source", &source).send(&server)
    };
    for flag in ["x-ms-seal-blob", "x-ms-requires-sync"] {
        let refused = copy(flag, "bogus");
        assert_eq!(
            (refused.status, refused.code()),
            (400, "InvalidHeaderValue".to_owned()),
            "{flag}"
        );
        copy(flag, "false").is(202);
    }
}

#[test]
fn a_checksum_is_compared_with_the_body_of_every_operation() {
    let server = with_resources();
    // The MD5 of another body, and that of an empty one.
    let (other, empty) = ("oy4I3uLpHl3VXSIjPxTBxQ==", "1B2M2Y8AsgTpgAmY7PhCfg==");
    let message = "<QueueMessage><MessageText>new</MessageText></QueueMessage>";
    let put = |checksum: &str| {
        let put = Request::new(Service::Queue, "POST", "/que/messages").body(message);
        put.header("Content-MD5", checksum).send(&server)
    };
    assert_eq!(put(other).code(), "Md5Mismatch");
    let named = put(other).element("ServerCalculatedMd5");
    put(&named.unwrap()).is(201);
    assert_eq!(put("short").code(), "InvalidMd5");
    for (service, method, target) in [
        (Service::Blob, "PUT", "/new?restype=container"),
        (Service::Blob, "GET", "/con/b"),
        (Service::Queue, "PUT", "/que?comp=metadata"),
        (Service::Queue, "DELETE", "/que/messages"),
        (Service::Table, "GET", "/Tables"),
    ] {
        let send = |checksum: &str| {
            let request = Request::new(service, method, target).header("Content-MD5", checksum);
            request.send(&server)
        };
        assert_eq!(send(other).code(), "Md5Mismatch", "{method} {target}");
        let served = send(empty).status;
        assert!(
            (200..300).contains(&served),
            "{method} {target}: {served} {}",
            send(empty).text()
        );
    }
}

#[test]
fn a_checksum_is_compared_with_a_body_in_chunks() {
    let server = with_resources();
    let message = "<QueueMessage><MessageText>new</MessageText></QueueMessage>";
    let sas = account_sas_for("q", "o", "a");
    for (checksum, status) in [("oy4I3uLpHl3VXSIjPxTBxQ==", 400), ("", 201)] {
        let head = format!(
            "POST /{ACCOUNT}/que/messages?{sas} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             x-ms-version: {BLOB_VERSION}\r\nContent-MD5: {checksum}\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        );
        let (first, second) = message.split_at(20);
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let body = [chunk(first), chunk(second), chunk("")].concat();
        let mut connection = Connection::open(&server, Service::Queue).unwrap();
        let bytes = [head, body].concat().into_bytes();
        connection.send_bytes(&bytes, "POST").unwrap().is(status);
    }
}

#[test]
fn an_empty_comp_is_no_other_operation() {
    let server = with_resources();
    for (service, method, target) in [
        (Service::Blob, "DELETE", "/con/b?comp="),
        (Service::Blob, "DELETE", "/con?restype=container&comp="),
        (Service::Blob, "PUT", "/new?restype=container&comp="),
        (Service::Queue, "PUT", "/new?comp="),
        (Service::Queue, "DELETE", "/que?comp="),
    ] {
        let refused = Request::new(service, method, target).send(&server);
        let code = (refused.status, refused.code());
        let expected = (400, "InvalidQueryParameterValue".to_owned());
        assert_eq!(code, expected, "{method} {target}");
    }
    let read = Request::new(Service::Blob, "GET", "/con/b?comp=").send(&server);
    assert_eq!(read.is(200).text(), "text");
}

#[test]
fn a_protection_is_complete_or_refused() {
    let server = with_resources();
    for (header, value, missing) in [
        (
            "x-ms-immutability-policy-mode",
            "Locked",
            "x-ms-immutability-policy-until-date",
        ),
        ("x-ms-encryption-algorithm", "AES256", "x-ms-encryption-key"),
    ] {
        for (method, target) in [("PUT", "/con/b"), ("PUT", "/con/new")] {
            let put = Request::new(Service::Blob, method, target).body("new");
            let put = put.header("x-ms-blob-type", "BlockBlob");
            let refused = put.header(header, value).send(&server);
            let code = (refused.status, refused.code());
            assert_eq!(code, (400, "MissingRequiredHeader".to_owned()), "{header}");
            refused.has_element("HeaderName", missing);
        }
    }
    let read = Request::new(Service::Blob, "GET", "/con/b").send(&server);
    assert_eq!(read.is(200).text(), "text");
    let none = Request::new(Service::Blob, "GET", "/con/new").send(&server);
    none.is(404);
}

#[test]
fn a_format_that_odata_does_not_have_is_refused() {
    let server = with_resources();
    let read = |format: &str, accept: &str| {
        let target = format!("/Tables?$format={format}");
        let read = Request::new(Service::Table, "GET", &target).header("Accept", accept);
        read.send(&server)
    };
    for format in ["bogus", "text/html", "application/json;odata=bogus"] {
        assert_eq!(
            read(format, "").code(),
            "InvalidQueryParameterValue",
            "{format}"
        );
    }
    for format in ["atom", "verbosejson", "application/json;odata=verbose"] {
        assert_eq!(read(format, "").status, 415, "{format}");
    }
    for format in [
        "json",
        "application/json",
        "application/json;odata=fullmetadata",
        "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
    ] {
        read(format, "").is(200);
    }
    let level = |format: &str| read(format, "application/json;odata=fullmetadata").text();
    assert!(level("").contains("odata.type"), "an empty one is none");
    assert!(!level("json").contains("odata.type"));
}

#[test]
fn a_table_is_deleted_if_any_matches_and_an_entity_has_no_filter() {
    let server = with_resources();
    let delete = |tag: &str| {
        let delete = Request::new(Service::Table, "DELETE", "/Tables('Tab')");
        delete.header("If-Match", tag).send(&server).status
    };
    assert_eq!(delete("W/\"datetime'2000-01-01T00%3A00%3A00Z'\""), 400);
    let target = "/Tab(PartitionKey='p',RowKey='r')?$filter=A%20eq%201";
    Request::new(Service::Table, "GET", target)
        .send(&server)
        .is(501);
    let target = "/Tab()?NextRowKey=r";
    let anew = Request::new(Service::Table, "GET", target).send(&server);
    assert_eq!(anew.code(), "InvalidQueryParameterValue");
    assert_eq!(delete("*"), 204);
}

//! Values that cannot be read: of the parameters and headers that hold numbers and flags, on all
//! services. None is taken for absent.

use crate::http::Request;
use crate::server::{Server, Service};

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
        // A large value is cut off by the service, and an empty one is absent.
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

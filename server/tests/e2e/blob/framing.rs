//! Misleading requests: bodies where none belong, missing bodies, and requests of Data Lake
//! Storage.

use super::{request, with_container};
use crate::http::{Connection, Request};
use crate::server::Service;

#[test]
fn a_body_that_is_needed_has_a_length() {
    let server = with_container();
    let message = "The Content-Length header was not specified.";
    let refused = |request: Request| {
        let request = request.without("Content-Length");
        request
            .send(&server)
            .is_error(411, "MissingContentLengthHeader", message);
    };
    let put = |target: &str| request("PUT", target);
    refused(put("/con/b").header("x-ms-blob-type", "BlockBlob"));
    refused(put("/con/b?comp=block&blockid=MDAx"));
    refused(put("/con/b?comp=blocklist"));
    refused(put("/con/b?comp=appendblock"));
    refused(put("/con/b?comp=page"));
    refused(put("/con/b?comp=tags"));
    refused(put("/con?restype=container&comp=acl"));
    refused(put("/?restype=service&comp=properties"));
    refused(request("POST", "/con/b?comp=query"));
    // Operations without a body need no Content-Length.
    let made = put("/other?restype=container").without("Content-Length");
    made.send(&server).is(201);
}

#[test]
fn a_body_on_an_operation_without_one_is_refused() {
    let server = with_container();
    request("PUT", "/con/b")
        .header("x-ms-blob-type", "BlockBlob")
        .send(&server)
        .is(201);
    for (method, target) in [
        ("PUT", "/third?restype=container"),
        ("PUT", "/con?restype=container&comp=metadata"),
        ("PUT", "/con/b?comp=metadata"),
        ("PUT", "/con/b?comp=snapshot"),
        ("DELETE", "/con/b"),
        ("GET", "/con/b"),
    ] {
        let refused = request(method, target).body("content").send(&server);
        assert_eq!(refused.status, 400, "{method} {target}: {}", refused.text());
        assert_eq!(refused.code(), "InvalidHeaderValue");
        assert_eq!(
            refused.element("HeaderName").as_deref(),
            Some("Content-Length")
        );
    }
    request("GET", "/third?restype=container")
        .send(&server)
        .is(404);
}

#[test]
fn a_body_in_chunks_is_refused_where_none_belongs_unless_it_is_empty() {
    let server = with_container();
    let send = |target: &str, append: bool, chunks: &[u8]| {
        let mut put = request("PUT", target);
        if append {
            put = put.header("x-ms-blob-type", "AppendBlob");
        }
        let put = put.without("Content-Length");
        let mut bytes = put.header("Transfer-Encoding", "chunked").bytes();
        bytes.extend(chunks);
        let mut connection = Connection::open(&server, Service::Blob).unwrap();
        connection.send_bytes(&bytes, "PUT").unwrap()
    };
    let content = b"1\r\nx\r\n0\r\n\r\n";
    for (target, append) in [("/con/b", true), ("/third?restype=container", false)] {
        let refused = send(target, append, content);
        assert_eq!(refused.code(), "InvalidHeaderValue", "{target}");
        send(target, append, b"0\r\n\r\n").is(201);
    }
}

#[test]
fn requests_of_data_lake_storage_are_named_and_not_half_served() {
    let server = with_container();
    request("PUT", "/con/b")
        .header("x-ms-blob-type", "BlockBlob")
        .send(&server)
        .is(201);
    for (method, target) in [
        ("DELETE", "/con/b?recursive=true"),
        ("HEAD", "/con?resource=filesystem"),
        ("GET", "/?resource=account"),
        ("PUT", "/con/d?resource=directory"),
        ("PATCH", "/con/b?action=append&position=0"),
        ("HEAD", "/con/b?action=getStatus"),
    ] {
        let refused = request(method, target).send(&server);
        assert_eq!(refused.status, 501, "{method} {target}: {}", refused.text());
        if method != "HEAD" {
            let answer = refused.json();
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("--hns"), "{message}");
        }
    }
    let rename = request("PUT", "/con/c").header("x-ms-rename-source", "/con/b");
    rename.send(&server).is(501);
    let properties = request("PUT", "/con/c").header("x-ms-blob-type", "BlockBlob");
    properties
        .header("x-ms-properties", "a=MQ==")
        .send(&server)
        .is(501);
    request("HEAD", "/con/b").send(&server).is(200);
    request("HEAD", "/con/c").send(&server).is(404);
    // Clients use this request to find out whether the account has a hierarchical namespace.
    request("HEAD", "/con?action=getAccessControl")
        .send(&server)
        .is(400);
}

//! Requests that are not what they seem: bodies where none belong, none where they do, and requests of Data Lake Storage.

use super::{request, with_container};
use crate::http::Request;

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
    // What has no body needs no length of one.
    let made = put("/other?restype=container").without("Content-Length");
    made.send(&server).is(201);
}

#[test]
fn a_body_that_nobody_reads_is_refused() {
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
            let message = refused.message();
            assert!(message.starts_with("Data Lake Storage"), "{message}");
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
    // How clients find out that the account has no hierarchical namespace.
    request("HEAD", "/con?action=getAccessControl")
        .send(&server)
        .is(400);
}

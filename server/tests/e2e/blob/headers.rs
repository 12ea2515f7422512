//! Headers of blobs: what a write clears and keeps, a condition on tags, Last-Modified of slow
//! writes, and the headers that keep a browser from running the content of a blob.

use super::{put_blob, request, with_container};
use crate::http::{Connection, Response};
use crate::rights::service_sas;
use crate::server::{ACCOUNT, Server, Service};
use crate::test_clock;
use std::time::SystemTime;

fn head(server: &Server, name: &str) -> Response {
    request("HEAD", &format!("/con/{name}")).send(server)
}

#[test]
fn a_type_that_is_not_given_again_is_cleared() {
    let server = with_container();
    put_blob("b", "content").send(&server).is(201);
    head(&server, "b").has_header("Content-Type", "application/octet-stream");
    let set = |name: &str, value: &str| {
        let request = request("PUT", "/con/b?comp=properties").header(name, value);
        request.send(&server)
    };
    set("x-ms-blob-content-type", "text/plain").is(200);
    head(&server, "b").has_header("Content-Type", "text/plain");
    set("x-ms-blob-cache-control", "no-cache").is(200);
    let cleared = head(&server, "b");
    assert_eq!(cleared.header("Content-Type"), None);
    cleared.has_header("Cache-Control", "no-cache");
    let listed = request("GET", "/con?restype=container&comp=list").send(&server);
    assert!(!listed.text().contains("octet-stream"), "{}", listed.text());
    // A copy takes over its source's properties; a rewritten blob has the default type.
    let copy = request("PUT", "/con/copy").header(
        "x-ms-copy-source",
        &format!("http://127.0.0.1:{}/{ACCOUNT}/con/b", server.ports.blob),
    );
    copy.send(&server).is(202);
    assert_eq!(head(&server, "copy").header("Content-Type"), None);
    put_blob("b", "new").send(&server).is(201);
    head(&server, "b").has_header("Content-Type", "application/octet-stream");
    // A change of a page blob's length alone does not clear its properties.
    let page = request("PUT", "/con/p").header("x-ms-blob-type", "PageBlob");
    let page = page.header("x-ms-blob-content-length", "512");
    page.header("x-ms-blob-content-type", "text/plain")
        .send(&server)
        .is(201);
    let resize = |extra: (&str, &str)| {
        let request = request("PUT", "/con/p?comp=properties");
        let request = request.header("x-ms-blob-content-length", "1024");
        request.header(extra.0, extra.1).send(&server).is(200);
        head(&server, "p").header("Content-Type").map(str::to_owned)
    };
    assert_eq!(resize(("Accept", "*/*")).as_deref(), Some("text/plain"));
    assert_eq!(resize(("x-ms-blob-cache-control", "no-cache")), None);
}

/// Source: recorded responses of the hosted service.
#[test]
fn an_md5_set_as_a_property_is_returned_as_given() {
    let server = with_container();
    put_blob("b", "content").send(&server).is(201);
    for value in ["AQIDBA==", "TURBd01EQXdNREE9", "mgNkuembtIDdJeHwKEyFVQ=="] {
        request("PUT", "/con/b?comp=properties")
            .header("x-ms-blob-content-md5", value)
            .send(&server)
            .is(200);
        let head = request("HEAD", "/con/b").send(&server);
        assert_eq!(head.is(200).header("content-md5"), Some(value));
        let range = request("GET", "/con/b").header("Range", "bytes=0-2");
        let range = range.send(&server);
        assert_eq!(range.is(206).header("x-ms-blob-content-md5"), Some(value));
    }
}

#[test]
fn an_md5_is_sixteen_bytes_in_base64() {
    let server = with_container();
    put_blob("b", "content").send(&server).is(201);
    let message = "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded.";
    let name = "x-ms-blob-content-md5";
    for value in [
        "AAAA",
        "not base64",
        "mgNkuembtIDdJeHwKEyFVQ",
        "AAAAAAAAAAAAAAAAAAAAAAA=",
    ] {
        let is_base64 = value != "not base64" && value.ends_with(['A', '=']);
        for target in ["/con/b?comp=properties", "/con/b?comp=blocklist"] {
            if is_base64 {
                continue;
            }
            let request = request("PUT", target).header(name, value);
            let request = request.body(if target.ends_with("list") {
                "<BlockList/>"
            } else {
                ""
            });
            request
                .send(&server)
                .is_error(400, "InvalidMd5", message)
                .has_element("HeaderName", name);
        }
        for header in [name, "Content-MD5"] {
            let put = put_blob("c", "content").header(header, value);
            put.send(&server).is_error(400, "InvalidMd5", message);
        }
    }
}

#[test]
fn a_condition_on_tags_that_is_none_is_named_by_its_header() {
    let server = with_container();
    put_blob("b", "content").send(&server).is(201);
    let source = format!("http://127.0.0.1:{}/{ACCOUNT}/con/b", server.ports.blob);
    let message = "The value for one of the HTTP headers is not in the correct format.";
    for condition in ["nonsense", "@container = 'con'", "a = 'b&c'"] {
        for name in ["x-ms-if-tags", "x-ms-source-if-tags"] {
            request("PUT", "/con/copy")
                .header("x-ms-copy-source", &source)
                .header(name, condition)
                .send(&server)
                .is_error(400, "InvalidHeaderValue", message)
                .has_element("HeaderName", name);
        }
    }
}

#[test]
fn a_browser_runs_no_script_of_a_blob() {
    let server = with_container();
    let put = |name: &str, content_type: &str| {
        let put = put_blob(name, "<svg/>").header("x-ms-blob-content-type", content_type);
        put.send(&server).is(201);
    };
    put("page", "text/html; charset=utf-8");
    put("picture", "image/svg+xml");
    put("text", "text/plain");
    let get = |target: &str| request("GET", target).send(&server);
    for name in ["page", "picture"] {
        get(&format!("/con/{name}"))
            .has_header("X-Content-Type-Options", "nosniff")
            .has_header("Content-Security-Policy", "sandbox");
    }
    assert_eq!(get("/con/text").header("Content-Security-Policy"), None);
    let fields = [("sr", "b"), ("sp", "r"), ("rsct", "text/html")];
    let sas = service_sas(Service::Blob, "con/text", &fields).sign();
    let shown_as_page = request("GET", "/con/text").credited(&sas);
    shown_as_page
        .send(&server)
        .has_header("Content-Type", "text/html")
        .has_header("Content-Security-Policy", "sandbox");
}

#[test]
fn a_website_runs_its_scripts() {
    let server = Server::fresh();
    let properties = "<StorageServiceProperties><StaticWebsite><Enabled>true</Enabled>\
                      <IndexDocument>index.html</IndexDocument></StaticWebsite></StorageServiceProperties>";
    let set = request("PUT", "/?restype=service&comp=properties").body(properties);
    set.send(&server).is(202);
    let made = request("PUT", "/$web?restype=container").send(&server);
    assert!([201, 409].contains(&made.status), "{made:?}");
    let page = request("PUT", "/$web/index.html").header("x-ms-blob-type", "BlockBlob");
    let page = page
        .header("x-ms-blob-content-type", "text/html")
        .body("<html/>");
    page.send(&server).is(201);
    let shown = crate::http::Request::exactly(crate::server::Service::Blob, "GET", "/");
    let host = format!("{ACCOUNT}.web.localhost:{}", server.ports.blob);
    let shown = shown.unsigned().header("Host", &host).send(&server);
    shown.is(200).has_header("Content-Type", "text/html");
    assert_eq!(shown.header("Content-Security-Policy"), None);
}

/// Last-Modified shows the order of commits, to the second: a write whose body was sent slowly is
/// later than one that overtook it.
#[test]
fn a_slow_write_is_as_late_as_its_commit() {
    let server = with_container();
    let slow = put_blob("b", "slow").header("Expect", "100-continue");
    let slow = slow.bytes();
    let begin = slow.len() - "slow".len();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let begun = connection.send_bytes(&slow[..begin], "PUT").unwrap();
    begun.is(100);
    test_clock::advance(&server, 2);
    let quick = put_blob("b", "quick").send(&server);
    let seen = time_of(quick.is(201));
    // Last-Modified has whole seconds, so advance the clock.
    test_clock::advance(&server, 2);
    let written = connection.send_bytes(&slow[begin..], "PUT").unwrap();
    assert!(time_of(written.is(201)) > seen);
    assert!(time_of(&head(&server, "b")) > seen);
    // A client that read the quick write gets 412 after it was overwritten, and does not overwrite
    // the newer blob.
    let seen = httpdate::fmt_http_date(seen);
    let read = request("GET", "/con/b").header("If-Modified-Since", &seen);
    assert_eq!(read.send(&server).is(200).text(), "slow");
    let lost = put_blob("b", "lost").header("If-Unmodified-Since", &seen);
    lost.send(&server).is(412);
}

fn time_of(response: &Response) -> SystemTime {
    let text = response.header("Last-Modified").unwrap();
    httpdate::parse_http_date(text).unwrap()
}

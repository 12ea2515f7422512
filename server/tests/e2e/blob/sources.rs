//! Sources of copies within this server: whose credentials open them, and which URLs are of this
//! server at all.

use super::{account_sas, put_blob, request, sas_until, with_container};
use crate::http::Request;
use crate::server::{ACCOUNT, Server};

const NOT_PERMITTED: &str =
    "This request is not authorized to perform this operation using this permission.";
const NOT_AUTHENTIC: &str = "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly \
                             including the signature.";

/// For each operation that reads a source, a request that writes to a blob of its own.
fn copies(server: &Server, source: &str) -> Vec<(&'static str, Request)> {
    let make = |name: &str, kind: &str| {
        let request = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", kind);
        let request = match kind {
            "PageBlob" => request.header("x-ms-blob-content-length", "512"),
            _ => request,
        };
        request.send(server).is(201);
    };
    make("append", "AppendBlob");
    make("page", "PageBlob");
    let put = |target: &str| request("PUT", target).header("x-ms-copy-source", source);
    let pages = ("bytes=0-511", "bytes=0-511");
    vec![
        ("Copy Blob", put("/con/to")),
        (
            "Copy Blob From URL",
            put("/con/to").header("x-ms-requires-sync", "true"),
        ),
        (
            "Put Blob From URL",
            put("/con/to").header("x-ms-blob-type", "BlockBlob"),
        ),
        ("Put Block From URL", put("/con/to?comp=block&blockid=MDAx")),
        ("Append Block From URL", put("/con/append?comp=appendblock")),
        (
            "Put Page From URL",
            put("/con/page?comp=page")
                .header("x-ms-page-write", "update")
                .header("x-ms-range", pages.0)
                .header("x-ms-source-range", pages.1),
        ),
    ]
}

fn url(server: &Server, query: &str) -> String {
    let port = server.ports.blob;
    format!("http://127.0.0.1:{port}/{ACCOUNT}/con/from?{query}")
}

#[test]
fn a_copy_is_refused_where_the_sas_of_its_source_does_not_open_it() {
    let server = with_container();
    put_blob("from", &"x".repeat(512)).send(&server).is(201);
    let good = account_sas("r", "b", "o", "", "https,http");
    let expired = sas_until(
        ("r", "b", "o", "2020-01-01T00:00:00Z"),
        "",
        "https,http",
        "",
    );
    for (name, copy) in copies(&server, &url(&server, &good)) {
        let answer = copy.send(&server);
        assert!([201, 202].contains(&answer.status), "{name}: {answer:?}");
    }
    for (sas, message) in [
        (account_sas("w", "b", "o", "", "https,http"), NOT_PERMITTED),
        (expired, NOT_AUTHENTIC),
        (
            good.split("&sig=").next().unwrap().to_owned() + "&sig=AAAA",
            NOT_AUTHENTIC,
        ),
        (format!("{good}&sp=rw"), NOT_AUTHENTIC),
        ("sig=AAAA".to_owned(), NOT_AUTHENTIC),
    ] {
        for (name, copy) in copies(&server, &url(&server, &sas)) {
            let refused = copy.send(&server);
            assert_eq!(refused.status, 403, "{name} {sas}: {}", refused.text());
            refused
                .is_error(403, "CannotVerifyCopySource", message)
                .has_header("x-ms-copy-source-status-code", "403");
        }
    }
    let page = request("PUT", "/con/page?comp=incrementalcopy");
    let source = format!(
        "{}&snapshot=2024-01-01T00:00:00.0000000Z",
        url(&server, "sig=AAAA")
    );
    page.header("x-ms-copy-source", &source)
        .send(&server)
        .is_error(403, "CannotVerifyCopySource", NOT_AUTHENTIC);
}

/// If the source is missing, Copy Blob answers `BlobNotFound`, and every other copy answers
/// `CannotVerifyCopySource`. Source: the .NET client's tests.
#[test]
fn a_missing_source_has_the_error_that_the_clients_tests_expect() {
    let server = with_container();
    let sas = account_sas("r", "b", "o", "", "https,http");
    let message = "The specified blob does not exist.";
    for (name, copy) in copies(&server, &url(&server, &sas)) {
        let code = match name {
            "Copy Blob" => "BlobNotFound",
            _ => "CannotVerifyCopySource",
        };
        copy.send(&server).is_error(404, code, message);
    }
    let incremental = request("PUT", "/con/new?comp=incrementalcopy");
    let source = url(&server, "snapshot=2024-01-01T00:00:00.0000000Z");
    incremental
        .header("x-ms-copy-source", &source)
        .send(&server)
        .is_error(404, "CannotVerifyCopySource", message);
}

#[test]
fn pages_cannot_be_cleared_from_a_url() {
    let server = with_container();
    put_blob("from", &"x".repeat(512)).send(&server).is(201);
    let page_blob = request("PUT", "/con/page").header("x-ms-blob-type", "PageBlob");
    page_blob
        .header("x-ms-blob-content-length", "512")
        .send(&server)
        .is(201);
    let sas = account_sas("r", "b", "o", "", "https,http");
    let refused = request("PUT", "/con/page?comp=page")
        .header("x-ms-page-write", "clear")
        .header("x-ms-range", "bytes=0-511")
        .header("x-ms-source-range", "bytes=0-511")
        .header("x-ms-copy-source", &url(&server, &sas))
        .send(&server);
    assert_eq!(refused.is(400).code(), "InvalidHeaderValue");
}

#[test]
fn a_source_on_another_host_with_the_same_port_is_not_of_this_server() {
    let server = with_container();
    put_blob("from", "content").send(&server).is(201);
    let port = server.ports.blob;
    let copy = |authority: &str| {
        let source = format!("http://{authority}/{ACCOUNT}/con/from");
        let request = request("PUT", "/con/to").header("x-ms-copy-source", &source);
        request.send(&server).status
    };
    for own in ["127.0.0.1", "LOCALHOST", "[::1]", "host.docker.internal"] {
        assert_eq!(copy(&format!("{own}:{port}")), 202, "{own}");
    }
    for other in [
        "storage2",
        "10.1.2.3",
        "127.0.0.9",
        "localhost@storage2",
        "storage.example",
    ] {
        assert_eq!(copy(&format!("{other}:{port}")), 501, "{other}");
    }
}

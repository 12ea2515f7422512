//! Customer-provided keys over HTTPS, by raw requests: content from URLs whose source and
//! destination each have a key. `clients/secure.py` tests the rest with the client for Python.

use super::{account_sas, request};
use crate::http::{Request, Response};
use crate::server::{Server, Service};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

const CONTENT: &str = "a page of content";

/// The request with a key in the headers that begin with `prefix`.
fn with_key(request: Request, prefix: &str, key: u8) -> Request {
    let key = [key; 32];
    request
        .header(&format!("{prefix}encryption-key"), &BASE64.encode(key))
        .header(
            &format!("{prefix}encryption-key-sha256"),
            &BASE64.encode(Sha256::digest(key)),
        )
        .header(&format!("{prefix}encryption-algorithm"), "AES256")
}

fn own_key(request: Request, key: u8) -> Request {
    with_key(request, "x-ms-", key)
}

fn send(server: &Server, request: &Request) -> Response {
    request.send_secure(server)
}

const SOURCE_KEY: u8 = 1;
const OWN_KEY: u8 = 2;

fn page() -> Vec<u8> {
    let mut page = CONTENT.as_bytes().to_vec();
    page.resize(512, b' ');
    page
}

/// Creates `con/from`, encrypted with a customer key. Returns its URL.
fn with_source(server: &Server) -> String {
    let made = send(server, &request("PUT", "/con?restype=container"));
    made.is(201);
    let put = request("PUT", "/con/from").header("x-ms-blob-type", "BlockBlob");
    send(server, &own_key(put.body(page()), SOURCE_KEY)).is(201);
    let endpoint = server.endpoint(Service::Blob);
    format!(
        "{endpoint}/con/from?{}",
        account_sas("r", "b", "o", "", "https")
    )
}

/// The four operations that copy, each with the blob that it writes to.
fn operations(server: &Server) -> [(&'static str, Request); 4] {
    for (name, kind) in [("appended", "AppendBlob"), ("paged", "PageBlob")] {
        let create = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", kind);
        let create = create.header("x-ms-blob-content-length", "512");
        send(server, &own_key(create, OWN_KEY)).is(201);
    }
    [
        (
            "put",
            request("PUT", "/con/put").header("x-ms-blob-type", "BlockBlob"),
        ),
        (
            "blocks",
            request("PUT", "/con/blocks?comp=block&blockid=AAAA"),
        ),
        ("appended", request("PUT", "/con/appended?comp=appendblock")),
        (
            "paged",
            request("PUT", "/con/paged?comp=page")
                .header("x-ms-page-write", "update")
                .header("x-ms-range", "bytes=0-511")
                .header("x-ms-source-range", "bytes=0-511"),
        ),
    ]
}

/// Checks that each operation needs the right keys for both blobs.
fn copies_with_both_keys(server: &Server, source: &str) {
    for (name, operation) in operations(server) {
        let operation = operation.header("x-ms-copy-source", source);
        let refused = |request: Request, status: u16, code: &str| {
            let answer = send(server, &request);
            assert_eq!(answer.is(status).code(), code, "{name}: {}", answer.text());
        };
        let keyed = own_key(operation.clone(), OWN_KEY);
        refused(keyed.clone(), 409, "CannotVerifyCopySource");
        let wrong = with_key(keyed.clone(), "x-ms-source-", 9);
        refused(wrong, 409, "CannotVerifyCopySource");
        let right = with_key(keyed, "x-ms-source-", SOURCE_KEY);
        let written = send(server, &right);
        let sha256 = BASE64.encode(Sha256::digest([OWN_KEY; 32]));
        written
            .is(201)
            .has_header("x-ms-encryption-key-sha256", &sha256);
        if name == "blocks" {
            let list = request("PUT", "/con/blocks?comp=blocklist")
                .body("<BlockList><Latest>AAAA</Latest></BlockList>");
            send(server, &own_key(list, OWN_KEY)).is(201);
        }
        let get = request("GET", &format!("/con/{name}"));
        refused(get.clone(), 409, "BlobUsesCustomerSpecifiedEncryption");
        let read = send(server, &own_key(get, OWN_KEY));
        assert_eq!(read.is(200).body, page(), "{name}");
    }
    // The source has a customer key, and the destination has none.
    let plain = request("PUT", "/con/plain")
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-copy-source", source);
    let plain = with_key(plain, "x-ms-source-", SOURCE_KEY);
    send(server, &plain).is(201);
    let read = send(server, &request("GET", "/con/plain"));
    assert_eq!(read.is(200).body, page());
}

#[test]
fn content_from_urls_is_read_with_one_key_and_written_with_another() {
    let server = Server::fresh_secure(&[]);
    let source = with_source(&server);
    copies_with_both_keys(&server, &source);
}

#[test]
fn the_key_of_a_source_goes_to_the_server_that_has_it() {
    let other = Server::fresh_secure(&[]);
    let source = with_source(&other);
    let server = Server::fresh_trusting(&other, &["--allow-copy-from=127.0.0.1"]);
    send(&server, &request("PUT", "/con?restype=container")).is(201);
    copies_with_both_keys(&server, &source);
}

/// Copy Blob and Copy Blob From URL have no headers for keys. Source: their OpenAPI document.
#[test]
fn copies_in_one_call_take_no_key() {
    let server = Server::fresh_secure(&[]);
    let source = with_source(&server);
    for synchronous in ["true", "false"] {
        let copy = request("PUT", "/con/copy")
            .header("x-ms-requires-sync", synchronous)
            .header("x-ms-copy-source", &source);
        let refused = send(&server, &own_key(copy, OWN_KEY));
        assert_eq!(refused.is(501).code(), "NotImplemented");
    }
}

//! Encryption scopes on the wire: in headers, in a SAS, and of containers; which requests may name
//! a scope, and the errors of the others. The effect of a scope on each operation is compared cell
//! by cell in `blob`, `operations/matrix_tests`.

use super::{account_sas, put_blob, request, sas_for_scope, with_container};
use crate::http::Request;
use crate::server::{Server, Service};

const SCOPE: &str = "x-ms-encryption-scope";
const DEFAULT: &str = "x-ms-default-encryption-scope";
const DENIES: &str = "x-ms-deny-encryption-scope-override";
const USES: &str = "BlobUsesCustomerSpecifiedEncryption";
const USES_NOT: &str = "BlobDoesNotUseCustomerSpecifiedEncryption";
const OTHER: &str = "BlobCustomerSpecifiedEncryptionMismatch";
const FORBIDDEN: &str = "RequestForbiddenByContainerEncryptionPolicy";

fn refused(request: &Request, server: &Server, status: u16, code: &str) {
    let answer = request.send(server);
    assert_eq!((answer.is(status).code(), code), (code.to_string(), code));
}

/// A request that names a scope, if there is one.
fn naming(scope: Option<&str>, request: Request) -> Request {
    match scope {
        Some(scope) => request.header(SCOPE, scope),
        None => request,
    }
}

#[test]
fn changes_of_a_blob_must_name_its_scope() {
    let server = with_container();
    let put = put_blob("scoped", "x").header(SCOPE, "lake").send(&server);
    put.is(201).has_header(SCOPE, "lake");
    put_blob("plain", "x").send(&server).is(201);
    let create = |name: &str, blob_type: &str| {
        let request = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", blob_type);
        let request = request.header("x-ms-blob-content-length", "1024");
        request.header(SCOPE, "lake").send(&server).is(201);
    };
    create("log", "AppendBlob");
    create("pages", "PageBlob");
    let page = |write: &str| {
        let request = request("PUT", "/con/pages?comp=page").header("x-ms-page-write", write);
        request.header("x-ms-range", "bytes=0-511")
    };
    let changes = [
        request("PUT", "/con/scoped?comp=metadata"),
        request("PUT", "/con/scoped?comp=snapshot"),
        request("PUT", "/con/log?comp=appendblock").body("line"),
        page("update").body([1; 512]),
        page("clear"),
        request("PUT", "/con/pages?comp=properties").header("x-ms-blob-content-length", "512"),
    ];
    for change in &changes {
        refused(change, &server, 409, USES);
        refused(&naming(Some("shore"), change.clone()), &server, 409, OTHER);
        refused(
            &naming(Some("Lake!"), change.clone()),
            &server,
            400,
            "InvalidHeaderValue",
        );
        let done = naming(Some("lake"), change.clone()).send(&server);
        assert!([200, 201].contains(&done.status), "{done:?}");
        done.has_header(SCOPE, "lake");
    }
    let plain = request("PUT", "/con/plain?comp=metadata");
    refused(&naming(Some("lake"), plain), &server, 409, USES_NOT);
    // Reads need no scope, and return the scope of the blob.
    let read = request("GET", "/con/scoped").send(&server);
    read.is(200).has_header(SCOPE, "lake");
}

#[test]
fn operations_without_scopes_refuse_one() {
    let server = with_container();
    put_blob("b", "x")
        .header(SCOPE, "lake")
        .send(&server)
        .is(201);
    let sas = account_sas("r", "b", "o", "", "https,http");
    let source = format!("{}/con/b?{sas}", server.endpoint(Service::Blob));
    for request in [
        request("GET", "/con/b"),
        request("DELETE", "/con/b"),
        request("PUT", "/con/b?comp=properties").header("x-ms-blob-content-type", "text/plain"),
        request("PUT", "/con/b?comp=tier").header("x-ms-access-tier", "Cool"),
        request("PUT", "/con/b?comp=lease").header("x-ms-lease-action", "acquire"),
        request("PUT", "/con/copy").header("x-ms-copy-source", &source),
        request("PUT", "/other?restype=container"),
    ] {
        refused(
            &naming(Some("lake"), request),
            &server,
            501,
            "NotImplemented",
        );
    }
    let copy = request("PUT", "/con/copy").header("x-ms-copy-source", &source);
    let copy = copy.header("x-ms-requires-sync", "true");
    let copied = naming(Some("shore"), copy).send(&server);
    copied.is(202).has_header(SCOPE, "shore");
    // Headers are not encrypted, so setting them needs no scope.
    let set =
        request("PUT", "/con/b?comp=properties").header("x-ms-blob-content-type", "text/plain");
    set.send(&server).is(200);
}

#[test]
fn a_sas_for_a_scope_keeps_writes_to_it() {
    let server = with_container();
    let sas = sas_for_scope("rwdlac", "b", "sco", "", "https,http", "lake");
    let put = |name: &str| {
        let target = format!("/con/{name}?{sas}");
        let request = request("PUT", &target).unsigned().body("x");
        request.header("x-ms-blob-type", "BlockBlob")
    };
    put("b").send(&server).is(201).has_header(SCOPE, "lake");
    put("b").header(SCOPE, "lake").send(&server).is(201);
    refused(
        &put("b").header(SCOPE, "shore"),
        &server,
        400,
        "InvalidHeaderValue",
    );
    put_blob("other", "x")
        .header(SCOPE, "shore")
        .send(&server)
        .is(201);
    let get = request("GET", &format!("/con/other?{sas}")).unsigned();
    get.send(&server).is(200).has_header(SCOPE, "shore");
    let change = request("PUT", &format!("/con/other?comp=metadata&{sas}")).unsigned();
    refused(&change, &server, 409, OTHER);
    let source = server.endpoint(Service::Blob);
    let copy = request("PUT", &format!("/con/copy?{sas}")).unsigned();
    let copy = copy.header("x-ms-copy-source", &format!("{source}/con/b?{sas}"));
    refused(&copy, &server, 501, "NotImplemented");
}

#[test]
fn containers_have_a_default_and_may_insist_on_it() {
    let server = with_container();
    let create = |name: &str| request("PUT", &format!("/{name}?restype=container"));
    let missing = "MissingRequiredHeader";
    refused(
        &create("one").header(DEFAULT, "lake"),
        &server,
        400,
        missing,
    );
    refused(&create("one").header(DENIES, "true"), &server, 400, missing);
    let made = |default: &str, denies: &str| {
        create("one")
            .header(DEFAULT, default)
            .header(DENIES, denies)
    };
    refused(&made("lake", "perhaps"), &server, 400, "InvalidHeaderValue");
    refused(&made("Lake", "true"), &server, 400, "InvalidHeaderValue");
    made("lake", "true").send(&server).is(201);
    let put = |scope: Option<&str>| {
        let put = request("PUT", "/one/b")
            .header("x-ms-blob-type", "BlockBlob")
            .body("x");
        naming(scope, put)
    };
    put(None).send(&server).is(201).has_header(SCOPE, "lake");
    put(Some("lake")).send(&server).is(201);
    // A request without a scope gets the container's default in its response, also for a block.
    let block = request("PUT", "/one/c?comp=block&blockid=AAAA").body("x");
    block.send(&server).is(201).has_header(SCOPE, "lake");
    refused(&put(Some("shore")), &server, 403, FORBIDDEN);
    let change = request("PUT", "/one/b?comp=metadata");
    change.send(&server).is(200).has_header(SCOPE, "lake");
    refused(&naming(Some("shore"), change), &server, 403, FORBIDDEN);
    // The account's key is not a scope: blobs do not return it, and requests cannot name it.
    let plain = create("plain")
        .header(DEFAULT, "$account-encryption-key")
        .header(DENIES, "false");
    plain.send(&server).is(201);
    let found = request("GET", "/plain?restype=container").send(&server);
    found.is(200).has_header(DEFAULT, "$account-encryption-key");
    let put = request("PUT", "/plain/b")
        .header("x-ms-blob-type", "BlockBlob")
        .body("x");
    put.send(&server).is(201);
    let found = request("HEAD", "/plain/b").send(&server);
    assert_eq!(found.is(200).header(SCOPE), None);
    let named = naming(Some("$account-encryption-key"), put);
    refused(&named, &server, 400, "InvalidHeaderValue");
}

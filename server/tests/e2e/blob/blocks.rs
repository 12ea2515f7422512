//! Blocks and block lists: which blocks can be staged and committed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{INVALID_PARAMETER, put_blob, put_block, request, with_container};
use crate::http::Response;
use crate::server::Server;

fn put_block_list(server: &Server, name: &str, elements: &str) -> Response {
    let body =
        format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{elements}</BlockList>");
    request("PUT", &format!("/con/{name}?comp=blocklist"))
        .body(body)
        .send(server)
}

#[test]
fn block_lists_that_name_absent_blocks() {
    let server = with_container();
    put_blob("b", "old").send(&server).is(201);
    let invalid = "The specified block list is invalid.";
    put_block_list(&server, "b", "<Latest>AAAA</Latest>").is_error(
        400,
        "InvalidBlockList",
        invalid,
    );
    put_block(&server, "b", "AAAA", "one").is(201);
    put_block_list(&server, "b", "<Committed>AAAA</Committed>").is_error(
        400,
        "InvalidBlockList",
        invalid,
    );
    let malformed = "XML specified is not syntactically valid.";
    let post = |body: &str| {
        request("PUT", "/con/b?comp=blocklist")
            .body(body)
            .send(&server)
    };
    for body in [
        "nonsense",
        "<BlockList>",
        "<!DOCTYPE x><BlockList></BlockList>",
        "<BlockList><Latest>AAAA</BlockList>",
    ] {
        post(body).is_error(400, "InvalidXmlDocument", malformed);
    }
    assert_eq!(request("GET", "/con/b").send(&server).text(), "old");
    put_block(&server, "b", "BBBB", "two").is(201);
    put_block_list(
        &server,
        "b",
        "<Uncommitted>BBBB</Uncommitted><Latest>AAAA</Latest><Latest>BBBB</Latest>",
    )
    .is(201);
    assert_eq!(request("GET", "/con/b").send(&server).text(), "twoonetwo");
    let list = request("GET", "/con/b?comp=blocklist&blocklisttype=all").send(&server);
    let block = |name: &str| format!("<Block><Name>{name}</Name><Size>3</Size></Block>");
    let committed = format!(
        "<CommittedBlocks>{}{}{}</CommittedBlocks>",
        block("BBBB"),
        block("AAAA"),
        block("BBBB")
    );
    assert!(list.is(200).text().contains(&committed), "{}", list.text());
    let message = "The specified blob or block content is invalid.";
    // The lengths of committed ids do not matter: another tool may overwrite the blob.
    put_block(&server, "b", "AAAAAAAA", "x").is(201);
    put_block(&server, "b", "AAAA", "x").is_error(400, "InvalidBlobOrBlock", message);
    put_block(&server, "b", "***", "x").is_error(
        400,
        "InvalidQueryParameterValue",
        INVALID_PARAMETER,
    );
    let long = BASE64.encode([0; 65]);
    assert_eq!(
        put_block(&server, "new", &long, "x").is(400).code(),
        "OutOfRangeInput"
    );
    let empty = put_block(&server, "new", "AAAA", "");
    assert_eq!(
        (empty.status, empty.code().as_str()),
        (400, "InvalidHeaderValue")
    );
}

#[test]
fn more_blocks_than_there_may_be() {
    let server = with_container();
    let elements = "<Latest>AAAA</Latest>".repeat(50_001);
    let refused = put_block_list(&server, "b", &elements);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "BlockListTooLong")
    );
}

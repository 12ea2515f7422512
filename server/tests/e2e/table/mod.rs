//! The Table service by raw requests: the exact bytes of its answers at every metadata level, and
//! its answers to input no client would send. Here: tables themselves, their policies, the service,
//! and helpers of the modules below.

mod design;
mod entities;
mod filters;
mod queries;
mod transactions;
mod what_if;

use serde_json::{Value, json};

use crate::http::{Request, Response};
use crate::server::{Server, Service};

pub(super) const INVALID: &str = "One of the request inputs is not valid.";
pub(super) const NO_TABLE: &str = "The table specified does not exist.";
pub(super) const NO_METADATA: &str = "application/json;odata=nometadata";
pub(super) const MINIMAL_METADATA: &str = "application/json;odata=minimalmetadata";
pub(super) const FULL_METADATA: &str = "application/json;odata=fullmetadata";

pub(super) fn request(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
}

/// A server with one empty table named `T1x`.
pub(super) fn with_table() -> Server {
    let server = Server::fresh();
    create_table(&server);
    server
}

/// Makes the table `T1x`.
pub(super) fn create_table(server: &Server) {
    request("POST", "/Tables")
        .json(r#"{"TableName":"T1x"}"#)
        .send(server)
        .is(201);
}

#[track_caller]
pub(super) fn insert(server: &Server, entity: &Value) -> Response {
    request("POST", "/T1x")
        .json(entity.to_string())
        .send(server)
}

/// The response to an insert of an entity with this property.
pub(super) fn insert_with(server: &Server, property: &str, value: &str) -> Response {
    let entity = format!(r#"{{"PartitionKey":"p","RowKey":"r","{property}":{value}}}"#);
    request("POST", "/T1x").json(entity).send(server)
}

#[test]
fn create_table_answers_at_every_metadata_level() {
    let server = Server::fresh();
    let base = server.endpoint(Service::Table);
    let create = |name: &str, accept: &str| {
        let body = json!({ "TableName": name }).to_string();
        request("POST", "/Tables")
            .header("Accept", accept)
            .json(body)
            .send(&server)
    };
    let made = create("TableNone", NO_METADATA);
    made.is(201).has_header(
        "Content-Type",
        &format!("{NO_METADATA};streaming=true;charset=utf-8"),
    );
    assert_eq!(made.text(), r#"{"TableName":"TableNone"}"#);
    made.has_header("Location", &format!("{base}/Tables('TableNone')"));
    assert_eq!(
        create("TableMinimal", MINIMAL_METADATA).text(),
        format!(
            r#"{{"odata.metadata":"{base}/$metadata#Tables/@Element","TableName":"TableMinimal"}}"#
        )
    );
    let full = create("TableFull", FULL_METADATA).json();
    assert_eq!(full["odata.type"], "devstoreaccount1.Tables");
    assert_eq!(full["odata.id"], format!("{base}/Tables('TableFull')"));
    assert_eq!(full["odata.editLink"], "Tables('TableFull')");
    let listed = request("GET", "/Tables")
        .header("Accept", NO_METADATA)
        .send(&server);
    assert_eq!(
        listed.is(200).text(),
        r#"{"value":[{"TableName":"TableFull"},{"TableName":"TableMinimal"},{"TableName":"TableNone"}]}"#
    );
    let listed = request("GET", "/Tables")
        .header("Accept", MINIMAL_METADATA)
        .send(&server)
        .json();
    assert_eq!(listed["odata.metadata"], format!("{base}/$metadata#Tables"));
    let one = request("GET", "/Tables('tablefull')")
        .header("Accept", NO_METADATA)
        .send(&server);
    assert_eq!(one.is(200).text(), r#"{"TableName":"TableFull"}"#);
}

#[test]
fn create_table_without_content() {
    let server = Server::fresh();
    let made = request("POST", "/Tables")
        .header("Prefer", "return-no-content")
        .json(r#"{"TableName":"Quiet"}"#)
        .send(&server);
    made.is(204)
        .has_header("Preference-Applied", "return-no-content");
    let location = format!("{}/Tables('Quiet')", server.endpoint(Service::Table));
    made.has_header("Location", &location)
        .has_header("DataServiceId", &location);
    assert!(made.body.is_empty());
}

#[test]
fn table_names_breaking_the_rules() {
    let server = Server::fresh();
    let create = |name: &str| {
        request("POST", "/Tables")
            .json(json!({ "TableName": name }).to_string())
            .send(&server)
    };
    for name in ["a-b", "1ab", "a_b", "tä1", "a b"] {
        create(name).is_error(
            400,
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        );
    }
    for name in ["ab", &"a".repeat(64)] {
        let message = "The specified resource name length is not within the permissible limits.";
        create(name).is_error(400, "OutOfRangeInput", message);
    }
    create("tables").is_error(400, "InvalidInput", INVALID);
    create("Fine").is(201);
    create("fINE").is_error(
        409,
        "TableAlreadyExists",
        "The table specified already exists.",
    );
    for body in ["", "{", "\u{0}"] {
        request("POST", "/Tables")
            .json(body)
            .send(&server)
            .is_error(400, "InvalidInput", INVALID);
    }
    for body in ["{}", "[]", r#"{"TableName":null}"#, r#"{"TableName":5}"#] {
        request("POST", "/Tables").json(body).send(&server).is(400);
    }
    let gone = "The specified resource does not exist.";
    request("DELETE", "/Tables('missing')")
        .send(&server)
        .is_error(404, "ResourceNotFound", gone);
    request("GET", "/Tables('missing')")
        .send(&server)
        .is_error(404, "ResourceNotFound", gone);
}

#[test]
fn obsolete_formats_are_refused() {
    let server = with_table();
    let atom = request("POST", "/T1x")
        .header("Content-Type", "application/atom+xml")
        .body("<entry/>")
        .send(&server);
    atom.is_error(
        415,
        "AtomFormatNotSupported",
        "Atom format is not supported.",
    );
    let atom = request("GET", "/T1x()")
        .header("Accept", "application/atom+xml")
        .send(&server);
    atom.is_error(
        415,
        "AtomFormatNotSupported",
        "Atom format is not supported.",
    );
    request("GET", "/T1x?comp=acl")
        .header("Accept", "application/atom+xml")
        .send(&server)
        .is(200);
}

#[test]
fn access_policies_as_xml() {
    let server = with_table();
    let set = |body: &str| {
        request("PUT", "/T1x?comp=acl")
            .header("Content-Type", "application/xml")
            .body(body)
            .send(&server)
    };
    let get = || request("GET", "/T1x?comp=acl").send(&server);
    let policy = "<SignedIdentifier><Id>pol</Id><AccessPolicy><Start>2024-03-01</Start><Expiry>2024-03-02T00:00:00Z</Expiry>\
                  <Permission>raud</Permission></AccessPolicy></SignedIdentifier>";
    set(&format!("<SignedIdentifiers>{policy}</SignedIdentifiers>")).is(204);
    let found = get();
    found.is(200).has_header("Content-Type", "application/xml");
    found
        .has_element("Start", "2024-03-01T00:00:00.0000000Z")
        .has_element("Expiry", "2024-03-02T00:00:00.0000000Z");
    found.has_element("Permission", "raud");
    let malformed = "XML specified is not syntactically valid.";
    let six: String = (0..6)
        .map(|n| policy.replace("pol", &format!("pol{n}")))
        .collect();
    let doctype =
        format!("<!DOCTYPE x [<!ENTITY a \"b\">]><SignedIdentifiers>{policy}</SignedIdentifiers>");
    let six = format!("<SignedIdentifiers>{six}</SignedIdentifiers>");
    let deep = format!("{}{}", "<a>".repeat(9_000), "</a>".repeat(9_000));
    for body in [
        six.as_str(),
        "<SignedIdentifiers>",
        "nonsense",
        &doctype,
        &deep,
    ] {
        let refused = set(body);
        refused
            .is_error(400, "InvalidXmlDocument", malformed)
            .has_header("Content-Type", "application/xml");
    }
    get().has_element("Permission", "raud");
    set("").is(204);
    assert!(!get().text().contains("<Id>"));
    request("GET", "/nosuch?comp=acl")
        .send(&server)
        .is_error(404, "TableNotFound", NO_TABLE);
}

#[test]
fn unknown_operations_on_an_account_or_a_table_never_succeed() {
    let server = with_table();
    for target in [
        "/?restype=account&comp=properties",
        "/Tables?restype=account&comp=properties",
        "/Tables('T1x')?restype=account&comp=properties",
        "/$batch?comp=properties",
    ] {
        for method in ["DELETE", "PUT", "POST", "GET"] {
            let answer = request(method, target)
                .json(r#"{"TableName":"Other1"}"#)
                .send(&server);
            let found = (answer.status, answer.code());
            assert_eq!(
                found,
                (400, "InvalidQueryParameterValue".to_string()),
                "{method} {target}"
            );
        }
    }
    request("GET", "/Tables('T1x')").send(&server).is(200);
    request("GET", "/Tables('Other1')").send(&server).is(404);
}

#[test]
fn errors_are_json_for_any_filter() {
    let server = with_table();
    let refused = request("GET", "/T1x()?$filter=a%20eq%20%27comp=acl%27%20x").send(&server);
    refused.is(400);
    assert_eq!(refused.json()["odata.error"]["code"], "InvalidInput");
}

#[test]
fn statistics_are_not_on_the_primary() {
    let server = Server::fresh();
    let refused = request("GET", "/?restype=service&comp=stats").send(&server);
    let found = (refused.status, refused.code());
    assert_eq!(found, (400, "InvalidQueryParameterValue".to_string()));
}

#[test]
fn refusals_are_neither_cached_nor_taken_for_another_type() {
    let refused = request("GET", "/Missing1()").send(&Server::fresh());
    refused.is_error(404, "TableNotFound", NO_TABLE);
    refused
        .has_header("X-Content-Type-Options", "nosniff")
        .has_header("Cache-Control", "no-cache");
}

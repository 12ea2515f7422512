use crate::table::operations::route;
use lazurite_protocol::request::context::{Context, ServiceKind};
use lazurite_protocol::testing::request;
use lazurite_table::{IfMatch, Write};

const ENTITY: &str = "/T(PartitionKey='p',RowKey='r')";
const ANY: (&str, &str) = ("if-match", "*");

fn context(method: &str, target: &str, headers: &[(&str, &str)]) -> Context {
    let account = "myaccount";
    request(ServiceKind::Table, method, target, account, headers)
}

fn refusal(method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let refused = route(&context(method, target, headers)).err();
    refused.expect(target).code.to_string()
}

#[test]
fn each_request_finds_its_row() {
    for (method, target, headers, name) in [
        ("GET", "/Tables", &[][..], "QueryTables"),
        ("POST", "/Tables", &[], "CreateTable"),
        ("GET", "/Tables('T')", &[], "GetTable"),
        ("DELETE", "/Tables('T')", &[], "DeleteTable"),
        ("GET", "/T()", &[], "QueryEntities"),
        ("POST", "/T", &[], "InsertEntity"),
        ("POST", "/Tab/Tables", &[], "InsertEntity"),
        ("GET", "/Tab/Tables", &[], "UnknownPath"),
        ("GET", ENTITY, &[], "GetEntity"),
        ("PUT", ENTITY, &[ANY], "UpdateEntity"),
        ("PUT", ENTITY, &[], "InsertOrReplaceEntity"),
        ("MERGE", ENTITY, &[ANY], "MergeEntity"),
        ("PATCH", ENTITY, &[], "InsertOrMergeEntity"),
        ("DELETE", ENTITY, &[ANY], "DeleteEntity"),
        (
            "POST",
            ENTITY,
            &[("x-http-method", "MERGE"), ANY],
            "MergeEntity",
        ),
        ("POST", "/$batch", &[], "Batch"),
        ("HEAD", "/T?comp=acl", &[], "GetTableAcl"),
        ("PUT", "/T?comp=ACL", &[], "SetTableAcl"),
        (
            "GET",
            "/?restype=service&comp=properties",
            &[],
            "GetTableServiceProperties",
        ),
    ] {
        let found = route(&context(method, target, headers)).unwrap();
        assert_eq!(found.operation.name, name, "{method} {target}");
    }
}

#[test]
fn conditions_and_methods_make_the_write() {
    let write = |method, headers: &[(&str, &str)]| {
        let found = route(&context(method, ENTITY, headers)).unwrap();
        assert_eq!((&*found.table, &*found.keys.row_key), ("T", "r"));
        found.write
    };
    assert_eq!(write("GET", &[]), None);
    assert_eq!(write("PUT", &[ANY]), Some(Write::Update(IfMatch::Any)));
    assert_eq!(write("PUT", &[]), Some(Write::InsertOrReplace));
    assert_eq!(write("PATCH", &[ANY]), Some(Write::Merge(IfMatch::Any)));
    assert_eq!(write("MERGE", &[]), Some(Write::InsertOrMerge));
    assert_eq!(write("DELETE", &[ANY]), Some(Write::Delete(IfMatch::Any)));
}

#[test]
fn requests_without_a_row_are_refused_for_their_first_mistake() {
    for (method, target, headers, code) in [
        ("DELETE", ENTITY, &[][..], "MissingRequiredHeader"),
        ("PUT", ENTITY, &[("if-match", "")], "InvalidInput"),
        ("PUT", ENTITY, &[("if-none-match", "*")], "InvalidInput"),
        // The condition is checked before the method.
        ("HEAD", ENTITY, &[("if-none-match", "*")], "InvalidInput"),
        ("HEAD", ENTITY, &[], "MethodNotAllowed"),
        ("GET", "/$batch", &[], "MethodNotAllowed"),
        ("DELETE", "/T", &[], "MethodNotAllowed"),
        (
            "PUT",
            "/?restype=service&comp=stats",
            &[],
            "MethodNotAllowed",
        ),
        ("GET", "/T?comp=none", &[], "InvalidQueryParameterValue"),
        ("GET", "/", &[], "InvalidQueryParameterValue"),
        ("GET", "/T(x", &[], "InvalidInput"),
        (
            "PUT",
            ENTITY,
            &[("x-http-method", "MERGE")],
            "XMethodNotUsingPost",
        ),
    ] {
        assert_eq!(refusal(method, target, headers), code, "{method} {target}");
    }
}

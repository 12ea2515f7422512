//! Queries: the results at each metadata level, paging, and refused queries.

use serde_json::json;

use super::{
    FULL_METADATA, INVALID, MINIMAL_METADATA, NO_METADATA, NO_TABLE, insert, request, with_table,
};
use crate::server::Service;

#[test]
fn queries_answer_at_every_metadata_level() {
    let server = with_table();
    let base = server.endpoint(Service::Table);
    insert(
        &server,
        &json!({ "PartitionKey": "p", "RowKey": "r", "a": 1, "b": true }),
    )
    .is(201);
    let query = |target: &str, accept: &str| {
        request("GET", target)
            .header("Accept", accept)
            .send(&server)
    };
    assert_eq!(
        query("/T1x()?$select=a,c", NO_METADATA).text(),
        r#"{"value":[{"a":1,"c":null}]}"#
    );
    assert_eq!(
        query("/T1x?%24select=b", NO_METADATA).text(),
        r#"{"value":[{"b":true}]}"#
    );
    let each_once = query("/T1x()?$select=a,b,a,c,c", NO_METADATA).text();
    assert_eq!(each_once, r#"{"value":[{"a":1,"b":true,"c":null}]}"#);
    let target = "/T1x(PartitionKey='p',RowKey='r')?$select=a,a";
    assert_eq!(query(target, NO_METADATA).text(), r#"{"a":1}"#);
    let twice = query("/T1x()?$select=a,a", MINIMAL_METADATA).json();
    let metadata = format!("{base}/$metadata#T1x&$select=a");
    assert_eq!(twice["odata.metadata"], metadata);
    let minimal = query("/T1x()", MINIMAL_METADATA).json();
    assert_eq!(minimal["odata.metadata"], format!("{base}/$metadata#T1x"));
    assert!(
        minimal["value"][0]["odata.etag"]
            .as_str()
            .unwrap()
            .starts_with("W/\"datetime'")
    );
    assert!(minimal["value"][0].get("odata.id").is_none());
    let selected = query("/T1x()?$select=a,b", MINIMAL_METADATA).json();
    assert_eq!(
        selected["odata.metadata"],
        format!("{base}/$metadata#T1x&$select=a,b")
    );
    assert!(selected["value"][0].get("PartitionKey").is_none());
    let full = query("/T1x()", FULL_METADATA).json();
    assert_eq!(
        full["value"][0]["odata.id"],
        format!("{base}/T1x(PartitionKey='p',RowKey='r')")
    );
    assert_eq!(full["value"][0]["odata.type"], "devstoreaccount1.T1x");
    let entity = "/T1x(PartitionKey='p',RowKey='r')";
    assert_eq!(
        query(entity, MINIMAL_METADATA).json()["odata.metadata"],
        format!("{base}/$metadata#T1x/@Element")
    );
    // `$format` overrides the header. Blanks, a bare type and no type are accepted.
    let format = "/T1x()?$format=application/json;odata=nometadata";
    assert!(
        query(format, FULL_METADATA)
            .json()
            .get("odata.metadata")
            .is_none()
    );
    assert!(
        query(entity, "application/json; odata=nometadata")
            .json()
            .get("odata.metadata")
            .is_none()
    );
    assert!(
        query(entity, "application/json")
            .json()
            .get("odata.metadata")
            .is_some()
    );
    assert!(
        request("GET", entity)
            .send(&server)
            .json()
            .get("odata.metadata")
            .is_some()
    );
    request("GET", "/T1X(RowKey='r',%20PartitionKey='p')")
        .send(&server)
        .is(200);
}

#[test]
fn bad_queries_are_refused() {
    let server = with_table();
    let query = |query: &str| request("GET", &format!("/T1x()?{query}")).send(&server);
    for filter in [
        "a%20eq",
        "a%20eq%20'open",
        "(a%20eq%201",
        "a%20%3D%201",
        "datetime'x'%20eq%20a",
    ] {
        let answer = query(&format!("$filter={filter}"));
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "InvalidInput"),
            "{filter}"
        );
    }
    let syntax = query("$filter=a%20eq%20'open").message();
    assert!(
        syntax.starts_with("Syntax error at position ") && syntax.ends_with(" in 'a eq 'open'."),
        "{syntax}"
    );
    query("$filter=a%20eq%20null").is_error(400, "InvalidInput", INVALID);
    let null = "The operator 'LessThan' is not supported for the 'null' literal; only equality checks are supported.";
    query("$filter=a%20lt%20null").is_error(400, "InvalidInput", null);
    let not_implemented = "The requested operation is not implemented on the specified resource.";
    for (filter, reason) in [
        (
            "a%20eq%20b",
            "The filter compares a property with the property 'b'. If that is a string, write it in quotes: 'b'.",
        ),
        (
            "startswith(a,'b')",
            "The filter calls the function 'startswith'. Tables know comparisons, 'and', 'or' and 'not'; a prefix is a range of values.",
        ),
    ] {
        let message = format!("{not_implemented} {reason}");
        query(&format!("$filter={filter}")).is_error(501, "NotImplemented", &message);
    }
    for top in ["1001", "-1", "x", "99999999999999999999"] {
        query(&format!("$top={top}")).is_error(400, "InvalidInput", INVALID);
    }
    assert_eq!(query("$top=0").is(200).json()["value"], json!([]));
    assert_eq!(
        query("$filter=&$select=").is(200).json()["value"],
        json!([])
    );
    query("NextPartitionKey=1!4!----&NextRowKey=1!4!----").is(400);
    for option in [
        "$orderby=a",
        "$skip=1",
        "$inlinecount=allpages",
        "$expand=a",
    ] {
        let refused = query(option);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (501, "NotImplemented")
        );
        let name = option.split('=').next().unwrap();
        assert!(refused.message().contains(name), "{}", refused.message());
    }
    // Redundant parentheses and nested uses of one operator are accepted. `and` and `or` nested in
    // each other beyond `FILTER_DEPTH_MAX` are refused.
    let wrapped = format!("$filter={}a%20eq%201{}", "(".repeat(1000), ")".repeat(1000));
    query(&wrapped).is(200);
    let steps = "a%20eq%201%20or%20(a%20eq%201%20and%20(".repeat(500);
    let deep = format!("$filter={steps}a%20eq%201{}", ")".repeat(1000));
    query(&deep).is(400);
    let chain = (0..900).map(|number| format!("a%20eq%20{number})%20or%20("));
    let chain: String = chain.collect();
    query(&format!("$filter=({chain}a%20eq%201)")).is(200);
    let open = "(a%20or%20b%20and%20".repeat(100);
    query(&format!("$filter={open}a{}", ")".repeat(100))).is(400);
    request("GET", "/nosuch()")
        .send(&server)
        .is_error(404, "TableNotFound", NO_TABLE);
}

#[test]
fn pages_carry_tokens_that_lead_on() {
    let server = with_table();
    for row in ["é", "b", "a"] {
        insert(
            &server,
            &json!({ "PartitionKey": "p\u{fc}", "RowKey": row }),
        )
        .is(201);
    }
    let mut rows = Vec::new();
    let mut next = String::new();
    loop {
        let page = request("GET", &format!("/T1x()?$top=1{next}")).send(&server);
        rows.push(
            page.is(200).json()["value"][0]["RowKey"]
                .as_str()
                .unwrap()
                .to_string(),
        );
        let (Some(partition), Some(row)) = (
            page.header("x-ms-continuation-NextPartitionKey"),
            page.header("x-ms-continuation-NextRowKey"),
        ) else {
            break;
        };
        assert!(partition.starts_with("1!") && partition.is_ascii() && row.is_ascii());
        next = format!(
            "&NextPartitionKey={}&NextRowKey={}",
            partition.replace('!', "%21"),
            row.replace('!', "%21")
        );
    }
    assert_eq!(rows, ["a", "b", "é"]);
    for name in ["Aaa", "Bbb"] {
        request("POST", "/Tables")
            .json(json!({ "TableName": name }).to_string())
            .send(&server)
            .is(201);
    }
    let page = request("GET", "/Tables?$top=2").send(&server);
    assert_eq!(page.json()["value"].as_array().unwrap().len(), 2);
    let token = page
        .header("x-ms-continuation-NextTableName")
        .unwrap()
        .replace('!', "%21");
    let last = request("GET", &format!("/Tables?$top=2&NextTableName={token}")).send(&server);
    assert_eq!(last.json()["value"][0]["TableName"], "T1x");
    assert!(last.header("x-ms-continuation-NextTableName").is_none());
}

#[test]
fn answers_name_the_plan_here_and_that_of_the_hosted_service() {
    let server = with_table();
    for partition in ["a", "b"] {
        for row in 0..20 {
            let entity = json!({ "PartitionKey": partition, "RowKey": format!("{row:02}") });
            insert(&server, &entity).is(201);
        }
    }
    for (filter, plan, azure_plan, examined, azure_examined) in [
        (
            "RowKey%20eq%20%2710%27",
            "skip scan",
            Some("table scan"),
            "4",
            Some("40"),
        ),
        (
            "PartitionKey%20eq%20%27a%27%20and%20(RowKey%20eq%20%2701%27%20or%20RowKey%20eq%20%2703%27)",
            "points",
            Some("partition scan"),
            "2",
            Some("20"),
        ),
        (
            "PartitionKey%20gt%20%27a%27",
            "partition range scan",
            Some("partition range scan"),
            "20",
            Some("20"),
        ),
        ("false", "nothing", Some("table scan"), "0", Some("40")),
        ("PartitionKey%20lt%20%27%27", "nothing", None, "0", None),
    ] {
        let page = request("GET", &format!("/T1x()?$filter={filter}")).send(&server);
        page.is(200)
            .has_header("x-lazurite-plan", plan)
            .has_header("x-lazurite-examined", examined);
        assert_eq!(page.header("x-lazurite-azure-plan"), azure_plan, "{filter}");
        let azure = page.header("x-lazurite-azure-examined");
        assert_eq!(azure, azure_examined, "{filter}");
    }
}

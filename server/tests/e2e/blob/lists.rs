//! XML listings of blobs, and the names in them.

use super::{INVALID_PARAMETER, put_blob, request, with_container};
use crate::server::{Launch, Service};

#[test]
fn lists_as_xml() {
    let server = with_container();
    for name in ["a", "b/1", "b/2", "c", "%26%3C%3E"] {
        put_blob(name, "x").send(&server).is(201);
    }
    let base = server.endpoint(Service::Blob);
    let list = |parameters: &str| {
        request(
            "GET",
            &format!("/con?restype=container&comp=list{parameters}"),
        )
        .send(&server)
    };
    let all = list("").text();
    let head = format!(
        r#"<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="{base}/" ContainerName="con">"#
    );
    assert!(all.starts_with(&head), "{all}");
    let names = |text: &str| -> Vec<String> {
        text.split("<Name>")
            .skip(1)
            .map(|rest| rest.split("</Name>").next().unwrap().to_string())
            .collect()
    };
    assert_eq!(names(&all), ["&amp;&lt;&gt;", "a", "b/1", "b/2", "c"]);
    let tree = list("&delimiter=%2F").text();
    assert_eq!(
        names(&tree),
        ["&amp;&lt;&gt;", "a", "b/", "c"],
        "blobs and prefixes stand in one order"
    );
    assert!(tree.contains("<BlobPrefix><Name>b/</Name>"), "{tree}");
    for (from, names_between) in [
        ("&startFrom=b&endBefore=c", vec!["b/1", "b/2"]),
        ("&startFrom=a&endBefore=b%2F2", vec!["a", "b/1"]),
        (
            "&endBefore=b%2F2&delimiter=%2F",
            vec!["&amp;&lt;&gt;", "a", "b/"],
        ),
        ("&startFrom=b%2F3", vec!["c"]),
    ] {
        assert_eq!(names(&list(from).is(200).text()), names_between, "{from}");
    }
    let mut found = Vec::new();
    let mut marker = String::new();
    loop {
        let page = list(&format!("&delimiter=%2F&maxresults=1{marker}"));
        found.extend(names(&page.is(200).text()));
        match page.element("NextMarker") {
            Some(next) if !next.is_empty() => {
                marker = format!("&marker={}", next.replace('=', "%3D").replace('/', "%2F"))
            }
            _ => break,
        }
    }
    assert_eq!(found, ["&amp;&lt;&gt;", "a", "b/", "c"]);
    let range = "One of the query parameters specified in the request URI is outside the permissible range.";
    list("&maxresults=0").is_error(400, "OutOfRangeQueryParameterValue", range);
    list("&maxresults=x").is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
    list("&include=nonsense").is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
    let comp = request("GET", "/con?restype=container&comp=nonsense").send(&server);
    comp.is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
}

#[test]
fn names_are_listed_unchanged() {
    let server = with_container();
    for (sent, stored) in [
        ("a%2Fb", "a/b"),
        ("a%2520b", "a%20b"),
        ("a+b", "a+b"),
        ("/lead", "/lead"),
        ("x//y", "x//y"),
        ("z/", "z/"),
    ] {
        put_blob(sent, stored).send(&server).is(201);
        assert_eq!(
            request("GET", &format!("/con/{sent}")).send(&server).text(),
            stored
        );
    }
    assert_eq!(request("GET", "/con/a/b").send(&server).text(), "a/b");
    request("GET", "/con/x/y").send(&server).is(404);
    request("GET", "/con/z").send(&server).is(404);
    request("PUT", "/con/%FF%FE")
        .header("x-ms-blob-type", "BlockBlob")
        .body("x")
        .send(&server)
        .is(400);
    let long = put_blob(&"n".repeat(1025), "x").send(&server);
    assert_eq!(long.status, 400, "{}", long.text());
}

#[test]
fn showonly_lists_deleted_blobs_only() {
    let server = with_container();
    let retention = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled>\
        <Days>1</Days></DeleteRetentionPolicy></StorageServiceProperties>";
    let properties = request("PUT", "/?restype=service&comp=properties");
    properties.body(retention).send(&server).is(202);
    for name in ["gone", "here"] {
        put_blob(name, "x").send(&server).is(201);
    }
    request("DELETE", "/con/gone").send(&server).is(202);
    let list = |shown: &str| {
        let target = format!("/con?restype=container&comp=list&showonly={shown}");
        request("GET", &target).send(&server)
    };
    let text = list("Deleted").is(200).text();
    assert!(
        text.contains("<Name>gone</Name><Deleted>true</Deleted>"),
        "{text}"
    );
    assert!(!text.contains("here"), "{text}");
    list("files").is(501);
    list("directories").is(501);
    let code = "InvalidQueryParameterValue";
    list("nonsense").is_error(400, code, INVALID_PARAMETER);
}

#[test]
fn finds_versions_by_tags_when_asked() {
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--blob-versioning")
        .start();
    request("PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    for body in ["old", "new"] {
        let put = put_blob("name", body).header("x-ms-tags", "kind=lake");
        put.send(&server).is(201);
    }
    let find = |include: &str| {
        let target = format!("/?comp=blobs&where=kind%3D%27lake%27{include}");
        request("GET", &target).send(&server)
    };
    let text = find("").is(200).text();
    let count = |text: &str, part: &str| text.matches(part).count();
    assert_eq!(
        (count(&text, "<Blob>"), count(&text, "<VersionId>")),
        (1, 0),
        "{text}"
    );
    let text = find("&include=Versions").is(200).text();
    assert_eq!(
        (count(&text, "<Blob>"), count(&text, "<VersionId>")),
        (2, 2),
        "{text}"
    );
    assert_eq!(
        count(&text, "<IsCurrentVersion>true</IsCurrentVersion>"),
        1,
        "{text}"
    );
    find("&include=nonsense").is(400);
}

//! Lists of blobs as XML, and the names in them.

use super::{INVALID_PARAMETER, put_blob, request, with_container};
use crate::server::Service;

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
fn names_mean_what_they_say() {
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

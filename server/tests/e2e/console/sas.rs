//! Links signed by the console: they permit exactly what the page says.

use super::*;

/// The link on a page, without scheme and host, and the page's text.
fn link(server: &Server, query: &str) -> (String, String) {
    let text = html(&format!("sas/{ACCOUNT}?{query}"))
        .send(server)
        .is(200)
        .text();
    let (_, rest) = text.split_once("<code>http://127.0.0.1:").unwrap();
    let url = rest.split("</code>").next().unwrap().replace("&amp;", "&");
    let target = &url[url.find('/').unwrap()..];
    (target.to_owned(), text)
}

fn opened(server: &Server, service: Service, method: &str, target: &str) -> Response {
    Request::exactly(service, method, target)
        .unsigned()
        .without("x-ms-version")
        .send(server)
}

#[test]
fn a_link_to_a_blob_or_container_allows_what_its_words_say() {
    let server = Server::fresh();
    of(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    of(Service::Blob, "PUT", "/photos/a%20b/l%C3%A4ke.txt")
        .header("x-ms-blob-type", "BlockBlob")
        .body("blue")
        .send(&server)
        .is(201);
    let (target, text) = link(
        &server,
        "service=blob&name=photos&blob=a%20b%2Fl%C3%A4ke.txt",
    );
    assert!(text.contains("Anyone who has this link may"), "{text}");
    assert!(text.contains("read its content") && !text.contains("<b>delete it</b>"));
    assert_eq!(
        opened(&server, Service::Blob, "GET", &target)
            .is(200)
            .text(),
        "blue"
    );
    opened(&server, Service::Blob, "DELETE", &target).is(403);
    let (target, text) = link(
        &server,
        "service=blob&name=photos&hours=1&may-r=yes&may-l=yes",
    );
    assert!(text.contains("<b>list its blobs</b>"), "{text}");
    let (path, query) = target.split_once('?').unwrap();
    let list = format!("{path}?restype=container&comp=list&{query}");
    assert!(
        opened(&server, Service::Blob, "GET", &list)
            .is(200)
            .text()
            .contains("<Name>a b/läke.txt</Name>")
    );
    let blob = format!("{path}/a%20b/l%C3%A4ke.txt?{query}");
    opened(&server, Service::Blob, "GET", &blob).is(200);
    let (target, text) = link(
        &server,
        "service=blob&name=photos&blob=x&hours=1&may-r=yes&https=yes&addresses=10.0.0.1",
    );
    assert!(text.contains("HTTPS only") && text.contains("10.0.0.1"));
    opened(&server, Service::Blob, "GET", &target).is(403);
}

#[test]
fn a_link_to_a_queue_or_table_allows_what_its_words_say() {
    let server = Server::fresh();
    of(Service::Queue, "PUT", "/orders").send(&server).is(201);
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Orders"}"#)
        .send(&server)
        .is(201);
    let (target, text) = link(&server, "service=queue&name=orders&hours=2&may-r=yes");
    assert!(text.contains("peek at its messages"), "{text}");
    let (path, query) = target.split_once('?').unwrap();
    let messages = format!("{path}/messages?peekonly=true&{query}");
    opened(&server, Service::Queue, "GET", &messages).is(200);
    let take = format!("{path}/messages?{query}");
    opened(&server, Service::Queue, "GET", &take).is(403);
    let (target, _) = link(&server, "service=table&name=Orders&hours=2&may-r=yes");
    let (path, query) = target.split_once('?').unwrap();
    opened(&server, Service::Table, "GET", &format!("{path}()?{query}")).is(200);
    Request::exactly(
        Service::Table,
        "DELETE",
        &format!("{path}(PartitionKey='p',RowKey='r')?{query}"),
    )
    .unsigned()
    .without("x-ms-version")
    .header("If-Match", "*")
    .send(&server)
    .is(403);
}

#[test]
fn a_link_without_a_permission_or_with_markup_is_no_link() {
    let server = Server::fresh();
    let text = html(&format!("sas/{ACCOUNT}?service=queue&name=q&hours=2"))
        .send(&server)
        .is(200)
        .text();
    assert!(text.contains("Choose at least one permission") && !text.contains("sig="));
    let evil = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E";
    let text = html(&format!(
        "sas/{ACCOUNT}?service=blob&name={evil}&blob={evil}&addresses={evil}"
    ))
    .send(&server)
    .is(200)
    .text();
    assert!(!text.contains("<img src=x"), "{text}");
    html(&format!("sas/{ACCOUNT}?service=file&name=q"))
        .send(&server)
        .is(400);
    html("sas/someone?service=queue&name=q")
        .send(&server)
        .is(404);
}

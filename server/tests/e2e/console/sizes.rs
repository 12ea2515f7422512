//! Pages of large containers, tables and queues stay short. Their times are measured by
//! `lazurite-bench run pages`.

use super::*;

/// Maximum number of bytes of a page.
const PAGE_BYTES_MAX: usize = 150 << 10;

/// Characters that become longer in HTML.
const GROWING: &str = "<&\">";

fn check(server: &Server, path: &str) {
    let response = html(path).send(server);
    let length = response.is(200).body.len();
    assert!(length <= PAGE_BYTES_MAX, "{path}: {length} bytes");
}

fn form(server: &Server, token: &str, path: &str, fields: &str) {
    page("POST", path)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("token={token}&{fields}"))
        .send(server)
        .is(303);
}

#[test]
fn pages_of_long_names_and_wide_entities_stay_under_150_kib() {
    let server = Server::fresh();
    let token = token(&server);
    let encoded = "%3C%26%22%3E";
    of(Service::Blob, "PUT", "/long?restype=container")
        .send(&server)
        .is(201);
    // Characters that do not show take more bytes in a page than others.
    of(Service::Blob, "PUT", "/unseen?restype=container")
        .send(&server)
        .is(201);
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Unseen"}"#)
        .send(&server)
        .is(201);
    let unseen = "\u{200b}\u{ad}".repeat(40);
    for number in 0..120 {
        let name = "%E2%80%8B%C2%AD".repeat(60);
        of(Service::Blob, "PUT", &format!("/unseen/{name}{number:03}"))
            .header("x-ms-blob-type", "BlockBlob")
            .send(&server)
            .is(201);
        of(Service::Table, "POST", "/Unseen")
            .json(format!(
                r#"{{"PartitionKey":"{unseen}","RowKey":"{unseen}{number:03}"}}"#
            ))
            .send(&server)
            .is(201);
    }
    check(&server, &format!("blobs/{ACCOUNT}/unseen"));
    check(&server, &format!("tables/{ACCOUNT}/Unseen"));
    let long = encoded.repeat(60);
    for number in 0..260 {
        of(Service::Blob, "PUT", &format!("/long/{long}{number:03}"))
            .header("x-ms-blob-type", "BlockBlob")
            .send(&server)
            .is(201);
    }
    of(Service::Blob, "PUT", "/long/text.json")
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-blob-content-type", "application/json")
        .body(format!("[{}1]", "\"\",".repeat(20_000)))
        .send(&server)
        .is(201);
    let container = format!("blobs/{ACCOUNT}/long");
    check(&server, &container);
    check(&server, &format!("{container}?view=flat&deleted=yes"));
    check(&server, &format!("{container}/blob?name=text.json"));
    check(&server, &format!("{container}/blob?name={long}000"));
    check(&server, &format!("{container}/delete"));
    check(&server, "advisor/heat");
    check(&server, "advisor/heat?from=40");
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Wide"}"#)
        .send(&server)
        .is(201);
    let cell = GROWING.repeat(50);
    let entity = |row: usize| {
        let properties = (0..100).map(|column| (format!("Column{column:03}"), cell.clone().into()));
        let mut object: serde_json::Map<String, Value> = properties.collect();
        object.insert("PartitionKey".to_owned(), "p".into());
        object.insert("RowKey".to_owned(), format!("{row:05}").into());
        Value::Object(object)
    };
    for row in 0..20 {
        of(Service::Table, "POST", "/Wide")
            .json(entity(row).to_string())
            .send(&server)
            .is(201);
    }
    let narrow: Vec<Value> = (0..1000)
        .map(
            |row| serde_json::json!({"PartitionKey": "q", "RowKey": format!("{row:05}"), "A": row}),
        )
        .collect();
    let text = percent_encoding::utf8_percent_encode(
        &Value::Array(narrow).to_string(),
        percent_encoding::NON_ALPHANUMERIC,
    )
    .to_string();
    let table = format!("tables/{ACCOUNT}/Wide");
    form(
        &server,
        &token,
        &format!("{table}/import"),
        &format!("text={text}"),
    );
    check(&server, &table);
    check(&server, &format!("{table}?top=1000"));
    check(
        &server,
        &format!("{table}?filter=PartitionKey%20eq%20%27q%27&top=1000"),
    );
    let boxes = |page: String| {
        let rows = page.split("name=\"item\" value=\"").skip(1);
        let row = |rest: &str| {
            let value = rest.split('"').next().unwrap().replace("&quot;", "\"");
            let value =
                percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
            format!("item={value}")
        };
        rows.map(row).collect::<Vec<_>>().join("&")
    };
    let rows = boxes(html(&table).send(&server).text());
    let report = confirmed(
        &server,
        &format!("{table}/rows"),
        &format!("act=delete&{rows}"),
    );
    assert!(report.len() <= PAGE_BYTES_MAX, "{} bytes", report.len());
    check(&server, &format!("{table}/undo?edit=1"));
}

#[test]
fn pages_of_long_messages_and_requests_stay_under_150_kib() {
    let server = Server::fresh();
    of(Service::Queue, "PUT", "/long").send(&server).is(201);
    let text = GROWING
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let text = text.repeat(10_000);
    for _ in 0..40 {
        of(Service::Queue, "POST", "/long/messages")
            .body(format!(
                "<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
            ))
            .send(&server)
            .is(201);
    }
    let queue = format!("queues/{ACCOUNT}/long");
    check(&server, &queue);
    check(&server, &format!("{queue}?filter=nothing"));
    let path = "%3C%26%22%3E".repeat(300);
    for _ in 0..120 {
        Request::exactly(Service::Blob, "GET", &format!("/{ACCOUNT}/{path}"))
            .unsigned()
            .header("User-Agent", &GROWING.repeat(100))
            .send(&server);
    }
    check(&server, "requests");
    check(&server, "requests?errors=yes");
    check(&server, "");
    check(&server, "engine");
}

//! The advisor over HTTP: a workload gets its advice, as JSON, in the log and from the command;
//! clients without the account's key get none.

use std::process::Command;

use serde_json::{Value, json};

use crate::blob::account_sas;
use crate::http::Request;
use crate::server::{ACCOUNT, Launch, Server, Service};

fn table(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
}

fn page(service: Service, name: &str) -> Request {
    Request::exactly(service, "GET", &format!("/_lazurite/{name}")).unsigned()
}

/// The names of the rules that fired, each with its resource.
fn given(server: &Server) -> Vec<(String, String)> {
    let report = page(Service::Blob, "advice").send(server).is(200).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let advice = report["advice"].as_array().unwrap().iter();
    advice
        .map(|advice| (text(&advice["rule"]), text(&advice["resource"])))
        .collect()
}

#[track_caller]
fn has(server: &Server, rule: &str, resource: &str) -> bool {
    given(server).contains(&(rule.to_owned(), resource.to_owned()))
}

fn insert(server: &Server, partition: &str, row: &str) {
    let entity = json!({ "PartitionKey": partition, "RowKey": row, "Mail": row });
    table("POST", "/Staff")
        .json(entity.to_string())
        .send(server)
        .is(201);
}

fn with_table(server: Server) -> Server {
    table("POST", "/Tables")
        .json(r#"{"TableName":"Staff"}"#)
        .send(&server)
        .is(201);
    server
}

#[test]
fn workload_over_http_gets_its_advice() {
    let server = with_table(Server::fresh());
    for number in 0..150 {
        insert(&server, "sales", &format!("{}", number * 37 % 150));
    }
    for _ in 0..6 {
        for filter in [
            "PartitionKey%20eq%20'sales'%20and%20Mail%20eq%20'7'",
            "RowKey%20eq%20'7'",
            "PartitionKey%20eq%20'sales'%20and%20(RowKey%20eq%20'7'%20or%20RowKey%20eq%20'8')",
        ] {
            let query = format!("/Staff()?$filter={filter}");
            table("GET", &query).send(&server).is(200);
        }
    }
    for rule in [
        "single-inserts",
        "unpadded-numbers",
        "wasteful-scan",
        "row-key-without-partition-key",
        "or-on-keys",
    ] {
        assert!(has(&server, rule, "Staff"), "{rule}: {:?}", given(&server));
    }
    assert_eq!(given(&server).len(), 5, "{:?}", given(&server));
    let report = page(Service::Table, "advice").send(&server).json();
    let advice = report["advice"].as_array().unwrap();
    let scan = advice.iter().find(|one| one["rule"] == "wasteful-scan");
    let request = &scan.unwrap()["requests"][0];
    assert_eq!(request["operation"], "QueryEntities");
    assert_eq!(
        request["resource"],
        "Staff?$filter=PartitionKey eq 'sales' and Mail eq '7'"
    );
    assert!(request["request_id"].as_str().unwrap().len() > 30);
    server.wait_for_log("\"wasteful-scan\"");
    server.wait_for_log("advice on Staff");
    assert_eq!(server.log().matches("\"wasteful-scan\"").count(), 1);
}

#[test]
fn reads_and_writes_of_the_same_entities_get_their_advice() {
    let server = with_table(Server::fresh());
    for row in 0..6 {
        insert(&server, "sales", &row.to_string());
    }
    let entity = |row: u32| format!("/Staff(PartitionKey='sales',RowKey='{row}')");
    let get = |row| {
        table("GET", &entity(row)).send(&server).is(200);
    };
    for _ in 0..6 {
        let query = "/Staff()?$filter=PartitionKey%20eq%20'sales'&$select=RowKey";
        table("GET", query).send(&server).is(200);
        (0..6).for_each(get);
    }
    let given_names =
        || -> Vec<String> { given(&server).into_iter().map(|(rule, _)| rule).collect() };
    assert_eq!(given_names(), ["n-plus-one"]);
    for _ in 0..10 {
        let query = table("GET", "/Staff()?$filter=RowKey%20eq%20'1'");
        let unwatched = query.header("x-lazurite-advisor", "ignore");
        unwatched.send(&server).is(200);
    }
    assert_eq!(given_names(), ["n-plus-one"]);
    let body = json!({ "Text": "x".repeat(2000) }).to_string();
    for _ in 0..25 {
        get(1);
        let put = table("PUT", &entity(1)).header("If-Match", "*");
        put.json(body.clone()).send(&server).is(204);
    }
    assert_eq!(
        given_names(),
        ["n-plus-one", "any-etag", "replace-for-merge"]
    );
}

#[test]
fn workload_as_the_guide_wants_it_gets_none() {
    let server = with_table(Server::fresh());
    for number in 0..150 {
        let partition = format!("p{}", number % 7);
        insert(&server, &partition, &format!("{:04}", number * 37 % 150));
    }
    for number in 0..150 {
        let entity = format!(
            "/Staff(PartitionKey='p{}',RowKey='{:04}')",
            number % 7,
            number * 37 % 150
        );
        table("GET", &entity).send(&server).is(200);
    }
    assert_eq!(given(&server), []);
}

/// A page of the console.
fn shown(server: &Server, path: &str) -> String {
    page(Service::Blob, path)
        .header("Accept", "text/html")
        .send(server)
        .is(200)
        .text()
}

#[test]
fn queues_and_blobs_get_advice_too() {
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--requests-kept=3")
        .start();
    let nothing = shown(&server, "advisor");
    assert!(nothing.contains("Nothing found. 21 rules"), "{nothing}");
    Request::new(Service::Queue, "PUT", "/work")
        .send(&server)
        .is(201);
    for _ in 0..60 {
        Request::new(Service::Queue, "GET", "/work/messages")
            .send(&server)
            .is(200);
    }
    assert!(has(&server, "busy-polling", "work"));
    Request::new(Service::Blob, "PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    for number in 0..12 {
        Request::new(Service::Blob, "PUT", "/con/a%20b")
            .header("x-ms-blob-type", "BlockBlob")
            .body(vec![number; 300_000])
            .send(&server)
            .is(201);
    }
    assert!(has(&server, "whole-upload", "con/a b"));
    let text = shown(&server, "advisor");
    for part in [
        "con/blob?name=a%20b\">con/a b</a>",
        "id=\"advice-1\"",
        "The blob was replaced 10 times",
        "Requests without a link are not among those that Requests keeps.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The ring still has two of the five requests; its third one came after the advice.
    assert_eq!(text.matches("href=\"/_lazurite/requests/").count(), 2);
    let queues = shown(&server, "advisor?service=queue");
    assert!(queues.contains("busy-polling</code></a></dd>") && !queues.contains("a b</a>"));
    let none = shown(&server, "advisor?filter=absent");
    assert!(none.contains("No piece of advice has these words."));
    assert!(shown(&server, "").contains("pieces of advice"));
}

#[test]
fn large_entities_and_returning_messages_are_noticed() {
    let server = with_table(Server::fresh());
    let mut entity = json!({ "PartitionKey": "p", "RowKey": "r" });
    for number in 0..230 {
        entity[format!("P{number}")] = json!(number);
    }
    table("POST", "/Staff")
        .json(entity.to_string())
        .send(&server)
        .is(201);
    assert!(has(&server, "large-entity", "Staff"));
    Request::new(Service::Queue, "PUT", "/work")
        .send(&server)
        .is(201);
    Request::new(Service::Queue, "POST", "/work/messages")
        .body("<QueueMessage><MessageText>a</MessageText></QueueMessage>")
        .send(&server)
        .is(201);
    let between = |text: &str, from: &str| -> Option<String> {
        let (_, rest) = text.split_once(from)?;
        Some(rest.split_once('<')?.0.to_owned())
    };
    let mut taken = 0;
    while taken < 7 {
        let get = "/work/messages?visibilitytimeout=1";
        let message = Request::new(Service::Queue, "GET", get)
            .send(&server)
            .text();
        let Some(id) = between(&message, "<MessageId>") else {
            continue;
        };
        let receipt = between(&message, "<PopReceipt>").unwrap();
        taken += 1;
        let receipt = receipt.replace('+', "%2B").replace('=', "%3D");
        let release = format!("/work/messages/{id}?popreceipt={receipt}&visibilitytimeout=0");
        Request::new(Service::Queue, "PUT", &release)
            .send(&server)
            .is(204);
    }
    assert!(has(&server, "returning-messages", "work"));
}

#[test]
fn heat_map_counts_the_entities_of_partitions() {
    let server = with_table(Server::fresh());
    insert(&server, "one", "1");
    insert(&server, "two", "1");
    let change = |row: u32| {
        let body = json!({ "PartitionKey": "two", "RowKey": format!("x{row}") });
        format!(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://h/{ACCOUNT}/Staff HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{body}\r\n"
        )
    };
    let changes: String = (0..5).map(change).collect();
    table("POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{changes}--c--\r\n--b--\r\n"
        ))
        .send(&server)
        .is(202);
    let map = page(Service::Queue, "heatmap").send(&server).is(200).json();
    let rows = map["rows"].as_array().unwrap().iter();
    let rows: Vec<(&str, u64)> = rows
        .map(|row| {
            (
                row["partition"].as_str().unwrap(),
                row["total"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows, [("two", 6), ("one", 1)]);
    assert_eq!(map["splits"], json!([]));
    assert_eq!(map["minutes"], 60);
    let text = shown(&server, "advisor/heat");
    assert!(text.contains("No table needs a split.") && text.contains("Showing 2 of 2 partitions"));
    let one =
        "advisor/partition?service=table&account=devstoreaccount1&resource=Staff&partition=two";
    let text = shown(&server, one);
    assert!(
        text.contains("filter=PartitionKey%20eq%20%27two%27"),
        "{text}"
    );
}

#[test]
fn command_prints_the_advice() {
    let server = with_table(Server::fresh());
    let run = |text: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_lazurite"))
            .args(["advice", "--connection-string", text])
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let connection_string = server.connection_string();
    let (success, text) = run(&connection_string);
    assert!(success && text.starts_with("no advice after "), "{text}");
    for _ in 0..6 {
        let query = "/Staff()?$filter=RowKey%20eq%20'7'";
        table("GET", query).send(&server).is(200);
    }
    let (success, text) = run(&connection_string);
    assert!(success, "{text}");
    assert!(
        text.starts_with("Filters name RowKey without PartitionKey (table Staff, account devst"),
        "{text}"
    );
    assert!(
        text.ends_with("1 piece of advice after 7 requests\n"),
        "{text}"
    );
    let (success, text) = run(&connection_string.replace("Eby8", "Eby9"));
    assert!(!success && text.contains("lazurite doctor"), "{text}");
    let (success, text) = run("BlobEndpoint=http://127.0.0.1:1/a;SharedAccessSignature=sig=x");
    assert!(!success && text.contains("key of the account"), "{text}");
}

#[test]
fn command_asks_an_endpoint_that_names_the_account_in_its_host() {
    let server = Server::fresh();
    for service in Service::ALL {
        let endpoint = server.endpoint(service);
        let (_, port) = endpoint.rsplit_once(':').unwrap();
        let port = port.strip_suffix(&format!("/{ACCOUNT}")).unwrap();
        // Not every system resolves `*.localhost`; the command must reach the server anyway.
        let text = format!(
            "AccountName={ACCOUNT};AccountKey={};{service:?}Endpoint=http://{ACCOUNT}.{}.localhost:{port}/",
            crate::server::KEY,
            format!("{service:?}").to_lowercase()
        );
        let output = Command::new(env!("CARGO_BIN_EXE_lazurite"))
            .args(["advice", "--connection-string", &text])
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let is_answered = text.starts_with("no advice after 0 requests");
        assert!(
            output.status.success() && is_answered,
            "{service:?}: {text}"
        );
        let host = format!("{ACCOUNT}.blob.localhost:{port}");
        let own = Request::exactly(service, "GET", "/_lazurite/advice")
            .without("Host")
            .header("Host", &host);
        own.send(&server).is(200);
        assert_ne!(own.unsigned().send(&server).status, 200);
    }
}

#[test]
fn requests_inside_a_blob_batch_are_watched() {
    let server = Server::fresh();
    let blob = |method: &str, target: &str| Request::new(Service::Blob, method, target);
    blob("PUT", "/con?restype=container").send(&server).is(201);
    for name in ["a", "b", "c"] {
        blob("PUT", &format!("/con/{name}"))
            .header("x-ms-blob-type", "BlockBlob")
            .send(&server)
            .is(201);
    }
    let sas = account_sas("d", "b", "o", "", "https,http");
    let delete = |name: &str| {
        format!(
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 1\r\n\r\n\
             DELETE /{ACCOUNT}/con/{name}?{sas} HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
        )
    };
    blob("POST", "/?comp=batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(format!("{}{}--b--\r\n", delete("a"), delete("b")))
        .send(&server)
        .is(202);
    let map = page(Service::Blob, "heatmap").send(&server).is(200).json();
    let mut rows: Vec<(String, u64)> = map["rows"].as_array().unwrap().iter().map(row).collect();
    rows.sort();
    let watched = [("a", 2), ("b", 2), ("c", 1)];
    let watched = watched.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(rows, watched);
}

/// The partition and the total of a row of the heat map.
fn row(row: &Value) -> (String, u64) {
    let partition = row["partition"].as_str().unwrap();
    (partition.to_owned(), row["total"].as_u64().unwrap())
}

#[test]
fn advice_is_for_this_machine_and_for_owners() {
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .environment(
            "AZURITE_ACCOUNTS",
            &format!("{ACCOUNT}:{};other:QUFBQQ==", crate::server::KEY),
        )
        .start();
    let server = with_table(server);
    for _ in 0..6 {
        let query = "/Staff()?$filter=RowKey%20eq%20'7'";
        table("GET", query).send(&server).is(200);
    }
    for name in ["advice", "heatmap"] {
        for service in Service::ALL {
            page(service, name).send(&server).is(200);
            page(service, name)
                .header("Host", "storage.example.com")
                .send(&server)
                .is(403);
            page(service, name)
                .header("Origin", "https://example.com")
                .send(&server)
                .is(403);
            page(service, name)
                .header("X-Forwarded-For", "10.1.1.1")
                .send(&server)
                .is(403);
            let own = Request::new(service, "GET", &format!("/_lazurite/{name}"));
            own.send(&server).is(200);
            let strange = own.unsigned().send(&server);
            assert_ne!(strange.status, 200, "{name} {service:?}");
        }
    }
    assert!(has(&server, "row-key-without-partition-key", "Staff"));
}

//! `--as-azure` and the targets of `/_lazurite/faults`: the limits that the hosted service
//! publishes.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Request, Response};
use crate::server::{Launch, Server, Service};
use crate::test_clock::page;

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

fn table(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target).header("Accept", "application/json")
}

fn create_table(server: &Server, name: &str) -> Response {
    let body = json!({ "TableName": name }).to_string();
    table("POST", "/Tables").json(body).send(server)
}

fn insert(server: &Server, partition: &str, row: &str) -> Response {
    let body = json!({ "PartitionKey": partition, "RowKey": row }).to_string();
    table("POST", "/Tab").json(body).send(server)
}

fn set(server: &Server, targets: &Value) {
    let body = json!({ "targets": targets }).to_string();
    page("PUT", "faults").body(body).send(server).is(200);
}

fn hits(server: &Server, target: &str) -> Value {
    let shown = page("GET", "faults").send(server).is(200).json();
    shown["targetHits"][target].clone()
}

fn advance(server: &Server, seconds: u32) {
    let body = json!({ "advance": seconds }).to_string();
    page("PUT", "clock").body(body).send(server).is(200);
}

/// A server with a container, a queue and a table, without targets.
fn with_one_of_each() -> Server {
    let server = Server::fresh();
    blob("PUT", "/con?restype=container").send(&server).is(201);
    queue("PUT", "/work").send(&server).is(201);
    create_table(&server, "Tab").is(201);
    server
}

fn busy(response: &Response, target: &str) {
    response.is(503).has_header("x-lazurite-fault", target);
    let after = response.header("retry-after").unwrap();
    assert!(matches!(after, "1" | "2"), "{after}");
}

#[test]
fn requests_beyond_a_target_are_busy_in_the_form_of_their_service() {
    let server = with_one_of_each();
    let put = |name: &str| {
        let put = blob("PUT", &format!("/con/{name}")).header("x-ms-blob-type", "BlockBlob");
        put.send(&server)
    };
    set(
        &server,
        &json!({ "blobRequests": 1, "partitionEntities": 2, "queueMessages": 3 }),
    );
    put("a").is(201);
    let refused = put("a");
    busy(&refused, "blobRequests");
    assert_eq!(refused.code(), "ServerBusy");
    assert_eq!(refused.element("Code").as_deref(), Some("ServerBusy"));
    put("b").is(201);

    insert(&server, "p", "1").is(201);
    table("GET", "/Tab(PartitionKey='p',RowKey='1')")
        .send(&server)
        .is(200);
    let refused = insert(&server, "p", "2");
    busy(&refused, "partitionEntities");
    assert_eq!(refused.json()["odata.error"]["code"], "ServerBusy");
    insert(&server, "q", "1").is(201);

    let message = "<QueueMessage><MessageText>m</MessageText></QueueMessage>";
    let send = || queue("POST", "/work/messages").body(message).send(&server);
    for _ in 0..3 {
        send().is(201);
    }
    busy(&send(), "queueMessages");
    queue("GET", "/work?comp=metadata").send(&server).is(200);
    assert_eq!(
        ["blobRequests", "partitionEntities", "queueMessages"].map(|name| hits(&server, name)),
        [1, 1, 1]
    );
}

#[test]
fn entities_of_batches_and_pages_and_messages_of_a_response_count_each() {
    let server = with_one_of_each();
    for row in ["1", "2", "3"] {
        insert(&server, "p", row).is(201);
    }
    let get = || table("GET", "/Tab()").send(&server);
    set(&server, &json!({ "partitionEntities": 3 }));
    get().is(200);
    busy(&get(), "partitionEntities");

    set(&server, &json!({}));
    let message = "<QueueMessage><MessageText>m</MessageText></QueueMessage>";
    let post = queue("POST", "/work/messages").body(message);
    post.send(&server).is(201);
    post.send(&server).is(201);
    set(&server, &json!({ "queueMessages": 2 }));
    let peek = queue("GET", "/work/messages?peekonly=true&numofmessages=2");
    peek.send(&server).is(200);
    busy(&peek.send(&server), "queueMessages");
}

/// Inserts this number of entities into partition `p` with batches.
fn fill(server: &Server, entities: u32) {
    let part = |row: u32| {
        let body = json!({ "PartitionKey": "p", "RowKey": format!("{row:05}"), "Mail": row });
        format!(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://h/devstoreaccount1/Tab HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{body}\r\n"
        )
    };
    for first in (0..entities).step_by(100) {
        let parts: String = (first..first + 100).map(part).collect();
        table("POST", "/$batch")
            .header("Content-Type", "multipart/mixed; boundary=b")
            .body(format!(
                "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n"
            ))
            .send(server)
            .is(202);
    }
}

#[test]
fn filter_that_examines_much_for_one_result_is_throttled_and_makes_its_partition_hot() {
    let server = with_one_of_each();
    fill(&server, 2000);
    set(&server, &json!("azure"));
    let ask = |filter: &str| {
        let statuses = (0..50).map(|_| {
            let answer = table("GET", &format!("/Tab()?$filter={filter}")).send(&server);
            answer.status
        });
        statuses.filter(|status| *status == 503).count()
    };
    let point = "PartitionKey%20eq%20'p'%20and%20RowKey%20eq%20'00007'";
    assert_eq!(ask(point), 0, "one row each");
    let is_hot = || {
        let advice = page("GET", "advice").send(&server).is(200).json();
        let mut advice = advice["advice"].as_array().unwrap().iter();
        advice.any(|one| one["rule"] == "hot-partition")
    };
    assert!(!is_hot());
    let hits_before = hits(&server, "partitionEntities");
    let refused = ask("PartitionKey%20eq%20'p'%20and%20Mail%20eq%207");
    assert!(refused >= 10, "{refused}");
    assert_eq!(hits_before, 0);
    assert_eq!(hits(&server, "partitionEntities"), refused);
    set(&server, &json!({}));
    assert_eq!(ask("Mail%20eq%207"), 0);
    assert!(is_hot());
    let map = page("GET", "heatmap").send(&server).is(200).json();
    assert_eq!(map["rows"][0]["partition"], "p");
    assert_eq!(map["rows"][0]["is_over_target"], true);
    assert!(map["rows"][0]["total"].as_u64().unwrap() >= 50 * 2000);
}

#[test]
fn account_target_counts_the_requests_of_all_services() {
    let server = with_one_of_each();
    set(&server, &json!({ "accountRequests": 2 }));
    blob("GET", "/?comp=list").send(&server).is(200);
    queue("GET", "/?comp=list").send(&server).is(200);
    let refused = table("GET", "/Tables").send(&server);
    busy(&refused, "accountRequests");
    assert!(refused.text().contains("over the account limit"));
}

#[test]
fn names_of_what_was_deleted_are_free_once_their_time_has_passed() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--as-azure").start();
    let container = || blob("PUT", "/con?restype=container").send(&server);
    let work = || queue("PUT", "/work").send(&server);
    container().is(201);
    work().is(201);
    create_table(&server, "Tab").is(201);
    blob("DELETE", "/con?restype=container")
        .send(&server)
        .is(202);
    queue("DELETE", "/work").send(&server).is(204);
    table("DELETE", "/Tables('Tab')").send(&server).is(204);

    let refused = container();
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "ContainerBeingDeleted")
    );
    let refused = work();
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "QueueBeingDeleted")
    );
    let refused = create_table(&server, "tAB");
    assert_eq!(
        refused.is(409).json()["odata.error"]["code"],
        "TableBeingDeleted"
    );
    // All operations on a table fail; on a container or queue, only its creation does.
    insert(&server, "p", "r").is(409);
    blob("GET", "/con?restype=container&comp=list")
        .send(&server)
        .is(404);
    queue("GET", "/work?comp=metadata").send(&server).is(404);

    advance(&server, 29);
    container().is(409);
    advance(&server, 2);
    container().is(201);
    work().is(201);
    create_table(&server, "Tab").is(409);
    advance(&server, 10);
    create_table(&server, "Tab").is(201);
    assert_eq!(hits(&server, "containerReuseSeconds"), 2);
    assert_eq!(hits(&server, "tableReuseSeconds"), 3);
}

#[test]
fn pages_of_a_query_end_with_their_partition_and_with_their_time() {
    let server = with_one_of_each();
    for partition in ["a", "b", "c"] {
        for row in ["1", "2"] {
            insert(&server, partition, row).is(201);
        }
    }
    let pages = || {
        let (mut pages, mut continuation) = (Vec::new(), String::new());
        loop {
            let page = table("GET", &format!("/Tab()?{continuation}")).send(&server);
            let page = page.is(200);
            pages.push(page.json()["value"].as_array().unwrap().len());
            let part = |name: &str| page.header(&format!("x-ms-continuation-{name}"));
            let Some(partition) = part("nextpartitionkey") else {
                return pages;
            };
            let row = part("nextrowkey").unwrap();
            continuation = format!("NextPartitionKey={partition}&NextRowKey={row}");
        }
    };
    assert_eq!(pages(), [6]);
    set(&server, &json!({ "pagePartitions": 1 }));
    assert_eq!(pages(), [2, 2, 2]);
    assert_eq!(hits(&server, "pagePartitions"), 2);
    set(&server, &json!({ "pagePartitions": 2 }));
    assert_eq!(pages(), [4, 2]);
    set(&server, &json!({ "querySeconds": 0 }));
    let more: Vec<String> = (0..150).map(|row| format!("{row:03}")).collect();
    for row in &more {
        insert(&server, "d", row).is(201);
    }
    assert_eq!(pages(), [100, 56]);
    assert_eq!(hits(&server, "querySeconds"), 1);
}

#[test]
fn published_targets_are_off_unless_they_are_asked_for() {
    let server = Server::fresh();
    let shown = page("GET", "faults").send(&server).is(200).json();
    assert_eq!(
        (&shown["targets"], &shown["targetHits"]),
        (&json!({}), &json!({}))
    );
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--as-azure").start();
    let published = json!({
        "accountRequests": 20000, "partitionEntities": 2000, "queueMessages": 2000, "blobRequests": 500, "querySeconds": 5,
        "pagePartitions": 1, "tableReuseSeconds": 40, "containerReuseSeconds": 30, "queueReuseSeconds": 30,
    });
    let shown = || page("GET", "faults").send(&server).is(200).json()["targets"].clone();
    assert_eq!(shown(), published);
    set(&server, &json!({ "blobRequests": 7 }));
    assert_eq!(shown(), json!({ "blobRequests": 7 }));
    page("DELETE", "faults").send(&server).is(200);
    assert_eq!(shown(), published);
    set(&server, &json!({}));
    assert_eq!(shown(), json!({}));
    set(&server, &json!("azure"));
    assert_eq!(shown(), published);
    let body = json!({ "rules": [], "targets": { "blobs": 1 } }).to_string();
    let refused = page("PUT", "faults")
        .body(body)
        .send(&server)
        .is(400)
        .json();
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("targets.blobs:"), "{message}");
}

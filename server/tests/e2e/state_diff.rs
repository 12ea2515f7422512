//! `/_lazurite/state/diff`: the differences between snapshots, the store and forks.

use serde_json::{Value, json};

use crate::http::Request;
use crate::server::{Server, Service};
use crate::state::{put, restore, state, take};
use crate::test_clock::{lazurite, page};

fn diff(server: &Server, parameters: &str) -> Value {
    let compared = state("GET", &format!("diff?{parameters}")).send(server);
    compared.is(200).json()
}

fn blob(method: &str, target: &str) -> Request {
    let request = Request::new(Service::Blob, method, target);
    if method == "PUT" && !target.contains('?') {
        return request.header("x-ms-blob-type", "BlockBlob");
    }
    request
}

fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

fn table(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
}

fn entity(row: &str, properties: Value) -> Request {
    let target = format!("/Things(PartitionKey='p',RowKey='{row}')");
    table("PUT", &target).json(properties.to_string())
}

fn message(server: &Server, text: &str) -> String {
    let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    let added = queue("POST", "/work/messages").body(body).send(server);
    added.is(201).element("MessageId").unwrap()
}

fn send_all(server: &Server, requests: &[Request]) {
    for request in requests {
        let status = request.send(server).status;
        assert!(
            (200..300).contains(&status),
            "{status}: {}",
            request.target()
        );
    }
}

/// A store with all kinds of resources that the tests change.
fn filled() -> Server {
    let server = Server::fresh();
    let made = [
        put("con"),
        put("gone"),
        blob("PUT", "/con/same")
            .body("same")
            .header("x-ms-meta-k", "v"),
        blob("PUT", "/con/content").body("before"),
        blob("PUT", "/con/longer").body("12"),
        blob("PUT", "/con/facts")
            .header("x-ms-meta-k", "1")
            .header("x-ms-blob-content-type", "a/b"),
        blob("PUT", "/con/old"),
        blob("PUT", "/gone/in"),
        queue("PUT", "/work"),
        table("POST", "/Tables").json(r#"{"TableName":"Things"}"#),
        entity("same", json!({"N": 1, "Text": "x"})),
        entity(
            "changed",
            json!({"N": 1, "Gone": true, "Same": "s", "Typed": 5}),
        ),
        entity("old", json!({})),
    ];
    send_all(&server, &made);
    server
}

/// A line for each change: its kind and resource, and the values that differ.
fn lines(answer: &Value) -> Vec<String> {
    let names = [
        "container",
        "blob",
        "snapshot",
        "queue",
        "messageId",
        "table",
        "partitionKey",
        "rowKey",
    ];
    let changes = answer["changes"].as_array().unwrap().iter();
    changes
        .map(|change| {
            let names = names.iter().filter_map(|name| change[name].as_str());
            let mut line = format!(
                "{} {}",
                change["change"].as_str().unwrap(),
                change["kind"].as_str().unwrap()
            );
            for name in names {
                line += &format!(" {name}");
            }
            if change["change"] == "changed" {
                for value in change["values"].as_array().unwrap() {
                    let [part, name] = ["part", "name"].map(|field| value[field].as_str().unwrap());
                    line += &format!(" {part}.{name}={}>{}", value["old"], value["new"]);
                }
            }
            line
        })
        .collect()
}

#[test]
fn every_kind_of_change_is_seen_and_nothing_where_nothing_changed() {
    let server = filled();
    let (first, second) = (message(&server, "kept"), message(&server, "taken"));
    take(&server, "before");
    assert_eq!(
        diff(&server, "from=before"),
        json!({"count": 0, "truncated": false, "changes": []})
    );
    let writes = [
        put("new").header("x-ms-meta-a", "b"),
        blob("DELETE", "/gone?restype=container"),
        // Rewritten with the same bytes, so that only the ETag differs.
        blob("PUT", "/con/same")
            .body("same")
            .header("x-ms-meta-k", "v"),
        blob("PUT", "/con/content").body("after!"),
        blob("PUT", "/con/longer").body("123"),
        blob("PUT", "/con/facts?comp=metadata").header("x-ms-meta-k", "2"),
        // The request clears the properties that it does not name.
        blob("PUT", "/con/facts?comp=properties").header("x-ms-blob-content-type", "c/d"),
        blob("PUT", "/con/facts?comp=tags")
            .body("<Tags><TagSet><Tag><Key>t</Key><Value>v</Value></Tag></TagSet></Tags>"),
        blob("PUT", "/con/facts?comp=tier").header("x-ms-access-tier", "Cool"),
        blob("DELETE", "/con/old"),
        blob("PUT", "/con/young"),
        queue("PUT", "/work?comp=metadata").header("x-ms-meta-q", "1"),
        queue("PUT", "/other"),
        table("POST", "/Tables").json(r#"{"TableName":"More"}"#),
        entity("same", json!({"N": 1, "Text": "x"})),
        entity(
            "changed",
            json!({"N": 2, "Same": "s", "Typed": "5", "New": "n"}),
        ),
        entity("young", json!({"N": 1})),
        table("DELETE", "/Things(PartitionKey='p',RowKey='old')").header("If-Match", "*"),
    ];
    send_all(&server, &writes);
    let taken = queue("GET", "/work/messages?numofmessages=2&visibilitytimeout=1").send(&server);
    let receipts: Vec<_> = taken
        .is(200)
        .text()
        .split("<PopReceipt>")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap().to_owned())
        .collect();
    let target = format!(
        "/work/messages/{second}?popreceipt={}",
        receipts[1].replace('+', "%2B")
    );
    queue("DELETE", &target).send(&server).is(204);
    let third = message(&server, "late");

    let answer = diff(&server, "from=before&to=");
    let found = lines(&answer);
    let start = |part: &str| found.iter().find(|line| line.starts_with(part)).unwrap();
    let taken = start(&format!("changed message work {first}"));
    assert!(
        taken.contains(r#" message.dequeueCount="0">"1" message.visibleAt="#),
        "{taken}"
    );
    let content = start("changed blob con content");
    assert!(
        content.contains(r#" content.MD5=""#) && !content.contains("properties"),
        "{content}"
    );
    let others: Vec<_> = found
        .iter()
        .filter(|line| *line != taken && *line != content)
        .collect();
    let expected = [
        r#"changed blob con facts metadata.k="1">"2" properties.contentMD5="1B2M2Y8AsgTpgAmY7PhCfg==">null properties.contentType="a/b">"c/d" tags.t=null>"v" tier.tier=null>"Cool""#,
        r#"changed blob con longer content.bytes="2">"3""#,
        "deleted blob con old",
        "created blob con young",
        "deleted container gone",
        "deleted blob gone in",
        "created container new",
        "created queue other",
        r#"changed queue work metadata.q=null>"1""#,
        &format!("deleted message work {second}"),
        &format!("created message work {third}"),
        "created table More",
        r#"changed entity Things p changed properties.Gone="true">null properties.N="1">"2" properties.New=null>"n" properties.Typed="5">"5""#,
        "deleted entity Things p old",
        "created entity Things p young",
    ];
    assert_eq!(others, expected);
    assert_eq!(answer["count"], 17);
    let changes = answer["changes"].as_array().unwrap();
    let facts = changes
        .iter()
        .find(|change| change["blob"] == "facts")
        .unwrap();
    assert_eq!(
        facts["differs"],
        json!(["metadata", "properties", "tags", "tier"])
    );
    let typed = changes
        .iter()
        .find(|change| change["rowKey"] == "changed")
        .unwrap();
    let typed = typed["values"].as_array().unwrap().iter();
    let typed = typed
        .clone()
        .find(|value| value["name"] == "Typed")
        .unwrap();
    assert_eq!(
        (&typed["oldType"], &typed["newType"]),
        (&json!("Edm.Int32"), &json!("Edm.String"))
    );

    take(&server, "after");
    let again = diff(&server, "from=before&to=after");
    assert_eq!(again["count"], 17);
    assert_eq!(diff(&server, "from=after&to=before")["count"], 17);
    restore(&server, "before");
    assert_eq!(diff(&server, "from=before")["count"], 0);
    assert_eq!(lines(&diff(&server, "from=after")).len(), 17);
}

#[test]
fn fork_is_compared_with_its_source_and_with_the_store() {
    let server = filled();
    take(&server, "seed");
    put("later").send(&server).is(201);
    let fork = json!({"from": "seed", "name": "t1"}).to_string();
    state("POST", "forks").body(fork).send(&server).is(201);
    put("own").in_fork("t1").send(&server).is(201);
    assert_eq!(lines(&diff(&server, "fork=t1")), ["created container own"]);
    let with_store = ["deleted container later", "created container own"];
    assert_eq!(lines(&diff(&server, "fork=t1&from=now")), with_store);
    put("more").in_fork("t1").send(&server).is(201);
    assert_eq!(diff(&server, "fork=t1&from=seed")["count"], 2);
}

#[test]
fn changes_beyond_the_limit_are_counted_and_the_answer_says_so() {
    let server = filled();
    take(&server, "before");
    for number in 0..5 {
        put(&format!("new-{number}")).send(&server).is(201);
    }
    let answer = diff(&server, "from=before&limit=3");
    assert_eq!(
        (&answer["count"], &answer["truncated"]),
        (&json!(5), &json!(true))
    );
    assert_eq!(lines(&answer).len(), 3);
    let whole = diff(&server, "from=before&limit=5");
    assert_eq!(whole["truncated"], false);
    for limit in ["0", "10001", "x", "-1"] {
        let refused = state("GET", &format!("diff?limit={limit}")).send(&server);
        assert!(refused.is(400).text().contains("10000"), "{limit}");
    }
}

#[test]
fn unknown_names_are_not_found_and_a_comparison_leaves_nothing_behind() {
    let server = filled();
    take(&server, "one");
    for (parameters, code) in [
        ("from=two", "SnapshotNotFound"),
        ("from=one&to=two", "SnapshotNotFound"),
        ("from=..%2Fone", "SnapshotNotFound"),
        ("fork=none", "ForkNotFound"),
    ] {
        let refused = state("GET", &format!("diff?{parameters}")).send(&server);
        assert!(refused.is(404).text().contains(code), "{parameters}");
    }
    let foreign = state("GET", "diff?from=one").header("Origin", "https://example.com");
    foreign.send(&server).is(403);
    assert_eq!(diff(&server, "from=one")["count"], 0);
    let forks = state("GET", "forks").send(&server).is(200).json();
    assert_eq!(forks["forks"], json!([]));
}

#[test]
fn command_and_console_show_what_differs() {
    let server = filled();
    take(&server, "one");
    put("young").send(&server).is(201);
    let (succeeded, text) = lazurite(&server, &["state", "diff", "one"], None);
    assert!(succeeded && text.contains("+ container  young"), "{text}");
    let (succeeded, text) = lazurite(&server, &["state", "diff", "now", "one"], None);
    assert!(succeeded && text.contains("- container  young"), "{text}");
    let (succeeded, text) = lazurite(&server, &["state", "diff", "none"], None);
    assert!(!succeeded && text.contains("no snapshot"), "{text}");
    let shown = page("GET", "state?compare=1&from=one&to=now").send(&server);
    let shown = shown.is(200).text();
    assert!(
        shown.contains("created") && shown.contains("young"),
        "{shown}"
    );
}

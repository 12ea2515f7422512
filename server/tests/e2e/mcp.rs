//! `lazurite mcp`: the Model Context Protocol over standard input and output, as a client speaks
//! it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::http::Request;
use crate::server::{Server, Service};

/// An MCP session: its process and the id of its last request.
struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Session {
    fn begin(server: &Server, arguments: &[&str]) -> Session {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lazurite"))
            .arg("mcp")
            .args(arguments)
            .env(
                "AZURE_STORAGE_CONNECTION_STRING",
                server.connection_string(),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        let mut session = Session {
            process,
            input,
            output: BufReader::new(output),
            last: 0,
        };
        let client = json!({"name": "test", "version": "1"});
        let begun = session.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
        );
        assert_eq!(begun["serverInfo"]["name"], "lazurite");
        session.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    /// The result of a request.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the session ended"
            );
            let mut message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].take();
            }
        }
    }

    /// The result of a tool; `Err` with its sentence if the tool failed.
    fn call(&mut self, name: &str, arguments: Value) -> Result<Value, String> {
        let result = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        match result["isError"].as_bool() {
            Some(true) => Err(text),
            _ => Ok(serde_json::from_str(&text).unwrap()),
        }
    }

    fn names(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap();
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        tools.iter().map(name).collect()
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn seeded() -> Server {
    let server = Server::fresh();
    let new = |service, method, target| Request::new(service, method, target);
    new(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    new(Service::Blob, "PUT", "/photos/2026/notes.txt")
        .header("x-ms-blob-type", "BlockBlob")
        .body("blue")
        .send(&server)
        .is(201);
    new(Service::Queue, "PUT", "/orders").send(&server).is(201);
    new(Service::Queue, "POST", "/orders/messages")
        .body("<QueueMessage><MessageText>order 7</MessageText></QueueMessage>")
        .send(&server)
        .is(201);
    new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"People"}"#)
        .send(&server)
        .is(201);
    new(Service::Table, "POST", "/People")
        .json(r#"{"PartitionKey":"Sales","RowKey":"1","Age":34}"#)
        .send(&server)
        .is(201);
    new(Service::Blob, "GET", "/photos/none")
        .send(&server)
        .is(404);
    server
}

#[test]
fn an_assistant_reads_the_store_and_learns_why_a_request_failed() {
    let server = seeded();
    let mut session = Session::begin(&server, &[]);
    let names = session.names();
    assert_eq!(
        names,
        [
            "advice",
            "check_design",
            "compare_state",
            "get_entity",
            "list",
            "peek_messages",
            "query_entities",
            "read_blob",
            "request",
            "requests",
            "status"
        ]
    );
    let all = session.call("list", json!({})).unwrap();
    assert_eq!(
        all["entries"],
        json!([{"kind": "container", "name": "photos"}, {"kind": "queue", "name": "orders"}, {"kind": "table", "name": "People"}])
    );
    let directory = session.call("list", json!({"path": "photos/"})).unwrap();
    assert_eq!(directory["entries"][0]["kind"], "directory");
    let blob = json!({"path": "photos/2026/notes.txt"});
    assert_eq!(session.call("read_blob", blob).unwrap()["text"], "blue");
    let query = json!({"table": "People", "filter": "PartitionKey eq 'Sales'"});
    let found = session.call("query_entities", query).unwrap();
    assert_eq!(found["entities"][0]["Age"], 34);
    assert!(found["plan"].as_str().unwrap().starts_with("plan "));
    let peeked = session.call("peek_messages", json!({"queue": "orders"}));
    assert_eq!(peeked.unwrap()["messages"][0]["text"], "order 7");
    let failed = session
        .call("requests", json!({"errors_only": true}))
        .unwrap();
    let record = &failed["requests"][0];
    assert_eq!(record["code"], "BlobNotFound");
    let opened = session.call("request", json!({"id": record["request_id"]}));
    assert!(opened.unwrap()["request_headers"].is_array());
    assert!(session.call("advice", json!({})).unwrap()["advice"].is_array());
    let mistake = json!({"table": "People", "filter": "PartitionKey eq Sales"});
    let sentence = session.call("query_entities", mistake).unwrap_err();
    assert!(sentence.contains("quotes"), "{sentence}");
    let design = r#"tables.T = { rows = 50, partition-key = "C", row-key = "N", properties = { C = { text = "c{}", of = 5 }, N = { text = "{}" } } }
        patterns = [{ name = "by C", table = "T", does = "query", filter = "C eq {C}", per-second = 1, must = { plan = "partition scan" } }]"#;
    let checked = session
        .call("check_design", json!({ "toml": design }))
        .unwrap();
    assert_eq!(
        (&checked["passes"], &checked["patterns"][0]["plan"]),
        (&json!(false), &json!("table scan"))
    );
    let unknown = session
        .call("list", json!({"container": "photos"}))
        .unwrap_err();
    assert!(unknown.contains("unknown field `container`"), "{unknown}");
    let missing = session.call("query_entities", json!({})).unwrap_err();
    assert!(missing.contains("`table`"), "{missing}");
    session.end();
}

#[test]
fn an_assistant_writes_only_where_that_is_allowed() {
    let server = seeded();
    let mut session = Session::begin(&server, &[]);
    let put = json!({"path": "photos/new.txt", "text": "green"});
    let refused = session.call("put_blob", put.clone()).unwrap_err();
    assert!(refused.contains("--allow-writes"), "{refused}");
    assert!(
        session
            .call("dance", json!({}))
            .unwrap_err()
            .contains("no tool")
    );
    session.end();
    let mut session = Session::begin(&server, &["--allow-writes"]);
    session.call("put_blob", put).unwrap();
    let got = Request::new(Service::Blob, "GET", "/photos/new.txt").send(&server);
    assert_eq!(got.is(200).text(), "green");
    for (kind, name) in [("container", "made"), ("queue", "made"), ("table", "Made")] {
        session
            .call("create", json!({"kind": kind, "name": name}))
            .unwrap();
    }
    let entity = json!({"PartitionKey": "it's", "RowKey": "a b", "Serial@odata.type": "Edm.Int64", "Serial": "7"});
    session
        .call("put_entity", json!({"table": "Made", "entity": entity}))
        .unwrap();
    let found = session.call("query_entities", json!({"table": "Made"}));
    assert_eq!(found.unwrap()["entities"][0]["Serial"], "7");
    let keys = json!({"table": "Made", "partition_key": "it's", "row_key": "a b"});
    session.call("delete_entity", keys.clone()).unwrap();
    assert!(session.call("delete_entity", keys).is_err());
    session
        .call("send_message", json!({"queue": "made", "text": "<x>"}))
        .unwrap();
    let peeked = session.call("peek_messages", json!({"queue": "made"}));
    assert_eq!(peeked.unwrap()["messages"][0]["text"], "<x>");
    session
        .call("delete_blob", json!({"path": "photos/new.txt"}))
        .unwrap();
    Request::new(Service::Blob, "GET", "/photos/new.txt")
        .send(&server)
        .is(404);
    session
        .call("save_snapshot", json!({"name": "before"}))
        .unwrap();
    for number in 0..3 {
        let path = format!("photos/many/{number}");
        session
            .call("put_blob", json!({"path": path, "text": "x"}))
            .unwrap();
    }
    let compared = session.call("compare_state", json!({"from": "before"}));
    assert_eq!(compared.unwrap()["count"], 3);
    let copy = json!({"from": "photos/many", "to": "photos/copy", "recursive": true});
    assert_eq!(session.call("copy_blobs", copy).unwrap()["done"], 3);
    let few = json!({"path": "photos/many/", "expected_count": 2});
    let refused = session.call("delete_blobs", few).unwrap_err();
    assert!(
        refused.contains("It would delete 3, not 2. Nothing was deleted"),
        "{refused}"
    );
    let all = json!({"path": "photos/many/", "expected_count": 3});
    assert_eq!(session.call("delete_blobs", all).unwrap()["done"], 3);
    let entities = json!({"table": "People", "filter": "Age gt 1", "expected_count": 1});
    assert_eq!(
        session.call("delete_entities", entities).unwrap()["done"],
        1
    );
    session
        .call("restore_snapshot", json!({"name": "before"}))
        .unwrap();
    let keys = json!({"table": "People", "partition_key": "Sales", "row_key": "1"});
    assert_eq!(session.call("get_entity", keys).unwrap()["Age"], 34);
    let status = session.call("status", json!({})).unwrap();
    assert_eq!(status["snapshots"][0]["name"], "before");
    let evil = json!({"path": "photos/x", "text": "x", "content_type": "a\r\nx-evil: 1"});
    assert!(session.call("put_blob", evil).is_err());
    session.end();
}

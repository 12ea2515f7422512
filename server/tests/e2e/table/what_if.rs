//! `lazurite record` and `lazurite what-if`: a recorded workload, as it is and with other keys.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::transactions::{change, insert_change, transaction};
use super::{create_table, insert, request, with_table};
use crate::http::Request;
use crate::server::{Launch, Server, Service};
use crate::state::state;
use crate::transfers::wait_until;

fn lazurite(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    let connection = server.connection_string();
    command.args(arguments);
    command.env("AZURE_STORAGE_CONNECTION_STRING", connection);
    command
}

/// A record that is being written to `FILE`.
struct Recording {
    child: Child,
    directory: TempDir,
}

impl Recording {
    fn begin(server: &Server) -> Recording {
        let directory = TempDir::new().unwrap();
        let out = File::create(directory.path().join("record")).unwrap();
        let mut record = lazurite(server, &["record"]);
        let mut child = record.stdout(out).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 9];
        let said = child.stderr.as_mut().unwrap().read_exact(&mut first);
        said.unwrap();
        assert_eq!(&first, b"recording");
        Recording { child, directory }
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory.path().join("record")).unwrap();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        whole
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Ends the recording once the file has `count` lines. Returns its directory and its lines.
    fn end(mut self, count: usize) -> (TempDir, Vec<Value>) {
        wait_until("all requests are recorded", || self.lines().len() >= count);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let lines = self.lines();
        (self.directory, lines)
    }
}

/// Inserts 60 entities of 12 cities into the partition `all`.
fn fill(server: &Server) {
    for number in 0..60 {
        let (row, city) = (format!("{number:02}"), format!("c{}", number % 12));
        insert(
            server,
            &json!({ "PartitionKey": "all", "RowKey": row, "City": city, "Age": number }),
        )
        .is(201);
    }
}

fn what_if(server: &Server, directory: &TempDir, more: &[&str]) -> (bool, String) {
    let record = directory.path().join("record");
    let record = record.to_str().unwrap();
    let mut arguments = vec!["what-if", "T1x", "--record", record];
    arguments.extend(more);
    let output = lazurite(server, &arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_record_has_what_is_asked_of_tables_and_nothing_else() {
    let server = with_table();
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "before" })).is(201);
    let recording = Recording::begin(&server);
    insert(
        &server,
        &json!({ "PartitionKey": "p", "RowKey": "r", "Secret": "hush" }),
    )
    .is(201);
    transaction(
        &server,
        &[insert_change("p", "1"), insert_change("p", "2")].concat(),
    )
    .is(202);
    request("GET", "/T1x()?$filter=Secret%20eq%20'x'&$top=7")
        .send(&server)
        .is(200);
    request("DELETE", "/T1x(PartitionKey='p',RowKey='r')")
        .header("If-Match", "*")
        .send(&server)
        .is(204);
    request("GET", "/T1x(PartitionKey='p',RowKey='r')")
        .send(&server)
        .is(404);
    let (_directory, lines) = recording.end(5);
    let shown: Vec<_> = lines
        .iter()
        .map(|line| {
            format!(
                "{} {} {}",
                line["operation"], line["status"], line["row_keys"]
            )
        })
        .collect();
    let expected = [
        r#""InsertEntity" 201 ["r"]"#,
        r#""EntityGroupTransaction" 202 ["1","2"]"#,
        r#""QueryEntities" 200 null"#,
        r#""DeleteEntity" 204 ["r"]"#,
        r#""QueryEntity" 404 ["r"]"#,
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        (lines[2]["filter"].as_str(), lines[2]["top"].as_u64()),
        (Some("Secret eq 'x'"), Some(7))
    );
    assert!(!lines.iter().any(|line| line.to_string().contains("hush")));
    // The key of the account is needed.
    Request::exactly(Service::Table, "GET", "/_lazurite/record")
        .unsigned()
        .send(&server)
        .is(403);
}

#[test]
fn refused_transactions_are_recorded_and_count() {
    let server = with_table();
    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "1" })).is(201);
    let recording = Recording::begin(&server);
    let merge = |row: &str, etag: &str| {
        let target = format!("/T1x(PartitionKey='p',RowKey='{row}')");
        change("MERGE", &target, &format!("If-Match: {etag}\r\n"), "{}")
    };
    let old = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"";
    for changes in [
        [insert_change("p", "2"), insert_change("p", "1")].concat(),
        [merge("1", "*"), merge("none", "*")].concat(),
        [merge("1", old), insert_change("p", "3")].concat(),
        insert_change("p", "4"),
        // Refused for another reason: it has two partitions.
        [insert_change("p", "5"), insert_change("q", "5")].concat(),
    ] {
        transaction(&server, &changes).is(202);
    }
    let (directory, lines) = recording.end(5);
    let shown = lines.iter().map(|line| {
        format!(
            "{} {} {}",
            line["status"], line["refused"], line["row_keys"]
        )
    });
    let expected = [
        r#"202 409 ["2","1"]"#,
        r#"202 404 ["1","none"]"#,
        r#"202 412 ["1","3"]"#,
        r#"202 null ["4"]"#,
        r#"202 400 ["5","5"]"#,
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    let map = Request::exactly(Service::Table, "GET", "/_lazurite/heatmap").unsigned();
    let map = map.send(&server).is(200).json();
    assert_eq!(map["rows"][0]["total"], 1 + 2 + 2 + 2 + 1 + 2);
    let (success, text) = what_if(&server, &directory, &["--partition-key", "PartitionKey"]);
    assert!(success, "{text}");
    for line in [
        "3 writes and transactions that were refused (404, 409, 412): they count",
        "1 requests that were refused for another reason",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let with_json = ["--partition-key", "PartitionKey", "--json"];
    let (_, text) = what_if(&server, &directory, &with_json);
    let report: Value = serde_json::from_str(&text).unwrap();
    let of = &report["as_it_is"];
    assert_eq!(
        (&of["transactions"], &of["asked_entities"]),
        (&json!(4), &json!(7.0))
    );
}

#[test]
fn what_a_fork_is_asked_is_in_the_record_of_the_fork_alone() {
    let server = with_table();
    let record = |after: Option<u64>, fork: Option<&str>| {
        let after = after.map_or(String::new(), |after| format!("?after={after}"));
        let asked = request("GET", &format!("/_lazurite/record{after}"));
        let asked = match fork {
            None => asked,
            Some(fork) => asked.in_fork(fork),
        };
        asked.send(&server).is(200).json()
    };
    let get = |row: &str| request("GET", &format!("/T1x(PartitionKey='p',RowKey='{row}')"));
    state("POST", "forks")
        .body(json!({ "from": null, "name": "f" }).to_string())
        .send(&server)
        .is(201);
    let after = record(None, None)["next"].as_u64();
    get("1").send(&server).is(404);
    get("2").in_fork("f").send(&server).is(404);
    get("3").send(&server).is(404);
    for (fork, expected) in [(None, json!(["1", "3"])), (Some("f"), json!(["2"]))] {
        let page = record(after, fork);
        let lines = page["requests"].as_array().unwrap();
        let rows: Vec<_> = lines.iter().map(|line| &line["row_keys"][0]).collect();
        assert_eq!(json!(rows), expected);
        for line in lines {
            assert_eq!(line["account"], "devstoreaccount1");
            assert_eq!(line["fork"].as_str(), fork);
        }
    }
}

#[test]
fn other_keys_are_compared_in_a_fork() {
    let server = with_table();
    fill(&server);
    let recording = Recording::begin(&server);
    for number in 0..8 {
        let target = format!("/T1x()?$filter=City%20eq%20'c{number}'");
        request("GET", &target).send(&server).is(200);
    }
    request(
        "GET",
        "/T1x()?$filter=City%20eq%20'c1'%20and%20Age%20ge%2020",
    )
    .send(&server)
    .is(200);
    request("GET", "/T1x(PartitionKey='all',RowKey='07')")
        .send(&server)
        .is(200);
    let (directory, _) = recording.end(10);

    let (success, proposed) = what_if(&server, &directory, &[]);
    assert!(
        success && proposed.contains(r#"--partition-key "City""#),
        "{proposed}"
    );

    let keys = [
        "--partition-key",
        "City",
        "--row-key",
        "pad(Age, 3) + '_' + RowKey",
    ];
    let page = directory.path().join("page.html");
    let with_page = [&keys[..], &["--html", page.to_str().unwrap()]].concat();
    let (success, text) = what_if(&server, &directory, &with_page);
    assert!(success, "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("PartitionKey = City") && page.matches("<svg").count() == 2);
    for line in [
        "City eq ?: table scan, 60 rows -> partition scan, 5 rows",
        "City eq ? and Age ge ?: table scan, 60 rows -> row range, 3 rows",
        "1 requests by keys that have to search",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("instead of"), "{text}");

    let json = [&keys[..], &["--copy", "--json"]].concat();
    let (_, text) = what_if(&server, &directory, &json);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["as_it_is"]["examined"], 9 * 60 + 1);
    assert_eq!(report["what_if"]["examined"], 8 * 5 + 3 + 1);
    assert_eq!(report["what_if"]["searches"], 0);
    assert_eq!(report["answers_differ"], 0);
    // The server's own data is as before, and no fork is left.
    let forks = lazurite(&server, &["state", "list", "--json"])
        .output()
        .unwrap();
    let forks: Value = serde_json::from_slice(&forks.stdout).unwrap();
    assert_eq!(forks["forks"], json!([]));
    let tables = request("GET", "/Tables").send(&server).is(200).json();
    assert_eq!(tables["value"].as_array().unwrap().len(), 1);
}

/// The texts of all log blobs of the account.
fn logs(server: &Server) -> String {
    let blob = |target: &str| Request::new(Service::Blob, "GET", target).send(server);
    let listed = blob("/$logs?restype=container&comp=list").text();
    let names = listed.split("<Name>").skip(1);
    let names = names.filter_map(|rest| rest.split("</Name>").next());
    names
        .map(|name| blob(&format!("/$logs/{name}")).is(200).text())
        .collect()
}

/// Writes the logs into the record of `directory`, once they have so many lines of an operation.
fn download_logs(server: &Server, directory: &TempDir, operation: &str, count: usize) {
    let has_all = || logs(server).matches(&format!(";{operation};")).count() >= count;
    wait_until("the requests are in the logs", has_all);
    fs::write(directory.path().join("record"), logs(server)).unwrap();
}

#[test]
fn the_logs_of_the_account_are_the_same_record() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--log-interval=1")
        .start();
    create_table(&server);
    fill(&server);
    // A key with the marks of the format of logs.
    let odd =
        json!({ "PartitionKey": "it's; \"a\" & <b>", "RowKey": "é+%41", "City": "c0", "Age": 99 });
    insert(&server, &odd).is(201);
    let logging = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read>\
                   <Write>true</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging></StorageServiceProperties>";
    request("PUT", "/?restype=service&comp=properties")
        .body(logging)
        .send(&server)
        .is(202);
    let recording = Recording::begin(&server);
    let get = |target: &str| request("GET", target).send(&server);
    for number in 0..8 {
        get(&format!("/T1x()?$filter=City%20eq%20'c{number}'")).is(200);
    }
    get("/T1x()?%24filter=City+eq+'c1'+and+Age+ge+20&$select=Age").is(200);
    // A scan in four pages.
    let scan = "/T1x()?$filter=Age%20ge%200&$top=20";
    let mut more = String::new();
    loop {
        let page = get(&format!("{scan}{more}"));
        page.is(200);
        let next = |name: &str| page.header(&format!("x-ms-continuation-{name}"));
        let Some(partition) = next("NextPartitionKey") else {
            break;
        };
        let row = next("NextRowKey").unwrap();
        more = format!("&NextPartitionKey={partition}&NextRowKey={row}");
    }
    get("/T1x(PartitionKey='all',RowKey='07')").is(200);
    get("/T1x(PartitionKey='it''s%3B%20%22a%22%20%26%20%3Cb%3E',RowKey='%C3%A9%2B%2541')").is(200);
    get("/T1x(PartitionKey='all',RowKey='none')").is(404);
    let (directory, _) = recording.end(16);
    let keys = [
        "--partition-key",
        "City",
        "--row-key",
        "pad(Age, 3) + '_' + RowKey",
    ];
    let with_json = [&keys[..], &["--json"]].concat();
    let (success, recorded) = what_if(&server, &directory, &with_json);
    assert!(success, "{recorded}");
    download_logs(&server, &directory, "QueryEntity", 3);
    let (success, logged) = what_if(&server, &directory, &with_json);
    assert!(success, "{logged}");
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(json(&logged), json(&recorded));
    // Each of nine scans for a city examines all 61 rows. So does the scan in four pages, three of
    // which examine one row more, to find out that more follows. Each of three reads by keys
    // examines one.
    assert_eq!(json(&logged)["as_it_is"]["examined"], 9 * 61 + 61 + 3 + 3);

    insert(&server, &json!({ "PartitionKey": "p", "RowKey": "r" })).is(201);
    transaction(&server, &insert_change("p", "1")).is(202);
    download_logs(&server, &directory, "EntityGroupTransaction", 1);
    let (success, text) = what_if(&server, &directory, &keys);
    assert!(success, "{text}");
    for line in [
        "City eq ?: table scan, 63 rows -> partition scan, 5 rows",
        "1 requests that name entities which are no longer there",
        "1 requests whose keys the log does not say",
        "1 transactions of any table",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let server = with_table();
    fill(&server);
    insert(&server, &json!({ "PartitionKey": "all", "RowKey": "x" })).is(201);
    let recording = Recording::begin(&server);
    request("GET", "/T1x()?$filter=City%20eq%20'c1'")
        .send(&server)
        .is(200);
    let (directory, _) = recording.end(1);
    let (success, text) = what_if(&server, &directory, &["--partition-key", "City"]);
    assert!(
        success && text.contains("WARNING: 1 entities have no such keys"),
        "{text}"
    );
    let one = ["--partition-key", "'one'", "--row-key", "'one'"];
    let (success, text) = what_if(&server, &directory, &one);
    assert!(
        success && text.contains("WARNING: 60 entities would be overwritten"),
        "{text}"
    );
    let (success, text) = what_if(&server, &directory, &["--partition-key", "city"]);
    assert!(
        !success && text.contains("no entity has such keys"),
        "{text}"
    );
    let (success, text) = what_if(&server, &directory, &["--partition-key", "year(City)"]);
    assert!(
        !success && text.contains("'year(City)' is not a key: functions are"),
        "{text}"
    );
    let record = directory.path().join("record");
    fs::write(&record, "{}\n").unwrap();
    let (success, text) = what_if(&server, &directory, &["--partition-key", "City"]);
    assert!(
        !success && text.contains("line 1 is no record: missing field"),
        "{text}"
    );
    let merge = r#""operation":"MergeEntity","row_keys":[],"partition_key":"p""#;
    let query = r#""operation":"QueryEntities","filter":"City eq","returned":18446744073709551615"#;
    let refused = r#""operation":"QueryEntities","refused":403"#;
    let cases = [
        (merge, "it does not have the keys of 1, and 0 were refused"),
        (
            refused,
            "all of its 1 requests to the table T1x were refused",
        ),
        (query, "City"),
    ];
    for (more, reason) in cases {
        let line = |at: u64| {
            let rest = r#""account":"a","table":"T1x","status":200"#;
            format!("{{\"at_ms\":{at},{rest},{more}}}\n")
        };
        let by_city = ["--partition-key", "City"];
        // An editor of Windows has saved the record.
        fs::write(&record, format!("\u{feff}{}", line(5))).unwrap();
        let (success, text) = what_if(&server, &directory, &by_city);
        assert!(
            !success && text.contains(reason) && !text.contains("panicked"),
            "{text}"
        );
        fs::write(&record, [line(5), line(u64::MAX)].concat()).unwrap();
        let (success, text) = what_if(&server, &directory, &by_city);
        assert!(
            !success && text.contains("spans more than a week"),
            "{text}"
        );
    }
    fs::write(&record, "").unwrap();
    let (success, text) = what_if(&server, &directory, &[]);
    assert!(
        !success && text.contains("none of its 0 requests is to the table T1x"),
        "{text}"
    );
}

//! `lazurite design check`: a file of tables and patterns, built and measured.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::with_table;
use crate::server::Server;

const DESIGN: &str = r#"
[tables.T1x]
rows = 1200
partition-key = "Customer"
row-key = "inverted(Placed)"

[tables.T1x.properties]
Customer = { text = "it's {}", of = 40 }
Placed = { instant = "2026-01-01T00:00:00Z", every = 60 }
Status = { one-of = ["open", "paid"] }

[[patterns]]
name = "newest of a customer"
table = "T1x"
does = "query"
filter = "PartitionKey eq {Customer}"
top = 5
per-second = 20
must = { plan = "partition scan", examined = 20, requests = 1 }

[[patterns]]
name = "new order"
table = "T1x"
does = "insert"
per-second = 5
must = { plan = "point", requests = 1 }
"#;

const SCAN: &str = r#"
[[patterns]]
name = "open ones"
table = "T1x"
does = "query"
filter = "Status eq 'open'"
per-second = 0.01
must = { plan = "partition scan", examined = 100 }
"#;

fn check(server: &Server, design: &str, more: &[&str]) -> (Option<i32>, String) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("design.toml");
    fs::write(&file, design).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .args(["design", "check"])
        .arg(&file)
        .args(more)
        .env(
            "AZURE_STORAGE_CONNECTION_STRING",
            server.connection_string(),
        )
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn a_design_passes_until_a_pattern_is_a_scan() {
    // The store has a table of that name, which stays as it is.
    let server = with_table();
    let (status, text) = check(&server, DESIGN, &[]);
    assert!(
        text.contains("everything that the file demands holds"),
        "{text}"
    );
    assert_eq!(status, Some(0));
    let (status, text) = check(&server, &[DESIGN, SCAN].concat(), &["--json"]);
    assert_eq!(status, Some(1), "{text}");
    let outcome: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcome["passes"], false);
    assert_eq!(outcome["patterns"][0]["failures"], serde_json::json!([]));
    let scan = &outcome["patterns"][2];
    assert_eq!(
        (scan["plan"].as_str(), scan["examined"].as_f64()),
        (Some("table scan"), Some(1200.0))
    );
    assert_eq!(scan["failures"].as_array().unwrap().len(), 2);
}

#[test]
fn rates_may_change_by_the_hour() {
    let server = with_table();
    let rates = "per-second = [ [0, 5], [9, 3000], [18, 50] ]\n";
    let design = DESIGN.replace("of = 40", "of = 1");
    let design = design
        .replace("per-second = 5\n", rates)
        .replace("examined = 20, ", "");
    let (status, text) = check(&server, &design, &[]);
    assert_eq!(status, Some(1), "{text}");
    for line in [
        "new order             mean 1139.38  point",
        "with 3,120 entities a second from 9:00 on",
        "entities of a minute at 9:00 are above the target of a partition",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // Without a terminal there is no line that says how far it is.
    assert!(
        !text.contains("rows are written") && !text.contains('\r'),
        "{text}"
    );
}

#[test]
fn one_partition_for_all_is_throttled() {
    let server = with_table();
    let design = DESIGN
        .replace("of = 40", "of = 1")
        .replace("per-second = 5\n", "per-second = 3000\n");
    let design = design.replace("examined = 20, ", "");
    let (status, text) = check(&server, &design, &[]);
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("partition 'it's 0' is asked for 3120 a second"),
        "{text}"
    );
}

#[test]
fn files_that_make_no_sense_are_refused() {
    let server = with_table();
    for (from, to, reason) in [
        ("rows = 1200", "rowz = 1200", "unknown field `rowz`"),
        (
            "inverted(Placed)",
            "Status",
            "have the keys of another one: make row-key unique",
        ),
        (
            "{Customer}\"",
            "{Client}\"",
            "the filter names Client, which is no property",
        ),
        ("of = 40", "of = 0", "there is no value to choose"),
        ("= 20\n", "= []\n", "a number for each of 24 hours"),
        (
            "every = 60",
            "every = 200_000_000",
            "the entities that it adds in a minute cannot be made",
        ),
    ] {
        let (status, text) = check(&server, &DESIGN.replace(from, to), &[]);
        assert!(
            status == Some(1) && text.contains(reason),
            "{status:?} {text}"
        );
    }
}

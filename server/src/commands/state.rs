//! `lazurite state`: resets, saves, restores and forks the store of a running server.

use crate::cli::{ResetArguments, StateAction};
use lazurite_base::terminal::{plain, print_line};
use lazurite_base::units::size;
use lazurite_mover::encode;
use lazurite_mover::target::Target;
use serde_json::{Value, json};
use std::process::ExitCode;

const RESET: &str = "/_lazurite/state/reset";

/// Sends the action to a running server. The error is a sentence.
pub fn run(action: &StateAction, target: &Target, as_json: bool) -> Result<ExitCode, String> {
    let answer = match action {
        StateAction::List => list(target)?,
        _ => {
            let (method, page, body) = request(action, &target.account);
            target.administer(method, &page, &body)?
        }
    };
    if as_json {
        // The JSON escapes control characters, which could act on a terminal.
        print_line(answer);
    } else {
        sentences(action, &target.account, &answer)
            .iter()
            .for_each(print_line);
    }
    Ok(ExitCode::SUCCESS)
}

fn list(target: &Target) -> Result<Value, String> {
    let page = |name: &str| target.administer("GET", &format!("/_lazurite/state/{name}"), "");
    let (snapshots, forks) = (page("snapshots")?, page("forks")?);
    Ok(json!({ "snapshots": snapshots["snapshots"], "forks": forks["forks"] }))
}

fn request(action: &StateAction, own_account: &str) -> (&'static str, String, String) {
    let page = |kind: &str, name: &str, end: &str| {
        let name = encode(name).replace('/', "%2F");
        format!("/_lazurite/state/{kind}/{name}{end}")
    };
    let (method, page) = match action {
        StateAction::Reset(part) => {
            return ("POST", RESET.to_owned(), reset_body(part, own_account));
        }
        StateAction::List => ("GET", "/_lazurite/state/snapshots".to_owned()),
        StateAction::Snapshot { name } => ("PUT", page("snapshots", name, "")),
        StateAction::Diff { .. } => ("GET", diff_page(action, own_account)),
        StateAction::Restore { name } => ("POST", page("snapshots", name, "/restore")),
        StateAction::Delete { name } => ("DELETE", page("snapshots", name, "")),
        StateAction::Release { name } => ("DELETE", page("forks", name, "")),
        StateAction::Fork { from, name } => {
            let body = json!({ "from": from, "name": name });
            let page = "/_lazurite/state/forks".to_owned();
            return ("POST", page, body.to_string());
        }
    };
    (method, page, String::new())
}

/// The body of a reset, which names the part to reset; empty for everything. If the arguments name
/// no account, the body names that of the connection string, which may be a fork.
fn reset_body(part: &ResetArguments, own_account: &str) -> String {
    if *part == ResetArguments::default() {
        return String::new();
    }
    let own_account = Some(own_account).filter(|name| !name.is_empty());
    let body = json!({
        "account": part.account.as_deref().or(own_account), "service": part.service, "container": part.container,
        "queue": part.queue, "table": part.table,
    });
    body.to_string()
}

fn diff_page(action: &StateAction, own_account: &str) -> String {
    let StateAction::Diff {
        from,
        to,
        fork,
        limit,
    } = action
    else {
        return String::new();
    };
    // The account of the connection string may be that of a fork.
    let own_fork = own_account.split_once("--").map(|(_, fork)| fork);
    let fork = fork.as_deref().or(own_fork);
    let given = [
        ("from", from.as_deref()),
        ("to", to.as_deref()),
        ("fork", fork),
    ];
    let parameters = given.into_iter().filter_map(|(name, value)| {
        let value = encode(value?).replace('/', "%2F");
        Some(format!("&{name}={value}"))
    });
    let parameters: String = parameters.collect();
    format!("/_lazurite/state/diff?limit={limit}{parameters}")
}

/// The lines of a comparison: `+` for created, `-` for deleted, `~` for changed.
fn changes(answer: &Value) -> Vec<String> {
    let listed = answer["changes"].as_array().cloned().unwrap_or_default();
    let mut lines: Vec<_> = listed.iter().flat_map(change_lines).collect();
    let count = answer["count"].as_u64().unwrap_or(0);
    lines.push(if answer["truncated"] == true {
        format!(
            "{count} changes, of which {} are printed (--limit)",
            listed.len()
        )
    } else if count == 0 {
        "nothing differs".to_owned()
    } else {
        format!("{count} changes")
    });
    lines
}

fn change_lines(change: &Value) -> Vec<String> {
    const NAMES: [&str; 9] = [
        "container",
        "blob",
        "snapshot",
        "versionId",
        "queue",
        "messageId",
        "table",
        "partitionKey",
        "rowKey",
    ];
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let sign = match change["change"].as_str() {
        Some("created") => '+',
        Some("deleted") => '-',
        _ => '~',
    };
    let names = NAMES.iter().filter_map(|name| change[name].as_str());
    let names: Vec<_> = names.map(plain).collect();
    let mut lines = vec![format!(
        "{sign} {:<9}  {}",
        text(&change["kind"]),
        names.join("/")
    )];
    if sign == '~' {
        let values = change["values"].as_array().cloned().unwrap_or_default();
        lines.extend(values.iter().map(|value| {
            let side = |side: &str| match &value[side] {
                Value::String(text) => format!("{:?}", plain(text)),
                _ => "nothing".to_owned(),
            };
            let (part, name) = (text(&value["part"]), text(&value["name"]));
            format!("    {part} {name}: {} -> {}", side("old"), side("new"))
        }));
    }
    lines
}

/// The outcome of a reset, with the names of the reset part from the innermost to the outermost.
fn reset_sentence(part: &ResetArguments, own_account: &str) -> String {
    if *part == ResetArguments::default() {
        return "the store is empty".to_owned();
    }
    let account = part.account.as_deref().unwrap_or(own_account);
    let inner = [&part.table, &part.queue, &part.container, &part.service];
    let inner = inner.into_iter().filter_map(|name| name.as_deref());
    let names: Vec<_> = inner.chain([account]).map(plain).collect();
    format!("deleted everything of {}", names.join(" of "))
}

/// The lines of text for a response.
fn sentences(action: &StateAction, own_account: &str, answer: &Value) -> Vec<String> {
    let text = |value: &Value| plain(value.as_str().unwrap_or("?"));
    match action {
        StateAction::Reset(part) => vec![reset_sentence(part, own_account)],
        StateAction::Diff { .. } => changes(answer),
        StateAction::Snapshot { name } => vec![format!("saved the store as the snapshot {name}")],
        StateAction::Restore { name } => vec![format!("restored the snapshot {name}")],
        StateAction::Delete { name } => vec![format!("deleted the snapshot {name}")],
        StateAction::Release { name } => vec![format!("ended the fork {name}")],
        StateAction::Fork { .. } => vec![text(&answer["connectionString"])],
        StateAction::List => {
            let list = |kind: &str| answer[kind].as_array().cloned().unwrap_or_default();
            let snapshots = list("snapshots").into_iter().map(|snapshot| {
                let bytes = snapshot["bytes"].as_u64();
                let size = bytes.map_or_else(|| "in memory".to_owned(), size);
                format!(
                    "snapshot  {}  {}  {size}",
                    text(&snapshot["time"]),
                    text(&snapshot["name"])
                )
            });
            let forks = list("forks").into_iter().map(|fork| {
                let from = match &fork["from"] {
                    Value::String(name) => format!("of {}", plain(name)),
                    _ => "of the store".to_owned(),
                };
                let idle = fork["idleSeconds"].as_u64().unwrap_or(0);
                let (time, name) = (text(&fork["time"]), text(&fork["name"]));
                format!("fork      {time}  {name}  {from}, idle for {idle} s")
            });
            let lines: Vec<_> = snapshots.chain(forks).collect();
            if lines.is_empty() {
                return vec!["no snapshots and no forks".to_owned()];
            }
            lines
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_segment_of_the_path() {
        let name = "../a/b?c".to_owned();
        let (_, page, _) = request(&StateAction::Delete { name }, "a");
        assert_eq!(page, "/_lazurite/state/snapshots/..%2Fa%2Fb%3Fc");
    }

    #[test]
    fn part_and_fork_are_those_of_the_connection_string_unless_others_are_named() {
        let reset = |account: Option<&str>, container: Option<&str>| {
            StateAction::Reset(ResetArguments {
                account: account.map(str::to_owned),
                container: container.map(str::to_owned),
                ..ResetArguments::default()
            })
        };
        let account = |action: &StateAction| {
            let (_, _, body) = request(action, "a--f");
            let body = serde_json::from_str::<Value>(&body).unwrap_or_default();
            body["account"].clone()
        };
        assert_eq!(account(&reset(None, Some("c"))), "a--f");
        assert_eq!(account(&reset(Some("b"), Some("c"))), "b");
        assert_eq!(account(&reset(None, None)), Value::Null);
        let action = reset(None, Some("c"));
        let said = sentences(&action, "a--f", &Value::Null);
        assert_eq!(said, ["deleted everything of c of a--f"]);
        let diff = StateAction::Diff {
            from: None,
            to: None,
            fork: None,
            limit: 7,
        };
        let (_, page, _) = request(&diff, "a--f");
        assert_eq!(page, "/_lazurite/state/diff?limit=7&fork=f");
    }

    #[test]
    fn diff_has_a_line_for_each_change_and_each_value_that_changed() {
        let action = StateAction::Diff {
            from: Some("a/b".to_owned()),
            to: None,
            fork: Some("f".to_owned()),
            limit: 7,
        };
        let (_, page, _) = request(&action, "a--other");
        assert_eq!(page, "/_lazurite/state/diff?limit=7&from=a%2Fb&fork=f");
        let answer = json!({"count": 3, "truncated": true, "changes": [
            {"change": "created", "kind": "container", "container": "c", "values": []},
            {"change": "changed", "kind": "entity", "table": "T", "partitionKey": "p", "rowKey": "\u{1b}",
             "values": [{"part": "properties", "name": "N", "old": "1", "new": null}]},
        ]});
        let expected = [
            "+ container  c",
            "~ entity     T/p/\u{fffd}",
            "    properties N: \"1\" -> nothing",
            "3 changes, of which 2 are printed (--limit)",
        ];
        assert_eq!(sentences(&action, "a", &answer), expected);
        let none = json!({"count": 0, "truncated": false, "changes": []});
        assert_eq!(sentences(&action, "a", &none), ["nothing differs"]);
    }

    #[test]
    fn list_has_a_line_for_each_snapshot_and_fork() {
        let answer = json!({
            "snapshots": [{"name": "seed", "time": "T", "bytes": 2000}, {"name": "m", "time": "T", "bytes": null}],
            "forks": [{"name": "f\u{1b}", "from": "seed", "time": "T", "idleSeconds": 7}],
        });
        assert_eq!(
            sentences(&StateAction::List, "a", &answer),
            [
                "snapshot  T  seed  2.0 kB",
                "snapshot  T  m  in memory",
                "fork      T  f\u{fffd}  of seed, idle for 7 s"
            ]
        );
    }
}

//! `lazurite state`: resets, keeps, restores and forks the store of a running server.

use crate::cli::StateAction;
use crate::commands::client::encode;
use crate::commands::doctor::{Target, connection_string};
use crate::commands::{plain, print_line};
use crate::console::layout_size;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Asks the server of a connection string, or of the one in the environment. The error is a sentence.
pub fn run(action: &StateAction, text: Option<&str>, as_json: bool) -> Result<ExitCode, String> {
    let (_, text) = connection_string(text);
    let target = Target::read(&text)?;
    let answer = match action {
        StateAction::List => list(&target)?,
        _ => {
            let (method, page, body) = request(action);
            target.administer(method, &page, &body)?
        }
    };
    if as_json {
        // JSON escapes control characters, which could act on a terminal.
        print_line(answer);
    } else {
        sentences(action, &answer).iter().for_each(print_line);
    }
    Ok(ExitCode::SUCCESS)
}

fn list(target: &Target) -> Result<Value, String> {
    let page = |name: &str| target.administer("GET", &format!("/_lazurite/state/{name}"), "");
    let (snapshots, forks) = (page("snapshots")?, page("forks")?);
    Ok(json!({ "snapshots": snapshots["snapshots"], "forks": forks["forks"] }))
}

fn request(action: &StateAction) -> (&'static str, String, String) {
    let page = |kind: &str, name: &str, end: &str| {
        let name = encode(name).replace('/', "%2F");
        format!("/_lazurite/state/{kind}/{name}{end}")
    };
    let (method, page) = match action {
        StateAction::Reset => ("POST", "/_lazurite/state/reset".to_owned()),
        StateAction::List => ("GET", "/_lazurite/state/snapshots".to_owned()),
        StateAction::Snapshot { name } => ("PUT", page("snapshots", name, "")),
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

/// What an answer says, for people.
fn sentences(action: &StateAction, answer: &Value) -> Vec<String> {
    let text = |value: &Value| plain(value.as_str().unwrap_or("?"));
    match action {
        StateAction::Reset => vec!["the store is empty".to_owned()],
        StateAction::Snapshot { name } => vec![format!("kept the store as {name}")],
        StateAction::Restore { name } => vec![format!("the store is as {name}")],
        StateAction::Delete { name } => vec![format!("deleted the snapshot {name}")],
        StateAction::Release { name } => vec![format!("ended the fork {name}")],
        StateAction::Fork { .. } => vec![text(&answer["connectionString"])],
        StateAction::List => {
            let of = |kind: &str| answer[kind].as_array().cloned().unwrap_or_default();
            let snapshots = of("snapshots").into_iter().map(|snapshot| {
                let bytes = snapshot["bytes"].as_u64();
                let size = bytes.map_or_else(|| "in memory".to_owned(), layout_size);
                format!(
                    "snapshot  {}  {}  {size}",
                    text(&snapshot["time"]),
                    text(&snapshot["name"])
                )
            });
            let forks = of("forks").into_iter().map(|fork| {
                let from = match &fork["from"] {
                    Value::String(name) => format!("of {}", plain(name)),
                    _ => "of the store".to_owned(),
                };
                let idle = fork["idleSeconds"].as_u64().unwrap_or(0);
                let (time, name) = (text(&fork["time"]), text(&fork["name"]));
                format!("fork      {time}  {name}  {from}, idle for {idle} s")
            });
            snapshots.chain(forks).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_segment_of_the_path() {
        let name = "../a/b?c".to_owned();
        let (_, page, _) = request(&StateAction::Delete { name });
        assert_eq!(page, "/_lazurite/state/snapshots/..%2Fa%2Fb%3Fc");
    }

    #[test]
    fn list_has_a_line_for_each_snapshot_and_fork() {
        let answer = json!({
            "snapshots": [{"name": "seed", "time": "T", "bytes": 2000}, {"name": "m", "time": "T", "bytes": null}],
            "forks": [{"name": "f\u{1b}", "from": "seed", "time": "T", "idleSeconds": 7}],
        });
        assert_eq!(
            sentences(&StateAction::List, &answer),
            [
                "snapshot  T  seed  2.0 kB",
                "snapshot  T  m  in memory",
                "fork      T  f\u{fffd}  of seed, idle for 7 s"
            ]
        );
    }
}

//! `lazurite advice`: prints the advice of a running server as text.

use lazurite_base::terminal::{self, print_line};
use lazurite_mover::Client;
use serde_json::Value;
use std::fmt::Write;
use std::process::ExitCode;

/// Prints the advice of a running server. The error is a sentence.
pub fn run(client: &Client, as_json: bool) -> Result<ExitCode, String> {
    let report = client.advice()?;
    if as_json {
        // The JSON escapes control characters, which could act on a terminal.
        print_line(report);
    } else {
        print_line(printed(&report).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// The report as text for users.
fn printed(report: &Value) -> String {
    let mut out = String::new();
    let pieces = report["advice"].as_array().map_or(&[][..], Vec::as_slice);
    for advice in pieces {
        let text = |name: &str| plain(&advice[name]);
        let _ = writeln!(
            out,
            "{} ({} {}, account {})",
            text("title"),
            text("service"),
            text("resource"),
            text("account")
        );
        let _ = writeln!(out, "  seen:    {}", text("finding"));
        let _ = writeln!(out, "  why:     {}", text("reason"));
        let _ = writeln!(out, "  do:      {}", text("pattern"));
        for page in advice["guide"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "  read:    lazurite guide {}", plain(page));
        }
        for request in advice["requests"].as_array().into_iter().flatten() {
            let text = |name: &str| plain(&request[name]);
            let _ = writeln!(
                out,
                "  request: {} {} {} {}",
                text("at"),
                text("operation"),
                text("resource"),
                text("request_id")
            );
        }
        out.push('\n');
    }
    if pieces.iter().any(|advice| advice["service"] == "table") {
        let _ = writeln!(
            out,
            "try other keys on the same requests: lazurite record, then lazurite what-if (docs/what-if.md)"
        );
    }
    let requests = plain(&report["requests"]);
    let _ = match pieces.len() {
        0 => writeln!(out, "no advice after {requests} requests"),
        1 => writeln!(out, "1 piece of advice after {requests} requests"),
        count => writeln!(out, "{count} pieces of advice after {requests} requests"),
    };
    out
}

/// A value without control characters, which could act on a terminal.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => terminal::plain(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_printed_without_control_characters() {
        let report = serde_json::json!({
            "requests": 7,
            "advice": [{
                "title": "One partition takes most of the load", "service": "table", "resource": "T", "account": "a",
                "finding": "Partition '\u{1b}[2J' took all", "reason": "r", "pattern": "p",
                "requests": [{"at": "t", "operation": "InsertEntity", "resource": "T", "request_id": "id-1"}],
            }],
        });
        let text = printed(&report);
        assert!(text.starts_with("One partition takes most of the load (table T, account a)\n"));
        assert!(text.contains("id-1") && text.ends_with("1 piece of advice after 7 requests\n"));
        assert!(!text.contains('\u{1b}'));
        let none = printed(&serde_json::json!({"requests": 3, "advice": []}));
        assert_eq!(none, "no advice after 3 requests\n");
    }
}

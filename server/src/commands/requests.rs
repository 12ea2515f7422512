//! `lazurite requests`: prints the last requests of a running server, and may follow new ones.

use crate::commands::outcome::note;
use lazurite_base::terminal::plain;
use lazurite_mover::target::Target;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Interval between two requests for more.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The options of the command.
pub struct Options<'a> {
    pub follow: bool,
    pub json: bool,
    /// Words that must all occur in a request.
    pub filter: Option<&'a str>,
    pub errors: bool,
}

/// Prints the kept requests; if following, new ones while the server answers. Error: a sentence.
pub fn run(target: &Target, options: &Options<'_>) -> Result<ExitCode, String> {
    let mut after = 0;
    loop {
        let batch = target.administer("GET", &page(options, after), "")?;
        let requests = batch["requests"].as_array().map_or(&[][..], Vec::as_slice);
        let missed = batch["missed"].as_u64().unwrap_or_default();
        if print(requests, missed, after > 0, options.json).is_err() {
            // The reader of the output has closed it.
            return Ok(ExitCode::SUCCESS);
        }
        let next = batch["next"].as_u64().unwrap_or(after);
        let is_end = next == after;
        // May be lower than before: a restarted server counts from the beginning.
        after = next;
        if is_end && options.follow {
            std::thread::sleep(LOOK_INTERVAL);
        } else if is_end {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The path of the page with the requests after position `after`.
fn page(options: &Options<'_>, after: u64) -> String {
    let mut path = format!("/_lazurite/api/requests?after={after}");
    if let Some(filter) = options.filter {
        let filter = utf8_percent_encode(filter, NON_ALPHANUMERIC);
        path.push_str(&format!("&filter={filter}"));
    }
    if options.errors {
        path.push_str("&errors=yes");
    }
    path
}

fn print(requests: &[Value], missed: u64, has_begun: bool, as_json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if missed > 0 && has_begun {
        note(format_args!(
            "{missed} requests were dropped before they could be printed"
        ));
    }
    for request in requests {
        if as_json {
            writeln!(out, "{request}")?;
        } else {
            writeln!(out, "{}", line(request))?;
        }
    }
    out.flush()
}

/// `19:00:00.123 404 GetBlob 1.2 ms GET /account/c/b BlobNotFound: The specified blob does not
/// exist. (storage-blob 12.0)`
fn line(request: &Value) -> String {
    let text = |name: &str| plain(request[name].as_str().unwrap_or_default());
    let at = text("at");
    let time = at.get(11..23).unwrap_or(&at);
    let operation = match text("operation") {
        operation if operation.is_empty() => "-".to_owned(),
        operation => operation,
    };
    let mut line = format!(
        "{time} {} {operation} {:.1} ms {} {}",
        request["status"],
        request["duration_ms"].as_f64().unwrap_or_default(),
        text("method"),
        text("target")
    );
    for name in ["code", "reason", "ended", "plan", "client"] {
        let value = text(name);
        match name {
            _ if value.is_empty() || (name, value.as_str()) == ("ended", "whole") => {}
            "reason" => line.push_str(&format!(": {value}")),
            "code" | "ended" => line.push_str(&format!(" {value}")),
            _ => line.push_str(&format!(" ({value})")),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_without_control_characters() {
        let request = serde_json::json!({
            "at": "2026-11-25T19:00:00.1234567Z", "status": 404, "operation": "GetBlob", "duration_ms": 1.234, "method": "GET",
            "target": "/a/c/b", "code": "BlobNotFound", "reason": "The specified\nblob does not exist.", "plan": null,
            "client": "storage-blob \u{1b}[2J",
        });
        assert_eq!(
            line(&request),
            "19:00:00.123 404 GetBlob 1.2 ms GET /a/c/b BlobNotFound: The specified\u{fffd}blob does not exist. (storage-blob \u{fffd}[2J)"
        );
    }
}

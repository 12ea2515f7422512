//! `lazurite record`: prints the requests to an account's tables as they arrive.

use crate::commands::outcome::note;
use lazurite_mover::Client;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often the server is asked for more.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Writes a line for each request to standard output: for a number of seconds, or until the server
/// or the reader ends. The error is a sentence.
pub fn run(client: &Client, seconds: Option<u64>) -> Result<ExitCode, String> {
    // Without an end if the clock cannot represent it.
    let end = seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let mut after = None;
    loop {
        let is_over = end.is_some_and(|end| Instant::now() >= end);
        let page = client.record(after)?;
        if after.is_none() {
            note("recording; Ctrl-C ends it");
        }
        if page["was_off"] == true && after.is_some() {
            note("requests are missing: this command asked the server for none for ten seconds");
        }
        let dropped = page["dropped"].as_u64().unwrap_or_default();
        if dropped > 0 {
            note(format_args!(
                "{dropped} requests came faster than they could be recorded"
            ));
        }
        if write(&page["requests"]).is_err() {
            // The reader of the output has closed it.
            return Ok(ExitCode::SUCCESS);
        }
        let next = page["next"].as_u64();
        let is_behind = after.is_some() && next != after;
        after = next;
        if is_behind {
            continue;
        }
        if is_over {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn write(requests: &serde_json::Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for request in requests.as_array().into_iter().flatten() {
        writeln!(out, "{request}")?;
    }
    out.flush()
}

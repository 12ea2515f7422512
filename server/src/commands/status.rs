//! `lazurite status`: shows a running server's version, addresses, disk space and memory.

use lazurite_base::terminal::{plain, print_line};
use lazurite_base::units::{duration, size};
use lazurite_mover::target::{Target, connection_string};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

const PAGE: &str = "/_lazurite/api/status";

/// Asks the server of the connection string. The error is a sentence.
pub fn run(text: Option<&str>, as_json: bool) -> Result<ExitCode, String> {
    let (_, text) = connection_string(text);
    let status = Target::read(&text)?.administer("GET", PAGE, "")?;
    if as_json {
        // The JSON escapes control characters, which could act on a terminal.
        print_line(status);
    } else {
        for (name, value) in rows(&status) {
            print_line(format_args!("{name:<9} {value}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The names and values of the facts, without those that the server does not know.
fn rows(status: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let bytes = |value: &Value| value.as_u64().map(size);
    let uptime = Duration::from_secs(status["uptime_seconds"].as_u64().unwrap_or(0));
    let version = format!("{}, up {}", text(&status["version"]), duration(uptime));
    let mut rows = vec![("version", version)];
    for endpoint in list(&status["endpoints"]) {
        let service = text(&endpoint["service"]);
        rows.push((
            "address",
            format!("{}  {service}", text(&endpoint["address"])),
        ));
    }
    let directory = status["directory"]
        .as_str()
        .map_or("in memory".to_owned(), plain);
    let durability = text(&status["durability"]);
    rows.push(("data", format!("{directory}, durability {durability}")));
    rows.extend(bytes(&status["live_bytes"]).map(|size| ("live", size)));
    rows.extend(bytes(&status["disk_bytes"]).map(|size| ("on disk", size)));
    for (name, field) in [("snapshot", "snapshots"), ("fork", "forks")] {
        for store in list(&status[field]) {
            let size = bytes(&store["bytes"]).unwrap_or_else(|| "in memory".to_owned());
            rows.push((name, format!("{}  {size}", text(&store["name"]))));
        }
    }
    rows.extend(bytes(&status["memory_bytes"]).map(|size| ("memory", size)));
    if status["is_read_only"] == true {
        let reason = "an earlier failure of the disk: see the log of the server";
        rows.push(("read-only", reason.to_owned()));
    }
    rows
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_name_every_store_and_leave_out_what_is_not_known() {
        let status = json!({
            "version": "1.0.0", "uptime_seconds": 7, "durability": "disk", "directory": "/data\u{1b}", "live_bytes": 1000,
            "disk_bytes": 2000, "memory_bytes": null, "is_read_only": true,
            "endpoints": [{"service": "blob", "address": "127.0.0.1:10000"}],
            "snapshots": [{"name": "seed", "bytes": 3000}], "forks": [{"name": "pr42", "bytes": null}],
        });
        let rows: Vec<_> = rows(&status)
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        assert_eq!(
            rows,
            [
                "version 1.0.0, up 7 s",
                "address 127.0.0.1:10000  blob",
                "data /data\u{fffd}, durability disk",
                "live 1.0 kB",
                "on disk 2.0 kB",
                "snapshot seed  3.0 kB",
                "fork pr42  in memory",
                "read-only an earlier failure of the disk: see the log of the server",
            ]
        );
    }
}

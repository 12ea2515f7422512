//! `lazurite status`: says where a server runs and on which directory, and shows its version, disk
//! space and memory.

use lazurite_base::terminal::{plain, print_line};
use lazurite_base::units::{duration, size};
use lazurite_mover::target::Target;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

const PAGE: &str = "/_lazurite/api/status";

/// Asks a running server. The error is a sentence.
pub fn run(target: &Target, as_json: bool) -> Result<ExitCode, String> {
    let status = target.administer("GET", PAGE, "")?;
    if as_json {
        // The JSON escapes control characters, which could act on a terminal.
        print_line(status);
    } else {
        print_line(headline(&status));
        for (name, value) in rows(&status) {
            print_line(format_args!("{name:<9} {value}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the server runs, and on which directory.
fn headline(status: &Value) -> String {
    let endpoints = list(&status["endpoints"]).iter().map(|endpoint| {
        let text = |name: &str| endpoint[name].as_str().map(plain).unwrap_or_default();
        format!("{} ({})", text("address"), text("service"))
    });
    let endpoints: Vec<String> = endpoints.collect();
    let data = match status["directory"].as_str() {
        Some(directory) => format!("on {}", plain(directory)),
        None => "in memory".to_owned(),
    };
    format!("running at {} {data}", endpoints.join(", "))
}

/// The names and values of the other facts, without those that the server does not know.
fn rows(status: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let bytes = |value: &Value| value.as_u64().map(size);
    let uptime = Duration::from_secs(status["uptime_seconds"].as_u64().unwrap_or(0));
    let version = format!("{}, up {}", text(&status["version"]), duration(uptime));
    let mut rows = vec![("version", version)];
    rows.push(("durable", text(&status["durability"])));
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
        assert_eq!(
            headline(&status),
            "running at 127.0.0.1:10000 (blob) on /data\u{fffd}"
        );
        let rows: Vec<_> = rows(&status)
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        assert_eq!(
            rows,
            [
                "version 1.0.0, up 7 s",
                "durable disk",
                "live 1.0 kB",
                "on disk 2.0 kB",
                "snapshot seed  3.0 kB",
                "fork pr42  in memory",
                "read-only an earlier failure of the disk: see the log of the server",
            ]
        );
    }
}

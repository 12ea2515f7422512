//! The access log on standard output, in the common log format, as the tools that wrap Azurite expect it.
//!
//! Lines are written by a thread of their own: a slow terminal slows no request. Signatures are redacted, control
//! characters escaped. When lines come faster than they can be written, some are dropped and their number is told.

use crate::http::context::decode;
use axum::http::Uri;
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

const LINES_WAITING_MAX: usize = 16 * 1024;
/// How long a line waits for others.
const GATHER: Duration = Duration::from_millis(5);

/// Takes lines for standard output; nothing at all when silent.
#[derive(Debug, Default)]
pub struct AccessLog {
    /// `None` ends the writing thread.
    lines: OnceLock<SyncSender<Option<String>>>,
    dropped: Arc<AtomicU64>,
}

impl AccessLog {
    /// Starts the writing thread, which ends, once [`AccessLog::close`] is called, after the last line is out.
    pub fn start() -> (AccessLog, JoinHandle<()>) {
        let (sender, receiver) = sync_channel(LINES_WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let told = dropped.clone();
        let writer = std::thread::spawn(move || write_lines(&receiver, &told));
        (
            AccessLog {
                lines: OnceLock::from(sender),
                dropped,
            },
            writer,
        )
    }

    /// A log that takes nothing.
    pub fn silent() -> AccessLog {
        AccessLog::default()
    }

    /// Ends the log: lines that come later are dropped.
    pub fn close(&self) {
        if let Some(lines) = self.lines.get() {
            let _ = lines.send(None);
        }
    }

    /// One request: `127.0.0.1 - - [21/Nov/2026:03:58:31 +0000] "PUT /account/c/b HTTP/1.1" 201 -`.
    pub fn request(&self, peer: IpAddr, now: SystemTime, method: &str, target: &Uri, status: u16) {
        let Some(lines) = self.lines.get() else {
            return;
        };
        let line = format!(
            "{peer} - - [{}] \"{method} {} HTTP/1.1\" {status} -",
            log_date(now),
            redact(&target.to_string())
        );
        if lines.try_send(Some(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_lines(lines: &Receiver<Option<String>>, dropped: &AtomicU64) {
    let mut out = std::io::BufWriter::new(std::io::stdout());
    while let Ok(Some(line)) = lines.recv() {
        // The lines of this moment go out together, and whoever sends one of them need not wake this thread.
        std::thread::sleep(GATHER);
        // Standard output may be closed; requests are served all the same.
        let _ = writeln!(out, "{line}");
        let mut last = false;
        while let Ok(more) = lines.try_recv() {
            last = more.is_none();
            let _ = more.map(|line| writeln!(out, "{line}"));
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                out,
                "({lost} lines of this log were dropped: standard output is too slow)"
            );
        }
        let _ = out.flush();
        if last {
            return;
        }
    }
}

/// `21/Nov/2026:03:58:31 +0000`
fn log_date(now: SystemTime) -> String {
    let text = crate::codec::date::rfc1123(now);
    let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
    format!("{day}/{month}/{year}:{clock} +0000")
}

/// A request target without its signature and with nothing that could forge a line.
pub fn redact(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if decode(name).eq_ignore_ascii_case("sig") => format!("{name}=REDACTED"),
        _ => pair.to_owned(),
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    let separator = if query.is_empty() { "" } else { "?" };
    format!("{path}{separator}{query}")
        .escape_default()
        .to_string()
        .replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_control_characters_stay_out_of_the_log() {
        assert_eq!(
            redact("/a/c?sv=1&sig=abc%3D&se=2"),
            "/a/c?sv=1&sig=REDACTED&se=2"
        );
        assert_eq!(redact("/a?%73ig=abc"), "/a?%73ig=REDACTED");
        assert_eq!(redact("/a/T(PartitionKey='p')"), "/a/T(PartitionKey='p')");
        assert_eq!(redact("/a\u{1b}[2J"), "/a\\u{1b}[2J");
    }

    #[test]
    fn dates_are_those_of_the_common_log_format() {
        let time = crate::codec::date::parse_iso8601("2026-11-21T03:58:31Z").unwrap();
        assert_eq!(log_date(time), "21/Nov/2026:03:58:31 +0000");
    }
}

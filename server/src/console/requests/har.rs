//! Requests as a file of other tools. Source: HTTP Archive (HAR) 1.2. Without bodies, which are not kept.

use crate::codec::date;
use crate::console::Console;
use crate::console::requests::ring::Header;
use crate::console::requests::{Record, Wanted, held, is_shown, url};
use crate::console::respond::{Page, Visit, text};
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use serde_json::{Value, json};
use std::sync::Arc;

/// `/_lazurite/requests.har`: the requests that the filter accepts, oldest first.
pub async fn export(State(console): State<Arc<Console>>, visit: Visit) -> Page<Response<Body>> {
    held(console, move |console| {
        let archive = archive(console, &Wanted::of(&visit));
        let mut response: Response<Body> = text("application/json", archive);
        let name = HeaderValue::from_static("attachment; filename=\"lazurite-requests.har\"");
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
        Ok(response)
    })
    .await
}

fn archive(console: &Console, wanted: &Wanted) -> String {
    let mut records = console.requests.latest(usize::MAX, |record| {
        wanted.matches(record) && is_shown(console, record)
    });
    records.reverse();
    // Entry by entry: as one document it would take a multiple of the ring.
    let creator = json!({"name": "Lazurite", "version": env!("CARGO_PKG_VERSION")});
    let mut text = format!("{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"entries\":[");
    for (index, record) in records.iter().enumerate() {
        let separator = if index > 0 { "," } else { "" };
        text.push_str(&format!("{separator}\n{}", entry(record)));
    }
    text.push_str("\n]}}\n");
    text
}

fn entry(record: &Record) -> Value {
    let [request, response] = record.headers();
    let milliseconds = record.took.as_secs_f64() * 1000.0;
    let kind = record.response_header("content-type").unwrap_or_default();
    let bytes = |bytes: Option<u64>| bytes.map_or(json!(-1), |bytes| json!(bytes));
    let why = record
        .refusal
        .as_ref()
        .map(|why| format!("{}: {}", why.code, why.reason));
    json!({
        "startedDateTime": date::iso8601(record.at),
        "time": milliseconds,
        "request": {
            "method": record.method(), "url": url(record), "httpVersion": "HTTP/1.1", "cookies": [], "headers": pairs(&request),
            "queryString": [], "headersSize": -1, "bodySize": bytes(record.request_bytes),
        },
        "response": {
            "status": record.status, "statusText": "", "httpVersion": "HTTP/1.1", "cookies": [], "headers": pairs(&response),
            "content": {"size": bytes(record.response_bytes), "mimeType": kind}, "redirectURL": "", "headersSize": -1,
            "bodySize": bytes(record.response_bytes),
        },
        "cache": {},
        "timings": {"send": 0, "wait": milliseconds, "receive": 0},
        "comment": why,
        "_operation": record.operation,
        "_request_id": record.request_id,
    })
}

fn pairs(headers: &[Header]) -> Vec<Value> {
    let pairs = headers
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}));
    pairs.collect()
}

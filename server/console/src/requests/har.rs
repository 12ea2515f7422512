//! Exports requests for other tools. Source: HTTP Archive (HAR) 1.2.

use crate::context::Console;
use crate::requests::body::{self, Content, ShownBody};
use crate::requests::facts::url;
use crate::requests::filter::Wanted;
use crate::respond::{Page, Visit, held, text};
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::date;
use lazurite_services::requests::{Header, Record};
use serde_json::{Value, json};
use std::sync::Arc;

/// `/_lazurite/requests.har`: the requests that match the filter, oldest first.
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
        wanted.matches(record) && console.shows_request(record)
    });
    records.reverse();
    // Entry by entry: a tree of the whole document would take a multiple of the ring's memory.
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
    let why = record
        .refusal
        .as_ref()
        .map(|why| format!("{}: {}", why.code, why.reason));
    let mut entry = json!({
        "startedDateTime": date::iso8601(record.at),
        "time": milliseconds,
        "request": {
            "method": record.method(), "url": url(record), "httpVersion": "HTTP/1.1", "cookies": [], "headers": pairs(&request),
            "queryString": [], "headersSize": -1, "bodySize": record.request_bytes,
        },
        "response": {
            "status": record.status, "statusText": "", "httpVersion": "HTTP/1.1", "cookies": [], "headers": pairs(&response),
            "content": {"size": record.response_bytes, "mimeType": kind}, "redirectURL": "", "headersSize": -1,
            "bodySize": record.response_bytes,
        },
        "cache": {},
        "timings": {"send": 0, "wait": milliseconds, "receive": 0},
        "comment": why,
        "_operation": record.operation,
        "_request_id": record.request_id,
    });
    if let Some([request, response]) = body::shown(record) {
        if request.passed > 0 {
            entry["request"]["postData"] = content(request);
        }
        if response.passed > 0 {
            let size = entry["response"]["content"]["size"].take();
            entry["response"]["content"] = content(response);
            entry["response"]["content"]["size"] = size;
        }
    }
    entry
}

/// A body in the form of `postData` and `content`, with a comment if it is incomplete.
fn content(body: ShownBody) -> Value {
    let comment = (!body.is_whole).then(|| format!("the start of {} bytes", body.passed));
    let mut content = json!({"mimeType": body.content_type, "comment": comment});
    match body.content {
        Content::Text(text) => content["text"] = json!(text),
        Content::Bytes(bytes) => {
            content["text"] = json!(STANDARD.encode(bytes));
            content["encoding"] = json!("base64");
        }
    }
    content
}

fn pairs(headers: &[Header]) -> Vec<Value> {
    let pairs = headers
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}));
    pairs.collect()
}

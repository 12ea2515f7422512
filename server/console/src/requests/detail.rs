//! The page of a request: headers, bodies, the reason of a refusal, curl command and code.

use crate::context::Console;
use crate::format::cut;
use crate::layout::{self, copy_button};
use crate::requests::facts::{client, find, milliseconds, partition, plan, summary};
use crate::requests::{again, batch, body, code, related};
use crate::respond::{Html, Json, Page, Visit, made};
use crate::{endpoints, links};
use axum::extract::{Path, State};
use lazurite_base::units::count;
use lazurite_protocol::date;
use lazurite_protocol::response::error::{ClientSigned, Failure};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::observer::HowEnded;
use lazurite_services::requests::{Header, Record};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub async fn json(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    visit: Visit,
) -> Page<Json<Value>> {
    let record = find(&console, &id)?;
    let mut document = summary(&record);
    let [request, response] = record.headers();
    document["request_headers"] = json!(request);
    document["response_headers"] = json!(response);
    document["details"] = json!(record.refusal.as_ref().map(|why| &why.details));
    document["client_signed"] = json!(record.refusal.as_ref().and_then(|why| {
        let signed = why.client_signed.as_ref()?;
        Some(json!({"text": signed.text, "mistake": signed.mistake}))
    }));
    let bodies = body::shown(&record);
    let [request, response] = bodies.map_or([Value::Null, Value::Null], |bodies| {
        bodies.map(|body| body.json())
    });
    document["request_body"] = request;
    document["response_body"] = response;
    document["operations"] = batch::json(&record);
    let calls = code::calls(&record);
    let tests = calls
        .iter()
        .filter_map(|(language, call)| Some((*language, code::test(&record, language, call)?)));
    document["tests"] = json!(tests.collect::<BTreeMap<_, _>>());
    document["calls"] = json!(calls.into_iter().collect::<BTreeMap<_, _>>());
    document["curl"] = json!(code::curl(
        &record,
        &endpoints::origin(&console, &visit, record.service)
    ));
    Ok(Json(document))
}

pub async fn page(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    visit: Visit,
) -> Page {
    made(console, move |console| request_page(console, &visit, &id)).await
}

fn request_page(console: &Console, visit: &Visit, id: &str) -> Result<Html, Failure> {
    let record = find(console, id)?;
    let curl = code::curl(&record, &endpoints::origin(console, visit, record.service));
    let [request, response] = record.headers();
    let title = if record.operation.is_empty() {
        record.method()
    } else {
        record.operation.to_string()
    };
    let content = html! {
        (layout::trail(&[("Requests", links::path(&["requests"], &[]))], &record.request_id))
        h1 { (title) " " span.status.{ "s" (record.status / 100) } { (record.status) } }
        p.path { (record.method()) " " (cut(&record.target(), 4096)) }
        (why_refused(&record))
        (related::met(console, &record))
        (facts(&record))
        div.columns {
            section { h2 { "Request headers" } (headers(&request)) }
            section { h2 { "Response headers" } (headers(&response)) }
        }
        (batch::section(&record))
        (body::section(&record))
        (as_code(&record, &curl))
        (again::form(console, &record))
    };
    Ok(layout::page(console, "Requests", &title, content))
}

fn as_code(record: &Record, curl: &str) -> Markup {
    html! {
        section {
            h2 { "As curl" }
            p.limits { "Without the signature: sign it again, or use a SAS." }
            div.copied { pre { code { (curl) } } (copy_button(curl)) }
            @for (language, call) in code::calls(record) {
                details {
                    summary { "As " (language) }
                    div.copied { pre { code { (call) } } (copy_button(&call)) }
                    @if let Some(test) = code::test(record, language, &call) {
                        h3 { "As a test" }
                        div.copied { pre { code { (test) } } (copy_button(&test)) }
                        p.limits { "The test passes if the answer is the same. Supply values such as data and entity." }
                    }
                }
            }
        }
    }
}

fn facts(record: &Record) -> Markup {
    let secure = if record.secure { " over HTTPS" } else { "" };
    html! {
        dl.facts {
            div { dt { "Time" } dd { (date::iso8601(record.at)) } }
            div { dt { "Duration" } dd { (milliseconds(record)) } }
            div { dt { "Service" } dd { (record.service.title()) (secure) } }
            div { dt { "Client" } dd { (cut(&client(record), 300)) " at " (record.peer) } }
            @if let Some(version) = record.header("x-ms-version") { div { dt { "API version" } dd { (cut(&version, 40)) } } }
            @if let Some(partition) = partition(record) { div { dt { "Partition" } dd { (cut(&partition, 200)) } } }
            @if record.has_body() { div { dt { "Sent" } dd { (sent(record)) } } }
            div { dt { "Answered" } dd { (count(record.response_bytes)) " bytes" @if record.ended != HowEnded::Whole { ", " (record.ended.word()) } } }
            @if let Some(plan) = plan(record) { div { dt { "Plan" } dd { (plan) } } }
            @if let Some(azure) = record.response_header("x-lazurite-azure-plan") { div { dt { "On Azure" } dd { (azure) } } }
        }
    }
}

/// The number of body bytes received, and the declared number if it is larger.
fn sent(record: &Record) -> String {
    let came = count(record.request_bytes);
    match record.declared_bytes {
        Some(declared) if declared > record.request_bytes => {
            format!("{came} of {} bytes", count(declared))
        }
        _ => format!("{came} bytes"),
    }
}

fn why_refused(record: &Record) -> Markup {
    let Some(why) = &record.refusal else {
        return html! {};
    };
    let detail = why
        .details
        .iter()
        .find(|(name, _)| *name == "AuthenticationErrorDetail");
    let signed = detail.and_then(|(_, text)| string_to_sign(text));
    html! {
        section.alert role="alert" {
            h2 { (why.code) }
            p { (cut(&why.reason, 4096)) }
            @if signed.is_none() {
                @for (name, value) in &why.details { p { b { (name) } ": " (cut(value, 4096)) } }
            }
        }
        @if let Some(signed) = signed { (signature_card(record, signed, why.client_signed.as_deref())) }
    }
}

/// The server's string to sign, from the detail of a refused signature.
fn string_to_sign(detail: &str) -> Option<&str> {
    let (_, rest) = detail.split_once("string to sign: '")?;
    Some(rest.strip_suffix("'.").unwrap_or(rest))
}

/// The lines of the string to sign for Blob and Queue. Source: Authorize with Shared Key,
/// "Constructing the signature string".
const SIGNED_LINES: [&str; 12] = [
    "method",
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-MD5",
    "Content-Type",
    "Date",
    "If-Modified-Since",
    "If-Match",
    "If-None-Match",
    "If-Unmodified-Since",
    "Range",
];

/// The meanings of the first lines of a string to sign, if they are known.
fn signed_lines(record: &Record) -> &'static [&'static str] {
    let authorization = record.header("authorization").unwrap_or_default();
    match record.service {
        ServiceKind::Blob | ServiceKind::Queue if authorization.starts_with("SharedKey ") => {
            &SIGNED_LINES
        }
        _ => &[],
    }
}

fn signature_card(record: &Record, signed: &str, by_client: Option<&ClientSigned>) -> Markup {
    let meanings = signed_lines(record);
    html! {
        section {
            h2 { "Why the signature is wrong" }
            @match by_client {
                Some(client) => p { b { (client.mistake) } },
                None => p {
                    "None of the known mistakes explains the signature. Compare the string of the server line by line with that of the client. "
                    "If they are the same, the key differs: it is not that of the account."
                },
            }
            div.columns {
                div {
                    h3 { "String to sign of the server" }
                    (signed_text(signed, by_client.map(|client| client.text.as_str()), meanings))
                }
                @if let Some(client) = by_client.filter(|client| client.text != signed) {
                    div {
                        h3 { "String to sign of the client" }
                        (signed_text(&client.text, Some(signed), &[]))
                    }
                }
            }
        }
    }
}

/// A string to sign, line by line. Marks the first line that differs from `other`.
fn signed_text(text: &str, other: Option<&str>, meanings: &[&str]) -> Markup {
    let different = other.and_then(|other| first_difference(text, other));
    html! {
        div.copied {
            ol.lines {
                @for (number, line) in text.split('\n').enumerate() {
                    li.different[different == Some(number)] {
                        @if line.is_empty() { i { "empty" } } @else { code { (cut(line, 4096)) } }
                        @if let Some(meaning) = meanings.get(number) { small { (meaning) } }
                        @if different == Some(number) { small { b { "first difference" } } }
                    }
                }
            }
            (copy_button(text))
        }
    }
}

/// The index of the first line in which `text` differs from `other`.
fn first_difference(text: &str, other: &str) -> Option<usize> {
    let mut others = other.split('\n');
    let different = text
        .split('\n')
        .position(|line| others.next() != Some(line));
    let last = text.split('\n').count() - 1;
    different.or_else(|| (text != other).then_some(last))
}

fn headers(headers: &[Header]) -> Markup {
    html! {
        table.plain {
            tbody { @for (name, value) in headers { tr { th scope="row" { (name) } td { code { (cut(value, 4096)) } } } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_to_sign_is_found_in_the_detail() {
        let detail =
            "The MAC … computed signature. Server used following string to sign: 'GET\n\n/a/c'.";
        assert_eq!(string_to_sign(detail), Some("GET\n\n/a/c"));
        assert_eq!(string_to_sign("Request date header too old: 'x'"), None);
    }

    #[test]
    fn first_line_that_differs_is_found() {
        assert_eq!(first_difference("a\nb\nc", "a\nx\nc"), Some(1));
        assert_eq!(first_difference("a\nb", "a\nb\nc"), Some(1));
        assert_eq!(first_difference("a\nb", "a"), Some(1));
        assert_eq!(first_difference("a", "a"), None);
    }
}

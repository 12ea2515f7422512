//! The kept part of a request's bodies, without secrets.

use crate::{links, preview};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_base::units::{count, size};
use lazurite_services::request::body_copy::Copied;
use lazurite_services::requests::{Record, without_secrets};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Maximum number of bytes of a body on the page of its request.
const BYTES_SHOWN: usize = 6 << 10;
pub const SIDES: [&str; 2] = ["request", "response"];

/// A body for display.
pub struct ShownBody {
    pub content_type: String,
    pub content: Content,
    /// Whether the body is complete.
    pub is_whole: bool,
    /// Number of bytes of the body that were received or sent.
    pub passed: u64,
}

/// The content of a body.
pub enum Content {
    /// Text without secrets.
    Text(String),
    Bytes(Vec<u8>),
}

impl ShownBody {
    fn new(content_type: Option<String>, copied: Copied) -> ShownBody {
        let content_type = content_type.unwrap_or_default();
        let is_whole = copied.is_whole();
        // A batch is always shown as text. As bytes, it would keep the secret headers of its
        // operations.
        let decoded = preview::decode(&content_type, &copied.bytes).map(|text| text.text);
        let is_batch = is_multipart(&content_type);
        let decoded = decoded.or_else(|| is_batch.then(|| String::from_utf8_lossy(&copied.bytes)));
        let content = match decoded {
            Some(text) => Content::Text(without_secrets(&text)),
            None => Content::Bytes(copied.bytes),
        };
        ShownBody {
            content_type,
            content,
            is_whole,
            passed: copied.passed,
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Text(text) => text.as_bytes(),
            Content::Bytes(bytes) => bytes,
        }
    }

    /// The text; `None` if the body is not text.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Bytes(_) => None,
        }
    }

    /// The content as JSON: text unchanged, other bytes in Base64.
    pub fn json(&self) -> Value {
        let (encoding, content) = match &self.content {
            Content::Text(text) => ("text", text.clone()),
            Content::Bytes(bytes) => ("base64", STANDARD.encode(bytes)),
        };
        json!({"encoding": encoding, "content": content, "bytes": self.passed, "is_whole": self.is_whole})
    }
}

fn is_multipart(content_type: &str) -> bool {
    content_type.to_ascii_lowercase().contains("multipart/")
}

/// The bodies of the request and of the response; `None` if they are not kept.
pub fn shown(record: &Record) -> Option<[ShownBody; 2]> {
    let [request, response] = record.bodies()?;
    let kind = |name: &str| record.header(name);
    let batch = kind("content-type").filter(|kind| is_multipart(kind));
    let blob = || kind("x-ms-blob-content-type");
    let sent = batch.or_else(blob).or_else(|| kind("content-type"));
    let mut request = ShownBody::new(sent, request);
    request.is_whole &= record.body_arrived();
    let response = ShownBody::new(record.response_header("content-type"), response);
    Some([request, response])
}

/// The request's body as text. `None` unless it was kept whole, is UTF-8 without secrets, and has
/// at most `bytes_max` bytes. Also `None` if a form would change its line breaks: they must be all
/// LF or all CR LF.
pub fn whole_request_text(record: &Record, bytes_max: usize) -> Option<String> {
    let [sent, _] = record.bodies()?;
    let text = str::from_utf8(&sent.bytes).ok()?;
    let [request, _] = shown(record)?;
    // The shown text is another one if secrets were removed, or if its encoding is not UTF-8.
    let is_whole = request.is_whole && request.text() == Some(text) && text.len() <= bytes_max;
    let count = |sign: &str| text.matches(sign).count();
    let is_uniform = count("\r") == count("\r\n") && [0, count("\n")].contains(&count("\r\n"));
    (is_whole && is_uniform).then(|| text.to_owned())
}

/// The section of the page of a request.
pub fn section(record: &Record) -> Markup {
    let Some(bodies) = shown(record) else {
        return html! { p.limits { "Bodies are not kept: " code { "--requests-body-kib" } " is 0, or there was no room, or the client brought a key of its own." } };
    };
    html! {
        div.columns {
            @for ((side, title), body) in SIDES.iter().zip(["Request body", "Response body"]).zip(&bodies) {
                section { h2 { (title) } (one(record, (side, title), body)) }
            }
        }
    }
}

fn one(record: &Record, (side, title): (&str, &str), body: &ShownBody) -> Markup {
    let bytes = body.bytes();
    if body.passed == 0 {
        return html! { p.empty { "No body." } };
    }
    if bytes.is_empty() {
        return html! { p.empty { (count(body.passed)) " bytes, which are no longer kept: newer ones have taken their room." } };
    }
    let start = &bytes[..bytes.len().min(BYTES_SHOWN)];
    // The text may be shorter than what was sent, because secrets were removed.
    let length = if body.is_whole {
        bytes.len() as u64
    } else {
        body.passed
    };
    // The text was decoded, so the charset of its type does not apply.
    let kind = body.content_type.split(';').next().unwrap_or_default();
    html! {
        (preview::shown(title, kind, "", start, length))
        @if start.len() < bytes.len() || !body.is_whole {
            p { a href=(links::path(&["requests", &record.request_id, "body", side], &[])) {
                @if body.is_whole { "The whole body" } @else { "The first " (size(bytes.len() as u64)) ", which are kept" }
            } }
        }
    }
}

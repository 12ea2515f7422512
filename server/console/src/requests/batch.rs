//! The operations inside a batch, read from the kept part of its bodies.
//!
//! The reader is lenient. If a body is cut off, it shows the operations before the cut; if a body
//! is not a batch, it shows none.

use crate::format::cut;
use crate::requests::body;
use crate::requests::facts::readable;
use lazurite_services::requests::{Header, Record};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Maximum number of operations that are parsed: a batch of blobs may have 256.
const OPERATIONS_MAX: usize = 256;
/// Operations shown: the first [`FIRST_SHOWN`], and failed ones after them, at most [`ROWS_SHOWN`]
/// in all.
const FIRST_SHOWN: usize = 50;
const ROWS_SHOWN: usize = 70;
const BODY_BYTES_SHOWN: usize = 120;

/// A message inside a multipart body: a request or a response.
#[derive(Debug, Default)]
struct Message {
    /// The first line: `PUT /path HTTP/1.1` or `HTTP/1.1 201 Created`.
    line: String,
    headers: Vec<Header>,
    body: String,
}

impl Message {
    fn header(&self, wanted: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str())
    }

    /// The status of a response; 0 if the first line has none.
    fn status(&self) -> u16 {
        let status = self.line.split(' ').nth(1);
        status.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The error code and its message; both empty for a success.
    fn error(&self) -> (String, String) {
        let document: Value = serde_json::from_str(self.body.trim()).unwrap_or_default();
        let error = &document["odata.error"];
        let between = |start: &str, end: &str| {
            let (_, rest) = self.body.split_once(start)?;
            Some(rest.split_once(end)?.0.to_owned())
        };
        let code = self.header("x-ms-error-code").map(str::to_owned);
        let code = code.or_else(|| error["code"].as_str().map(str::to_owned));
        let message = error["message"]["value"].as_str().map(str::to_owned);
        let message = message.or_else(|| between("<Message>", "</Message>"));
        let first =
            |text: Option<String>| text.and_then(|text| text.lines().next().map(str::to_owned));
        (code.unwrap_or_default(), first(message).unwrap_or_default())
    }
}

/// The messages in a body, in order. `is_start` accepts their first lines.
fn messages(text: &str, is_start: fn(&str) -> bool) -> Vec<Message> {
    let mut found: Vec<Message> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !is_start(line) {
            continue;
        }
        let mut message = Message {
            line: line.to_owned(),
            ..Message::default()
        };
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(':') {
                let value = value.trim().to_owned();
                message.headers.push((name.to_owned(), value));
            }
        }
        for line in lines.by_ref().take_while(|line| !line.starts_with("--")) {
            message.body.push_str(line);
            message.body.push('\n');
        }
        found.push(message);
        if found.len() == OPERATIONS_MAX {
            break;
        }
    }
    found
}

fn is_request(line: &str) -> bool {
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default();
    let is_method =
        (3..=7).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase());
    is_method && words.nth(1) == Some("HTTP/1.1")
}

fn is_response(line: &str) -> bool {
    line.starts_with("HTTP/1.1 ")
}

/// An operation of a batch. `response` is `None` if the batch failed at another operation, or if
/// the response was cut off.
struct Operation {
    request: Message,
    response: Option<Message>,
}

impl Operation {
    /// The status; 0 if there is no response.
    fn status(&self) -> u16 {
        self.response.as_ref().map_or(0, Message::status)
    }
}

fn operations(record: &Record) -> Vec<Operation> {
    let kind = record.header("content-type").unwrap_or_default();
    if !kind.starts_with("multipart/mixed") {
        return Vec::new();
    }
    let Some([request, response]) = body::shown(record) else {
        return Vec::new();
    };
    let (Some(request), Some(response)) = (request.text(), response.text()) else {
        return Vec::new();
    };
    paired(
        messages(request, is_request),
        messages(response, is_response),
    )
}

fn paired(requests: Vec<Message>, mut responses: Vec<Message>) -> Vec<Operation> {
    // A failed changeset has a single answer. Source: Performing entity group transactions, "Sample
    // error response": the message begins with the index of the operation.
    if responses.len() == 1 && requests.len() > 1 && responses[0].status() >= 400 {
        let (_, message) = responses[0].error();
        let index = message
            .split(':')
            .next()
            .and_then(|index| index.parse().ok());
        let failed = index.unwrap_or(0).min(requests.len() - 1);
        let mut failure = responses.pop();
        let pair = |(at, request)| Operation {
            request,
            response: if at == failed { failure.take() } else { None },
        };
        return requests.into_iter().enumerate().map(pair).collect();
    }
    let mut responses = responses.into_iter();
    let pair = |request| Operation {
        request,
        response: responses.next(),
    };
    requests.into_iter().map(pair).collect()
}

/// The section with the operations; empty if there is no batch or its body is not kept.
pub fn section(record: &Record) -> Markup {
    let operations = operations(record);
    let is_shown = |(index, operation): &(usize, &Operation)| {
        *index < FIRST_SHOWN || operation.status() >= 400
    };
    let numbered = operations.iter().enumerate();
    let shown: Vec<_> = numbered.filter(is_shown).take(ROWS_SHOWN).collect();
    html! {
        @if !operations.is_empty() {
            section {
                h2 { "Operations of the batch" }
                div.scroll tabindex="0" role="region" aria-label="Operations of the batch" {
                    table data-list {
                        caption.hidden { "Operations, in the order of the batch" }
                        thead { tr {
                            th.number scope="col" { "No." } th scope="col" { "Status" } th scope="col" { "Request" } th scope="col" { "Body" }
                        } }
                        tbody { @for (index, operation) in &shown { (row(*index, operation)) } }
                    }
                }
                p.limits { "Showing " (shown.len()) " of " (operations.len()) ". Operations are numbered from 0, as errors of a batch name them. Those without a status were not carried out, or their answer is not kept." }
            }
        }
    }
}

fn row(index: usize, operation: &Operation) -> Markup {
    let line = operation.request.line.trim_end_matches(" HTTP/1.1");
    let response = operation.response.as_ref();
    let (code, reason) = response.map(Message::error).unwrap_or_default();
    html! {
        tr {
            td.number { (index) }
            td { @if let Some(response) = response { span.status.{ "s" (response.status() / 100) } { (response.status()) } } }
            td.resource {
                span.path { (cut(&readable(line), 200)) }
                @if !code.is_empty() { small { b { (code) } " " (cut(&reason, 200)) } }
            }
            td { code { (cut(operation.request.body.trim(), BODY_BYTES_SHOWN)) } }
        }
    }
}

/// The operations as JSON.
pub fn json(record: &Record) -> Value {
    let operation = |operation: Operation| {
        let (code, reason) = operation
            .response
            .as_ref()
            .map(Message::error)
            .unwrap_or_default();
        json!({
            "request": operation.request.line,
            "status": operation.response.as_ref().map(Message::status),
            "code": code,
            "reason": reason,
        })
    };
    operations(record).into_iter().map(operation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n--changeset_1\r\nContent-Type: application/http\r\n\r\n\
        POST http://h/a/T HTTP/1.1\r\nAccept: x\r\n\r\n{\"PartitionKey\":\"p\"}\r\n--changeset_1\r\n\r\nMERGE http://h/a/T(1) HTTP/1.1\r\nIf-Match: *\r\n\r\n{}\r\n--changeset_1--";

    #[test]
    fn operations_of_a_batch_have_their_answers() {
        let requests = messages(REQUEST, is_request);
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[1].header("if-match"), Some("*"));
        assert_eq!(requests[0].body.trim(), "{\"PartitionKey\":\"p\"}");
        let answers = "--x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n--x\r\n\r\nHTTP/1.1 204 No Content\r\nETag: e\r\n\r\n\r\n--x--";
        let pairs = paired(requests, messages(answers, is_response));
        let statuses = pairs
            .iter()
            .map(|pair| pair.response.as_ref().unwrap().status());
        assert_eq!(statuses.collect::<Vec<_>>(), [204, 204]);
    }

    #[test]
    fn the_operation_that_failed_a_changeset_has_its_error() {
        let answer = "--x\r\n\r\nHTTP/1.1 409 Conflict\r\n\r\n{\"odata.error\":{\"code\":\"EntityAlreadyExists\",\"message\":{\"value\":\"1:The entity exists.\\nmore\"}}}\r\n--x--";
        let pairs = paired(messages(REQUEST, is_request), messages(answer, is_response));
        assert!(pairs[0].response.is_none());
        let error = pairs[1].response.as_ref().unwrap().error();
        assert_eq!(
            error,
            (
                "EntityAlreadyExists".to_owned(),
                "1:The entity exists.".to_owned()
            )
        );
    }

    #[test]
    fn a_body_that_is_cut_off_or_no_batch_is_read_as_far_as_it_goes() {
        for end in 0..REQUEST.len() {
            let _ = paired(
                messages(&REQUEST[..end], is_request),
                messages(&REQUEST[..end], is_response),
            );
        }
        assert!(messages("GET / HTTP/1.0\nget / HTTP/1.1\n", is_request).is_empty());
    }
}

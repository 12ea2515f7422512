//! `lazurite peek|send`: shows the next messages of a queue, or adds one.

use crate::commands::nearest::{Subject, explain};
use crate::commands::outcome::{note, say};
use crate::http_client::Upload;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_base::terminal::{plain, print_line};
use lazurite_base::units::size;
use lazurite_mover::{Call, Client, encode};
use lazurite_protocol::date;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use lazurite_queue::MESSAGE_BYTES_MAX;
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Read};
use std::process::ExitCode;

/// Prints the next messages without counting a delivery. Decodes those that are Base64 of a text,
/// if wanted.
pub fn peek(
    client: &Client,
    queue: &str,
    count: u32,
    decodes: bool,
    as_json: bool,
) -> Result<ExitCode, String> {
    let messages = peeked(client, queue, count)?;
    if messages.is_empty() {
        note(format_args!(
            "{queue} has no message that is visible now: `lazurite send {queue} TEXT` sends one"
        ));
    }
    for mut message in messages {
        let text = message["text"].as_str().and_then(decoded);
        if let Some(text) = text.filter(|_| decodes) {
            message["text"] = text.into();
        }
        if as_json {
            print_line(message);
        } else {
            let text = |name: &str| plain(message[name].as_str().unwrap_or_default());
            print_line(format_args!(
                "{}  {:>3}  {}",
                text("inserted"),
                message["dequeue_count"],
                text("text")
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The text that a message has as Base64; `None` if it is not Base64 of a text.
fn decoded(text: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}

/// A time of an answer as ISO 8601.
fn iso(time: &str) -> String {
    date::parse_http(time).map_or_else(|| time.to_owned(), date::iso8601_seconds)
}

/// The next messages as JSON.
pub fn peeked(client: &Client, queue: &str, count: u32) -> Result<Vec<Value>, String> {
    let resource = format!(
        "{}/messages?peekonly=true&numofmessages={count}",
        encode(queue)
    );
    let reply = client.ask(ServiceKind::Queue, "GET", resource);
    let reply = reply.map_err(|error| explain(client, Subject::Queue(queue), error))?;
    let messages = reply.xml()?;
    let fact = |message: &Element| {
        let text = |name: &str| message.raw_text(name);
        json!({
            "id": text("MessageId"), "inserted": iso(text("InsertionTime")), "expires": iso(text("ExpirationTime")),
            "dequeue_count": text("DequeueCount").parse::<u32>().unwrap_or(0), "text": text("MessageText"),
        })
    };
    Ok(messages.all("QueueMessage").map(fact).collect())
}

/// Adds a message, as Base64 if wanted. The text `-` reads standard input.
pub fn send(
    client: &Client,
    queue: &str,
    text: &str,
    as_base64: bool,
    as_json: bool,
) -> Result<ExitCode, String> {
    let text = match text {
        "-" => text_of_standard_input()?,
        text => text.to_owned(),
    };
    let text = if as_base64 {
        STANDARD.encode(text)
    } else {
        text
    };
    put(client, queue, &text)?;
    let fact = json!({"queue": queue, "bytes": text.len(), "done": true});
    say(
        as_json,
        fact,
        &format!("sent {} to {queue}", size(text.len() as u64)),
    );
    Ok(ExitCode::SUCCESS)
}

fn text_of_standard_input() -> Result<String, String> {
    let unreadable = |error: &dyn fmt::Display| format!("cannot read standard input: {error}");
    let mut bytes = Vec::new();
    let read = io::stdin()
        .take(MESSAGE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(|error| unreadable(&error))?;
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err("a message has at most 64 KiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| unreadable(&error))
}

/// Adds a message with this text.
pub fn put(client: &Client, queue: &str, text: &str) -> Result<(), String> {
    let mut body = String::from("<QueueMessage><MessageText>");
    lazurite_protocol::xml::escape_into(&mut body, text);
    body.push_str("</MessageText></QueueMessage>");
    let headers = vec![("Content-Type".to_owned(), "application/xml".to_owned())];
    let call = Call {
        service: ServiceKind::Queue,
        method: "POST",
        resource: format!("{}/messages", encode(queue)),
        headers,
    };
    let sent = client.send(call, Upload::of(body.into_bytes()));
    sent.map(drop)
        .map_err(|error| explain(client, Subject::Queue(queue), error))
}

//! `lazurite peek|send`: shows the next messages of a queue, or adds one.

use crate::http_client::Upload;
use lazurite_base::terminal::{plain, print_line};
use lazurite_mover::{Call, Client, encode};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use lazurite_queue::MESSAGE_BYTES_MAX;
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Read};
use std::process::ExitCode;

/// Prints the next messages without counting a delivery.
pub fn peek(client: &Client, queue: &str, count: u32, as_json: bool) -> Result<ExitCode, String> {
    for message in peeked(client, queue, count)? {
        if as_json {
            print_line(message);
        } else {
            let text = |name: &str| plain(message[name].as_str().unwrap_or_default());
            print_line(format_args!(
                "{}  {}  {}",
                text("inserted"),
                message["dequeue_count"],
                text("text")
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The next messages as JSON.
pub fn peeked(client: &Client, queue: &str, count: u32) -> Result<Vec<Value>, String> {
    let resource = format!(
        "{}/messages?peekonly=true&numofmessages={count}",
        encode(queue)
    );
    let messages = client.ask(ServiceKind::Queue, "GET", resource)?.xml()?;
    let fact = |message: &Element| {
        let text = |name: &str| message.child(name).map_or("", |child| &*child.text);
        json!({
            "id": text("MessageId"), "inserted": text("InsertionTime"), "expires": text("ExpirationTime"),
            "dequeue_count": text("DequeueCount").parse::<u32>().unwrap_or(0), "text": text("MessageText"),
        })
    };
    Ok(messages.all("QueueMessage").map(fact).collect())
}

/// Adds a message. The text `-` reads standard input.
pub fn send(client: &Client, queue: &str, text: &str) -> Result<ExitCode, String> {
    let text = match text {
        "-" => text_of_standard_input()?,
        text => text.to_owned(),
    };
    put(client, queue, &text)?;
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
    client.send(call, Upload::of(body.into_bytes()))?;
    Ok(())
}

//! `lazurite peek|send`: the next messages of a queue, and one more.

use crate::commands::client::{Call, Client, encode};
use crate::commands::{plain, print_line};
use crate::http_client::Upload;
use crate::service_kind::ServiceKind;
use serde_json::json;
use std::io;
use std::process::ExitCode;

/// Prints the next messages; no delivery is counted.
pub fn peek(client: &Client, queue: &str, count: u32, as_json: bool) -> Result<ExitCode, String> {
    let resource = format!(
        "{}/messages?peekonly=true&numofmessages={count}",
        encode(queue)
    );
    let messages = client.ask(ServiceKind::Queue, "GET", resource)?.xml()?;
    for message in messages.all("QueueMessage") {
        let text = |name: &str| message.child(name).map_or("", |child| &*child.text);
        if as_json {
            print_line(json!({
                "id": text("MessageId"), "inserted": text("InsertionTime"), "expires": text("ExpirationTime"),
                "dequeue_count": text("DequeueCount").parse::<u32>().unwrap_or(0), "text": text("MessageText"),
            }));
        } else {
            print_line(format_args!(
                "{}  {}  {}",
                text("InsertionTime"),
                text("DequeueCount"),
                plain(text("MessageText"))
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts a message; `-` reads standard input.
pub fn send(client: &Client, queue: &str, text: &str) -> Result<ExitCode, String> {
    let text = match text {
        "-" => io::read_to_string(io::stdin())
            .map_err(|error| format!("cannot read standard input: {error}"))?,
        text => text.to_owned(),
    };
    let mut body = String::from("<QueueMessage><MessageText>");
    crate::codec::xml::escape_into(&mut body, &text);
    body.push_str("</MessageText></QueueMessage>");
    let headers = vec![("Content-Type".to_owned(), "application/xml".to_owned())];
    let call = Call {
        service: ServiceKind::Queue,
        method: "POST",
        resource: format!("{}/messages", encode(queue)),
        headers,
    };
    client.send(call, Upload::of(body.into_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

//! Queues and their messages.

use crate::asking::{ask, ask_xml, patiently, send};
use crate::client::{Call, Client, encode};
use crate::error::{Error, Result};
use crate::fields::{Resource, header, in_query, metadata_headers};
use crate::listing::put_metadata;
use crate::queues::line::Line;
use crate::resource_kind::ResourceKind;
use lazurite_protocol::date;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use lazurite_services::http_client::Upload;
use serde_json::{Map, Value, json};

/// A lifetime of this length counts as unlimited: a thousand years.
const FOREVER_SECONDS: u64 = 1000 * 366 * 24 * 3600;
/// Headers of Lazurite for reading all messages of a queue: the position of the first message to
/// show, and the position of the next page. Other services ignore both headers.
const PEEK_FROM: &str = "x-lazurite-peek-from";
const PEEK_NEXT: &str = "x-lazurite-peek-next";
/// A header of Lazurite with a message's dequeue count. Other services ignore it.
const DEQUEUE_COUNT: &str = "x-lazurite-dequeue-count";
/// Maximum number of messages in a Peek.
pub const PEEKED_MAX: usize = 32;

/// All queues with their settings, without policies.
pub fn queues(client: &Client) -> Result<Vec<Resource>> {
    let mut queues = Vec::new();
    let mut marker = String::new();
    loop {
        let list = format!("?comp=list&include=metadata&marker={}", in_query(&marker));
        let page = ask_xml(client, ServiceKind::Queue, &list)?;
        for queue in page.child("Queues").iter().flat_map(|all| &all.children) {
            let name = ResourceKind::Queue.listed(queue.raw_text("Name"))?;
            let mut settings = Map::new();
            put_metadata(&mut settings, queue);
            queues.push((name, settings));
        }
        marker = page.raw_text("NextMarker").to_owned();
        if marker.is_empty() {
            return Ok(queues);
        }
    }
}

/// Passes the line of each message that the service shows to `take`. Returns the number of these
/// messages. Lazurite shows all messages, other services the first [`PEEKED_MAX`].
pub fn each_message(
    client: &Client,
    queue: &str,
    take: &mut dyn FnMut(&Value) -> Result<()>,
) -> Result<usize> {
    let mut from = "start".to_owned();
    let mut count = 0;
    loop {
        let (page, next) = peek(client, queue, &from)?;
        for message in page.all("QueueMessage") {
            let line =
                json!({ "text": message.raw_text("MessageText"), "ttlSeconds": lifetime(message) });
            take(&line)?;
            count += 1;
        }
        match next {
            Some(next) => from = next,
            None => return Ok(count),
        }
    }
}

/// A page of messages, and the start of the next page if there is one.
fn peek(client: &Client, queue: &str, from: &str) -> Result<(Element, Option<String>)> {
    let resource = format!(
        "{}/messages?peekonly=true&numofmessages={PEEKED_MAX}",
        encode(queue)
    );
    patiently(client, || {
        let call = Call {
            service: ServiceKind::Queue,
            method: "GET",
            resource: resource.clone(),
            headers: vec![header(PEEK_FROM, from)],
        };
        let reply = client.send(call, Upload::empty())?;
        let next = reply.header(PEEK_NEXT).map(str::to_owned);
        Ok::<_, Error>((reply.xml()?, next))
    })
}

/// The number of messages in a queue, including hidden ones.
pub fn messages_in(client: &Client, queue: &str) -> Result<usize> {
    let resource = format!("{}?comp=metadata", encode(queue));
    let reply = ask(client, ServiceKind::Queue, "GET", &resource)?;
    let count = reply.header("x-ms-approximate-messages-count");
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// The lifetime of a message in seconds, from its insertion; -1 if it does not expire.
fn lifetime(message: &Element) -> i64 {
    let time = |name| date::parse_http(message.raw_text(name));
    let lifetime = time("InsertionTime").zip(time("ExpirationTime"));
    let lifetime = lifetime.and_then(|(from, to)| to.duration_since(from).ok());
    match lifetime.map(|lifetime| lifetime.as_secs()) {
        Some(seconds) if seconds < FOREVER_SECONDS => seconds as i64,
        _ => -1,
    }
}

/// Creates a queue without its policies. False if it exists.
pub fn make_queue(client: &Client, queue: &str, fields: &Map<String, Value>) -> Result<bool> {
    let path = encode(queue);
    if ResourceKind::Queue.exists(client, queue)? {
        return Ok(false);
    }
    let headers = metadata_headers(fields)?;
    send(client, ServiceKind::Queue, "PUT", &path, &headers, b"")?;
    Ok(true)
}

/// Puts the message of a line.
pub fn put_message(client: &Client, queue: &str, line: &str) -> Result<()> {
    let message = Line::parse(line)?;
    let path = format!("{}/messages{}", encode(queue), message.query());
    let count = message.dequeue_count;
    let count = count.map(|count| header(DEQUEUE_COUNT, &count.to_string()));
    let headers = Vec::from_iter(count);
    let body = message.body();
    send(
        client,
        ServiceKind::Queue,
        "POST",
        &path,
        &headers,
        body.as_bytes(),
    )
    .map(drop)
}

/// Deletes all messages of a queue.
pub fn clear(client: &Client, queue: &str) -> Result<()> {
    let messages = format!("{}/messages", encode(queue));
    ask(client, ServiceKind::Queue, "DELETE", &messages).map(drop)
}

//! Queues and their messages.

use crate::codec::date;
use crate::codec::xml::{Element, escape_into, is_xml_character};
use crate::commands::client::{Call, Client, encode};
use crate::commands::transfer::asking::{ask, ask_xml, patiently, send};
use crate::commands::transfer::checks::{QUEUE_RULES, check_names};
use crate::commands::transfer::fields::{Resource, header, in_query, metadata_headers, text_field};
use crate::commands::transfer::files::Target;
use crate::commands::transfer::import::Import;
use crate::commands::transfer::progress::Progress;
use crate::commands::transfer::resource_kind::ResourceKind;
use crate::commands::transfer::{Error, Result, blobs, policies};
use crate::http_client::Upload;
use crate::resource_names::check_queue_name;
use crate::service_kind::ServiceKind;
use lazurite_queue::PutMessage;
use serde_json::{Map, Value, json};
use std::io::Write;

/// A lifetime of a thousand years is one that does not end.
const FOREVER_SECONDS: u64 = 1000 * 366 * 24 * 3600;
/// Reads all messages of a queue of Lazurite. Other services ignore it.
const PEEK_FROM: &str = "x-lazurite-peek-from";
const PEEK_NEXT: &str = "x-lazurite-peek-next";
/// How often a message was delivered. Other services ignore it.
const DEQUEUE_COUNT: &str = "x-lazurite-dequeue-count";
/// Messages of a Peek.
pub const PEEKED_MAX: usize = 32;

fn text<'a>(element: &'a Element, name: &str) -> &'a str {
    element.child(name).map_or("", |child| &*child.text)
}

/// Writes all queues.
pub fn export(client: &Client, target: &Target<'_>, progress: &Progress) -> Result<()> {
    for (name, mut settings) in queues(client)? {
        let policies = policies::of(client, ResourceKind::Queue, &name)?;
        settings.insert("policies".to_owned(), policies.into());
        target.write_settings(&ResourceKind::Queue.settings(&name), settings)?;
        progress.add(&progress.queues, 1);
        export_messages(client, &name, target, progress)?;
    }
    Ok(())
}

/// All queues with their settings, without policies.
pub fn queues(client: &Client) -> Result<Vec<Resource>> {
    let mut queues = Vec::new();
    let mut marker = String::new();
    loop {
        let list = format!("?comp=list&include=metadata&marker={}", in_query(&marker));
        let page = ask_xml(client, ServiceKind::Queue, &list)?;
        for queue in page.child("Queues").iter().flat_map(|all| &all.children) {
            let name = ResourceKind::Queue.listed(text(queue, "Name"))?;
            let mut settings = Map::new();
            blobs::put_metadata(&mut settings, queue);
            queues.push((name, settings));
        }
        marker = text(&page, "NextMarker").to_owned();
        if marker.is_empty() {
            return Ok(queues);
        }
    }
}

fn export_messages(
    client: &Client,
    queue: &str,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<()> {
    let mut lines = target.create(&ResourceKind::Queue.lines(queue))?;
    let listed = each_message(client, queue, &mut |line| {
        progress.add(&progress.messages, 1);
        writeln!(lines, "{line}").map_err(Error::of_named_file)
    })?;
    if listed == PEEKED_MAX {
        check_all_were_peeked(client, queue, progress)?;
    }
    lines.flush().map_err(Error::of_named_file)
}

/// Passes on the lines of all messages that the service shows, and returns their number. Lazurite
/// shows all, other services the first [`PEEKED_MAX`].
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
                json!({ "text": text(message, "MessageText"), "ttlSeconds": lifetime(message) });
            take(&line)?;
            count += 1;
        }
        match next {
            Some(next) => from = next,
            None => return Ok(count),
        }
    }
}

/// A page of messages, and where the next one begins.
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

/// The protocol shows the first messages only.
fn check_all_were_peeked(client: &Client, queue: &str, progress: &Progress) -> Result<()> {
    let count = messages_in(client, queue)?;
    if count > PEEKED_MAX {
        progress.leave_out(format!(
            "queue {queue}: {} of its {count} messages, which this service shows only to consumers",
            count - PEEKED_MAX
        ));
    }
    Ok(())
}

/// How many messages a queue holds, hidden ones too.
pub fn messages_in(client: &Client, queue: &str) -> Result<usize> {
    let resource = format!("{}?comp=metadata", encode(queue));
    let reply = ask(client, ServiceKind::Queue, "GET", &resource)?;
    let count = reply.header("x-ms-approximate-messages-count");
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// The whole lifetime of a message in seconds; -1 if it does not expire.
fn lifetime(message: &Element) -> i64 {
    let time = |name| date::parse_http(text(message, name));
    let lifetime = time("InsertionTime").zip(time("ExpirationTime"));
    let lifetime = lifetime.and_then(|(from, to)| to.duration_since(from).ok());
    match lifetime.map(|lifetime| lifetime.as_secs()) {
        Some(seconds) if seconds < FOREVER_SECONDS => seconds as i64,
        _ => -1,
    }
}

/// As `blobs::check`.
pub fn check(import: &Import<'_>) -> Result<()> {
    for queue in import.resources(ResourceKind::Queue)? {
        check_queue_name(&queue)
            .map_err(|error| Error::from(error).within(format_args!("queues/{queue}")))?;
        QUEUE_RULES.check(import.source, &ResourceKind::Queue.settings(&queue))?;
        let lines = ResourceKind::Queue.lines(&queue);
        import
            .source
            .lines(&lines, |line| Ok(Line::parse(line)?.check()?))?;
    }
    Ok(())
}

/// Makes all queues of the directory, with their messages. They are checked.
pub fn import(import: &Import<'_>) -> Result<()> {
    for queue in import.resources(ResourceKind::Queue)? {
        let Some(is_new) = import.make(ResourceKind::Queue, &queue)? else {
            continue;
        };
        import.progress.add(&import.progress.queues, 1);
        if !is_new && messages_in(import.client, &queue)? > 0 {
            import.note_existing(
                ResourceKind::Queue,
                &queue,
                "its messages are deleted first",
            );
            clear(import.client, &queue)?;
        }
        let lines = ResourceKind::Queue.lines(&queue);
        import.source.lines(&lines, |line| {
            let put = put(import, &queue, line);
            if import.foreign.is_none() {
                return put;
            }
            let what = format!("a message of queue {queue}");
            import.or_leave_out(&what, put).map(drop)
        })?;
    }
    Ok(())
}

/// Makes a queue, without its policies. False if it is there.
pub fn make_queue(client: &Client, queue: &str, fields: &Map<String, Value>) -> Result<bool> {
    let path = encode(queue);
    if ResourceKind::Queue.exists(client, queue)? {
        return Ok(false);
    }
    let headers = metadata_headers(fields)?;
    send(client, ServiceKind::Queue, "PUT", &path, &headers, b"")?;
    Ok(true)
}

fn put(import: &Import<'_>, queue: &str, line: &str) -> Result<()> {
    put_message(import.client, queue, line)?;
    import.progress.add(&import.progress.messages, 1);
    Ok(())
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

const LINE_FIELDS: [&str; 4] = ["text", "ttlSeconds", "hiddenSeconds", "dequeueCount"];

/// A message as a line says it.
struct Line {
    text: String,
    ttl_seconds: Option<i64>,
    hidden_seconds: Option<i64>,
    dequeue_count: Option<u32>,
}

impl Line {
    fn parse(line: &str) -> Result<Line, String> {
        let fields: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        check_names(&fields, LINE_FIELDS.into_iter())?;
        let text = text_field(&fields, "text")?.ok_or("text: every message has one")?;
        let number = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{name}: {value} is no whole number")),
            },
        };
        let dequeue_count = number("dequeueCount")?.map(u32::try_from).transpose();
        Ok(Line {
            text: text.to_owned(),
            ttl_seconds: number("ttlSeconds")?,
            hidden_seconds: number("hiddenSeconds")?,
            dequeue_count: dequeue_count.map_err(|_| "dequeueCount: it is out of range")?,
        })
    }

    /// Errors: what the service would refuse.
    fn check(&self) -> Result<(), String> {
        let mut characters = self.text.chars();
        if let Some(character) = characters.find(|character| !is_xml_character(*character)) {
            return Err(format!(
                "text: XML, which holds messages, has no {character:?}"
            ));
        }
        lazurite_queue::check_message(&PutMessage {
            text: &self.text,
            ttl_seconds: self.ttl_seconds,
            visibility_seconds: self.hidden_seconds,
            dequeue_count: self.dequeue_count.unwrap_or(0),
        })
        .map_err(|error| match error {
            lazurite_queue::Error::InvalidQueryParameterValue { name, reason, .. } => {
                format!("{}: {}", field(name), reason.trim_end_matches('.'))
            }
            lazurite_queue::Error::OutOfRangeQueryParameterValue { name, .. } => {
                format!("{}: it is out of range", field(name))
            }
            lazurite_queue::Error::RequestBodyTooLarge { limit } => {
                format!("text: it has more than {limit} bytes")
            }
            error => error.to_string(),
        })
    }

    /// The parameters of the request that puts the message.
    fn query(&self) -> String {
        let parameters = [
            ("messagettl", self.ttl_seconds),
            ("visibilitytimeout", self.hidden_seconds),
        ];
        let parameters = parameters.into_iter();
        let parameters: Vec<_> = parameters
            .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
            .collect();
        match parameters.as_slice() {
            [] => String::new(),
            parameters => format!("?{}", parameters.join("&")),
        }
    }

    /// The body of the request.
    fn body(&self) -> String {
        let mut body = String::from("<QueueMessage><MessageText>");
        escape_into(&mut body, &self.text);
        body.push_str("</MessageText></QueueMessage>");
        body
    }
}

/// The field of a line that a parameter comes from.
fn field(parameter: &str) -> &'static str {
    if parameter == "messagettl" {
        "ttlSeconds"
    } else {
        "hiddenSeconds"
    }
}

//! Operations on messages.

use crate::advisor;
use crate::connection::blocking_pool::{self, on_blocking_pool};
use crate::queue::request::{Request, uncached, write};
use crate::request::body::{RequestBody, collect};
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::date;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, put, xml};
use lazurite_protocol::xml::{Writer, read_list};
use lazurite_queue::{GetMessages, MESSAGE_BYTES_MAX, PeekedMessage, PutMessage, UpdateMessage};
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of bytes of a `QueueMessage` document: the longest text, each byte escaped
/// (`&quot;`), and its markup.
const DOCUMENT_BYTES_MAX: usize = 6 * MESSAGE_BYTES_MAX + 1024;
/// Longer documents are parsed and written on the blocking pool.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

pub async fn put_message(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let bytes = collect(body, DOCUMENT_BYTES_MAX).await?;
    let text = message_text(bytes).await?;
    let ttl_seconds = message_ttl(&request.context)?;
    let visibility_seconds = request.context.integer("visibilitytimeout")?;
    let dequeue_count = imported_dequeue_count(&request);
    let db = request.state.services.writers.clone();
    let (message, ticket) = blocking_pool::write(&db, move || {
        let wanted = PutMessage {
            text: &text,
            ttl_seconds,
            visibility_seconds,
            dequeue_count,
        };
        Ok(request
            .state
            .services
            .queues
            .put_message(request.account(), &request.queue, wanted)?)
    })
    .await?;
    ticket.await?;
    let shown = Shown {
        id: &message.message_id,
        inserted_at: message.inserted_at,
        expires_at: message.expires_at,
        holder: Some((&message.pop_receipt, message.visible_at)),
        content: None,
    };
    Ok(xml(201, messages_document([shown])))
}

/// The header with the dequeue count of an imported message. Imports send it with the account's
/// key; other credentials cannot set the count.
const DEQUEUE_COUNT: &str = "x-lazurite-dequeue-count";

fn imported_dequeue_count(request: &Request) -> u32 {
    let count = request.context.header(DEQUEUE_COUNT);
    let count = count.filter(|_| matches!(request.caller, Caller::Owner));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Reads the time to live of a message. Before version 2017-07-29 it is at most a week. Source: Put
/// Message, "URI parameters".
fn message_ttl(context: &Context) -> Result<Option<i64>> {
    const WEEK: i64 = 7 * 24 * 60 * 60;
    let name = "messagettl";
    match context.integer(name)? {
        Some(ttl) if !(0..=WEEK).contains(&ttl) && !context.version.is_at_least("2017-07-29") => {
            let reason = "Before version 2017-07-29 a message lives for 604800 seconds at most.";
            Err(Failure::parameter(name, ttl.to_string(), reason))
        }
        ttl => Ok(ttl),
    }
}

async fn message_text(document: Bytes) -> Result<String> {
    if document.len() > AT_ONCE_BYTES_MAX {
        on_blocking_pool(move || read_message(&document)).await
    } else {
        read_message(&document)
    }
}

/// Reads the text of a `QueueMessage` document, in which white space is content. Refuses other
/// elements, which would be lost.
fn read_message(document: &[u8]) -> Result<String> {
    let mut read = None;
    read_list(document, "QueueMessage", |name, text| {
        if name != "MessageText" || read.is_some() {
            return Err(Failure::from(common::INVALID_XML_DOCUMENT));
        }
        read = Some(text.to_owned());
        Ok(())
    })?;
    read.ok_or_else(|| Failure::missing_element("MessageText"))
}

/// A message in a response. Responses to Put and Get have `holder`, those to Get and Peek
/// `content`.
struct Shown<'a> {
    id: &'a str,
    inserted_at: SystemTime,
    expires_at: SystemTime,
    /// The pop receipt, and the time from which others may receive the message.
    holder: Option<(&'a str, SystemTime)>,
    /// The dequeue count and the text.
    content: Option<(u32, &'a str)>,
}

/// The response document of operations on messages. Source: Get Messages, "Response body".
fn messages_document<'a>(messages: impl IntoIterator<Item = Shown<'a>>) -> String {
    let mut document = Writer::new();
    document.open("QueueMessagesList");
    for message in messages {
        document.open("QueueMessage");
        document.element("MessageId", message.id);
        document.element("InsertionTime", &date::rfc1123(message.inserted_at));
        document.element("ExpirationTime", &date::rfc1123(message.expires_at));
        if let Some((pop_receipt, visible_at)) = message.holder {
            document.element("PopReceipt", pop_receipt);
            document.element("TimeNextVisible", &date::rfc1123(visible_at));
        }
        if let Some((dequeue_count, text)) = message.content {
            document.element("DequeueCount", &dequeue_count.to_string());
            document.element("MessageText", text);
        }
        document.close("QueueMessage");
    }
    document.close("QueueMessagesList");
    document.finish()
}

/// Writes a document whose texts have `text_bytes` bytes together, on the blocking pool if the
/// document is long.
async fn written(
    text_bytes: usize,
    write: impl FnOnce() -> String + Send + 'static,
) -> Result<String> {
    if text_bytes > AT_ONCE_BYTES_MAX {
        on_blocking_pool(move || Ok(write())).await
    } else {
        Ok(write())
    }
}

pub async fn get_messages(request: Box<Request>) -> Result<Response<Body>> {
    let count = request.context.integer("numofmessages")?;
    let visibility_seconds = request.context.integer("visibilitytimeout")?;
    let wanted = GetMessages {
        count,
        visibility_seconds,
    };
    let (db, request) = (request.state.services.writers.clone(), Arc::new(request));
    let r = request.clone();
    let step = move || {
        let queues = &r.state.services.queues;
        Ok(queues.get_messages_step(r.account(), &r.queue, wanted)?)
    };
    let taken = match blocking_pool::write(&db, step).await? {
        Some(taken) => taken,
        // The first messages are expired. Skipping many may take long.
        None => {
            let r = request.clone();
            let rest = move || {
                let (queues, account) = (&r.state.services.queues, r.account());
                Ok(queues.get_messages(account, &r.queue, wanted)?)
            };
            blocking_pool::write_unless_blocked(true, &db, rest).await?
        }
    };
    let (messages, ticket) = taken;
    ticket.await?;
    request.owe_messages(messages.len());
    let delivered = advisor::delivered(messages.iter().map(|message| message.dequeue_count));
    let bytes = messages.iter().map(|message| message.text.len()).sum();
    let document = move || {
        messages_document(messages.iter().map(|message| Shown {
            id: &message.message_id,
            inserted_at: message.inserted_at,
            expires_at: message.expires_at,
            holder: Some((&message.pop_receipt, message.visible_at)),
            content: Some((message.dequeue_count, &message.text)),
        }))
    };
    let mut response = uncached(xml(200, written(bytes, document).await?));
    advisor::note(&mut response, delivered);
    Ok(response)
}

/// The header of a Peek that begins at a given place of the queue and includes hidden messages, for
/// the owner of the account. `lazurite export` reads all messages this way. The value is `start` in
/// the first request, then that of [`PEEK_NEXT`] in the previous response.
const PEEK_FROM: &str = "x-lazurite-peek-from";
/// The header of a response to such a Peek: the place at which the next one begins.
const PEEK_NEXT: &str = "x-lazurite-peek-next";
/// Maximum number of messages in a response: as many as a Peek may request.
const PEEKED_MAX: usize = lazurite_queue::MESSAGES_PER_GET_MAX as usize;

pub async fn peek_messages(request: Box<Request>) -> Result<Response<Body>> {
    if let (Some(from), Caller::Owner) = (request.context.header(PEEK_FROM), &request.caller) {
        return peek_from(request, from).await;
    }
    let count = request.context.integer("numofmessages")?;
    let request = Arc::new(request);
    let r = request.clone();
    let step = move || {
        let queues = &r.state.services.queues;
        Ok(queues.peek_messages_step(r.account(), &r.queue, count)?)
    };
    let messages = match blocking_pool::read(step)? {
        Some(messages) => messages,
        // The first messages are expired. Skipping many may take long.
        None => {
            let r = request.clone();
            let rest = move || {
                let (queues, account) = (&r.state.services.queues, r.account());
                Ok(queues.peek_messages(account, &r.queue, count)?)
            };
            on_blocking_pool(rest).await?
        }
    };
    request.owe_messages(messages.len());
    peeked(messages).await
}

async fn peek_from(request: Box<Request>, from: String) -> Result<Response<Body>> {
    let page = on_blocking_pool(move || {
        let from = Some(from.as_str()).filter(|from| *from != "start");
        let (queues, account) = (&request.state.services.queues, request.account());
        let from = from.unwrap_or_default();
        Ok(queues.list_messages(account, &request.queue, from, PEEKED_MAX)?)
    })
    .await?;
    let mut response = peeked(page.messages).await?;
    if let Some(next) = page.next {
        put(&mut response, PEEK_NEXT, next);
    }
    Ok(response)
}

async fn peeked(messages: Vec<PeekedMessage>) -> Result<Response<Body>> {
    let bytes = messages.iter().map(|message| message.text.len()).sum();
    let document = move || {
        messages_document(messages.iter().map(|message| Shown {
            id: &message.message_id,
            inserted_at: message.inserted_at,
            expires_at: message.expires_at,
            holder: None,
            content: Some((message.dequeue_count, &message.text)),
        }))
    };
    Ok(uncached(xml(200, written(bytes, document).await?)))
}

pub async fn update_message(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let pop_receipt = request.context.required_parameter("popreceipt")?;
    request.context.required_parameter("visibilitytimeout")?;
    let visibility_seconds = request
        .context
        .integer("visibilitytimeout")?
        .unwrap_or_default();
    let bytes = collect(body, DOCUMENT_BYTES_MAX).await?;
    let text = if bytes.is_empty() {
        None
    } else {
        Some(message_text(bytes).await?)
    };
    let db = request.state.services.writers.clone();
    let (message, ticket) = blocking_pool::write(&db, move || {
        let wanted = UpdateMessage {
            message_id: &request.message_id,
            pop_receipt: &pop_receipt,
            visibility_seconds,
            text: text.as_deref(),
        };
        Ok(request.state.services.queues.update_message(
            request.account(),
            &request.queue,
            wanted,
        )?)
    })
    .await?;
    ticket.await?;
    let mut response = empty(204);
    put(&mut response, "x-ms-popreceipt", message.pop_receipt);
    put(
        &mut response,
        "x-ms-time-next-visible",
        date::rfc1123(message.visible_at),
    );
    Ok(response)
}

pub async fn clear_messages(request: Box<Request>) -> Result<Response<Body>> {
    write(request, |queues, r| {
        queues.clear_messages(r.account(), &r.queue)
    })
    .await
}

pub async fn delete_message(request: Box<Request>) -> Result<Response<Body>> {
    let pop_receipt = request.context.required_parameter("popreceipt")?;
    write(request, move |queues, r| {
        queues.delete_message(r.account(), &r.queue, &r.message_id, &pop_receipt)
    })
    .await
}

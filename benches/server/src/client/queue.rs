//! The operations of Queue that the workloads use.

use std::time::SystemTime;

use crate::client::account::Service;
use crate::client::error::Error;
use crate::client::http::Client;
use crate::client::request::Request;
use crate::client::xml::{self, Element};

/// A message as Get Messages delivers it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) pop_receipt: String,
    /// Number of deliveries, this one included.
    pub(crate) dequeue_count: u32,
    pub(crate) text: String,
    /// The times are cut to whole seconds.
    pub(crate) inserted_at: SystemTime,
    pub(crate) expires_at: SystemTime,
    pub(crate) visible_at: SystemTime,
}

impl Client {
    /// Create Queue.
    pub(crate) fn create_queue(&self, queue: &str) -> Result<(), Error> {
        self.send(on_queue("PUT", queue, "")).map(|_| ())
    }

    /// Delete Queue.
    pub(crate) fn delete_queue(&self, queue: &str) -> Result<(), Error> {
        self.send(on_queue("DELETE", queue, "")).map(|_| ())
    }

    /// Put Message.
    pub(crate) fn put_message(&self, queue: &str, text: &str) -> Result<(), Error> {
        let body = message_body(text);
        let put = on_queue("POST", queue, "/messages").header("content-type", "application/xml");
        self.send(put.body(body.as_bytes())).map(|_| ())
    }

    /// Put Message with a visibility timeout. Returns the id and the pop receipt of the message.
    pub(crate) fn put_hidden_message(
        &self,
        queue: &str,
        text: &str,
        visibility_seconds: u64,
    ) -> Result<(String, String), Error> {
        let body = message_body(text);
        let put = on_queue("POST", queue, "/messages")
            .query("visibilitytimeout", visibility_seconds)
            .header("content-type", "application/xml");
        let root = xml::parse(&self.send(put.body(body.as_bytes()))?.body)?;
        let text = |name: &str| {
            let message = root.child("QueueMessage");
            message
                .map_or("", |message| message.text_of(name))
                .to_owned()
        };
        Ok((text("MessageId"), text("PopReceipt")))
    }

    /// Put Message with a time to live (-1: forever). Returns the time of its expiry.
    pub(crate) fn put_message_for(
        &self,
        queue: &str,
        text: &str,
        ttl_seconds: i64,
        visibility_seconds: Option<i64>,
    ) -> Result<SystemTime, Error> {
        let body = message_body(text);
        let mut put = on_queue("POST", queue, "/messages")
            .query("messagettl", ttl_seconds)
            .header("content-type", "application/xml");
        if let Some(seconds) = visibility_seconds {
            put = put.query("visibilitytimeout", seconds);
        }
        let root = xml::parse(&self.send(put.body(body.as_bytes()))?.body)?;
        let expiry = root
            .child("QueueMessage")
            .map_or("", |message| message.text_of("ExpirationTime"));
        time(expiry)
    }

    /// Peek Messages. Returns the texts of at most `count` messages.
    pub(crate) fn peek_messages(&self, queue: &str, count: u32) -> Result<Vec<String>, Error> {
        let peek = on_queue("GET", queue, "/messages")
            .query("peekonly", "true")
            .query("numofmessages", count);
        let root = xml::parse(&self.send(peek)?.body)?;
        let texts = root.children.iter();
        Ok(texts
            .map(|message| message.text_of("MessageText").to_owned())
            .collect())
    }

    /// Update Message with text and visibility timeout. Returns the new pop receipt, and the time
    /// until which the message is hidden.
    pub(crate) fn update_message(
        &self,
        queue: &str,
        id: &str,
        pop_receipt: &str,
        text: &str,
        visibility_seconds: u64,
    ) -> Result<(String, SystemTime), Error> {
        let body = message_body(text);
        let update = on_queue("PUT", queue, &format!("/messages/{id}"))
            .query("popreceipt", pop_receipt)
            .query("visibilitytimeout", visibility_seconds)
            .header("content-type", "application/xml");
        let answer = self.send(update.body(body.as_bytes()))?;
        let header = |name: &str| answer.header(name).unwrap_or_default();
        let visible_at = time(header("x-ms-time-next-visible"))?;
        Ok((header("x-ms-popreceipt").to_owned(), visible_at))
    }

    /// Get Messages: at most `count` messages, hidden for `visibility_seconds`.
    pub(crate) fn get_messages(
        &self,
        queue: &str,
        count: u32,
        visibility_seconds: u64,
    ) -> Result<Vec<Message>, Error> {
        let get = on_queue("GET", queue, "/messages")
            .query("numofmessages", count)
            .query("visibilitytimeout", visibility_seconds);
        let root = xml::parse(&self.send(get)?.body)?;
        root.children.iter().map(message).collect()
    }

    /// Update Message with a new visibility timeout, without changing the text.
    pub(crate) fn hide_message(
        &self,
        queue: &str,
        id: &str,
        pop_receipt: &str,
        visibility_seconds: u64,
    ) -> Result<(), Error> {
        let update = on_queue("PUT", queue, &format!("/messages/{id}"))
            .query("popreceipt", pop_receipt)
            .query("visibilitytimeout", visibility_seconds);
        self.send(update).map(|_| ())
    }

    /// Delete Message.
    pub(crate) fn delete_message(
        &self,
        queue: &str,
        id: &str,
        pop_receipt: &str,
    ) -> Result<(), Error> {
        let delete = on_queue("DELETE", queue, &format!("/messages/{id}"));
        self.send(delete.query("popreceipt", pop_receipt))
            .map(|_| ())
    }
}

fn on_queue<'a>(method: &'static str, queue: &str, below: &str) -> Request<'a> {
    Request::new(Service::Queue, method, format!("/{queue}{below}"))
}

fn message_body(text: &str) -> String {
    let text = xml::escape(text);
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

fn time(text: &str) -> Result<SystemTime, Error> {
    httpdate::parse_http_date(text)
        .map_err(|_| Error::Malformed(format!("a time of a message is `{text}`")))
}

fn message(element: &Element) -> Result<Message, Error> {
    let count = element.text_of("DequeueCount");
    let malformed = |_| Error::Malformed(format!("a DequeueCount is `{count}`"));
    Ok(Message {
        id: element.text_of("MessageId").to_owned(),
        pop_receipt: element.text_of("PopReceipt").to_owned(),
        dequeue_count: count.parse().map_err(malformed)?,
        text: element.text_of("MessageText").to_owned(),
        inserted_at: time(element.text_of("InsertionTime"))?,
        expires_at: time(element.text_of("ExpirationTime"))?,
        visible_at: time(element.text_of("TimeNextVisible"))?,
    })
}

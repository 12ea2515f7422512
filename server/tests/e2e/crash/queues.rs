//! The work on queues: putting messages; receiving, returning and deleting one message.

use std::io::Result;

use super::{Writer, each};
use crate::http::{Connection, Request, Response};
use crate::server::Service;

fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

fn put_message(queue_name: &str, text: &str) -> Request {
    let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    queue("POST", &format!("/{queue_name}/messages")).body(body)
}

fn message_count(connection: &mut Connection, queue_name: &str) -> Result<u64> {
    let answer = connection.send(&queue("GET", &format!("/{queue_name}?comp=metadata")))?;
    Ok(answer
        .is(200)
        .header("x-ms-approximate-messages-count")
        .unwrap()
        .parse()
        .unwrap())
}

/// Puts messages one after another.
#[derive(Default)]
pub(super) struct Producer {
    acknowledged: u64,
    pending: bool,
}

impl Writer for Producer {
    fn service(&self) -> Service {
        Service::Queue
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection.send(&queue("PUT", "/producer"))?.is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        self.pending = true;
        connection
            .send(&put_message("producer", &self.acknowledged.to_string()))?
            .is(201);
        (self.acknowledged, self.pending) = (self.acknowledged + 1, false);
        Ok(())
    }

    /// Receives every message, and then clears the queue.
    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let count = message_count(connection, "producer")?;
        assert!(
            count == self.acknowledged || self.pending && count == self.acknowledged + 1,
            "{count} of {}",
            self.acknowledged
        );
        let mut texts = Vec::new();
        while texts.len() < count as usize {
            let page = connection.send(&queue(
                "GET",
                "/producer/messages?numofmessages=32&visibilitytimeout=3600",
            ))?;
            assert!(
                each(page.is(200), "DequeueCount")
                    .iter()
                    .all(|count| count == "1"),
                "{}",
                page.text()
            );
            let found = each(&page, "MessageText");
            assert!(
                !found.is_empty(),
                "messages are counted that cannot be taken"
            );
            texts.extend(found);
        }
        assert!(
            texts
                .iter()
                .enumerate()
                .all(|(number, text)| *text == number.to_string()),
            "lost or out of order: {texts:?}"
        );
        connection
            .send(&queue("DELETE", "/producer/messages"))?
            .is(204);
        (self.acknowledged, self.pending) = (0, false);
        Ok(())
    }
}

/// The state of the consumer's message.
#[derive(Clone, Debug, Default, PartialEq)]
enum Message {
    #[default]
    None,
    /// In the queue, with this dequeue count.
    Visible(u64),
    /// Received for an hour, with this dequeue count, and its id and receipt.
    Held(u64, String, String),
}

/// Repeatedly puts a message, receives and returns it twice, then receives and deletes it.
#[derive(Default)]
pub(super) struct Consumer {
    message: Message,
    /// Whether the next change of `message` was sent but not acknowledged.
    pending: bool,
}

impl Consumer {
    const GET: &'static str = "/consumer/messages?visibilitytimeout=3600";

    fn release(id: &str, receipt: &str) -> Request {
        queue(
            "PUT",
            &format!("/consumer/messages/{id}?popreceipt={receipt}&visibilitytimeout=0"),
        )
    }

    fn held(answer: &Response) -> Message {
        let text = |element: &str| {
            answer
                .element(element)
                .unwrap_or_else(|| panic!("{element} in {}", answer.text()))
        };
        Message::Held(
            text("DequeueCount").parse().unwrap(),
            text("MessageId"),
            text("PopReceipt"),
        )
    }
}

impl Writer for Consumer {
    fn service(&self) -> Service {
        Service::Queue
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection.send(&queue("PUT", "/consumer"))?.is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        self.pending = true;
        self.message = match &self.message {
            Message::None => {
                connection.send(&put_message("consumer", "x"))?.is(201);
                Message::Visible(0)
            }
            Message::Visible(count) => {
                let held = Consumer::held(connection.send(&queue("GET", Consumer::GET))?.is(200));
                assert!(
                    matches!(held, Message::Held(found, ..) if found == count + 1),
                    "{held:?} after {count} deliveries"
                );
                held
            }
            Message::Held(count, id, receipt) if *count < 3 => {
                connection.send(&Consumer::release(id, receipt))?.is(204);
                Message::Visible(*count)
            }
            Message::Held(_, id, receipt) => {
                connection
                    .send(&queue(
                        "DELETE",
                        &format!("/consumer/messages/{id}?popreceipt={receipt}"),
                    ))?
                    .is(204);
                Message::None
            }
        };
        self.pending = false;
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let there = message_count(connection, "consumer")?;
        let taken = connection.send(&queue("GET", Consumer::GET))?;
        let taken = if taken.is(200).element("MessageId").is_some() {
            Consumer::held(&taken)
        } else {
            Message::None
        };
        let known = std::mem::take(&mut self.message);
        let right = match (&known, &taken) {
            // The message exists but cannot be taken: the get in doubt happened, and its receipt
            // was lost with the answer.
            (Message::Visible(_), Message::None) => self.pending && there == 1,
            (Message::Visible(count), Message::Held(found, ..)) => {
                there == 1 && *found == count + 1
            }
            // Received again: possible only if the pending return has happened.
            (Message::Held(count, ..), Message::Held(found, ..)) => {
                self.pending && *count < 3 && *found == count + 1
            }
            (Message::Held(count, ..), Message::None) if there == 0 => self.pending && *count == 3,
            (Message::Held(count, id, receipt), Message::None) => {
                connection.send(&Consumer::release(id, receipt))?.is(204);
                let again = Consumer::held(&connection.send(&queue("GET", Consumer::GET))?);
                matches!(again, Message::Held(found, ..) if found == count + 1)
            }
            (Message::None, Message::Held(found, ..)) => self.pending && *found == 1,
            (Message::None, Message::None) => there == 0,
            (_, Message::Visible(_)) => false,
        };
        assert!(
            right,
            "known: {known:?}, in doubt: {}, there: {there}, taken: {taken:?}",
            self.pending
        );
        connection
            .send(&queue("DELETE", "/consumer/messages"))?
            .is(204);
        self.pending = false;
        Ok(())
    }
}

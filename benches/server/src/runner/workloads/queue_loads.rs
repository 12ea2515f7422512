//! Loads on queues: the requests, and the checks of their responses.

use crate::client::{Account, Answer, Outgoing, Request, Service, Template};
use crate::load::{Expected, Load, any, repeated};
use crate::runner::peers::RESOURCE as QUEUE;
use crate::runner::plan::Scene;

/// A message as the body of a request.
#[derive(Clone)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A message with a text of 1024 bytes.
    pub(super) fn large() -> Message {
        Message::new(1024)
    }

    /// A message with a text of 100 bytes.
    pub(super) fn small() -> Message {
        Message::new(100)
    }

    fn new(chars: usize) -> Message {
        let text: String = (b'a'..=b'z').cycle().take(chars).map(char::from).collect();
        let body = format!(
            "<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
        );
        Message(body.into_bytes())
    }
}

/// A request to the queue, with the headers that SDKs send.
fn request(method: &'static str, below: &str) -> Request<'static> {
    Request::new(Service::Queue, method, format!("/{QUEUE}/messages{below}"))
        .header("accept", "application/xml")
        .header("user-agent", "lazurite-bench")
}

fn put_template(account: &Account) -> Template {
    Template::new(
        account,
        request("POST", "").header("content-type", "application/xml"),
    )
}

/// A request that gets `count` messages and hides them for longer than the run.
fn get_template(account: &Account, count: u32) -> Template {
    let get = request("GET", "").query("numofmessages", count);
    Template::new(account, get.query("visibilitytimeout", 600))
}

/// A request for the message whose id and pop receipt are values 0 and 1.
fn on_message(method: &'static str) -> Request<'static> {
    let below = format!("/{}", Template::mark(0));
    request(method, &below).query("popreceipt", Template::mark(1))
}

/// The ids and pop receipts of the messages in a response to Get Messages.
fn messages(answer: &Answer) -> Vec<Held> {
    let body = String::from_utf8_lossy(&answer.body);
    let mut rest = &*body;
    let mut found = Vec::new();
    while let Some(id) = cut(&mut rest, "<MessageId>", "</MessageId>") {
        let receipt = cut(&mut rest, "<PopReceipt>", "</PopReceipt>");
        found.push(Held {
            id,
            receipt: receipt.unwrap_or_default(),
        });
    }
    found
}

/// The text between the next `begin` and `end`. Advances `text` past it.
fn cut(text: &mut &str, begin: &str, end: &str) -> Option<String> {
    let from = text.find(begin)? + begin.len();
    let length = text[from..].find(end)?;
    let found = text[from..from + length].to_owned();
    *text = &text[from + length..];
    Some(found)
}

/// A message that was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    id: String,
    receipt: String,
}

/// Puts the same message `count` times.
pub(super) fn put(account: &Account, message: Message, count: u64) -> impl Load + use<> {
    let (mut template, mut numbers) = (put_template(account), 0..count);
    let next = move |out: &mut Outgoing| {
        numbers.next()?;
        template.write(out, &[], &message.0);
        Some(Expected::status(201))
    };
    repeated(next, any)
}

/// The name of queue `number` of many.
pub(super) fn queue_name(number: u64) -> String {
    format!("{QUEUE}-{number}")
}

/// Puts messages that live for a second, in one queue after another.
pub(super) fn put_short_lived(account: &Account, queues: u64) -> impl Load + use<> {
    let path = format!("/{}/messages", Template::mark(0));
    let put = Request::new(Service::Queue, "POST", path)
        .query("messagettl", 1)
        .header("accept", "application/xml")
        .header("content-type", "application/xml")
        .header("user-agent", "lazurite-bench");
    let mut template = Template::new(account, put);
    let (message, mut numbers) = (Message::small(), (0..queues).cycle());
    let next = move |out: &mut Outgoing| {
        let queue = queue_name(numbers.next()?);
        template.write(out, &[&queue], &message.0);
        Some(Expected::status(201))
    };
    repeated(next, any)
}

/// The operations of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Put,
    Get,
    /// Deletes the message that the last `Get` of this connection returned.
    Delete,
}

impl Step {
    fn expected(self) -> Expected {
        match self {
            Step::Put => Expected::status(201),
            Step::Get => Expected::status(200).seen(),
            Step::Delete => Expected::status(204),
        }
    }
}

/// Repeats the same steps on each connection. The kind of a response is the step's position.
pub(super) struct Cycle {
    put: Template,
    get: Template,
    delete: Template,
    message: Message,
    steps: &'static [Step],
    /// By connection: the position in the cycle, and the last received message.
    state: Vec<(usize, Held)>,
}

impl Cycle {
    pub(super) fn new(
        account: &Account,
        connections: usize,
        message: Message,
        steps: &'static [Step],
    ) -> Cycle {
        Cycle {
            put: put_template(account),
            get: get_template(account, 1),
            delete: Template::new(account, on_message("DELETE")),
            message,
            steps,
            state: vec![(0, Held::default()); connections],
        }
    }
}

impl Load for Cycle {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let (position, held) = &mut self.state[connection];
        let (step, kind) = (self.steps[*position], *position);
        *position = (*position + 1) % self.steps.len();
        match step {
            Step::Put => self.put.write(out, &[], &self.message.0),
            Step::Get => self.get.write(out, &[], b""),
            Step::Delete => self.delete.write(out, &[&held.id, &held.receipt], b""),
        }
        Some(step.expected().kind(kind))
    }

    fn may_end(&self, connection: usize) -> bool {
        let (position, _) = &self.state[connection];
        *position == 0
    }

    fn answered(&mut self, connection: usize, answer: &Answer) -> Result<(), String> {
        let (position, held) = &mut self.state[connection];
        let count = self.steps.len();
        if self.steps[(*position + count - 1) % count] == Step::Get {
            let got = messages(answer).pop();
            *held = got.ok_or("no message came though some are waiting")?;
        }
        Ok(())
    }
}

/// Peeks at the first message.
pub(super) fn peek(scene: &Scene) -> impl Load + use<> {
    let peek = request("GET", "").query("peekonly", "true");
    again(Template::new(scene.account, peek), 1)
}

/// Gets 32 messages at a time.
pub(super) fn get_many(account: &Account) -> impl Load + use<> {
    again(get_template(account, 32), 32)
}

/// Repeats a request. The responses must be long enough for this number of messages.
fn again(mut template: Template, messages: usize) -> impl Load {
    let next = move |out: &mut Outgoing| {
        template.write(out, &[], b"");
        Some(Expected::status(200))
    };
    repeated(next, move |answer| {
        if answer.body_bytes > messages * 200 {
            Ok(())
        } else {
            let bytes = answer.body_bytes;
            Err(format!("{messages} messages came in {bytes} bytes"))
        }
    })
}

/// On each connection, gets a message and then updates it repeatedly.
pub(super) struct Update {
    get: Template,
    update: Template,
    message: Message,
    held: Vec<Option<Held>>,
}

impl Update {
    pub(super) fn new(scene: &Scene, message: Message) -> Update {
        let update = on_message("PUT").query("visibilitytimeout", 600);
        let update = update.header("content-type", "application/xml");
        Update {
            get: get_template(scene.account, 1),
            update: Template::new(scene.account, update),
            message,
            held: vec![None; scene.connections],
        }
    }
}

impl Load for Update {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        match &self.held[connection] {
            None => {
                self.get.write(out, &[], b"");
                Some(Expected::status(200).seen().kind(1))
            }
            Some(held) => {
                let values = [&*held.id, &*held.receipt];
                self.update.write(out, &values, &self.message.0);
                Some(Expected::status(204).seen())
            }
        }
    }

    fn answered(&mut self, connection: usize, answer: &Answer) -> Result<(), String> {
        match &mut self.held[connection] {
            None => {
                let got = messages(answer).pop();
                self.held[connection] = Some(got.ok_or("no message came though some are waiting")?);
            }
            Some(held) => {
                let receipt = answer.header("x-ms-popreceipt").ok_or("no new receipt")?;
                receipt.clone_into(&mut held.receipt);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_receipts_are_read_from_an_answer() {
        let body = "<QueueMessagesList><QueueMessage><MessageId>a</MessageId><PopReceipt>b=</PopReceipt></QueueMessage>\
                    <QueueMessage><MessageId>c</MessageId><PopReceipt>d</PopReceipt></QueueMessage></QueueMessagesList>";
        let answer = Answer {
            body: body.into(),
            ..Answer::default()
        };
        let held = |id: &str, receipt: &str| Held {
            id: id.into(),
            receipt: receipt.into(),
        };
        assert_eq!(messages(&answer), [held("a", "b="), held("c", "d")]);
    }
}

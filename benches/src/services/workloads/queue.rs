//! Loads on queues.

use super::CONNECTIONS;
use crate::client::{Account, Outgoing, Request, Service, Template};
use crate::load::{Expected, Load};
use crate::report::Outcome;
use crate::services::peers::Running;
use crate::services::{Bench, Plan};

const QUEUE: &str = "bench";
/// Characters of a message.
const TEXT_CHARS: usize = 256;

/// Puts of new messages.
pub(super) fn put(bench: &mut Bench) -> Outcome<()> {
    bench.compare(&Plan {
        name: "queue put",
        service: Service::Queue,
        connections: CONNECTIONS,
        kinds: &["put"],
        prepare: &create_queue,
        load: &|scene| Box::new(Put::new(scene.account)),
    })
}

fn create_queue(peer: &Running) -> Outcome<()> {
    match peer.is_a_store() {
        true => Ok(peer.client().create_queue(QUEUE)?),
        false => Ok(()),
    }
}

/// What the SDKs send with every request to a queue.
fn request(method: &'static str, path: String) -> Request<'static> {
    Request::new(Service::Queue, method, path)
        .header("accept", "application/xml")
        .header("user-agent", "lazurite-bench")
}

/// Puts the same message again and again.
struct Put {
    template: Template,
    body: Vec<u8>,
}

impl Put {
    fn new(account: &Account) -> Put {
        let put = request("POST", format!("/{QUEUE}/messages"));
        let text = "m".repeat(TEXT_CHARS);
        let body = format!(
            "<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
        );
        Put {
            template: Template::new(account, put.header("content-type", "application/xml")),
            body: body.into_bytes(),
        }
    }
}

impl Load for Put {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        self.template.write(out, &[], &self.body);
        Some(Expected::status(201))
    }
}

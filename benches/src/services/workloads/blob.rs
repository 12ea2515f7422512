//! Loads on blobs.

use std::sync::Arc;

use super::CONNECTIONS;
use crate::client::{Account, Outgoing, Request, Service, Template};
use crate::load::{Answer, Expected, Limit, Load};
use crate::random::Random;
use crate::report::Outcome;
use crate::services::peers::Running;
use crate::services::{Bench, Plan, Scene};

const CONTAINER: &str = "bench";
const KIB: usize = 1024;

/// Puts and gets of small blobs.
pub(super) fn small(bench: &mut Bench) -> Outcome<()> {
    let bytes = 4 * KIB;
    bench.compare(&Plan {
        name: "blob put 4 KiB",
        service: Service::Blob,
        connections: CONNECTIONS,
        kinds: &["put"],
        prepare: &create_container,
        load: &|scene| Box::new(Put::new(scene.account, scene.serial, bytes, u64::MAX)),
    })?;
    let blobs = bench.scaled(10_000.0, 100);
    bench.compare(&Plan {
        name: "blob get 4 KiB",
        service: Service::Blob,
        connections: CONNECTIONS,
        kinds: &["get"],
        prepare: &|peer| {
            create_container(peer)?;
            fill(peer, bytes, blobs)
        },
        load: &|scene| Box::new(Get::new(scene, bytes, blobs)),
    })
}

fn create_container(peer: &Running) -> Outcome<()> {
    match peer.is_a_store() {
        true => Ok(peer.client().create_container(CONTAINER)?),
        false => Ok(()),
    }
}

/// Puts the blobs 0 to `count` of the data 0.
fn fill(peer: &Running, bytes: usize, count: u64) -> Outcome<()> {
    if !peer.is_a_store() {
        return Ok(());
    }
    let mut load = Put::new(peer.account(), 0, bytes, count);
    let met = peer
        .connect(Service::Blob, 16)?
        .run(&mut load, Limit::NONE)?;
    match met.wrong.first() {
        None => Ok(()),
        Some(wrong) => Err(wrong.clone().into()),
    }
}

/// What the SDKs send with every request to a blob.
fn request(method: &'static str) -> Request<'static> {
    Request::new(
        Service::Blob,
        method,
        format!("/{CONTAINER}/{}", Template::mark(0)),
    )
    .header("accept", "application/xml")
    .header("user-agent", "lazurite-bench")
}

/// The name of blob number `number` of the data `data`.
fn name(data: u64, number: u64) -> String {
    format!("d{data:04}/b{number:09}")
}

/// Puts one blob after the other, of noise of that length.
struct Put {
    template: Template,
    content: Arc<Vec<u8>>,
    data: u64,
    next: u64,
    end: u64,
}

impl Put {
    fn new(account: &Account, data: u64, bytes: usize, end: u64) -> Put {
        let put = request("PUT")
            .header("content-type", "application/octet-stream")
            .header("x-ms-blob-type", "BlockBlob");
        let mut content = vec![0; bytes];
        Random::new(2).fill(&mut content);
        Put {
            template: Template::new(account, put),
            content: Arc::new(content),
            data,
            next: 0,
            end,
        }
    }
}

impl Load for Put {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        if self.next >= self.end {
            return None;
        }
        let name = name(self.data, self.next);
        self.next += 1;
        let whole = 0..self.content.len();
        self.template
            .write_long(out, &[&name], &self.content, whole);
        Some(Expected::status(201))
    }
}

/// Gets blobs of the data 0 at random.
struct Get {
    template: Template,
    random: Random,
    bytes: usize,
    count: u64,
}

impl Get {
    fn new(scene: &Scene, bytes: usize, count: u64) -> Get {
        Get {
            template: Template::new(scene.account, request("GET")),
            random: Random::new(scene.serial),
            bytes,
            count,
        }
    }
}

impl Load for Get {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let name = name(0, self.random.below(self.count));
        self.template.write(out, &[&name], b"");
        Some(Expected::status(200))
    }

    fn answered(&mut self, _connection: usize, answer: &Answer) -> Result<(), String> {
        match answer.body_bytes == self.bytes {
            true => Ok(()),
            false => Err(format!(
                "{} bytes came back, not {}",
                answer.body_bytes, self.bytes
            )),
        }
    }
}

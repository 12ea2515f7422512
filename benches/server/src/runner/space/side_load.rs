//! The load beside the deletions: a steady mix of requests to all three services, whose answers are
//! checked.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;

use lazurite_bench_common::Random;

use crate::client::{Change, Client, Error, Write};
use crate::runner::space::scene::Scene;

/// Between two cycles of a thread.
const PAUSE: Duration = Duration::from_millis(40);
const BLOB_BYTES: usize = 16 << 10;
/// Blobs that a thread leaves before it deletes the oldest.
const BLOBS_KEPT: usize = 20;
/// About the bytes of an entity: its keys and its text.
const ENTITY_BYTES: u64 = 250;
/// A message that is not deleted by then would come back.
const VISIBILITY_SECONDS: u64 = 600;

/// One thread of the load.
pub(super) struct SideLoad<'a> {
    scene: &'a Scene,
    thread: usize,
    cycle: u64,
    content: Vec<u8>,
    blobs: VecDeque<String>,
    entities: u64,
    latencies: Histogram<u64>,
}

impl SideLoad<'_> {
    pub(super) fn new(scene: &Scene, thread: usize) -> SideLoad<'_> {
        let mut content = vec![0; BLOB_BYTES];
        Random::new(thread as u64).fill(&mut content);
        SideLoad {
            scene,
            thread,
            cycle: 0,
            content,
            blobs: VecDeque::new(),
            entities: 0,
            latencies: Histogram::new(3).expect("three digits are a valid precision"),
        }
    }

    /// Sends requests until the end. Returns their latencies in nanoseconds. Error: a refused
    /// request or a wrong answer. A reset of the store is none.
    pub(super) fn run(mut self) -> (Histogram<u64>, Result<(), Error>) {
        let mut outcome = Ok(());
        while outcome.is_ok() && !self.scene.is_over() {
            outcome = self.run_until_reset();
        }
        (self.latencies, outcome)
    }

    fn run_until_reset(&mut self) -> Result<(), Error> {
        let resets = self.scene.resets.load(Ordering::SeqCst);
        self.create()?;
        while !self.scene.is_over() {
            match self.run_cycle() {
                Ok(()) => thread::sleep(PAUSE),
                Err(_) if self.scene.resets.load(Ordering::SeqCst) != resets => break,
                Err(error) => return Err(error),
            }
            self.show_live();
        }
        self.blobs.clear();
        self.entities = 0;
        self.show_live();
        Ok(())
    }

    /// Creates the resources of this thread. What is there already stays.
    fn create(&self) -> Result<(), Error> {
        let client = &self.scene.client;
        let creations: [&dyn Fn() -> Result<(), Error>; 3] = [
            &|| client.create_container(&self.name()),
            &|| client.create_queue(&self.name()),
            &|| client.create_table(&self.table()),
        ];
        for create in creations {
            match client.patiently(create) {
                Err(Error::Refused { status: 409, .. }) => {}
                answer => answer?,
            }
        }
        Ok(())
    }

    fn run_cycle(&mut self) -> Result<(), Error> {
        self.cycle += 1;
        self.use_blobs()?;
        self.insert_entity()?;
        self.use_queue()
    }

    fn use_blobs(&mut self) -> Result<(), Error> {
        let (container, blob) = (self.name(), format!("{:08}", self.cycle));
        let content = self.content.clone();
        self.time(|client| client.put_blob(&container, &blob, &content))?;
        let found = self.time(|client| client.get_blob_range(&container, &blob, 0, BLOB_BYTES))?;
        expect(found == content, "a blob of the load is not as it was put")?;
        self.blobs.push_back(blob);
        if self.blobs.len() > BLOBS_KEPT
            && let Some(oldest) = self.blobs.pop_front()
        {
            self.time(|client| client.delete_blob(&container, &oldest))?;
        }
        Ok(())
    }

    fn insert_entity(&mut self) -> Result<(), Error> {
        let (table, row) = (self.table(), format!("{:08}", self.cycle));
        let entity = json!({ "PartitionKey": "load", "RowKey": row, "Text": "x".repeat(200) });
        let insert = Change::new(Write::Insert, entity);
        self.time(|client| client.write_entity(&table, &insert))?;
        self.entities += 1;
        Ok(())
    }

    fn use_queue(&mut self) -> Result<(), Error> {
        let (queue, text) = (self.name(), format!("message {}", self.cycle));
        self.time(|client| client.put_message(&queue, &text))?;
        let got = self.time(|client| client.get_messages(&queue, 1, VISIBILITY_SECONDS))?;
        let [message] = &got[..] else {
            return expect(false, "a message of the load is missing");
        };
        expect(
            message.text == text,
            "a message of the load has another text",
        )?;
        self.time(|client| client.delete_message(&queue, &message.id, &message.pop_receipt))
    }

    fn time<T>(&mut self, request: impl FnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let sent = Instant::now();
        let answer = request(&self.scene.client);
        let nanos = sent.elapsed().as_nanos() as u64;
        self.latencies.record(nanos).expect("the histogram grows");
        answer
    }

    fn show_live(&self) {
        let bytes = (self.blobs.len() * BLOB_BYTES) as u64 + self.entities * ENTITY_BYTES;
        self.scene.side_live[self.thread].store(bytes, Ordering::Relaxed);
    }

    /// Of the container and the queue.
    fn name(&self) -> String {
        format!("load-{}", self.thread)
    }

    fn table(&self) -> String {
        format!("Load{}", self.thread)
    }
}

fn expect(holds: bool, what: &str) -> Result<(), Error> {
    holds
        .then_some(())
        .ok_or_else(|| Error::Malformed(what.to_owned()))
}

//! The load beside the deletions: a steady mix of requests to all three services, whose answers are
//! checked.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use lazurite_bench_common::Random;
use serde_json::json;

use crate::client::{Change, Client, Error, Write};
use crate::runner::tally::Tally;
use crate::runner::workloads::space::scene::Scene;

/// Pause between two cycles of a thread.
const PAUSE: Duration = Duration::from_millis(40);
const BLOB_BYTES: usize = 16 << 10;
/// Number of blobs that a thread keeps before it deletes the oldest.
const BLOBS_KEPT: usize = 20;
/// Approximate size of an entity in bytes, with keys and text.
const ENTITY_BYTES: i64 = 250;
/// Longer than the workload, so that undeleted messages do not come back.
const VISIBILITY_SECONDS: u64 = 600;

/// Sends requests until the end. Starts again if the store is reset.
pub(super) fn run(scene: &Scene, number: usize, tally: &Tally) {
    while !scene.is_over() {
        let resets = scene.resets();
        let ended = run_until_reset(scene, number, tally);
        if scene.resets() == resets {
            tally.check(ended.is_ok(), || format!("the load ended early: {ended:?}"));
            return;
        }
    }
}

fn run_until_reset(scene: &Scene, number: usize, tally: &Tally) -> Result<(), Error> {
    let (client, name, table) = (
        &scene.client,
        format!("load-{number}"),
        format!("Load{number}"),
    );
    create(client, &name, &table)?;
    let mut content = vec![0; BLOB_BYTES];
    Random::new(number as u64).fill(&mut content);
    let mut blobs = VecDeque::new();
    for cycle in 0.. {
        if scene.is_over() {
            break;
        }
        let key = format!("{cycle:08}");
        tally.time(|| client.put_blob(&name, &key, &content))?;
        scene.add_live(BLOB_BYTES as i64);
        let found = tally.time(|| client.get_blob_range(&name, &key, 0, BLOB_BYTES))?;
        tally.check(found == content, || {
            format!("blob {key} is not as it was put")
        });
        blobs.push_back(key.clone());
        if blobs.len() > BLOBS_KEPT
            && let Some(oldest) = blobs.pop_front()
        {
            tally.time(|| client.delete_blob(&name, &oldest))?;
            scene.add_live(-(BLOB_BYTES as i64));
        }
        let entity = json!({ "PartitionKey": "load", "RowKey": key, "Text": "x".repeat(200) });
        tally.time(|| client.write_entity(&table, &Change::new(Write::Insert, entity)))?;
        scene.add_live(ENTITY_BYTES);
        tally.time(|| client.put_message(&name, &key))?;
        let got = tally.time(|| client.get_messages(&name, 1, VISIBILITY_SECONDS))?;
        let text = got.first().map(|message| &*message.text);
        tally.check(text == Some(&*key), || format!("message {key} is {text:?}"));
        for message in got {
            tally.time(|| client.delete_message(&name, &message.id, &message.pop_receipt))?;
        }
        tally.add(1);
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Creates the resources of one thread. Existing ones are kept.
fn create(client: &Client, name: &str, table: &str) -> Result<(), Error> {
    let creations: [&dyn Fn() -> Result<(), Error>; 3] = [
        &|| client.create_container(name),
        &|| client.create_queue(name),
        &|| client.create_table(table),
    ];
    for create in creations {
        match client.patiently(create) {
            Err(Error::Refused { status: 409, .. }) => {}
            answer => answer?,
        }
    }
    Ok(())
}

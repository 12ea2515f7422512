//! Fills a store: entities in transactions, blobs, and messages, each from several threads.

use lazurite_bench_common::Random;
use serde_json::{Value, json};

use crate::client::{Client, Error};
use crate::runner::tally::in_parallel;

const CONTAINER: &str = "many";
const TABLE: &str = "Many";
const QUEUE: &str = "many";
/// Number of entities in one transaction, which share a partition.
const TOGETHER: usize = 100;
/// Number of offsets in a buffer of noise at which blobs' contents may start.
const PLACES: usize = 1 << 20;

/// The numbers of items in a store.
#[derive(Clone, Copy, Default)]
pub(super) struct Amounts {
    pub(super) entities: usize,
    pub(super) blobs: usize,
    /// Length of each blob in bytes.
    pub(super) blob_bytes: usize,
    pub(super) messages: usize,
}

impl Amounts {
    /// A million entities, 100,000 blobs of 20 kB, 100,000 messages.
    pub(super) const LARGE: Amounts = Amounts {
        entities: 1_000_000,
        blobs: 100_000,
        blob_bytes: 20_000,
        messages: 100_000,
    };

    /// Each amount times the scale, but at least 1.
    pub(super) fn scaled(self, scale: f64) -> Amounts {
        let scaled = |count: usize| ((count as f64 * scale).round() as usize).max(1);
        Amounts {
            entities: scaled(self.entities),
            blobs: scaled(self.blobs),
            messages: scaled(self.messages),
            ..self
        }
    }
}

/// Creates a container, a table and a queue and fills them.
pub(super) fn fill(client: &Client, amounts: Amounts) -> Result<(), Error> {
    client.create_container(CONTAINER)?;
    client.create_table(TABLE)?;
    client.create_queue(QUEUE)?;
    let mut noise = vec![0; PLACES + amounts.blob_bytes];
    Random::new(1).fill(&mut noise);
    in_parallel("blobs", amounts.blobs, |number| {
        let start = number * 977 % PLACES;
        let content = &noise[start..start + amounts.blob_bytes];
        client.put_blob(CONTAINER, &blob_name(number), content)
    })?;
    let transactions = amounts.entities.div_ceil(TOGETHER);
    in_parallel("transactions", transactions, |number| {
        let first = number * TOGETHER;
        let rows = first..amounts.entities.min(first + TOGETHER);
        let entities: Vec<_> = rows.map(|row| entity(number, row - first)).collect();
        client.insert_together(TABLE, &entities)
    })?;
    in_parallel("messages", amounts.messages, |number| {
        let text = format!("{{\"order\":{number}}}");
        client.put_message(QUEUE, &text)
    })
}

/// The name of a blob. Each directory has a hundred.
fn blob_name(number: usize) -> String {
    format!(
        "{:02}/{:02}/{number:08}.txt",
        number / 10_000 % 100,
        number / 100 % 100
    )
}

fn entity(partition: usize, row: usize) -> Value {
    json!({
        "PartitionKey": format!("{partition:06}"), "RowKey": format!("{row:06}"), "Total": row as f64 * 3.5, "Quantity": row % 9,
        "Paid": row.is_multiple_of(2), "Note": "Leave it with the neighbour if nobody is at home.",
    })
}

//! Fills a store: entities in transactions, blobs, and messages, each from several threads, with
//! their times; and counts them.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, Random, size, thousands};
use serde_json::{Value, json};

use crate::client::{Client, Error, ListBlobs, Query};
use crate::runner::bench::in_parallel;

const CONTAINER: &str = "many";
const TABLE: &str = "Many";
const QUEUE: &str = "many";
/// Entities of one transaction, which share a partition.
const TOGETHER: usize = 100;
/// Names of a page of a listing.
const PAGE: u32 = 5000;
/// Places in a stretch of noise from which contents of blobs begin.
const PLACES: usize = 1 << 20;

/// The number of things in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) entities: usize,
    pub(super) blobs: usize,
    /// Of each blob.
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

    /// This share of each number, at least one.
    pub(super) fn scaled(self, scale: f64) -> Amounts {
        let scaled = |count: usize| ((count as f64 * scale).round() as usize).max(1);
        Amounts {
            entities: scaled(self.entities),
            blobs: scaled(self.blobs),
            messages: scaled(self.messages),
            ..self
        }
    }

    pub(super) fn text(self) -> String {
        format!(
            "{} entities, {} blobs ({}), {} messages",
            thousands(self.entities as u64),
            thousands(self.blobs as u64),
            size((self.blobs * self.blob_bytes) as u64),
            thousands(self.messages as u64)
        )
    }
}

/// Creates a container, a table and a queue and fills them. Returns how long that took.
pub(super) fn fill(client: &Client, amounts: Amounts) -> Outcome<Duration> {
    let began = Instant::now();
    client.create_container(CONTAINER)?;
    client.create_table(TABLE)?;
    client.create_queue(QUEUE)?;
    let mut noise = vec![0; PLACES + amounts.blob_bytes];
    Random::new(1).fill(&mut noise);
    in_parallel("blobs", amounts.blobs, None, |number| {
        let start = number * 977 % PLACES;
        let content = &noise[start..start + amounts.blob_bytes];
        client.put_blob(CONTAINER, &blob_name(number), content)
    })?;
    let transactions = amounts.entities.div_ceil(TOGETHER);
    in_parallel("transactions", transactions, None, |number| {
        let first = number * TOGETHER;
        let rows = first..amounts.entities.min(first + TOGETHER);
        let entities: Vec<_> = rows.map(|row| entity(number, row - first)).collect();
        client.insert_together(TABLE, &entities)
    })?;
    in_parallel("messages", amounts.messages, None, |number| {
        let text = format!("{{\"order\":{number}}}");
        client.put_message(QUEUE, &text).map(drop)
    })?;
    Ok(began.elapsed())
}

/// The names lie in directories of a hundred blobs.
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

/// The numbers of things that a store has: what [`fill`] wrote, if nothing is missing.
pub(super) fn count(client: &Client) -> Result<Amounts, Error> {
    let (blobs, bytes) = count_blobs(client)?;
    let query = Query {
        select: "RowKey".into(),
        ..Query::default()
    };
    Ok(Amounts {
        entities: client.query(TABLE, &query)?.len(),
        blobs,
        blob_bytes: bytes as usize / blobs.max(1),
        messages: client.approximate_messages_count(QUEUE)? as usize,
    })
}

/// Blobs, and their bytes together.
fn count_blobs(client: &Client) -> Result<(usize, u64), Error> {
    let list = ListBlobs {
        results_max: PAGE,
        ..ListBlobs::default()
    };
    let (mut blobs, mut bytes, mut marker) = (0, 0, String::new());
    loop {
        let page = client.list_blobs(CONTAINER, &list, &marker)?;
        blobs += page.blobs.len();
        bytes += page.blobs.iter().map(|(_, bytes)| bytes).sum::<u64>();
        if page.next_marker.is_empty() {
            return Ok((blobs, bytes));
        }
        marker = page.next_marker;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Account;

    #[test]
    fn store_that_was_filled_has_the_amounts() {
        let scratch = tempfile::tempdir().unwrap();
        let server = lazurite::Lazurite::at(scratch.path()).start().unwrap();
        let client = Client::new(Account::parse(&server.connection_string()).unwrap());
        let amounts = Amounts {
            entities: 250,
            blobs: 7,
            blob_bytes: 3000,
            messages: 5,
        };
        fill(&client, amounts).unwrap();
        assert_eq!(count(&client).unwrap(), amounts);
        assert_eq!(
            amounts.text(),
            "250 entities, 7 blobs (21.0 kB), 5 messages"
        );
        server.stop().unwrap();
    }
}

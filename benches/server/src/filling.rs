//! Fills a store: entities in transactions, blobs, and messages, each from several threads, with their times.

use std::thread;
use std::time::Duration;

use lazurite_bench_common::{Outcome, Random, size, thousands};
use serde_json::{Value, json};

use crate::client::{Client, Error, ListBlobs, Query};
use crate::report::{Phase, Report};

pub(crate) const CONTAINER: &str = "many";
pub(crate) const TABLE: &str = "Many";
pub(crate) const QUEUE: &str = "many";
/// Entities of one transaction, which share a partition.
const TOGETHER: usize = 100;
/// As many as `lazurite import` sends requests at a time.
const THREADS: usize = 4;
/// Names of a page of a listing.
const PAGE: u32 = 5000;

/// The number of things in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) entities: usize,
    pub(crate) blobs: usize,
    /// Of each blob.
    pub(crate) blob_bytes: usize,
    pub(crate) messages: usize,
}

impl Amounts {
    /// An empty store.
    pub(crate) const NONE: Amounts = Amounts {
        entities: 0,
        blobs: 0,
        blob_bytes: 0,
        messages: 0,
    };

    /// This share of each number, at least one.
    pub(crate) fn scaled(self, scale: f64) -> Amounts {
        let scaled = |count: usize| ((count as f64 * scale).round() as usize).max(1);
        Amounts {
            entities: scaled(self.entities),
            blobs: scaled(self.blobs),
            messages: scaled(self.messages),
            ..self
        }
    }

    /// All of them as text.
    pub(crate) fn text(self) -> String {
        format!(
            "{} entities, {} blobs ({}), {} messages",
            thousands(self.entities as u64),
            thousands(self.blobs as u64),
            size((self.blobs * self.blob_bytes) as u64),
            thousands(self.messages as u64)
        )
    }
}

/// How long a filling took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    pub(crate) entities: Duration,
    pub(crate) blobs: Duration,
    pub(crate) messages: Duration,
}

/// Creates a container, a table and a queue and fills them. The report has a phase for each.
pub(crate) fn fill(report: &mut Report, client: &Client, amounts: Amounts) -> Outcome<Filled> {
    client.create_container(CONTAINER)?;
    client.create_table(TABLE)?;
    client.create_queue(QUEUE)?;
    let contents = Contents::new(amounts.blob_bytes);
    let put_blob = |number: usize| {
        let content = contents.of(number);
        client.put_blob(CONTAINER, &blob_name(number), content)
    };
    let insert = |number: usize| {
        let first = number * TOGETHER;
        let rows = first..amounts.entities.min(first + TOGETHER);
        let entities: Vec<_> = rows.map(|row| entity(number, row - first)).collect();
        client.insert_together(TABLE, &entities)
    };
    let put_message = |number: usize| {
        let text = format!("{{\"order\":{number}}}");
        client.put_message(QUEUE, &text).map(drop)
    };
    let transactions = amounts.entities.div_ceil(TOGETHER);
    Ok(Filled {
        blobs: in_threads(report, "blobs", amounts.blobs, &put_blob)?,
        entities: in_threads(report, "transactions", transactions, &insert)?,
        messages: in_threads(report, "messages", amounts.messages, &put_message)?,
    })
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

/// Contents of blobs: parts of one stretch of noise, each from another place.
struct Contents {
    noise: Vec<u8>,
    bytes: usize,
}

impl Contents {
    /// Places from which contents begin.
    const PLACES: usize = 1 << 20;

    fn new(bytes: usize) -> Contents {
        let mut noise = vec![0; Contents::PLACES + bytes];
        Random::new(1).fill(&mut noise);
        Contents { noise, bytes }
    }

    fn of(&self, number: usize) -> &[u8] {
        let start = number * 977 % Contents::PLACES;
        &self.noise[start..start + self.bytes]
    }
}

/// Stores `count` items from several threads. Returns how long that took.
fn in_threads(
    report: &mut Report,
    what: &'static str,
    count: usize,
    store: &(dyn Fn(usize) -> Result<(), Error> + Sync),
) -> Outcome<Duration> {
    let phase = Phase::start(what, what, count);
    let outcome: Result<(), Error> = thread::scope(|scope| {
        let stored = (0..THREADS).map(|first| {
            let phase = &phase;
            scope.spawn(move || {
                for number in (first..count).step_by(THREADS) {
                    phase.time(|| store(number))?;
                    phase.add(1);
                }
                Ok(())
            })
        });
        let stored: Vec<_> = stored.collect();
        stored
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a thread that stores does not panic"))
    });
    let took = phase.elapsed();
    report.finish(phase);
    outcome?;
    Ok(took)
}

/// The numbers of things that a store has: what [`fill`] wrote, if nothing is missing.
pub(crate) fn count(client: &Client) -> Result<Amounts, Error> {
    let (blobs, bytes) = count_blobs(client)?;
    Ok(Amounts {
        entities: count_entities(client)?,
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

fn count_entities(client: &Client) -> Result<usize, Error> {
    let query = Query {
        select: "RowKey".into(),
        ..Query::default()
    };
    let (mut entities, mut from) = (0, None);
    loop {
        let page = client.query_page(TABLE, &query, from.as_ref())?;
        entities += page.entities.len();
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(entities),
        }
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
        fill(&mut Report::default(), &client, amounts).unwrap();
        assert_eq!(count(&client).unwrap(), amounts);
        assert_eq!(
            amounts.text(),
            "250 entities, 7 blobs (21.0 kB), 5 messages"
        );
        server.stop().unwrap();
    }

    #[test]
    fn share_of_a_store_is_never_empty() {
        let amounts = Amounts {
            entities: 1000,
            blobs: 100,
            blob_bytes: 20,
            messages: 10,
        };
        let scaled = amounts.scaled(0.01);
        assert_eq!((scaled.entities, scaled.blobs), (10, 1));
        assert_eq!((scaled.blob_bytes, scaled.messages), (20, 1));
    }
}

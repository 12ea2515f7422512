//! ETag contention: one to 64 writers of one counter, against a counter in shards.

use serde_json::{Value, json};

use crate::client::{Change, Client, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, at_once, number};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

/// The numbers of writers that count at once. The crowds count one after the other, each with a
/// counter of its own.
const CROWDS: [usize; 4] = [1, 4, 16, 64];
/// Number of increments of each crowd, shared by its writers.
const INCREMENTS: usize = 320;

/// The RowKey of each shard.
const ROW: &str = "count";

pub(super) static PATTERN: Pattern = Pattern {
    name: "etag-contention",
    title: "ETag contention",
    problem: "Writers that read an entity and write it back under its ETag lose races, and try again.",
    advice: "Give each writer an entity in a partition of its own, and add them up when reading.",
    caution: "The sum is not one state that ever was, and reading costs more.",
    question: "counting with 1, 4, 16 and 64 writers at once",
    goal: Measure::Refused,
    designs: &[
        Design {
            name: "one entity",
            build: |lab| build(lab, |_| 1),
            ask,
            sabotage,
        },
        Design {
            name: "an entity and a partition a writer",
            build: |lab| build(lab, |writers| writers),
            ask,
            sabotage,
        },
    ],
    trials: &[],
    truth: |data| {
        CROWDS
            .iter()
            .map(|crowd| format!("{crowd} writers: {}", increments(data)))
            .collect()
    },
    writes: |data| CROWDS.len() * increments(data),
    questions: |_| CROWDS.len(),
    rate: Rate::Page,
};

// Does what a writer does that ignores the ETag: it undoes the increments of others.
fn sabotage(lab: &Lab) -> Result<(), Error> {
    lab.write("counters", Write::Replace, counter(CROWDS[0], 0, 0))
}

/// Number of increments of each crowd: a multiple of the largest crowd, so that all writers have
/// the same share.
fn increments(data: &Data) -> usize {
    let most = CROWDS[CROWDS.len() - 1];
    data.scaled(INCREMENTS, 1).next_multiple_of(most)
}

/// The PartitionKey of a shard. Each shard has a partition of its own, so that writers do not share
/// the target of a partition either.
fn partition(crowd: usize, shard: usize) -> String {
    format!("{crowd:02}_{shard:02}")
}

fn counter(crowd: usize, shard: usize, count: i64) -> Value {
    json!({ "PartitionKey": partition(crowd, shard), "RowKey": ROW, "Count": count })
}

/// All writers of a crowd increment at once, each in one shard.
fn build(lab: &Lab, shards: fn(usize) -> usize) -> Result<(), Error> {
    lab.create_table("counters")?;
    for crowd in CROWDS {
        let shards = shards(crowd);
        let counters = (0..shards).map(|shard| counter(crowd, shard, 0));
        lab.insert_all("counters", counters.collect())?;
        count(lab, crowd, shards)?;
    }
    Ok(())
}

fn count(lab: &Lab, crowd: usize, shards: usize) -> Result<(), Error> {
    let (client, table) = (&lab.client, &lab.name("counters"));
    let increments = increments(lab.data) / crowd;
    at_once(crowd, |writer| {
        (0..increments).try_for_each(|_| increment(client, table, crowd, writer % shards))
    })
}

/// Reads, adds one, and writes under the ETag. Repeats that until no other writer was faster.
fn increment(client: &Client, table: &str, crowd: usize, shard: usize) -> Result<(), Error> {
    loop {
        let partition = partition(crowd, shard);
        let Some((entity, etag)) = client.get_entity_and_etag(table, &partition, ROW)? else {
            return Err(Error::Malformed(format!("counter {partition} is missing")));
        };
        let next = counter(crowd, shard, number(&entity, "Count") + 1);
        let change = Change::new(Write::Replace, next).if_match(etag);
        match client.write_entity(table, &change) {
            Err(Error::Refused { status: 412, .. }) => {}
            done => return done,
        }
    }
}

fn ask(lab: &Lab) -> Result<Answers, Error> {
    let sum = |crowd: &usize| {
        // The partitions of a counter are a range: '`' is the character after '_'.
        let filter = format!("PartitionKey ge '{crowd:02}_' and PartitionKey lt '{crowd:02}`'");
        let shards = lab.query("counters", filter)?;
        let sum: i64 = shards.iter().map(|shard| number(shard, "Count")).sum();
        Ok(format!("{crowd} writers: {sum}"))
    };
    CROWDS.iter().map(sum).collect()
}

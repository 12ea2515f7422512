//! ETag contention: many writers of one counter, against a counter in shards.

use std::thread;

use serde_json::{Value, json};

use crate::client::{Change, Client, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, number};
use crate::guide::pattern::{Answers, Design, Measure, Pattern};

const WRITERS: usize = 16;
const INCREMENTS: usize = 40;

pub(super) static PATTERN: Pattern = Pattern {
    name: "etag-contention",
    title: "ETag contention",
    problem: "Writers that read an entity and write it back under its ETag lose races, and try again.",
    advice: "Spread what many writers count over several entities, and add them up when reading.",
    caution: "The sum is not one state that ever was, and reading costs more.",
    question: "counting with sixteen writers at once",
    goal: Measure::Refused,
    designs: &[
        Design {
            name: "one entity",
            build: |lab| build(lab, 1),
            ask,
        },
        Design {
            name: "an entity a writer",
            build: |lab| build(lab, WRITERS),
            ask,
        },
    ],
    truth: |data| vec![(WRITERS * increments(data)).to_string()],
    writes: |data| WRITERS * increments(data),
    questions: |_| 1,
    // A writer that ignores the ETag undoes what others counted.
    sabotage: |lab| lab.write("counters", Write::Replace, counter(0, 0)),
};

fn increments(data: &Data) -> usize {
    data.scaled(INCREMENTS, 5)
}

fn counter(shard: usize, count: i64) -> Value {
    json!({ "PartitionKey": "counters", "RowKey": format!("{shard:02}"), "Count": count })
}

/// All writers increment at once, each its shard.
fn build(lab: &Lab, shards: usize) -> Result<(), Error> {
    lab.create_table("counters")?;
    lab.insert_all(
        "counters",
        (0..shards).map(|shard| counter(shard, 0)).collect(),
    )?;
    let (client, table, increments) = (&lab.client, &lab.name("counters"), increments(lab.data));
    thread::scope(|scope| {
        let write = |writer: usize| {
            scope.spawn(move || {
                (0..increments).try_for_each(|_| increment(client, table, writer % shards))
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        let mut ended = writers
            .into_iter()
            .map(|writer| writer.join().expect("a writer does not panic"));
        ended.try_for_each(|ended| ended)
    })
}

/// Reads, adds one, and writes under the ETag until no other writer was faster.
fn increment(client: &Client, table: &str, shard: usize) -> Result<(), Error> {
    loop {
        let row = format!("{shard:02}");
        let Some((entity, etag)) = client.get_entity_and_etag(table, "counters", &row)? else {
            return Err(Error::Malformed(format!("counter {row} is missing")));
        };
        let next = counter(shard, number(&entity, "Count") + 1);
        let change = Change::new(Write::Replace, next).if_match(etag);
        match client.write_entity(table, &change) {
            Err(Error::Refused { status: 412, .. }) => {}
            done => return done,
        }
    }
}

fn ask(lab: &Lab) -> Result<Answers, Error> {
    let shards = lab.query("counters", "PartitionKey eq 'counters'")?;
    let sum: i64 = shards.iter().map(|shard| number(shard, "Count")).sum();
    Ok(vec![sum.to_string()])
}

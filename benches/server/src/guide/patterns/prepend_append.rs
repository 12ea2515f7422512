//! Prepend/append anti-pattern: all writes to one partition, in the order of time, against writes
//! spread over partitions.

use serde_json::{Value, json};

use crate::client::{Change, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, at_once, number};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

/// As many entities as the hosted service takes in one partition in three seconds.
const JOBS: usize = 6000;
/// Number of programs that record jobs at the same time.
const WRITERS: usize = 8;
const PARTITIONS: usize = 10;

pub(super) static PATTERN: Pattern = Pattern {
    name: "prepend-append",
    title: "Prepend/append anti-pattern",
    problem: "Keys made of the time send every write to the same partition, and the hosted service limits what one partition takes.",
    advice: "Spread the writes: begin the PartitionKey with a part of a hash, and read the partitions together.",
    caution: "What is read in the order of time has to be merged from all partitions.",
    question: "recording jobs as they come",
    goal: Measure::HottestPartition,
    designs: &[
        Design {
            name: "one partition, ascending keys",
            build: |lab| build(lab, 1),
            ask: |lab| ask(lab, 1),
            sabotage: |lab| lose_one(lab, 1),
        },
        Design {
            name: "ten partitions by hash",
            build: |lab| build(lab, PARTITIONS),
            ask: |lab| ask(lab, PARTITIONS),
            sabotage: |lab| lose_one(lab, PARTITIONS),
        },
    ],
    trials: &[],
    truth: |data| (0..count(data)).map(|job| job.to_string()).collect(),
    writes: count,
    questions: |_| 1,
    rate: Rate::Job,
};

fn lose_one(lab: &Lab, partitions: usize) -> Result<(), Error> {
    lab.write("jobs", Write::Delete, entity(3, partitions))
}

fn count(data: &Data) -> usize {
    data.scaled(JOBS, 300)
}

fn entity(job: usize, partitions: usize) -> Value {
    // Jobs that are close in time get partitions that are far apart.
    let partition = job.wrapping_mul(2_654_435_761) % partitions;
    json!({ "PartitionKey": format!("{partition:02}"), "RowKey": format!("{job:08}"), "Job": job })
}

/// All programs record at the same time, each of them every eighth job.
fn build(lab: &Lab, partitions: usize) -> Result<(), Error> {
    lab.create_table("jobs")?;
    let (client, table, count) = (&lab.client, &lab.name("jobs"), count(lab.data));
    at_once(WRITERS, |writer| {
        (writer..count).step_by(WRITERS).try_for_each(|job| {
            let change = Change::new(Write::Replace, entity(job, partitions));
            client.write_entity(table, &change)
        })
    })
}

/// All jobs in the order of time.
fn ask(lab: &Lab, partitions: usize) -> Result<Answers, Error> {
    let mut jobs = Vec::new();
    for partition in 0..partitions {
        let found = lab.query("jobs", format!("PartitionKey eq '{partition:02}'"))?;
        jobs.extend(found.iter().map(|job| number(job, "Job")));
    }
    jobs.sort_unstable();
    Ok(jobs.iter().map(i64::to_string).collect())
}

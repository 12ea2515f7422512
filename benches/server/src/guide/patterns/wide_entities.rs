//! Wide entities: more properties than an entity may have, split between two entities of one
//! partition.

use serde_json::{Value, json};

use crate::client::{Entity, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, number};
use crate::guide::pattern::{Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun};

const PROPERTIES: usize = 400;
const HALF: usize = PROPERTIES / 2;
const SUBJECTS: usize = 40;
const NAIVE: &str = "halves in two tables";
const ADVISED: &str = "two entities, one transaction";
/// The tables of the naive design.
const HALVES: [&str; 2] = ["left", "right"];

pub(super) static PATTERN: Pattern = Pattern {
    name: "wide-entities",
    title: "Wide entities",
    problem: "An entity has at most 252 properties of its own; the logical one has 400.",
    advice: "Split it into several entities of one partition, written in one transaction and read by one range.",
    caution: "Without the transaction a reader may see halves of different versions.",
    question: "reading an object of 400 properties",
    goal: Measure::HalfDone,
    designs: &[
        Design {
            name: NAIVE,
            build: build_halves,
            ask: |lab| {
                subjects(lab.data)
                    .map(|subject| read_halves(lab, subject))
                    .collect()
            },
            sabotage: |lab| lab.write(HALVES[1], Write::Delete, half(0, 1, 0, "")),
        },
        Design {
            name: ADVISED,
            build,
            ask: |lab| {
                subjects(lab.data)
                    .map(|subject| read(lab, subject))
                    .collect()
            },
            sabotage: |lab| lab.write("wide", Write::Delete, row(0, 1, 0)),
        },
    ],
    trials: &[Trial {
        circumstance: "the programs die at each of their steps in turn",
        harm: Harm::HalfDone,
        runs: &[
            TrialRun {
                name: NAIVE,
                build: build_halves,
                run: |lab| {
                    // In turn: the program dies before it writes, dies after the first table, or
                    // does not die.
                    subjects(lab.data)
                        .try_for_each(|subject| store_halves(lab, subject, 1, subject % 3))?;
                    tally(lab, read_halves)
                },
            },
            TrialRun {
                name: ADVISED,
                build,
                run: |lab| {
                    // The write is a single step: the program dies before it, or after it.
                    let mut written = subjects(lab.data).skip(1).step_by(2);
                    written.try_for_each(|subject| store(lab, subject, 1))?;
                    tally(lab, read)
                },
            },
        ],
    }],
    truth: |data| subjects(data).map(|subject| whole(subject, 0)).collect(),
    writes: |data| subjects(data).count(),
    questions: |data| subjects(data).count(),
    rate: Rate::Page,
};

fn subjects(data: &Data) -> impl Iterator<Item = usize> + use<> {
    0..data.scaled(SUBJECTS, 4)
}

/// Values grow with each version of the object.
fn value(subject: usize, property: usize, version: usize) -> i64 {
    (subject * 1000 + property * property % 977 + version) as i64
}

/// The properties of one half, under keys.
fn half(subject: usize, half: usize, version: usize, row_key: &str) -> Value {
    let mut entity = json!({ "PartitionKey": format!("{subject:04}"), "RowKey": row_key });
    for property in half * HALF..(half + 1) * HALF {
        entity[format!("P{property:03}")] = value(subject, property, version).into();
    }
    entity
}

fn row(subject: usize, number: usize, version: usize) -> Value {
    half(subject, number, version, &format!("{number:02}"))
}

fn build_halves(lab: &Lab) -> Result<(), Error> {
    HALVES
        .into_iter()
        .try_for_each(|table| lab.create_table(table))?;
    subjects(lab.data).try_for_each(|subject| store_halves(lab, subject, 0, 2))
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("wide")?;
    subjects(lab.data).try_for_each(|subject| store(lab, subject, 0))
}

/// Writes the first `steps` of the two halves.
fn store_halves(lab: &Lab, subject: usize, version: usize, steps: usize) -> Result<(), Error> {
    let mut halves = HALVES.into_iter().enumerate().take(steps);
    halves.try_for_each(|(number, table)| {
        lab.write(table, Write::Replace, half(subject, number, version, ""))
    })
}

fn read_halves(lab: &Lab, subject: usize) -> Result<String, Error> {
    let mut all = Vec::new();
    for table in HALVES {
        let found = lab.get(table, &format!("{subject:04}"), "")?;
        all.extend(values(&found.unwrap_or_default()));
    }
    Ok(line(subject, all.into_iter()))
}

fn store(lab: &Lab, subject: usize, version: usize) -> Result<(), Error> {
    let rows = [0, 1].map(|number| row(subject, number, version));
    lab.transact("wide", Write::Replace, rows)
}

fn read(lab: &Lab, subject: usize) -> Result<String, Error> {
    let rows = lab.query("wide", format!("PartitionKey eq '{subject:04}'"))?;
    Ok(line(subject, rows.iter().flat_map(values)))
}

/// The right answer of one version.
fn whole(subject: usize, version: usize) -> String {
    let values = (0..PROPERTIES).map(|property| value(subject, property, version));
    line(subject, values)
}

/// Counts the objects that are whole in neither version.
fn tally(lab: &Lab, read: fn(&Lab, usize) -> Result<String, Error>) -> Result<Tally, Error> {
    let lab = lab.verifying();
    Tally::count(subjects(lab.data), |subject| {
        let found = read(&lab, subject)?;
        Ok([0, 1]
            .iter()
            .all(|version| found != whole(subject, *version)))
    })
}

/// The values in the order of their properties: names have a fixed width.
fn values(entity: &Entity) -> Vec<i64> {
    let mut names: Vec<&String> = entity
        .keys()
        .filter(|name| name.len() == 4 && name.starts_with('P'))
        .collect();
    names.sort_unstable();
    names.into_iter().map(|name| number(entity, name)).collect()
}

/// The number, sum and weighted sum of the values.
fn line(subject: usize, values: impl Iterator<Item = i64>) -> String {
    let values: Vec<i64> = values.collect();
    let weighted: i64 = (1..)
        .zip(&values)
        .map(|(weight, value)| weight * value)
        .sum();
    format!(
        "{subject}: {} values, {} {weighted}",
        values.len(),
        values.iter().sum::<i64>()
    )
}

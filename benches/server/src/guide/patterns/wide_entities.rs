//! Wide entities: more properties than an entity may have, split between two entities of one
//! partition.

use serde_json::{Value, json};

use crate::client::{Entity, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, number};
use crate::guide::pattern::{Deaths, Design, Losses, Measure, Pattern};

const PROPERTIES: usize = 400;
const HALF: usize = PROPERTIES / 2;
const SUBJECTS: usize = 40;
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
            name: "halves in two tables",
            build: |lab| {
                create_halves(lab)?;
                subjects(lab.data).try_for_each(|subject| store_halves(lab, subject, 0, 2))
            },
            ask: |lab| {
                subjects(lab.data)
                    .map(|subject| read_halves(lab, subject))
                    .collect()
            },
        },
        Design {
            name: "two entities, one transaction",
            build: |lab| {
                lab.create_table("wide")?;
                subjects(lab.data).try_for_each(|subject| store(lab, subject, 0))
            },
            ask: |lab| {
                subjects(lab.data)
                    .map(|subject| read(lab, subject))
                    .collect()
            },
        },
    ],
    deaths: &[
        Deaths {
            design: "halves in two tables",
            run: |lab| {
                create_halves(lab)?;
                // In turn: the program dies before it writes, dies after the first table, or does
                // not die.
                let change = |subject| {
                    store_halves(lab, subject, 0, 2)?;
                    store_halves(lab, subject, 1, subject % 3)
                };
                subjects(lab.data).try_for_each(change)?;
                losses(lab, read_halves)
            },
        },
        Deaths {
            design: "two entities, one transaction",
            run: |lab| {
                lab.create_table("wide")?;
                // The write is a single step: the program dies before it, or after it.
                let change = |subject| {
                    store(lab, subject, 0)?;
                    if subject % 2 == 0 {
                        return Ok(());
                    }
                    store(lab, subject, 1)
                };
                subjects(lab.data).try_for_each(change)?;
                losses(lab, read)
            },
        },
    ],
    truth: |data| subjects(data).map(|subject| whole(subject, 0)).collect(),
    writes: |data| subjects(data).count(),
    questions: |data| subjects(data).count(),
    sabotage: |lab| lab.write("wide", Write::Delete, row(0, 1, 0)),
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

fn create_halves(lab: &Lab) -> Result<(), Error> {
    HALVES
        .into_iter()
        .try_for_each(|table| lab.create_table(table))
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
fn losses(lab: &Lab, read: fn(&Lab, usize) -> Result<String, Error>) -> Result<Losses, Error> {
    let mut losses = Losses {
        half_done: 0,
        objects: 0,
    };
    for subject in subjects(lab.data) {
        let found = read(lab, subject)?;
        let is_whole = [0, 1]
            .iter()
            .any(|version| found == whole(subject, *version));
        losses.objects += 1;
        losses.half_done += usize::from(!is_whole);
    }
    Ok(losses)
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

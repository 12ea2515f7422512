//! Wide entities: more properties than an entity may have, in two entities of one partition.

use serde_json::{Value, json};

use crate::client::{Entity, Write};
use crate::guide::data::Data;
use crate::guide::lab::number;
use crate::guide::pattern::{Design, Measure, Pattern};

const PROPERTIES: usize = 400;
const HALF: usize = PROPERTIES / 2;
const SUBJECTS: usize = 40;

pub(super) static PATTERN: Pattern = Pattern {
    name: "wide-entities",
    title: "Wide entities",
    problem: "An entity has at most 252 properties of its own; the logical one has 400.",
    advice: "Split it into several entities of one partition, written in one transaction and read by one range.",
    caution: "Without the transaction a reader may see halves of different versions.",
    question: "reading an object of 400 properties",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "an entity a property",
            build: |lab| {
                lab.create_table("wide")?;
                let all = subjects(lab.data).flat_map(|subject| {
                    (0..PROPERTIES).map(move |property| {
                        json!({
                            "PartitionKey": format!("{subject:04}"), "RowKey": format!("{property:03}"),
                            "Value": value(subject, property),
                        })
                    })
                });
                lab.insert_all("wide", all.collect())
            },
            ask: |lab| {
                let sum = |subject| {
                    let rows = lab.query("wide", format!("PartitionKey eq '{subject:04}'"))?;
                    Ok(line(subject, rows.iter().map(|row| number(row, "Value"))))
                };
                subjects(lab.data).map(sum).collect()
            },
        },
        Design {
            name: "two entities, one transaction",
            build: |lab| {
                lab.create_table("wide")?;
                subjects(lab.data).try_for_each(|subject| {
                    lab.transact(
                        "wide",
                        Write::Replace,
                        [0, 1].map(|half| part(subject, half)),
                    )
                })
            },
            ask: |lab| {
                let sum = |subject| {
                    let halves = lab.query("wide", format!("PartitionKey eq '{subject:04}'"))?;
                    let values = halves.iter().flat_map(values);
                    Ok(line(subject, values))
                };
                subjects(lab.data).map(sum).collect()
            },
        },
    ],
    truth: |data| {
        let sum = |subject| {
            line(
                subject,
                (0..PROPERTIES).map(|property| value(subject, property)),
            )
        };
        subjects(data).map(sum).collect()
    },
    writes: |data| subjects(data).count(),
    questions: |data| subjects(data).count(),
    sabotage: |lab| lab.write("wide", Write::Delete, part(0, 1)),
};

fn subjects(data: &Data) -> impl Iterator<Item = usize> + use<> {
    0..data.scaled(SUBJECTS, 4)
}

fn value(subject: usize, property: usize) -> i64 {
    (subject * 1000 + property * property % 977) as i64
}

fn part(subject: usize, half: usize) -> Value {
    let mut entity = json!({ "PartitionKey": format!("{subject:04}"), "RowKey": half.to_string() });
    for property in half * HALF..(half + 1) * HALF {
        entity[format!("P{property:03}")] = value(subject, property).into();
    }
    entity
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

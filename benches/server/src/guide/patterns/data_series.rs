//! Data series: the figures of a day in one entity, each merged as it comes.

use serde_json::{Value, json};

use crate::client::{Entity, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::number;
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const DAYS: usize = 60;
const HOURS: usize = 24;

pub(super) static PATTERN: Pattern = Pattern {
    name: "data-series",
    title: "Data series",
    problem: "An entity for each hour makes a day's chart read 24 entities.",
    advice: "Keep a day in one entity with a property for each hour, and merge each figure as it comes.",
    caution: "An entity has at most 252 properties, and writers of one day contend for one entity.",
    question: "reading the message counts of a day",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "an entity an hour",
            build: |lab| {
                lab.create_table("counts")?;
                each(lab.data, |day, hour| {
                    let count = count(day, hour);
                    let entity = json!({ "PartitionKey": "Don", "RowKey": format!("{day:04}-{hour:02}"), "Count": count });
                    lab.write("counts", Write::Insert, entity)
                })
            },
            ask: |lab| {
                let line = |day: usize| {
                    let filter = format!(
                        "PartitionKey eq 'Don' and RowKey ge '{day:04}-' and RowKey lt '{day:04}.'"
                    );
                    let hours = lab.query("counts", filter)?;
                    Ok(joined(hours.iter().map(|hour| number(hour, "Count"))))
                };
                (0..days(lab.data)).map(line).collect()
            },
            sabotage: |lab| {
                let hour = json!({ "PartitionKey": "Don", "RowKey": "0000-05" });
                lab.write("counts", Write::Delete, hour)
            },
        },
        Design {
            name: "an entity a day, merged",
            build: |lab| {
                lab.create_table("counts")?;
                each(lab.data, |day, hour| {
                    lab.write("counts", Write::Merge, merged(day, hour, count(day, hour)))
                })
            },
            ask: |lab| {
                let line = |day: usize| {
                    let filter = format!("PartitionKey eq 'Don' and RowKey eq '{day:04}'");
                    let found = lab.query("counts", filter)?;
                    let day = found.into_iter().next().unwrap_or_else(Entity::new);
                    Ok(joined(
                        (0..HOURS).map(|hour| number(&day, &format!("Hour{hour:02}"))),
                    ))
                };
                (0..days(lab.data)).map(line).collect()
            },
            sabotage: |lab| {
                // What a writer does that replaces an entity where it should merge.
                lab.write("counts", Write::Replace, merged(0, 5, count(0, 5)))
            },
        },
    ],
    trials: &[],
    truth: |data| {
        let line = |day| joined((0..HOURS).map(move |hour| count(day, hour)));
        (0..days(data)).map(line).collect::<Answers>()
    },
    writes: |data| days(data) * HOURS,
    questions: days,
    rate: Rate::Page,
};

fn days(data: &Data) -> usize {
    data.scaled(DAYS, 4)
}

fn count(day: usize, hour: usize) -> i64 {
    ((day * 31 + hour * 7) % 100) as i64
}

fn merged(day: usize, hour: usize, count: i64) -> Value {
    let mut entity = json!({ "PartitionKey": "Don", "RowKey": format!("{day:04}") });
    entity[format!("Hour{hour:02}")] = count.into();
    entity
}

fn each(data: &Data, write: impl Fn(usize, usize) -> Result<(), Error>) -> Result<(), Error> {
    let hours = (0..days(data)).flat_map(|day| (0..HOURS).map(move |hour| (day, hour)));
    hours
        .into_iter()
        .try_for_each(|(day, hour)| write(day, hour))
}

fn joined(counts: impl Iterator<Item = i64>) -> String {
    let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
    counts.join(" ")
}

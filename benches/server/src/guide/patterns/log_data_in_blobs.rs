//! Log data in blobs: the records of an hour in one blob, found by a name that contains the hour.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::{ListBlobs, Write};
use crate::guide::data::Data;
use crate::guide::lab::property;
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const RECORDS_AN_HOUR: usize = 300;
const HOURS: usize = 24;
/// The hours that are asked for.
const ASKED: std::ops::Range<usize> = 8..12;

pub(super) static PATTERN: Pattern = Pattern {
    name: "log-data-in-blobs",
    title: "Log data in blobs",
    problem: "Log records are many, are never changed, and are read by time: as entities, each costs a write.",
    advice: "Collect the records of an hour in a blob named by service, day and hour, as Storage Analytics does, and find it by prefix.",
    caution: "A record is found by its time alone, and the last hour is not there before it is over.",
    question: "storing log records and reading four hours of them",
    goal: Measure::WriteRequests,
    designs: &[
        Design {
            name: "an entity a record",
            build: |lab| {
                lab.create_table("log")?;
                records(lab.data).try_for_each(|(hour, record)| {
                    let entity = json!({
                        "PartitionKey": "table", "RowKey": format!("{hour:02}-{record:04}"), "Text": text(hour, record),
                    });
                    lab.write("log", Write::Insert, entity)
                })
            },
            ask: |lab| {
                let (from, to) = (ASKED.start, ASKED.end);
                let filter = format!(
                    "PartitionKey eq 'table' and RowKey ge '{from:02}-' and RowKey lt '{to:02}-'"
                );
                let found = lab.query("log", filter)?;
                Ok(found
                    .iter()
                    .map(|record| property(record, "Text").to_owned())
                    .collect())
            },
            sabotage: |lab| {
                let hour = ASKED.start;
                let keys = json!({ "PartitionKey": "table", "RowKey": format!("{hour:02}-0000") });
                lab.write("log", Write::Delete, keys)
            },
        },
        Design {
            name: "a blob an hour",
            build: |lab| {
                lab.create_container("log")?;
                (0..HOURS).try_for_each(|hour| {
                    let lines = records(lab.data).filter(|(of, _)| *of == hour);
                    let lines: Vec<String> = lines.map(|(_, record)| text(hour, record)).collect();
                    lab.client
                        .put_blob(&lab.name("log"), &name(hour), lines.join("\n").as_bytes())
                })
            },
            ask: |lab| {
                let container = lab.name("log");
                let list = ListBlobs {
                    prefix: "table/2024/07/31/".into(),
                    results_max: 5000,
                    ..ListBlobs::default()
                };
                let wanted: BTreeSet<String> = ASKED.map(name).collect();
                let mut lines = Answers::new();
                for (name, bytes) in lab.client.list_blobs(&container, &list, "")?.blobs {
                    if wanted.contains(&name) {
                        let content =
                            lab.client
                                .get_blob_range(&container, &name, 0, bytes as usize)?;
                        lines.extend(String::from_utf8_lossy(&content).lines().map(str::to_owned));
                    }
                }
                Ok(lines)
            },
            sabotage: |lab| {
                // The blob of an hour is missing.
                lab.client.delete_blob(&lab.name("log"), &name(ASKED.start))
            },
        },
    ],
    trials: &[],
    truth: |data| {
        let asked = records(data).filter(|(hour, _)| ASKED.contains(hour));
        asked.map(|(hour, record)| text(hour, record)).collect()
    },
    writes: |data| records(data).count(),
    questions: |_| 1,
    rate: Rate::Report,
};

fn name(hour: usize) -> String {
    format!("table/2024/07/31/{hour:02}00/000000.log")
}

fn records(data: &Data) -> impl Iterator<Item = (usize, usize)> + use<> {
    let count = data.scaled(RECORDS_AN_HOUR, 10);
    (0..HOURS).flat_map(move |hour| (0..count).map(move |record| (hour, record)))
}

fn text(hour: usize, record: usize) -> String {
    format!(
        "1.0;2024-07-31T{hour:02}:{:02}:00Z;GetEntity;Success;200;{record}",
        record % 60
    )
}

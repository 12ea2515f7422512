//! Log tail: the newest entities first, by keys that count down.

use serde_json::{Value, json};

use crate::client::{Entity, Error, Query, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, number};
use crate::guide::pattern::{Design, Measure, Pattern, Rate};

const CLAIMS: usize = 5000;
const NEWEST: usize = 10;
/// Greater than the ticks of every claim.
const LAST_TICKS: u64 = 9_999_999_999;

pub(super) static PATTERN: Pattern = Pattern {
    name: "log-tail",
    title: "Log tail",
    problem: "Entities come in the ascending order of their keys; the newest are at the end of the partition.",
    advice: "Make the RowKey of inverted ticks: the newest are the first, and $top reads no more than asked for.",
    caution: "All writes go to the beginning of one partition, which one server of the hosted service has to take.",
    question: "reading the ten newest of 5,000 expense claims",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "ascending ticks, read to the end",
            build: |lab| build(lab, |ticks| ticks),
            ask: |lab| {
                let all = lab.query("claims", "PartitionKey eq 'claims'")?;
                Ok(all.iter().rev().take(NEWEST).map(line).collect())
            },
            sabotage: |lab| move_newest(lab, |ticks| ticks, 0),
        },
        Design {
            name: "inverted ticks and $top",
            build: |lab| build(lab, |ticks| LAST_TICKS - ticks),
            ask: |lab| {
                let query = Query {
                    filter: "PartitionKey eq 'claims'".into(),
                    top: NEWEST,
                    ..Query::default()
                };
                let page = lab.client.query_page(&lab.name("claims"), &query, None)?;
                Ok(page.entities.iter().map(line).collect())
            },
            sabotage: |lab| {
                // A key that was not inverted comes last.
                move_newest(lab, |ticks| LAST_TICKS - ticks, LAST_TICKS)
            },
        },
    ],
    trials: &[],
    truth: |data| {
        let newest = (0..count(data) as u64).rev().take(NEWEST);
        newest
            .map(|claim| format!("{} {claim}", ticks(claim)))
            .collect()
    },
    writes: count,
    questions: |_| 1,
    rate: Rate::Page,
};

/// Stores the newest claim under another key.
fn move_newest(lab: &Lab, key: fn(u64) -> u64, to: u64) -> Result<(), Error> {
    let newest = count(lab.data) as u64 - 1;
    let stored = entity(newest, key(ticks(newest)));
    lab.write("claims", Write::Delete, stored)?;
    lab.write("claims", Write::Insert, entity(newest, to))
}

fn count(data: &Data) -> usize {
    data.scaled(CLAIMS, 100)
}

fn ticks(claim: u64) -> u64 {
    1_700_000_000 + claim * 17
}

fn entity(claim: u64, key: u64) -> Value {
    json!({ "PartitionKey": "claims", "RowKey": format!("{key:010}"), "Ticks": ticks(claim), "Claim": claim })
}

fn build(lab: &Lab, key: fn(u64) -> u64) -> Result<(), Error> {
    lab.create_table("claims")?;
    let claims = 0..count(lab.data) as u64;
    lab.insert_all(
        "claims",
        claims
            .map(|claim| entity(claim, key(ticks(claim))))
            .collect(),
    )
}

fn line(found: &Entity) -> String {
    format!("{} {}", number(found, "Ticks"), number(found, "Claim"))
}

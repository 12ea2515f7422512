//! Continuation: a long read continues at its position, although the server restarts in the middle.

use serde_json::{Value, json};

use crate::client::{Continuation, Error, Query, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const PARTITION: &str = "all";
/// Number of entities in a page.
const PAGE: usize = 10;

pub(super) static PATTERN: Pattern = Pattern {
    name: "continuation",
    title: "Continuation across a restart",
    problem: "A program that reads a large table starts over when the server goes away, and reads everything twice.",
    advice: "Keep the continuation token with the work that is done: it names keys, so that it outlives the server and the program.",
    caution: "What is inserted before the token meanwhile is not read; a server elsewhere, which this program cannot restart, is only asked to go on.",
    question: "reading a table while the server restarts",
    goal: Measure::Requests,
    designs: &[
        Design {
            name: "from the beginning again",
            build,
            ask: |lab| {
                read(lab, None, Some(pages(lab.data) / 2))?;
                lab.restart_server()?;
                Ok(read(lab, None, None)?.0)
            },
            sabotage,
        },
        Design {
            name: "from the continuation token",
            build,
            ask: |lab| {
                let (mut rows, next) = read(lab, None, Some(pages(lab.data) / 2))?;
                lab.restart_server()?;
                rows.extend(read(lab, next, None)?.0);
                Ok(rows)
            },
            sabotage,
        },
    ],
    trials: &[],
    truth: |data| (0..count(data)).map(row_key).collect(),
    writes: count,
    questions: |_| 1,
    rate: Rate::Job,
};

fn sabotage(lab: &Lab) -> Result<(), Error> {
    lab.write("rows", Write::Delete, row(count(lab.data) - 1))
}

fn count(data: &Data) -> usize {
    data.scaled(400, 40)
}

fn pages(data: &Data) -> usize {
    count(data).div_ceil(PAGE)
}

fn row_key(number: usize) -> String {
    format!("{number:06}")
}

fn row(number: usize) -> Value {
    json!({ "PartitionKey": PARTITION, "RowKey": row_key(number) })
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("rows")?;
    lab.insert_all("rows", (0..count(lab.data)).map(row).collect())
}

/// Reads pages from a token on: all of them, or at most `pages_max`. Returns the RowKeys and the
/// next token. Waits while the server is down.
fn read(
    lab: &Lab,
    mut from: Option<Continuation>,
    pages_max: Option<usize>,
) -> Result<(Answers, Option<Continuation>), Error> {
    let query = Query {
        filter: format!("PartitionKey eq '{PARTITION}'"),
        top: PAGE,
        ..Query::default()
    };
    let (table, mut rows) = (lab.name("rows"), Answers::new());
    for _ in 0..pages_max.unwrap_or(usize::MAX) {
        let ask = || lab.client.query_page(&table, &query, from.as_ref());
        let page = lab.client.patiently(ask)?;
        rows.extend(
            page.entities
                .iter()
                .map(|one| property(one, "RowKey").to_owned()),
        );
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    Ok((rows, from))
}

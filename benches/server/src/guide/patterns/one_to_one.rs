//! One-to-one: an employee and details that are seldom needed, in one entity or in two entities of
//! a partition.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::Employee;
use crate::guide::lab::{Lab, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

/// Characters of the curriculum vitae, which the usual question does not need.
const DETAIL_LENGTH: usize = 2000;

pub(super) static PATTERN: Pattern = Pattern {
    name: "one-to-one",
    title: "One-to-one",
    problem: "A large part of an entity is read and written with every use of its small part.",
    advice: "Keep the two parts in two entities of one partition: the small one is read alone, and a transaction changes both.",
    caution: "Reading both takes a range of the partition; a part that is always needed belongs into the entity.",
    question: "reading the mail addresses of employees with large details",
    goal: Measure::Received,
    designs: &[
        Design {
            name: "one entity",
            build: |lab| {
                lab.create_table("staff")?;
                each(lab, |one| {
                    let mut entity = contact(one);
                    entity["Details"] = details(one).into();
                    lab.transact("staff", Write::Insert, [entity])
                })
            },
            ask: |lab| ask(lab, &["contact"]),
            sabotage: |lab| {
                // What a writer does that replaces the entity by the small part.
                lab.write("staff", Write::Replace, contact(lab.data.asked()[0]))
            },
        },
        Design {
            name: "two entities of a partition",
            build: |lab| {
                lab.create_table("staff")?;
                each(lab, |one| {
                    let detail = json!({ "PartitionKey": one.id, "RowKey": "details", "Details": details(one) });
                    lab.transact("staff", Write::Insert, [contact(one), detail])
                })
            },
            ask: |lab| ask(lab, &["contact", "details"]),
            sabotage: |lab| {
                // Deletes one of the two entities without the other.
                let keys = json!({ "PartitionKey": lab.data.asked()[0].id, "RowKey": "details" });
                lab.write("staff", Write::Delete, keys)
            },
        },
    ],
    trials: &[],
    truth: |data| {
        let asked = data.asked().into_iter().map(|one| one.mail.clone());
        asked.chain([details(data.asked()[0])]).collect()
    },
    writes: |data| data.asked().len(),
    questions: |data| data.asked().len(),
    rate: Rate::Page,
};

fn each(lab: &Lab, store: impl Fn(&Employee) -> Result<(), Error>) -> Result<(), Error> {
    lab.data.asked().into_iter().try_for_each(store)
}

fn contact(one: &Employee) -> Value {
    json!({ "PartitionKey": one.id, "RowKey": "contact", "Mail": one.mail })
}

fn details(one: &Employee) -> String {
    one.mail.chars().cycle().take(DETAIL_LENGTH).collect()
}

/// Asks for all mail addresses, and once for the details. The details are in the last of the rows.
fn ask(lab: &Lab, rows: &[&str]) -> Result<Answers, Error> {
    let mut answers = Answers::new();
    for one in lab.data.asked() {
        let found = lab.get("staff", &one.id, rows[0])?.unwrap_or_default();
        answers.push(property(&found, "Mail").to_owned());
    }
    let first = &lab.data.asked()[0].id;
    let found = lab.get("staff", first, rows[rows.len() - 1])?;
    answers.push(property(&found.unwrap_or_default(), "Details").to_owned());
    Ok(answers)
}

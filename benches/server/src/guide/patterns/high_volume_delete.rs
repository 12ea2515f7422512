//! High volume delete: the login records of a day are deleted by dropping the table of the day.

use serde_json::{Value, json};

use crate::client::{Change, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, TRANSACTION_MAX, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const LOGINS_A_DAY: usize = 2000;
/// The day that is deleted, and the day that stays.
const DAYS: [&str; 2] = ["20240101", "20240102"];

pub(super) static PATTERN: Pattern = Pattern {
    name: "high-volume-delete",
    title: "High volume delete",
    problem: "A delete removes one entity, a transaction a hundred of one partition; old data are deleted in great numbers.",
    advice: "Give a day, or whatever is deleted together, a table of its own, and delete the table.",
    caution: "A query over several days has to ask several tables. The hosted service frees the name of a deleted table only after a while.",
    question: "deleting a day of login records",
    goal: Measure::Requests,
    designs: &[
        Design {
            name: "entity by entity",
            build: one_table,
            ask: |lab| {
                for key in keys(lab, DAYS[0])? {
                    lab.write("logins", Write::Delete, key)?;
                }
                left(lab, &["logins"])
            },
            sabotage: |lab| keep_one(lab, "logins"),
        },
        Design {
            name: "transactions of a hundred",
            build: one_table,
            ask: |lab| {
                for some in keys(lab, DAYS[0])?.chunks(TRANSACTION_MAX) {
                    let changes = some.iter();
                    let changes = changes.map(|key| Change::new(Write::Delete, key.clone()));
                    let changes: Vec<Change> = changes.collect();
                    lab.client.transact(&lab.name("logins"), &changes)?;
                }
                left(lab, &["logins"])
            },
            sabotage: |lab| keep_one(lab, "logins"),
        },
        Design {
            name: "a table a day, deleted",
            build: |lab| {
                DAYS.into_iter().try_for_each(|day| {
                    lab.create_table(day)?;
                    lab.insert_all(day, logins(lab.data, day).collect())
                })
            },
            ask: |lab| {
                lab.client.delete_table(&lab.name(DAYS[0]))?;
                left(lab, &DAYS)
            },
            sabotage: |lab| keep_one(lab, DAYS[1]),
        },
    ],
    trials: &[],
    truth: |data| {
        let stay = logins(data, DAYS[1]);
        stay.map(|login| login["RowKey"].as_str().unwrap_or_default().to_owned())
            .collect()
    },
    writes: |data| DAYS.len() * count(data),
    questions: count,
    rate: Rate::Page,
};

/// Stores a login of the first day under the PartitionKey, or in the table, of the second.
fn keep_one(lab: &Lab, table: &str) -> Result<(), Error> {
    let mut login = logins(lab.data, DAYS[0]).take(1);
    login.try_for_each(|mut login| {
        login["PartitionKey"] = DAYS[1].into();
        lab.write(table, Write::Insert, login)
    })
}

fn count(data: &Data) -> usize {
    data.scaled(LOGINS_A_DAY, 100)
}

fn logins(data: &Data, day: &'static str) -> impl Iterator<Item = Value> {
    (0..count(data)).map(move |login| {
        json!({ "PartitionKey": day, "RowKey": format!("{day}-{login:06}"), "User": login % 97 })
    })
}

fn one_table(lab: &Lab) -> Result<(), Error> {
    lab.create_table("logins")?;
    let logins = DAYS.into_iter().flat_map(|day| logins(lab.data, day));
    lab.insert_all("logins", logins.collect())
}

/// The keys of the entities of a day.
fn keys(lab: &Lab, day: &str) -> Result<Vec<Value>, Error> {
    let filter = format!("PartitionKey eq '{day}'");
    let found = lab.select("logins", filter, "PartitionKey,RowKey")?;
    Ok(found.into_iter().map(Value::Object).collect())
}

/// The RowKeys in the tables that still exist.
fn left(lab: &Lab, tables: &[&str]) -> Result<Answers, Error> {
    let mut rows = Answers::new();
    for table in tables {
        match lab.verify(table, "", "RowKey") {
            Err(error) if error.is("TableNotFound") || error.is("TableBeingDeleted") => {}
            found => rows.extend(
                found?
                    .iter()
                    .map(|found| property(found, "RowKey").to_owned()),
            ),
        }
    }
    Ok(rows)
}

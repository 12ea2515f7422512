//! Index entities: the ids of all employees of one last name in one entity of their partition.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client::{Change, Write};
use crate::guide::data::{DEPARTMENTS, Data};
use crate::guide::lab::{employee, line, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern};

const DEPARTMENT: &str = DEPARTMENTS[0];
const NAMES: [&str; 3] = ["Jones", "Chen", "Silva"];

pub(super) static PATTERN: Pattern = Pattern {
    name: "index-entities",
    title: "Index entities",
    problem: "Many entities share a value that is no key, such as a last name, and are asked for by it.",
    advice: "Keep the list of their ids in an index entity of the same partition, changed under its ETag in the transaction of the entity.",
    caution: "An entity takes 64 KiB in a property: an index of a frequent value belongs into a blob, or into entities of its own.",
    question: "finding the employees of a department by last name",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "partition scan",
            build: |lab| {
                lab.create_table("staff")?;
                lab.data.of(DEPARTMENT).try_for_each(|one| {
                    lab.write("staff", Write::Insert, employee(one, DEPARTMENT, &one.id))
                })
            },
            ask: |lab| {
                let mut lines = Answers::new();
                for name in NAMES {
                    let filter = format!("PartitionKey eq '{DEPARTMENT}' and LastName eq '{name}'");
                    lines.extend(lab.query("staff", filter)?.iter().map(line));
                }
                Ok(lines)
            },
        },
        Design {
            name: "index entity with ids",
            build: |lab| {
                lab.create_table("staff")?;
                lab.data.of(DEPARTMENT).try_for_each(|one| {
                    let key = format!("index_{}", one.last);
                    let table = lab.name("staff");
                    let index = lab.client.get_entity_and_etag(&table, DEPARTMENT, &key)?;
                    let listed = |ids: String| {
                        json!({ "PartitionKey": DEPARTMENT, "RowKey": key.clone(), "Ids": ids })
                    };
                    let change = match index {
                        None => Change::new(Write::Insert, listed(one.id.clone())),
                        Some((index, etag)) => {
                            let ids = format!("{},{}", property(&index, "Ids"), one.id);
                            Change::new(Write::Replace, listed(ids)).if_match(etag)
                        }
                    };
                    let entity = Change::new(Write::Insert, employee(one, DEPARTMENT, &one.id));
                    lab.client.transact(&table, &[entity, change])
                })
            },
            ask: |lab| {
                let mut lines = Answers::new();
                for name in NAMES {
                    let keys =
                        format!("PartitionKey eq '{DEPARTMENT}' and RowKey eq 'index_{name}'");
                    for index in lab.query("staff", keys)? {
                        for id in property(&index, "Ids").split(',') {
                            let found = lab.get("staff", DEPARTMENT, id)?;
                            lines.extend(found.iter().map(line));
                        }
                    }
                }
                Ok(lines)
            },
        },
    ],
    truth: |data| NAMES.iter().flat_map(|name| named(data, name)).collect(),
    writes: |data| data.of(DEPARTMENT).count(),
    questions: |_| NAMES.len(),
    sabotage: |lab| {
        // An index that was not changed with its entity.
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        lab.data
            .of(DEPARTMENT)
            .for_each(|one| *names.entry(one.last).or_default() += 1);
        let name = NAMES
            .into_iter()
            .find(|name| names.contains_key(name))
            .unwrap_or(NAMES[0]);
        let index =
            json!({ "PartitionKey": DEPARTMENT, "RowKey": format!("index_{name}"), "Ids": "none" });
        lab.write("staff", Write::Replace, index)
    },
};

fn named(data: &Data, name: &str) -> Vec<String> {
    let named = data.of(DEPARTMENT).filter(|one| one.last == name);
    named.map(|one| one.line()).collect()
}

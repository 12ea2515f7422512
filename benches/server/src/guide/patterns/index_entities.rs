//! Index entities: the ids of all employees of one last name, in a blob, in an entity of their
//! partition, or in a table of their own.

use serde_json::{Value, json};

use crate::client::{Change, Error, Write};
use crate::guide::data::{DEPARTMENTS, Data, Employee};
use crate::guide::lab::{Lab, employee, line, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const DEPARTMENT: &str = DEPARTMENTS[0];
const NAMES: [&str; 3] = ["Jones", "Chen", "Silva"];

pub(super) static PATTERN: Pattern = Pattern {
    name: "index-entities",
    title: "Index entities",
    problem: "Many entities share a value that is no key, such as a last name, and are asked for by it.",
    advice: "Keep the list of their ids in an index entity of the same partition, changed under its ETag in the transaction of the entity. Across \
             partitions keep the list in a blob, or in a table of its own, and change it by way of a queue.",
    caution: "An entity takes 64 KiB in a property: an index of a frequent value belongs into a blob, or into entities of its own. No \
              transaction spans blobs, tables or partitions.",
    question: "finding the employees of a department by last name",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "partition scan",
            build: |lab| {
                lab.create_table("staff")?;
                lab.data.of(DEPARTMENT).try_for_each(|one| insert(lab, one))
            },
            ask: |lab| {
                let mut lines = Answers::new();
                for name in NAMES {
                    let filter = format!("PartitionKey eq '{DEPARTMENT}' and LastName eq '{name}'");
                    lines.extend(lab.query("staff", filter)?.iter().map(line));
                }
                Ok(lines)
            },
            sabotage: |lab| {
                let name = first_name(lab.data);
                let renamed = lab.data.of(DEPARTMENT).find(|one| one.last == name);
                renamed.into_iter().try_for_each(|one| {
                    let keys = json!({ "PartitionKey": DEPARTMENT, "RowKey": one.id });
                    lab.write("staff", Write::Delete, keys)
                })
            },
        },
        Design {
            name: "option 1: ids in blobs",
            build: |lab| {
                lab.create_table("staff")?;
                lab.create_container("indexes")?;
                let container = lab.name("indexes");
                for one in lab.data.of(DEPARTMENT) {
                    insert(lab, one)?;
                    let list = lab.client.get_blob(&container, one.last)?;
                    let mut ids = String::from_utf8_lossy(&list.unwrap_or_default()).into_owned();
                    append(&mut ids, &one.id);
                    lab.client.put_blob(&container, one.last, ids.as_bytes())?;
                }
                Ok(())
            },
            ask: |lab| {
                by_ids(lab, |name| {
                    let index = lab.client.get_blob(&lab.name("indexes"), name)?;
                    Ok(String::from_utf8_lossy(&index.unwrap_or_default()).into_owned())
                })
            },
            sabotage: |lab| {
                let name = first_name(lab.data);
                lab.client.put_blob(&lab.name("indexes"), name, b"none")
            },
        },
        Design {
            name: "option 3: ids in a table of their own",
            build: |lab| {
                lab.create_table("staff")?;
                lab.create_table("indexes")?;
                lab.data.of(DEPARTMENT).try_for_each(|one| {
                    insert(lab, one)?;
                    let entry = json!({ "PartitionKey": one.last, "RowKey": one.id });
                    lab.write("indexes", Write::Insert, entry)
                })
            },
            ask: |lab| {
                by_ids(lab, |name| {
                    let entries = lab.query("indexes", format!("PartitionKey eq '{name}'"))?;
                    let ids = entries.iter().map(|entry| property(entry, "RowKey"));
                    Ok(ids.collect::<Vec<_>>().join(","))
                })
            },
            sabotage: |lab| {
                // An entry whose entity was not changed with it.
                let name = first_name(lab.data);
                let mut others = lab.data.of(DEPARTMENT).filter(|one| one.last != name);
                let id = others.next().map_or("none", |one| &one.id);
                let entry = json!({ "PartitionKey": name, "RowKey": id });
                lab.write("indexes", Write::Insert, entry)
            },
        },
        Design {
            name: "option 2: ids in an entity of the partition",
            build: |lab| {
                lab.create_table("staff")?;
                lab.data
                    .of(DEPARTMENT)
                    .try_for_each(|one| insert_with_index(lab, one))
            },
            ask: |lab| {
                by_ids(lab, |name| {
                    let index = lab.get("staff", DEPARTMENT, &index_key(name))?;
                    Ok(index.map_or_else(String::new, |index| property(&index, "Ids").to_owned()))
                })
            },
            sabotage: |lab| {
                // An index that was not changed together with its entity.
                let name = first_name(lab.data);
                lab.write("staff", Write::Replace, index(name, "none"))
            },
        },
    ],
    trials: &[],
    truth: |data| NAMES.iter().flat_map(|name| named(data, name)).collect(),
    writes: |data| data.of(DEPARTMENT).count(),
    questions: |_| NAMES.len(),
    rate: Rate::Report,
};

/// The first of the names that an employee of the department has.
fn first_name(data: &Data) -> &'static str {
    let is_named = |name: &&str| data.of(DEPARTMENT).any(|one| one.last == *name);
    NAMES.into_iter().find(is_named).unwrap_or(NAMES[0])
}

fn insert(lab: &Lab, one: &Employee) -> Result<(), Error> {
    lab.write("staff", Write::Insert, employee(one, DEPARTMENT, &one.id))
}

/// Inserts an entity and changes its index, in one transaction.
fn insert_with_index(lab: &Lab, one: &Employee) -> Result<(), Error> {
    let table = lab.name("staff");
    let known = lab
        .client
        .get_entity_and_etag(&table, DEPARTMENT, &index_key(one.last))?;
    let change = match known {
        None => Change::new(Write::Insert, index(one.last, &one.id)),
        Some((known, etag)) => {
            let mut ids = property(&known, "Ids").to_owned();
            append(&mut ids, &one.id);
            Change::new(Write::Replace, index(one.last, &ids)).if_match(etag)
        }
    };
    let entity = Change::new(Write::Insert, employee(one, DEPARTMENT, &one.id));
    lab.client.transact(&table, &[entity, change])
}

fn index_key(name: &str) -> String {
    format!("index_{name}")
}

fn index(name: &str, ids: &str) -> Value {
    json!({ "PartitionKey": DEPARTMENT, "RowKey": index_key(name), "Ids": ids })
}

fn append(ids: &mut String, id: &str) {
    if !ids.is_empty() {
        ids.push(',');
    }
    ids.push_str(id);
}

/// Reads the employees of each name. `index` returns their ids, separated by commas.
fn by_ids(lab: &Lab, index: impl Fn(&str) -> Result<String, Error>) -> Result<Answers, Error> {
    let mut lines = Answers::new();
    for name in NAMES {
        for id in index(name)?.split(',').filter(|id| !id.is_empty()) {
            // A query, so that the server counts the row that it examines.
            let keys = format!("PartitionKey eq '{DEPARTMENT}' and RowKey eq '{id}'");
            lines.extend(lab.query("staff", keys)?.iter().map(line));
        }
    }
    Ok(lines)
}

fn named(data: &Data, name: &str) -> Vec<String> {
    let named = data.of(DEPARTMENT).filter(|one| one.last == name);
    named.map(|one| one.line()).collect()
}

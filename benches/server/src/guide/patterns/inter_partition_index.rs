//! Inter-partition secondary index: a second set of partitions under another key.

use serde_json::Value;

use crate::client::{Error, Write};
use crate::guide::data::Employee;
use crate::guide::lab::{Lab, employee, only};
use crate::guide::pattern::{Answers, Design, Measure, Pattern};
use crate::guide::patterns::query_kinds::asked_lines;

/// How long a writer may take before a worker repeats its work.
const HIDDEN_SECONDS: u64 = 30;

pub(super) static PATTERN: Pattern = Pattern {
    name: "inter-partition-index",
    title: "Inter-partition secondary index",
    problem: "Without the department, a lookup by mail address scans the whole table.",
    advice: "Keep a second copy in partitions of its own, keyed by what is asked for; keep the copies alike by way of a queue.",
    caution: "No transaction spans partitions: the copies are alike eventually, not at once.",
    question: "finding an employee by mail alone",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "table scan",
            build: |lab| {
                lab.create_table("staff")?;
                let mut staff = lab.data.employees.iter();
                staff.try_for_each(|one| lab.write("staff", Write::Replace, original(one)))
            },
            ask: |lab| ask(lab, |one| format!("Mail eq '{}'", one.mail)),
        },
        Design {
            name: "copies in partitions by mail",
            build: |lab| {
                lab.create_table("staff")?;
                lab.create_queue("changes")?;
                lab.data
                    .employees
                    .iter()
                    .try_for_each(|one| store(lab, one))
            },
            ask: |lab| {
                ask(lab, |one| {
                    format!(
                        "PartitionKey eq '{}' and RowKey eq '{}'",
                        partition(one),
                        one.mail
                    )
                })
            },
        },
    ],
    deaths: &[],
    truth: asked_lines,
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    sabotage: |lab| {
        let first = lab.data.asked()[0];
        let copy = employee(first, &partition(first), &first.mail);
        lab.write("staff", Write::Delete, copy)
    },
};

fn partition(one: &Employee) -> String {
    format!("mail_{}", &one.mail[..1])
}

fn original(one: &Employee) -> Value {
    employee(one, one.department, &one.id)
}

/// Writes original and copy. Before that, puts a message, so that a worker finishes the work if
/// this writer dies.
fn store(lab: &Lab, one: &Employee) -> Result<(), Error> {
    let queue = lab.name("changes");
    let keys = format!("{}/{}", one.department, one.id);
    let (message, receipt) = lab
        .client
        .put_hidden_message(&queue, &keys, HIDDEN_SECONDS)?;
    lab.write("staff", Write::Replace, original(one))?;
    update_copy(lab, one)?;
    lab.client.delete_message(&queue, &message, &receipt)
}

/// Copies the current original, and repeats that if another writer changed it meanwhile.
fn update_copy(lab: &Lab, one: &Employee) -> Result<(), Error> {
    let table = lab.name("staff");
    let get = || {
        lab.client
            .get_entity_and_etag(&table, one.department, &one.id)
    };
    loop {
        let Some((entity, etag)) = get()? else {
            return Ok(());
        };
        let mut copy = Value::Object(entity);
        copy["PartitionKey"] = partition(one).into();
        copy["RowKey"] = one.mail.clone().into();
        lab.write("staff", Write::Replace, copy)?;
        if get()?.is_some_and(|(_, now)| now == etag) {
            return Ok(());
        }
    }
}

fn ask(lab: &Lab, filter: fn(&Employee) -> String) -> Result<Answers, Error> {
    let found = |one: &Employee| Ok(only(&lab.query("staff", filter(one))?));
    lab.data.asked().into_iter().map(found).collect()
}

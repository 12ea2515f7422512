//! Inter-partition secondary index: a second set of partitions under another key.

use crate::client::{Error, Write};
use crate::guide::data::Employee;
use crate::guide::lab::{Lab, employee, only};
use crate::guide::pattern::{Answers, Design, Measure, Pattern};
use crate::guide::patterns::query_kinds::asked_lines;

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
            build: primary,
            ask: |lab| ask(lab, |one| format!("Mail eq '{}'", one.mail)),
        },
        Design {
            name: "copies in partitions by mail",
            build: |lab| {
                primary(lab)?;
                let copies = lab.data.employees.iter();
                lab.insert_all("staff", copies.map(copy).collect())
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
    truth: asked_lines,
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    sabotage: |lab| lab.write("staff", Write::Delete, copy(lab.data.asked()[0])),
};

fn partition(one: &Employee) -> String {
    format!("mail_{}", &one.mail[..1])
}

fn copy(one: &Employee) -> serde_json::Value {
    employee(one, &partition(one), &one.mail)
}

fn primary(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    let staff = lab.data.employees.iter();
    lab.insert_all(
        "staff",
        staff
            .map(|one| employee(one, one.department, &one.id))
            .collect(),
    )
}

fn ask(lab: &Lab, filter: fn(&Employee) -> String) -> Result<Answers, Error> {
    let found = |one: &Employee| Ok(only(&lab.query("staff", filter(one))?));
    lab.data.asked().into_iter().map(found).collect()
}

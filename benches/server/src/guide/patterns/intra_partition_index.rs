//! Intra-partition secondary index: each employee twice in the department's partition, under the id
//! and under the mail address.

use crate::client::{Error, Write};
use crate::guide::data::Employee;
use crate::guide::lab::{Lab, employee, line, only};
use crate::guide::pattern::{Design, Measure, Pattern, Rate};
use crate::guide::patterns::query_kinds::asked_lines;

pub(super) static PATTERN: Pattern = Pattern {
    name: "intra-partition-index",
    title: "Intra-partition secondary index",
    problem: "Entities are indexed by their keys alone; a lookup by another property scans the partition.",
    advice: "Store each entity twice in one partition, with prefixes in the RowKey, and write both in one transaction.",
    caution: "Everything is stored twice, and a query over the partition has to exclude the other copies by their prefix.",
    question: "finding an employee by mail within a department",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "partition scan",
            build: |lab| {
                lab.create_table("staff")?;
                let staff = lab.data.employees.iter();
                staff.into_iter().try_for_each(|one| {
                    lab.write(
                        "staff",
                        Write::Insert,
                        employee(one, one.department, &one.id),
                    )
                })
            },
            ask: |lab| {
                let found = |one: &Employee| {
                    let (department, mail) = (one.department, &one.mail);
                    let filter = format!("PartitionKey eq '{department}' and Mail eq '{mail}'");
                    Ok(only(&lab.query("staff", filter)?))
                };
                lab.data.asked().into_iter().map(found).collect()
            },
            sabotage: |lab| change(lab, |one| one.id.clone()),
        },
        Design {
            name: "second row under the mail address",
            build: |lab| {
                lab.create_table("staff")?;
                lab.data.employees.iter().try_for_each(|one| {
                    let keys = [format!("id_{}", one.id), mail_key(&one.mail)];
                    let rows = keys.map(|key| employee(one, one.department, &key));
                    lab.transact("staff", Write::Insert, rows)
                })
            },
            ask: |lab| {
                let found = |one: &Employee| {
                    // With a query instead of Get Entity, so that the rows are counted.
                    let (department, key) = (one.department, mail_key(&one.mail));
                    let filter = format!("PartitionKey eq '{department}' and RowKey eq '{key}'");
                    let found = lab.query("staff", filter)?;
                    Ok(found.first().map_or("not found".into(), line))
                };
                lab.data.asked().into_iter().map(found).collect()
            },
            sabotage: |lab| change(lab, |one| mail_key(&one.mail)),
        },
    ],
    trials: &[],
    truth: asked_lines,
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    rate: Rate::Page,
};

/// Changes one copy of an employee who is asked for.
fn change(lab: &Lab, key: fn(&Employee) -> String) -> Result<(), Error> {
    let first = lab.data.asked()[0];
    let mut changed = first.clone();
    changed.age += 1;
    let entity = employee(&changed, first.department, &key(first));
    lab.write("staff", Write::Replace, entity)
}

fn mail_key(mail: &str) -> String {
    format!("mail_{mail}")
}

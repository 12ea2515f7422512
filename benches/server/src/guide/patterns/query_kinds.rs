//! Kinds of queries: the same employees found with more and more of their keys.

use crate::client::{Error, Write};
use crate::guide::data::{Data, Employee};
use crate::guide::lab::{Lab, employee, only};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

pub(super) static PATTERN: Pattern = Pattern {
    name: "query-kinds",
    title: "Query kinds",
    problem: "A filter decides how many entities the service has to read, not how many it returns.",
    advice: "Know PartitionKey and RowKey: a point query reads one entity. A range of RowKeys is next, then a partition, then the table.",
    caution: "A filter that joins two keys by OR is not a point query, even if each half names both keys.",
    question: "finding an employee by department and id",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "table scan",
            build,
            ask: |lab| ask(lab, |_, id| format!("Id eq '{id}'")),
            sabotage,
        },
        Design {
            name: "partition scan",
            build,
            ask: |lab| {
                ask(lab, |department, id| {
                    format!("PartitionKey eq '{department}' and Id eq '{id}'")
                })
            },
            sabotage,
        },
        Design {
            name: "or on RowKey",
            build,
            ask: |lab| {
                ask(lab, |department, id| {
                    format!(
                        "PartitionKey eq '{department}' and (RowKey eq '{id}' or RowKey eq 'none')"
                    )
                })
            },
            sabotage,
        },
        Design {
            name: "row range",
            build,
            ask: |lab| {
                ask(lab, |department, id| {
                    format!(
                        "PartitionKey eq '{department}' and RowKey ge '{id}' and RowKey lt '{id}~'"
                    )
                })
            },
            sabotage,
        },
        Design {
            name: "point query",
            build,
            ask: |lab| {
                ask(lab, |department, id| {
                    format!("PartitionKey eq '{department}' and RowKey eq '{id}'")
                })
            },
            sabotage,
        },
    ],
    trials: &[],
    truth: asked_lines,
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    rate: Rate::Page,
};

fn sabotage(lab: &Lab) -> Result<(), Error> {
    let first = lab.data.asked()[0];
    let entity = employee(first, first.department, &first.id);
    lab.write("staff", Write::Delete, entity)
}

/// The employees that are asked for.
pub(super) fn asked_lines(data: &Data) -> Answers {
    data.asked()
        .iter()
        .map(|employee| employee.line())
        .collect()
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    let staff = lab.data.employees.iter();
    lab.insert_all(
        "staff",
        staff
            .map(|one| employee(one, one.department, &one.id))
            .collect(),
    )
}

fn ask(lab: &Lab, filter: fn(&str, &str) -> String) -> Result<Answers, Error> {
    let found = |one: &&Employee| Ok(only(&lab.query("staff", filter(one.department, &one.id))?));
    lab.data.asked().iter().map(found).collect()
}

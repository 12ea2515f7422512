//! Projection: only the properties that are shown.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::{DEPARTMENTS, Employee};
use crate::guide::lab::{Lab, employee, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const DEPARTMENT: &str = DEPARTMENTS[0];
/// Characters of the curriculum that each employee has.
const CURRICULUM_CHARS: usize = 4000;

pub(super) static PATTERN: Pattern = Pattern {
    name: "projection",
    title: "Projection",
    problem: "A query returns whole entities, although the page shows two properties of each.",
    advice: "Name the properties in $select.",
    caution: "The service still reads the whole entity: it saves transfer, not reads. A selected property that is missing comes as null.",
    question: "listing the names and mail addresses of a department",
    goal: Measure::Received,
    designs: &[
        Design {
            name: "whole entities",
            build,
            ask: |lab| ask(lab, ""),
            sabotage,
        },
        Design {
            name: "$select of two properties",
            build,
            ask: |lab| ask(lab, "LastName,Mail"),
            sabotage,
        },
    ],
    trials: &[],
    truth: |data| {
        data.of(DEPARTMENT)
            .map(|one| format!("{} {}", one.last, one.mail))
            .collect()
    },
    writes: |data| data.of(DEPARTMENT).count(),
    questions: |_| 1,
    rate: Rate::Report,
};

/// Writes a property under another name.
fn sabotage(lab: &Lab) -> Result<(), Error> {
    let mut renamed = lab.data.of(DEPARTMENT).take(1).map(|one| {
        json!({ "PartitionKey": DEPARTMENT, "RowKey": one.id, "Lastname": one.last, "Mail": one.mail })
    });
    renamed.try_for_each(|renamed| lab.write("staff", Write::Replace, renamed))
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    let entity = |one: &Employee| -> Value {
        let mut entity = employee(one, DEPARTMENT, &one.id);
        entity["Curriculum"] = "lorem ipsum "
            .chars()
            .cycle()
            .take(CURRICULUM_CHARS)
            .collect::<String>()
            .into();
        entity
    };
    lab.insert_all("staff", lab.data.of(DEPARTMENT).map(entity).collect())
}

fn ask(lab: &Lab, select: &str) -> Result<Answers, Error> {
    let found = lab.select("staff", format!("PartitionKey eq '{DEPARTMENT}'"), select)?;
    let line = |one| format!("{} {}", property(one, "LastName"), property(one, "Mail"));
    Ok(found.iter().map(line).collect())
}

//! Denormalisation: the manager's name in the employee's entity.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::{DEPARTMENTS, Data, Employee};
use crate::guide::lab::{Lab, employee, property};
use crate::guide::pattern::{Design, Measure, Pattern};

pub(super) static PATTERN: Pattern = Pattern {
    name: "denormalisation",
    title: "Denormalisation",
    problem: "There are no joins: what belongs to an employee's department takes a request of its own.",
    advice: "Copy what is read together into one entity.",
    caution: "A change of the original has to reach every copy; copy what seldom changes.",
    question: "showing an employee with the manager of the department",
    goal: Measure::Requests,
    designs: &[
        Design {
            name: "department in an entity of its own",
            build: |lab| {
                store(lab, false)?;
                let entity = |department: &str| json!({ "PartitionKey": department, "RowKey": "department", "Manager": manager(lab.data, department) });
                lab.insert_all("staff", DEPARTMENTS.map(entity).into())
            },
            ask: |lab| {
                let shown = |one: &Employee| {
                    let found = lab
                        .get("staff", one.department, &one.id)?
                        .unwrap_or_default();
                    let department = lab.get("staff", one.department, "department")?;
                    let department = department.unwrap_or_default();
                    Ok(format!(
                        "{} {}",
                        property(&found, "Mail"),
                        property(&department, "Manager")
                    ))
                };
                lab.data.asked().into_iter().map(shown).collect()
            },
        },
        Design {
            name: "manager copied into the employee",
            build: |lab| store(lab, true),
            ask: |lab| {
                let shown = |one: &Employee| {
                    let found = lab
                        .get("staff", one.department, &one.id)?
                        .unwrap_or_default();
                    Ok(format!(
                        "{} {}",
                        property(&found, "Mail"),
                        property(&found, "Manager")
                    ))
                };
                lab.data.asked().into_iter().map(shown).collect()
            },
        },
    ],
    deaths: &[],
    truth: |data| {
        let asked = data.asked().into_iter();
        let line = |one: &Employee| format!("{} {}", one.mail, manager(data, one.department));
        asked.map(line).collect()
    },
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    sabotage: |lab| {
        // As after a change of the manager that missed one copy.
        let first = lab.data.asked()[0];
        let stale = json!({ "PartitionKey": first.department, "RowKey": first.id, "Manager": "predecessor" });
        lab.write("staff", Write::Merge, stale)
    },
};

/// The first employee of a department.
fn manager(data: &Data, department: &str) -> String {
    let first = data.of(department).next();
    first.map_or(String::new(), |one| format!("{} {}", one.first, one.last))
}

fn store(lab: &Lab, with_manager: bool) -> Result<(), Error> {
    lab.create_table("staff")?;
    let entity = |one: &Employee| -> Value {
        let mut entity = employee(one, one.department, &one.id);
        if with_manager {
            entity["Manager"] = manager(lab.data, one.department).into();
        }
        entity
    };
    lab.insert_all("staff", lab.data.employees.iter().map(entity).collect())
}

//! Denormalisation: the manager's name in the employee's entity.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::{DEPARTMENTS, Data, Employee};
use crate::guide::lab::{Lab, TRANSACTION_MAX, employee, property};
use crate::guide::pattern::{Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun};

const NAIVE: &str = "department in an entity of its own";
const ADVISED: &str = "manager copied into the employee";
/// The manager after the change.
const SUCCESSOR: &str = "successor";

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
            name: NAIVE,
            build: store_departments,
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
            sabotage: |lab| {
                let name = lab.data.asked()[0].department;
                lab.write("staff", Write::Merge, department(name, SUCCESSOR))
            },
        },
        Design {
            name: ADVISED,
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
            sabotage: |lab| {
                // What a change of the manager leaves that missed one copy.
                let first = lab.data.asked()[0];
                let stale = json!({ "PartitionKey": first.department, "RowKey": first.id, "Manager": "predecessor" });
                lab.write("staff", Write::Merge, stale)
            },
        },
    ],
    trials: &[Trial {
        circumstance: "each department gets another manager",
        harm: Harm::Outdated,
        runs: &[
            TrialRun {
                name: NAIVE,
                build: store_departments,
                run: |lab| {
                    DEPARTMENTS.into_iter().try_for_each(|name| {
                        let change = department(name, SUCCESSOR);
                        lab.write("staff", Write::Merge, change)
                    })?;
                    let changed = lab.verify("staff", "RowKey eq 'department'", "")?;
                    Tally::count(&lab.data.employees, |one| {
                        let mut changed = changed.iter();
                        let of =
                            changed.find(|row| property(row, "PartitionKey") == one.department);
                        Ok(of.is_none_or(|row| property(row, "Manager") != SUCCESSOR))
                    })
                },
            },
            TrialRun {
                name: ADVISED,
                build: |lab| store(lab, true),
                run: |lab| {
                    DEPARTMENTS
                        .into_iter()
                        .try_for_each(|name| change_copies(lab, name))?;
                    let all = lab.verify("staff", "", "Manager")?;
                    Tally::count(&all, |one| Ok(property(one, "Manager") != SUCCESSOR))
                },
            },
        ],
    }],
    truth: |data| {
        let asked = data.asked().into_iter();
        let line = |one: &Employee| format!("{} {}", one.mail, manager(data, one.department));
        asked.map(line).collect()
    },
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    rate: Rate::Page,
};

/// The first employee of a department.
fn manager(data: &Data, department: &str) -> String {
    let first = data.of(department).next();
    first.map_or(String::new(), |one| format!("{} {}", one.first, one.last))
}

fn department(name: &str, manager: &str) -> Value {
    json!({ "PartitionKey": name, "RowKey": "department", "Manager": manager })
}

fn store_departments(lab: &Lab) -> Result<(), Error> {
    store(lab, false)?;
    let rows = DEPARTMENTS.map(|name| department(name, &manager(lab.data, name)));
    lab.insert_all("staff", rows.into())
}

/// Changes the manager in all employees of a department, which a query finds.
fn change_copies(lab: &Lab, department: &str) -> Result<(), Error> {
    let filter = format!("PartitionKey eq '{department}'");
    let copies = lab.select("staff", filter, "PartitionKey,RowKey")?;
    copies.chunks(TRANSACTION_MAX).try_for_each(|some| {
        let changes = some.iter().map(|keys| {
            let row = property(keys, "RowKey");
            json!({ "PartitionKey": department, "RowKey": row, "Manager": SUCCESSOR })
        });
        lab.transact("staff", Write::Merge, changes)
    })
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

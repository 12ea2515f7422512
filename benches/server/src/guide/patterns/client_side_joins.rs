//! Client-side joins: pages of employees with the manager of their department, which is in another
//! table.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::client::{Entity, Error, Write};
use crate::guide::data::{DEPARTMENTS, Data};
use crate::guide::lab::{Lab, employee, property};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};

const PARTITION: &str = "staff";
/// Number of employees on a page.
const PAGE: usize = 20;
/// The partition of all departments.
const ALL: &str = "departments";

const ADVISED: &str = "departments in memory";

pub(super) static PATTERN: Pattern = Pattern {
    name: "client-side-joins",
    title: "Client-side joins",
    problem: "There are no joins: a program that reads the department of each employee sends a request for each.",
    advice: "Read the small table whole, and join in memory. A program that answers many questions keeps it, and reads it again after a time.",
    caution: "A copy in memory is as old as the time that the program permits. The small table has to stay small.",
    question: "listing a page of employees with their managers",
    goal: Measure::Requests,
    designs: &[
        Design {
            name: "a request for each employee",
            build,
            ask: |lab| {
                pages(lab, |one| {
                    let department = lab.get("departments", ALL, property(one, "Department"))?;
                    Ok(property(&department.unwrap_or_default(), "Manager").to_owned())
                })
            },
            sabotage,
        },
        Design {
            name: "both tables, joined",
            build,
            ask: |lab| {
                let asked = starts(lab.data).map(|start| joined(lab, start));
                Ok(asked.collect::<Result<Vec<_>, Error>>()?.concat())
            },
            sabotage,
        },
        Design {
            name: ADVISED,
            build,
            ask: |lab| {
                // The first page reads the departments.
                let managers = read_managers(lab)?;
                pages(lab, |one| Ok(managers.of(one)))
            },
            sabotage,
        },
    ],
    trials: &[Trial {
        circumstance: "every department gets another manager after the program has read the departments",
        harm: Harm::Outdated,
        runs: &[
            TrialRun {
                name: ADVISED,
                build,
                run: |lab| {
                    let managers = read_managers(lab)?;
                    promote(lab)?;
                    outdated(lab, |one| Ok(managers.of(one)))
                },
            },
            TrialRun {
                name: "departments in memory, read again",
                build,
                run: |lab| {
                    read_managers(lab)?;
                    promote(lab)?;
                    let managers = read_managers(lab)?;
                    outdated(lab, |one| Ok(managers.of(one)))
                },
            },
        ],
    }],
    truth: |data| {
        let page = |start: usize| {
            let page = data.employees.iter().skip(start).take(PAGE);
            page.map(|one| format!("{} {}", one.mail, manager(one.department)))
        };
        starts(data).flat_map(page).collect()
    },
    writes: |data| data.employees.len(),
    questions: |data| starts(data).count(),
    rate: Rate::Page,
};

/// The first employees of the pages that are asked for.
fn starts(data: &Data) -> impl Iterator<Item = usize> {
    (0..data.employees.len()).step_by((data.employees.len() / PAGE).max(1))
}

fn manager(department: &str) -> String {
    format!("head of {department}")
}

fn department(name: &str, manager: String) -> Value {
    json!({ "PartitionKey": ALL, "RowKey": name, "Manager": manager })
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    lab.create_table("departments")?;
    let rows = DEPARTMENTS.map(|name| department(name, manager(name)));
    lab.insert_all("departments", rows.into())?;
    let staff = lab.data.employees.iter();
    let staff = staff.map(|one| employee(one, PARTITION, &one.id));
    lab.insert_all("staff", staff.collect())
}

fn sabotage(lab: &Lab) -> Result<(), Error> {
    let name = lab.data.employees[0].department;
    lab.write(
        "departments",
        Write::Replace,
        department(name, "nobody".into()),
    )
}

fn page(lab: &Lab, start: usize) -> Result<Vec<Entity>, Error> {
    let [first, end] = [start, start + PAGE].map(|number| format!("{number:06}"));
    let filter =
        format!("PartitionKey eq '{PARTITION}' and RowKey ge '{first}' and RowKey lt '{end}'");
    lab.query("staff", filter)
}

/// The lines of all pages that are asked for. `manager_of` finds the manager of an employee.
fn pages(
    lab: &Lab,
    manager_of: impl Fn(&Entity) -> Result<String, Error>,
) -> Result<Answers, Error> {
    let mut lines = Answers::new();
    for start in starts(lab.data) {
        for one in page(lab, start)? {
            lines.push(format!("{} {}", property(&one, "Mail"), manager_of(&one)?));
        }
    }
    Ok(lines)
}

fn joined(lab: &Lab, start: usize) -> Result<Answers, Error> {
    let managers = read_managers(lab)?;
    let page = page(lab, start)?;
    let line = |one: &Entity| format!("{} {}", property(one, "Mail"), managers.of(one));
    Ok(page.iter().map(line).collect())
}

/// The managers of all departments.
struct Managers(HashMap<String, String>);

impl Managers {
    fn of(&self, one: &Entity) -> String {
        let manager = self.0.get(property(one, "Department"));
        manager.cloned().unwrap_or_default()
    }
}

fn read_managers(lab: &Lab) -> Result<Managers, Error> {
    let rows = lab.query("departments", format!("PartitionKey eq '{ALL}'"))?;
    let text = |row: &Entity, name| property(row, name).to_owned();
    let managers = rows
        .iter()
        .map(|row| (text(row, "RowKey"), text(row, "Manager")));
    Ok(Managers(managers.collect()))
}

fn new_manager(department: &str) -> String {
    format!("new {}", manager(department))
}

/// Gives each department another manager.
fn promote(lab: &Lab) -> Result<(), Error> {
    let rows = DEPARTMENTS.map(|name| department(name, new_manager(name)));
    lab.transact("departments", Write::Replace, rows)
}

/// Counts the employees of a page that are shown with their former manager.
fn outdated(
    lab: &Lab,
    manager_of: impl Fn(&Entity) -> Result<String, Error>,
) -> Result<Tally, Error> {
    Tally::count(page(lab, 0)?, |one| {
        let now = new_manager(property(&one, "Department"));
        Ok(manager_of(&one)? != now)
    })
}

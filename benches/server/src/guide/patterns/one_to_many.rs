//! One-to-many, heterogeneous entities: a department and its employees in one partition.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::{DEPARTMENTS, Data};
use crate::guide::lab::{Lab, employee, number, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

pub(super) static PATTERN: Pattern = Pattern {
    name: "one-to-many",
    title: "One-to-many, heterogeneous entities",
    problem: "A department and its employees in tables of their own take a request each, and no transaction spans tables.",
    advice: "Keep both kinds in the partition of the department, told apart by the prefix of the RowKey: one range, one transaction.",
    caution: "A department's partition has to stay small enough for one server of the hosted service.",
    question: "reading a department with its employees",
    goal: Measure::Requests,
    designs: &[
        Design {
            name: "two tables",
            build: |lab| {
                lab.create_table("departments")?;
                lab.create_table("staff")?;
                let departments = DEPARTMENTS.map(|name| department(name, "department"));
                lab.insert_all("departments", departments.into())?;
                let staff = lab.data.employees.iter();
                lab.insert_all(
                    "staff",
                    staff
                        .map(|one| employee(one, one.department, &one.id))
                        .collect(),
                )
            },
            ask: |lab| {
                let mut lines = Answers::new();
                for name in DEPARTMENTS {
                    let found = lab
                        .get("departments", name, "department")?
                        .unwrap_or_default();
                    let staff = lab.query("staff", format!("PartitionKey eq '{name}'"))?;
                    lines.push(line(
                        name,
                        number(&found, "Budget"),
                        staff.iter().map(|one| property(one, "Mail")),
                    ));
                }
                Ok(lines)
            },
            sabotage: |lab| lose_department(lab, "departments"),
        },
        Design {
            name: "one partition, two kinds of rows",
            build: |lab| {
                lab.create_table("all")?;
                let departments = DEPARTMENTS
                    .into_iter()
                    .map(|name| department(name, "department"));
                let staff = lab.data.employees.iter();
                let staff =
                    staff.map(|one| employee(one, one.department, &format!("employee_{}", one.id)));
                lab.insert_all("all", departments.chain(staff).collect())
            },
            ask: |lab| {
                let mut lines = Answers::new();
                for name in DEPARTMENTS {
                    let all = lab.query("all", format!("PartitionKey eq '{name}'"))?;
                    let mut budget = -1;
                    let mut mails = Vec::new();
                    for row in &all {
                        match property(row, "RowKey") {
                            "department" => budget = number(row, "Budget"),
                            _ => mails.push(property(row, "Mail")),
                        }
                    }
                    lines.push(line(name, budget, mails.into_iter()));
                }
                Ok(lines)
            },
            sabotage: |lab| lose_department(lab, "all"),
        },
    ],
    trials: &[],
    truth: |data: &Data| {
        let of = |name: &str| line(name, budget(name), data.of(name).map(|one| &*one.mail));
        DEPARTMENTS.iter().map(|name| of(name)).collect()
    },
    writes: |data| data.employees.len() + DEPARTMENTS.len(),
    questions: |_| DEPARTMENTS.len(),
    rate: Rate::Report,
};

fn lose_department(lab: &Lab, table: &str) -> Result<(), Error> {
    let first = department(DEPARTMENTS[0], "department");
    lab.write(table, Write::Delete, first)
}

fn budget(name: &str) -> i64 {
    name.len() as i64 * 1_000_000
}

fn department(name: &str, row: &str) -> Value {
    json!({ "PartitionKey": name, "RowKey": row, "Budget": budget(name) })
}

fn line<'m>(name: &str, budget: i64, mails: impl Iterator<Item = &'m str>) -> String {
    format!("{name} {budget}: {}", mails.collect::<Vec<_>>().join(" "))
}

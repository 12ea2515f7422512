//! Inheritance, heterogeneous entities: kinds that share properties, in one table. A property shows
//! the kind.

use serde_json::{Value, json};

use crate::client::{Entity, Error, Write};
use crate::guide::data::{DEPARTMENTS, Data, Employee};
use crate::guide::lab::{Lab, number, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

/// Kinds of employees, with the interval at which each occurs: every tenth employee is a manager.
const KINDS: [(&str, usize); 3] = [("manager", 10), ("contractor", 4), ("employee", 1)];

pub(super) static PATTERN: Pattern = Pattern {
    name: "inheritance",
    title: "Inheritance, heterogeneous entities",
    problem: "A table for each kind of person takes a request for each kind to list the people of a department.",
    advice: "Keep all kinds in one table, with a property that names the kind and the properties that only this kind has.",
    caution: "Readers have to expect properties that are absent, and kinds that were added later.",
    question: "reading people of every kind in a department",
    goal: Measure::Requests,
    designs: &[
        Design {
            name: "a table for each kind",
            build: |lab| {
                for (kind, _) in KINDS {
                    lab.create_table(kind)?;
                    let people = lab.data.employees.iter().filter(|one| kind_of(one) == kind);
                    lab.insert_all(kind, people.map(person).collect())?;
                }
                Ok(())
            },
            ask: |lab| {
                of_departments(|department| {
                    let mut people = Vec::new();
                    for (kind, _) in KINDS {
                        people.extend(lab.query(kind, filter(department))?);
                    }
                    Ok(people)
                })
            },
            sabotage: |lab| forget_kind(lab, kind_of(&lab.data.employees[0])),
        },
        Design {
            name: "one table, a property for the kind",
            build: |lab| {
                lab.create_table("people")?;
                let people = lab.data.employees.iter().map(person);
                lab.insert_all("people", people.collect())
            },
            ask: |lab| of_departments(|department| lab.query("people", filter(department))),
            sabotage: |lab| forget_kind(lab, "people"),
        },
    ],
    trials: &[],
    truth: |data| {
        DEPARTMENTS
            .iter()
            .flat_map(|name| lines(data, name))
            .collect()
    },
    writes: |data| data.employees.len(),
    questions: |_| DEPARTMENTS.len(),
    rate: Rate::Report,
};

/// Replaces a whole entity, as a writer does that knows only the common properties.
fn forget_kind(lab: &Lab, table: &str) -> Result<(), Error> {
    let one = &lab.data.employees[0];
    let plain = json!({ "PartitionKey": one.department, "RowKey": one.id, "Mail": one.mail });
    lab.write(table, Write::Replace, plain)
}

fn kind_of(one: &Employee) -> &'static str {
    let id: usize = one.id.parse().unwrap_or_default();
    let kind = KINDS.iter().find(|(_, every)| id.is_multiple_of(*every));
    kind.map_or("employee", |(kind, _)| kind)
}

fn person(one: &Employee) -> Value {
    let mut person = json!({
        "PartitionKey": one.department, "RowKey": one.id, "Mail": one.mail, "Kind": kind_of(one),
    });
    match kind_of(one) {
        "manager" => person["Reports"] = one.age.into(),
        "contractor" => person["Company"] = one.last.into(),
        _ => {}
    }
    person
}

fn filter(department: &str) -> String {
    format!("PartitionKey eq '{department}'")
}

fn lines(data: &Data, department: &str) -> Vec<String> {
    let people = data.of(department).map(|one| {
        let special = match kind_of(one) {
            "manager" => format!(" with {} reports", one.age),
            "contractor" => format!(" of {}", one.last),
            _ => String::new(),
        };
        format!("{} {}: {}{special}", one.id, kind_of(one), one.mail)
    });
    people.collect()
}

/// A line for each person, department by department, sorted by id.
fn of_departments(people: impl Fn(&str) -> Result<Vec<Entity>, Error>) -> Result<Answers, Error> {
    let mut all = Answers::new();
    for department in DEPARTMENTS {
        let people = people(department)?;
        let mut lines: Answers = people.iter().map(line).collect();
        lines.sort();
        all.extend(lines);
    }
    Ok(all)
}

fn line(person: &Entity) -> String {
    let kind = property(person, "Kind");
    let special = match kind {
        "manager" => format!(" with {} reports", number(person, "Reports")),
        "contractor" => format!(" of {}", property(person, "Company")),
        _ => String::new(),
    };
    format!(
        "{} {kind}: {}{special}",
        property(person, "RowKey"),
        property(person, "Mail")
    )
}

//! Compound key: the reviews of an employee found by one range of RowKeys.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::Employee;
use crate::guide::lab::{Lab, number};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const YEARS: std::ops::Range<u64> = 2016..2024;
/// The first year whose reviews are asked for.
const SINCE: u64 = 2020;

pub(super) static PATTERN: Pattern = Pattern {
    name: "compound-key",
    title: "Compound key",
    problem: "Details that belong to an entity are found only by a scan if their key does not begin with that of the entity.",
    advice: "Make the RowKey of both: employee id and year. One range answers for one employee, and for some years.",
    caution: "The parts have to have a fixed width, or a separator that sorts before them: `9` comes after `10`.",
    question: "reading an employee's reviews since 2020",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "reviews under keys of their own",
            build: |lab| build(lab, key_by_year),
            ask: |lab| {
                ask(lab, |one| {
                    format!(
                        "PartitionKey eq '{}' and Id eq '{}' and Year ge {SINCE}",
                        one.department, one.id
                    )
                })
            },
            sabotage: |lab| lose_newest(lab, key_by_year),
        },
        Design {
            name: "RowKey of employee and year",
            build: |lab| build(lab, key),
            ask: |lab| {
                ask(lab, |one| {
                    let department = one.department;
                    let (from, to) = (key(one, SINCE), key(one, YEARS.end));
                    format!(
                        "PartitionKey eq '{department}' and RowKey ge '{from}' and RowKey lt '{to}'"
                    )
                })
            },
            sabotage: |lab| lose_newest(lab, key),
        },
    ],
    trials: &[],
    truth: |data| {
        let reviews = |one: &Employee| {
            let id = one.id.clone();
            (SINCE..YEARS.end).map(move |year| format!("{id} {year} {}", rating(&id, year)))
        };
        data.asked().into_iter().flat_map(reviews).collect()
    },
    writes: |data| data.employees.len() * YEARS.count(),
    questions: |data| data.asked().len(),
    rate: Rate::Page,
};

fn key_by_year(one: &Employee, year: u64) -> String {
    format!("review_{year}_{}", one.id)
}

fn key(one: &Employee, year: u64) -> String {
    format!("{}_{year}", one.id)
}

fn rating(id: &str, year: u64) -> u64 {
    (id.parse::<u64>().unwrap_or_default() + year) % 5 + 1
}

fn review(one: &Employee, year: u64, row: &str) -> Value {
    json!({
        "PartitionKey": one.department, "RowKey": row, "Id": one.id, "Year": year, "Rating": rating(&one.id, year),
    })
}

/// Deletes the newest review of an employee who is asked for.
fn lose_newest(lab: &Lab, key: fn(&Employee, u64) -> String) -> Result<(), Error> {
    let first = lab.data.asked()[0];
    let year = YEARS.end - 1;
    let newest = review(first, year, &key(first, year));
    lab.write("reviews", Write::Delete, newest)
}

fn build(lab: &Lab, key: fn(&Employee, u64) -> String) -> Result<(), Error> {
    lab.create_table("reviews")?;
    let reviews = lab
        .data
        .employees
        .iter()
        .flat_map(|one| YEARS.map(move |year| (one, year)));
    let entities = reviews.map(|(one, year)| review(one, year, &key(one, year)));
    lab.insert_all("reviews", entities.collect())
}

fn ask(lab: &Lab, filter: fn(&Employee) -> String) -> Result<Answers, Error> {
    let mut lines = Answers::new();
    for one in lab.data.asked() {
        for found in lab.query("reviews", filter(one))? {
            let (year, rating) = (number(&found, "Year"), number(&found, "Rating"));
            lines.push(format!("{} {year} {rating}", one.id));
        }
    }
    Ok(lines)
}

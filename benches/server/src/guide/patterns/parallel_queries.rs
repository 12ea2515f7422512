//! Parallel queries: a question about all partitions, sent to all of them at once.

use std::thread;

use crate::client::Query;
use crate::client::{Error, Write};
use crate::guide::data::DEPARTMENTS;
use crate::guide::lab::{Lab, employee, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

/// The least age of the employees that are asked for.
const AGE: u64 = 55;
/// Number of repetitions of the question, so that the time is long enough to measure.
const REPETITIONS: usize = 10;

pub(super) static PATTERN: Pattern = Pattern {
    name: "parallel-queries",
    title: "Parallel queries over partitions",
    problem: "A question about every partition takes as long as all partitions one after the other.",
    advice: "Ask each partition by a request of its own, at the same time.",
    caution: "It costs as many requests as there are partitions; on one machine the gain ends with its processors.",
    question: "finding the employees over 55 in every department",
    goal: Measure::Seconds,
    designs: &[
        Design {
            name: "one after the other",
            build,
            ask: |lab| repeat(|| DEPARTMENTS.iter().map(|name| of(lab, name)).collect()),
            sabotage,
        },
        Design {
            name: "all at once",
            build,
            ask: |lab| {
                let (client, table) = (&lab.client, lab.name("staff"));
                repeat(|| {
                    thread::scope(|scope| {
                        let table = &table;
                        let asked = DEPARTMENTS
                            .map(|name| scope.spawn(move || client.query(table, &query(name))));
                        let answers = asked.into_iter().map(|thread| {
                            let found = thread.join().expect("a query does not panic")?;
                            Ok(found
                                .iter()
                                .map(|one| property(one, "Mail").to_owned())
                                .collect())
                        });
                        answers.collect()
                    })
                })
            },
            sabotage,
        },
    ],
    trials: &[],
    truth: |data| {
        let old = DEPARTMENTS
            .iter()
            .flat_map(|name| data.of(name))
            .filter(|one| one.age >= AGE);
        old.map(|one| one.mail.clone()).collect()
    },
    writes: |data| data.employees.len(),
    questions: |_| REPETITIONS,
    rate: Rate::Report,
};

fn sabotage(lab: &Lab) -> Result<(), Error> {
    let old = lab.data.employees.iter().find(|one| one.age >= AGE);
    old.into_iter().try_for_each(|one| {
        let entity = employee(one, one.department, &one.id);
        lab.write("staff", Write::Delete, entity)
    })
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

fn query(department: &str) -> Query {
    Query {
        filter: format!("PartitionKey eq '{department}' and Age ge {AGE}"),
        ..Query::default()
    }
}

fn of(lab: &Lab, department: &str) -> Result<Answers, Error> {
    let found = lab.client.query(&lab.name("staff"), &query(department))?;
    Ok(found
        .iter()
        .map(|one| property(one, "Mail").to_owned())
        .collect())
}

fn repeat(ask: impl Fn() -> Result<Vec<Answers>, Error>) -> Result<Answers, Error> {
    let mut answers = ask()?;
    for _ in 1..REPETITIONS {
        answers = ask()?;
    }
    Ok(answers.concat())
}

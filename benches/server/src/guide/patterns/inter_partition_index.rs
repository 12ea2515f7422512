//! Inter-partition secondary index: a second set of partitions under another key, written beside
//! the originals, or by way of a queue. Deaths of the programs are a run of their own.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::client::{Error, Message, Write};
use crate::guide::data::{Data, Employee};
use crate::guide::lab::{Lab, employee, line, only, property};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};
use crate::guide::patterns::query_kinds::asked_lines;

/// How long a writer may take before a worker repeats its work.
const HIDDEN_SECONDS: u64 = 30;
/// Mail addresses from the first up to the second, which is not one of them.
const RANGE: (&str, &str) = ("s", "t");
/// Number of employees that are stored by programs that die on the way.
const STORED: usize = 40;
/// Steps of a writer without a queue: the original, the copy. With a queue, the message comes
/// before these, and its deletion after them. Programs die before the first step and after each
/// step, in turn.
const DIRECT_STEPS: u32 = 2;
const STEPS: u32 = 4;
/// Steps of a worker: the copy, the deletion of the message.
const WORKER_STEPS: u32 = 2;

const SCAN: &str = "table scan";
const DIRECT: &str = "copies by two writes";
const ADVISED: &str = "copies in partitions by mail";

pub(super) static PATTERN: Pattern = Pattern {
    name: "inter-partition-index",
    title: "Inter-partition secondary index",
    problem: "Without the department, a lookup by mail address scans the whole table.",
    advice: "Keep a second copy in partitions of its own, keyed by what is asked for; keep the copies alike by way of a queue.",
    caution: "No transaction spans partitions: the copies are alike eventually, not at once.",
    question: "finding an employee by mail alone",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: SCAN,
            build: |lab| {
                lab.create_table("staff")?;
                let mut staff = lab.data.employees.iter();
                staff.try_for_each(|one| lab.write("staff", Write::Replace, original(one)))
            },
            ask: |lab| ask(lab, |one| format!("Mail eq '{}'", one.mail)),
            sabotage: |lab| lose(lab, original),
        },
        Design {
            name: DIRECT,
            build: |lab| {
                lab.create_table("staff")?;
                let mut staff = lab.data.employees.iter();
                staff.try_for_each(|one| store_directly(lab, one, DIRECT_STEPS))
            },
            ask: |lab| ask(lab, keys_of_copy),
            sabotage: |lab| lose(lab, copy),
        },
        Design {
            name: ADVISED,
            build: |lab| {
                create(lab)?;
                let mut staff = lab.data.employees.iter();
                staff.try_for_each(|one| store(lab, one, STEPS))
            },
            ask: |lab| ask(lab, keys_of_copy),
            sabotage: |lab| lose(lab, copy),
        },
    ],
    trials: &[
        Trial {
            circumstance: "the programs die at each of their steps in turn and are started again",
            harm: Harm::HalfDone,
            runs: &[
                TrialRun {
                    name: DIRECT,
                    build: |lab| lab.create_table("staff"),
                    run: |lab| {
                        let writers = stored(lab.data).zip((0..=DIRECT_STEPS).cycle());
                        for (one, steps) in writers {
                            store_directly(lab, one, steps)?;
                        }
                        tally(lab)
                    },
                },
                TrialRun {
                    name: ADVISED,
                    build: create,
                    run: |lab| {
                        let writers = stored(lab.data).zip((0..=STEPS).cycle());
                        for (one, steps) in writers {
                            store(lab, one, steps)?;
                        }
                        while let Some(message) = receive(lab)? {
                            // One more step with each delivery.
                            work(lab, &message, message.dequeue_count - 1)?;
                        }
                        tally(lab)
                    },
                },
            ],
        },
        Trial {
            circumstance: "the question is a range: the employees whose last name begins with S",
            harm: Harm::Wrong,
            runs: &[
                TrialRun {
                    name: SCAN,
                    build: |lab| {
                        let staff = lab.data.employees.iter();
                        lab.create_table("staff")?;
                        lab.insert_all("staff", staff.map(original).collect())
                    },
                    run: |lab| {
                        let (from, to) = RANGE;
                        list(lab, format!("Mail ge '{from}' and Mail lt '{to}'"))
                    },
                },
                TrialRun {
                    name: ADVISED,
                    build: |lab| {
                        let staff = lab.data.employees.iter();
                        lab.create_table("staff")?;
                        lab.insert_all(
                            "staff",
                            staff.flat_map(|one| [original(one), copy(one)]).collect(),
                        )
                    },
                    run: |lab| {
                        let (from, to) = RANGE;
                        let partition = partition_of(from);
                        list(
                            lab,
                            format!(
                                "PartitionKey eq '{partition}' and RowKey ge '{from}' and RowKey lt '{to}'"
                            ),
                        )
                    },
                },
            ],
        },
    ],
    truth: asked_lines,
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    rate: Rate::Page,
};

fn partition(one: &Employee) -> String {
    partition_of(&one.mail)
}

fn partition_of(mail: &str) -> String {
    let first: String = mail.chars().take(1).collect();
    format!("mail_{first}")
}

fn original(one: &Employee) -> Value {
    employee(one, one.department, &one.id)
}

fn copy(one: &Employee) -> Value {
    employee(one, &partition(one), &one.mail)
}

/// Deletes the original or the copy of an employee who is asked for.
fn lose(lab: &Lab, entity: fn(&Employee) -> Value) -> Result<(), Error> {
    lab.write("staff", Write::Delete, entity(lab.data.asked()[0]))
}

fn keys_of_copy(one: &Employee) -> String {
    let partition = partition(one);
    format!("PartitionKey eq '{partition}' and RowKey eq '{}'", one.mail)
}

fn create(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    lab.create_queue("changes")
}

/// Does the first `steps` steps of a writer without a queue.
fn store_directly(lab: &Lab, one: &Employee, steps: u32) -> Result<(), Error> {
    if steps >= 1 {
        lab.write("staff", Write::Replace, original(one))?;
    }
    if steps >= 2 {
        lab.write("staff", Write::Replace, copy(one))?;
    }
    Ok(())
}

/// Writes original and copy. Before that, puts a message, so that a worker finishes the work. The
/// writer dies after `steps` steps.
fn store(lab: &Lab, one: &Employee, steps: u32) -> Result<(), Error> {
    if steps == 0 {
        return Ok(());
    }
    let queue = lab.name("changes");
    let keys = format!("{}/{}", one.department, one.id);
    let (message, receipt) = lab
        .client
        .put_hidden_message(&queue, &keys, HIDDEN_SECONDS)?;
    if steps >= 2 {
        lab.write("staff", Write::Replace, original(one))?;
    }
    if steps >= 3 {
        update_copy(lab, one.department, &one.id)?;
    }
    if steps >= STEPS {
        return lab.client.delete_message(&queue, &message, &receipt);
    }
    appear(lab, &message, &receipt)
}

/// Makes the message of a dead program visible now, instead of at the end of its visibility
/// timeout.
fn appear(lab: &Lab, message: &str, receipt: &str) -> Result<(), Error> {
    let queue = lab.name("changes");
    lab.verifier().hide_message(&queue, message, receipt, 0)
}

fn receive(lab: &Lab) -> Result<Option<Message>, Error> {
    let messages = lab
        .client
        .get_messages(&lab.name("changes"), 1, HIDDEN_SECONDS)?;
    Ok(messages.into_iter().next())
}

/// A worker with a message, which dies after `steps` steps.
fn work(lab: &Lab, message: &Message, steps: u32) -> Result<(), Error> {
    let Some((department, id)) = message.text.split_once('/') else {
        return Err(Error::Malformed(format!("a message is {}", message.text)));
    };
    if steps >= 1 {
        update_copy(lab, department, id)?;
    }
    if steps >= WORKER_STEPS {
        let queue = lab.name("changes");
        return lab
            .client
            .delete_message(&queue, &message.id, &message.pop_receipt);
    }
    appear(lab, &message.id, &message.pop_receipt)
}

/// Copies the current original, and repeats that if another writer changed it meanwhile.
fn update_copy(lab: &Lab, department: &str, id: &str) -> Result<(), Error> {
    let table = lab.name("staff");
    let get = || lab.client.get_entity_and_etag(&table, department, id);
    loop {
        let Some((entity, etag)) = get()? else {
            // A writer that died before it stored anything leaves nothing to copy.
            return Ok(());
        };
        let mail = property(&entity, "Mail").to_owned();
        let mut copy = Value::Object(entity);
        copy["PartitionKey"] = partition_of(&mail).into();
        copy["RowKey"] = mail.into();
        lab.write("staff", Write::Replace, copy)?;
        if get()?.is_some_and(|(_, now)| now == etag) {
            return Ok(());
        }
    }
}

fn stored(data: &Data) -> impl Iterator<Item = &Employee> {
    data.employees.iter().take(STORED)
}

/// Counts the employees whose copy is missing or differs. An employee without original and copy
/// counts as whole: the write never began.
fn tally(lab: &Lab) -> Result<Tally, Error> {
    let all = lab.verify("staff", "", "")?;
    let find = |partition: &str, row: &str| {
        let mut all = all.iter();
        let found = all.find(|entity| {
            property(entity, "PartitionKey") == partition && property(entity, "RowKey") == row
        });
        found.map(line)
    };
    Tally::count(stored(lab.data), |one| {
        let copied = find(&partition(one), &one.mail);
        Ok(find(one.department, &one.id) != copied)
    })
}

/// Lists employees, and compares the list with the employees in [`RANGE`].
fn list(lab: &Lab, filter: String) -> Result<Tally, Error> {
    let (from, to) = RANGE;
    let found = lab.query("staff", filter)?;
    let found: BTreeSet<String> = found.iter().map(line).collect();
    let is_meant = |one: &&Employee| (from..to).contains(&&*one.mail);
    let meant = lab.data.employees.iter().filter(is_meant);
    let meant: BTreeSet<String> = meant.map(Employee::line).collect();
    Tally::count(found.union(&meant), |one| {
        Ok(found.contains(one) != meant.contains(one))
    })
}

fn ask(lab: &Lab, filter: fn(&Employee) -> String) -> Result<Answers, Error> {
    let found = |one: &Employee| Ok(only(&lab.query("staff", filter(one))?));
    lab.data.asked().into_iter().map(found).collect()
}

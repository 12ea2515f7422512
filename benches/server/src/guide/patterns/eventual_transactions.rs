//! Eventually consistent transactions: entities move to the archive by way of a queue, although the
//! worker dies after every step.

use serde_json::Value;

use crate::client::{Error, Message, Write};
use crate::guide::data::{Data, Employee};
use crate::guide::lab::{Lab, employee, line};
use crate::guide::pattern::{Answers, Design, Measure, Pattern};

const ARCHIVE: &str = "Archive";
const ARCHIVED: usize = 40;
/// Steps of the worker; it dies after each in turn.
const STEPS: u64 = 3;
/// A message that no worker understands, and the delivery at which it counts as poison and is put
/// aside.
const POISON: &str = "poison";
const DELIVERIES_MAX: u32 = 5;

pub(super) static PATTERN: Pattern = Pattern {
    name: "eventual-transactions",
    title: "Eventually consistent transactions over a queue",
    problem: "Moving an entity to another partition takes two writes, and a program may die between them: the entity is doubled or lost.",
    advice: "Put a message first; a worker does idempotent steps and deletes the message last. A message whose worker died comes back; one that no worker can process is put aside by its dequeue count.",
    caution: "It costs messages, and until the worker is done the entity is in both places.",
    question: "moving an entity to the archive",
    goal: Measure::Safety,
    designs: &[
        Design {
            name: "two writes, no program dies",
            build: store,
            ask: |lab| {
                moved(lab.data).try_for_each(|one| {
                    lab.write("staff", Write::Replace, employee(one, ARCHIVE, &one.id))?;
                    let keys = employee(one, one.department, &one.id);
                    lab.write("staff", Write::Delete, keys)
                })?;
                archived(lab)
            },
        },
        Design {
            name: "messages, the worker dies after every step",
            build: |lab| {
                store(lab)?;
                lab.create_queue("moves")?;
                lab.create_queue("poison")
            },
            ask: |lab| {
                let queue = lab.name("moves");
                lab.verifier().put_message(&queue, POISON)?;
                moved(lab.data).try_for_each(|one| {
                    let text = format!("{}/{}", one.department, one.id);
                    lab.client.put_message(&queue, &text)
                })?;
                let mut deaths = 0;
                loop {
                    let messages = lab.client.get_messages(&queue, 1, 60)?;
                    let Some(message) = messages.first() else {
                        break;
                    };
                    if message.text == POISON {
                        fail(lab, message)?;
                    } else {
                        work(lab, message, deaths % (STEPS + 1))?;
                        deaths += 1;
                    }
                }
                put_aside(lab)?;
                archived(lab)
            },
        },
    ],
    truth: |data| {
        let mut lines: Answers = moved(data).map(Employee::line).collect();
        lines.push(format!("{} left", data.employees.len() - lines.len()));
        lines
    },
    writes: |data| data.employees.len(),
    questions: |data| moved(data).count(),
    sabotage: |lab| {
        // A worker that deletes the entity first, and dies before its copy is written.
        moved(lab.data).take(1).try_for_each(|one| {
            let keys = serde_json::json!({ "PartitionKey": one.department, "RowKey": one.id });
            lab.write("staff", Write::Delete, keys)
        })
    },
};

fn moved(data: &Data) -> impl Iterator<Item = &Employee> {
    data.employees
        .iter()
        .take(ARCHIVED.min(data.employees.len() / 2))
}

fn store(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    let staff = lab.data.employees.iter();
    lab.insert_all(
        "staff",
        staff
            .map(|one| employee(one, one.department, &one.id))
            .collect(),
    )
}

/// Does the first `steps` steps of a move, and dies. The end of the visibility timeout is brought
/// forward.
fn work(lab: &Lab, message: &Message, steps: u64) -> Result<(), Error> {
    let queue = lab.name("moves");
    let (department, id) = message.text.split_once('/').unwrap_or_default();
    if steps >= 1
        && let Some(entity) = lab.get("staff", department, id)?
    {
        let mut copy = Value::Object(entity);
        copy["PartitionKey"] = ARCHIVE.into();
        lab.write("staff", Write::Replace, copy)?;
    }
    if steps >= 2 {
        let keys = serde_json::json!({ "PartitionKey": department, "RowKey": id });
        match lab.write("staff", Write::Delete, keys) {
            // Deleted by a worker that died later.
            Err(error) if error.is("ResourceNotFound") => {}
            done => done?,
        }
    }
    if steps >= STEPS {
        lab.client
            .delete_message(&queue, &message.id, &message.pop_receipt)
    } else {
        lab.client
            .hide_message(&queue, &message.id, &message.pop_receipt, 0)
    }
}

/// The worker dies of the message; once it was delivered often enough, it goes to a queue of its
/// own.
fn fail(lab: &Lab, message: &Message) -> Result<(), Error> {
    let queue = lab.name("moves");
    if message.dequeue_count < DELIVERIES_MAX {
        return lab
            .client
            .hide_message(&queue, &message.id, &message.pop_receipt, 0);
    }
    lab.client.put_message(&lab.name("poison"), &message.text)?;
    lab.client
        .delete_message(&queue, &message.id, &message.pop_receipt)
}

/// The poison message must be in its queue, once.
fn put_aside(lab: &Lab) -> Result<(), Error> {
    let aside = lab.verifier().peek_messages(&lab.name("poison"), 32)?;
    if aside == [POISON] {
        return Ok(());
    }
    Err(Error::Malformed(format!(
        "{} messages were put aside instead of the poison one",
        aside.len()
    )))
}

/// The archive, and how many are elsewhere.
fn archived(lab: &Lab) -> Result<Answers, Error> {
    let found = lab.verify("staff", format!("PartitionKey eq '{ARCHIVE}'"), "")?;
    let mut lines: Answers = found.iter().map(line).collect();
    let left = lab.verify("staff", format!("PartitionKey ne '{ARCHIVE}'"), "RowKey")?;
    lines.push(format!("{} left", left.len()));
    Ok(lines)
}

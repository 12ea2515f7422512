//! Inter-partition secondary index: a second set of partitions under another key, written beside
//! the originals, or by way of a queue. Deaths of the programs are a run of their own.

use serde_json::Value;

use crate::client::{Error, Message, Write};
use crate::guide::data::{Data, Employee};
use crate::guide::lab::{Lab, employee, line, only, property};
use crate::guide::pattern::{Answers, Deaths, Design, Losses, Measure, Pattern};
use crate::guide::patterns::query_kinds::asked_lines;

/// How long a writer may take before a worker repeats its work.
const HIDDEN_SECONDS: u64 = 30;
/// Employees that programs store which die on the way.
const STORED: usize = 40;
/// Steps of a writer without a queue: the original, the copy. With a queue, the message comes before
/// them, and its deletion behind them. Programs die before the first step and after each in turn.
const DIRECT_STEPS: u32 = 2;
const STEPS: u32 = 4;
/// Steps of a worker: the copy, the deletion of the message.
const WORKER_STEPS: u32 = 2;

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
            name: "table scan",
            build: |lab| {
                lab.create_table("staff")?;
                let mut staff = lab.data.employees.iter();
                staff.try_for_each(|one| lab.write("staff", Write::Replace, original(one)))
            },
            ask: |lab| ask(lab, |one| format!("Mail eq '{}'", one.mail)),
        },
        Design {
            name: DIRECT,
            build: |lab| {
                lab.create_table("staff")?;
                let mut staff = lab.data.employees.iter();
                staff.try_for_each(|one| store_directly(lab, one, DIRECT_STEPS))
            },
            ask: |lab| ask(lab, keys_of_copy),
        },
        Design {
            name: ADVISED,
            build: |lab| {
                create(lab)?;
                let mut staff = lab.data.employees.iter();
                staff.try_for_each(|one| store(lab, one, STEPS))
            },
            ask: |lab| ask(lab, keys_of_copy),
        },
    ],
    deaths: &[
        Deaths {
            design: DIRECT,
            run: |lab| {
                lab.create_table("staff")?;
                let writers = stored(lab.data).zip((0..=DIRECT_STEPS).cycle());
                for (one, steps) in writers {
                    store_directly(lab, one, steps)?;
                }
                losses(lab)
            },
        },
        Deaths {
            design: ADVISED,
            run: |lab| {
                create(lab)?;
                let writers = stored(lab.data).zip((0..=STEPS).cycle());
                for (one, steps) in writers {
                    store(lab, one, steps)?;
                }
                while let Some(message) = receive(lab)? {
                    // One more step with each delivery.
                    work(lab, &message, message.dequeue_count - 1)?;
                }
                losses(lab)
            },
        },
    ],
    truth: asked_lines,
    writes: |data| data.employees.len(),
    questions: |data| data.asked().len(),
    sabotage: |lab| {
        let first = lab.data.asked()[0];
        let copy = employee(first, &partition(first), &first.mail);
        lab.write("staff", Write::Delete, copy)
    },
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
        let copy = employee(one, &partition(one), &one.mail);
        lab.write("staff", Write::Replace, copy)?;
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

/// The program that had the message is dead. The end of the visibility timeout is brought forward.
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

/// Employees whose copy is missing or another one. A write that never began left no employee, which
/// is whole.
fn losses(lab: &Lab) -> Result<Losses, Error> {
    let all = lab.verify("staff", "", "")?;
    let find = |partition: &str, row: &str| {
        let mut all = all.iter();
        let found = all.find(|entity| {
            property(entity, "PartitionKey") == partition && property(entity, "RowKey") == row
        });
        found.map(line)
    };
    let is_half_done =
        |one: &&Employee| find(one.department, &one.id) != find(&partition(one), &one.mail);
    Ok(Losses {
        half_done: stored(lab.data).filter(is_half_done).count(),
        objects: stored(lab.data).count(),
    })
}

fn ask(lab: &Lab, filter: fn(&Employee) -> String) -> Result<Answers, Error> {
    let found = |one: &Employee| Ok(only(&lab.query("staff", filter(one))?));
    lab.data.asked().into_iter().map(found).collect()
}

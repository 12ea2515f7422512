//! Eventually consistent transactions: entities move to the archive, by two writes or by way of a
//! queue. Further runs let the programs die.

use serde_json::{Value, json};

use crate::client::{Change, Entity, Error, Message, Write};
use crate::guide::data::{Data, Employee};
use crate::guide::lab::{Lab, employee, line};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};

const MOVED: usize = 40;
/// Number of steps of a move: the copy, the deletion of the original, the deletion of the message.
/// Programs die before the first step, after the first and after the second, in turn.
const STEPS: u32 = 3;
/// A message that no worker understands, and the number of deliveries after which a message is put
/// aside.
const POISON: &str = "poison";
const DELIVERIES_MAX: u32 = 5;
/// How long a message is hidden from other workers.
const HIDDEN_SECONDS: u64 = 30;

const NAIVE: &str = "two writes";
const ADVISED: &str = "messages to a worker";

pub(super) static PATTERN: Pattern = Pattern {
    name: "eventual-transactions",
    title: "Eventually consistent transactions over a queue",
    problem: "Moving an entity to another partition takes two writes, and a program may die between them: the entity is doubled or lost.",
    advice: "Put a message first; a worker does idempotent steps and deletes the message last. A message whose worker died comes back; one that no worker can process is put aside by its dequeue count.",
    caution: "It costs messages, and until the worker is done the entity is in both places.",
    question: "moving an entity to the archive",
    goal: Measure::HalfDone,
    designs: &[
        Design {
            name: NAIVE,
            build: store,
            ask: |lab| {
                moved(lab.data).try_for_each(|one| move_directly(lab, one, STEPS))?;
                answers(lab)
            },
            sabotage: lose_another,
        },
        Design {
            name: ADVISED,
            build: store_with_queues,
            ask: |lab| {
                moved(lab.data).try_for_each(|one| request_move(lab, one))?;
                while let Some(message) = receive(lab)? {
                    carry_out(lab, &message, STEPS)?;
                }
                answers(lab)
            },
            sabotage: |lab| {
                // The state after a worker has deleted the entity first, and has died before it
                // wrote the copy.
                let mut first = moved(lab.data).take(1);
                first.try_for_each(|one| lab.write("staff", Write::Delete, keys(one)))
            },
        },
    ],
    trials: &[
        Trial {
            circumstance: "the programs die at each of their steps in turn and are started again",
            harm: Harm::HalfDone,
            runs: &[
                TrialRun {
                    name: NAIVE,
                    build: store,
                    run: |lab| {
                        // No program knows of the moves that a dead program began.
                        let moves = moved(lab.data).zip((0..STEPS).cycle());
                        for (one, steps) in moves {
                            move_directly(lab, one, steps)?;
                        }
                        // If a move never began, the employee is whole.
                        tally(lab, |place| place == BOTH)
                    },
                },
                TrialRun {
                    name: ADVISED,
                    build: store_with_queues,
                    run: |lab| {
                        lab.client.put_message(&lab.name("moves"), POISON)?;
                        moved(lab.data).try_for_each(|one| request_move(lab, one))?;
                        while let Some(message) = receive(lab)? {
                            // Each delivery does one more step.
                            carry_out(lab, &message, message.dequeue_count - 1)?;
                        }
                        put_aside(lab)?;
                        tally(lab, |place| place != ARCHIVED)
                    },
                },
            ],
        },
        Trial {
            circumstance: "a reader looks for each employee between the two writes of the move",
            harm: Harm::SeenTwice,
            runs: &[
                TrialRun {
                    name: NAIVE,
                    build: store,
                    run: |lab| {
                        Tally::count(moved(lab.data), |one| {
                            move_directly(lab, one, 1)?;
                            let found = find_in_both(lab, one)?;
                            lab.write("staff", Write::Delete, keys(one))?;
                            Ok(found.len() > 1)
                        })
                    },
                },
                TrialRun {
                    name: ADVISED,
                    build: store_with_queues,
                    run: |lab| amid_moves(lab, find_in_both),
                },
                TrialRun {
                    name: "messages, and a reader that prefers the archive",
                    build: store_with_queues,
                    run: |lab| amid_moves(lab, find_archived_first),
                },
            ],
        },
    ],
    truth: |data| {
        let archived = moved(data).map(|one| format!("{} {ARCHIVED}", one.line()));
        let others = data.employees.len() - moved(data).count();
        archived.chain([format!("{others} others")]).collect()
    },
    writes: |data| data.employees.len(),
    questions: |data| moved(data).count(),
    rate: Rate::Page,
};

const ARCHIVED: &str = "is archived";
const BOTH: &str = "is in both places";

fn moved(data: &Data) -> impl Iterator<Item = &Employee> {
    data.employees
        .iter()
        .take(MOVED.min(data.employees.len() / 2))
}

fn keys(one: &Employee) -> Value {
    json!({ "PartitionKey": one.department, "RowKey": one.id })
}

/// The archive has ten partitions, by the last digit of the id, because a single one would take all
/// writes.
fn archive_of(id: &str) -> String {
    format!("Archive_{}", &id[id.len().saturating_sub(1)..])
}

fn store(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    let staff = lab.data.employees.iter();
    let staff = staff.map(|one| employee(one, one.department, &one.id));
    lab.insert_all("staff", staff.collect())
}

/// Deletes an employee who is not to be moved.
fn lose_another(lab: &Lab) -> Result<(), Error> {
    let last = lab.data.employees.last();
    last.into_iter()
        .try_for_each(|one| lab.write("staff", Write::Delete, keys(one)))
}

fn store_with_queues(lab: &Lab) -> Result<(), Error> {
    store(lab)?;
    lab.create_queue("moves")?;
    lab.create_queue("poison")
}

/// Does the first `steps` steps of a move.
fn move_directly(lab: &Lab, one: &Employee, steps: u32) -> Result<(), Error> {
    let entity = lab.get("staff", one.department, &one.id)?;
    let entity = entity.ok_or_else(|| Error::Malformed(format!("{} is missing", one.id)))?;
    if steps >= 1 {
        lab.write("staff", Write::Replace, copy(entity, &one.id))?;
    }
    if steps >= 2 {
        lab.write("staff", Write::Delete, keys(one))?;
    }
    Ok(())
}

fn copy(entity: Entity, id: &str) -> Value {
    let mut copy = Value::Object(entity);
    copy["PartitionKey"] = archive_of(id).into();
    copy
}

fn request_move(lab: &Lab, one: &Employee) -> Result<(), Error> {
    let text = format!("{}/{}", one.department, one.id);
    lab.client.put_message(&lab.name("moves"), &text)
}

fn receive(lab: &Lab) -> Result<Option<Message>, Error> {
    let messages = lab
        .client
        .get_messages(&lab.name("moves"), 1, HIDDEN_SECONDS)?;
    Ok(messages.into_iter().next())
}

/// A worker with a message. It dies after `steps` steps if these are fewer than [`STEPS`], and at
/// once if it does not understand the message. It puts aside a message that was delivered too
/// often.
fn carry_out(lab: &Lab, message: &Message, steps: u32) -> Result<(), Error> {
    let queue = lab.name("moves");
    let delete = || {
        lab.client
            .delete_message(&queue, &message.id, &message.pop_receipt)
    };
    if message.dequeue_count > DELIVERIES_MAX {
        lab.client.put_message(&lab.name("poison"), &message.text)?;
        return delete();
    }
    if let Some((department, id)) = message.text.split_once('/') {
        if steps >= 1 {
            move_once(lab, department, id, steps)?;
        }
        if steps >= STEPS {
            return delete();
        }
    }
    // The worker is dead. Makes the message visible now, instead of at the end of its visibility
    // timeout.
    lab.verifier()
        .hide_message(&queue, &message.id, &message.pop_receipt, 0)
}

/// The steps in the table. They may be repeated.
fn move_once(lab: &Lab, department: &str, id: &str, steps: u32) -> Result<(), Error> {
    let table = lab.name("staff");
    let Some((entity, etag)) = lab.client.get_entity_and_etag(&table, department, id)? else {
        // An earlier worker moved the entity, and died before it deleted the message.
        let archived = lab.get("staff", &archive_of(id), id)?;
        return match archived {
            Some(_) => Ok(()),
            None => Err(Error::Malformed(format!("{id} is lost"))),
        };
    };
    lab.write("staff", Write::Replace, copy(entity, id))?;
    if steps >= 2 {
        let keys = json!({ "PartitionKey": department, "RowKey": id });
        // Fails if the employee was changed meanwhile. The message is then delivered again.
        let delete = Change::new(Write::Delete, keys).if_match(etag);
        lab.client.write_entity(&table, &delete)?;
    }
    Ok(())
}

/// Fails unless the poison message is in its queue, once.
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

/// The places of the employees.
struct Places {
    /// Each moved employee with its place.
    moved: Vec<(String, &'static str)>,
    others: usize,
}

fn places(lab: &Lab) -> Result<Places, Error> {
    let all = lab.verify("staff", "", "")?;
    let find = |partition: &str, id: &str| {
        let mut all = all.iter();
        all.find(|row| row["PartitionKey"] == partition && row["RowKey"] == id)
    };
    let (mut places, mut rows) = (Vec::new(), 0);
    for one in moved(lab.data) {
        let original = find(one.department, &one.id);
        let archived = find(&archive_of(&one.id), &one.id);
        rows += usize::from(original.is_some()) + usize::from(archived.is_some());
        let place = match (original, archived) {
            (None, Some(_)) => ARCHIVED,
            (Some(_), Some(_)) => BOTH,
            (Some(_), None) => "is not archived",
            (None, None) => "is lost",
        };
        let found = archived.or(original).map(line);
        places.push((found.unwrap_or_default(), place));
    }
    Ok(Places {
        moved: places,
        others: all.len() - rows,
    })
}

fn answers(lab: &Lab) -> Result<Answers, Error> {
    let Places { moved, others } = places(lab)?;
    let lines = moved.iter().map(|(line, place)| format!("{line} {place}"));
    Ok(lines.chain([format!("{others} others")]).collect())
}

fn tally(lab: &Lab, is_harmed: fn(&str) -> bool) -> Result<Tally, Error> {
    Tally::count(places(lab)?.moved, |(_, place)| Ok(is_harmed(place)))
}

/// Moves each employee by a message. `read` is a reader that looks for the employee between the two
/// writes of the worker.
fn amid_moves(
    lab: &Lab,
    read: fn(&Lab, &Employee) -> Result<Vec<Entity>, Error>,
) -> Result<Tally, Error> {
    Tally::count(moved(lab.data), |one| {
        request_move(lab, one)?;
        let Some(message) = receive(lab)? else {
            return Err(Error::Malformed("a message is missing".into()));
        };
        move_once(lab, one.department, &one.id, 1)?;
        let found = read(lab, one)?;
        carry_out(lab, &message, STEPS)?;
        Ok(found.len() > 1)
    })
}

/// Reads both places.
fn find_in_both(lab: &Lab, one: &Employee) -> Result<Vec<Entity>, Error> {
    let original = lab.get("staff", one.department, &one.id)?;
    let archived = lab.get("staff", &archive_of(&one.id), &one.id)?;
    Ok(original.into_iter().chain(archived).collect())
}

/// Reads the archive, and the department only if the archive does not have the employee.
fn find_archived_first(lab: &Lab, one: &Employee) -> Result<Vec<Entity>, Error> {
    let archived = lab.get("staff", &archive_of(&one.id), &one.id)?;
    let found = match archived {
        Some(archived) => Some(archived),
        None => lab.get("staff", one.department, &one.id)?,
    };
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn archive_has_ten_partitions() {
        let data = Data::new(1, 1.0);
        let partitions = moved(&data).map(|one| archive_of(&one.id));
        assert_eq!(partitions.collect::<BTreeSet<_>>().len(), 10);
    }
}

//! The threads that write and read entities: counters with ETags, transactions, replaced and
//! deleted rows.

use std::thread::Scope;

use lazurite_bench_common::Random;
use serde_json::{Value, json};

use crate::client::{Change, Entity, Error, Query, Write};
use crate::runner::workloads::soak::ledger::Kind;
use crate::runner::workloads::soak::possible::Possible;
use crate::runner::workloads::soak::services::Services;
use crate::runner::workloads::soak::state::Soak;

const TABLE: &str = "Soak";
const COUNTERS: u64 = 64;
const INCREMENTERS: u64 = 3;
/// Number of rows that one transaction writes.
const TOGETHER: u64 = 4;
/// Number of rows that are replaced and deleted.
const CHANGING: u64 = 16;
/// The entity that no thread writes.
const STILL: (&str, &str) = ("still", "0");

/// Creates the table, the counters and the entity that no thread writes.
pub(super) fn prepare(services: &Services) -> Result<(), Error> {
    services.client.create_table(TABLE)?;
    write(services, row(Write::Insert, STILL.0, STILL.1, 0))?;
    for number in 0..COUNTERS {
        write(
            services,
            row(Write::Insert, "counters", &number.to_string(), 0),
        )?;
    }
    write_together(services, 0, Write::Replace)
}

pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    soak: &'scope Soak,
    random: impl Fn(u64) -> Random,
) {
    for number in 0..INCREMENTERS {
        let random = random(number);
        scope.spawn(move || increment(soak, random));
    }
    scope.spawn(move || transact(soak));
    let random = random(INCREMENTERS);
    scope.spawn(move || replace_and_delete(soak, random));
}

/// A write of a row that contains one number.
fn row(write: Write, partition: &str, key: &str, count: i64) -> Change {
    let entity = json!({ "PartitionKey": partition, "RowKey": key, "Count": count });
    Change::new(write, entity)
}

fn write(services: &Services, change: Change) -> Result<(), Error> {
    services.client.write_entity(TABLE, &change)
}

/// The number in a row and its ETag; `None` if the row does not exist.
fn read(services: &Services, partition: &str, key: &str) -> Result<Option<(i64, String)>, Error> {
    let found = services.client.get_entity_and_etag(TABLE, partition, key)?;
    found
        .map(|(entity, etag)| Ok((count_of(&entity)?, etag)))
        .transpose()
}

fn count_of(entity: &Entity) -> Result<i64, Error> {
    let count = entity.get("Count").and_then(Value::as_i64);
    count.ok_or_else(|| Error::Malformed(format!("an entity has no count: {entity:?}")))
}

fn read_counter(soak: &Soak, row: u64) -> Option<(i64, String)> {
    let key = row.to_string();
    soak.request(Kind::Read, "get entity", |services| {
        let missing = || Error::Malformed(format!("counter {key} is missing"));
        read(services, "counters", &key)?.ok_or_else(missing)
    })
}

/// Adds one to a counter, on condition that it has the ETag that was read. Counters with even
/// numbers are written by Merge Entity, the others by Update Entity.
fn increment(soak: &Soak, mut random: Random) {
    while !soak.is_over() {
        let number = random.below(COUNTERS);
        let Some((count, etag)) = read_counter(soak, number) else {
            continue;
        };
        let key = number.to_string();
        let (name, way) = if number.is_multiple_of(2) {
            ("merge entity", Write::Merge)
        } else {
            ("update entity", Write::Replace)
        };
        let written = soak.request(Kind::Write, name, |services| {
            let change = row(way, "counters", &key, count + 1).if_match(etag);
            match write(services, change) {
                Ok(()) => Ok(true),
                Err(error) if error.is("UpdateConditionNotSatisfied") => Ok(false),
                Err(error) => Err(error),
            }
        });
        soak.ledger.with(|entries| {
            let added = entries.added.entry(key).or_default();
            match written {
                Some(true) => added.0 += 1,
                Some(false) => {}
                None => added.1 += 1,
            }
        });
    }
}

/// Writes all rows of a partition in one transaction, the last one with `last`.
fn write_together(services: &Services, count: i64, last: Write) -> Result<(), Error> {
    let rows = (0..TOGETHER).map(|number| {
        let is_last = number + 1 == TOGETHER;
        let way = if is_last { last } else { Write::Replace };
        row(way, "together", &number.to_string(), count)
    });
    services.client.transact(TABLE, &rows.collect::<Vec<_>>())
}

/// Repeatedly writes all rows of a partition together. Every third transaction must be refused.
fn transact(soak: &Soak) {
    let mut possible = Possible::new(0);
    for count in 1.. {
        if soak.is_over() {
            return;
        }
        if count % 3 == 0 {
            refuse(soak, count);
        } else {
            let outcome = soak.request(Kind::Write, "transaction", |services| {
                write_together(services, count, Write::Replace)
            });
            possible.wrote(outcome, count);
            if outcome.is_none() {
                soak.wait_for_store();
            }
        }
        check_together(soak, &mut possible);
    }
}

/// Sends a transaction that must fail, because its last operation inserts an existing row.
fn refuse(soak: &Soak, count: i64) {
    soak.request(
        Kind::Write,
        "refused transaction",
        |services| match write_together(services, count, Write::Insert) {
            Err(error) if error.is("EntityAlreadyExists") => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(Error::Malformed("an existing row was inserted".into())),
        },
    );
}

fn check_together(soak: &Soak, possible: &mut Possible<i64>) {
    let counts = soak.request(Kind::Read, "query entities", |services| {
        let query = Query {
            filter: "PartitionKey eq 'together'".into(),
            ..Query::default()
        };
        let entities = services.client.query(TABLE, &query)?;
        entities.iter().map(count_of).collect::<Result<Vec<_>, _>>()
    });
    let Some(counts) = counts else { return };
    let first = counts.first().copied().unwrap_or(-1);
    if counts != vec![first; TOGETHER as usize] || !possible.observed(&first) {
        soak.ledger.wrong(format!(
            "a transaction wrote {counts:?} in part, or not at all"
        ));
    }
}

/// Repeatedly upserts and deletes rows.
fn replace_and_delete(soak: &Soak, mut random: Random) {
    let mut rows: Vec<Possible<Option<i64>>> = Vec::new();
    rows.resize_with(CHANGING as usize, || Possible::new(None));
    for count in 1.. {
        if soak.is_over() {
            return;
        }
        let number = random.below(CHANGING);
        let (key, possible) = (number.to_string(), &mut rows[number as usize]);
        let outcome = if possible.latest().is_some() && random.below(2) == 0 {
            let outcome = delete(soak, &key);
            possible.wrote(outcome, None);
            outcome
        } else {
            let outcome = soak.request(Kind::Write, "insert or replace", |services| {
                write(services, row(Write::Replace, "changing", &key, count))
            });
            possible.wrote(outcome, Some(count));
            outcome
        };
        if outcome.is_none() {
            soak.wait_for_store();
        }
        let found = soak.request(Kind::Read, "get entity", |services| {
            let found = read(services, "changing", &key)?;
            Ok(found.map(|(count, _)| count))
        });
        if let Some(found) = found
            && !possible.observed(&found)
        {
            soak.ledger.wrong(format!(
                "changing row {key} is {found:?}, not as it was written"
            ));
        }
    }
}

fn delete(soak: &Soak, key: &str) -> Option<()> {
    soak.request(Kind::Write, "delete entity", |services| {
        write(services, row(Write::Delete, "changing", key, 0))
    })
}

/// Reads the entity that no thread writes.
pub(super) fn read_still(services: &Services) -> Result<(), Error> {
    match read(services, STILL.0, STILL.1)? {
        Some((0, _)) => Ok(()),
        other => Err(Error::Malformed(format!("the still entity is {other:?}"))),
    }
}

/// Checks, after all threads have ended, that every counter has its increments.
pub(super) fn check(soak: &Soak) {
    for row in 0..COUNTERS {
        let Some((count, _)) = read_counter(soak, row) else {
            continue;
        };
        let (known, perhaps) = soak.ledger.with(|entries| {
            let added = entries.added.get(&row.to_string());
            added.copied().unwrap_or_default()
        });
        if !(known..=known + perhaps).contains(&count) {
            soak.ledger.wrong(format!(
                "row {row} counts {count}, not {known} and perhaps {perhaps} more"
            ));
        }
    }
}

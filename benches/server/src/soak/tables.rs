//! The threads that write and read entities: counters with ETags, transactions, replaced and
//! deleted rows.

use std::thread::Scope;

use lazurite_bench_common::Random;

use crate::soak::ledger::Kind;
use crate::soak::operations::{Done, Row, RowWrite};
use crate::soak::possible::Possible;
use crate::soak::state::{Failure, Services, Soak};

const COUNTERS: u64 = 64;
const INCREMENTERS: u64 = 3;
/// Rows that one transaction writes together.
const TOGETHER: u64 = 4;
/// Rows that are replaced and deleted.
const CHANGING: u64 = 16;
/// The entity that no thread writes.
const STILL: (&str, &str) = ("still", "0");

/// Creates the table, the counters and the entity that no thread writes.
pub(super) fn prepare(services: &Services) -> Done<()> {
    let operations = &services.operations;
    operations.create_table()?;
    operations.write_row(RowWrite::Insert, row(STILL.0, STILL.1, 0))?;
    for number in 0..COUNTERS {
        operations.write_row(RowWrite::Insert, row("counters", &number.to_string(), 0))?;
    }
    write_together(services, 0, RowWrite::InsertOrReplace)
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

fn row<'a>(partition: &'a str, key: &'a str, count: i64) -> Row<'a> {
    Row {
        partition,
        key,
        count,
    }
}

fn read_counter(soak: &Soak, row: u64) -> Option<(i64, String)> {
    let key = row.to_string();
    soak.request(Kind::Read, "get entity", |services| {
        services.operations.get_row("counters", &key)
    })
}

/// Adds one to a counter with the ETag that was read: by Update Entity, and by Merge Entity of
/// every other row.
fn increment(soak: &Soak, mut random: Random) {
    while !soak.is_over() {
        let number = random.below(COUNTERS);
        let Some((count, etag)) = read_counter(soak, number) else {
            continue;
        };
        let key = number.to_string();
        let (name, write) = if number.is_multiple_of(2) {
            ("merge entity", RowWrite::Merge(&etag))
        } else {
            ("update entity", RowWrite::Update(&etag))
        };
        let written = soak.request(Kind::Write, name, |services| {
            let written = services
                .operations
                .write_row(write, row("counters", &key, count + 1));
            match written {
                Ok(()) => Ok(true),
                Err(failure) if failure.is("UpdateConditionNotSatisfied") => Ok(false),
                Err(failure) => Err(failure),
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

/// Writes all rows of a partition, the last one in the given way.
fn write_together(services: &Services, count: i64, last: RowWrite) -> Done<()> {
    let keys: Vec<String> = (0..TOGETHER).map(|number| number.to_string()).collect();
    let rows = keys.iter().enumerate().map(|(number, key)| {
        let is_last = number + 1 == keys.len();
        let write = if is_last {
            last
        } else {
            RowWrite::InsertOrReplace
        };
        (write, row("together", key, count))
    });
    services.operations.transact(&rows.collect::<Vec<_>>())
}

/// Writes all rows of a partition in one transaction; every third one is refused as a whole.
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
                write_together(services, count, RowWrite::InsertOrReplace)
            });
            possible.wrote(outcome, count);
            if outcome.is_none() {
                soak.wait_for_store();
            }
        }
        check_together(soak, &mut possible);
    }
}

/// A transaction whose last operation inserts a row that exists.
fn refuse(soak: &Soak, count: i64) {
    soak.request(
        Kind::Write,
        "refused transaction",
        |services| match write_together(services, count, RowWrite::Insert) {
            Err(failure) if failure.is("EntityAlreadyExists") => Ok(()),
            Err(failure) => Err(failure),
            Ok(()) => Err(Failure::wrong("an existing row was inserted")),
        },
    );
}

fn check_together(soak: &Soak, possible: &mut Possible<i64>) {
    let counts = soak.request(Kind::Read, "query entities", |services| {
        services.operations.query_partition("together")
    });
    let Some(counts) = counts else { return };
    let first = counts.first().copied().unwrap_or(-1);
    if counts != vec![first; TOGETHER as usize] || !possible.observed(&first) {
        soak.ledger.wrong(format!(
            "a transaction wrote {counts:?} in part, or not at all"
        ));
    }
}

/// Writes rows whether or not they exist, and deletes them.
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
                let row = row("changing", &key, count);
                services
                    .operations
                    .write_row(RowWrite::InsertOrReplace, row)
            });
            possible.wrote(outcome, Some(count));
            outcome
        };
        if outcome.is_none() {
            soak.wait_for_store();
        }
        let found = soak.request(Kind::Read, "get entity", |services| {
            match services.operations.get_row("changing", &key) {
                Ok((count, _)) => Ok(Some(count)),
                Err(failure) if failure.is("ResourceNotFound") => Ok(None),
                Err(failure) => Err(failure),
            }
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
        let row = row("changing", key, 0);
        services.operations.write_row(RowWrite::Delete, row)
    })
}

/// Reads the entity that no thread writes.
pub(super) fn read_still(services: &Services) -> Done<()> {
    match services.operations.get_row(STILL.0, STILL.1)?.0 {
        0 => Ok(()),
        count => Err(Failure::wrong(format!("the still entity counts {count}"))),
    }
}

/// When all is calm: every counter has its increments.
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

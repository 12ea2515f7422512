//! The threads that write and read entities: counters with ETags, transactions, replaced and deleted rows.

use std::thread::Scope;

use lazurite_table::{ETag, Entity, Error, IfMatch, Operation, Query, Value, Write};

use lazurite_bench_common::{Outcome, Random};

use super::ledger::Kind;
use super::possible::Possible;
use super::state::{ACCOUNT, Failure, Services, Soak};

const TABLE: &str = "Soak";
const COUNTERS: u64 = 64;
const INCREMENTERS: u64 = 3;
/// Rows that one transaction writes together.
const TOGETHER: u64 = 4;
/// Rows that are replaced and deleted.
const CHANGING: u64 = 16;
/// The entity that nobody writes.
const STILL: (&str, &str) = ("still", "0");

/// Creates the table, the counters and the entity that nobody writes.
pub(super) fn prepare(services: &Services) -> Outcome<()> {
    services.tables.create_table(ACCOUNT, TABLE)?.wait()?;
    let still = entity(STILL.0, STILL.1, 0);
    let counters = (0..COUNTERS).map(|row| entity("counters", &row.to_string(), 0));
    for entity in counters.chain([still]) {
        let inserted = services.tables.insert_entity(ACCOUNT, TABLE, &entity)?;
        inserted.1.wait()?;
    }
    let together = services
        .tables
        .execute_transaction(ACCOUNT, TABLE, &together(0))?;
    Ok(together.1.wait()?)
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

fn entity(partition: &str, row: &str, count: i64) -> Entity {
    let properties = vec![("Count".to_owned(), Value::Int64(count))];
    Entity::new(partition, row, properties)
}

fn count_of(entity: &Entity) -> Result<i64, Failure> {
    match entity.property("Count") {
        Some(Value::Int64(count)) => Ok(*count),
        _ => Err(Failure::wrong(format!(
            "row {} has no count",
            entity.row_key
        ))),
    }
}

fn read_counter(soak: &Soak, row: u64) -> Option<(i64, ETag)> {
    let key = row.to_string();
    soak.request(Kind::Read, "get entity", |services| {
        let entity = services
            .tables
            .get_entity(ACCOUNT, TABLE, "counters", &key)?;
        Ok((count_of(&entity)?, entity.etag()))
    })
}

/// Adds one to a counter with the ETag that was read: by Update Entity, and by Merge Entity of every other row.
fn increment(soak: &Soak, mut random: Random) {
    while !soak.is_over() {
        let row = random.below(COUNTERS);
        let Some((count, etag)) = read_counter(soak, row) else {
            continue;
        };
        let (entity, condition) = (
            entity("counters", &row.to_string(), count + 1),
            IfMatch::ETag(etag),
        );
        let is_merge = row.is_multiple_of(2);
        let name = if is_merge {
            "merge entity"
        } else {
            "update entity"
        };
        let written = soak.request(Kind::Write, name, |services| {
            let tables = &services.tables;
            let written = if is_merge {
                tables.merge_entity(ACCOUNT, TABLE, &entity, condition)
            } else {
                tables.update_entity(ACCOUNT, TABLE, &entity, condition)
            };
            match written {
                Ok((_, ticket)) => Ok(ticket.wait().map(|()| true)?),
                Err(Error::UpdateConditionNotSatisfied) => Ok(false),
                Err(error) => Err(error.into()),
            }
        });
        soak.ledger.with(|entries| {
            let added = entries.added.entry(row.to_string()).or_default();
            match written {
                Some(true) => added.0 += 1,
                Some(false) => {}
                None => added.1 += 1,
            }
        });
    }
}

fn together(count: i64) -> Vec<Operation> {
    let operation = |row: u64| Operation {
        write: Write::InsertOrReplace,
        entity: entity("together", &row.to_string(), count),
    };
    (0..TOGETHER).map(operation).collect()
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
                let tables = &services.tables;
                let done = tables.execute_transaction(ACCOUNT, TABLE, &together(count))?;
                Ok(done.1.wait()?)
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
    let mut operations = together(count);
    if let Some(last) = operations.last_mut() {
        last.write = Write::Insert;
    }
    soak.request(Kind::Write, "refused transaction", |services| {
        let tables = &services.tables;
        match tables.execute_transaction(ACCOUNT, TABLE, &operations) {
            Err(refusal) if matches!(refusal.error, Error::EntityAlreadyExists) => Ok(()),
            Err(refusal) => Err(refusal.into()),
            Ok(_) => Err(Failure::wrong("an existing row was inserted")),
        }
    });
}

fn check_together(soak: &Soak, possible: &mut Possible<i64>) {
    let counts = soak.request(Kind::Read, "query entities", |services| {
        let query = Query {
            filter: Some("PartitionKey eq 'together'"),
            top: None,
            continuation: None,
            access_range: None,
        };
        let tables = &services.tables;
        let page = tables.query_entities(ACCOUNT, TABLE, &query, &|| false)?;
        page.entities
            .iter()
            .map(count_of)
            .collect::<Result<Vec<_>, _>>()
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
        let row = random.below(CHANGING);
        let (key, possible) = (row.to_string(), &mut rows[row as usize]);
        let outcome = if possible.latest().is_some() && random.below(2) == 0 {
            let outcome = delete(soak, &key);
            possible.wrote(outcome, None);
            outcome
        } else {
            let outcome = soak.request(Kind::Write, "insert or replace", |services| {
                let entity = entity("changing", &key, count);
                let tables = &services.tables;
                let done = tables.insert_or_replace_entity(ACCOUNT, TABLE, &entity)?;
                Ok(done.1.wait()?)
            });
            possible.wrote(outcome, Some(count));
            outcome
        };
        if outcome.is_none() {
            soak.wait_for_store();
        }
        let found = soak.request(Kind::Read, "get entity", |services| {
            match services.tables.get_entity(ACCOUNT, TABLE, "changing", &key) {
                Ok(entity) => count_of(&entity).map(Some),
                Err(Error::ResourceNotFound) => Ok(None),
                Err(error) => Err(error.into()),
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

fn delete(soak: &Soak, row: &str) -> Option<()> {
    soak.request(Kind::Write, "delete entity", |services| {
        let tables = &services.tables;
        let done = tables.delete_entity(ACCOUNT, TABLE, "changing", row, IfMatch::Any)?;
        Ok(done.wait()?)
    })
}

/// Reads the entity that nobody writes.
pub(super) fn read_still(services: &Services) -> Result<(), Failure> {
    let entity = services
        .tables
        .get_entity(ACCOUNT, TABLE, STILL.0, STILL.1)?;
    match count_of(&entity)? {
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

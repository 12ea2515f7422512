//! Writes rows as entity group transactions, and records them so that they can be undone.

use crate::context::Console;
use crate::edits::{Change, Edit, after};
use crate::links::TablePlace;
use crate::respond::{Done, Visit};
use lazurite_engine::Ticket;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_table::{DateTime, Entity, Operation};
use maud::{Markup, html};

/// Maximum number of operations in a transaction. Source: Performing entity group transactions.
pub const TRANSACTION_MAX: usize = 100;

/// The result of executing operations.
pub struct Executed {
    /// The Timestamps of the executed operations, as `execute_transaction` returns them.
    pub timestamps: Vec<Option<DateTime>>,
    /// The ticket of the last transaction, or the failure of the first one that was refused.
    pub outcome: Result<Ticket>,
}

/// Executes operations in transactions of consecutive operations on one partition. Stops at the
/// first transaction that is refused.
pub fn execute(console: &Console, place: &TablePlace, operations: &[Operation]) -> Executed {
    let mut done = 0;
    let (mut timestamps, mut last) = (Vec::new(), None);
    let (services, stored) = match console.at(&place.account) {
        Ok(found) => found,
        Err(failure) => {
            let outcome = Err(failure);
            return Executed {
                timestamps,
                outcome,
            };
        }
    };
    while done < operations.len() {
        let partition_key = &operations[done].entity.partition_key;
        let rest = operations[done..].iter().take(TRANSACTION_MAX);
        let count = rest
            .take_while(|operation| operation.entity.partition_key == *partition_key)
            .count();
        let batch = &operations[done..done + count];
        let executed = services
            .tables
            .execute_transaction(stored, &place.table, batch);
        let (written, ticket) = match executed {
            Ok(executed) => executed,
            Err(error) => {
                let failed = batch.get(error.index);
                let row_key = failed.map_or("", |operation| &operation.entity.row_key);
                let failure = Failure::from(error.error);
                let outcome = Err(if operations.len() == 1 {
                    failure
                } else {
                    of_row(done, error.index, row_key, failure)
                });
                return Executed {
                    timestamps,
                    outcome,
                };
            }
        };
        timestamps.extend(written);
        last = Some(ticket);
        done += count;
    }
    let outcome = last.ok_or_else(|| Failure::new(400, "NothingSelected", "No row is selected."));
    Executed {
        timestamps,
        outcome,
    }
}

/// Adds the number and the key of the row to the failure of an operation.
fn of_row(done: usize, index: usize, row_key: &str, mut failure: Failure) -> Failure {
    let row = done + index + 1;
    let message = format!(
        "Row {row} (RowKey {row_key}): {} The {done} rows before this partition's were changed.",
        failure.message
    );
    failure.message = message.into();
    failure
}

/// Executes operations of a page, and keeps the rows as they were before, even if a later
/// transaction is refused.
pub fn edit(
    console: &Console,
    place: &TablePlace,
    id: u64,
    operations: Vec<Operation>,
) -> Result<Ticket> {
    let (services, stored) = console.at(&place.account)?;
    let before = operations.iter().map(|Operation { entity, .. }| {
        let (partition_key, row_key) = (&entity.partition_key, &entity.row_key);
        let found = services
            .tables
            .get_entity(stored, &place.table, partition_key, row_key);
        found.ok()
    });
    let before: Vec<Option<Entity>> = before.collect();
    let executed = execute(console, place, &operations);
    if executed.timestamps.is_empty() {
        return executed.outcome;
    }
    let changes = operations.into_iter().zip(before);
    let changes = changes.zip(executed.timestamps);
    let changes = changes.map(|((operation, before), timestamp)| {
        let after = timestamp.map(|timestamp| Entity {
            timestamp,
            ..after(operation, before.as_ref())
        });
        Change { before, after }
    });
    console.edits.keep(Edit {
        id,
        place: place.clone(),
        changes: changes.collect(),
    });
    executed.outcome.map_err(|mut failure| {
        let edit = id.to_string();
        let undo = place.path(&["undo"], &[("edit", &edit)]);
        failure.message = format!("{} {undo} takes them back.", failure.message).into();
        failure
    })
}

/// A link to the edit that led to the page, if one did.
pub fn note(visit: &Visit, place: &TablePlace) -> Markup {
    let id = visit.parameter("edit");
    let is_edit = Done::of(visit).is_some() && id.parse::<u64>().is_ok();
    html! {
        @if is_edit {
            p { a href=(place.path(&["undo"], &[("edit", &id)])) { "Show the change, or undo it" } }
        }
    }
}

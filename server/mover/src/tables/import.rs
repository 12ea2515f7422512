//! Creates the tables of a directory, with their entities.

use crate::error::Result;
use crate::import_run::Import;
use crate::parallel::{Hand, in_parallel};
use crate::resource_kind::ResourceKind;
use crate::tables::batches::{Batch, Operation, apply, each_batch};

/// Creates all tables of the directory, with their entities. Everything was checked before.
pub fn import(import: &Import<'_>) -> Result<()> {
    for table in import.resources(ResourceKind::Table)? {
        let Some(is_new) = import.make(ResourceKind::Table, &table)? else {
            continue;
        };
        import.progress.add(&import.progress.tables, 1);
        if !is_new {
            import.note_existing(
                ResourceKind::Table,
                &table,
                "entities of the same keys are replaced",
            );
        }
        import_entities(import, &table)?;
    }
    Ok(())
}

fn import_entities(import: &Import<'_>, table: &str) -> Result<()> {
    let lines = ResourceKind::Table.lines(table);
    let produce = |hand: &mut Hand<'_, Batch>| {
        each_batch(table, |take| import.source.lines(&lines, take), hand)
    };
    in_parallel(produce, |batch: Batch| {
        let what = format!("table {table}, partition {:?}", batch.partition_key);
        match apply(import.client, &batch.operations) {
            Err(error) if import.leaves_out(&error) => apply_each(import, &what, &batch.operations),
            Err(error) => Err(error.within(what)),
            Ok(()) => {
                let count = batch.operations.len() as u64;
                import.progress.add(&import.progress.entities, count);
                Ok(())
            }
        }
    })
}

/// Writes the entities of a refused transaction one by one, leaving out those that are refused.
fn apply_each(import: &Import<'_>, what: &str, operations: &[Operation]) -> Result<()> {
    for operation in operations {
        let what = format!("{what}, row {:?}", operation.row_key);
        let applied = apply(import.client, std::slice::from_ref(operation));
        if import.or_leave_out(&what, applied)?.is_some() {
            import.progress.add(&import.progress.entities, 1);
        }
    }
    Ok(())
}

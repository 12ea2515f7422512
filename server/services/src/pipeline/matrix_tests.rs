//! Checks that the table of the end-to-end tests (`tests/e2e/operations.rs`), which tries
//! permissions and provokes refusals, has a row for every operation.

use crate::request::operation::Operation;
use crate::{blob, queue, table};

const ROWS: &str = include_str!("../../../tests/e2e/operations.rs");

/// Operations that the table lacks: by service and `operationId`, or by the row's name if the
/// published specification does not have the operation.
fn missing<R>(service: &str, operations: &'static [Operation<R>]) -> Vec<String> {
    // It needs a token, so it has no refusals: `tests/e2e/matrix.rs` has its rows.
    let others = operations
        .iter()
        .filter(|row| row.name != "GetUserDelegationKey");
    let names = others.flat_map(|row| match row.published {
        [] => vec![row.name.to_owned()],
        ids => ids.iter().map(|id| format!("{service} {id}")).collect(),
    });
    let is_missing = |name: &String| !ROWS.contains(&format!("\"{name}\""));
    names.filter(is_missing).collect()
}

#[test]
fn every_operation_has_a_row_in_the_table_of_the_end_to_end_tests() {
    assert_eq!(missing("Blob", blob::operations::OPERATIONS), [""; 0]);
    assert_eq!(missing("Queue", queue::operations::OPERATIONS), [""; 0]);
    assert_eq!(missing("Table", table::operations::OPERATIONS), [""; 0]);
}

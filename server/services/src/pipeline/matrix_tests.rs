//! Checks that the rights matrix (`tests/e2e/matrix.rs`) has a row for every operation, and that
//! the refusal matrix (`tests/e2e/refusals/rows.rs`) has a row for every operation that changes
//! state.

use crate::request::operation::Operation;
use crate::{blob, queue, table};

const MATRIX: &str = include_str!("../../../tests/e2e/matrix.rs");
const REFUSALS: &str = include_str!("../../../tests/e2e/refusals/rows.rs");

/// The part of a source between two texts. Panics if one is missing.
fn between<'a>(source: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = source.split_once(start).expect(start);
    rest.split_once(end).expect(end).0
}

/// The names for which `function` of the rights matrix has no row.
fn missing(function: &str, names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let rows = between(MATRIX, function, "\n}\n").to_lowercase();
    let rows: String = rows.split_whitespace().collect();
    let has_row = |name: &&str| rows.contains(&format!("\"{}\"", name.to_lowercase()));
    names.filter(|name| !has_row(name)).collect()
}

#[test]
fn every_operation_has_a_row_in_the_matrix_of_rights() {
    let blob = blob::operations::OPERATIONS.iter().map(|row| row.name);
    let queue = queue::operations::OPERATIONS.iter().map(|row| row.name);
    let table = table::operations::OPERATIONS.iter().map(|row| row.name);
    assert_eq!(missing("fn blob_rows()", blob), [""; 0]);
    assert_eq!(missing("fn queue_rows()", queue), [""; 0]);
    assert_eq!(missing("fn table_rows()", table), [""; 0]);
}

/// Operations that the refusal matrix lacks: by service and `operationId`, or by the row's name if
/// the published specification does not have the operation.
fn without_refusals<R>(service: &str, operations: &'static [Operation<R>]) -> Vec<String> {
    let changing = operations.iter().filter(|row| row.changes_state);
    // The operation only computes a key; it stores nothing.
    let changing = changing.filter(|row| row.name != "GetUserDelegationKey");
    let names = changing.flat_map(|row| match row.published {
        [] => vec![row.name.to_owned()],
        ids => ids.iter().map(|id| format!("{service} {id}")).collect(),
    });
    let is_missing = |name: &String| !REFUSALS.contains(&format!("\"{name}\""));
    names.filter(is_missing).collect()
}

#[test]
fn every_operation_that_changes_something_has_a_row_of_refusals() {
    let none: [String; 0] = [];
    assert_eq!(without_refusals("Blob", blob::operations::OPERATIONS), none);
    assert_eq!(
        without_refusals("Queue", queue::operations::OPERATIONS),
        none
    );
    assert_eq!(
        without_refusals("Table", table::operations::OPERATIONS),
        none
    );
}

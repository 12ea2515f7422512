//! Queries of the flights, page by page.

use crate::client::{Client, Entity, Error, Query};
use crate::job::flights::data::Flight;
use crate::job::stage::Stage;

/// A filter for the rows of one partition from the first of `rows` to the last.
pub(super) fn row_range(rows: &[Flight]) -> String {
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    format!(
        "PartitionKey eq '{}' and RowKey ge '{}' and RowKey le '{}'",
        first.partition, first.row, last.row
    )
}

/// Passes every page of `query` to `consume`.
pub(super) fn each_page(
    client: &Client,
    stage: &Stage,
    table: &str,
    query: &Query,
    mut consume: impl FnMut(Vec<Entity>),
) -> Result<(), Error> {
    let mut from = None;
    loop {
        let get = || client.query_page(table, query, from.as_ref());
        let page = client.patiently(|| stage.time(get))?;
        consume(page.entities);
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}

//! Loads the flights in entity group transactions, each inserted whole even if the server is
//! killed.

use lazurite_bench_common::Outcome;

use crate::client::{Client, Error, Outage, Query};
use crate::job::context::Job;
use crate::job::flights::data::{Flight, Flights};
use crate::job::flights::pages::{each_page, row_range};
use crate::job::ledger::{Found, Ledger};
use crate::job::stage::Stage;

/// The phase.
pub(super) const LOAD: &str = "table: load";
/// The most operations a transaction may have. Source: Performing entity group transactions,
/// "Requirements".
const TRANSACTION_ENTITIES_MAX: usize = 100;

/// Inserts every flight, `connections` transactions at a time.
pub(super) fn load(job: &mut Job, flights: &Flights, table: &str) -> Outcome<()> {
    let ledger = Ledger::new("entity group transactions");
    let batches = flights
        .partitions
        .iter()
        .flat_map(|range| flights.of(range).chunks(TRANSACTION_ENTITIES_MAX));
    let batches: Vec<&[Flight]> = batches.collect();
    job.phase(LOAD, "entities", flights.all.len(), |job, stage| {
        stage.in_parallel(job.connections, &batches, |batch| {
            insert(&job.client, stage, &ledger, table, batch)?;
            stage.done(batch.len());
            Ok(())
        })
    })?;
    job.remark_ledger(&ledger);
    Ok(())
}

/// Inserts a batch for certain: when the answer is lost, looks whether it is there, and sends it
/// again only if it is not.
fn insert(
    client: &Client,
    stage: &Stage,
    ledger: &Ledger,
    table: &str,
    batch: &[Flight],
) -> Result<(), Error> {
    let entities: Vec<_> = batch.iter().map(Flight::entity).collect();
    let mut outage = Outage::default();
    loop {
        match stage.time(|| client.insert_together(table, &entities)) {
            Ok(()) => {
                ledger.acknowledged();
                return Ok(());
            }
            Err(Error::InDoubt(reason)) => {
                let found = look(client, stage, table, batch)?;
                ledger.settled(found);
                stage.check(found != Found::Half, || {
                    format!("half a transaction is there: {}", batch[0].row)
                });
                match found {
                    Found::NotDone => outage.wait(Error::InDoubt(reason))?,
                    Found::Done | Found::Half => return Ok(()),
                }
            }
            Err(error) if error.is_outage() => outage.wait(error)?,
            Err(error) => return Err(error),
        }
    }
}

/// How much of `batch` is in the table. Its rows are neighbours, so a range of RowKeys holds them
/// and nothing else.
fn look(client: &Client, stage: &Stage, table: &str, batch: &[Flight]) -> Result<Found, Error> {
    let query = Query {
        filter: row_range(batch),
        select: "RowKey".into(),
        ..Query::default()
    };
    let mut found = 0;
    each_page(client, stage, table, &query, |page| found += page.len())?;
    Ok(match found {
        0 => Found::NotDone,
        all if all == batch.len() => Found::Done,
        _ => Found::Half,
    })
}

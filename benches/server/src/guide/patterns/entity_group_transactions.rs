//! Entity group transactions: parts move between the bins of a warehouse, by a request for each
//! entity or in one transaction. Trials let programs die, and let several move parts at once.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::client::{Change, Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, number, property};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};

const WAREHOUSES: usize = 20;
/// The warehouse whose parts move.
const WAREHOUSE: usize = 0;
const BINS: usize = 100;
/// Number of parts in each bin at first.
const PARTS: i64 = 50;
/// Number of moves, each from an even bin to the next one.
const MOVES: usize = 40;
/// Programs that move parts at once, and the moves of each.
const PROGRAMS: usize = 4;
const MOVES_OF_EACH: usize = 5;
/// Steps of a move without a transaction: the bin that gives, the bin that takes.
const STEPS: usize = 2;

const NAIVE: &str = "a request for each entity";
const ADVISED: &str = "one transaction";

pub(super) static PATTERN: Pattern = Pattern {
    name: "entity-group-transactions",
    title: "Entity group transactions",
    problem: "Two entities change together, and a program may die between the two writes, or overwrite what another program wrote.",
    advice: "Keep both in one partition, and send up to 100 operations in one request: all take effect or none. Name the ETags that were read.",
    caution: "A transaction is refused as a whole if one of its entities was changed. Whether a bill counts it as one request is not certain.",
    question: "loading a warehouse and moving parts between its bins",
    goal: Measure::WriteRequests,
    designs: &[
        Design {
            name: NAIVE,
            build: |lab| {
                lab.create_table("bins")?;
                let mut bins = bins(lab.data);
                bins.try_for_each(|bin| lab.write("bins", Write::Insert, bin))
            },
            ask: |lab| {
                moves().try_for_each(|pair| write_both(lab, &read(lab, pair)?, STEPS))?;
                parts(lab)
            },
            sabotage,
        },
        Design {
            name: ADVISED,
            build,
            ask: |lab| {
                moves().try_for_each(|pair| transact(lab, &read(lab, pair)?).map(|_| ()))?;
                parts(lab)
            },
            sabotage,
        },
    ],
    trials: &[
        Trial {
            circumstance: "the programs die at each of their steps in turn",
            harm: Harm::HalfDone,
            runs: &[
                TrialRun {
                    name: NAIVE,
                    build,
                    run: |lab| {
                        let deaths = (0..=STEPS).cycle();
                        moves().zip(deaths).try_for_each(|(pair, steps)| {
                            write_both(lab, &read(lab, pair)?, steps)
                        })?;
                        half_moved(lab)
                    },
                },
                TrialRun {
                    name: ADVISED,
                    build,
                    run: |lab| {
                        // The write is a single step: the program dies before it, or after it.
                        let deaths = [false, true].into_iter().cycle();
                        moves().zip(deaths).try_for_each(|(pair, is_written)| {
                            let bins = read(lab, pair)?;
                            if is_written {
                                transact(lab, &bins)?;
                            }
                            Ok(())
                        })?;
                        half_moved(lab)
                    },
                },
            ],
        },
        Trial {
            circumstance: "4 programs move parts 5 times each, and in each round all read before the first of them writes",
            harm: Harm::Lost,
            runs: &[
                TrialRun {
                    name: "a request for each entity, the same two bins",
                    build,
                    run: |lab| {
                        at_once(
                            lab,
                            |_| [0, 1],
                            |lab, bins| {
                                write_both(lab, bins, STEPS)?;
                                Ok(true)
                            },
                        )
                    },
                },
                TrialRun {
                    name: "one transaction, the same two bins",
                    build,
                    run: |lab| at_once(lab, |_| [0, 1], transact),
                },
                TrialRun {
                    name: "one transaction, bins of their own",
                    build,
                    run: |lab| at_once(lab, |program| [2 * program, 2 * program + 1], transact),
                },
            ],
        },
    ],
    truth: |_| {
        let parts = (0..BINS).map(|bin| match bin {
            bin if bin >= 2 * MOVES => PARTS,
            bin if bin.is_multiple_of(2) => PARTS - 1,
            _ => PARTS + 1,
        });
        parts
            .enumerate()
            .map(|(bin, parts)| format!("{} {parts}", name(bin)))
            .collect()
    },
    writes: |data| warehouses(data) * BINS,
    questions: |_| MOVES,
    rate: Rate::Page,
};

fn warehouses(data: &Data) -> usize {
    data.scaled(WAREHOUSES, 2)
}

fn name(bin: usize) -> String {
    format!("bin_{bin:03}")
}

fn bin(warehouse: usize, row: &str, parts: i64) -> Value {
    json!({ "PartitionKey": partition(warehouse), "RowKey": row, "Parts": parts })
}

fn partition(warehouse: usize) -> String {
    format!("warehouse_{warehouse:04}")
}

fn bins(data: &Data) -> impl Iterator<Item = Value> + use<> {
    let warehouses = 0..warehouses(data);
    warehouses.flat_map(|warehouse| (0..BINS).map(move |row| bin(warehouse, &name(row), PARTS)))
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("bins")?;
    lab.insert_all("bins", bins(lab.data).collect())
}

/// Overwrites a bin, as a program does that has read its number long ago.
fn sabotage(lab: &Lab) -> Result<(), Error> {
    lab.write("bins", Write::Replace, bin(WAREHOUSE, &name(0), PARTS - 1))
}

fn moves() -> impl Iterator<Item = [usize; 2]> {
    (0..MOVES).map(|number| [2 * number, 2 * number + 1])
}

/// A bin as a program read it.
struct Bin {
    row: String,
    parts: i64,
    etag: String,
}

/// Reads the bin that gives a part and the bin that takes it.
fn read(lab: &Lab, pair: [usize; 2]) -> Result<[Bin; 2], Error> {
    let read = |bin| {
        let (table, row) = (lab.name("bins"), name(bin));
        let found = lab
            .client
            .get_entity_and_etag(&table, &partition(WAREHOUSE), &row)?;
        let (entity, etag) = found.ok_or_else(|| Error::Malformed(format!("{row} is missing")))?;
        let parts = number(&entity, "Parts");
        Ok(Bin { row, parts, etag })
    };
    let [one, other] = pair.map(read);
    Ok([one?, other?])
}

/// The two bins after the move of a part, with the ETags that were read.
fn moved([one, other]: &[Bin; 2]) -> [(Value, String); 2] {
    let changed = |read: &Bin, change| {
        let entity = bin(WAREHOUSE, &read.row, read.parts + change);
        (entity, read.etag.clone())
    };
    [changed(one, -1), changed(other, 1)]
}

/// Does the first `steps` writes of a move, without a condition.
fn write_both(lab: &Lab, bins: &[Bin; 2], steps: usize) -> Result<(), Error> {
    let mut writes = moved(bins).into_iter().take(steps);
    writes.try_for_each(|(entity, _)| lab.write("bins", Write::Replace, entity))
}

/// Moves a part in one transaction. Returns whether it took effect: false if another program has
/// changed one of the bins.
fn transact(lab: &Lab, bins: &[Bin; 2]) -> Result<bool, Error> {
    let changes = moved(bins);
    let changes = changes.map(|(entity, etag)| Change::new(Write::Replace, entity).if_match(etag));
    match lab.client.transact(&lab.name("bins"), &changes) {
        Err(Error::Refused { status: 412, .. }) => Ok(false),
        done => done.map(|()| true),
    }
}

/// The parts of each bin of the warehouse.
fn stock(lab: &Lab) -> Result<HashMap<String, i64>, Error> {
    let filter = format!("PartitionKey eq '{}'", partition(WAREHOUSE));
    let all = lab.verify("bins", filter, "")?;
    let all = all.iter();
    Ok(all
        .map(|bin| (property(bin, "RowKey").to_owned(), number(bin, "Parts")))
        .collect())
}

fn parts(lab: &Lab) -> Result<Answers, Error> {
    let stock = stock(lab)?;
    let line = |(row, parts): (&String, &i64)| format!("{row} {parts}");
    let mut lines: Answers = stock.iter().map(line).collect();
    lines.sort();
    Ok(lines)
}

/// Counts the moves of which one bin has changed and the other has not.
fn half_moved(lab: &Lab) -> Result<Tally, Error> {
    let stock = stock(lab)?;
    Tally::count(moves(), |pair| {
        let [one, other] = pair.map(|number| stock[&name(number)]);
        Ok(one + other != 2 * PARTS)
    })
}

/// Runs the moves of several programs. In each round, all programs with moves left read their bins,
/// and then write; which program writes first changes from round to round. A refused move is
/// repeated in the next round. Counts the moves without effect.
fn at_once(
    lab: &Lab,
    bins_of: fn(usize) -> [usize; 2],
    write: fn(&Lab, &[Bin; 2]) -> Result<bool, Error>,
) -> Result<Tally, Error> {
    let mut left = [MOVES_OF_EACH; PROGRAMS];
    let mut rounds = 0;
    while left.iter().any(|left| *left > 0) {
        let active = (0..PROGRAMS).map(|turn| (turn + rounds) % PROGRAMS);
        let active = active.filter(|program| left[*program] > 0);
        let read = active.map(|program| Ok((program, read(lab, bins_of(program))?)));
        for (program, bins) in read.collect::<Result<Vec<_>, Error>>()? {
            if write(lab, &bins)? {
                left[program] -= 1;
            }
        }
        rounds += 1;
    }
    let taken = stock(lab)?.into_values().map(|parts| parts - PARTS);
    let taken: i64 = taken.filter(|taken| *taken > 0).sum();
    let moves = PROGRAMS * MOVES_OF_EACH;
    Ok(Tally {
        harmed: moves - usize::try_from(taken).unwrap_or_default(),
        objects: moves,
        rounds,
    })
}

//! `lazurite what-if`: compares a recorded workload of a table with the same workload under other
//! keys.
//!
//! The command copies the table with its new keys in a fork of the store, and runs the recorded
//! queries on both tables there. It does not send requests by keys, because their cost follows from
//! the keys. The server's own data does not change.

mod html;
mod rekeyed;
mod report;
pub mod trial;

use crate::commands::what_if::rekeyed::Rekeyed;
use crate::commands::what_if::report::{Compared, Report};
use crate::commands::what_if::trial::Trial;
use lazurite_advisor::Recorded;
use lazurite_base::terminal::print_line;
use lazurite_cost::Prices;
use lazurite_design::{
    Design, KeyExpression, Keys, Rules, SECONDS_MAX, Usage, Workload, proposals, recorded_from_log,
};
use lazurite_mover::Client;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

/// The arguments of the command.
pub struct Options<'a> {
    pub table: &'a str,
    /// `None`: the command proposes keys instead.
    pub partition_key: Option<&'a str>,
    pub row_key: &'a str,
    /// Whether the entities keep their keys, and copies are stored under the new keys.
    pub copy: bool,
    /// Properties whose values clients know when they name an entity.
    pub known: &'a [String],
    /// A file of recorded requests, one on each line; `-` is standard input.
    pub record: &'a Path,
    /// A price file of `lazurite-bench guide`; examples if there is none.
    pub prices: Option<&'a Path>,
    pub rules: Rules,
    pub json: bool,
    /// A file for the comparison as HTML.
    pub html: Option<&'a Path>,
}

/// Prints the comparison, or keys to try. The error is a sentence.
pub fn run(client: &Client, options: &Options<'_>) -> Result<ExitCode, String> {
    let workload = read(options.record, options.table)?;
    let prices = prices(options.prices)?;
    let Some(partition_key) = options.partition_key else {
        propose(&workload, options);
        return Ok(ExitCode::SUCCESS);
    };
    let key = |text| KeyExpression::parse(text).map_err(|error| error.to_string());
    let keys = Keys {
        partition: key(partition_key)?,
        row: key(options.row_key)?,
    };
    let report = compare(client, options, &keys, &workload, &prices)?;
    if let Some(path) = options.html {
        let written = std::fs::write(path, html::page(&report));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if options.json {
        print_line(report.json());
    } else {
        report.lines().iter().for_each(print_line);
    }
    Ok(ExitCode::SUCCESS)
}

fn compare<'a>(
    client: &Client,
    options: &'a Options<'_>,
    keys: &'a Keys,
    workload: &'a Workload,
    prices: &Prices,
) -> Result<Report<'a>, String> {
    let fork = client.fork()?;
    let trial = Trial {
        client: &fork.client,
    };
    let Rekeyed {
        mut old,
        mut new,
        moved,
        unkeyed,
        overwritten,
    } = trial.rekey(options.table, keys, options.known, &workload.named())?;
    let unknown = options.known.iter().find(|name| {
        let mut found = moved.values().flat_map(|moved| &moved.known);
        !moved.is_empty() && !found.any(|(known, _)| known == *name)
    });
    if let Some(name) = unknown {
        return Err(format!(
            "no entity of the record has the property {name} of --known"
        ));
    }
    let as_it_is = trial.ask(options.table, &workload.queries, None)?;
    let mut rekeyed = trial.ask(trial::REKEYED, &workload.queries, Some(keys))?;
    let differing = trial::differing(&as_it_is, &rekeyed);
    if options.copy {
        // A copy that lacks entities cannot answer in place of the table.
        rekeyed.retain(|question, found| found.returned >= as_it_is[question].returned);
    }
    old.add_partitions(workload, &as_it_is);
    new.add_partitions(workload, &rekeyed);
    let pages = prices.page_rules();
    let before = Usage::of(workload, Design::AsItIs, &[&old], &[&as_it_is], &pages);
    let (design, tables, measured) = if options.copy {
        let design = Design::Copied {
            keys,
            moved: &moved,
        };
        (design, vec![&old, &new], vec![&as_it_is, &rekeyed])
    } else {
        let design = Design::Rekeyed {
            keys,
            moved: &moved,
        };
        (design, vec![&new], vec![&rekeyed])
    };
    let after = Usage::of(workload, design, &tables, &measured, &pages);
    let seconds = workload.seconds;
    Ok(Report {
        table: options.table,
        keys,
        is_copy: options.copy,
        workload,
        before: Compared::of(before, &[&old], seconds, prices, &options.rules),
        after: Compared::of(after, &tables, seconds, prices, &options.rules),
        queries: report::queries(workload, &as_it_is, &rekeyed),
        differing,
        unkeyed,
        overwritten,
        rules: options.rules,
    })
}

fn propose(workload: &Workload, options: &Options<'_>) {
    let proposals = proposals(workload);
    let (table, record) = (options.table, format!("{:?}", options.record));
    for proposal in &proposals {
        print_line(format!(
            "{} queries name {} and no PartitionKey. Try:\n  lazurite what-if {table} --record {record} --partition-key \"{}\" --row-key \"{}\"",
            proposal.queries, proposal.partition, proposal.partition, proposal.row
        ));
    }
    if proposals.is_empty() {
        print_line(format!(
            "no query of the record would get a PartitionKey from a property that it compares with `eq` ({} requests to {table})",
            workload.requests()
        ));
    }
}

fn read(path: &Path, table: &str) -> Result<Workload, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(
            File::open(path).map_err(|error| failed(&error))?,
        ))
    };
    let mut records = Vec::new();
    for (number, line) in input.lines().enumerate() {
        let line = line.map_err(|error| failed(&error))?;
        // Editors of Windows put a byte order mark before the first line.
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with('{') {
            let record: Recorded = serde_json::from_str(line)
                .map_err(|error| failed(&format!("line {} is no record: {error}", number + 1)))?;
            records.push(record);
        } else {
            // A line of a log may be of any service.
            records.extend(recorded_from_log(line));
        }
    }
    let workload = Workload::of(&records, table);
    if workload.seconds > SECONDS_MAX {
        return Err(failed(&"it spans more than a week: take a part of it"));
    }
    if workload.requests() == 0 {
        let reason = match (workload.refused, workload.nameless) {
            (0, 0) => format!(
                "none of its {} requests is to the table {table}",
                records.len()
            ),
            (refused, 0) => {
                format!("all of its {refused} requests to the table {table} were refused")
            }
            (refused, nameless) => format!(
                "its requests to the table {table} cannot be repeated: it does not have the keys of {nameless}, and {refused} were refused"
            ),
        };
        return Err(failed(&reason));
    }
    Ok(workload)
}

/// The prices of a file, or examples. The error is a sentence.
pub fn prices(path: Option<&Path>) -> Result<Prices, String> {
    let Some(path) = path else {
        return Ok(Prices::default());
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    Prices::from_json(&text).map_err(|error| failed(&error))
}

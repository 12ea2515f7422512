//! `lazurite design check`: checks whether a design of tables meets the requirements in its file.
//!
//! The command builds the tables in a fork of the store and runs the queries there, so plans and
//! rows come from the real planner. It computes the load, its heat and its price from the file.

use crate::commands::what_if::trial::Trial;
use lazurite_base::terminal::{ChangingLine, plain, print_line};
use lazurite_base::units::count as grouped;
use lazurite_cost::Prices;
use lazurite_design::{
    CheckedDesign, DesignFile, Does, Measured, Pattern, Question, Rate, RecordedQuery, Rules,
    Table, TableDesign, check, filled,
};
use lazurite_mover::{Client, Progress, make_table, write_lines};
use lazurite_table::{Entity, Value as TableValue};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// Maximum number of queries for each pattern, each with the values of a different entity.
const ASKED: u64 = 20;
/// Maximum number of entities in one write, and number of bytes that ends a write earlier.
const LINES: usize = 1000;
const BYTES: usize = 4 << 20;
const THREADS: usize = 2;

/// Prints the outcome. Exit status 1 if something fails. The error is a sentence.
pub fn run(
    client: &Client,
    path: &Path,
    prices: &Prices,
    as_json: bool,
) -> Result<ExitCode, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let design = read(&text, is_json).map_err(|error| failed(&error))?;
    let mut progress = ChangingLine::on_stderr();
    let outcome = build_and_check(client, &design, prices, &mut progress)?;
    drop(progress);
    if as_json {
        print_line(as_value(&outcome, prices));
    } else {
        lines(&design, &outcome, prices).iter().for_each(print_line);
    }
    Ok(match outcome.failures().next() {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

/// Reads a design as TOML or JSON. The error is a sentence.
pub fn read(text: &str, is_json: bool) -> Result<DesignFile, String> {
    let design: DesignFile = if is_json {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        toml::from_str(text).map_err(|error| error.to_string())?
    };
    design.check().map_err(|error| error.to_string())?;
    Ok(design)
}

/// Builds the tables in a fork, and runs the queries there. The error is a sentence.
pub fn build_and_check(
    client: &Client,
    design: &DesignFile,
    prices: &Prices,
    progress: &mut ChangingLine,
) -> Result<CheckedDesign, String> {
    let fork = client.fork()?;
    let mut tables = BTreeMap::new();
    let mut measured = BTreeMap::new();
    for (number, (name, table)) in design.tables.iter().enumerate() {
        // The store may have tables with the names of the design.
        let built = format!("LazuriteDesign{number}");
        let filled = build(&fork.client, &built, name, table, progress)?;
        for (at, pattern) in design.patterns.iter().enumerate() {
            if pattern.table == *name && pattern.does == Does::Query {
                progress.show(|| format!("pattern {}", pattern.name));
                measured.insert(at, ask(&fork.client, &built, pattern, table)?);
            }
        }
        tables.insert(name.clone(), filled);
    }
    let checked = check(design, &tables, &measured, prices, &Rules::default());
    checked.map_err(|error| error.to_string())
}

/// Makes a table and its entities.
fn build(
    client: &Client,
    built: &str,
    name: &str,
    design: &TableDesign,
    progress: &mut ChangingLine,
) -> Result<Table, String> {
    let failed = |error: &dyn std::fmt::Display| format!("table {name}: {error}");
    let keys = design.keys(name).map_err(|error| error.to_string())?;
    if !make_table(client, built).map_err(|error| failed(&error))? {
        return Err(format!(
            "the store has a table {built}, which is in the way"
        ));
    }
    let (mut table, mut lines, mut bytes) = (Table::default(), Vec::new(), 0);
    for number in 0..design.rows {
        let entity = design.entity(&keys, number);
        let entity = entity.ok_or_else(|| failed(&format!("entity {number} cannot be made")))?;
        table.bytes += lazurite_table::entity_bytes(&entity) as u64;
        *table
            .partitions
            .entry(entity.partition_key.clone())
            .or_default() += 1;
        let line = line(&entity);
        bytes += line.len();
        lines.push(line);
        if lines.len() == LINES || bytes > BYTES || number + 1 == design.rows {
            let written = Progress::silent();
            let refused = write_lines(client, built, &lines, THREADS, &written);
            if refused.map_err(|error| failed(&error))? > 0 {
                return Err(failed(&written.end(1).join("; ")));
            }
            progress.show(|| {
                let (number, rows) = (grouped(number + 1), grouped(design.rows));
                format!("table {name}: {number} of {rows} rows are written")
            });
            lines.clear();
            bytes = 0;
        }
    }
    let stored = table.rows();
    let trial = Trial { client };
    let found = trial.count(built, &mut |rows| {
        let (rows, stored) = (grouped(rows), grouped(stored));
        progress.show(|| format!("table {name}: {rows} of {stored} rows are counted"));
    })?;
    if found < stored {
        let same = stored - found;
        return Err(failed(&format!(
            "{same} of {stored} entities have the keys of another one: make row-key unique"
        )));
    }
    Ok(table)
}

/// Runs the queries of a pattern. Returns their cost.
fn ask(
    client: &Client,
    built: &str,
    pattern: &Pattern,
    design: &TableDesign,
) -> Result<BTreeMap<Question, Measured>, String> {
    let keys = design
        .keys(&pattern.table)
        .map_err(|error| error.to_string())?;
    let mut queries = BTreeMap::new();
    for at in 0..ASKED.min(design.rows) {
        // Takes entities that are far from each other.
        let number = at * (design.rows / ASKED.min(design.rows));
        let Some(entity) = design.entity(&keys, number) else {
            continue;
        };
        let filter = filled(&pattern.filter, &entity)?;
        let query = RecordedQuery {
            seconds: vec![0],
            requests: 1,
            returned: pattern.top.map_or(u64::MAX, u64::from),
        };
        queries.insert((filter, pattern.top), query);
    }
    let trial = Trial { client };
    trial
        .ask(built, &queries, None)
        .map_err(|error| format!("{}: {error}", pattern.name))
}

/// The entity as a line of an import.
fn line(entity: &Entity) -> String {
    let mut fields = Map::new();
    fields.insert(
        "PartitionKey".to_owned(),
        entity.partition_key.as_str().into(),
    );
    fields.insert("RowKey".to_owned(), entity.row_key.as_str().into());
    for (name, value) in &entity.properties {
        let value: Value = match value {
            TableValue::Int32(number) => (*number).into(),
            TableValue::DateTime(instant) => {
                fields.insert(format!("{name}@odata.type"), "Edm.DateTime".into());
                instant.to_full_text().to_string().into()
            }
            TableValue::String(text) => text.as_str().into(),
            _ => continue,
        };
        fields.insert(name.clone(), value);
    }
    Value::Object(fields).to_string() + "\n"
}

fn lines(design: &DesignFile, outcome: &CheckedDesign, prices: &Prices) -> Vec<String> {
    let currency = &prices.currency;
    let names = design
        .patterns
        .iter()
        .map(|pattern| pattern.name.chars().count());
    let width = names.max().unwrap_or(0).max("pattern".len());
    let mut lines = vec![format!(
        "{:<width$}  {:>12}  {:<20}  {:>12}  {:>9}  {:>14}",
        "pattern",
        "per second",
        "plan",
        "rows",
        "requests",
        format!("{currency} a month")
    )];
    for (pattern, checked) in design.patterns.iter().zip(&outcome.patterns) {
        let mark = if checked.failures.is_empty() {
            ""
        } else {
            "  FAILS"
        };
        lines.push(format!(
            "{:<width$}  {:>12}  {:<20}  {:>12}  {:>9.2}  {:>14.2}{mark}",
            checked.name,
            rate(&pattern.per_second),
            checked.plan,
            grouped(checked.examined.round() as u64),
            checked.requests,
            checked.price
        ));
    }
    lines.push(String::new());
    for table in &outcome.tables {
        let hottest = match &table.hottest {
            None => "nothing is asked of it".to_owned(),
            Some((name, entities)) => {
                let entities = grouped(entities.round() as u64);
                let from = from_hour(table.hottest_hour);
                format!(
                    "its hottest partition is '{name}', with {entities} entities a second{from}"
                )
            }
        };
        lines.push(format!(
            "table {}: {hottest}; its space costs {:.2} {currency} a month",
            table.name, table.price_of_space
        ));
    }
    let worst = outcome.worst_minute();
    if worst.refused() >= 1.0 {
        lines.push(format!(
            "{:.1} % of all entities would be refused in the first minute{}, if one server bears {} entities a second (an assumption)",
            100.0 * worst.refused() / worst.sum.asked,
            from_hour(worst.hour),
            grouped(Rules::default().server_target as u64)
        ));
    }
    lines.push(String::new());
    let failures: Vec<_> = outcome
        .failures()
        .map(|failure| format!("FAILS  {failure}"))
        .collect();
    if failures.is_empty() {
        lines.push("everything that the file demands holds".to_owned());
    }
    lines.extend(failures);
    lines.iter().map(|line| plain(line)).collect()
}

/// A rate in a column: that of a second, or the mean of a day.
fn rate(rate: &Rate) -> String {
    match rate {
        Rate::Constant(rate) => rate.to_string(),
        rate => format!("mean {:.2}", rate.mean()),
    }
}

fn from_hour(hour: Option<usize>) -> String {
    hour.map_or(String::new(), |hour| format!(" from {hour}:00 on"))
}

/// The outcome as JSON, for `--json` and for the MCP tool.
pub fn as_value(outcome: &CheckedDesign, prices: &Prices) -> Value {
    let pattern = |of: &lazurite_design::Checked| {
        json!({
            "name": of.name, "plan": of.plan, "examined": of.examined, "requests": of.requests,
            "price_of_a_month": of.price, "failures": of.failures,
        })
    };
    let table = |of: &lazurite_design::CheckedTable| {
        json!({
            "name": of.name,
            "hottest_partition": of.hottest.as_ref().map(|(name, _)| name),
            "hottest_entities_a_second": of.hottest.as_ref().map(|(_, entities)| entities),
            "hottest_hour": of.hottest_hour,
            "price_of_space": of.price_of_space,
        })
    };
    json!({
        "patterns": outcome.patterns.iter().map(pattern).collect::<Vec<_>>(),
        "tables": outcome.tables.iter().map(table).collect::<Vec<_>>(),
        "currency": prices.currency,
        "over_targets": outcome.over_targets,
        "passes": outcome.failures().next().is_none(),
    })
}

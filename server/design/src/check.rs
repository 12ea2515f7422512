//! What a design would cost, and what it fails.

use crate::file::{DesignError, DesignFile, Does, PLANS, Pattern, mixed};
use crate::partitions::{Demand, Rules, Simulation, simulate};
use crate::usage::{Design, Measured, Table, Usage, rows_of_partitions};
use crate::workload::{KeyedRequest, Question, RecordedQuery, Workload};
use lazurite_cost::Prices;
use std::collections::BTreeMap;

/// Seconds of the load that is simulated.
pub const SECONDS: usize = 60;
/// Requests of a pattern that are simulated; more of them count as several.
const REQUESTS_MAX: f64 = 120_000.0;

/// The outcome of one pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// The dearest plan of its queries; `point` for requests by keys.
    pub plan: String,
    /// Rows that Azure examines for one of its requests, on average.
    pub examined: f64,
    /// Requests that it takes, on average.
    pub requests: f64,
    /// The price of a month.
    pub price: f64,
    /// What it fails, as sentences.
    pub failures: Vec<String>,
}

/// The outcome of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedDesign {
    /// Each pattern, in the order of the file.
    pub patterns: Vec<Checked>,
    /// Each table, under the load of all its patterns.
    pub tables: Vec<CheckedTable>,
}

/// A table under the load of all its patterns.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedTable {
    /// Its name.
    pub name: String,
    /// What Azure would refuse.
    pub simulation: Simulation,
    /// The partition of which most is asked in a second, and how much.
    pub hottest: Option<(String, f64)>,
    /// The price of its space in a month.
    pub price_of_space: f64,
    /// What it fails, as sentences.
    pub failures: Vec<String>,
}

impl CheckedDesign {
    /// Everything that fails.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        let of_patterns = self.patterns.iter().flat_map(|pattern| &pattern.failures);
        let of_tables = self.tables.iter().flat_map(|table| &table.failures);
        of_patterns.chain(of_tables).map(String::as_str)
    }
}

/// Checks a design. `tables` are its tables as they were filled; `measured` has what some queries
/// of each pattern cost, by the number of the pattern. Errors: those of [`DesignFile::check`].
pub fn check(
    design: &DesignFile,
    tables: &BTreeMap<String, Table>,
    measured: &BTreeMap<usize, BTreeMap<Question, Measured>>,
    prices: &Prices,
    rules: &Rules,
) -> Result<CheckedDesign, DesignError> {
    let mut tables = tables.clone();
    let nothing = BTreeMap::new();
    let found = |at: usize| measured.get(&at).unwrap_or(&nothing);
    let mut workloads = Vec::new();
    for (at, pattern) in design.patterns.iter().enumerate() {
        let (workload, each) = workload_of(design, at, found(at))?;
        if let Some(table) = tables.get_mut(&pattern.table) {
            table.add_partitions(&workload);
        }
        workloads.push((workload, each));
    }
    let mut demands: BTreeMap<&str, Vec<Demand>> = BTreeMap::new();
    let mut patterns = Vec::new();
    for (at, (pattern, (workload, each))) in design.patterns.iter().zip(workloads).enumerate() {
        let found = found(at);
        let table = &tables[&pattern.table];
        let usage = Usage::of(
            &workload,
            Design::AsItIs,
            &[table],
            &[found],
            &prices.page_rules(),
        );
        patterns.push(checked(pattern, &usage, each, found, prices));
        let of_table = demands.entry(&pattern.table).or_default();
        of_table.resize(SECONDS, Demand::default());
        // The load goes on: what lasts beyond the minute falls on its beginning.
        for (second, demand) in usage.demands.iter().enumerate() {
            let sum = &mut of_table[second % SECONDS];
            sum.of_all.resize(1, 0.0);
            sum.of_all[0] += demand.of_all.first().copied().unwrap_or_default() * each;
            for (partition, entities) in &demand.of_partition {
                *sum.of_partition.entry(*partition).or_default() += entities * each;
            }
        }
    }
    let of_table = |(name, table): (&String, &Table)| {
        let demands = demands.remove(name.as_str()).unwrap_or_default();
        checked_table(name, table, &demands, prices, rules)
    };
    Ok(CheckedDesign {
        patterns,
        tables: tables.iter().map(of_table).collect(),
    })
}

/// A minute of the pattern, and how many requests each of its requests stands for.
fn workload_of(
    design: &DesignFile,
    at: usize,
    measured: &BTreeMap<Question, Measured>,
) -> Result<(Workload, f64), DesignError> {
    let pattern = &design.patterns[at];
    let table = &design.tables[&pattern.table];
    let keys = table.keys(&pattern.table)?;
    let wanted = pattern.per_second * SECONDS as f64;
    let count = wanted.min(REQUESTS_MAX).ceil().max(1.0);
    let mut workload = Workload {
        seconds: SECONDS,
        ..Workload::default()
    };
    let questions: Vec<&Question> = measured.keys().collect();
    for request in 0..count as u64 {
        let second = (request as f64 / count * SECONDS as f64) as usize;
        let random = mixed(request, 1000 + at as u64);
        if let Some(question) = questions.get(random as usize % questions.len().max(1)) {
            let query = workload.queries.entry((*question).clone()).or_default();
            add(query, second, &measured[*question]);
            continue;
        }
        let is_new = matches!(pattern.does, Does::Insert | Does::Transaction);
        let first = match is_new {
            true => table.rows + request * u64::from(pattern.entities),
            false => random % table.rows,
        };
        let entities = if pattern.does == Does::Transaction {
            pattern.entities
        } else {
            1
        };
        let mut by_partition: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for number in first..first + u64::from(entities) {
            if let Some(entity) = table.entity(&keys, number) {
                by_partition
                    .entry(entity.partition_key)
                    .or_default()
                    .push(entity.row_key);
            }
        }
        let requests = by_partition
            .into_iter()
            .map(|(partition, rows)| KeyedRequest {
                second,
                operation: pattern.does.operation().to_owned(),
                partition,
                rows,
            });
        workload.keyed.extend(requests);
    }
    Ok((workload, wanted / count))
}

fn add(query: &mut RecordedQuery, second: usize, measured: &Measured) {
    query.seconds.push(second);
    query.requests += 1;
    query.returned += measured.returned;
}

fn checked(
    pattern: &Pattern,
    usage: &Usage,
    each: f64,
    measured: &BTreeMap<Question, Measured>,
    prices: &Prices,
) -> Checked {
    let times = pattern.per_second * SECONDS as f64;
    let rank = |plan: &str| PLANS.iter().position(|known| *known == plan);
    let dearest = measured.values().max_by_key(|found| rank(&found.plan));
    let plan = dearest
        .map_or("point", |found| found.plan.as_str())
        .to_owned();
    let examined = usage.examined as f64 * each / times;
    let requests = usage.total_requests() as f64 * each / times;
    let price = usage.bill(&[], SECONDS, prices).total() * each;
    let must = &pattern.must;
    let mut failures = Vec::new();
    let mut fail = |what: String| failures.push(format!("{}: {what}", pattern.name));
    if let Some(most) = &must.plan
        && rank(&plan) > rank(most)
    {
        fail(format!(
            "its plan is a {plan}, and must be a {most} at most"
        ));
    }
    if let Some(most) = must.examined
        && examined > most as f64
    {
        fail(format!(
            "it examines {examined:.0} rows, and must examine {most} at most"
        ));
    }
    if let Some(most) = must.requests
        && requests > most
    {
        fail(format!(
            "it takes {requests:.2} requests, and must take {most} at most"
        ));
    }
    if let Some(most) = must.price
        && price > most
    {
        let currency = &prices.currency;
        fail(format!(
            "it costs {price:.2} {currency} a month, and must cost {most} at most"
        ));
    }
    Checked {
        name: pattern.name.clone(),
        plan,
        examined,
        requests,
        price,
        failures,
    }
}

fn checked_table(
    name: &str,
    table: &Table,
    demands: &[Demand],
    prices: &Prices,
    rules: &Rules,
) -> CheckedTable {
    let simulation = simulate(&rows_of_partitions(&[table]), demands, rules);
    let hottest = simulation.hottest.and_then(|(number, entities)| {
        let name = crate::usage::partition_name(&[table], number)?;
        Some((name.to_owned(), entities))
    });
    let mut failures = Vec::new();
    let over_target: f64 = simulation
        .seconds
        .iter()
        .map(|second| second.over_partition + second.over_account)
        .sum();
    if over_target >= 1.0 {
        let (partition, entities) = hottest.clone().unwrap_or_default();
        failures.push(format!(
            "table {name}: {over_target:.0} entities of a minute are above the targets of Azure, and would be refused (503); partition '{partition}' is asked for {entities:.0} a second"
        ));
    }
    CheckedTable {
        name: name.to_owned(),
        simulation,
        hottest,
        price_of_space: Usage::default().bill(&[table], SECONDS, prices).total(),
        failures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(patterns: serde_json::Value) -> DesignFile {
        let design = serde_json::json!({
            "tables": { "Orders": {
                "rows": 1000, "partition-key": "Customer", "row-key": "pad(Number, 8)",
                "properties": { "Customer": { "text": "c{}", "of": 10 }, "Number": { "below": 100_000_000 } },
            } },
            "patterns": patterns,
        });
        serde_json::from_value(design).unwrap()
    }

    fn outcome(design: &DesignFile, measured: Measured) -> CheckedDesign {
        design.check().unwrap();
        let table = &design.tables["Orders"];
        let keys = table.keys("Orders").unwrap();
        let mut filled = Table::default();
        for number in 0..table.rows {
            let entity = table.entity(&keys, number).unwrap();
            *filled.partitions.entry(entity.partition_key).or_default() += 1;
        }
        let measured = BTreeMap::from([(0, BTreeMap::from([(("x".to_owned(), None), measured)]))]);
        let tables = BTreeMap::from([("Orders".to_owned(), filled)]);
        check(
            design,
            &tables,
            &measured,
            &Prices::default(),
            &Rules::default(),
        )
        .unwrap()
    }

    fn scan() -> Measured {
        Measured {
            plan: "table scan".to_owned(),
            examined: 1000,
            returned: 5,
            is_whole: true,
            partition: None,
        }
    }

    #[test]
    fn a_pattern_fails_what_it_must_hold() {
        let design = design(serde_json::json!([{
            "name": "by mail", "table": "Orders", "does": "query", "filter": "Number eq {Number}", "per-second": 2,
            "must": { "plan": "row range", "examined": 100, "requests": 1, "price": 0.01 },
        }, {
            "name": "one", "table": "Orders", "does": "read", "per-second": 0.5, "must": { "plan": "point", "requests": 1 },
        }]));
        let outcome = outcome(&design, scan());
        assert_eq!(outcome.patterns[0].examined, 1000.0);
        assert_eq!(outcome.patterns[0].requests, 1.0);
        let failures: Vec<_> = outcome.failures().collect();
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert_eq!(
            failures[0],
            "by mail: its plan is a table scan, and must be a row range at most"
        );
        // 2 a second are 5,184,000 in 30 days.
        assert!(
            (outcome.patterns[0].price
                - 518.4 * Prices::default().per_10_000_transactions.table_scan)
                .abs()
                < 1e-6
        );
        assert_eq!(
            (
                outcome.patterns[1].plan.as_str(),
                outcome.patterns[1].requests
            ),
            ("point", 1.0)
        );
    }

    #[test]
    fn a_load_above_the_targets_fails_the_table() {
        let design = design(serde_json::json!([{
            "name": "by mail", "table": "Orders", "does": "query", "filter": "", "per-second": 100,
        }]));
        let outcome = outcome(&design, scan());
        // 100 scans a second read each of ten partitions 100 times.
        let (_, entities) = outcome.tables[0].hottest.clone().unwrap();
        assert!(entities > 8000.0, "{entities}");
        assert_eq!(outcome.failures().count(), 1);
    }

    #[test]
    fn transactions_over_partitions_take_more_requests() {
        let design = design(serde_json::json!([{
            "name": "basket", "table": "Orders", "does": "transaction", "entities": 20, "per-second": 1, "must": { "requests": 1 },
        }]));
        let tables = BTreeMap::from([("Orders".to_owned(), Table::default())]);
        let outcome = check(
            &design,
            &tables,
            &BTreeMap::new(),
            &Prices::default(),
            &Rules::default(),
        )
        .unwrap();
        assert!(outcome.patterns[0].requests > 5.0);
        assert_eq!(outcome.failures().count(), 1);
    }

    #[test]
    fn designs_that_make_no_sense_are_refused_by_name() {
        let refused =
            |patterns: serde_json::Value| design(patterns).check().unwrap_err().to_string();
        for (pattern, reason) in [
            (
                serde_json::json!({ "table": "Other" }),
                "there is no table Other",
            ),
            (
                serde_json::json!({ "filter": "A eq {Missing}" }),
                "the filter names Missing",
            ),
            (
                serde_json::json!({ "filter": "A eq {Number" }),
                "a } is missing",
            ),
            (serde_json::json!({ "per-second": 0 }), "per-second"),
            (
                serde_json::json!({ "does": "read", "filter": "A eq 1" }),
                "only a query",
            ),
            (serde_json::json!({ "entities": 101 }), "entities"),
            (
                serde_json::json!({ "must": { "plan": "scan" } }),
                "plan is one of",
            ),
        ] {
            let mut whole = serde_json::json!({ "name": "n", "table": "Orders", "does": "query", "per-second": 1 });
            for (name, value) in pattern.as_object().unwrap() {
                whole[name] = value.clone();
            }
            let refused = refused(serde_json::json!([whole]));
            assert!(
                refused.contains(reason) && refused.contains("pattern \"n\""),
                "{refused}"
            );
        }
        assert_eq!(refused(serde_json::json!([])), "patterns: there is none");
    }

    #[test]
    fn values_of_filters_are_literals_and_texts() {
        let design = design(serde_json::json!([]));
        let table = &design.tables["Orders"];
        let entity = table.entity(&table.keys("Orders").unwrap(), 7).unwrap();
        let filled = crate::file::filled(
            "PartitionKey eq {PartitionKey} and Number ge {Number} and A eq 'x{Customer}'",
            &entity,
        );
        let customer = &entity.partition_key;
        let filled = filled.unwrap();
        assert!(
            filled.starts_with(&format!("PartitionKey eq '{customer}' and Number ge ")),
            "{filled}"
        );
        assert!(filled.ends_with(&format!("A eq 'x{customer}'")), "{filled}");
    }
}

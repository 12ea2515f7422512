//! Checks a design: its cost, its load, and the requirements that it fails.

use crate::file::{
    DesignError, DesignFile, Does, PLANS, Pattern, SECONDS, filled, hours_of_change, mixed,
};
use crate::key::KeyCondition;
use crate::partitions::{Demand, Rules, Second, Simulation, simulate};
use crate::usage::{Design, Measured, Table, Usage, partition_name, rows_of_partitions};
use crate::workload::{KeyedRequest, Question, Workload};
use lazurite_cost::Prices;
use lazurite_table::Entity;
use std::collections::BTreeMap;

/// The outcome of one pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// The dearest plan of its queries; `point` for requests by keys.
    pub plan: String,
    /// Average number of rows that Azure examines for one use of the pattern.
    pub examined: f64,
    /// Average number of requests that one use of the pattern takes.
    pub requests: f64,
    /// The price of a month.
    pub price: f64,
    /// The requirements that the pattern fails, as sentences.
    pub failures: Vec<String>,
}

/// The outcome of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedDesign {
    /// Each pattern, in the order of the file.
    pub patterns: Vec<Checked>,
    /// Each table, under the load of all its patterns.
    pub tables: Vec<CheckedTable>,
    /// The hours of a day at which rates change; one if they are constant.
    pub hours: Vec<usize>,
    /// The simulation of the load of all patterns: the first minute of each of these hours, in
    /// their order.
    pub simulation: Simulation,
    /// The targets that the load exceeds, as sentences.
    pub over_targets: Vec<String>,
}

/// A table under the load of all its patterns.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedTable {
    /// Its name.
    pub name: String,
    /// The partition with the highest load in a second, and this load in entities.
    pub hottest: Option<(String, f64)>,
    /// The hour in which this load begins; `None` if all rates are constant.
    pub hottest_hour: Option<usize>,
    /// The price of its space in a month.
    pub price_of_space: f64,
}

impl CheckedDesign {
    /// All failures, as sentences.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        let of_patterns = self.patterns.iter().flat_map(|pattern| &pattern.failures);
        of_patterns.chain(&self.over_targets).map(String::as_str)
    }

    /// The minute in which Azure would refuse most.
    pub fn worst_minute(&self) -> Minute {
        let minutes = minutes(&self.hours, &self.simulation);
        let worst = minutes.max_by(|a, b| a.refused().total_cmp(&b.refused()));
        worst.unwrap_or_default()
    }
}

/// The first minute of an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Minute {
    /// The hour; `None` if all rates are constant.
    pub hour: Option<usize>,
    /// The sums of its seconds.
    pub sum: Second,
}

impl Minute {
    /// Entities that were refused.
    pub fn refused(&self) -> f64 {
        self.sum.refused()
    }
}

fn minutes(hours: &[usize], simulation: &Simulation) -> impl Iterator<Item = Minute> {
    let of_hours = hours.iter().zip(simulation.seconds.chunks(SECONDS));
    of_hours.map(|(hour, seconds)| {
        let sum = |part: fn(&Second) -> f64| seconds.iter().map(part).sum();
        Minute {
            hour: (hours.len() > 1).then_some(*hour),
            sum: Second {
                asked: sum(|second| second.asked),
                over_partition: sum(|second| second.over_partition),
                over_server: sum(|second| second.over_server),
                over_account: sum(|second| second.over_account),
                ranges: seconds.last().map_or(0, |second| second.ranges),
            },
        }
    })
}

/// Checks a design. `filled` are its tables as they were built; `measured` has the costs of some
/// queries of each pattern, by the number of the pattern. Errors: keys that cannot be read.
pub fn check(
    design: &DesignFile,
    filled: &BTreeMap<String, Table>,
    measured: &BTreeMap<usize, BTreeMap<Question, Measured>>,
    prices: &Prices,
    rules: &Rules,
) -> Result<CheckedDesign, DesignError> {
    let mut filled = filled.clone();
    let mut loads = Vec::new();
    for at in 0..design.patterns.len() {
        let load = PatternLoad::of(design, at, measured.get(&at))?;
        if let Some(table) = filled.get_mut(&design.patterns[at].table) {
            table.add_partitions(&load.workload, &load.measured);
        }
        loads.push(load);
    }
    let names: Vec<&String> = filled.keys().collect();
    let tables: Vec<&Table> = filled.values().collect();
    // Rates are constant within an hour, so each second has its share of the minute, without random
    // peaks.
    let hours = hours_of_change(&design.patterns);
    let none = Demand {
        of_all: vec![0.0; tables.len()],
        ..Demand::default()
    };
    let mut demands = vec![none; hours.len()];
    let mut patterns = Vec::new();
    for (pattern, load) in design.patterns.iter().zip(&loads) {
        let Some(table) = names.iter().position(|name| **name == pattern.table) else {
            continue;
        };
        let before: usize = tables[..table].iter().map(|of| of.partitions.len()).sum();
        let usage = Usage::of(
            &load.workload,
            Design::AsItIs,
            &[tables[table]],
            &[&load.measured],
            &prices.page_rules(),
        );
        patterns.push(checked(pattern, &usage, load, prices));
        let rate = &pattern.per_second;
        for (hour, of_hour) in hours.iter().zip(&mut demands) {
            let share = load.each / SECONDS as f64 * rate.in_hour(*hour) / rate.mean();
            for demand in &usage.demands {
                let of_all = demand.of_all.first().copied().unwrap_or_default();
                of_hour.of_all[table] += of_all * share;
                for (partition, entities) in &demand.of_partition {
                    let number = before + partition;
                    *of_hour.of_partition.entry(number).or_default() += entities * share;
                }
            }
        }
    }
    let rules = Rules {
        // The minute stands for an hour or more, so ranges that are quiet all the time are joined.
        merge_after: match hours.len() {
            1 => rules.merge_after,
            _ => rules.merge_after.min(SECONDS as u32),
        },
        ..*rules
    };
    let seconds = demands
        .iter()
        .flat_map(|of_hour| std::iter::repeat_n(of_hour, SECONDS));
    let simulation = simulate(&rows_of_partitions(&tables), seconds, &rules);
    let of_table = |(at, name): (usize, &&String)| {
        let of_hours = hours.iter().zip(&demands);
        let hottest =
            of_hours.filter_map(|(hour, demand)| Some((*hour, hottest_of(&tables, at, demand)?)));
        let hottest = hottest.max_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
        let (hour, hottest) = hottest.unzip();
        CheckedTable {
            name: (*name).clone(),
            hottest,
            hottest_hour: hour.filter(|_| hours.len() > 1),
            price_of_space: Usage::default()
                .bill(&[tables[at]], SECONDS, prices)
                .total(),
        }
    };
    Ok(CheckedDesign {
        patterns,
        tables: names.iter().enumerate().map(of_table).collect(),
        over_targets: over_targets(&tables, &hours, &simulation, &rules),
        hours,
        simulation,
    })
}

/// The partition of a table with the highest demand, and the demand in entities.
fn hottest_of(tables: &[&Table], at: usize, demand: &Demand) -> Option<(String, f64)> {
    let before: usize = tables[..at].iter().map(|of| of.partitions.len()).sum();
    let scans = demand.of_all.get(at).copied().unwrap_or_default();
    let partitions = tables[at].partitions.iter().enumerate();
    let asked = partitions.map(|(number, (name, rows))| {
        let by_key = demand.of_partition.get(&(before + number)).copied();
        (name, by_key.unwrap_or_default() + scans * *rows as f64)
    });
    let hottest = asked.max_by(|(_, a), (_, b)| a.total_cmp(b));
    let hottest = hottest.filter(|(_, asked)| *asked > 0.0);
    hottest.map(|(name, asked)| (name.clone(), asked))
}

/// The published targets that the load exceeds, as sentences about the minute that exceeds them
/// most.
fn over_targets(
    tables: &[&Table],
    hours: &[usize],
    simulation: &Simulation,
    rules: &Rules,
) -> Vec<String> {
    let worst = |part: fn(&Second) -> f64| {
        let minutes = minutes(hours, simulation).map(|minute| (minute.hour, part(&minute.sum)));
        let worst = minutes.max_by(|(_, a), (_, b)| a.total_cmp(b));
        worst.filter(|(_, entities)| *entities >= 1.0)
    };
    let at = |hour: Option<usize>| hour.map_or(String::new(), |hour| format!(" at {hour}:00"));
    let mut failures = Vec::new();
    if let Some((hour, over)) = worst(|second| second.over_partition) {
        let (number, entities) = simulation.hottest.unwrap_or_default();
        let name = partition_name(tables, number).unwrap_or_default();
        // The partition may be at its busiest in another hour than the one that the sentence names.
        let busiest = if hour.is_some() {
            "at its busiest, "
        } else {
            ""
        };
        failures.push(format!(
            "{over:.0} entities of a minute{} are above the target of a partition, {} a second, and would be refused (503); {busiest}partition '{name}' is asked for {entities:.0} a second",
            at(hour), rules.partition_target
        ));
    }
    if let Some((hour, over)) = worst(|second| second.over_account) {
        failures.push(format!(
            "{over:.0} entities of a minute{} are above the target of an account, {} a second, and would be refused (503)",
            at(hour), rules.account_target
        ));
    }
    failures
}

/// One minute of the load of a pattern.
struct PatternLoad {
    workload: Workload,
    /// The number of requests that each simulated request counts for.
    each: f64,
    /// The cost of each query.
    measured: BTreeMap<Question, Measured>,
}

impl PatternLoad {
    /// `asked` has the measured costs of some queries. Other queries get the same costs, in their
    /// own partitions.
    fn of(
        design: &DesignFile,
        at: usize,
        asked: Option<&BTreeMap<Question, Measured>>,
    ) -> Result<PatternLoad, DesignError> {
        let pattern = &design.patterns[at];
        let table = &design.tables[&pattern.table];
        let keys = table.keys(&pattern.table)?;
        let samples: Vec<&Measured> = asked.into_iter().flat_map(BTreeMap::values).collect();
        let (count, each) = pattern.simulated();
        let mut load = PatternLoad {
            workload: Workload {
                seconds: SECONDS,
                ..Workload::default()
            },
            each,
            measured: BTreeMap::new(),
        };
        for request in 0..count {
            let second = (request as f64 / count as f64 * SECONDS as f64) as usize;
            let random = mixed(request, 1000 + at as u64);
            let first = if pattern.inserts() {
                table.rows + request * u64::from(pattern.entities)
            } else {
                random % table.rows
            };
            let entities = match pattern.does {
                Does::Transaction => u64::from(pattern.entities),
                _ => 1,
            };
            let entities = (first..first + entities).filter_map(|at| table.entity(&keys, at));
            match samples.get(request as usize % samples.len().max(1)) {
                Some(sample) => {
                    entities.for_each(|entity| load.query(pattern, &entity, second, asked, sample))
                }
                None => load.keyed(pattern, entities, second),
            }
        }
        Ok(load)
    }

    fn query(
        &mut self,
        pattern: &Pattern,
        entity: &Entity,
        second: usize,
        asked: Option<&BTreeMap<Question, Measured>>,
        sample: &Measured,
    ) {
        let Ok(filter) = filled(&pattern.filter, entity) else {
            return;
        };
        let question = (filter, pattern.top);
        let query = self.workload.queries.entry(question.clone()).or_default();
        let measured = self
            .measured
            .entry(question)
            .or_insert_with_key(|question| {
                let found = asked.and_then(|asked| asked.get(question));
                found.cloned().unwrap_or_else(|| Measured {
                    partitions: KeyCondition::of_partition(&question.0),
                    ..sample.clone()
                })
            });
        query.seconds.push(second);
        query.requests += 1;
        query.returned += measured.returned;
    }

    /// A request for entities, or one for each of their partitions.
    fn keyed(&mut self, pattern: &Pattern, entities: impl Iterator<Item = Entity>, second: usize) {
        let mut by_partition: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entity in entities {
            let rows = by_partition.entry(entity.partition_key).or_default();
            rows.push(entity.row_key);
        }
        let request = |(partition, rows)| KeyedRequest {
            second,
            operation: pattern.does.operation().to_owned(),
            partition,
            rows,
            is_refused: false,
        };
        self.workload
            .keyed
            .extend(by_partition.into_iter().map(request));
    }
}

fn checked(pattern: &Pattern, usage: &Usage, load: &PatternLoad, prices: &Prices) -> Checked {
    let (each, measured) = (load.each, &load.measured);
    let times = pattern.per_second.mean() * SECONDS as f64;
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

    /// The first pattern is a query with this cost.
    fn outcome(design: &DesignFile, measured: Measured) -> CheckedDesign {
        let measured = BTreeMap::from([(0, BTreeMap::from([(("x".to_owned(), None), measured)]))]);
        outcome_of(design, &measured)
    }

    fn outcome_of(
        design: &DesignFile,
        measured: &BTreeMap<usize, BTreeMap<Question, Measured>>,
    ) -> CheckedDesign {
        design.check().unwrap();
        let table = &design.tables["Orders"];
        let keys = table.keys("Orders").unwrap();
        let mut filled = Table::default();
        for number in 0..table.rows {
            let entity = table.entity(&keys, number).unwrap();
            *filled.partitions.entry(entity.partition_key).or_default() += 1;
        }
        let tables = BTreeMap::from([("Orders".to_owned(), filled)]);
        check(
            design,
            &tables,
            measured,
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
            partitions: KeyCondition::Unknown,
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

    #[test]
    fn rates_by_hour_are_simulated_hour_by_hour_and_billed_as_their_mean() {
        let read = |rate: serde_json::Value| {
            let pattern = serde_json::json!([{
                "name": "one", "table": "Orders", "does": "read", "per-second": rate,
            }]);
            outcome_of(&design(pattern), &BTreeMap::new())
        };
        let day = read(serde_json::json!([[0, 6], [9, 30_000], [18, 56]]));
        let mean = (9.0 * 6.0 + 9.0 * 30_000.0 + 6.0 * 56.0) / 24.0;
        let constant = read(serde_json::json!(mean));
        let [of_day, of_mean] = [&day, &constant].map(|outcome| &outcome.patterns[0]);
        assert!((of_day.price - of_mean.price).abs() < 1e-6 * of_mean.price);
        assert_eq!(
            (&day.hours[..], &constant.hours[..]),
            (&[0, 9, 18][..], &[0][..])
        );
        let table = &day.tables[0];
        assert_eq!(
            (table.hottest_hour, constant.tables[0].hottest_hour),
            (Some(9), None)
        );
        assert!(table.hottest.as_ref().unwrap().1 > 2500.0);
        let worst = day.worst_minute();
        assert!(worst.hour == Some(9) && worst.refused() > 10_000.0 * SECONDS as f64);
        assert!((worst.sum.asked / SECONDS as f64 - 30_000.0).abs() < 1.0);
        let failures: Vec<_> = day.failures().collect();
        assert!(failures[0].contains("of a minute at 9:00 are above the target of a partition"));
        // In the evening all is served again, once the last ranges have moved.
        let evening = &day.simulation.seconds[2 * SECONDS + 10..];
        assert!(evening.iter().all(|second| second.refused() == 0.0));
    }

    #[test]
    fn rates_that_make_no_sense_are_refused() {
        let checked = |rate: serde_json::Value| {
            let pattern = serde_json::json!([{
                "name": "n", "table": "Orders", "does": "read", "per-second": rate,
            }]);
            design(pattern).check().map_err(|error| error.to_string())
        };
        let mut hours = vec![0.0; 24];
        hours[3] = 7.5;
        assert_eq!(checked(serde_json::json!(hours)), Ok(()));
        // Before 9:00 it is the rate of the evening.
        assert_eq!(checked(serde_json::json!([[9, 0], [18, 1]])), Ok(()));
        for (rate, reason) in [
            (serde_json::json!(hours[1..]), "each of 24 hours"),
            (serde_json::json!(vec![0; 24]), "above 0"),
            (serde_json::json!([[0, 1], [0, 2]]), "0 to 23, and rise"),
            (serde_json::json!([[24, 1]]), "0 to 23, and rise"),
            (serde_json::json!([[0, 1e9]]), "at most 100000"),
            (serde_json::json!([]), "24 hours"),
        ] {
            let refused = checked(rate).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        let text = serde_json::from_str::<crate::file::Rate>("\"often\"").unwrap_err();
        assert!(text.to_string().contains("pairs of an hour"), "{text}");
    }

    #[test]
    fn inserts_beyond_the_last_instant_are_refused() {
        let checked = |rate: f64| {
            let mut design = design(serde_json::json!([{
                "name": "new", "table": "Orders", "does": "insert", "per-second": rate,
            }]));
            let made = serde_json::json!({ "instant": "9999-12-31T23:30:00Z", "every": 1 });
            let orders = design.tables.get_mut("Orders").unwrap();
            let made = serde_json::from_value(made).unwrap();
            orders.properties.insert("Placed".to_owned(), made);
            design.check().map_err(|error| error.to_string())
        };
        // 1,000 entities are there, and there is room for 800 more.
        assert_eq!(checked(13.0), Ok(()));
        let refused = checked(14.0).unwrap_err();
        assert!(
            refused.contains("pattern \"new\"") && refused.contains("year 9999"),
            "{refused}"
        );
    }

    #[test]
    fn frequent_values_are_asked_for_as_often_as_they_are_stored() {
        let mut design = design(serde_json::json!([{
            "name": "of one", "table": "Orders", "does": "query", "filter": "PartitionKey eq {Customer}", "top": 1, "per-second": 4500,
        }]));
        let table = design.tables.get_mut("Orders").unwrap();
        let made = serde_json::json!({ "text": "c{}", "of": 16, "skewed": true });
        table
            .properties
            .insert("Customer".to_owned(), serde_json::from_value(made).unwrap());
        let measured = Measured {
            plan: "partition scan".to_owned(),
            examined: 2,
            partitions: KeyCondition::Equal("c0".to_owned()),
            ..scan()
        };
        let table = &design.tables["Orders"];
        let keys = table.keys("Orders").unwrap();
        let is_first = |number: &u64| {
            let entity = table.entity(&keys, *number).unwrap();
            entity.partition_key == "c0"
        };
        let share = (0..table.rows).filter(is_first).count() as f64 / table.rows as f64;
        assert!(share > 0.45, "{share}");
        let outcome = outcome(&design, measured);
        let (name, entities) = outcome.tables[0].hottest.clone().unwrap();
        // 4,500 a second, two rows each.
        let expected = share * 9000.0;
        let is_near = (entities - expected).abs() < expected * 0.05;
        assert!(name == "c0" && is_near, "{name} {entities} {expected}");
        assert_eq!(outcome.failures().count(), 1);
    }

    #[test]
    fn account_has_a_target_for_all_tables_together() {
        let mut design = design(serde_json::json!([
            { "name": "a", "table": "Orders", "does": "read", "per-second": 15_000 },
            { "name": "b", "table": "Second", "does": "read", "per-second": 15_000 },
        ]));
        let second = design.tables["Orders"].clone();
        design.tables.insert("Second".to_owned(), second);
        let keys = design.tables["Orders"].keys("Orders").unwrap();
        let mut filled = Table::default();
        for number in 0..1000 {
            let entity = design.tables["Orders"].entity(&keys, number).unwrap();
            *filled.partitions.entry(entity.partition_key).or_default() += 1;
        }
        let tables = ["Orders", "Second"].map(|name| (name.to_owned(), filled.clone()));
        let outcome = check(
            &design,
            &tables.into(),
            &BTreeMap::new(),
            &Prices::default(),
            &Rules::default(),
        );
        let outcome = outcome.unwrap();
        let failures: Vec<_> = outcome.failures().collect();
        assert!(
            failures
                .iter()
                .any(|failure| failure.contains("target of an account")),
            "{failures:?}"
        );
    }
}

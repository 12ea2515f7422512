//! The comparison as text and as JSON.

use lazurite_base::terminal::plain;
use lazurite_base::units::{count as grouped, size};
use lazurite_cost::{BatchCounting, Bill, Prices};
use lazurite_design::{
    Keys, Measured, Question, Rules, Simulation, Table, Usage, Workload, partition_name,
    rows_of_partitions, shape, simulate,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of query shapes that are printed.
const QUERIES_SHOWN: usize = 20;
/// Maximum number of printed sentences about queries with other answers.
const DIFFERING_SHOWN: usize = 5;
/// Number of characters in the picture of a simulation.
const PICTURE_WIDTH: usize = 60;

/// One of the two designs.
pub struct Compared {
    pub usage: Usage,
    bill: Bill,
    pub simulation: Simulation,
    /// The partition with the highest load in one second, and that load.
    hottest: Option<(String, f64)>,
    bytes: u64,
}

impl Compared {
    pub fn of(
        usage: Usage,
        tables: &[&Table],
        seconds: usize,
        prices: &Prices,
        rules: &Rules,
    ) -> Compared {
        let simulation = simulate(&rows_of_partitions(tables), &usage.demands, rules);
        let hottest = simulation.hottest.map(|(number, entities)| {
            let name = partition_name(tables, number).unwrap_or_default();
            (name.to_owned(), entities)
        });
        Compared {
            bill: usage.bill(tables, seconds, prices),
            simulation,
            hottest,
            bytes: tables.iter().map(|table| table.bytes).sum(),
            usage,
        }
    }

    fn json(&self) -> Value {
        let (refused, asked) = self.simulation.refused_of();
        json!({
            "requests": self.usage.total_requests(),
            "transactions": self.usage.transactions.0,
            "examined": self.usage.examined,
            "divided_transactions": self.usage.divided,
            "searches": self.usage.searches,
            "hottest_partition": self.hottest.as_ref().map(|(name, _)| name),
            "hottest_entities_a_second": self.hottest.as_ref().map(|(_, entities)| entities),
            "throttled_seconds": self.simulation.throttled_seconds(),
            "refused_entities": refused,
            "asked_entities": asked,
            "bytes": self.bytes,
            "price_of_a_month": self.bill.total(),
            "currency": self.bill.currency,
        })
    }
}

/// Queries of one shape.
pub struct QueriesOfShape {
    pub shape: String,
    pub times: u64,
    /// For each design: the plan, and the rows that one query examines on average.
    pub plans: [(String, f64); 2],
}

/// Groups queries by their shape. The shapes with most rows to examine come first.
pub fn queries(
    workload: &Workload,
    as_it_is: &BTreeMap<Question, Measured>,
    rekeyed: &BTreeMap<Question, Measured>,
) -> Vec<QueriesOfShape> {
    let mut shapes: BTreeMap<String, (u64, [(String, u64); 2])> = BTreeMap::new();
    for (question, query) in &workload.queries {
        let times = query.seconds.len() as u64;
        let of_shape = shapes.entry(shape(&question.0)).or_default();
        of_shape.0 += times;
        for (at, measured) in [as_it_is, rekeyed].into_iter().enumerate() {
            let Some(measured) = measured.get(question) else {
                continue;
            };
            of_shape.1[at].0.clone_from(&measured.plan);
            of_shape.1[at].1 += measured.examined * times;
        }
    }
    let of_shape = |(shape, (times, plans)): (String, (u64, [(String, u64); 2]))| QueriesOfShape {
        shape,
        times,
        plans: plans.map(|(plan, examined)| (plan, examined as f64 / times.max(1) as f64)),
    };
    let mut shown: Vec<_> = shapes.into_iter().map(of_shape).collect();
    shown.sort_by(|a, b| {
        let rows = |of: &QueriesOfShape| of.times as f64 * of.plans[0].1;
        rows(b).total_cmp(&rows(a))
    });
    shown
}

/// The whole comparison.
pub struct Report<'a> {
    pub table: &'a str,
    pub keys: &'a Keys,
    pub is_copy: bool,
    pub workload: &'a Workload,
    pub before: Compared,
    pub after: Compared,
    pub queries: Vec<QueriesOfShape>,
    /// Queries, and the entities that they found before and after.
    pub differing: Vec<(String, u64, u64)>,
    pub unkeyed: u64,
    pub overwritten: u64,
    pub rules: Rules,
}

impl Report<'_> {
    /// The report as lines for a terminal.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.title(), self.basis()];
        lines.extend(self.warnings());
        lines.push(String::new());
        let [before, after] = self.heads();
        lines.push(format!("{:<39}{before:>24}{after:>24}", ""));
        let figures = self.figures().into_iter();
        lines.extend(
            figures.map(|(name, [before, after])| format!("{name:<39}{before:>24}{after:>24}")),
        );
        lines.push(String::new());
        lines.extend(self.queries.iter().take(QUERIES_SHOWN).map(query_line));
        if self.queries.len() > QUERIES_SHOWN {
            let more = self.queries.len() - QUERIES_SHOWN;
            lines.push(format!(
                "and {more} more shapes of filters (--json has all)"
            ));
        }
        lines.extend(self.pictures());
        let notes = self.notes();
        if !notes.is_empty() {
            lines.push(String::new());
        }
        lines.extend(notes);
        lines.iter().map(|line| plain(line)).collect()
    }

    /// `Orders: PartitionKey = Customer, RowKey = RowKey`
    pub fn title(&self) -> String {
        let kind = if self.is_copy {
            "and a copy under "
        } else {
            ""
        };
        let keys = self.keys;
        format!(
            "{}: {kind}PartitionKey = {}, RowKey = {}",
            self.table, keys.partition, keys.row
        )
    }

    /// A sentence on the record and the prices that the figures follow from.
    pub fn basis(&self) -> String {
        format!(
            "A record of {} seconds with {} requests. Prices are examples unless a file names yours.",
            self.workload.seconds,
            grouped(self.workload.requests())
        )
    }

    /// Warnings about conditions that make the figures useless, or nearly so.
    pub fn warnings(&self) -> Vec<String> {
        let counted = [
            (
                self.overwritten,
                "entities would be overwritten by others with the same keys: make the RowKey unique",
            ),
            (
                self.unkeyed,
                "entities have no such keys: they lack a property, or the key would be refused",
            ),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        counted
            .map(|(count, what)| format!("WARNING: {} {what}.", grouped(count)))
            .collect()
    }

    /// The names of the two designs.
    pub fn heads(&self) -> [&'static str; 2] {
        let after = if self.is_copy {
            "with the copy"
        } else {
            "with these keys"
        };
        ["as it is", after]
    }

    /// The assumptions of the simulation.
    pub fn assumptions(&self) -> String {
        let rules = &self.rules;
        format!(
            "Published: {} entities a second for a partition, {} for an account. Assumed: {} for a server, divided after {} s.",
            rules.partition_target, rules.account_target, rules.server_target, rules.split_after
        )
    }

    /// Each figure with its name, for both designs.
    pub fn figures(&self) -> Vec<(&'static str, [String; 2])> {
        let sides = [&self.before, &self.after];
        let row =
            |name: &'static str, value: &dyn Fn(&Compared) -> String| (name, sides.map(value));
        vec![
            row("requests", &|of| grouped(of.usage.total_requests())),
            row("rows examined by Azure", &|of| grouped(of.usage.examined)),
            row("hottest partition, entities a second", &|of| {
                let hottest = of.hottest.as_ref();
                hottest.map_or("-".to_owned(), |(name, entities)| {
                    let name: String = name.chars().take(12).collect();
                    format!("{} in '{name}'", grouped(entities.round() as u64))
                })
            }),
            row("throttled", &|of| match of.simulation.throttles_at() {
                None => "never".to_owned(),
                Some(_) => {
                    let seconds = of.simulation.throttled_seconds();
                    format!("{seconds} of {} seconds", of.simulation.seconds.len())
                }
            }),
            row(
                "throttled first",
                &|of| match of.simulation.throttles_at() {
                    None => "-".to_owned(),
                    Some(second) => format!("after {second} s"),
                },
            ),
            row("entities refused (503)", &|of| {
                grouped(of.simulation.refused_of().0.round() as u64)
            }),
            row("stored", &|of| size(of.bytes)),
            row("price of a month of such load", &|of| {
                format!("{:.2} {}", of.bill.total(), of.bill.currency)
            }),
            row("the same, a batch is one request", &|of| {
                let total = of.bill.total_under(BatchCounting::Request);
                format!("{total:.2} {}", of.bill.currency)
            }),
        ]
    }

    /// The refused share over time, for each design that is throttled.
    fn pictures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let [before, after] = self.heads();
        for (name, of) in [(before, &self.before), (after, &self.after)] {
            if of.simulation.throttles_at().is_some() {
                lines.push(String::new());
                lines.push(format!(
                    "share of entities that are refused over time, {name}:"
                ));
                lines.push(format!("  {}", picture(&of.simulation)));
            }
        }
        if !lines.is_empty() {
            lines.push(format!("  {}", self.assumptions()));
        }
        lines
    }

    /// Notes for the reader, besides the warnings.
    pub fn notes(&self) -> Vec<String> {
        let usage = &self.after.usage;
        let counted = [
            (
                usage.searches,
                "requests by keys that have to search, or read the entity, first: the former keys do not say the new ones (see --known)",
            ),
            (
                usage.divided,
                "transactions that would span partitions, and could not be atomic",
            ),
            (
                usage.merges,
                "merges that would have to move their entity if they change a property of its keys",
            ),
            (
                usage.gone,
                "requests that name entities which are no longer there, and count as they were",
            ),
            (
                self.workload.nameless,
                "requests whose keys the log does not say, and which are in no figure",
            ),
            (
                self.workload.tableless,
                "transactions of any table: the log says neither their table nor their keys, and they are in no figure",
            ),
            (
                self.workload.refused_writes(),
                "writes and transactions that were refused (404, 409, 412): they count, because Azure bills them",
            ),
            (
                self.workload.refused,
                "requests that were refused for another reason, and are in no figure",
            ),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let mut lines: Vec<_> = counted
            .map(|(count, what)| format!("{:>7} {what}", grouped(count)))
            .collect();
        for (filter, before, after) in self.differing.iter().take(DIFFERING_SHOWN) {
            lines.push(format!(
                "{filter} finds {after} entities instead of {before}"
            ));
        }
        lines
    }

    /// The report for programs.
    pub fn json(&self) -> Value {
        let query = |of: &QueriesOfShape| {
            let [before, after] = &of.plans;
            json!({
                "filter": of.shape, "times": of.times, "plan": before.0, "examined": before.1,
                "new_plan": after.0, "new_examined": after.1,
            })
        };
        json!({
            "table": self.table,
            "partition_key": self.keys.partition.to_string(),
            "row_key": self.keys.row.to_string(),
            "is_copy": self.is_copy,
            "seconds": self.workload.seconds,
            "as_it_is": self.before.json(),
            "what_if": self.after.json(),
            "queries": self.queries.iter().map(query).collect::<Vec<_>>(),
            "answers_differ": self.differing.len(),
            "entities_without_key": self.unkeyed,
            "entities_overwritten": self.overwritten,
        })
    }
}

/// `   12 x City eq ?   table scan, 5,000 rows -> partition scan, 3 rows`
fn query_line(of: &QueriesOfShape) -> String {
    let [before, after] = &of.plans;
    let plan =
        |(plan, rows): &(String, f64)| format!("{plan}, {} rows", grouped(rows.round() as u64));
    let filter = if of.shape.is_empty() {
        "(no filter)"
    } else {
        &of.shape
    };
    format!(
        "{:>7} x {filter}: {} -> {}",
        grouped(of.times),
        plan(before),
        plan(after)
    )
}

/// One character for each part of the time, from nothing refused to all refused.
fn picture(simulation: &Simulation) -> String {
    const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let seconds = &simulation.seconds;
    let chunk = seconds.len().div_ceil(PICTURE_WIDTH).max(1);
    let level = |part: &[lazurite_design::Second]| {
        let asked: f64 = part.iter().map(|second| second.asked).sum();
        let refused: f64 = part.iter().map(lazurite_design::Second::refused).sum();
        let share = if asked > 0.0 { refused / asked } else { 0.0 };
        LEVELS[(share * 8.0).ceil().clamp(0.0, 8.0) as usize]
    };
    seconds.chunks(chunk).map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_design::{Demand, Rules};

    #[test]
    fn picture_shows_when_requests_are_refused() {
        let demand = |entities: f64| Demand {
            of_partition: BTreeMap::from([(0, entities)]),
            of_all: Vec::new(),
        };
        let demands = [demand(100.0), demand(4000.0), demand(1e9), demand(0.0)];
        let simulation = simulate(&[vec![1]], &demands, &Rules::default());
        assert_eq!(picture(&simulation), "·▄█·");
    }
}

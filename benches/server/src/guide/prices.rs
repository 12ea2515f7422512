//! The price file, and the design in the form of the cost model, made from the counts of a run. The
//! model and its sources are in the crate `lazurite-cost`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lazurite_bench_common::Outcome;
use lazurite_cost::{Class, Design, Growth, Point, Prices, Service, Step, Work};

use crate::guide::usage::Usage;

/// The stored bytes of a design.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    pub(super) table_bytes: u64,
    pub(super) blob_bytes: u64,
}

impl Stored {
    pub(super) fn bytes(self) -> u64 {
        self.table_bytes + self.blob_bytes
    }
}

/// Reads the price file. The error is a sentence.
pub(super) fn read(path: &Path) -> Outcome<Prices> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the prices in {shown} cannot be read: {error}"))?;
    Prices::from_json(&text)
        .map_err(|error| format!("the prices in {shown} are not usable: {error}").into())
}

/// The growth of a design's questions with the number of items stored.
#[derive(Clone, Debug)]
pub(super) struct QuestionGrowth {
    /// Number of requests of each class for one question. Scans count as queries, each with all its
    /// pages.
    pub(super) requests: BTreeMap<Class, Growth>,
    /// Number of rows that one query examines.
    pub(super) examined: Growth,
    /// Number of rows that one query returns.
    pub(super) returned: Growth,
    /// Number of entities in one batch: at most 100, whatever the number of items.
    pub(super) batch_entities: f64,
}

impl Default for QuestionGrowth {
    /// No requests and no rows.
    fn default() -> QuestionGrowth {
        QuestionGrowth {
            requests: BTreeMap::new(),
            examined: Growth::constant(0.0),
            returned: Growth::constant(0.0),
            batch_entities: 0.0,
        }
    }
}

/// The usage of the questions in one run.
#[derive(Clone, Copy)]
pub(super) struct Asked<'u> {
    /// Number of items that were stored.
    pub(super) items: usize,
    pub(super) questions: usize,
    pub(super) usage: &'u Usage,
}

impl QuestionGrowth {
    /// Fits the growth to runs of different sizes. If a pattern has the same data at all sizes, or
    /// if there are fewer than three runs, the figures of the last run hold for any number of
    /// items.
    pub(super) fn fit(runs: &[Asked]) -> QuestionGrowth {
        let per_query = |rows: fn(&Usage) -> u64| {
            fit(runs, |run| {
                rows(run.usage) as f64 / run.usage.queries.max(1) as f64
            })
        };
        let classes: BTreeSet<Class> = runs
            .iter()
            .flat_map(|run| run.usage.transactions.keys().copied())
            .collect();
        let per_question = |class: Class| {
            let growth = fit(runs, |run| {
                run.usage.operations(class) as f64 / run.questions.max(1) as f64
            });
            (class, growth)
        };
        QuestionGrowth {
            requests: classes.into_iter().map(per_question).collect(),
            examined: per_query(Usage::rows_of_queries),
            returned: per_query(|usage| usage.returned),
            batch_entities: runs.last().map_or(0.0, |run| {
                let batches = run.usage.operations(Class::TableBatchWrite);
                run.usage.batch_entities as f64 / batches.max(1) as f64
            }),
        }
    }
}

fn fit(runs: &[Asked], figure: impl Fn(&Asked) -> f64) -> Growth {
    let points = runs.iter().map(|run| Point {
        items: run.items as f64,
        value: figure(run),
    });
    let points: Vec<Point> = points.collect();
    let last = points.last().map_or(0.0, |point| point.value);
    Growth::fit(&points).unwrap_or_else(|_| Growth::constant(last))
}

/// The counts of a run of a design.
pub(super) struct Counted<'a> {
    pub(super) build: &'a Usage,
    pub(super) ask: &'a Usage,
    pub(super) growth: &'a QuestionGrowth,
    pub(super) stored: Stored,
    pub(super) writes: usize,
    pub(super) questions: usize,
}

impl Counted<'_> {
    /// The design in the form of the cost model: one write, one question and one item.
    pub(super) fn design(&self) -> Design {
        let writes = self.writes.max(1) as f64;
        let per_item = |what: &str, service, bytes: u64| lazurite_cost::Stored {
            what: what.to_owned(),
            service,
            bytes: bytes as f64 / writes,
        };
        let item = [
            per_item("entities", Service::Table, self.stored.table_bytes),
            per_item("blobs", Service::Blob, self.stored.blob_bytes),
        ];
        let questions = self.questions.max(1) as f64;
        Design {
            write: write_steps(self.build, writes),
            read: read_steps(self.growth),
            item: item.into_iter().filter(|item| item.bytes > 0.0).collect(),
            written_bytes: 0.0,
            received_bytes: self.ask.received_bytes as f64 / questions,
        }
    }
}

/// The steps of one write, from the counts of `writes` writes. The steps do not depend on the
/// number of items.
fn write_steps(usage: &Usage, writes: f64) -> Vec<Step> {
    let step = |(class, count): (&Class, &u64)| {
        let times = Growth::constant(*count as f64 / writes);
        let work = match class {
            Class::TableBatchWrite => Work::Batches {
                times,
                entities: usage.batch_entities as f64 / *count as f64,
            },
            class => Work::Requests {
                class: *class,
                times,
            },
        };
        Step {
            what: name(*class),
            work,
        }
    };
    usage.transactions.iter().map(step).collect()
}

/// The steps of one question. Its requests and rows grow with the number of items.
fn read_steps(growth: &QuestionGrowth) -> Vec<Step> {
    let step = |(class, requests): (&Class, &Growth)| {
        let times = requests.clone();
        let work = match class {
            Class::TableScan => Work::Scan {
                times,
                examined: growth.examined.clone(),
                returned: growth.returned.clone(),
                boundaries: Growth::constant(0.0),
            },
            Class::TableBatchWrite => Work::Batches {
                times,
                entities: growth.batch_entities,
            },
            class => Work::Requests {
                class: *class,
                times,
            },
        };
        Step {
            what: format!("{}, of each question {requests}", name(*class)),
            work,
        }
    };
    growth.requests.iter().map(step).collect()
}

fn name(class: Class) -> String {
    class.name().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_cost::{BatchCounting, Part};

    fn scanned(rows: u64) -> Usage {
        let mut usage = Usage::default();
        (usage.queries, usage.returned) = (20, 20);
        usage.examined = Some(20 * rows);
        usage.transactions.insert(Class::TableScan, 20);
        usage
    }

    #[test]
    fn scan_costs_more_with_the_items_that_are_kept() {
        let usages = [500, 1000, 2000].map(|items| (items, scanned(items as u64)));
        let growth = fitted(&usages);
        let mut build = Usage::default();
        build.transactions.insert(Class::TableBatchWrite, 20);
        build.batch_entities = 2000;
        let counted = Counted {
            build: &build,
            ask: &usages[2].1,
            growth: &growth,
            stored: Stored {
                table_bytes: 200_000,
                blob_bytes: 0,
            },
            writes: 2000,
            questions: 20,
        };
        let prices = Prices::default();
        let bill = counted.design().bill(prices.load_per_month, &prices);
        // 10,000,000 rows at 2,000 a second take 5,000 seconds, so 1,000 pages of 5 seconds, for
        // each of 10,000,000 questions. 10,000 pages cost 0.00036.
        assert!((bill.total_of(Part::Reads) - 360.0).abs() < 0.01, "{bill}");
        // 10,000,000 entities, or 100,000 batches.
        assert!((bill.total_of(Part::Writes) - 0.36).abs() < 1e-9, "{bill}");
        let saved = bill.total() - bill.total_under(BatchCounting::Request);
        assert!((saved - 0.3564).abs() < 1e-9, "{bill}");
        // 10,000,000 x 100 bytes in GiB at 0.045.
        let capacity = 1e9 / 1_073_741_824.0 * 0.045;
        assert!((bill.total_of(Part::Capacity) - capacity).abs() < 1e-9);
    }

    #[test]
    fn figures_of_one_size_hold_for_any() {
        let growth = fitted(&[(100, scanned(7))]);
        assert_eq!(growth.examined.at(1e7), 7.0);
    }

    #[test]
    fn requests_of_a_question_grow_as_they_were_counted() {
        // An index of ids: a tenth of the items is read one by one.
        let usages = [500, 1000, 2000].map(|items| {
            let mut usage = Usage::default();
            let ids = items as u64 / 10;
            usage.transactions.insert(Class::TableRead, 20 * ids);
            usage.transactions.insert(Class::TableOther, 1);
            (items, usage)
        });
        let growth = fitted(&usages);
        assert!((growth.requests[&Class::TableRead].at(1e7) - 1e6).abs() < 1.0);
        assert_eq!(growth.requests[&Class::TableOther].at(1e7), 0.05);
        let steps = read_steps(&growth);
        assert!(steps[0].what.contains("measured up to N = 2000"));
    }

    fn fitted(usages: &[(usize, Usage)]) -> QuestionGrowth {
        let runs = usages.iter().map(|(items, usage)| Asked {
            items: *items,
            questions: 20,
            usage,
        });
        QuestionGrowth::fit(&runs.collect::<Vec<_>>())
    }
}

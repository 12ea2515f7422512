//! The price file, and the bill of a design from what a run counted. The model and its sources are
//! in the crate `lazurite-cost`.

use std::path::Path;

use lazurite_bench_common::Outcome;
use lazurite_cost::{Bill, Class, Design, Growth, Point, Prices, Service, Step, Work};

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

/// Reads the price file. Errors: a sentence.
pub(super) fn read(path: &Path) -> Outcome<Prices> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the prices in {shown} cannot be read: {error}"))?;
    Prices::from_json(&text)
        .map_err(|error| format!("the prices in {shown} are not usable: {error}").into())
}

/// How the queries of a design grow with the items that are stored.
#[derive(Clone, Debug)]
pub(super) struct QueryGrowth {
    /// Rows that one query examines.
    pub(super) examined: Growth,
    /// Rows that one query returns.
    pub(super) returned: Growth,
}

impl Default for QueryGrowth {
    /// No rows.
    fn default() -> QueryGrowth {
        QueryGrowth {
            examined: Growth::constant(0.0),
            returned: Growth::constant(0.0),
        }
    }
}

impl QueryGrowth {
    /// Fitted to a run at each size, with its items and the requests to answer. If a pattern has
    /// the same data at all sizes, or fewer than three were run, the last run's figures hold for any
    /// number of items.
    pub(super) fn fit<'u>(sizes: impl Iterator<Item = (usize, &'u Usage)> + Clone) -> QueryGrowth {
        let per_query = |usage: &Usage, rows: u64| rows as f64 / usage.queries.max(1) as f64;
        let fit = |rows: &dyn Fn(&Usage) -> u64| {
            let points = sizes.clone().map(|(items, usage)| Point {
                items: items as f64,
                value: per_query(usage, rows(usage)),
            });
            let points: Vec<Point> = points.collect();
            let last = points.last().map_or(0.0, |point| point.value);
            Growth::fit(&points).unwrap_or_else(|_| Growth::constant(last))
        };
        QueryGrowth {
            examined: fit(&Usage::rows_of_queries),
            returned: fit(&|usage| usage.returned),
        }
    }
}

/// What a run counted of a design.
pub(super) struct Counted<'a> {
    pub(super) build: &'a Usage,
    pub(super) ask: &'a Usage,
    pub(super) queries: &'a QueryGrowth,
    pub(super) stored: Stored,
    pub(super) writes: usize,
    pub(super) questions: usize,
}

impl Counted<'_> {
    /// The bill of a month at the load of the price file.
    pub(super) fn bill(&self, prices: &Prices) -> Bill {
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
        let design = Design {
            write: steps(self.build, writes, None, prices),
            read: steps(self.ask, questions, Some(self.queries), prices),
            item: item.into_iter().filter(|item| item.bytes > 0.0).collect(),
            written_bytes: 0.0,
            received_bytes: self.ask.received_bytes as f64 / questions,
        };
        design.bill(prices.load_per_month, prices)
    }
}

/// The steps of one of `operations` writes or questions. Queries of writes are billed as they were
/// counted, those of questions as they grow.
fn steps(
    usage: &Usage,
    operations: f64,
    queries: Option<&QueryGrowth>,
    prices: &Prices,
) -> Vec<Step> {
    let step = |(class, count): (&Class, &u64)| {
        let times = *count as f64 / operations;
        let work = match (class, queries) {
            (Class::TableBatchWrite, _) => Work::Batches {
                times,
                entities: usage.batch_entities as f64 / *count as f64,
            },
            (Class::TableScan, Some(growth)) => Work::Scan {
                times: usage.queries as f64 / operations,
                examined: growth.examined.clone(),
                returned: growth.returned.clone(),
                boundaries: Growth::constant(0.0),
                pages: prices.page_rules(),
            },
            (class, _) => Work::Requests {
                class: *class,
                times,
            },
        };
        Step {
            what: class.name().replace('_', " "),
            work,
        }
    };
    usage.transactions.iter().map(step).collect()
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
        let runs = [
            (500, scanned(500)),
            (1000, scanned(1000)),
            (2000, scanned(2000)),
        ];
        let queries = QueryGrowth::fit(runs.iter().map(|(items, usage)| (*items, usage)));
        let mut build = Usage::default();
        build.transactions.insert(Class::TableBatchWrite, 20);
        build.batch_entities = 2000;
        let counted = Counted {
            build: &build,
            ask: &runs[2].1,
            queries: &queries,
            stored: Stored {
                table_bytes: 200_000,
                blob_bytes: 0,
            },
            writes: 2000,
            questions: 20,
        };
        let prices = Prices::default();
        let bill = counted.bill(&prices);
        // 10,000,000 rows at 2,000 a second are 5,000 seconds: 1,000 pages for each of 10,000,000
        // questions, at 0.00036 for 10,000.
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
        let usage = scanned(7);
        let queries = QueryGrowth::fit([(100, &usage)].into_iter());
        assert_eq!(queries.examined.at(1e7), 7.0);
    }
}

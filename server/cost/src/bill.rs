//! The bill of a design for a month, line by line.

use crate::class::{Class, Service};
use crate::growth::Growth;
use crate::load::Load;
use crate::prices::{BATCH_NOTE, BatchCounting, GIB, PRICED_TRANSACTIONS, Prices};
use serde::Serialize;
use std::fmt;

/// The requests of a step of a write or of a read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Requests of one class.
    Requests {
        /// Their class.
        class: Class,
        /// Requests for each write or read; a fraction if several share one.
        times: Growth,
    },
    /// Entity group transactions.
    Batches {
        /// Transactions for each write or read.
        times: Growth,
        /// Number of entities in each.
        entities: f64,
    },
    /// A query that reads more than one entity, in pages by [`Prices::page_rules`].
    Scan {
        /// Queries for each write or read.
        times: Growth,
        /// Rows that one query examines.
        examined: Growth,
        /// Entities that one query returns.
        returned: Growth,
        /// Partition boundaries that one query crosses.
        boundaries: Growth,
    },
}

/// A step of a write or of a read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The description on the line of the bill.
    pub what: String,
    /// The requests of the step.
    pub work: Work,
}

impl Step {
    /// One request of a class.
    pub fn request(what: &str, class: Class) -> Step {
        Step::requests(what, class, 1.0)
    }

    /// `times` requests of a class.
    pub fn requests(what: &str, class: Class, times: f64) -> Step {
        let what = what.to_owned();
        let times = Growth::constant(times);
        let work = Work::Requests { class, times };
        Step { what, work }
    }

    /// One entity group transaction.
    pub fn batch(what: &str, entities: f64) -> Step {
        let what = what.to_owned();
        let times = Growth::constant(1.0);
        let work = Work::Batches { times, entities };
        Step { what, work }
    }

    /// One query that examines and returns rows, and crosses no boundary.
    pub fn scan(what: &str, examined: Growth, returned: Growth) -> Step {
        let work = Work::Scan {
            times: Growth::constant(1.0),
            examined,
            returned,
            boundaries: Growth::constant(0.0),
        };
        Step {
            what: what.to_owned(),
            work,
        }
    }
}

/// The bytes that an item stores in a service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stored {
    /// The description on the line of the bill.
    pub what: String,
    /// The service, whose price of capacity applies.
    pub service: Service,
    /// Bytes of one item.
    pub bytes: f64,
}

/// A way to store items and to read them, with all that the bill depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Design {
    /// The steps of one write of the application.
    pub write: Vec<Step>,
    /// The steps of one read.
    pub read: Vec<Step>,
    /// The data that one item stores.
    pub item: Vec<Stored>,
    /// Bytes of the requests of one write, which a geo-redundant account replicates.
    pub written_bytes: f64,
    /// Bytes of the answers of one read, which leave the region if the client is elsewhere.
    pub received_bytes: f64,
}

/// The part of a bill that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Transactions of writes.
    Writes,
    /// Transactions of reads.
    Reads,
    /// Capacity, by GiB and month.
    Capacity,
    /// Bandwidth and replication, by GiB.
    Transfer,
}

impl Part {
    fn label(self) -> &'static str {
        match self {
            Part::Writes => "writes",
            Part::Reads => "reads",
            Part::Capacity => "capacity",
            Part::Transfer => "transfer",
        }
    }
}

/// A line of a bill: `amount = units / price_is_for * price`, with
/// `units = operations * units_each`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The part it belongs to.
    pub part: Part,
    /// What is billed.
    pub what: String,
    /// The class of transactions; `None` for capacity and transfer.
    pub class: Option<Class>,
    /// Writes, reads or items of the month.
    pub operations: f64,
    /// Transactions or GiB for each operation.
    pub units_each: f64,
    /// Transactions or GiB of the month.
    pub units: f64,
    /// Units for which the price is quoted: 10,000 transactions or 1 GiB.
    pub price_is_for: f64,
    /// The price in the currency of the price file.
    pub price: f64,
    /// The product.
    pub amount: f64,
    /// Rows that one query examines; `None` for all but scans.
    pub examined: Option<f64>,
    /// How the rows grow; `None` for all but scans.
    pub growth: Option<Growth>,
    /// Transactions of the month under each counting of batches; `None` for all but batches.
    pub batch: Option<BatchUnits>,
}

/// The transactions of batches under each counting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BatchUnits {
    /// Each entity counts.
    pub entities: f64,
    /// Each batch counts.
    pub requests: f64,
}

impl BatchUnits {
    fn under(self, counting: BatchCounting) -> f64 {
        match counting {
            BatchCounting::Entities => self.entities,
            BatchCounting::Request => self.requests,
        }
    }
}

impl Line {
    /// The amount under a counting of batches, which need not be the one of the price file.
    pub fn amount_under(&self, counting: BatchCounting) -> f64 {
        self.batch.map_or(self.amount, |batch| {
            batch.under(counting) / self.price_is_for * self.price
        })
    }
}

/// The bill of a month.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bill {
    /// The currency of all amounts.
    pub currency: String,
    /// The load.
    pub load: Load,
    /// The counting of batches that the amounts follow.
    pub batch_is_billed_as: BatchCounting,
    /// Lines of writes, reads, capacity and transfer, in this order.
    pub lines: Vec<Line>,
}

impl Bill {
    /// The sum of all lines.
    pub fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.amount).sum()
    }

    /// The sum of the lines of a part.
    pub fn total_of(&self, part: Part) -> f64 {
        let lines = self.lines.iter().filter(|line| line.part == part);
        lines.map(|line| line.amount).sum()
    }

    /// The sum under a counting of batches, which need not be the one of the price file.
    pub fn total_under(&self, counting: BatchCounting) -> f64 {
        let lines = self.lines.iter();
        lines.map(|line| line.amount_under(counting)).sum()
    }

    /// Whether a batch is on the bill: if so, both countings are to be shown.
    pub fn has_batches(&self) -> bool {
        self.lines.iter().any(|line| line.batch.is_some())
    }
}

impl fmt::Display for Bill {
    /// One line for each line of the bill, the total, and, if there are batches, the total under
    /// each counting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let currency = &self.currency;
        for line in &self.lines {
            let (part, what) = (line.part.label(), &line.what);
            write!(
                f,
                "{part}: {what}: {} x {} = {} units at {} for {} = {:.4} {currency}",
                line.operations,
                line.units_each,
                line.units,
                line.price,
                line.price_is_for,
                line.amount
            )?;
            if let (Some(examined), Some(growth)) = (line.examined, &line.growth) {
                write!(f, "; {examined:.0} rows examined: {growth}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "total: {:.4} {currency}", self.total())?;
        if self.has_batches() {
            writeln!(
                f,
                "with a batch billed as its entities: {:.4} {currency}; as one request: {:.4} {currency}. {BATCH_NOTE}",
                self.total_under(BatchCounting::Entities),
                self.total_under(BatchCounting::Request)
            )?;
        }
        Ok(())
    }
}

impl Design {
    /// The bill of a month under this load.
    pub fn bill(&self, load: Load, prices: &Prices) -> Bill {
        let step = |part, operations| {
            move |step: &Step| transactions(part, operations, step, load.items, prices)
        };
        let mut lines: Vec<Line> = Vec::new();
        lines.extend(self.write.iter().map(step(Part::Writes, load.writes)));
        lines.extend(self.read.iter().map(step(Part::Reads, load.reads)));
        lines.extend(self.item.iter().map(|item| capacity(item, load, prices)));
        lines.extend(self.transfer(load, prices));
        Bill {
            currency: prices.currency.clone(),
            load,
            batch_is_billed_as: prices.batch_is_billed_as,
            lines,
        }
    }

    /// Lines of transfer that have a price.
    fn transfer(&self, load: Load, prices: &Prices) -> impl Iterator<Item = Line> {
        let transfer = &prices.per_gib_transferred;
        let replicated = (
            "replication to the second region",
            load.writes,
            self.written_bytes,
            transfer.geo_replication,
        );
        let received = (
            "answers that leave the region",
            load.reads,
            self.received_bytes,
            transfer.egress,
        );
        [replicated, received]
            .into_iter()
            .filter(|(.., price)| *price > 0.0)
            .map(|(what, operations, bytes, price)| {
                line(Part::Transfer, what, operations, bytes / GIB, 1.0, price)
            })
    }
}

fn transactions(part: Part, operations: f64, step: &Step, items: f64, prices: &Prices) -> Line {
    let (class, each) = units_of(&step.work, items, prices);
    let price = prices.transaction(class);
    let mut line = line(
        part,
        &step.what,
        operations,
        each,
        PRICED_TRANSACTIONS,
        price,
    );
    line.class = Some(class);
    match &step.work {
        Work::Requests { .. } => {}
        Work::Batches { times, entities } => {
            line.batch = Some(BatchUnits {
                entities: operations * times.at(items) * entities,
                requests: operations * times.at(items),
            });
        }
        Work::Scan { examined, .. } => {
            line.examined = Some(examined.at(items));
            line.growth = Some(examined.clone());
        }
    }
    line
}

/// The class of a step, and its transactions for each write or read.
fn units_of(work: &Work, items: f64, prices: &Prices) -> (Class, f64) {
    match work {
        Work::Requests { class, times } => (*class, times.at(items)),
        Work::Batches { times, entities } => {
            let times = times.at(items);
            let units = BatchUnits {
                entities: times * entities,
                requests: times,
            };
            (
                Class::TableBatchWrite,
                units.under(prices.batch_is_billed_as),
            )
        }
        Work::Scan {
            times,
            examined,
            returned,
            boundaries,
        } => {
            let [examined, returned, boundaries] =
                [examined, returned, boundaries].map(|rows| rows.at(items));
            let pages = prices.page_rules().pages(examined, returned, boundaries);
            (Class::TableScan, times.at(items) * pages)
        }
    }
}

fn capacity(item: &Stored, load: Load, prices: &Prices) -> Line {
    let price = match item.service {
        Service::Blob => prices.per_gib_and_month.blob,
        Service::Queue => prices.per_gib_and_month.queue,
        Service::Table => prices.per_gib_and_month.table,
    };
    let each = item.bytes / GIB;
    line(Part::Capacity, &item.what, load.items, each, 1.0, price)
}

fn line(
    part: Part,
    what: &str,
    operations: f64,
    units_each: f64,
    price_is_for: f64,
    price: f64,
) -> Line {
    let units = operations * units_each;
    Line {
        part,
        what: what.to_owned(),
        class: None,
        operations,
        units_each,
        units,
        price_is_for,
        price,
        amount: units / price_is_for * price,
        examined: None,
        growth: None,
        batch: None,
    }
}

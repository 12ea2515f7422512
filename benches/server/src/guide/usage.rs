//! Counts the requests of a design, and what they cost the server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lazurite_bench_common::thousands;

use crate::client::{Answer, Error, Observer, Request, Service};

/// The class of a request on the bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Table,
    BlobWrite,
    BlobList,
    BlobRead,
    BlobDelete,
    Queue,
}

impl Class {
    pub(super) const ALL: [Class; 6] = [
        Class::Table,
        Class::BlobWrite,
        Class::BlobList,
        Class::BlobRead,
        Class::BlobDelete,
        Class::Queue,
    ];

    pub(super) fn of(request: &Request) -> Class {
        let is_list = request
            .query
            .iter()
            .any(|(name, value)| *name == "comp" && value == "list");
        match (request.service, request.method) {
            (Service::Table, _) => Class::Table,
            (Service::Queue, _) => Class::Queue,
            (Service::Blob, "DELETE") => Class::BlobDelete,
            (Service::Blob, "GET") if is_list => Class::BlobList,
            (Service::Blob, "GET" | "HEAD") => Class::BlobRead,
            (Service::Blob, _) => Class::BlobWrite,
        }
    }

    /// Its name in the file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Table => "table",
            Class::BlobWrite => "blob_write",
            Class::BlobList => "blob_list",
            Class::BlobRead => "blob_read",
            Class::BlobDelete => "blob_delete",
            Class::Queue => "queue",
        }
    }
}

/// The resources that a design used.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) requests: u64,
    /// Requests that were refused, such as a lost race for an ETag.
    pub(super) refused: u64,
    /// Rows that queries examined; `None` if the server does not report them.
    pub(super) examined: Option<u64>,
    /// Rows that the hosted service would examine for them.
    pub(super) azure_examined: Option<AzureRows>,
    /// Bytes of the answers' bodies.
    pub(super) received_bytes: u64,
    /// Requests by the class they are billed as.
    pub(super) transactions: BTreeMap<Class, u64>,
    /// The plans of queries: ours, and that of the hosted service.
    pub(super) plans: BTreeSet<String>,
    pub(super) azure_plans: BTreeSet<String>,
    /// Single writes by partition.
    partitions: HashMap<String, u64>,
    pub(super) seconds: f64,
}

/// A sum of rows that the hosted service would examine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AzureRows {
    rows: u64,
    has_estimates: bool,
    /// Whether the server left some queries out.
    is_partial: bool,
}

impl AzureRows {
    /// Adds the figure of a query, such as `20` or `~1200`; `None` if the server did not report it.
    fn add(&mut self, figure: Option<&str>) {
        let digits = figure.map(|text| text.trim_start_matches('~'));
        match digits.and_then(|digits| digits.parse::<u64>().ok()) {
            Some(rows) => self.rows = self.rows.saturating_add(rows),
            None => self.is_partial = true,
        }
        self.has_estimates |= figure.is_some_and(|text| text.starts_with('~'));
    }

    pub(super) fn rows(self) -> u64 {
        self.rows
    }

    /// Whether the rows are neither estimated nor incomplete.
    pub(super) fn is_exact(self) -> bool {
        !self.has_estimates && !self.is_partial
    }
}

impl fmt::Display for AzureRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_partial {
            "over "
        } else if self.has_estimates {
            "~"
        } else {
            ""
        };
        write!(f, "{mark}{}", thousands(self.rows))
    }
}

impl Usage {
    /// Writes to the partition that gets most of them.
    pub(super) fn hottest_partition(&self) -> u64 {
        self.partitions.values().copied().max().unwrap_or_default()
    }
}

/// Observes a client.
pub(super) struct Meter {
    usage: Mutex<Usage>,
    interrupted: Arc<AtomicBool>,
}

impl Meter {
    pub(super) fn new(interrupted: Arc<AtomicBool>) -> Meter {
        Meter {
            usage: Mutex::default(),
            interrupted,
        }
    }

    /// The resources that were used since the last call.
    pub(super) fn take(&self, took: Duration) -> Usage {
        let usage = std::mem::take(&mut *self.usage.lock().expect("no request panics"));
        Usage {
            seconds: took.as_secs_f64(),
            ..usage
        }
    }
}

impl Observer for Meter {
    fn before(&self) -> Result<(), Error> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    fn answered(&self, request: &Request, answer: &Answer) {
        let header = |name: &str| answer.header(name);
        let mut usage = self.usage.lock().expect("no request panics");
        usage.requests += 1;
        if answer.is_success() {
            usage.received_bytes += answer.body.len() as u64;
        } else {
            usage.refused += 1;
        }
        *usage.transactions.entry(Class::of(request)).or_default() += 1;
        if let Some(rows) = header("x-lazurite-examined").and_then(|rows| rows.parse::<u64>().ok())
        {
            *usage.examined.get_or_insert_default() += rows;
        }
        if let Some(plan) = header("x-lazurite-plan") {
            usage.plans.insert(plan.to_owned());
        }
        if let Some(plan) = header("x-lazurite-azure-plan") {
            usage.azure_plans.insert(plan.to_owned());
            let rows = header("x-lazurite-azure-examined");
            usage.azure_examined.get_or_insert_default().add(rows);
        }
        if request.service == Service::Table
            && request.has_body()
            && let Some((_, key)) = request.path.split_once("PartitionKey='")
        {
            let partition = key.split('\'').next().unwrap_or_default();
            *usage.partitions.entry(partition.to_owned()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_names_estimated_and_missing_parts() {
        let sum = |figures: &[Option<&str>]| {
            let mut sum = AzureRows::default();
            figures.iter().for_each(|figure| sum.add(*figure));
            sum.to_string()
        };
        assert_eq!(sum(&[Some("20"), Some("1000")]), "1,020");
        assert_eq!(sum(&[Some("20"), Some("~1200")]), "~1,220");
        assert_eq!(sum(&[Some("~1200"), None]), "over 1,200");
    }
}

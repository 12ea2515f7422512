//! Counts the requests of a design, and their costs for the server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lazurite_bench_common::thousands;
use lazurite_cost::{Class, is_billed};

use crate::client::{Answer, Error, Observer, Request, Service, batch_statuses};

/// The class of a request on the bill. `None` for the creation of a table, a container or a queue:
/// a design needs one only once, whatever its load.
fn class_of(request: &Request) -> Option<Class> {
    let comp = request.query.iter().find(|(name, _)| *name == "comp");
    let comp = comp.map_or("", |(_, value)| value.as_str());
    match request.service {
        Service::Table => of_table(request, comp),
        Service::Queue => of_queue(request, comp),
        Service::Blob => of_blob(request, comp),
    }
}

fn of_table(request: &Request, comp: &str) -> Option<Class> {
    let path = request.path.as_str();
    let is_entity = path.contains("PartitionKey=");
    Some(match request.method {
        "POST" if path == "/Tables" => return None,
        _ if !comp.is_empty() || path.starts_with("/Tables") => Class::TableOther,
        "POST" if path == "/$batch" => Class::TableBatchWrite,
        "GET" if is_entity => Class::TableRead,
        "GET" => Class::TableScan,
        "DELETE" => Class::TableDelete,
        _ => Class::TableWrite,
    })
}

fn of_queue(request: &Request, comp: &str) -> Option<Class> {
    Some(match (request.method, comp) {
        ("PUT", "") if !request.path.contains("/messages") => return None,
        ("GET", "list") => Class::QueueClass1,
        ("GET" | "HEAD", _) => Class::QueueClass2,
        _ => Class::QueueClass1,
    })
}

fn of_blob(request: &Request, comp: &str) -> Option<Class> {
    let is_container = request.query.iter().any(|(name, _)| *name == "restype");
    Some(match (request.method, comp) {
        ("PUT", "") if is_container => return None,
        ("GET", "list" | "blobs") => Class::BlobList,
        ("GET", "") if !is_container => Class::BlobRead,
        ("POST", "query") => Class::BlobRead,
        ("DELETE", "") => Class::BlobDelete,
        ("PUT", "" | "block" | "blocklist" | "appendblock" | "seal" | "page" | "tier") => {
            Class::BlobWrite
        }
        _ => Class::BlobOther,
    })
}

/// Number of operations in a batch. Each operation begins with its request line.
fn batch_entities(body: &[u8]) -> u64 {
    let line = b" HTTP/1.1\r\n";
    let places = body.windows(line.len()).filter(|part| part == line);
    places.count() as u64
}

/// Whether a batch was refused. The status of its answer is 202 even then.
fn is_refused_batch(request: &Request, answer: &Answer) -> bool {
    let is_batch = class_of(request) == Some(Class::TableBatchWrite);
    is_batch && batch_statuses(answer).iter().any(|status| *status >= 300)
}

/// The PartitionKey of a write to a table; all operations of a batch have the same one.
fn partition_of(request: &Request) -> Option<String> {
    let is_write = request.service == Service::Table && request.method != "GET";
    let body = String::from_utf8_lossy(request.body);
    let places = [
        (&*request.path, "PartitionKey='", '\''),
        (&*body, "PartitionKey='", '\''),
        (&*body, "\"PartitionKey\":\"", '"'),
    ];
    places
        .into_iter()
        .filter(|_| is_write)
        .find_map(|(text, begin, end)| {
            let (_, key) = text.split_once(begin)?;
            key.split(end).next().map(str::to_owned)
        })
}

/// The resources that a design used.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) requests: u64,
    /// Requests that were refused, such as a lost race for an ETag.
    pub(super) refused: u64,
    /// Requests that the server refused with 503, because it was too busy.
    pub(super) throttled: u64,
    /// Sum of the seconds for which clients waited after these refusals.
    pub(super) back_off_seconds: f64,
    /// Rows that queries examined; `None` if the server does not report them.
    pub(super) examined: Option<u64>,
    /// Rows that the hosted service would examine for the queries.
    pub(super) azure_examined: Option<AzureRows>,
    /// Bytes of the bodies of requests.
    pub(super) sent_bytes: u64,
    /// Bytes of the bodies of answers.
    pub(super) received_bytes: u64,
    /// Billed requests by their class.
    pub(super) transactions: BTreeMap<Class, u64>,
    /// Number of entities in the batches of `transactions`.
    pub(super) batch_entities: u64,
    /// Queries, each with all its pages.
    pub(super) queries: u64,
    /// Pages of queries.
    pub(super) pages: u64,
    /// Rows that queries returned.
    pub(super) returned: u64,
    /// The query plans of our server, and those of the hosted service.
    pub(super) plans: BTreeSet<String>,
    pub(super) azure_plans: BTreeSet<String>,
    /// Number of written entities by partition.
    partitions: HashMap<String, u64>,
    pub(super) seconds: f64,
}

/// A sum of rows that the hosted service would examine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AzureRows {
    rows: u64,
    has_estimates: bool,
    /// Whether the server reported no rows for some queries.
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
    /// Counts a request by its class, if it is billed.
    fn count_transaction(&mut self, request: &Request, status: u16) {
        let Some(class) = class_of(request).filter(|_| is_billed(status, false)) else {
            return;
        };
        *self.transactions.entry(class).or_default() += 1;
        if class == Class::TableBatchWrite {
            self.batch_entities += batch_entities(request.body);
        }
        if class == Class::TableScan && status == 200 {
            let continues = |(name, _): &(&str, String)| *name == "NextPartitionKey";
            self.pages += 1;
            self.queries += u64::from(!request.query.iter().any(continues));
        }
    }

    /// Number of billed requests of a class. Scans count as queries, each with all its pages.
    pub(super) fn operations(&self, class: Class) -> u64 {
        if class == Class::TableScan {
            return self.queries;
        }
        self.transactions.get(&class).copied().unwrap_or_default()
    }

    /// Rows that the hosted service would examine for all queries, as far as the server reports
    /// them; at least the rows that the server itself examined.
    pub(super) fn rows_of_queries(&self) -> u64 {
        let azure = self.azure_examined.map_or(0, AzureRows::rows);
        azure.max(self.examined.unwrap_or_default())
    }

    /// The rows of all queries as text, marked if they are estimates or incomplete.
    pub(super) fn rows_text(&self) -> String {
        let rows = self.azure_examined.map(|rows| rows.to_string());
        rows.unwrap_or_else(|| thousands(self.examined.unwrap_or_default()))
    }

    /// Number of entities written to the partition with the most writes.
    pub(super) fn hottest_partition(&self) -> u64 {
        self.partitions.values().copied().max().unwrap_or_default()
    }
}

/// Observes a client and counts its requests.
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

    /// Returns the usage since the last call, with `took` as its seconds.
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

    fn backs_off(&self, wait: Duration) {
        let mut usage = self.usage.lock().expect("no request panics");
        usage.back_off_seconds += wait.as_secs_f64();
    }

    fn answered(&self, request: &Request, answer: &Answer) {
        let header = |name: &str| answer.header(name);
        let mut usage = self.usage.lock().expect("no request panics");
        usage.requests += 1;
        usage.sent_bytes += request.body.len() as u64;
        match answer.status {
            _ if is_refused_batch(request, answer) => usage.refused += 1,
            _ if answer.is_success() => usage.received_bytes += answer.body.len() as u64,
            503 => usage.throttled += 1,
            _ => usage.refused += 1,
        }
        usage.count_transaction(request, answer.status);
        let rows = header("x-lazurite-returned").and_then(|rows| rows.parse::<u64>().ok());
        usage.returned += rows.unwrap_or_default();
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
        if let Some(partition) = partition_of(request) {
            let entities = batch_entities(request.body).max(1);
            *usage.partitions.entry(partition).or_default() += entities;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_billed_in_the_class_of_its_operation() {
        let class = |service, method, path: &str, comp: &str| {
            let mut request = Request::new(service, method, path.to_owned());
            if !comp.is_empty() {
                request = request.query("comp", comp);
            }
            class_of(&request)
        };
        let entity = "/T(PartitionKey='p',RowKey='r')";
        for (service, method, path, comp, expected) in [
            (Service::Table, "POST", "/T", "", Class::TableWrite),
            (
                Service::Table,
                "POST",
                "/$batch",
                "",
                Class::TableBatchWrite,
            ),
            (Service::Table, "GET", entity, "", Class::TableRead),
            (Service::Table, "GET", "/T()", "", Class::TableScan),
            (Service::Table, "DELETE", entity, "", Class::TableDelete),
            (
                Service::Table,
                "DELETE",
                "/Tables('T')",
                "",
                Class::TableOther,
            ),
            (
                Service::Queue,
                "POST",
                "/q/messages",
                "",
                Class::QueueClass1,
            ),
            (Service::Queue, "GET", "/q/messages", "", Class::QueueClass2),
            (
                Service::Queue,
                "DELETE",
                "/q/messages/1",
                "",
                Class::QueueClass1,
            ),
            (Service::Blob, "PUT", "/c/b", "", Class::BlobWrite),
            (Service::Blob, "PUT", "/c/b", "lease", Class::BlobOther),
            (Service::Blob, "HEAD", "/c/b", "", Class::BlobOther),
            (Service::Blob, "GET", "/c/b", "", Class::BlobRead),
            (Service::Blob, "GET", "/c", "list", Class::BlobList),
            (Service::Blob, "DELETE", "/c/b", "", Class::BlobDelete),
        ] {
            assert_eq!(
                class(service, method, path, comp),
                Some(expected),
                "{method} {path} {comp}"
            );
        }
        assert_eq!(class(Service::Table, "POST", "/Tables", ""), None);
        assert_eq!(class(Service::Queue, "PUT", "/q", ""), None);
    }

    #[test]
    fn refused_probe_is_free_and_a_batch_counts_its_entities() {
        let mut usage = Usage::default();
        let get = Request::new(Service::Table, "GET", "/T()".into());
        usage.count_transaction(&get, 403);
        assert_eq!(usage.transactions.len(), 0);
        usage.count_transaction(&get, 200);
        let next =
            Request::new(Service::Table, "GET", "/T()".into()).query("NextPartitionKey", "p");
        usage.count_transaction(&next, 200);
        assert_eq!(
            (usage.transactions[&Class::TableScan], usage.queries),
            (2, 1)
        );
        let body = b"POST http://h/T HTTP/1.1\r\n\r\n{}\r\nPOST http://h/T HTTP/1.1\r\n\r\n{}";
        let batch = Request::new(Service::Table, "POST", "/$batch".into()).body(body);
        usage.count_transaction(&batch, 202);
        assert_eq!(usage.batch_entities, 2);
    }

    #[test]
    fn batch_counts_its_entities_for_its_partition() {
        let partition = |method, path: &str, body: &str| {
            let request = Request::new(Service::Table, method, path.into());
            partition_of(&request.body(body.as_bytes()))
        };
        let (path, entity) = (
            "/T(PartitionKey='a',RowKey='r')",
            "{\"PartitionKey\":\"b\"}",
        );
        assert_eq!(partition("PUT", path, entity).as_deref(), Some("a"));
        assert_eq!(partition("POST", "/T", entity).as_deref(), Some("b"));
        let batch = format!("PATCH http://h{path} HTTP/1.1\r\n\r\n{entity}");
        assert_eq!(partition("POST", "/$batch", &batch).as_deref(), Some("a"));
        assert_eq!(partition("GET", path, ""), None);
        let meter = Meter::new(Arc::default());
        let batch = format!("{batch}\r\n{batch}");
        let batch = Request::new(Service::Table, "POST", "/$batch".into()).body(batch.as_bytes());
        for part in ["204 No Content", "412 Precondition Failed"] {
            let answer = Answer {
                status: 202,
                body: format!("HTTP/1.1 {part}").into(),
                ..Answer::default()
            };
            meter.answered(&batch, &answer);
        }
        let usage = meter.take(Duration::ZERO);
        assert_eq!((usage.hottest_partition(), usage.refused), (4, 1));
    }

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

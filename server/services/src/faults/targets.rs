//! The scalability targets of Azure Storage, as limits that can be set: with `--as-azure`, or in
//! the field `targets` of `/_lazurite/faults`.
//!
//! [`Targets`] has the limits, and the number of requests that reached each. [`Usage`] counts the
//! requests of one store. Its size is bounded: entries that no longer fit are forgotten, which
//! allows more than the target. Rates are measured in real time, and the allowance of one second
//! may be used at once. The names of deleted resources become free again by the clock of the store.

use crate::faults::HEADER;
use axum::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use lazurite_base::locks::lock;
use lazurite_protocol::response::error::{Failure, Result};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Maximum number of entries in one generation of a map of [`Usage`]. The previous generation is
/// kept too.
const ENTRIES_MAX: usize = 32 * 1024;
/// The message of `ServerBusy`. Source: Common REST API error codes, `ServerBusy`.
const MESSAGE_BUSY: &str =
    "The server is currently unable to receive requests. Please retry your request.";
const MESSAGE_ACCOUNT_BUSY: &str = "Operations per second is over the account limit.";

/// A scalability target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Requests per second, for all services of an account together.
    AccountRequests,
    /// Entities per second that are examined or written in one partition of a table.
    PartitionEntities,
    /// Messages per second of one queue.
    QueueMessages,
    /// Requests per second for one blob.
    BlobRequests,
    /// Maximum duration of a page of a query, in seconds.
    QuerySeconds,
    /// Maximum number of partitions that a page of a query reads.
    PagePartitions,
    /// Seconds for which the name of a deleted table is not free.
    TableReuseSeconds,
    /// Seconds for which the name of a deleted container is not free.
    ContainerReuseSeconds,
    /// Seconds for which the name of a deleted queue is not free.
    QueueReuseSeconds,
}

/// Every target with its name in JSON, the value that Azure Storage publishes, and the smallest
/// value that can be set. Sources: Scalability targets for standard storage accounts, Blob, Queue
/// and Table Storage; Query timeout and pagination; Delete Table; Delete Container; Delete Queue.
const TARGETS: [(Target, &str, u32, u32); 9] = [
    (Target::AccountRequests, "accountRequests", 20_000, 1),
    (Target::PartitionEntities, "partitionEntities", 2000, 1),
    (Target::QueueMessages, "queueMessages", 2000, 1),
    (Target::BlobRequests, "blobRequests", 500, 1),
    (Target::QuerySeconds, "querySeconds", 5, 0),
    (Target::PagePartitions, "pagePartitions", 1, 1),
    (Target::TableReuseSeconds, "tableReuseSeconds", 40, 1),
    (
        Target::ContainerReuseSeconds,
        "containerReuseSeconds",
        30,
        1,
    ),
    (Target::QueueReuseSeconds, "queueReuseSeconds", 30, 1),
];

impl Target {
    /// The name of the target in JSON.
    pub fn name(self) -> &'static str {
        TARGETS[self as usize].1
    }
}

/// The limits that are set, and how often each was reached.
#[derive(Debug, Default)]
pub struct Targets {
    limits: [Option<u32>; TARGETS.len()],
    hits: [AtomicU64; TARGETS.len()],
}

impl Targets {
    /// All targets, with the values that Azure Storage publishes.
    pub fn published() -> Targets {
        Targets {
            limits: TARGETS.map(|(_, _, published, _)| Some(published)),
            ..Targets::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.limits.iter().all(Option::is_none)
    }

    pub fn limit(&self, target: Target) -> Option<u32> {
        self.limits[target as usize]
    }

    /// Counts a request that reached the limit.
    pub fn hit(&self, target: Target) {
        self.hits[target as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the field `targets`: an object of names and numbers, or `"azure"` for all published
    /// values. The error is a sentence.
    pub fn read(value: &Value) -> std::result::Result<Targets, String> {
        if value.as_str() == Some("azure") {
            return Ok(Targets::published());
        }
        let fields = value.as_object().ok_or_else(|| {
            "targets: it is a JSON object of targets and numbers, or \"azure\".".to_owned()
        })?;
        let mut targets = Targets::default();
        for (name, value) in fields {
            let Some((target, _, _, min)) = TARGETS.iter().find(|row| row.1 == name) else {
                let known = TARGETS.map(|row| row.1).join(", ");
                return Err(format!(
                    "targets.{name}: there is no such target. There are {known}."
                ));
            };
            if value.is_null() {
                continue;
            }
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| number >= min).ok_or_else(|| {
                format!("targets.{name}: {value} is no whole number from {min} up.")
            })?;
            targets.limits[*target as usize] = Some(number);
        }
        Ok(targets)
    }

    /// The limits in the form that [`Targets::read`] accepts, and the number of hits of each.
    pub fn show(&self) -> (Value, Value) {
        let (mut limits, mut hits) = (Map::new(), Map::new());
        for (target, name, ..) in TARGETS {
            if let Some(limit) = self.limit(target) {
                limits.insert(name.to_owned(), limit.into());
                let counted = self.hits[target as usize].load(Ordering::Relaxed);
                hits.insert(name.to_owned(), counted.into());
            }
        }
        (limits.into(), hits.into())
    }
}

/// A resource whose name does not become free at once when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Named {
    Container,
    Queue,
    Table,
}

impl Named {
    fn target(self) -> Target {
        match self {
            Named::Container => Target::ContainerReuseSeconds,
            Named::Queue => Target::QueueReuseSeconds,
            Named::Table => Target::TableReuseSeconds,
        }
    }

    fn being_deleted(self) -> Failure {
        let (code, message) = match self {
            Named::Container => (
                "ContainerBeingDeleted",
                "The specified container is being deleted. Try operation later.",
            ),
            Named::Queue => ("QueueBeingDeleted", "The specified queue is being deleted."),
            Named::Table => (
                "TableBeingDeleted",
                "The specified table is being deleted. Try operation later.",
            ),
        };
        Failure::new(409, code, message)
    }
}

/// The part of a request's address that targets depend on.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    Blob { container: &'a str, blob: &'a str },
    Messages { queue: &'a str },
    Table { table: &'a str },
    Other,
}

/// What the requests of one store have used, by resource.
#[derive(Debug, Default)]
pub struct Usage {
    hasher: RandomState,
    rates: Mutex<Recent<Bucket>>,
    /// When the resource with a name was deleted, by the clock of the store.
    deleted: Mutex<Recent<SystemTime>>,
}

/// A bounded map of two generations. When the present one is full, it replaces the past one, which
/// is forgotten.
#[derive(Debug)]
struct Recent<V> {
    present: HashMap<u64, V>,
    past: HashMap<u64, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Recent<V> {
        Recent {
            present: HashMap::new(),
            past: HashMap::new(),
        }
    }
}

impl<V> Recent<V> {
    /// The entry, moved into the present generation; created with `make` if it is absent.
    fn entry(&mut self, key: u64, make: impl FnOnce() -> V) -> &mut V {
        let past = self.past.remove(&key);
        self.make_room(key);
        let entry = self.present.entry(key);
        entry.or_insert_with(|| past.unwrap_or_else(make))
    }

    fn insert(&mut self, key: u64, value: V) {
        self.make_room(key);
        self.present.insert(key, value);
    }

    fn make_room(&mut self, key: u64) {
        if self.present.len() >= ENTRIES_MAX && !self.present.contains_key(&key) {
            self.past = std::mem::take(&mut self.present);
        }
    }

    fn find(&self, key: u64) -> Option<&V> {
        self.present.get(&key).or_else(|| self.past.get(&key))
    }
}

/// A token bucket with the allowance of one second. `tokens` is negative after a request that took
/// more than was left.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: u32, now: Instant) -> Bucket {
        Bucket {
            tokens: rate.into(),
            at: now,
        }
    }

    fn refill(&mut self, rate: u32, now: Instant) {
        let rate = f64::from(rate);
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate).min(rate);
        self.at = now;
    }

    /// Takes `count` tokens if at least one is left; otherwise returns the seconds until one is, at
    /// least 1. A debt is limited to the allowance of one second.
    fn take(&mut self, count: u32, rate: u32, now: Instant) -> std::result::Result<(), u32> {
        self.refill(rate, now);
        if self.tokens >= 1.0 {
            self.owe(count, rate);
            return Ok(());
        }
        let seconds = (1.0 - self.tokens) / f64::from(rate);
        Err((seconds.ceil() as u32).max(1))
    }

    fn owe(&mut self, count: u32, rate: u32) {
        self.tokens = (self.tokens - f64::from(count)).max(-f64::from(rate));
    }
}

/// Measures the requests of one store against the targets that are set.
pub struct Meter<'a> {
    pub targets: Arc<Targets>,
    pub usage: &'a Usage,
    /// The time of the request, by the clock of the store.
    pub now: SystemTime,
}

impl Meter<'_> {
    /// Counts a request. Errors: `ServerBusy`; `TableBeingDeleted`.
    pub fn admit(&self, account: &str, subject: Subject<'_>) -> Result<()> {
        self.take(Target::AccountRequests, account, ("", ""), 1)?;
        match subject {
            Subject::Blob { container, blob } => {
                self.take(Target::BlobRequests, account, (container, blob), 1)
            }
            Subject::Messages { queue } => {
                self.take(Target::QueueMessages, account, (queue, ""), 1)
            }
            // While the name of a table is not free, every request for the table is refused. For
            // containers and queues, only the creation is. Source: Delete Table, "Remarks".
            Subject::Table { table } => self.check_free(Named::Table, account, table),
            Subject::Other => Ok(()),
        }
    }

    /// Counts entities of a partition. Error: `ServerBusy`.
    pub fn take_entities(
        &self,
        account: &str,
        table: &str,
        partition_key: &str,
        count: u32,
    ) -> Result<()> {
        let table = table.to_ascii_lowercase();
        let subject = (table.as_str(), partition_key);
        self.take(Target::PartitionEntities, account, subject, count)
    }

    /// Counts the messages of a response except the first, which was counted with the request.
    pub fn owe_messages(&self, account: &str, queue: &str, count: usize) {
        let Some(rate) = self.targets.limit(Target::QueueMessages) else {
            return;
        };
        let more = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
        let key = self.key(Target::QueueMessages, account, (queue, ""));
        let mut rates = lock(&self.usage.rates);
        let full = || Bucket::full(rate, Instant::now());
        rates.entry(key, full).owe(more, rate);
    }

    fn take(&self, target: Target, account: &str, subject: (&str, &str), count: u32) -> Result<()> {
        let Some(rate) = self.targets.limit(target) else {
            return Ok(());
        };
        let key = self.key(target, account, subject);
        let now = Instant::now();
        let taken = {
            let mut rates = lock(&self.usage.rates);
            let bucket = rates.entry(key, || Bucket::full(rate, now));
            bucket.take(count, rate, now)
        };
        taken.map_err(|seconds| self.busy(target, seconds))
    }

    fn key(&self, target: Target, account: &str, subject: (&str, &str)) -> u64 {
        self.usage
            .hasher
            .hash_one((target as usize, account, subject))
    }

    fn busy(&self, target: Target, seconds: u32) -> Failure {
        let message = match target {
            Target::AccountRequests => MESSAGE_ACCOUNT_BUSY,
            _ => MESSAGE_BUSY,
        };
        let failure = Failure::new(503, "ServerBusy", message);
        self.marked(target, failure)
            .with_header(RETRY_AFTER, seconds.into())
    }

    /// Counts a refusal, and names its target in a header of the failure.
    fn marked(&self, target: Target, failure: Failure) -> Failure {
        self.targets.hit(target);
        let mark = HeaderValue::from_static(target.name());
        failure.with_header(HeaderName::from_static(HEADER), mark)
    }

    /// Fails if a resource with this name was deleted too recently.
    pub fn check_free(&self, named: Named, account: &str, name: &str) -> Result<()> {
        let Some(seconds) = self.targets.limit(named.target()) else {
            return Ok(());
        };
        let key = self.usage.name_key(named, account, name);
        let deleted_at = lock(&self.usage.deleted).find(key).copied();
        let is_free = deleted_at.is_none_or(|deleted_at| {
            let passed = self.now.duration_since(deleted_at).unwrap_or_default();
            passed >= Duration::from_secs(seconds.into())
        });
        if is_free {
            return Ok(());
        }
        Err(self.marked(named.target(), named.being_deleted()))
    }

    /// Records that the resource with this name was deleted.
    pub fn note_deleted(&self, named: Named, account: &str, name: &str) {
        if self.targets.limit(named.target()).is_some() {
            let key = self.usage.name_key(named, account, name);
            lock(&self.usage.deleted).insert(key, self.now);
        }
    }

    /// Maximum duration of a page of a query; `None` if no target limits it.
    pub fn query_time(&self) -> Option<Duration> {
        let seconds = self.targets.limit(Target::QuerySeconds)?;
        Some(Duration::from_secs(seconds.into()))
    }
}

impl Usage {
    /// Makes the names of deleted resources free.
    pub fn forget_deleted(&self) {
        *lock(&self.deleted) = Recent::default();
    }

    /// Ignores case, because the names of tables ignore case. The other names have only lower case.
    fn name_key(&self, named: Named, account: &str, name: &str) -> u64 {
        let name = name.to_ascii_lowercase();
        self.hasher.hash_one((named, account, name))
    }
}

/// Charges the rows that a page of a query examines to their partitions. Source: Performance and
/// scalability checklist for Table storage, "Query density": a query that keeps few of the entities
/// that it scans reaches the target with few results.
pub struct PageRows<'a> {
    meter: &'a Meter<'a>,
    account: &'a str,
    table: &'a str,
    /// The current partition and the number of its rows, charged once the page leaves it.
    present: Option<(String, u32)>,
    has_left_partition: bool,
    taken: Result<()>,
}

impl<'a> PageRows<'a> {
    pub fn new(meter: &'a Meter<'a>, account: &'a str, table: &'a str) -> PageRows<'a> {
        PageRows {
            meter,
            account,
            table,
            present: None,
            has_left_partition: false,
            taken: Ok(()),
        }
    }

    pub fn count(&mut self, partition_key: &str, rows: u32) {
        match &mut self.present {
            Some((present, counted)) if present == partition_key => {
                *counted = counted.saturating_add(rows);
            }
            _ => {
                self.has_left_partition |= self.present.is_some();
                self.take();
                self.present = Some((partition_key.to_owned(), rows));
            }
        }
    }

    /// Charges the last partition. If it is the only partition of the page, charges at least
    /// `azure_examined` rows: Azure may examine more rows than this server. Errors: `ServerBusy` if
    /// one of the partitions had no allowance left.
    pub fn finish(mut self, azure_examined: Option<u64>) -> Result<()> {
        if let (Some((_, rows)), false) = (&mut self.present, self.has_left_partition) {
            let azure_rows = azure_examined.unwrap_or_default();
            *rows = (*rows).max(u32::try_from(azure_rows).unwrap_or(u32::MAX));
        }
        self.take();
        self.taken
    }

    fn take(&mut self) {
        if let (Some((key, rows)), true) = (self.present.take(), self.taken.is_ok()) {
            let meter = self.meter;
            self.taken = meter.take_entities(self.account, self.table, &key, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn meter(usage: &Usage, targets: Value, now: SystemTime) -> Meter<'_> {
        let targets = Arc::new(Targets::read(&targets).unwrap());
        Meter {
            targets,
            usage,
            now,
        }
    }

    #[test]
    fn names_of_targets_stand_in_their_order() {
        for (index, (target, name, published, min)) in TARGETS.into_iter().enumerate() {
            assert_eq!((target as usize, target.name()), (index, name));
            assert!(published >= min);
        }
    }

    #[test]
    fn targets_are_shown_as_they_were_set() {
        let set = json!({ "partitionEntities": 10, "querySeconds": 0 });
        let (shown, hits) = Targets::read(&set).unwrap().show();
        assert_eq!(shown, set);
        assert_eq!(hits, json!({ "partitionEntities": 0, "querySeconds": 0 }));
        let azure = Targets::read(&json!("azure")).unwrap();
        assert_eq!(azure.limit(Target::TableReuseSeconds), Some(40));
        assert!(
            Targets::read(&json!({ "blobRequests": null }))
                .unwrap()
                .is_empty()
        );
        for (wrong, part) in [
            (json!("aws"), "\"azure\""),
            (json!([]), "JSON object"),
            (json!({ "requests": 1 }), "targets.requests: there is no"),
            (json!({ "blobRequests": 0 }), "targets.blobRequests: 0"),
            (json!({ "blobRequests": 1.5 }), "from 1 up"),
            (json!({ "blobRequests": u64::MAX }), "from 1 up"),
        ] {
            let refused = Targets::read(&wrong).unwrap_err();
            assert!(refused.contains(part), "{wrong}: {refused}");
        }
    }

    #[test]
    fn bucket_allows_a_second_at_once_and_then_its_rate() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut bucket = Bucket::full(10, start);
        for _ in 0..10 {
            bucket.take(1, 10, start).unwrap();
        }
        assert_eq!(bucket.take(1, 10, start), Err(1));
        bucket.take(1, 10, at(101)).unwrap();
        assert_eq!(bucket.take(1, 10, at(101)), Err(1));
        bucket.take(1000, 10, at(5000)).unwrap();
        assert_eq!(bucket.take(1, 10, at(5000)), Err(2), "a debt of a second");
        bucket.take(1, 10, at(6101)).unwrap();
    }

    #[test]
    fn usage_is_bounded_and_keeps_what_is_used() {
        let mut recent = Recent::default();
        for key in 0..1_000_000_u64 {
            recent.entry(key, || key);
            recent.entry(0, || 7);
            assert!(recent.present.len() + recent.past.len() <= 2 * ENTRIES_MAX);
        }
        assert_eq!(recent.find(0), Some(&0));
        assert_eq!(recent.find(1), None);
    }

    #[test]
    fn name_is_free_after_its_time() {
        let usage = Usage::default();
        let azure = json!("azure");
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        meter(&usage, azure.clone(), at(100)).note_deleted(Named::Table, "a", "Table");
        let check = |seconds, account, name| {
            let meter = meter(&usage, azure.clone(), at(seconds));
            meter.check_free(Named::Table, account, name)
        };
        let refused = check(139, "a", "tABLE").unwrap_err();
        assert_eq!(
            (refused.status.as_u16(), &*refused.code),
            (409, "TableBeingDeleted")
        );
        check(140, "a", "table").unwrap();
        check(100, "b", "table").unwrap();
        check(100, "a", "other").unwrap();
        let unlimited = meter(&usage, json!({}), at(100));
        unlimited.check_free(Named::Table, "a", "table").unwrap();
    }

    #[test]
    fn page_counts_the_rows_that_it_examines_in_each_partition() {
        let usage = Usage::default();
        let set = json!({ "partitionEntities": 10 });
        let meter = meter(&usage, set, SystemTime::UNIX_EPOCH);
        let is_free = |partition| meter.take_entities("a", "T", partition, 1).is_ok();

        let mut page = PageRows::new(&meter, "a", "T");
        page.count("p", 6);
        page.count("q", 3);
        page.count("q", 7);
        page.finish(Some(1000)).unwrap();
        assert!(is_free("p") && !is_free("q"));

        let page = || {
            let mut page = PageRows::new(&meter, "a", "T");
            page.count("r", 1);
            page
        };
        page().finish(Some(10)).unwrap();
        assert!(
            page().finish(None).is_err(),
            "Azure examined all that may be"
        );
    }

    #[test]
    fn rates_are_counted_for_each_account_and_resource() {
        let usage = Usage::default();
        let set = json!({ "accountRequests": 8, "blobRequests": 2, "partitionEntities": 3 });
        let meter = meter(&usage, set, SystemTime::UNIX_EPOCH);
        let get = |account, blob| {
            let container = "c";
            meter.admit(account, Subject::Blob { container, blob })
        };
        get("a", "x").unwrap();
        get("a", "x").unwrap();
        let busy = get("a", "x").unwrap_err();
        assert_eq!((busy.status.as_u16(), &*busy.code), (503, "ServerBusy"));
        assert!(busy.headers.contains(&(RETRY_AFTER, 1.into())));
        get("a", "y").unwrap();
        get("b", "x").unwrap();
        meter.take_entities("a", "T", "p", 100).unwrap();
        meter.take_entities("a", "t", "p", 1).unwrap_err();
        meter.take_entities("a", "t", "q", 1).unwrap();
        let other = || meter.admit("a", Subject::Other);
        let admitted = (0..8).filter(|_| other().is_ok()).count();
        assert_eq!(admitted, 4);
        assert_eq!(meter.targets.show().1["accountRequests"], 4);
    }
}

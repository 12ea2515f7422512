//! The rules of tables.

use crate::advice::Finding;
use crate::filter::Shape;
use crate::request::{Keys, QueryFacts, Request};
use crate::rules::{
    DELETES, HOT_ENTITIES, HOT_PERCENT, KEY_QUERIES, LARGE_BYTES, LARGE_PROPERTIES, LOG_DIGITS,
    LOG_INSERTS, NUMERIC_KEYS, ORDERED_INSERTS, Rule, SINGLE_INSERT_PAUSE_SECONDS, SINGLE_INSERTS,
    WASTEFUL_EXAMINED, WASTEFUL_QUERIES, WASTEFUL_RATIO, WIDE_BYTES, WIDE_ENTITIES,
};
use crate::tally::Tally;
use crate::watch::key_order::KeyOrder;
use crate::watch::numbers::Numbers;
use crate::watch::{Contention, Window, is_share};
use std::time::{Duration, SystemTime};

#[derive(Debug, Default)]
pub(crate) struct TableWatch {
    window: Window,
    counters: Counters,
    minute: Minute,
    deletes: Deletes,
    run: InsertRun,
}

/// Counters of one window.
#[derive(Debug)]
struct Counters {
    wasteful: Tally,
    examined: u64,
    returned: u64,
    or_on_keys: Tally,
    row_key_alone: Tally,
    wide: Tally,
    wide_entities: u64,
    wide_bytes: u64,
    large: Tally,
    inserts: Tally,
    log_inserts: Tally,
    /// Inserts whose keys look like a time.
    time_keys: u64,
    /// Updates, deletes and reads by key.
    touched: u64,
    order: KeyOrder,
    row_numbers: Numbers,
    partition_numbers: Numbers,
    numeric: Tally,
    contention: Contention,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            wasteful: Tally::new(WASTEFUL_QUERIES),
            examined: 0,
            returned: 0,
            or_on_keys: Tally::new(KEY_QUERIES),
            row_key_alone: Tally::new(KEY_QUERIES),
            wide: Tally::new(1),
            wide_entities: 0,
            wide_bytes: 0,
            large: Tally::new(1),
            inserts: Tally::new(ORDERED_INSERTS),
            log_inserts: Tally::new(LOG_INSERTS),
            time_keys: 0,
            touched: 0,
            order: KeyOrder::default(),
            row_numbers: Numbers::default(),
            partition_numbers: Numbers::default(),
            numeric: Tally::new(NUMERIC_KEYS),
            contention: Contention::default(),
        }
    }
}

impl TableWatch {
    pub(crate) fn see(
        &mut self,
        request: &Request,
        shape: Option<&Shape>,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        if self.window.begins(request.at) {
            self.counters = Counters::default();
        }
        let partition = partition_of(request, shape);
        if let (Some(partition), true) = (partition, request.is_success()) {
            self.minute
                .see(request, partition, entities_of(request) * weight, findings);
        }
        match request.operation {
            "QueryEntities" if request.is_success() => {
                self.counters.query(request, shape, weight, findings);
            }
            "QueryEntity" => self.counters.touched += weight,
            "InsertEntity" | "InsertOrReplaceEntity" | "InsertOrMergeEntity"
                if request.is_success() =>
            {
                self.counters.insert(request, weight, findings);
                self.run.insert(request, weight, findings);
                self.deletes.other_write(weight, true);
            }
            "UpdateEntity" | "MergeEntity" => {
                self.counters.update(request, weight, findings);
                self.deletes.other_write(weight, false);
            }
            "DeleteEntity" => {
                self.counters.touched += weight;
                self.counters.contention.write(request, weight, findings);
                if request.is_success() {
                    self.deletes.delete(request, weight, findings);
                }
            }
            "EntityGroupTransaction" if request.is_success() => {
                let entities = u64::from(request.transaction_entities) * weight;
                self.deletes.other_write(entities, true);
                self.run = InsertRun::default();
                if let Some(keys) = &request.keys {
                    self.counters.order.insert(keys, weight);
                }
            }
            _ => {}
        }
    }
}

/// The partition that a request is confined to.
pub(crate) fn partition_of<'a>(request: &'a Request, shape: Option<&'a Shape>) -> Option<&'a str> {
    let addressed = request.keys.as_ref().map(|keys| keys.partition.as_str());
    addressed.or_else(|| shape?.partition.as_deref())
}

/// Entities that count against the target of the partition.
pub(crate) fn entities_of(request: &Request) -> u64 {
    let returned = request.query.as_ref().map_or(1, |query| query.returned);
    returned.max(u64::from(request.transaction_entities)).max(1)
}

impl Counters {
    fn query(
        &mut self,
        request: &Request,
        shape: Option<&Shape>,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        let Some(query) = &request.query else {
            return;
        };
        self.scan(request, query, weight, findings);
        self.projection(request, query, weight, findings);
        let Some(shape) = shape else {
            return;
        };
        if shape.has_or_on_keys() {
            self.or_on_keys.add(request, weight);
            if self.or_on_keys.fires() {
                let text = format!(
                    "{} queries joined keys with 'or'; the last one is a {} here and a {} on the hosted service",
                    self.or_on_keys.count,
                    named(&query.plan),
                    named(&query.azure_plan)
                );
                findings.push(Finding::of(Rule::OrOnKeys, request, &self.or_on_keys, text));
            }
        }
        if shape.names_row_key && !shape.names_partition_key {
            self.row_key_alone.add(request, weight);
            if self.row_key_alone.fires() {
                let count = self.row_key_alone.count;
                let text = format!(
                    "{count} queries named RowKey alone: each is a table scan on the hosted service"
                );
                findings.push(Finding::of(
                    Rule::RowKeyWithoutPartitionKey,
                    request,
                    &self.row_key_alone,
                    text,
                ));
            }
        }
    }

    fn scan(
        &mut self,
        request: &Request,
        query: &QueryFacts,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        if query.examined < WASTEFUL_EXAMINED
            || query.returned.saturating_mul(WASTEFUL_RATIO) >= query.examined
        {
            return;
        }
        self.examined += query.examined * weight;
        self.returned += query.returned * weight;
        self.wasteful.add(request, weight);
        if self.wasteful.fires() {
            let text = format!(
                "{} queries examined {} entities and returned {}",
                self.wasteful.count, self.examined, self.returned
            );
            findings.push(Finding::of(
                Rule::WastefulScan,
                request,
                &self.wasteful,
                text,
            ));
        }
    }

    fn projection(
        &mut self,
        request: &Request,
        query: &QueryFacts,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        if query.has_projection || query.returned == 0 {
            return;
        }
        if request.response_bytes / query.returned < WIDE_BYTES {
            return;
        }
        self.wide_entities += query.returned * weight;
        self.wide_bytes += request.response_bytes * weight;
        self.wide.add(request, weight);
        if self.wide_entities >= WIDE_ENTITIES && self.wide.fires() {
            let text = format!(
                "Queries without $select returned {} entities with {} bytes each on average",
                self.wide_entities,
                self.wide_bytes / self.wide_entities
            );
            findings.push(Finding::of(Rule::NoProjection, request, &self.wide, text));
        }
    }

    fn insert(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        self.size(request, weight, findings);
        let Some(keys) = &request.keys else {
            return;
        };
        self.order.insert(keys, weight);
        self.inserts.add(request, weight);
        self.numbers(request, keys, weight, findings);
        let digits = |key: &str| key.bytes().filter(u8::is_ascii_digit).count();
        if digits(&keys.partition) + digits(&keys.row) >= LOG_DIGITS {
            self.time_keys += weight;
        }
        let Some(direction) = self.order.direction() else {
            return;
        };
        if self.inserts.fires() {
            let count = self.inserts.count;
            let text = format!("{count} inserts have {direction} keys");
            findings.push(Finding::of(Rule::OrderedKeys, request, &self.inserts, text));
        }
        self.log(request, weight, findings);
    }

    fn log(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        self.log_inserts.add(request, weight);
        let count = self.log_inserts.count;
        let is_log = self.touched * 100 < count && is_share(self.time_keys, self.inserts.count, 90);
        if is_log && self.log_inserts.fires() {
            let text = format!(
                "{count} entities were appended in the order of time, and {} were read by key, updated or deleted",
                self.touched
            );
            findings.push(Finding::of(
                Rule::LogInTable,
                request,
                &self.log_inserts,
                text,
            ));
        }
    }

    fn numbers(
        &mut self,
        request: &Request,
        keys: &Keys,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        self.row_numbers.see(&keys.row, weight);
        self.partition_numbers.see(&keys.partition, weight);
        self.numeric.add(request, weight);
        let rows = self.row_numbers.unpadded().map(|pair| ("RowKey", pair));
        let partitions = || self.partition_numbers.unpadded();
        let found = rows.or_else(|| partitions().map(|pair| ("PartitionKey", pair)));
        let Some((name, (short, long))) = found else {
            return;
        };
        if self.numeric.fires() {
            let text = format!("{name} ends in numbers of different lengths: {short} and {long}");
            findings.push(Finding::of(
                Rule::UnpaddedNumbers,
                request,
                &self.numeric,
                text,
            ));
        }
    }

    fn update(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        self.touched += weight;
        self.contention.write(request, weight, findings);
        if request.is_success() {
            self.size(request, weight, findings);
        }
    }

    fn size(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        let Some(size) = request.entity else {
            return;
        };
        if size.bytes < LARGE_BYTES && size.properties < LARGE_PROPERTIES {
            return;
        }
        self.large.add(request, weight);
        if self.large.fires() {
            let text = format!(
                "An entity with {} properties and {} bytes was written; the limits are 252 and 1048576",
                size.properties, size.bytes
            );
            findings.push(Finding::of(Rule::LargeEntity, request, &self.large, text));
        }
    }
}

/// A plan as it was named, or that it is not known.
fn named(plan: &str) -> &str {
    if plan.is_empty() {
        "unknown plan"
    } else {
        plan
    }
}

/// Partitions that are counted in each minute.
const PARTITIONS_MAX: usize = 16;

/// The entities that each partition took in the current minute.
#[derive(Debug)]
struct Minute {
    number: u64,
    entities: u64,
    /// The busiest ones: a new partition takes the place of the least busy one and inherits its
    /// count, so no busy partition is missed. With each count, its inherited part.
    partitions: Vec<(String, u64, u64)>,
    hot: Tally,
}

impl Default for Minute {
    fn default() -> Minute {
        Minute {
            number: 0,
            entities: 0,
            partitions: Vec::new(),
            hot: Tally::new(1),
        }
    }
}

impl Minute {
    fn see(
        &mut self,
        request: &Request,
        partition: &str,
        entities: u64,
        findings: &mut Vec<Finding>,
    ) {
        let number = seconds(request.at) / 60;
        if number < self.number {
            // A slow request of an earlier minute.
            return;
        }
        if number > self.number {
            self.number = number;
            self.entities = 0;
            self.partitions.clear();
            self.hot.restart(1);
        }
        self.entities += entities;
        let sure = self.count(partition, entities);
        if sure < HOT_ENTITIES || !is_share(sure, self.entities, HOT_PERCENT) {
            return;
        }
        self.hot.add(request, 1);
        if self.hot.fires() {
            let text = format!(
                "Partition '{partition}' took {sure} of {} entities within a minute",
                self.entities
            );
            findings.push(Finding::of(Rule::HotPartition, request, &self.hot, text));
        }
    }

    /// Counts entities of a partition; returns how many are certainly its own.
    fn count(&mut self, partition: &str, entities: u64) -> u64 {
        let found = self.partitions.iter_mut().find(|one| one.0 == partition);
        if let Some((_, count, inherited)) = found {
            *count += entities;
            return *count - *inherited;
        }
        if self.partitions.len() < PARTITIONS_MAX {
            self.partitions.push((partition.to_owned(), entities, 0));
        } else if let Some(least) = self.partitions.iter_mut().min_by_key(|one| one.1) {
            *least = (partition.to_owned(), least.1 + entities, least.1);
        }
        entities
    }
}

/// Single deletes that follow each other.
#[derive(Debug)]
struct Deletes {
    inserted: u64,
    in_a_row: Tally,
    others: u64,
}

impl Default for Deletes {
    fn default() -> Deletes {
        Deletes {
            inserted: 0,
            in_a_row: Tally::new(DELETES),
            others: 0,
        }
    }
}

impl Deletes {
    fn other_write(&mut self, entities: u64, is_insert: bool) {
        if is_insert {
            self.inserted += entities;
        }
        self.others += entities;
        if self.others * 20 > self.in_a_row.count {
            self.others = 0;
            self.in_a_row.restart(DELETES);
        }
    }

    fn delete(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        self.in_a_row.add(request, weight);
        let deleted = self.in_a_row.count;
        if deleted * 2 >= self.inserted && self.in_a_row.fires() {
            let text = format!("{deleted} entities were deleted one by one");
            findings.push(Finding::of(
                Rule::DeleteByEntity,
                request,
                &self.in_a_row,
                text,
            ));
        }
    }
}

/// Single inserts to one partition that follow each other.
#[derive(Debug)]
struct InsertRun {
    partition: String,
    last_at: SystemTime,
    in_a_row: Tally,
}

impl Default for InsertRun {
    fn default() -> InsertRun {
        InsertRun {
            partition: String::new(),
            last_at: SystemTime::UNIX_EPOCH,
            in_a_row: Tally::new(SINGLE_INSERTS),
        }
    }
}

impl InsertRun {
    fn insert(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        let Some(keys) = &request.keys else {
            return;
        };
        let pause = request.at.duration_since(self.last_at).unwrap_or_default();
        if keys.partition != self.partition
            || pause > Duration::from_secs(SINGLE_INSERT_PAUSE_SECONDS)
        {
            self.partition.clone_from(&keys.partition);
            self.in_a_row.restart(SINGLE_INSERTS);
        }
        self.last_at = request.at;
        self.in_a_row.add(request, weight);
        if self.in_a_row.fires() {
            let text = format!(
                "{} inserts to partition '{}' were sent one by one",
                self.in_a_row.count, self.partition
            );
            findings.push(Finding::of(
                Rule::SingleInserts,
                request,
                &self.in_a_row,
                text,
            ));
        }
    }
}

pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

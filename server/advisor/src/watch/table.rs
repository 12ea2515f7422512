//! The rules of tables.

use crate::advice::Finding;
use crate::filter::Shape;
use crate::request::{Keys, QueryFacts, Request};
use crate::rules::{
    BATCH_ENTITIES, DELETES, KEY_QUERIES, LARGE_BYTES, LARGE_PROPERTIES, LOG_DIGITS, LOG_INSERTS,
    NUMERIC_KEYS, ORDERED_INSERTS, Rule, SINGLE_INSERT_PAUSE_SECONDS, SINGLE_INSERTS,
    WASTEFUL_EXAMINED, WASTEFUL_QUERIES, WASTEFUL_RATIO, WIDE_BYTES, WIDE_ENTITIES,
};
use crate::tally::Tally;
use crate::watch::entities::Entities;
use crate::watch::key_order::{KeyOrder, RowOrder};
use crate::watch::numbers::Numbers;
use crate::watch::partition_load::PartitionLoads;
use crate::watch::scans::Scans;
use crate::watch::{Contention, Window, is_share};
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

#[derive(Debug, Default)]
pub(crate) struct TableWatch {
    window: Window,
    counters: Counters,
    loads: PartitionLoads,
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
    /// Updates, deletes, and reads by both keys or by a range of RowKeys in a partition.
    touched: u64,
    order: KeyOrder,
    row_order: RowOrder,
    entities: Entities,
    scans: Scans,
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
            row_order: RowOrder::default(),
            entities: Entities::default(),
            scans: Scans::default(),
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
        if let (Some((partition, entities)), true) = (load_of(request, shape), request.is_success())
        {
            let entities = entities.saturating_mul(weight);
            self.loads.see(request, partition, entities, findings);
        }
        match request.operation {
            "QueryEntities" if request.is_success() => {
                self.counters.query(request, shape, weight, findings);
            }
            "QueryEntity" => {
                self.counters.touched += weight;
                self.counters.entities.read(request, weight, findings);
            }
            "InsertEntity" | "InsertOrReplaceEntity" | "InsertOrMergeEntity"
                if request.is_success() =>
            {
                self.counters.insert(request, weight, findings);
                self.counters.entities.write(request, weight, findings);
                self.run.insert(request, weight, findings);
                self.deletes.other_write(weight, true);
            }
            "UpdateEntity" | "MergeEntity" => {
                self.counters.update(request, weight, findings);
                self.counters.entities.write(request, weight, findings);
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

/// The partition that a request loads, and the number of entities that count against its target;
/// `None` if they are not known. For a query, these are the entities examined here or on the hosted
/// service, whichever are more. If a query reads several partitions, the one with most rows read
/// counts.
pub(crate) fn load_of<'a>(
    request: &'a Request,
    shape: Option<&'a Shape>,
) -> Option<(&'a str, u64)> {
    if let Some(keys) = &request.keys {
        let entities = u64::from(request.transaction_entities).max(1);
        return Some((&keys.partition, entities));
    }
    let query = request.query.as_ref();
    if let Some(partition) = shape.and_then(|shape| shape.partition.as_deref()) {
        let examined = query.map_or(1, |query| query.examined.max(query.azure_examined));
        return Some((partition, examined.max(1)));
    }
    let (partition, examined) = query?.busiest.as_ref()?;
    Some((partition, *examined))
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
        self.scans.see(request, query, weight, findings);
        self.entities.query(query.returned);
        self.projection(request, query, weight, findings);
        let Some(shape) = shape else {
            return;
        };
        if shape.partition.is_some() && shape.names_row_key {
            self.touched += weight;
        }
        self.keys(request, query, shape, weight, findings);
    }

    /// Filters that the hosted service cannot turn into a range of keys.
    fn keys(
        &mut self,
        request: &Request,
        query: &QueryFacts,
        shape: &Shape,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        if shape.has_or_on_keys() {
            self.or_on_keys.add(request, weight);
            if self.or_on_keys.fires() {
                let text = format!(
                    "{} queries joined keys with 'or'; the plan of the last one is '{}' here and '{}' on the hosted service",
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
        self.numbers(request, keys, weight, findings);
        if !self.order.insert(keys, weight) {
            return;
        }
        self.row_order.insert(keys, weight);
        self.inserts.add(request, weight);
        let digits = |key: &str| key.bytes().filter(u8::is_ascii_digit).count();
        if digits(&keys.partition) + digits(&keys.row) >= LOG_DIGITS {
            self.time_keys += weight;
        }
        if let Some(direction) = self.order.direction()
            && self.inserts.fires()
        {
            let count = self.inserts.count;
            let text = format!("{count} inserts have {direction} keys");
            findings.push(Finding::of(Rule::OrderedKeys, request, &self.inserts, text));
        }
        if self.order.direction().is_some() || self.row_order.is_ordered() {
            self.log(request, weight, findings);
        }
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

/// The name of a plan, or `unknown` if it is empty.
fn named(plan: &str) -> &str {
    if plan.is_empty() { "unknown" } else { plan }
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
    /// RowKeys of the transaction that the latest inserts would share.
    rows: HashSet<String>,
    in_a_row: Tally,
}

impl Default for InsertRun {
    fn default() -> InsertRun {
        InsertRun {
            partition: String::new(),
            last_at: SystemTime::UNIX_EPOCH,
            rows: HashSet::new(),
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
            self.rows.clear();
        }
        self.last_at = request.at;
        if self.rows.len() == BATCH_ENTITIES {
            self.rows.clear();
        }
        // A transaction holds an entity once: an upsert of the same key again cannot join it.
        if !self.rows.insert(keys.row.clone()) {
            return;
        }
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

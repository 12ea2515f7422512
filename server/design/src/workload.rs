//! The requests of a record to one table.

use lazurite_advisor::Recorded;
use std::collections::{BTreeMap, HashSet};

/// Seconds that a record may span: a week. Each second is simulated.
pub const SECONDS_MAX: usize = 7 * 86_400;

/// The keys of an entity, as the record names them.
pub type OldKeys = (String, String);

/// A request that names the entities it reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The second since the first request of the record.
    pub second: usize,
    /// The name in the logs of Storage Analytics.
    pub operation: String,
    /// PartitionKey.
    pub partition: String,
    /// RowKeys: one, or those of a transaction.
    pub rows: Vec<String>,
    /// Nothing was done: an entity was there already or not at all, or its ETag was another one.
    pub is_refused: bool,
}

impl KeyedRequest {
    /// Whether the client sends all properties, and thus knows all properties that a key is made
    /// of.
    pub fn sends_all_properties(&self) -> bool {
        matches!(
            self.operation.as_str(),
            "InsertEntity" | "InsertOrReplaceEntity" | "UpdateEntity"
        ) || self.is_transaction()
    }

    /// Whether it is an entity group transaction.
    pub fn is_transaction(&self) -> bool {
        matches!(self.operation.as_str(), "EntityGroupTransaction" | "Batch")
    }

    /// Whether it changes some properties of an entity.
    pub fn is_merge(&self) -> bool {
        matches!(
            self.operation.as_str(),
            "MergeEntity" | "InsertOrMergeEntity"
        )
    }

    /// Whether the request changes anything.
    pub fn is_write(&self) -> bool {
        !matches!(self.operation.as_str(), "GetEntity" | "QueryEntity")
    }
}

/// All requests for one query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedQuery {
    /// The seconds in which its first page was requested.
    pub seconds: Vec<usize>,
    /// Requests, later pages included.
    pub requests: u64,
    /// Entities in all answers.
    pub returned: u64,
}

impl RecordedQuery {
    /// Average number of entities that its client reads each time, at least one.
    pub fn wanted(&self) -> u64 {
        self.returned
            .div_ceil(self.seconds.len().max(1) as u64)
            .max(1)
    }

    /// Minimum number of pages that the client of the query reads each time. Logs do not say how
    /// many entities came back; in their case, the number of requests shows how many pages the
    /// client wanted.
    pub fn pages(&self) -> u64 {
        match self.returned {
            0 => self.requests.div_ceil(self.seconds.len().max(1) as u64),
            _ => 1,
        }
    }
}

/// `$filter`, and `$top`.
pub type Question = (String, Option<u32>);

/// The requests of a record to one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workload {
    /// Number of seconds from the first to the last request, both included; 0 without a request.
    pub seconds: usize,
    /// Requests that name entities, in their order.
    pub keyed: Vec<KeyedRequest>,
    /// Queries.
    pub queries: BTreeMap<Question, RecordedQuery>,
    /// Number of requests that were refused or failed, unless the state of their entities was the
    /// reason. Of the other figures, only `seconds` includes them.
    pub refused: u64,
    /// Number of writes whose keys the logs do not have. Of the other figures, only `seconds`
    /// includes them.
    pub nameless: u64,
    /// Number of transactions for which the logs do not have the table either.
    pub tableless: u64,
}

impl Workload {
    /// Sorts the requests of a record that name the table in any letter case.
    pub fn of(records: &[Recorded], table: &str) -> Workload {
        let is_tableless = |record: &&Recorded| record.table == "$batch";
        let mut workload = Workload {
            tableless: records.iter().filter(is_tableless).count() as u64,
            ..Workload::default()
        };
        let is_of_table = |record: &&Recorded| record.table.eq_ignore_ascii_case(table);
        let of_table = || records.iter().filter(is_of_table);
        // Requests are recorded in the order in which they end, so the first to begin may be
        // anywhere.
        let begin = of_table().map(|record| record.at_ms).min().unwrap_or(0);
        for record in of_table() {
            let second = ((record.at_ms - begin) / 1000) as usize;
            workload.seconds = workload.seconds.max(second + 1);
            workload.take(record, second);
        }
        workload
    }

    fn take(&mut self, record: &Recorded, second: usize) {
        let status = record.refused.unwrap_or(record.status);
        // 404, 409 and 412 are ordinary answers of a table, which Azure bills. Source:
        // Understanding Windows Azure Storage Billing.
        if status >= 400 && !matches!(status, 404 | 409 | 412) {
            self.refused += 1;
        } else if let Some(partition) = &record.partition_key
            && !record.row_keys.is_empty()
        {
            self.keyed.push(KeyedRequest {
                second,
                operation: record.operation.clone(),
                partition: partition.clone(),
                rows: record.row_keys.clone(),
                is_refused: status >= 400,
            });
        } else if record.operation == "QueryEntities" {
            let question = (record.filter.clone().unwrap_or_default(), record.top);
            let query = self.queries.entry(question).or_default();
            if !record.is_continuation || query.seconds.is_empty() {
                query.seconds.push(second);
            }
            query.requests += 1;
            query.returned = query.returned.saturating_add(record.returned);
        } else {
            self.nameless += 1;
        }
    }

    /// The entities that the record names.
    pub fn named(&self) -> HashSet<OldKeys> {
        let keys = |request: &KeyedRequest| {
            let partition = request.partition.clone();
            request
                .rows
                .iter()
                .map(move |row| (partition.clone(), row.clone()))
                .collect::<Vec<_>>()
        };
        self.keyed.iter().flat_map(keys).collect()
    }

    /// Writes that changed nothing, because of what was there. Azure bills them.
    pub fn refused_writes(&self) -> u64 {
        let is_refused = |request: &&KeyedRequest| request.is_write() && request.is_refused;
        self.keyed.iter().filter(is_refused).count() as u64
    }

    /// All requests that count.
    pub fn requests(&self) -> u64 {
        let queries = self
            .queries
            .values()
            .map(|query| query.requests)
            .sum::<u64>();
        self.keyed.len() as u64 + queries
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn keyed(at_ms: u64, operation: &str, partition: &str, rows: &[&str]) -> Recorded {
        Recorded {
            at_ms,
            table: "T".to_owned(),
            operation: operation.to_owned(),
            status: 204,
            partition_key: Some(partition.to_owned()),
            row_keys: rows.iter().map(|&row| row.to_owned()).collect(),
            ..Recorded::default()
        }
    }

    pub fn query(at_ms: u64, filter: &str, returned: u64, is_continuation: bool) -> Recorded {
        Recorded {
            at_ms,
            table: "t".to_owned(),
            operation: "QueryEntities".to_owned(),
            status: 200,
            filter: Some(filter.to_owned()),
            returned,
            is_continuation,
            ..Recorded::default()
        }
    }

    #[test]
    fn a_record_is_sorted_by_what_is_asked() {
        let mut other = keyed(0, "GetEntity", "p", &["r"]);
        other.table = "Other".to_owned();
        let mut refused = keyed(2000, "InsertEntity", "p", &["r"]);
        refused.status = 409;
        let mut transaction = keyed(2000, "EntityGroupTransaction", "p", &["r", "3"]);
        (transaction.status, transaction.refused) = (202, Some(412));
        let mut too_large = transaction.clone();
        too_large.refused = Some(413);
        let mut invalid = query(0, "x", 0, false);
        invalid.status = 400;
        let records = [
            other,
            invalid,
            keyed(1000, "Batch", "p", &["1", "2"]),
            query(1500, "A eq 1", 1000, false),
            query(1600, "A eq 1", 500, true),
            query(4100, "A eq 1", 1500, false),
            refused,
            transaction,
            too_large,
        ];
        let workload = Workload::of(&records, "T");
        assert_eq!(
            (workload.seconds, workload.requests(), workload.refused),
            (5, 6, 2)
        );
        assert_eq!(workload.named().len(), 4);
        let are_refused = workload.keyed.iter().map(|request| request.is_refused);
        assert_eq!(are_refused.collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(workload.refused_writes(), 2);
        let query = &workload.queries[&("A eq 1".to_owned(), None)];
        assert_eq!((query.requests, query.wanted()), (3, 1500));
        assert_eq!(query.seconds, [1, 4]);
        assert!(workload.keyed[0].is_transaction() && workload.keyed[0].is_write());
        // Logs do not say how many entities came back, and name no table of a transaction.
        let pages = [0, 100, 200, 5000].map(|at| self::query(at, "A eq 1", 0, at > 0 && at < 5000));
        let mut batch = keyed(0, "EntityGroupTransaction", "", &[]);
        batch.table = "$batch".to_owned();
        let logged = Workload::of(&[&pages[..], &[batch]].concat(), "T");
        let of_pages = &logged.queries[&("A eq 1".to_owned(), None)];
        assert_eq!((of_pages.wanted(), of_pages.pages()), (1, 2));
        assert_eq!((logged.requests(), logged.tableless), (4, 1));
        // As Storage Analytics names the read of one entity.
        let reads = Workload::of(&[keyed(0, "QueryEntity", "p", &["1"])], "T");
        assert!(!reads.keyed[0].is_write());
    }
}

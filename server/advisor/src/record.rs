//! Records requests to tables, one by one, while a client asks for them: the input of `lazurite
//! what-if`.
//!
//! The client asks again and again for the requests after a position. Nothing is kept before the
//! first question, or later than [`IDLE_MAX`] seconds after the last one. The newest [`KEPT_MAX`]
//! requests wait. Older ones that were not fetched are dropped and counted.

use crate::request::{Request, Service};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Number of seconds after a question in which requests are kept.
pub const IDLE_MAX: u64 = 10;
/// Maximum number of requests that wait for the next question, and maximum of their bytes.
pub const KEPT_MAX: usize = 65_536;
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Maximum number of requests in one answer, and number of their bytes at which an answer ends.
pub const ANSWER_MAX: usize = 8_192;
const ANSWER_BYTES_MAX: usize = 512 << 10;

/// One request to a table: a line of a record. Values of properties are not in it, except those in
/// filters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The account addressed.
    pub account: String,
    /// The fork of the store addressed; `None` for the store of the account itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<String>,
    /// The table addressed.
    pub table: String,
    /// The name in logs: `InsertEntity`, `QueryEntity` for one by its keys, `QueryEntities`,
    /// `EntityGroupTransaction`.
    pub operation: String,
    /// The status of the answer.
    pub status: u16,
    /// The status of the operation that refused a transaction, of which nothing was done. `status`
    /// is 202 all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u16>,
    /// PartitionKey of the entities that were addressed; `None` for queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// RowKeys of the entities that were addressed: one, or those of a transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_keys: Vec<String>,
    /// `$filter`, decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// `$top`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<u32>,
    /// Whether the query continues an earlier page.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_continuation: bool,
    /// Entities in the answer of a query.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub returned: u64,
    /// Bytes of the body of the request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub request_bytes: u64,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl From<&Request> for Recorded {
    fn from(request: &Request) -> Recorded {
        let at = request.at.duration_since(SystemTime::UNIX_EPOCH);
        let query = request.query.as_ref();
        let keys = request.keys.as_ref();
        let row_keys = match keys {
            Some(keys) if request.transaction_rows.is_empty() => vec![keys.row.clone()],
            _ => request.transaction_rows.clone(),
        };
        Recorded {
            at_ms: at.unwrap_or_default().as_millis() as u64,
            account: request.account.clone(),
            fork: request.fork.clone(),
            table: request.resource.clone(),
            operation: request.operation.to_owned(),
            status: request.status,
            refused: request.refused,
            partition_key: keys.map(|keys| keys.partition.clone()),
            row_keys,
            filter: query.and_then(|query| query.filter.clone()),
            top: query.and_then(|query| query.top),
            is_continuation: query.is_some_and(|query| query.is_continuation),
            returned: query.map_or(0, |query| query.returned),
            request_bytes: request.request_bytes,
        }
    }
}

impl Recorded {
    /// Approximate size in memory: the texts, and a fixed amount for the rest.
    fn bytes(&self) -> usize {
        let rows: usize = self.row_keys.iter().map(|row| row.len() + 32).sum();
        let texts = [&self.partition_key, &self.filter];
        let texts: usize = texts
            .iter()
            .map(|text| text.as_ref().map_or(0, String::len))
            .sum();
        256 + self.account.len() + self.table.len() + rows + texts
    }
}

/// Requests after a position, oldest first.
#[derive(Debug, Serialize)]
pub struct Records {
    /// The requests.
    pub requests: Vec<Recorded>,
    /// Number of requests after the position, of all accounts, that were dropped before this
    /// question.
    pub dropped: u64,
    /// Whether recording was off before this question.
    pub was_off: bool,
    /// The position for the next question.
    pub next: u64,
}

/// Keeps requests while recording is on. Threads share it.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// The time until which requests are kept, in seconds since 1970.
    until: AtomicU64,
    /// Whether `kept` may have requests.
    holds: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<Recorded>,
    bytes: usize,
    /// The position of the newest request.
    newest: u64,
}

impl Recorder {
    /// Whether recording is on at `second`. Costs one load of memory that is rarely written.
    pub(crate) fn is_on(&self, second: u64) -> bool {
        second < self.until.load(Ordering::Relaxed)
    }

    /// Keeps a request of the Table service.
    pub(crate) fn push(&self, request: &Request) {
        if request.service != Service::Table || request.resource.is_empty() {
            return;
        }
        let recorded = Recorded::from(request);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.newest += 1;
        kept.bytes += recorded.bytes();
        kept.requests.push_back(recorded);
        while kept.requests.len() > KEPT_MAX || kept.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = kept.requests.pop_front() else {
                break;
            };
            kept.bytes -= oldest.bytes();
        }
        self.holds.store(true, Ordering::Relaxed);
    }

    /// Drops requests that were not fetched in time.
    pub(crate) fn forget(&self) {
        // Called for each request: a load is cheap with many processors, a swap is not.
        if self.holds.load(Ordering::Relaxed) && self.holds.swap(false, Ordering::Relaxed) {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.requests = VecDeque::new();
            kept.bytes = 0;
        }
    }

    /// Returns the requests of `account`, in its own store or in `fork`, after position `after`, at
    /// most [`ANSWER_MAX`]; none for the first question, which has no position. Requests are kept
    /// for [`IDLE_MAX`] more seconds. A position of another run of the server counts as the newest.
    pub(crate) fn records(
        &self,
        account: &str,
        fork: Option<&str>,
        after: Option<u64>,
        second: u64,
    ) -> Records {
        let was_on = self.is_on(second);
        self.until.store(second + IDLE_MAX, Ordering::Relaxed);
        if !was_on {
            self.forget();
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = kept.newest;
        let oldest = newest - kept.requests.len() as u64;
        let after = after.map_or(newest, |after| after.min(newest));
        let from = after.max(oldest);
        let mut next = from;
        let (mut requests, mut bytes) = (Vec::new(), 0);
        for request in kept.requests.range((from - oldest) as usize..) {
            let is_full = requests.len() == ANSWER_MAX || bytes >= ANSWER_BYTES_MAX;
            if is_full {
                break;
            }
            next += 1;
            if request.account == account && request.fork.as_deref() == fork {
                bytes += request.bytes();
                requests.push(request.clone());
            }
        }
        Records {
            requests,
            dropped: from - after,
            was_off: !was_on,
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Keys, QueryFacts};

    fn request(resource: &str) -> Request {
        let mut request = Request::new(Service::Table, "GetEntity", SystemTime::UNIX_EPOCH);
        request.account = "a".to_owned();
        request.resource = resource.to_owned();
        request.keys = Some(Keys {
            partition: "p".to_owned(),
            row: "r".to_owned(),
        });
        request
    }

    #[test]
    fn nothing_is_recorded_unless_somebody_asks() {
        let recorder = Recorder::default();
        assert!(!recorder.is_on(100));
        assert_eq!(recorder.records("a", None, None, 100).next, 0);
        assert!(recorder.is_on(100 + IDLE_MAX - 1) && !recorder.is_on(100 + IDLE_MAX));
        recorder.push(&request("T"));
        let records = recorder.records("a", None, Some(0), 105);
        assert_eq!((records.requests.len(), records.next), (1, 1));
        assert_eq!(records.requests[0].row_keys, ["r"]);
        // A client that begins now does not get earlier requests.
        let records = recorder.records("a", None, None, 106);
        assert_eq!((records.requests.len(), records.next), (0, 1));
    }

    #[test]
    fn a_slow_reader_is_told_what_it_missed() {
        let recorder = Recorder::default();
        recorder.records("a", None, None, 0);
        for _ in 0..KEPT_MAX + 7 {
            recorder.push(&request("T"));
        }
        let records = recorder.records("a", None, Some(0), 2);
        let count = records.requests.len() as u64;
        assert!(count > 1000 && count <= ANSWER_MAX as u64);
        assert_eq!((records.dropped, records.next), (7, 7 + count));
        let bytes = serde_json::to_vec(&records).unwrap().len();
        assert!(bytes < 2 * ANSWER_BYTES_MAX, "{bytes}");
        let restarted = recorder.records("a", None, Some(1 << 40), 2);
        assert_eq!((restarted.requests.len(), restarted.dropped), (0, 0));
        // Waiting requests are dropped if they are not fetched in time.
        let records = recorder.records("a", None, Some(8), 200);
        assert_eq!(
            (records.requests.len(), records.dropped),
            (0, KEPT_MAX as u64 - 1)
        );
    }

    #[test]
    fn bytes_of_waiting_requests_are_bounded() {
        let recorder = Recorder::default();
        recorder.records("a", None, None, 0);
        let mut large = request("T");
        large.transaction_rows = vec!["r".repeat(1024); 100];
        for _ in 0..1000 {
            recorder.push(&large);
        }
        assert!(recorder.kept.lock().unwrap().bytes <= KEPT_BYTES_MAX);
        recorder.forget();
        let kept = recorder.kept.lock().unwrap();
        assert_eq!((kept.bytes, kept.requests.capacity()), (0, 0));
    }

    #[test]
    fn accounts_see_their_own_requests() {
        let recorder = Recorder::default();
        recorder.records("b", None, None, 0);
        recorder.push(&request("T"));
        let records = recorder.records("b", None, Some(0), 0);
        assert_eq!((records.requests.len(), records.next), (0, 1));
    }

    #[test]
    fn a_fork_has_a_record_of_its_own() {
        let recorder = Recorder::default();
        recorder.records("a", None, None, 0);
        recorder.push(&request("T"));
        let mut of_fork = request("T");
        of_fork.fork = Some("f".to_owned());
        recorder.push(&of_fork);
        for fork in [None, Some("f")] {
            let records = recorder.records("a", fork, Some(0), 0);
            let forks = records
                .requests
                .iter()
                .map(|recorded| recorded.fork.as_deref());
            assert_eq!(forks.collect::<Vec<_>>(), [fork]);
        }
    }

    #[test]
    fn lines_are_read_back() {
        let mut query = request("T");
        query.keys = None;
        query.query = Some(QueryFacts {
            filter: Some("A eq 'b'".to_owned()),
            top: Some(5),
            returned: 3,
            is_continuation: true,
            ..QueryFacts::default()
        });
        let mut transaction = request("T");
        transaction.transaction_rows = vec!["1".to_owned(), "2".to_owned()];
        let mut refused = transaction.clone();
        refused.refused = Some(409);
        for request in [request("T"), query, transaction, refused] {
            let recorded = Recorded::from(&request);
            let line = serde_json::to_string(&recorded).unwrap();
            assert!(!line.contains("null"), "{line}");
            assert_eq!(serde_json::from_str::<Recorded>(&line).unwrap(), recorded);
        }
    }
}

//! The last requests in memory, for the pages of Requests and `lazurite requests`.
//!
//! Bounded by number and by bytes. The oldest records are dropped and counted, but the last records
//! of each resource are kept for longer (`aside.rs`). A record costs its request one copy of the
//! head, one of the start of each body (`request/body_copy.rs`), and one short lock at its end.
//! Watchers poll, so there is no further cost without them. At high rates most requests are only
//! counted, unless they are refused or fail: see `SECOND_RECORDS_MAX`. Secrets in heads are removed
//! before a record is kept, secrets in bodies before a body is shown.
//!
//! Bodies take at most half of the ring's bytes. To make room, the bodies of the oldest records are
//! dropped before the records are.

mod aside;
mod head;
mod record;
mod under_way;
mod why_refused;

pub use aside::OF_RESOURCE_MAX;
pub use head::{
    Header, head_of, is_secret, plan_of, plan_with, push_headers, text_in, without_secrets,
};
pub use record::{Bodies, Record};
pub use under_way::RequestUnderWay;
pub use why_refused::WhyRefused;

use crate::request::body_copy::{BodyCopy, CopyBudget};
use aside::Aside;
use axum::http::header::{HeaderMap, HeaderName};
use lazurite_base::locks::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// A request with this header, and the value `ignore`, is not kept: the probes of `lazurite doctor`
/// would look like errors of clients.
pub const HEADER: &str = "x-lazurite-requests";
/// Maximum number of requests kept of each second. Beyond it, only requests that are refused or
/// fail are kept, without their headers: a busy server spends no time on records that are dropped
/// before they can be read.
const SECOND_RECORDS_MAX: u32 = 2000;
const ENCRYPTION_KEY: HeaderName = HeaderName::from_static("x-ms-encryption-key");
/// At most one in this many records is a displaced one (`aside.rs`).
const ASIDE_SHARE: usize = 4;

/// The counts of the ring since the server started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub seen: u64,
    pub errors: u64,
    /// Number of requests that were counted but not kept.
    pub skipped: u64,
    pub kept: u64,
    /// The position of the newest record.
    pub newest: u64,
}

/// The ring of the last requests: see the head of this file.
#[derive(Debug)]
pub struct Ring {
    count_max: usize,
    bytes_max: usize,
    errors: AtomicU64,
    opened: Instant,
    /// The current second, counted from `opened`.
    second: AtomicU64,
    /// Number of requests kept in the current second. Threads that begin a second at the same time
    /// may let a few more pass.
    in_second: AtomicU32,
    /// On its own cache line: a busy server writes this field for each request, and reads the
    /// fields beside it.
    skipped: OwnLine<AtomicU64>,
    copies: Arc<CopyBudget>,
    kept: Mutex<Kept>,
}

/// A value on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

#[derive(Debug, Default)]
struct Kept {
    /// The newest records, without a gap.
    records: VecDeque<Arc<Record>>,
    /// The number of records in `records`, by resource.
    of_resource: HashMap<u64, usize>,
    /// Older records, displaced from `records`.
    aside: Aside,
    /// Memory of all records, without their bodies.
    bytes: usize,
    /// The position of the newest record.
    newest: u64,
    /// Records at this position and before have lost their bodies.
    bodies_behind: u64,
}

impl Kept {
    /// The records after position `after`, oldest first.
    fn behind(&self, after: u64) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        let from = after.saturating_add(1);
        let first = self.records.front().map_or(from, |record| record.number);
        let skipped = from.saturating_sub(first).min(self.records.len() as u64);
        let newest = self.records.range(skipped as usize..);
        self.aside.range(from..).chain(newest)
    }

    fn len(&self) -> usize {
        self.aside.len() + self.records.len()
    }

    /// Drops the oldest record that need not be kept aside for its resource. The newest record
    /// always stays. Returns the dropped record; `None` if only the newest is left.
    fn drop_oldest(&mut self, aside_max: usize) -> Option<Arc<Record>> {
        let mut dropped = None;
        while dropped.is_none() && self.records.len() > 1 {
            let oldest = self.records.pop_front()?;
            let newer = self.count_one_less(oldest.resource);
            dropped = self.aside.put(oldest, newer, aside_max);
        }
        let dropped = dropped.or_else(|| self.aside.pop_oldest())?;
        self.bytes = self.bytes.saturating_sub(dropped.bytes());
        Some(dropped)
    }

    /// Adds the newest record. Returns a record that was dropped because there were too many of its
    /// resource.
    fn push(&mut self, record: Record) -> Option<Arc<Record>> {
        let resource = record.resource;
        self.bytes += record.bytes();
        self.records.push_back(Arc::new(record));
        if resource == 0 {
            return None;
        }
        let count = self.of_resource.entry(resource).or_default();
        *count += 1;
        let dropped = self.aside.trim(resource, *count)?;
        self.bytes = self.bytes.saturating_sub(dropped.bytes());
        Some(dropped)
    }

    /// Counts one record of the resource less. Returns how many are left in the ring.
    fn count_one_less(&mut self, resource: u64) -> usize {
        let Some(count) = self.of_resource.get_mut(&resource) else {
            return 0;
        };
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.of_resource.remove(&resource);
        }
        left
    }

    /// Drops the bodies of the oldest record that still has them; `None` if no record has.
    fn drop_bodies(&mut self) -> Option<[Vec<u8>; 2]> {
        let record = self.behind(self.bodies_behind).next()?.clone();
        self.bodies_behind = record.number;
        let bodies = record.bodies.as_ref();
        Some(bodies.map_or_else(Default::default, |bodies| {
            [bodies.request.clear(), bodies.response.clear()]
        }))
    }
}

/// Records after a position, oldest first.
#[derive(Debug)]
pub struct Batch {
    pub records: Vec<Arc<Record>>,
    /// Number of records between the position and `next` that were dropped before this call.
    pub missed: u64,
    /// The position from which to continue.
    pub next: u64,
}

impl Ring {
    /// A ring of at most `count_max` records (0: keeps none) and about `bytes_max` bytes.
    pub fn new(count_max: usize, bytes_max: usize) -> Ring {
        let kept = Kept {
            records: VecDeque::with_capacity(count_max),
            ..Kept::default()
        };
        Ring {
            count_max,
            bytes_max,
            errors: AtomicU64::new(0),
            opened: Instant::now(),
            second: AtomicU64::new(0),
            in_second: AtomicU32::new(0),
            skipped: OwnLine::default(),
            copies: Arc::new(CopyBudget::new(0, 0)),
            kept: Mutex::new(kept),
        }
    }

    /// Makes the ring keep up to `body_bytes_max` bytes of each body; 0: none.
    pub fn with_bodies(mut self, body_bytes_max: usize) -> Ring {
        // Requests under way may hold copies, and dropping older records does not free these. So
        // all copies may take more than the half of the bytes that bodies may have in the ring.
        self.copies = Arc::new(CopyBudget::new(body_bytes_max, self.bytes_max / 4 * 3));
        self
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// Whether the ring keeps records.
    fn is_on(&self) -> bool {
        self.count_max > 0
    }

    /// Copies for a request's bodies; `None` if disabled, or for content with a customer key.
    fn copies_for(&self, headers: &HeaderMap) -> Option<Bodies> {
        let is_kept = self.copies.is_on() && !headers.contains_key(&ENCRYPTION_KEY);
        is_kept.then(|| Bodies {
            request: BodyCopy::new(&self.copies),
            response: BodyCopy::new(&self.copies),
        })
    }

    /// Whether a request that begins now can be kept, by the limit per second.
    fn has_room(&self, now: Instant) -> bool {
        let second = now.duration_since(self.opened).as_secs();
        if self.second.load(Ordering::Relaxed) != second {
            self.second.store(second, Ordering::Relaxed);
            self.in_second.store(0, Ordering::Relaxed);
        }
        self.in_second.load(Ordering::Relaxed) < SECOND_RECORDS_MAX
            && self.in_second.fetch_add(1, Ordering::Relaxed) < SECOND_RECORDS_MAX
    }

    fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that is not kept.
    fn skip(&self) {
        self.skipped.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the record of a finished request, dropping older ones to make room.
    fn push(&self, mut record: Record) {
        record.resource = record.resource_number();
        let aside_max = self.count_max / ASIDE_SHARE;
        let mut kept = self.kept();
        kept.newest += 1;
        record.number = kept.newest;
        let mut dropped = kept.push(record);
        // The last dropped record and bodies are freed after the lock is released. If more are
        // dropped, which is rare, the others are freed under the lock.
        let mut bodies = None;
        while self.copies.bytes() > self.bytes_max / 2
            && let Some(dropped) = kept.drop_bodies()
        {
            bodies = Some(dropped);
        }
        while kept.len() > self.count_max || kept.bytes + self.copies.bytes() > self.bytes_max {
            match kept.drop_oldest(aside_max) {
                Some(oldest) => dropped = Some(oldest),
                None => break,
            }
        }
        drop(kept);
        drop((dropped, bodies));
    }

    pub fn totals(&self) -> Totals {
        let kept = self.kept();
        let skipped = self.skipped.0.load(Ordering::Relaxed);
        Totals {
            seen: kept.newest + skipped,
            errors: self.errors.load(Ordering::Relaxed),
            skipped,
            kept: kept.len() as u64,
            newest: kept.newest,
        }
    }

    /// Of the first `count_max` records after position `after`, those that `is_shown` accepts.
    pub fn after(&self, after: u64, count_max: usize, is_shown: impl Fn(&Record) -> bool) -> Batch {
        let kept = self.kept();
        // Copied first: `is_shown` may be slow, and every request needs the lock.
        let candidates: Vec<_> = kept.behind(after).take(count_max).cloned().collect();
        let next = candidates
            .last()
            .map_or(kept.newest, |record| record.number);
        drop(kept);
        let passed = next.saturating_sub(after);
        Batch {
            missed: passed.saturating_sub(candidates.len() as u64),
            records: candidates
                .into_iter()
                .filter(|record| is_shown(record))
                .collect(),
            next,
        }
    }

    /// The newest records after position `after` that `is_wanted` accepts, at most `count_max`,
    /// newest first; and the position of the newest record of all. `is_wanted` runs under the lock
    /// that every request takes at its end.
    pub fn newest(
        &self,
        after: u64,
        count_max: usize,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> (u64, Vec<Arc<Record>>) {
        let kept = self.kept();
        let newest = kept.behind(after).rev();
        let wanted = newest.filter(|record| is_wanted(record)).take(count_max);
        (kept.newest, wanted.cloned().collect())
    }

    /// The newest records that `is_shown` accepts, newest first, at most `count_max`.
    pub fn latest(&self, count_max: usize, is_shown: impl Fn(&Record) -> bool) -> Vec<Arc<Record>> {
        let all: Vec<_> = self.kept().behind(0).rev().cloned().collect();
        all.into_iter()
            .filter(|record| is_shown(record))
            .take(count_max)
            .collect()
    }

    /// Like [`Ring::latest`], limited to requests that were refused or failed.
    pub fn latest_errors(
        &self,
        count_max: usize,
        is_shown: impl Fn(&Record) -> bool,
    ) -> Vec<Arc<Record>> {
        self.latest(count_max, |record| record.is_error() && is_shown(record))
    }

    /// The record of the request whose response had this id.
    pub fn find(&self, request_id: &str) -> Option<Arc<Record>> {
        let kept = self.kept();
        let mut records = kept.behind(0).rev();
        let found = records.find(|record| record.request_id == request_id);
        found.cloned()
    }
}

#[cfg(test)]
mod tests;

//! Takes finished requests from many threads at little cost, and applies the rules to them in turn.
//!
//! A thread samples its requests without touching memory of other threads. It takes the first
//! [`FULL_A_SECOND`] requests of each second, and after these one in [`SAMPLE_MEAN`] on average. A
//! sampled request also counts for those skipped before it. Requests that are taken go into the
//! buffer of a shard, whose lock no other thread holds in the usual case. A thread that finds its
//! buffer full or old empties all buffers and applies the rules. If another thread is doing so,
//! requests stay in the buffer. Beyond [`SHARD_MAX`], they are dropped and counted.

use crate::advice::{Advice, AdviceBook};
use crate::bounded::BoundedMap;
use crate::filter::Shape;
use crate::heat::{Heat, HeatMap, Place};
use crate::record::{Recorder, Records};
use crate::request::{Request, Service, seconds};
use crate::watch::blob::ContainerWatch;
use crate::watch::queue::QueueWatch;
use crate::watch::table::{TableWatch, load_of};
use serde::Serialize;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

/// Number of requests in each second that a thread takes without sampling.
pub const FULL_A_SECOND: u32 = 256;
/// Average number of requests that a sampled request counts for.
pub const SAMPLE_MEAN: u32 = 32;
/// Maximum number of requests that wait in one shard.
pub const SHARD_MAX: usize = 1024;
/// Number of waiting requests at which a shard is emptied.
const SHARD_FULL: usize = 64;
/// Age of the oldest waiting request at which a shard is emptied.
const SHARD_AGE_MAX: Duration = Duration::from_secs(1);
const SHARDS: usize = 16;
/// Maximum number of tables that are watched, of queues, and of containers.
pub const RESOURCES_MAX: usize = 128;

/// The state by which a thread chooses the requests that it takes.
#[derive(Debug, Clone, Copy)]
struct Sampler {
    shard: usize,
    second: u64,
    taken: u32,
    /// Number of requests to skip before the next one is taken, and number of requests that this
    /// one counts for.
    skip: u32,
    gap: u32,
    random: u32,
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SAMPLER: Cell<Sampler> = Cell::new(Sampler::new(THREADS.fetch_add(1, Ordering::Relaxed)));
}

impl Sampler {
    fn new(thread: usize) -> Sampler {
        Sampler {
            shard: thread % SHARDS,
            second: 0,
            taken: 0,
            skip: 0,
            gap: 1,
            random: 0x9e37_79b9 ^ (thread as u32 + 1),
        }
    }

    /// The number of requests that this one counts for; 0 if it is not taken.
    fn weight(&mut self, second: u64) -> u32 {
        if second != self.second {
            (self.second, self.taken) = (second, 0);
        }
        if self.taken < FULL_A_SECOND {
            self.taken += 1;
            return 1;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return 0;
        }
        let weight = self.gap;
        // Gaps vary, so that a client that repeats the same few requests is not always sampled at
        // the same one. Source: Marsaglia, Xorshift RNGs.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.gap = 1 + self.random % (2 * SAMPLE_MEAN - 1);
        self.skip = self.gap - 1;
        weight
    }
}

#[derive(Debug)]
struct Sample {
    weight: u32,
    request: Request,
}

/// Alone in its cache lines, so that threads do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Vec<Sample>>);

/// The advisor of a server.
#[derive(Debug, Default)]
pub struct Advisor {
    shards: [Shard; SHARDS],
    state: Mutex<State>,
    dropped: AtomicU64,
    recorder: Recorder,
}

#[derive(Debug)]
struct State {
    tables: BoundedMap<(String, String), TableWatch>,
    queues: BoundedMap<(String, String), QueueWatch>,
    containers: BoundedMap<(String, String), ContainerWatch>,
    book: AdviceBook,
    heat: Heat,
    requests: u64,
}

impl Default for State {
    fn default() -> State {
        State {
            tables: BoundedMap::new(RESOURCES_MAX),
            queues: BoundedMap::new(RESOURCES_MAX),
            containers: BoundedMap::new(RESOURCES_MAX),
            book: AdviceBook::default(),
            heat: Heat::default(),
            requests: 0,
        }
    }
}

/// All advice so far.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Number of requests that the advice is based on; an estimate if some were sampled.
    pub requests: u64,
    /// Number of requests and of findings that were dropped because a buffer was full.
    pub dropped: u64,
    /// The advice, in the order in which it was given.
    pub advice: Vec<Advice>,
}

impl Advisor {
    /// Decides whether a request that arrived at `at` is taken. Returns its weight for
    /// [`Advisor::observe`]: the number of requests that it counts for, or 0 if it is only
    /// recorded. `None` if the request is not taken.
    pub fn sample(&self, at: SystemTime) -> Option<u32> {
        let weight = SAMPLER.with(|cell| {
            let mut sampler = cell.get();
            let weight = sampler.weight(seconds(at));
            cell.set(sampler);
            weight
        });
        (weight > 0 || self.is_recording(at)).then_some(weight)
    }

    /// Whether requests that arrive at `at` are recorded.
    pub fn is_recording(&self, at: SystemTime) -> bool {
        self.recorder.is_on(seconds(at))
    }

    /// Returns the recorded requests of an account, or of its fork, after the position `after`.
    /// Without a position, as in a client's first call, returns no requests. Each call lets
    /// recording go on for ten seconds.
    pub fn records(
        &self,
        account: &str,
        fork: Option<&str>,
        after: Option<u64>,
        now: SystemTime,
    ) -> Records {
        self.recorder.records(account, fork, after, seconds(now))
    }

    /// Takes a finished request that counts as `weight` requests. Returns advice that is new, which
    /// is rare.
    pub fn observe(&self, weight: u32, mut request: Request) -> Vec<Advice> {
        let at = request.at;
        if self.is_recording(at) {
            self.recorder.push(&request)
        } else {
            self.recorder.forget()
        }
        request.clip();
        if weight == 0 {
            return Vec::new();
        }
        let is_due = {
            let mut waiting = lock(&self.shards[SAMPLER.get().shard].0);
            if waiting.len() >= SHARD_MAX {
                self.dropped.fetch_add(u64::from(weight), Ordering::Relaxed);
            } else {
                waiting.push(Sample { weight, request });
            }
            let oldest = waiting.first().map(|sample| sample.request.at);
            let age = oldest.and_then(|oldest| at.duration_since(oldest).ok());
            waiting.len() >= SHARD_FULL || age.is_some_and(|age| age >= SHARD_AGE_MAX)
        };
        if !is_due {
            return Vec::new();
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        self.collect(&mut state)
    }

    /// All advice so far, and the pieces of it that are new.
    pub fn report(&self) -> (Report, Vec<Advice>) {
        let mut state = lock(&self.state);
        let new = self.collect(&mut state);
        let report = Report {
            requests: state.requests,
            dropped: self.dropped.load(Ordering::Relaxed) + state.book.dropped,
            advice: state.book.advice.clone(),
        };
        (report, new)
    }

    /// The heat map up to the minute of `now`, and advice that is new.
    pub fn heat_map(&self, now: SystemTime) -> (HeatMap, Vec<Advice>) {
        let mut state = lock(&self.state);
        let new = self.collect(&mut state);
        (state.heat.report(now), new)
    }

    /// Applies the rules to all requests that wait, in the order of their arrival.
    fn collect(&self, state: &mut State) -> Vec<Advice> {
        let mut samples = Vec::new();
        for shard in &self.shards {
            samples.append(&mut lock(&shard.0));
        }
        samples.sort_by_key(|sample| sample.request.at);
        let mut new = Vec::new();
        for sample in &samples {
            state.see(sample, &mut new);
        }
        new
    }
}

/// Locks the mutex, poisoned or not: the state is valid after each step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn see(&mut self, sample: &Sample, new: &mut Vec<Advice>) {
        let Sample { weight, request } = sample;
        let weight = u64::from(*weight);
        self.requests += weight;
        if request.resource.is_empty() {
            return;
        }
        let filter = request
            .query
            .as_ref()
            .and_then(|query| query.filter.as_deref());
        let shape = filter.map(Shape::of);
        let key = (request.account.clone(), request.resource.clone());
        let mut findings = Vec::new();
        match request.service {
            Service::Table => {
                let watch = self.tables.entry(key);
                watch.see(request, shape.as_ref(), weight, &mut findings);
            }
            Service::Queue => self.queues.entry(key).see(request, weight, &mut findings),
            Service::Blob => {
                let watch = self.containers.entry(key);
                watch.see(request, weight, &mut findings);
            }
        }
        self.warm(request, shape.as_ref(), weight);
        for finding in findings {
            new.extend(self.book.note(request, finding).cloned());
        }
    }

    fn warm(&mut self, request: &Request, shape: Option<&Shape>, weight: u64) {
        let load = match request.service {
            Service::Table => load_of(request, shape),
            Service::Queue => Some(("", 1)),
            Service::Blob => request.blob.as_deref().map(|blob| (blob, 1)),
        };
        let Some((partition, count)) = load else {
            return;
        };
        let count = count.saturating_mul(weight);
        let place = Place {
            service: request.service,
            account: request.account.clone(),
            resource: request.resource.clone(),
            partition: partition.to_owned(),
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.heat.see(place, seconds(request.at), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_requests_stand_for_those_between_them() {
        let mut sampler = Sampler::new(0);
        let (mut taken, mut sum) = (0, 0);
        for _ in 0..1_000_000 {
            let weight = sampler.weight(1);
            taken += u32::from(weight > 0);
            sum += weight;
        }
        assert!((25_000..40_000).contains(&taken), "{taken}");
        assert!((999_900..=1_000_000).contains(&sum), "{sum}");
    }

    #[test]
    fn few_requests_are_all_taken() {
        let mut sampler = Sampler::new(0);
        let all = (1..100).all(|second| (0..FULL_A_SECOND).all(|_| sampler.weight(second) == 1));
        assert!(all);
    }

    #[test]
    fn requests_that_cannot_be_looked_at_are_counted() {
        let advisor = Advisor::default();
        let busy = advisor.state.lock().unwrap();
        for _ in 0..SHARD_MAX + 10 {
            let at = SystemTime::UNIX_EPOCH;
            advisor.observe(1, Request::new(Service::Table, "QueryEntity", at));
        }
        drop(busy);
        let (report, _) = advisor.report();
        assert_eq!((report.requests, report.dropped), (SHARD_MAX as u64, 10));
    }
}

//! CommitQueue: group commit. One leader commits the batches of all waiting writers.
//!
//! Writers queue their batches and try to lock the log. The one that succeeds commits the queue in
//! groups: it logs, applies and publishes each group (see [`Stages`]), and wakes the other writers,
//! whose batches are done. `commit.rs` owns the log and applies the batches;
//! `tests/interleavings.rs` runs this file in many orders of its steps.
//!
//! The functions in the path of a commit are inlined: as calls they take 30 ns of a put of 660 ns.
//!
//! Invariants: groups are logged, applied and published one after the other, in the order of their
//! sequence numbers. A queued batch has a leader, or its writer is awake or about to be woken.

use crate::base::health::Health;
use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::base::sync::thread::{self, Thread};
use crate::base::sync::{Mutex, spin_loop};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ptr;
use std::sync::{Arc, OnceLock, TryLockError};
use std::time::Duration;

/// Bytes of batches after which a group takes no more: in a longer group, writers would wait longer
/// for the batches of others.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;

/// Time after which writers notice that their leader has panicked.
const PANIC_NOTICED: Duration = Duration::from_secs(1);

/// Number of times that a writer checks whether the log is free before it sleeps.
const LEAD_TRIES: usize = 50;

/// Maximum number of groups that a leader commits before another writer leads.
const LED_GROUPS_MAX: usize = 16;

/// A batch that can be queued.
pub(crate) trait Queued {
    /// The length of the batch in the log, in bytes.
    fn bytes(&self) -> usize;
    /// The number of sequence numbers that the batch takes.
    fn count(&self) -> u64;
}

/// How a group of batches becomes visible. The leader calls these methods while it holds the log.
pub(crate) trait Stages {
    type Batch: Queued + Debug;
    /// The log. Its last sequence number is the one before the next group.
    type Log: Debug;
    /// The work that `apply` leaves to `publish`.
    type Applied;

    /// Numbers the batches and appends them to the log. Returns the first number. After an error
    /// none of the batches is in the log, unless the error has made the store fail.
    fn log(
        &self,
        log: &mut Self::Log,
        group: &[Arc<Request<Self::Batch>>],
    ) -> Result<SequenceNumber>;
    /// Applies the batches to the memtables. The first has the number `first`.
    fn apply(&self, group: &[Arc<Request<Self::Batch>>], first: SequenceNumber) -> Self::Applied;
    /// Makes everything up to `last` visible.
    fn publish(&self, last: SequenceNumber, applied: Self::Applied);
    /// Whether writers wait for a sync after their commit. The first one to wake begins the sync,
    /// so the others must be woken at once to share it.
    fn awaits_sync(&self) -> bool {
        false
    }
}

/// A batch in the queue, and its writer.
#[derive(Debug)]
pub(crate) struct Request<B> {
    batch: B,
    outcome: OnceLock<Result<SequenceNumber>>,
    writer: Thread,
    /// The other requests of its group, if this writer has to wake them.
    others: OnceLock<Vec<Arc<Request<B>>>>,
}

impl<B> Request<B> {
    #[inline]
    pub(crate) fn batch(&self) -> &B {
        &self.batch
    }

    #[inline]
    fn answer(&self, outcome: Result<SequenceNumber>) {
        let answered = self.outcome.set(outcome);
        assert!(answered.is_ok(), "a batch is in one group");
    }

    /// The outcome, once there is one. Wakes the other requests if they were left to this writer.
    #[inline]
    fn outcome(&self) -> Option<Result<SequenceNumber>> {
        let outcome = self.outcome.get()?.clone();
        if let Some(others) = self.others.get() {
            others.iter().for_each(|other| other.writer.unpark());
        }
        Some(outcome)
    }
}

/// Sets the outcome of a group and wakes its writers. With `wakes_all` the leader wakes them all.
/// Otherwise it wakes one writer, which wakes the rest, because all later batches wait for the
/// leader. A writer that is not parked yet sees its outcome before it parks.
#[inline]
fn answer<B>(
    leader: &Request<B>,
    mut group: Vec<Arc<Request<B>>>,
    outcome: &Result<SequenceNumber>,
    wakes_all: bool,
) {
    let is_leader = |request: &Arc<Request<B>>| ptr::eq(&**request, leader);
    if let Some(index) = group.iter().position(is_leader) {
        group.swap_remove(index).answer(outcome.clone());
    }
    if wakes_all {
        for request in &group {
            request.answer(outcome.clone());
            request.writer.unpark();
        }
        return;
    }
    let Some(first) = group.pop() else {
        return;
    };
    for other in &group {
        other.answer(outcome.clone());
    }
    let left = first.others.set(group);
    debug_assert!(left.is_ok(), "a batch is in one group");
    first.answer(outcome.clone());
    first.writer.unpark();
}

/// The batches that wait to be committed, and the log.
#[derive(Debug)]
pub(crate) struct CommitQueue<S: Stages> {
    health: Arc<Health>,
    queue: Mutex<VecDeque<Arc<Request<S::Batch>>>>,
    log: Mutex<S::Log>,
}

impl<S: Stages> CommitQueue<S> {
    pub(crate) fn new(health: Arc<Health>, log: S::Log) -> CommitQueue<S> {
        CommitQueue {
            health,
            queue: Mutex::new(VecDeque::new()),
            log: Mutex::new(log),
        }
    }

    /// Commits a batch; on return it is visible. Returns the last sequence number of its group.
    /// Errors: those of [`Stages::log`]; `ReadOnly` after a leader has panicked.
    #[inline]
    pub(crate) fn commit(&self, stages: &S, batch: S::Batch) -> Result<SequenceNumber> {
        let request = Arc::new(Request {
            batch,
            outcome: OnceLock::new(),
            others: OnceLock::new(),
            writer: thread::current(),
        });
        lock(&self.queue).push_back(request.clone());
        loop {
            self.try_to_lead(stages, &request)?;
            if let Some(outcome) = request.outcome() {
                return outcome;
            }
            // The lock holder commits this batch or wakes this thread; the timeout detects a leader
            // that panicked.
            thread::park_timeout(PANIC_NOTICED);
        }
    }

    /// Commits queued batches, if the log is free and `request` is not committed yet. A leader
    /// commits several groups, because a thread switch takes longer than a group. Their number is
    /// bounded, because otherwise other writers could prevent it from returning.
    #[inline]
    fn try_to_lead(&self, stages: &S, request: &Request<S::Batch>) -> Result<()> {
        for _ in 0..LEAD_TRIES {
            // This writer's outcome is on a cache line of its own; the lock of the log is
            // contended.
            if request.outcome.get().is_some() {
                return Ok(());
            }
            match self.log.try_lock() {
                Ok(mut log) => {
                    for _ in 0..LED_GROUPS_MAX {
                        let Some(group) = self.take_group() else {
                            break;
                        };
                        commit_group(stages, &mut log, group, request);
                    }
                    drop(log);
                    self.wake_next_leader();
                    return Ok(());
                }
                Err(TryLockError::Poisoned(_)) => return Err(self.broken()),
                // A group takes a few microseconds, less than to sleep and be woken.
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        Ok(())
    }

    /// Call this after unlocking the log: a batch queued meanwhile has no leader.
    fn wake_next_leader(&self) {
        let next = lock(&self.queue).front().cloned();
        if let Some(request) = next {
            request.writer.unpark();
        }
    }

    /// Runs `act` on the locked log, between commits.
    pub(crate) fn with_log<T>(&self, act: impl FnOnce(&mut S::Log) -> T) -> T {
        let done = act(&mut lock(&self.log));
        self.wake_next_leader();
        done
    }

    /// The error after a leader has panicked: any part of its group may have been applied.
    fn broken(&self) -> Error {
        let error = Error::ReadOnly {
            reason: "a commit was broken off by a panic".into(),
        };
        self.health.fail(&error);
        error
    }

    #[inline]
    fn take_group(&self) -> Option<Vec<Arc<Request<S::Batch>>>> {
        let mut queue = lock(&self.queue);
        let mut bytes = 0;
        let fits = |request: &&Arc<Request<S::Batch>>| {
            let before = bytes;
            bytes += request.batch.bytes();
            before < GROUP_BYTES_MAX
        };
        let count = queue.iter().take_while(fits).count();
        (count > 0).then(|| queue.drain(..count).collect())
    }
}

#[inline]
fn commit_group<S: Stages>(
    stages: &S,
    log: &mut S::Log,
    group: Vec<Arc<Request<S::Batch>>>,
    leader: &Request<S::Batch>,
) {
    let first = match stages.log(log, &group) {
        Ok(first) => first,
        Err(error) => return answer(leader, group, &Err(error), true),
    };
    let count: u64 = group.iter().map(|request| request.batch.count()).sum();
    let last = first + count - 1;
    let applied = stages.apply(&group, first);
    stages.publish(last, applied);
    answer(leader, group, &Ok(last), stages.awaits_sync());
}

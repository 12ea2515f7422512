//! The memory that bodies may hold, over all connections together.
//!
//! Bytes that wait for a client to take them, and bytes that wait for a client to send the rest,
//! take memory for as long as the client likes. So all of them come out of one budget. Small bodies
//! are free: they fit into the memory that a connection has anyway.
//!
//! - A response takes part of the budget for the bytes that it reads ahead ([`grant`]). When the
//!   budget is used up, the response continues with [`PIECE_BYTES`] at a time, which takes more
//!   reads but nothing of the budget.
//! - A request waits for room before it holds the bytes of a body that is not small ([`reserve`]),
//!   and before an answer of many parts is made for it ([`crate::response::long_responses`]).
//! - While the budget is short ([`is_short`]), clients that make no progress are cut off sooner.
//! - No credential holds more than three quarters of the budget ([`HOLDER`]). Of the waiting
//!   requests, those whose credential holds the least are served first, so that a client that fills
//!   the memory delays itself.

use lazurite_base::locks::lock;
use lazurite_protocol::response::error::Failure;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;

/// Size of the budget: the maximum number of bytes of bodies in memory that are counted, over all
/// connections.
const BUDGET_BYTES: usize = 40 << 20;
/// Maximum number of bytes of bodies held for one credential.
const HOLDER_BYTES_MAX: usize = BUDGET_BYTES / 4 * 3;
/// Maximum number of bytes that one response reads ahead.
pub const READ_AHEAD_BYTES: usize = 512 << 10;
/// Bytes that a response reads at a time when the budget is used up. They are not counted in the
/// budget.
pub const PIECE_BYTES: usize = 16 << 10;
/// Request bodies of at most this many bytes do not count against the budget.
pub const FREE_BYTES: usize = 64 << 10;
/// Bytes that a client must send or receive in `PACE_SECONDS`, unless fewer are left: about a
/// kilobyte a second, the slowest pace that the hosted service accepts.
pub const PACE_BYTES: u64 = 32 << 10;
/// Maximum time that a request waits for part of the budget.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The holder for memory that is not reserved for a request.
const NONE: u64 = 0;

tokio::task_local! {
    /// A number for the credential of the request that this task serves; unset until it is known.
    pub static HOLDER: Cell<u64>;
}

static BUDGET: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new()));

/// [`State::is_short`] of the budget, readable without its lock.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// The budget: how many bytes each holder has, and the requests that wait.
struct State {
    free: usize,
    held: HashMap<u64, usize>,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    holder: u64,
    bytes: usize,
    ready: oneshot::Sender<MemoryGrant>,
}

/// A request waited for [`WAIT_MAX`], and the budget had no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryExhausted;

/// Part of the budget, given back on drop.
#[derive(Debug)]
pub struct MemoryGrant {
    holder: u64,
    bytes: usize,
}

impl MemoryGrant {
    /// Changes the grant to `bytes`: gives back the excess, or takes the missing bytes, as far as
    /// they are free now.
    pub fn resized(mut self, bytes: usize) -> MemoryGrant {
        if bytes < self.bytes {
            let rest = self.bytes - bytes;
            self.bytes = bytes;
            give_back(self.holder, rest);
        } else {
            let mut state = Locked::new();
            let more = (bytes - self.bytes).min(state.room(self.holder));
            state.take(self.holder, more);
            self.bytes += more;
        }
        self
    }
}

impl Drop for MemoryGrant {
    fn drop(&mut self) {
        give_back(self.holder, self.bytes);
    }
}

/// Takes room for bytes that a response reads ahead: [`READ_AHEAD_BYTES`], or half of that while
/// the budget is short. `None` if that much is not left.
pub fn grant() -> Option<(usize, MemoryGrant)> {
    let bytes = if is_short() {
        READ_AHEAD_BYTES / 2
    } else {
        READ_AHEAD_BYTES
    };
    let grant = Locked::new().grant(NONE, bytes)?;
    Some((bytes, grant))
}

/// Waits for room for the bytes of a body: for three quarters of the budget at most.
pub async fn reserve(bytes: usize) -> Result<MemoryGrant, MemoryExhausted> {
    let holder = HOLDER.try_with(Cell::get).unwrap_or(NONE);
    let bytes = bytes.min(HOLDER_BYTES_MAX);
    let waiting = {
        let mut state = Locked::new();
        match state.grant(holder, bytes) {
            Some(grant) => return Ok(grant),
            None => state.wait(holder, bytes),
        }
    };
    match tokio::time::timeout(WAIT_MAX, waiting).await {
        Ok(Ok(grant)) => Ok(grant),
        _ => Err(MemoryExhausted),
    }
}

/// Whether less than a quarter of the budget is left, or requests wait for more.
pub fn is_short() -> bool {
    IS_SHORT.load(Ordering::Relaxed)
}

fn give_back(holder: u64, bytes: usize) {
    let served = {
        let mut state = Locked::new();
        state.put_back(holder, bytes);
        state.serve()
    };
    // Not under the lock: if a request no longer waits, `send` drops its grant, which takes the
    // lock.
    for (waiting, grant) in served {
        let _ = waiting.ready.send(grant);
    }
}

/// The locked state. Updates [`IS_SHORT`] on drop.
struct Locked(MutexGuard<'static, State>);

impl Locked {
    fn new() -> Locked {
        Locked(lock(&BUDGET))
    }
}

impl Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        IS_SHORT.store(self.0.is_short(), Ordering::Relaxed);
    }
}

impl State {
    fn new() -> State {
        State {
            free: BUDGET_BYTES,
            held: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    fn is_short(&self) -> bool {
        self.free < BUDGET_BYTES / 4 || !self.waiting.is_empty()
    }

    fn held(&self, holder: u64) -> usize {
        self.held.get(&holder).copied().unwrap_or(0)
    }

    /// Number of bytes that a holder may take now.
    fn room(&self, holder: u64) -> usize {
        let own = HOLDER_BYTES_MAX.saturating_sub(self.held(holder));
        own.min(self.free)
    }

    fn take(&mut self, holder: u64, bytes: usize) {
        self.free -= bytes;
        *self.held.entry(holder).or_default() += bytes;
    }

    fn put_back(&mut self, holder: u64, bytes: usize) {
        self.free += bytes;
        if let Some(held) = self.held.get_mut(&holder) {
            *held -= bytes;
            if *held == 0 {
                self.held.remove(&holder);
            }
        }
    }

    /// Takes bytes; `None` if there are too few, or if a waiting request comes first.
    fn grant(&mut self, holder: u64, bytes: usize) -> Option<MemoryGrant> {
        let is_next = self.next().is_none_or(|next| {
            let next = &self.waiting[next];
            self.held(holder) < self.held(next.holder)
        });
        (is_next && bytes <= self.room(holder)).then(|| {
            self.take(holder, bytes);
            MemoryGrant { holder, bytes }
        })
    }

    fn wait(&mut self, holder: u64, bytes: usize) -> oneshot::Receiver<MemoryGrant> {
        // Remove requests that have stopped waiting.
        self.waiting.retain(|waiting| !waiting.ready.is_closed());
        let (ready, receiver) = oneshot::channel();
        self.waiting.push_back(Waiting {
            holder,
            bytes,
            ready,
        });
        receiver
    }

    /// The earliest request of the holder with the fewest bytes, among holders that may take more.
    fn next(&self) -> Option<usize> {
        let waiting = self.waiting.iter().enumerate();
        let may_take = waiting.filter(|(_, waiting)| {
            waiting.bytes + self.held(waiting.holder) <= HOLDER_BYTES_MAX
                && !waiting.ready.is_closed()
        });
        let least = may_take.min_by_key(|(_, waiting)| self.held(waiting.holder));
        least.map(|(place, _)| place)
    }

    /// Grants room to waiting requests until there is too little for the next one.
    fn serve(&mut self) -> Vec<(Waiting, MemoryGrant)> {
        let mut served = Vec::new();
        while let Some(place) = self.next() {
            let (holder, bytes) = (self.waiting[place].holder, self.waiting[place].bytes);
            if bytes > self.free {
                break;
            }
            self.take(holder, bytes);
            let waiting = self.waiting.remove(place).expect("the place was found");
            served.push((waiting, MemoryGrant { holder, bytes }));
        }
        served
    }
}

impl From<MemoryExhausted> for Failure {
    fn from(_: MemoryExhausted) -> Failure {
        let message = "Too many large requests and answers are under way. Try again later.";
        Failure::new(503, "ServerBusy", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = 512 << 10;

    /// Takes all the memory that a holder can get, and returns its bytes. Forgets the grants:
    /// dropping them would return memory to the budget of the process.
    fn fill(state: &mut State, holder: u64) -> usize {
        let grants = std::iter::from_fn(|| state.grant(holder, PART).map(std::mem::forget));
        grants.count() * PART
    }

    #[test]
    fn grants_are_given_back_as_they_shrink_and_when_they_are_dropped() {
        const OWN: u64 = u64::MAX;
        let held = || Locked::new().held(OWN);
        let grant = Locked::new().grant(OWN, 4 * PART).unwrap();
        let grant = grant.resized(PART);
        assert_eq!((grant.bytes, held()), (PART, PART));
        let grant = grant.resized(2 * PART);
        assert_eq!((grant.bytes, held()), (2 * PART, 2 * PART));
        drop(grant);
        assert_eq!(held(), 0);
    }

    #[test]
    fn one_holder_leaves_room_for_others() {
        let mut state = State::new();
        assert_eq!(fill(&mut state, 1), HOLDER_BYTES_MAX);
        assert!(!state.is_short());
        let mut waits = state.wait(1, PART);
        assert!(state.is_short());
        // Holder 2 does not wait behind a request whose holder may take no more.
        assert_eq!(fill(&mut state, 2), BUDGET_BYTES - HOLDER_BYTES_MAX);
        assert!(state.serve().is_empty());
        state.put_back(2, PART);
        assert!(state.serve().is_empty());
        state.put_back(1, PART);
        let served = state.serve();
        assert_eq!(served.len(), 1);
        assert!(waits.try_recv().is_err());
        served
            .into_iter()
            .for_each(|(_, grant)| std::mem::forget(grant));
    }

    #[test]
    fn holders_of_less_go_first_and_large_requests_are_not_passed_for_ever() {
        let mut state = State::new();
        fill(&mut state, 1);
        fill(&mut state, 2);
        let many: Vec<_> = (0..900).map(|_| state.wait(1, PART)).collect();
        let _large = state.wait(3, 4 * PART);
        let _other = state.wait(2, PART);
        state.put_back(1, 3 * PART);
        assert!(state.serve().is_empty(), "the next one needs more");
        assert!(state.grant(1, PART).is_none());
        state.put_back(1, PART);
        let order: Vec<_> = state
            .serve()
            .into_iter()
            .map(|(waiting, grant)| {
                std::mem::forget(grant);
                waiting.holder
            })
            .collect();
        assert_eq!(order, [3]);
        state.put_back(1, PART);
        let served = state.serve();
        assert_eq!(served[0].0.holder, 2);
        served
            .into_iter()
            .for_each(|(_, grant)| std::mem::forget(grant));
        drop(many);
        // Requests that stopped waiting do not hold up others.
        state.put_back(1, PART);
        std::mem::forget(state.grant(1, PART).unwrap());
    }

    #[tokio::test]
    async fn a_share_is_given_back_as_far_as_it_is_not_needed() {
        HOLDER
            .scope(Cell::new(7), async {
                let grant = reserve(512 << 10).await.unwrap();
                assert_eq!((grant.holder, grant.bytes), (7, 512 << 10));
                assert_eq!(grant.resized(100 << 10).bytes, 100 << 10);
                let grant = reserve(512 << 10).await.unwrap();
                assert_eq!(grant.resized(700 << 10).bytes, 700 << 10);
            })
            .await;
    }
}

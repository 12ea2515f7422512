//! BusyPoll: a thread whose next request is about to come looks for it instead of sleeping.
//!
//! To fall asleep and be woken takes some 20 us, on a virtual machine more, and what comes after it finds cold caches: a
//! client that sends one request after the other waited as long for that as for its answer. So a thread looks for up to
//! [`LOOK_MAX`] whether something has come. It does so only where its last request came as soon, so that a client that takes
//! its time costs nothing, and only while no more threads are busy than half of the processors could serve, so that it takes
//! none from its client, or from its neighbours.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// For how long a thread looks. A quick client sends its next request in half of that.
const LOOK_MAX: Duration = Duration::from_micros(100);
/// A thread is busy if it answered a request within about this time.
const BUSY_MAX: Duration = Duration::from_millis(1);
/// How often a thread tells the others that it is: seldom, because it takes a line out of their caches each time.
const TOLD_EVERY: Duration = Duration::from_micros(200);

/// What the threads that serve connections know of each other. Times are in nanoseconds since the beginning; 0 is never.
#[derive(Debug)]
pub struct Threads {
    began: Instant,
    /// By thread, when it told that it had answered a request.
    told: Box<[AtomicU64]>,
    /// While more are busy, none looks.
    busy_max: usize,
}

impl Threads {
    /// So many threads, on a machine of so many processors.
    pub fn new(count: usize, processors: usize) -> Threads {
        Threads {
            began: Instant::now(),
            told: (0..count).map(|_| AtomicU64::new(0)).collect(),
            busy_max: processors / 2,
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn tell(&self, number: usize, now: u64) {
        let told = &self.told[number];
        if !is_within(TOLD_EVERY, told.load(Ordering::Relaxed), now) {
            told.store(now, Ordering::Relaxed);
        }
    }

    fn may_look(&self, now: u64) -> bool {
        let is_busy = |told: &&AtomicU64| is_within(BUSY_MAX, told.load(Ordering::Relaxed), now);
        self.told.iter().filter(is_busy).count() <= self.busy_max
    }
}

/// Whether `then` was, and no longer ago than that.
fn is_within(span: Duration, then: u64, now: u64) -> bool {
    then > 0 && u128::from(now.saturating_sub(then)) < span.as_nanos()
}

/// The lookout of one thread.
struct BusyPoll {
    threads: Arc<Threads>,
    number: usize,
    /// When the last request was answered.
    answered: Cell<u64>,
    /// Whether it came within [`LOOK_MAX`] of the answer before.
    was_soon: Cell<bool>,
    is_wanted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

thread_local! {
    static HERE: OnceCell<BusyPoll> = const { OnceCell::new() };
}

/// Does something with the lookout of this thread, if it has one.
fn here<T>(act: impl FnOnce(&BusyPoll) -> T) -> Option<T> {
    HERE.with(|here| here.get().map(act))
}

impl BusyPoll {
    fn is_soon(&self, now: u64) -> bool {
        is_within(LOOK_MAX, self.answered.get(), now)
    }

    fn looks(&self) -> bool {
        let now = self.threads.now();
        self.is_soon(now) && self.threads.may_look(now)
    }
}

/// A request has come to this thread.
pub fn begun() {
    here(|here| here.was_soon.set(here.is_soon(here.threads.now())));
}

/// A request of this thread is about to be answered.
pub fn answered() {
    here(|here| {
        let now = here.threads.now();
        here.answered.set(now);
        here.threads.tell(here.number, now);
        if here.was_soon.get() && here.threads.may_look(now) {
            here.is_wanted.set(true);
            if let Some(waker) = here.waker.take() {
                waker.wake();
            }
        }
    });
}

/// Keeps this thread, the one with that number, from sleeping while it should not. To be run beside its connections; never ends.
pub async fn keep(threads: Arc<Threads>, number: usize) {
    HERE.with(|here| {
        here.get_or_init(|| BusyPoll {
            threads,
            number,
            answered: Cell::default(),
            was_soon: Cell::default(),
            is_wanted: Cell::default(),
            waker: RefCell::default(),
        });
    });
    loop {
        poll_fn(|task| {
            let is_wanted = here(|here| {
                here.waker.replace(Some(task.waker().clone()));
                here.is_wanted.take()
            });
            match is_wanted {
                Some(true) => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        while here(BusyPoll::looks) == Some(true) {
            // Whoever else wants this processor goes first.
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: u64 = 1000;

    fn may_look(processors: usize, told: &[u64]) -> bool {
        let threads = Threads::new(told.len(), processors);
        for (place, told) in threads.told.iter().zip(told) {
            place.store(*told, Ordering::Relaxed);
        }
        threads.may_look(9000 * MICROS)
    }

    #[test]
    fn as_many_threads_look_as_half_of_the_processors_could_serve() {
        let (now, long_ago, never) = (8500 * MICROS, 7900 * MICROS, 0);
        assert!(may_look(2, &[now, long_ago, never]));
        assert!(!may_look(2, &[now, now, never]));
        assert!(may_look(4, &[now, now, never, never, long_ago]));
        assert!(!may_look(4, &[now, now, now, never, never]));
    }

    #[test]
    fn a_single_processor_is_left_to_the_client() {
        assert!(!may_look(1, &[8990 * MICROS, 0]));
    }

    #[test]
    fn a_thread_tells_that_it_is_busy_before_the_others_forget() {
        let threads = Threads::new(2, 2);
        let told = |at: u64| {
            threads.tell(1, at * MICROS);
            threads.told[1].load(Ordering::Relaxed) / MICROS
        };
        assert_eq!([told(50), told(249), told(251)], [50, 50, 251]);
    }

    #[tokio::test]
    async fn a_thread_looks_only_when_its_last_request_came_soon_after_an_answer() {
        let lookout = tokio::spawn(keep(Arc::new(Threads::new(1, 2)), 0));
        tokio::task::yield_now().await;
        let wanted = || here(|here| here.is_wanted.get()).expect("the lookout has begun");
        begun();
        answered();
        assert!(!wanted(), "nothing is known of the client yet");
        here(|here| here.was_soon.set(true));
        answered();
        assert!(wanted());
        tokio::task::yield_now().await;
        assert!(!wanted(), "it has begun to look");
        let is_soon = |after: u64| {
            here(|here| {
                here.answered.set(1);
                here.is_soon(1 + after)
            })
        };
        let look_max = LOOK_MAX.as_nanos() as u64;
        assert_eq!(is_soon(look_max - 1), Some(true));
        assert_eq!(is_soon(look_max), Some(false));
        lookout.abort();
    }
}

//! A busy poll: a thread whose next request is expected at once polls for it instead of sleeping.
//!
//! Falling asleep and being woken takes some 20 us, on a virtual machine more, and leaves cold caches: a client that sends one
//! request after the other would wait as long for that as for its response. So a thread polls for up to [`LOOK_MAX`]. It does so
//! only where its last request came as soon, so that slow clients cost nothing, and only while no more threads are busy than half
//! of the processors could serve.
//!
//! Other programs on the same processors are not counted but noticed: a thread that loses its processor while it polls finds that
//! one poll took far longer than a poll takes ([`POLL_MAX`]). Then all threads sleep between requests for a while ([`PAUSE`]),
//! longer each time in a row. A thread never gives its processor away while it polls: among busy neighbours it would get it back
//! only after all of their time slices.

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
/// A poll that finds nothing takes a few microseconds. One that took longer than this lost its processor to another program.
const POLL_MAX: Duration = Duration::from_micros(50);
/// For how long no thread polls after that. A pause that begins soon after another is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
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
    /// No thread looks before this time.
    paused_until: AtomicU64,
    /// How long the last pause was.
    last_pause: AtomicU64,
}

impl Threads {
    /// So many threads, on a machine of so many processors.
    pub fn new(count: usize, processors: usize) -> Threads {
        Threads {
            began: Instant::now(),
            told: (0..count).map(|_| AtomicU64::new(0)).collect(),
            busy_max: processors / 2,
            paused_until: AtomicU64::new(0),
            last_pause: AtomicU64::new(0),
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

    /// Stops all polling for a while. Two threads that do so at once only make the pause longer.
    fn pause(&self, now: u64) {
        let (until, last) = (
            self.paused_until.load(Ordering::Relaxed),
            self.last_pause.load(Ordering::Relaxed),
        );
        let is_soon_again = now.saturating_sub(until) < last;
        let first = PAUSE.as_nanos() as u64;
        let pause = if is_soon_again { last * 2 } else { first };
        let pause = pause.min(PAUSE_MAX.as_nanos() as u64);
        self.last_pause.store(pause, Ordering::Relaxed);
        self.paused_until.store(now + pause, Ordering::Relaxed);
    }

    fn may_look(&self, now: u64) -> bool {
        if now < self.paused_until.load(Ordering::Relaxed) {
            return false;
        }
        let is_busy = |told: &&AtomicU64| is_within(BUSY_MAX, told.load(Ordering::Relaxed), now);
        self.told.iter().filter(is_busy).count() <= self.busy_max
    }
}

/// Whether `then` was, and no longer ago than that.
fn is_within(span: Duration, then: u64, now: u64) -> bool {
    then > 0 && u128::from(now.saturating_sub(then)) < span.as_nanos()
}

/// When a poll began, and how much had been done by then.
struct Started {
    at: u64,
    work: u64,
}

/// The busy poll of one thread.
struct BusyPoll {
    threads: Arc<Threads>,
    number: usize,
    /// When the last request was answered.
    answered: Cell<u64>,
    /// Whether it came within [`LOOK_MAX`] of the answer before.
    was_soon: Cell<bool>,
    is_wanted: Cell<bool>,
    /// Requests, and reads and writes of sockets; tells a poll that did something from a poll that lost its processor.
    work: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

thread_local! {
    static HERE: OnceCell<BusyPoll> = const { OnceCell::new() };
}

/// Does something with the busy poll of this thread, if it has one.
fn here<T>(act: impl FnOnce(&BusyPoll) -> T) -> Option<T> {
    HERE.with(|here| here.get().map(act))
}

impl BusyPoll {
    fn is_soon(&self, now: u64) -> bool {
        is_within(LOOK_MAX, self.answered.get(), now)
    }

    /// The state before a poll, if there is to be one.
    fn before_poll(&self) -> Option<Started> {
        let now = self.threads.now();
        let looks = self.is_soon(now) && self.threads.may_look(now);
        looks.then(|| Started {
            at: now,
            work: self.work.get(),
        })
    }

    /// Pauses if the poll found nothing and yet took long.
    fn after_poll(&self, started: &Started) {
        let now = self.threads.now();
        let worked = self.work.get() != started.work;
        if !worked && !is_within(POLL_MAX, started.at, now) {
            self.threads.pause(now);
        }
    }
}

/// A request has come to this thread.
pub fn begun() {
    here(|here| {
        here.work.set(here.work.get() + 1);
        here.was_soon.set(here.is_soon(here.threads.now()));
    });
}

/// A socket of this thread was read or written.
pub fn transferred() {
    here(|here| here.work.set(here.work.get() + 1));
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
            work: Cell::default(),
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
        while let Some(started) = here(BusyPoll::before_poll).flatten() {
            tokio::task::yield_now().await;
            here(|here| here.after_poll(&started));
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
    fn polling_pauses_after_a_slow_poll_and_longer_when_it_happens_again() {
        const MILLIS: u64 = 1000 * MICROS;
        let threads = Threads::new(1, 2);
        assert!(threads.may_look(MILLIS));
        threads.pause(MILLIS);
        assert!(!threads.may_look(100 * MILLIS) && threads.may_look(101 * MILLIS));
        threads.pause(150 * MILLIS);
        assert!(!threads.may_look(349 * MILLIS) && threads.may_look(350 * MILLIS));
        // Long after the end of a pause, the next one is short again.
        threads.pause(600 * MILLIS);
        assert!(threads.may_look(700 * MILLIS));
        for _ in 0..20 {
            threads.pause(600 * MILLIS);
        }
        assert!(threads.may_look(600 * MILLIS + PAUSE_MAX.as_nanos() as u64));
    }

    #[test]
    fn only_a_slow_poll_that_served_no_request_pauses() {
        let poll = BusyPoll {
            threads: Arc::new(Threads::new(1, 2)),
            number: 0,
            answered: Cell::default(),
            was_soon: Cell::default(),
            is_wanted: Cell::default(),
            work: Cell::new(1),
            waker: RefCell::default(),
        };
        std::thread::sleep(POLL_MAX * 2);
        let (slow, now) = (1, poll.threads.now());
        let paused = |at, work| {
            poll.after_poll(&Started { at, work });
            poll.threads.paused_until.load(Ordering::Relaxed) > 0
        };
        assert!(!paused(now + MICROS * 1000, 1), "it was quick");
        assert!(!paused(slow, 0), "it served a request");
        assert!(paused(slow, 1));
    }

    #[test]
    fn a_busy_thread_refreshes_its_mark_in_time() {
        let threads = Threads::new(2, 2);
        let told = |at: u64| {
            threads.tell(1, at * MICROS);
            threads.told[1].load(Ordering::Relaxed) / MICROS
        };
        assert_eq!([told(50), told(249), told(251)], [50, 50, 251]);
    }

    #[tokio::test]
    async fn a_thread_looks_only_when_its_last_request_came_soon_after_an_answer() {
        let polling = tokio::spawn(keep(Arc::new(Threads::new(1, 2)), 0));
        tokio::task::yield_now().await;
        let wanted = || here(|here| here.is_wanted.get()).expect("polling has begun");
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
        polling.abort();
    }
}

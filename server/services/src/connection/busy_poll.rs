//! A busy poll: a thread whose next request is expected at once polls for it instead of sleeping.
//!
//! To fall asleep and be woken takes some 20 us, on a virtual machine more, and leaves cold caches: a client that sends one request
//! after the other would wait as long for that as for its response. So a thread polls for up to [`POLLING_MAX`]. It does so only if
//! its last request came as soon, so that slow clients cost nothing, and only while at most half as many threads are busy as there
//! are processors.
//!
//! Other programs on the same processors are not counted but noticed: a thread that loses its processor while it polls finds that
//! one poll took far longer than a poll takes ([`POLL_MAX`]), until it returned or a request was read. Then all threads sleep between
//! requests for a while ([`PAUSE`]), longer each time in a row. An interrupt, or the host of a virtual machine, takes less than a time slice
//! ([`SLICE_MIN`]): after that the pause is short. A thread never gives its processor away while it polls: among busy neighbours it would
//! get it back only after all of their time slices.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// For how long a thread polls. A quick client sends its next request in half of that.
const POLLING_MAX: Duration = Duration::from_micros(100);
/// A thread is busy if it answered a request within about this time.
const BUSY_MAX: Duration = Duration::from_millis(1);
/// A poll that finds nothing takes a few microseconds. One that took longer than this lost its processor to another program.
const POLL_MAX: Duration = Duration::from_micros(50);
/// A program that wants the processor keeps it for longer than this.
const SLICE_MIN: Duration = Duration::from_micros(500);
/// For how many times as long no thread polls after a shorter loss: polling loses at most a twenty-fifth of the time.
const PAUSE_BY_LOSS: u64 = 25;
/// For how long no thread polls after a longer one. A pause that begins soon after another is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Interval at which a thread marks itself as busy: seldom, because each mark takes a line out of the caches of the others.
const MARK_INTERVAL: Duration = Duration::from_micros(200);

/// State that the threads which serve connections share. Times are in nanoseconds since `began`; 0 is never.
#[derive(Debug)]
pub struct Threads {
    began: Instant,
    /// For each thread, when it last marked itself as busy.
    marks: Box<[AtomicU64]>,
    /// While more are busy, none polls.
    busy_max: usize,
    /// No thread polls before this time.
    paused_until: AtomicU64,
    /// How long the last pause after a whole time slice was, and when it ended.
    last_pause: AtomicU64,
    last_pause_end: AtomicU64,
}

impl Threads {
    /// The state of `count` threads. A thread polls only while at most `busy_max` of them are busy, itself included: with 0 none does.
    pub fn new(count: usize, busy_max: usize) -> Threads {
        Threads {
            began: Instant::now(),
            marks: (0..count).map(|_| AtomicU64::new(0)).collect(),
            busy_max,
            paused_until: AtomicU64::new(0),
            last_pause: AtomicU64::new(0),
            last_pause_end: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn mark(&self, number: usize, now: u64) {
        let last = &self.marks[number];
        if !is_within(MARK_INTERVAL, last.load(Ordering::Relaxed), now) {
            last.store(now, Ordering::Relaxed);
        }
    }

    /// Stops all polling for a while, after a poll that took `lost`. Two threads that do so at once only make the pause longer.
    fn pause(&self, now: u64, lost: u64) {
        if u128::from(lost) < SLICE_MIN.as_nanos() {
            let end = now + lost * PAUSE_BY_LOSS;
            self.paused_until.fetch_max(end, Ordering::Relaxed);
            return;
        }
        let (end, last) = (
            self.last_pause_end.load(Ordering::Relaxed),
            self.last_pause.load(Ordering::Relaxed),
        );
        let is_soon_again = now.saturating_sub(end) < last;
        let first = PAUSE.as_nanos() as u64;
        let pause = if is_soon_again { last * 2 } else { first };
        let pause = pause.min(PAUSE_MAX.as_nanos() as u64);
        self.last_pause.store(pause, Ordering::Relaxed);
        self.last_pause_end.store(now + pause, Ordering::Relaxed);
        self.paused_until.fetch_max(now + pause, Ordering::Relaxed);
    }

    fn may_poll(&self, now: u64) -> bool {
        if now < self.paused_until.load(Ordering::Relaxed) {
            return false;
        }
        let is_busy = |mark: &&AtomicU64| is_within(BUSY_MAX, mark.load(Ordering::Relaxed), now);
        self.marks.iter().filter(is_busy).count() <= self.busy_max
    }
}

/// Whether `then` is not 0 and at most `span` ago.
fn is_within(span: Duration, then: u64, now: u64) -> bool {
    then > 0 && u128::from(now.saturating_sub(then)) < span.as_nanos()
}

/// The busy poll of one thread.
struct BusyPoll {
    threads: Arc<Threads>,
    number: usize,
    /// When the last request was answered.
    answered: Cell<u64>,
    /// Whether it came within [`POLLING_MAX`] after the response before.
    was_soon: Cell<bool>,
    is_wanted: Cell<bool>,
    /// When the current poll began; 0 outside a poll, and once something was found to do: that takes its time.
    poll_began: Cell<u64>,
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
        is_within(POLLING_MAX, self.answered.get(), now)
    }

    /// Begins a poll; false if the thread should not poll.
    fn begin_poll(&self) -> bool {
        let now = self.threads.now();
        let polls = self.is_soon(now) && self.threads.may_poll(now);
        if polls {
            self.poll_began.set(now);
        }
        polls
    }

    /// Ends the current poll, which found nothing else to do until now. Pauses if it took long.
    fn end_poll(&self) {
        let began = self.poll_began.take();
        if began == 0 {
            return;
        }
        let now = self.threads.now();
        if !is_within(POLL_MAX, began, now) {
            self.threads.pause(now, now - began);
        }
    }
}

/// A request has come to this thread.
pub fn begun() {
    here(|here| {
        here.poll_began.set(0);
        here.was_soon.set(here.is_soon(here.threads.now()));
    });
}

/// A socket of this thread was read. A client sends its next request in far less time than a thread needs to get its processor back,
/// so most polls that lose it end here.
pub fn received() {
    here(BusyPoll::end_poll);
}

/// A socket of this thread was written: what was sent may have been made in the current poll.
pub fn sent() {
    here(|here| here.poll_began.set(0));
}

/// A request of this thread is about to be answered.
pub fn answered() {
    here(|here| {
        let now = here.threads.now();
        here.answered.set(now);
        here.threads.mark(here.number, now);
        if here.was_soon.get() && here.threads.may_poll(now) {
            here.is_wanted.set(true);
            if let Some(waker) = here.waker.take() {
                waker.wake();
            }
        }
    });
}

/// The task that polls on this thread, beside its connections. Never ends.
pub async fn keep(threads: Arc<Threads>, number: usize) {
    HERE.with(|here| {
        here.get_or_init(|| BusyPoll {
            threads,
            number,
            answered: Cell::default(),
            was_soon: Cell::default(),
            is_wanted: Cell::default(),
            poll_began: Cell::default(),
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
        while here(BusyPoll::begin_poll) == Some(true) {
            tokio::task::yield_now().await;
            here(BusyPoll::end_poll);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: u64 = 1000;

    fn may_poll(busy_max: usize, marks: &[u64]) -> bool {
        let threads = Threads::new(marks.len(), busy_max);
        for (place, mark) in threads.marks.iter().zip(marks) {
            place.store(*mark, Ordering::Relaxed);
        }
        threads.may_poll(9000 * MICROS)
    }

    #[test]
    fn threads_poll_while_few_are_busy() {
        let (now, long_ago, never) = (8500 * MICROS, 7900 * MICROS, 0);
        assert!(may_poll(1, &[now, long_ago, never]));
        assert!(!may_poll(1, &[now, now, never]));
        assert!(may_poll(2, &[now, now, never, never, long_ago]));
        assert!(!may_poll(2, &[now, now, now, never, never]));
        assert!(!may_poll(0, &[now, never]), "polling is off");
    }

    #[test]
    fn polling_pauses_after_a_slow_poll_and_longer_when_it_happens_again() {
        const MILLIS: u64 = 1000 * MICROS;
        let threads = Threads::new(1, 1);
        assert!(threads.may_poll(MILLIS));
        let slice = 4 * MILLIS;
        threads.pause(MILLIS, slice);
        assert!(!threads.may_poll(100 * MILLIS) && threads.may_poll(101 * MILLIS));
        threads.pause(150 * MILLIS, slice);
        assert!(!threads.may_poll(349 * MILLIS) && threads.may_poll(350 * MILLIS));
        // Long after the end of a pause, the next one is short again.
        threads.pause(600 * MILLIS, slice);
        assert!(threads.may_poll(700 * MILLIS));
        for _ in 0..20 {
            threads.pause(600 * MILLIS, slice);
        }
        assert!(threads.may_poll(600 * MILLIS + PAUSE_MAX.as_nanos() as u64));
    }

    #[test]
    fn polling_pauses_briefly_after_a_fraction_of_a_time_slice() {
        let threads = Threads::new(1, 1);
        let lost = 100 * MICROS;
        threads.pause(1000 * MICROS, lost);
        assert!(!threads.may_poll(3499 * MICROS) && threads.may_poll(3500 * MICROS));
        // It does not make the next pause after a whole slice longer.
        threads.pause(5000 * MICROS, 4000 * MICROS);
        assert!(threads.may_poll(105_000 * MICROS));
        threads.pause(999_900 * MICROS, lost);
        threads.pause(1_000_000 * MICROS, 4000 * MICROS);
        assert!(threads.may_poll(1_100_000 * MICROS));
        // It neither ends a longer pause nor extends it.
        let threads = Threads::new(1, 1);
        threads.pause(10_000 * MICROS, 4000 * MICROS);
        threads.pause(20_000 * MICROS, lost);
        assert!(!threads.may_poll(109_999 * MICROS) && threads.may_poll(110_000 * MICROS));
    }

    /// The busy poll of the only thread, for long enough that a poll from its beginning until now was slow.
    fn polling() -> BusyPoll {
        let poll = BusyPoll {
            threads: Arc::new(Threads::new(1, 1)),
            number: 0,
            answered: Cell::default(),
            was_soon: Cell::default(),
            is_wanted: Cell::default(),
            poll_began: Cell::default(),
            waker: RefCell::default(),
        };
        std::thread::sleep(POLL_MAX * 2);
        poll
    }

    #[test]
    fn only_a_slow_poll_pauses() {
        let poll = polling();
        let paused = |began| {
            poll.poll_began.set(began);
            poll.end_poll();
            poll.threads.paused_until.load(Ordering::Relaxed) > 0
        };
        assert!(!paused(poll.threads.now() + MICROS * 1000), "it was quick");
        assert!(!paused(0), "there was none");
        assert!(paused(1));
    }

    #[tokio::test]
    async fn a_poll_that_lost_its_processor_pauses_even_if_a_request_came_meanwhile() {
        HERE.with(|here| here.get_or_init(polling).poll_began.set(1));
        let paused = || here(|here| here.threads.paused_until.load(Ordering::Relaxed) > 0);
        sent();
        received();
        assert_eq!(paused(), Some(false), "the time went into a response");
        here(|here| here.poll_began.set(1));
        begun();
        received();
        assert_eq!(paused(), Some(false), "the time went into a request");
        here(|here| here.poll_began.set(1));
        received();
        assert_eq!(paused(), Some(true));
    }

    #[test]
    fn a_busy_thread_refreshes_its_mark_in_time() {
        let threads = Threads::new(2, 1);
        let mark = |at: u64| {
            threads.mark(1, at * MICROS);
            threads.marks[1].load(Ordering::Relaxed) / MICROS
        };
        assert_eq!([mark(50), mark(249), mark(251)], [50, 50, 251]);
    }

    #[tokio::test]
    async fn a_thread_polls_only_if_its_last_request_came_soon_after_a_response() {
        let polling = tokio::spawn(keep(Arc::new(Threads::new(1, 1)), 0));
        tokio::task::yield_now().await;
        let wanted = || here(|here| here.is_wanted.get()).expect("polling has begun");
        begun();
        answered();
        assert!(!wanted(), "the client has sent only one request");
        here(|here| here.was_soon.set(true));
        answered();
        assert!(wanted());
        tokio::task::yield_now().await;
        assert!(!wanted(), "it has begun to poll");
        let is_soon = |after: u64| {
            here(|here| {
                here.answered.set(1);
                here.is_soon(1 + after)
            })
        };
        let look_max = POLLING_MAX.as_nanos() as u64;
        assert_eq!(is_soon(look_max - 1), Some(true));
        assert_eq!(is_soon(look_max), Some(false));
        polling.abort();
    }
}

//! Lookout: a thread whose next request is about to come looks for it instead of sleeping.
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
/// A thread is busy if it answered a request within this time.
const BUSY_MAX: Duration = Duration::from_millis(1);

/// What the threads that serve connections know of each other.
#[derive(Debug)]
pub struct Threads {
    began: Instant,
    /// By thread, when it answered last, in nanoseconds since the beginning; 0: never.
    answered: Box<[AtomicU64]>,
    /// While more are busy, none looks.
    busy_max: usize,
}

impl Threads {
    /// So many threads, on a machine of so many processors.
    pub fn new(count: usize, processors: usize) -> Threads {
        Threads {
            began: Instant::now(),
            answered: (0..count).map(|_| AtomicU64::new(0)).collect(),
            busy_max: processors / 2,
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn may_look(&self, now: u64) -> bool {
        let is_busy =
            |answered: &&AtomicU64| since(answered, now).is_some_and(|ago| ago < BUSY_MAX);
        self.answered.iter().filter(is_busy).count() <= self.busy_max
    }
}

/// How long ago that was; `None`: it never was.
fn since(answered: &AtomicU64, now: u64) -> Option<Duration> {
    let answered = answered.load(Ordering::Relaxed);
    (answered > 0).then(|| Duration::from_nanos(now.saturating_sub(answered)))
}

/// The lookout of one thread.
struct Lookout {
    threads: Arc<Threads>,
    number: usize,
    /// Whether its last request came within [`LOOK_MAX`] of the answer before.
    was_soon: Cell<bool>,
    is_wanted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

thread_local! {
    static HERE: OnceCell<Lookout> = const { OnceCell::new() };
}

/// Does something with the lookout of this thread, if it has one.
fn here<T>(act: impl FnOnce(&Lookout) -> T) -> Option<T> {
    HERE.with(|here| here.get().map(act))
}

impl Lookout {
    fn answered(&self) -> &AtomicU64 {
        &self.threads.answered[self.number]
    }

    /// Whether the last answer is no older than [`LOOK_MAX`].
    fn is_soon(&self, now: u64) -> bool {
        since(self.answered(), now).is_some_and(|waited| waited < LOOK_MAX)
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
        here.answered().store(now, Ordering::Relaxed);
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
        here.get_or_init(|| Lookout {
            threads,
            number,
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
        while here(Lookout::looks) == Some(true) {
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: u64 = 1000;

    fn threads(count: usize, processors: usize, answered: &[u64]) -> Arc<Threads> {
        let threads = Threads::new(count, processors);
        for (place, answered) in threads.answered.iter().zip(answered) {
            place.store(*answered, Ordering::Relaxed);
        }
        Arc::new(threads)
    }

    fn may_look(processors: usize, answered: &[u64]) -> bool {
        threads(answered.len(), processors, answered).may_look(9000 * MICROS)
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

    #[tokio::test]
    async fn a_thread_looks_only_when_its_last_request_came_soon_after_an_answer() {
        let lookout = tokio::spawn(keep(threads(1, 2, &[]), 0));
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
        let is_soon = |now: Duration| here(|here| here.is_soon(now.as_nanos() as u64));
        here(|here| here.answered().store(1, Ordering::Relaxed));
        assert_eq!(is_soon(LOOK_MAX), Some(true));
        assert_eq!(is_soon(LOOK_MAX + Duration::from_nanos(1)), Some(false));
        lookout.abort();
    }
}

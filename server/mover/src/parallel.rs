//! Runs a few worker threads on the jobs that the calling thread produces.

use crate::error::{Error, Result};
use lazurite_base::locks::lock;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};

/// Number of worker threads, and so of requests at a time.
const THREADS: usize = 4;
/// Maximum number of jobs that wait, so that production stays close to the work.
const WAITING_MAX: usize = 64;

/// Passes a job to a worker. Error: the work has failed.
pub type Hand<'a, T> = dyn FnMut(T) -> Result<()> + 'a;

/// Runs `produce` on this thread, and `work` on others for each job that it produces. Returns when
/// all are done. The first error is returned; no job begins after it.
pub fn in_parallel<T: Send>(
    produce: impl FnOnce(&mut Hand<'_, T>) -> Result<()>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    on_threads(THREADS, produce, work)
}

/// Like [`in_parallel`], with this number of workers.
pub fn on_threads<T: Send>(
    threads: usize,
    produce: impl FnOnce(&mut Hand<'_, T>) -> Result<()>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let failure = Mutex::new(None);
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let receiver = Mutex::new(receiver);
    let produced = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| take_jobs(&receiver, &failure, &work));
        }
        let mut hand = |job| {
            if lock(&failure).is_some() {
                return Err("given up".into());
            }
            sender.send(job).map_err(|_| "given up".into())
        };
        let produced = produce(&mut hand);
        drop(sender);
        produced
    });
    match lock(&failure).take() {
        Some(failure) => Err(failure),
        None => produced,
    }
}

/// Takes all jobs, so that the sender never waits for ever, but works only on those that it takes
/// before the first failure.
fn take_jobs<T>(
    receiver: &Mutex<Receiver<T>>,
    failure: &Mutex<Option<Error>>,
    work: &impl Fn(T) -> Result<()>,
) {
    loop {
        let Ok(job) = lock(receiver).recv() else {
            return;
        };
        if lock(failure).is_some() {
            continue;
        }
        if let Err(error) = work(job) {
            lock(failure).get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn all_jobs_are_done_or_the_first_failure_is_returned() {
        let sum = AtomicU32::new(0);
        let produce = |hand: &mut Hand<'_, u32>| (1..=1000).try_for_each(hand);
        let add = |job: u32| {
            sum.fetch_add(job, Ordering::Relaxed);
            Ok(())
        };
        in_parallel(produce, add).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 500_500);
        let fail = |job: u32| {
            if job == 500 {
                Err("500".into())
            } else {
                Ok(())
            }
        };
        assert_eq!(in_parallel(produce, fail).unwrap_err().to_string(), "500");
        let produce = |_: &mut Hand<'_, u32>| Err("nothing".into());
        assert_eq!(in_parallel(produce, fail).unwrap_err(), "nothing".into());
    }
}

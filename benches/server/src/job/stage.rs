//! One phase of the job at work: its figures, its share of the kills, its threads.

use std::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::client::Error;
use crate::job::kills::{Due, Kills};
use crate::job::report::Phase;

/// A [`Phase`] during which the server may be killed. Threads share it.
pub(super) struct Stage<'a> {
    phase: Phase,
    due: Due,
    kills: &'a Kills,
}

impl<'a> Stage<'a> {
    pub(super) fn start(
        name: &'static str,
        unit: &'static str,
        expected: usize,
        kills: &'a Kills,
    ) -> Stage<'a> {
        Stage {
            phase: Phase::start(name, unit, expected),
            due: kills.due_in(name, expected),
            kills,
        }
    }

    /// Counts `count` items as done; kills the server if a kill is due.
    pub(super) fn done(&self, count: usize) {
        let done = self.phase.add(count);
        self.kills.kill_due(&self.due, done);
    }

    /// Turns a refusal or a senseless answer into a mismatch; what is left is a server that stays
    /// away.
    pub(super) fn absorb(&self, result: Result<(), Error>) -> Result<(), Error> {
        match result {
            Err(error) if !error.is_outage() => {
                self.mismatch(error.to_string());
                Ok(())
            }
            other => other,
        }
    }

    /// Does `work` for every item on `connections` threads. A refusal or a senseless answer is a
    /// mismatch and the work goes on; a server that stays away ends it.
    pub(super) fn in_parallel<T: Sync>(
        &self,
        connections: usize,
        items: &[T],
        work: impl Fn(&T) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let failure = Mutex::new(None);
        let run = || {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                if failed.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(error) = self.absorb(work(item)) {
                    failed.store(true, Ordering::Relaxed);
                    *failure.lock().unwrap() = Some(error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..connections.min(items.len()) {
                scope.spawn(run);
            }
        });
        failure.into_inner().unwrap().map_or(Ok(()), Err)
    }

    /// The figures, now that the phase is over.
    pub(super) fn into_phase(self) -> Phase {
        self.phase
    }
}

impl Deref for Stage<'_> {
    type Target = Phase;

    fn deref(&self) -> &Phase {
        &self.phase
    }
}

//! Session: one opening of a store, from its first thread to its end.

use crate::access::unexpected;
use crate::finding::{Checked, Finding, Symptom};
use crate::threads::fault::Fault;
use crate::threads::ledger::{Counts, Ledgers};
use crate::threads::opened::Opened;
use lazurite_engine::Choices;
use lazurite_engine::fs::{FaultFs, Keep};
use lazurite_engine::{Batch, Durability, Error};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A session that takes longer counts as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(500);

/// A task that is not woken within this time counts as forgotten.
const WOKEN_WITHIN: Duration = Duration::from_secs(20);

/// Starts some threads of a session.
pub type Start = fn(&Arc<Session>, &mut Choices) -> Vec<JoinHandle<()>>;

/// One opening of a store, shared by its threads.
#[derive(Debug)]
pub struct Session {
    pub opened: Opened,
    pub path: PathBuf,
    pub disk: FaultFs,
    pub ledgers: Arc<Ledgers>,
    /// What fails, if anything does.
    pub fault: Option<Fault>,
    /// Whether the writers are done.
    pub is_over: AtomicBool,
    finding: Mutex<Option<Finding>>,
}

/// A session whose threads have ended. The store is still open.
#[derive(Debug)]
pub struct Ended {
    opened: Opened,
    written: Counts,
    durable: Counts,
    /// What happened to the session, in words.
    pub words: String,
}

impl Session {
    /// A session without threads yet.
    pub fn begin(
        opened: Opened,
        path: &Path,
        disk: FaultFs,
        ledgers: Arc<Ledgers>,
        fault: Option<Fault>,
    ) -> Session {
        Session {
            opened,
            path: path.to_path_buf(),
            disk,
            ledgers,
            fault,
            is_over: AtomicBool::new(false),
            finding: Mutex::default(),
        }
    }

    /// Runs the threads until all writers are done.
    pub fn run(self, writers: Start, others: Start, choices: &mut Choices) -> Checked<Ended> {
        let session = Arc::new(self);
        let writers = writers(&session, choices);
        let others = others(&session, choices);
        if let Some(fault) = &session.fault {
            fault.set(&session.disk);
        }
        session.join(writers)?;
        session.is_over.store(true, Ordering::SeqCst);
        session.join(others)?;
        let (_, has_fired) = session.disk.seen();
        let fired = if has_fired { "fired" } else { "not fired" };
        session.disk.set(None);
        session.disk.slow(None);
        let db = &session.opened.db;
        let words = format!(
            "{:?} ({fired}), {:?}, {:?}",
            session.fault,
            db.durability(),
            db.failure()
        );
        let finding = session.finding.lock();
        if let Some(finding) = finding.unwrap_or_else(PoisonError::into_inner).take() {
            return Err(finding.within(words));
        }
        Ok(Ended {
            opened: session.opened.clone(),
            written: session.ledgers.written(),
            durable: session.ledgers.durable(),
            words,
        })
    }

    fn join(&self, threads: Vec<JoinHandle<()>>) -> Checked {
        let begun = Instant::now();
        while !threads.iter().all(JoinHandle::is_finished) {
            Finding::unless(begun.elapsed() < HANGS_AFTER, Symptom::Hang, || {
                let failure = self.opened.db.failure();
                format!("{:?}, failure {failure:?}", self.fault)
            })?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Runs the body of a thread, and keeps its finding if the session has none yet. A panic is a
    /// finding, unless the fault of the session is a panic.
    pub fn note(&self, run: impl FnOnce() -> Checked) {
        let ended = catch_unwind(AssertUnwindSafe(run));
        let finding = match ended {
            Ok(checked) => checked.err(),
            Err(panic) => {
                let is_on_cue = self.fault.as_ref().is_some_and(Fault::panics);
                (!is_on_cue).then(|| Finding::of_panic(&*panic))
            }
        };
        let mut first = self.finding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(finding) = finding {
            first.get_or_insert(finding);
        }
    }

    /// Whether a call may return this error, because a call on the disk has failed.
    pub fn tolerates(&self, error: &Error) -> bool {
        let is_consequence = matches!(
            error,
            Error::Io { .. } | Error::NoSpace { .. } | Error::ReadOnly { .. }
        );
        is_consequence && self.disk.seen().1
    }

    /// The result of a call: `None` for an error with a cause, a finding for one without.
    pub fn checked<T>(
        &self,
        action: &str,
        result: lazurite_engine::Result<T>,
    ) -> Checked<Option<T>> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if self.tolerates(&error) => Ok(None),
            Err(error) => Err(unexpected(action, &error)),
        }
    }
}

impl Ended {
    /// Number of batches of each writer that must survive a crash that leaves `keep`.
    pub fn floors(&self, keep: Keep) -> Counts {
        match (keep, self.opened.db.durability()) {
            (Keep::Everything, Durability::Process) => self.written,
            _ => self.durable,
        }
    }

    /// Abandons the store: nothing becomes durable any more.
    pub fn abandon(&self) {
        self.opened.db.abandon();
    }

    /// Closes, abandons or drops the store, in which nothing has failed. Returns how many batches
    /// of each writer must be there.
    pub fn close(self, choices: &mut Choices) -> Checked<Counts> {
        match choices.below(3) {
            0 => {
                let closed = self.opened.db.close();
                closed.map_err(|error| unexpected("close", &error))?;
                Ok(self.written)
            }
            1 => Ok(self.written),
            _ => {
                self.abandon_awaited()?;
                Ok(self.floors(Keep::Everything))
            }
        }
    }

    /// Abandons the store while a task awaits a ticket, which must be woken.
    fn abandon_awaited(&self) -> Checked {
        let mut batch = Batch::new();
        batch.delete(&self.opened.keyspaces[0], b"none");
        let written = self.opened.db.write(batch);
        let mut ticket = written.map_err(|error| unexpected("write", &error))?;
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let polled = Future::poll(
            std::pin::Pin::new(&mut ticket),
            &mut Context::from_waker(&waker),
        );
        self.abandon();
        let begun = Instant::now();
        while matches!(polled, Poll::Pending) && !woken.0.load(Ordering::SeqCst) {
            Finding::unless(begun.elapsed() < WOKEN_WITHIN, Symptom::Hang, || {
                "a task that awaits a ticket is not woken when its store is abandoned".into()
            })?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

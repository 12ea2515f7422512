//! Work on many items at once: confirmed by number, done in steps, shown with its progress, and
//! canceled at any step.
//!
//! A [`Plan`] is what a visitor was shown and may confirm. It holds a hash of each item and its
//! version, so a job leaves alone each item that others added or changed after the count. A [`Job`]
//! carries out a plan. Neither holds more than one page of items. The pages about them are in
//! `proposals.rs` and `job_pages.rs`.

use crate::form::Form;
use lazurite_base::locks::lock;
use lazurite_base::units::{count, counted};
use lazurite_engine::Ticket;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::connection::on_blocking_pool;
use maud::Markup;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// Maximum number of items in a plan, which takes 8 bytes for each.
const ITEMS_MAX: usize = 1_000_000;
/// Number of plans and of jobs that are kept; the oldest ones are dropped.
const PLANS_KEPT: usize = 4;
const JOBS_KEPT: usize = 50;
/// Maximum number of jobs at a time.
const RUNNING_MAX: usize = 4;
/// Number of failures that a job names.
const FAILURES_NAMED: usize = 10;
/// The message for a selection without items.
pub const NOTHING: &str =
    "Nothing is selected, or others have changed or deleted all of it. Load the list again.";
/// How long the response to a confirmation waits for the end of a short job.
const SHORT: Duration = Duration::from_millis(700);

/// Items of a store, read page by page from the first one.
pub trait Items: Clone + Send + Sync + 'static {
    /// An item. Its hash covers its name and its version.
    type Item: Hash + Send;

    /// The next items, of which there may be none; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<Self::Item>>>;
}

/// Acts on some items and reports each to the job. Returns the ticket of the last write. A failure
/// ends the job.
pub type Act<T> = Box<dyn FnMut(&Job, Vec<T>) -> Result<Option<Ticket>> + Send>;

/// The hashes of the items of a plan.
pub struct Marks {
    hashes: Vec<u64>,
    state: RandomState,
}

impl Marks {
    /// Reads all items. Errors: `400` for none, and for too many.
    pub fn of<I: Items>(mut items: I) -> Result<Marks> {
        let (mut hashes, state) = (Vec::new(), RandomState::new());
        while let Some(page) = items.next()? {
            hashes.extend(page.iter().map(|item| state.hash_one(item)));
            if hashes.len() > ITEMS_MAX {
                let most = count(ITEMS_MAX as u64);
                let message = format!(
                    "These are more than {most} items, the most for one job. Narrow them with a longer prefix or another filter."
                );
                return Err(Failure::new(400, "TooManyItems", message));
            }
        }
        if hashes.is_empty() {
            return Err(Failure::new(400, "NothingSelected", NOTHING));
        }
        hashes.sort_unstable();
        hashes.dedup();
        Ok(Marks { hashes, state })
    }

    pub fn count(&self) -> u64 {
        self.hashes.len() as u64
    }

    fn holds(&self, item: &impl Hash) -> bool {
        self.hashes
            .binary_search(&self.state.hash_one(item))
            .is_ok()
    }
}

/// The words and the place of a job.
#[derive(Clone)]
pub struct Task {
    pub account: String,
    /// The title of the section.
    pub section: &'static str,
    /// The verb of the button and of the report: `Delete`, `Deleted`.
    pub verbs: (&'static str, &'static str),
    /// The word for one item.
    pub noun: &'static str,
    /// Where the items are: `from photos/2026/`.
    pub place: String,
    /// The page to return to.
    pub back: String,
}

/// Starts a confirmed plan. Reads the fields of the form, which names the plan.
type Start = Box<dyn Fn(u64, &Form) -> Result<Arc<Job>> + Send + Sync>;

/// Counted items that wait for a confirmation.
pub struct Plan {
    pub task: Task,
    /// The title and the content of the page that asks.
    pub question: (String, Markup),
    /// Carries out the plan as the job of this id.
    pub start: Start,
}

/// The plans and the jobs of a console. A job has the id of its plan.
#[derive(Default)]
pub struct Jobs {
    last_id: AtomicU64,
    plans: Mutex<VecDeque<(u64, Plan)>>,
    jobs: Mutex<VecDeque<Arc<Job>>>,
    is_closing: Arc<AtomicBool>,
}

impl Jobs {
    /// A new id, for a plan.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps a plan until it is started or others push it out.
    pub fn keep(&self, id: u64, plan: Plan) {
        let mut plans = lock(&self.plans);
        if plans.len() >= PLANS_KEPT {
            plans.pop_front();
        }
        plans.push_back((id, plan));
    }

    /// The task of a plan that waits, and the title and content of the page that asks.
    pub fn question(&self, id: u64) -> Option<(Task, String, Markup)> {
        let plans = lock(&self.plans);
        let (_, plan) = plans.iter().find(|(known, _)| *known == id)?;
        let (title, content) = plan.question.clone();
        Some((plan.task.clone(), title, content))
    }

    /// Starts a plan, which is used up unless its form is refused.
    pub fn start(&self, form: &Form) -> Result<Arc<Job>> {
        let id: u64 = form.text("plan").parse().unwrap_or(0);
        let plan = self.take_plan(id).ok_or_else(|| {
            let message = "This was confirmed already, or the server has counted other items since. Go back and select them again.";
            Failure::new(409, "ConfirmationExpired", message)
        })?;
        let job = (plan.start)(id, form);
        if job.is_err() {
            self.keep(id, plan);
        }
        job
    }

    /// Begins the job of a plan. Error: `503` if too many are running.
    pub fn begin<I: Items>(&self, id: u64, task: Task, work: Work<I>) -> Result<Arc<Job>> {
        let planned = work.marks.count();
        let job = Arc::new(Job::new(id, task, planned));
        self.add(&job)?;
        let is_closing = self.is_closing.clone();
        tokio::spawn(carry_out(job.clone(), work, is_closing));
        Ok(job)
    }

    /// Drops the plans, which refer to the console, and ends the jobs.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        let mut plans = lock(&self.plans);
        plans.clear();
    }

    /// Takes a plan out, so that two confirmations do not start it twice.
    fn take_plan(&self, id: u64) -> Option<Plan> {
        let mut plans = lock(&self.plans);
        let at = plans.iter().position(|(known, _)| *known == id)?;
        plans.remove(at).map(|(_, plan)| plan)
    }

    pub fn find(&self, id: u64) -> Option<Arc<Job>> {
        let jobs = lock(&self.jobs);
        jobs.iter().find(|job| job.id == id).cloned()
    }

    fn add(&self, job: &Arc<Job>) -> Result<()> {
        let mut jobs = lock(&self.jobs);
        if jobs.iter().filter(|job| job.ending.get().is_none()).count() >= RUNNING_MAX {
            let message = format!("{RUNNING_MAX} jobs are running, which is the most at a time.");
            return Err(Failure::busy(message));
        }
        if jobs.len() >= JOBS_KEPT {
            jobs.pop_front();
        }
        jobs.push_back(job.clone());
        Ok(())
    }
}

/// How a job ended.
enum Ending {
    Whole,
    Canceled,
    Failed(String),
}

/// Work under way, or done.
pub struct Job {
    pub id: u64,
    pub task: Task,
    planned: u64,
    done: AtomicU64,
    changed: AtomicU64,
    failed: AtomicU64,
    /// The first failures: the name of the item and the reason.
    failures: Mutex<Vec<(String, String)>>,
    /// A link that takes the work back.
    undo: OnceLock<String>,
    is_canceled: AtomicBool,
    ending: OnceLock<Ending>,
    ended: Notify,
}

impl Job {
    fn new(id: u64, task: Task, planned: u64) -> Job {
        Job {
            id,
            task,
            planned,
            done: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
            undo: OnceLock::new(),
            is_canceled: AtomicBool::new(false),
            ending: OnceLock::new(),
            ended: Notify::new(),
        }
    }

    /// Counts items that were acted on.
    pub fn add_done(&self, number: usize) {
        self.done.fetch_add(number as u64, Ordering::Relaxed);
    }

    /// Counts an item that others changed or deleted since the confirmation.
    pub fn add_changed(&self) {
        self.changed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an item that could not be acted on.
    pub fn add_failed(&self, name: &str, failure: impl Into<Failure>) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let failure = failure.into();
        let mut failures = lock(&self.failures);
        if failures.len() < FAILURES_NAMED {
            let name = name[..name.floor_char_boundary(200)].to_owned();
            failures.push((name, format!("{}: {}", failure.code, failure.message)));
        }
    }

    /// Sets the link that takes the work back.
    pub fn set_undo(&self, path: String) {
        let _ = self.undo.set(path);
    }

    pub fn is_canceled(&self) -> bool {
        self.is_canceled.load(Ordering::Relaxed)
    }

    pub fn cancel(&self) {
        self.is_canceled.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of a short job.
    pub async fn wait_shortly(&self) {
        let ended = self.ended.notified();
        if self.ending.get().is_none() {
            let _ = tokio::time::timeout(SHORT, ended).await;
        }
    }

    /// What was done, by number.
    pub fn report(&self) -> String {
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (done, failed) = (number(&self.done), number(&self.failed));
        let all = counted(self.planned, self.task.noun);
        let Some(ending) = self.ending.get() else {
            return format!("{} {} of {all} so far.", self.task.verbs.1, count(done));
        };
        let (verb, place) = (self.task.verbs.1, &self.task.place);
        let mut report = if done == self.planned {
            format!("{verb} {all} {place}.")
        } else {
            format!("{verb} {} of {all} {place}.", count(done))
        };
        let left = self.planned.saturating_sub(done + failed);
        match ending {
            Ending::Whole if left > 0 => {
                report.push_str(&format!(
                    " Others changed or deleted {} meanwhile: left as they are.",
                    count(left)
                ));
            }
            Ending::Whole => {}
            Ending::Canceled => report.push_str(" Canceled."),
            Ending::Failed(reason) => report.push_str(&format!(" It stopped: {reason}")),
        }
        if failed > 0 {
            report.push_str(&format!(" {} failed:", count(failed)));
        }
        report
    }

    pub fn json(&self) -> Value {
        json!({
            "id": self.id,
            "done": self.done.load(Ordering::Relaxed) + self.changed.load(Ordering::Relaxed) + self.failed.load(Ordering::Relaxed),
            "planned": self.planned,
            "ended": self.ending.get().is_some(),
            "report": self.report(),
        })
    }

    /// Number of items that are done, of [`Job::planned`]; `None` once the job has ended.
    pub fn running(&self) -> Option<u64> {
        let is_running = self.ending.get().is_none();
        is_running.then(|| self.done.load(Ordering::Relaxed))
    }

    pub fn planned(&self) -> u64 {
        self.planned
    }

    pub fn undo(&self) -> Option<&str> {
        self.undo.get().map(String::as_str)
    }

    /// The first failures: the name of each item and the reason.
    pub fn failures(&self) -> Vec<(String, String)> {
        lock(&self.failures).clone()
    }
}

/// What a job needs from step to step.
pub struct Work<I: Items> {
    pub items: I,
    pub marks: Arc<Marks>,
    pub act: Act<I::Item>,
}

/// A step that was not the last one, with the ticket of its last write.
type Step = Result<Option<Option<Ticket>>>;

impl<I: Items> Work<I> {
    fn step(&mut self, job: &Job) -> Step {
        let Some(page) = self.items.next()? else {
            return Ok(None);
        };
        let confirmed = page.into_iter().filter(|item| self.marks.holds(item));
        let confirmed: Vec<_> = confirmed.collect();
        if confirmed.is_empty() {
            return Ok(Some(None));
        }
        (self.act)(job, confirmed).map(Some)
    }
}

async fn carry_out<I: Items>(job: Arc<Job>, work: Work<I>, is_closing: Arc<AtomicBool>) {
    let ending = match steps(&job, work, &is_closing).await {
        Ok(true) => Ending::Whole,
        Ok(false) => Ending::Canceled,
        Err(failure) => Ending::Failed(failure.message.to_string()),
    };
    let _ = job.ending.set(ending);
    job.ended.notify_waiters();
}

/// Carries out step after step. Returns whether the end was reached.
async fn steps<I: Items>(
    job: &Arc<Job>,
    mut work: Work<I>,
    is_closing: &AtomicBool,
) -> Result<bool> {
    loop {
        if job.is_canceled() || is_closing.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let shared = job.clone();
        let stepping = on_blocking_pool(move || {
            let step = work.step(&shared);
            Ok((work, step))
        });
        let (returned, step) = stepping.await?;
        work = returned;
        match step? {
            None => return Ok(true),
            Some(Some(ticket)) => ticket.await.map_err(Failure::from)?,
            Some(None) => {}
        }
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;

//! How far a work on many items is, what it left out, and how it ended.

use crate::error::{Error, Result};
use crate::interrupts::on_interrupt;
use crate::progress::{LEFT_OUT_SHOWN, Progress};
use lazurite_base::terminal::ChangingLine;
use lazurite_base::units::{count, size};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const STOPPED: &str = "stopped by Ctrl-C";

/// A work under way, on several threads.
pub struct Work {
    /// What happens to items, and their noun: `("deleted", "blobs")`.
    words: (&'static str, &'static str),
    total: u64,
    done: AtomicU64,
    skipped: AtomicU64,
    bytes: AtomicU64,
    /// Sentences about items that were left out.
    progress: Progress,
    line: Mutex<ChangingLine>,
    is_stopped: Arc<AtomicBool>,
}

/// The end of a work.
#[derive(Debug)]
pub struct Outcome {
    pub total: u64,
    pub done: u64,
    /// Items for which there was nothing to do: they are there, or gone, already.
    pub skipped: u64,
    pub bytes: u64,
    /// Sentences about the first items that failed, and then one about how many more there are.
    pub left_out: Vec<String>,
    /// Sentences about what was done in another way than one may expect.
    pub notes: Vec<String>,
    /// The sentence about the error, or about Ctrl-C, that ended the work early.
    pub ended: Result<(), String>,
}

impl Work {
    /// Begins a work on `total` items. Ctrl-C then ends it in an orderly way, and a second time at
    /// once. Shows a line on standard error if that is a terminal.
    pub fn begin(words: (&'static str, &'static str), total: u64) -> Work {
        let work = Work {
            line: Mutex::new(ChangingLine::on_stderr()),
            ..Work::unattended(total)
        };
        let is_stopped = work.is_stopped.clone();
        on_interrupt(move || {
            if is_stopped.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        Work { words, ..work }
    }

    /// A work that shows nothing, and leaves signals to others.
    pub fn unattended(total: u64) -> Work {
        Work {
            words: ("done", "items"),
            total,
            done: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            progress: Progress::silent(),
            line: Mutex::new(ChangingLine::hidden()),
            is_stopped: Arc::default(),
        }
    }

    /// Error: Ctrl-C. Called before each item.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(STOPPED.into());
        }
        Ok(())
    }

    /// Counts an item of this many bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        // If the lock is taken, another thread is showing the line.
        if let Ok(mut line) = self.line.try_lock() {
            line.show(|| {
                let (verb, noun) = self.words;
                let bytes = size(self.bytes.load(Ordering::Relaxed));
                let total = count(self.total);
                format!("{verb} {} of {total} {noun}, {bytes}", count(done))
            });
        }
    }

    /// Counts an item for which there was nothing to do.
    pub(crate) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave_out(&self, sentence: String) {
        self.progress.leave_out(sentence);
    }

    /// Notes an item that failed. Error: one that later items would meet too, such as a server that
    /// is gone or a full disk.
    pub(crate) fn fail(&self, item: &str, error: Error) -> Result<()> {
        let ends = error.ends_all();
        let error = error.within(item);
        if ends {
            return Err(error);
        }
        self.leave_out(error.to_string());
        Ok(())
    }

    pub(crate) fn end(self, worked: Result<()>, notes: Vec<String>) -> Outcome {
        drop(
            self.line
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
        );
        Outcome {
            total: self.total,
            done: self.done.into_inner(),
            skipped: self.skipped.into_inner(),
            bytes: self.bytes.into_inner(),
            left_out: self.progress.end(LEFT_OUT_SHOWN),
            notes,
            ended: worked.map_err(|error| error.to_string()),
        }
    }
}

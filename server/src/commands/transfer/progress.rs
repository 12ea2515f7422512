//! What was transferred so far: a line on a terminal that changes, and one at the end.

use crate::console::layout_size as size;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(200);
/// Most sentences about what was left out.
const LEFT_OUT_SHOWN: usize = 20;

/// Counts, and what could not be transferred.
pub struct Progress {
    /// On a terminal: the line is shown again after this.
    shown: Option<Mutex<Instant>>,
    has_line: AtomicBool,
    pub blobs: AtomicU64,
    pub bytes: AtomicU64,
    pub messages: AtomicU64,
    pub entities: AtomicU64,
    left_out: Mutex<Vec<String>>,
}

impl Progress {
    pub fn new() -> Progress {
        let is_shown = std::io::stderr().is_terminal();
        Progress {
            shown: is_shown.then(|| Mutex::new(Instant::now())),
            has_line: AtomicBool::new(false),
            blobs: AtomicU64::default(),
            bytes: AtomicU64::default(),
            messages: AtomicU64::default(),
            entities: AtomicU64::default(),
            left_out: Mutex::default(),
        }
    }

    pub fn add(&self, counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
        let Some(shown) = &self.shown else { return };
        // Another thread shows it otherwise.
        if let Ok(mut last) = shown.try_lock()
            && last.elapsed() >= INTERVAL
        {
            *last = Instant::now();
            self.has_line.store(true, Ordering::Relaxed);
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", self.counts());
        }
    }

    /// Notes what is not transferred, as a sentence.
    pub fn leave_out(&self, sentence: String) {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.push(sentence);
    }

    /// The counts as text.
    pub fn counts(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "{} blobs ({}), {} messages, {} entities",
            of(&self.blobs),
            size(of(&self.bytes)),
            of(&self.messages),
            of(&self.entities)
        )
    }

    /// Ends the line of the terminal. The sentences about what was left out; none if nothing was.
    pub fn end(self) -> Vec<String> {
        if self.has_line.into_inner() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let left_out = self.left_out.into_inner();
        let mut left_out = left_out.unwrap_or_else(PoisonError::into_inner);
        left_out.sort();
        let more = left_out.len().saturating_sub(LEFT_OUT_SHOWN);
        if more > 0 {
            left_out.truncate(LEFT_OUT_SHOWN);
            left_out.push(format!("and {more} more"));
        }
        left_out
    }
}

//! The progress of a transfer: counts in a changing line on a terminal, and at the end.

use lazurite_base::locks::lock;
use lazurite_base::units::size;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of sentences about what was left out that a command prints.
pub const LEFT_OUT_SHOWN: usize = 20;
/// Maximum number of these sentences that are kept.
pub const LEFT_OUT_KEPT: usize = 100_000;

/// Counts of transferred items, and sentences about those left out.
pub struct Progress {
    /// When the line was last shown; `None` if standard error is not a terminal.
    shown: Option<Mutex<Instant>>,
    has_line: AtomicBool,
    pub containers: AtomicU64,
    pub queues: AtomicU64,
    pub tables: AtomicU64,
    pub blobs: AtomicU64,
    pub bytes: AtomicU64,
    pub messages: AtomicU64,
    pub entities: AtomicU64,
    /// Number of blobs transferred without their immutability policy or legal hold.
    pub unprotected: AtomicU64,
    left_out: Mutex<LeftOut>,
}

/// Sentences about items that are left out.
#[derive(Default)]
struct LeftOut {
    sentences: Vec<String>,
    /// Number of further sentences, which are not kept.
    more: usize,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress::shown_if(std::io::stderr().is_terminal())
    }

    /// Progress without a line on the terminal.
    pub fn silent() -> Progress {
        Progress::shown_if(false)
    }

    fn shown_if(is_shown: bool) -> Progress {
        Progress {
            shown: is_shown.then(|| Mutex::new(Instant::now())),
            has_line: AtomicBool::new(false),
            containers: AtomicU64::default(),
            queues: AtomicU64::default(),
            tables: AtomicU64::default(),
            blobs: AtomicU64::default(),
            bytes: AtomicU64::default(),
            messages: AtomicU64::default(),
            entities: AtomicU64::default(),
            unprotected: AtomicU64::default(),
            left_out: Mutex::default(),
        }
    }

    pub fn add(&self, counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
        let Some(shown) = &self.shown else { return };
        // If the lock is taken, another thread is showing the line.
        if let Ok(mut last) = shown.try_lock()
            && last.elapsed() >= INTERVAL
        {
            *last = Instant::now();
            self.has_line.store(true, Ordering::Relaxed);
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", self.counts_of_contents());
        }
    }

    /// Adds a sentence about an item that is left out.
    pub fn leave_out(&self, sentence: String) {
        let mut left_out = lock(&self.left_out);
        if left_out.sentences.len() < LEFT_OUT_KEPT {
            left_out.sentences.push(sentence);
        } else {
            left_out.more += 1;
        }
    }

    /// All counts as text.
    pub fn counts(&self) -> String {
        format!(
            "{}, {}, {}, {}",
            counted(&self.containers, ["container", "containers"]),
            counted(&self.queues, ["queue", "queues"]),
            counted(&self.tables, ["table", "tables"]),
            self.counts_of_contents()
        )
    }

    /// The counts of blobs, messages and entities as text.
    pub fn counts_of_contents(&self) -> String {
        format!(
            "{} ({}), {}, {}",
            counted(&self.blobs, ["blob", "blobs"]),
            size(self.bytes.load(Ordering::Relaxed)),
            counted(&self.messages, ["message", "messages"]),
            counted(&self.entities, ["entity", "entities"])
        )
    }

    /// All counts, by their names.
    pub fn json(&self) -> Value {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "containers": value(&self.containers),
            "blobs": value(&self.blobs),
            "bytes": value(&self.bytes),
            "queues": value(&self.queues),
            "messages": value(&self.messages),
            "tables": value(&self.tables),
            "entities": value(&self.entities),
        })
    }

    /// Ends the line of the terminal. Returns sentences about what was left out, at most `most`,
    /// and then one about how many more there are.
    pub fn end(self, most: usize) -> Vec<String> {
        if self.has_line.into_inner() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let left_out = self.left_out.into_inner();
        let left_out = left_out.unwrap_or_else(PoisonError::into_inner);
        let mut sentences = left_out.sentences;
        sentences.sort();
        let more = sentences.len().saturating_sub(most) + left_out.more;
        if more > 0 {
            sentences.truncate(most);
            sentences.push(format!("and {more} more"));
        }
        sentences
    }
}

/// A count with the noun in singular or plural.
fn counted(counter: &AtomicU64, [singular, plural]: [&str; 2]) -> String {
    let count = counter.load(Ordering::Relaxed);
    format!("{count} {}", if count == 1 { singular } else { plural })
}

//! Storage Analytics: logs of an account's requests, as blobs of its container `$logs`, and
//! metrics, as entities of its tables `$Metrics…`.
//!
//! A request pushes one [`Entry`] into a bounded queue and goes on. A background task gathers the
//! entries by account, service and hour and writes them (`writer.rs`), with their figures
//! (`metrics.rs`). If entries arrive faster than the task takes them, some are dropped and their
//! number is logged: logs never delay a request. A crash loses entries that were not written yet,
//! as on the hosted service. Source: Storage Analytics logging; Storage Analytics log format;
//! Storage Analytics metrics.

mod capacity;
mod entry;
mod inputs;
mod metrics;
mod observer;
mod writer;

pub use entry::Entry;
pub use inputs::Inputs;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum number of entries that wait for the writer. Further ones are dropped and counted.
const ENTRIES_WAITING_MAX: usize = 16 * 1024;

/// Queues entries for the task that writes them, once it runs.
#[derive(Debug, Default)]
pub struct Analytics {
    /// A sent `None` ends the task.
    entries: OnceLock<mpsc::Sender<Option<Box<Entry>>>>,
    dropped: Arc<AtomicU64>,
}

impl Analytics {
    /// Starts the task that writes logs. A log is due `interval` after its first entry. After
    /// [`Analytics::close`], the task writes everything that is left and ends.
    pub fn start(&self, inputs: Inputs, interval: Duration) -> JoinHandle<()> {
        let (sender, receiver) = mpsc::channel(ENTRIES_WAITING_MAX);
        let _ = self.entries.set(sender);
        tokio::spawn(writer::run(
            inputs,
            self.dropped.clone(),
            receiver,
            interval,
        ))
    }

    /// Receives the queued entries in place of the task.
    #[cfg(test)]
    pub fn entries_for_tests(&self) -> mpsc::Receiver<Option<Box<Entry>>> {
        let (sender, receiver) = mpsc::channel(ENTRIES_WAITING_MAX);
        let _ = self.entries.set(sender);
        receiver
    }

    /// Queues an entry. Drops it if the queue is full or the task does not run.
    pub fn take(&self, entry: Box<Entry>) {
        let sent = self
            .entries
            .get()
            .map(|entries| entries.try_send(Some(entry)).is_ok());
        // Warns here too: the task that logs the count may be waiting for the disk.
        if sent == Some(false) && self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("requests come faster than they can be logged and counted");
        }
    }

    /// Ends the task after the queued entries. Later entries are dropped.
    pub async fn close(&self) {
        if let Some(entries) = self.entries.get() {
            let _ = entries.send(None).await;
        }
    }
}

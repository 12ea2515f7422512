//! The periodic work of a store: sweeping expired data, and writing logs and metrics.

use crate::analytics::{Analytics, Inputs};
use crate::connection::on_blocking_pool;
use crate::services::Services;
use lazurite_protocol::response::error;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Maximum number of steps in a sweep of blobs. Each step is of bounded size.
const SWEEP_STEPS_MAX: u32 = 64;

/// Interval at which expired data is removed from stores other than forks.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which expired data is removed from a fork. It is longer than that of the other
/// stores, because forks end soon and there may be many.
const FORK_SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// The background tasks of one store.
#[derive(Debug)]
pub struct Housekeeping {
    sweeper: JoinHandle<()>,
    logs: JoinHandle<()>,
}

impl Housekeeping {
    pub fn start(
        analytics: &Analytics,
        inputs: Inputs,
        log_interval: Duration,
        is_fork: bool,
    ) -> Housekeeping {
        let interval = if is_fork {
            FORK_SWEEP_INTERVAL
        } else {
            SWEEP_INTERVAL
        };
        let sweeper = tokio::spawn(sweep(inputs.services.clone(), interval));
        let logs = analytics.start(inputs, log_interval);
        Housekeeping { sweeper, logs }
    }

    pub fn stop_sweeping(&self) {
        self.sweeper.abort();
    }

    /// Ends the tasks at once. Logs that are not written yet are lost.
    pub fn abort(self) {
        self.sweeper.abort();
        self.logs.abort();
    }

    /// Ends the tasks once all logs are written.
    pub async fn end(self, analytics: &Analytics) {
        self.sweeper.abort();
        analytics.close().await;
        let _ = self.logs.await;
    }
}

/// Periodically deletes expired messages, abandoned blocks, rows of deleted tables and purged
/// blobs. Continues under load, when space is needed most. Its writes wait for the store like all
/// other writes, before they take a lock.
async fn sweep(services: Arc<Services>, interval: Duration) {
    let mut more = false;
    let [mut queues_log, mut tables_log, mut blobs_log] =
        ["queues", "tables", "blobs"].map(FailureLog::new);
    loop {
        if !more {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = services.clock.moved() => {}
            }
        }
        let [queues, tables, blobs] = [(); 3].map(|()| services.clone());
        let messages = on_blocking_pool(move || Ok(queues.queues.sweep()?)).await;
        let rows = on_blocking_pool(move || Ok(tables.tables.sweep()?)).await;
        let due = on_blocking_pool(move || Ok(blobs.blobs.sweep(SWEEP_STEPS_MAX)?)).await;
        // Failures are not retried at once: writers get them too, and the next sweep tries again.
        more = match queues_log.success(messages) {
            Some((swept, ticket)) => ticket.await.is_ok() && swept.more,
            None => false,
        };
        more |= tables_log.success(rows).unwrap_or(false);
        if let Some(swept) = blobs_log.success(due) {
            for failure in &swept.failures {
                tracing::error!("not swept, and put off: {failure}");
            }
            more |= swept.steps == SWEEP_STEPS_MAX;
        }
    }
}

/// Logs only the first of several failed sweeps in a row.
struct FailureLog {
    what: &'static str,
    has_failed: bool,
}

impl FailureLog {
    fn new(what: &'static str) -> FailureLog {
        FailureLog {
            what,
            has_failed: false,
        }
    }

    /// The result of a successful sweep; logs a failure and returns `None`.
    fn success<T>(&mut self, outcome: error::Result<T>) -> Option<T> {
        let failed_before = std::mem::replace(&mut self.has_failed, outcome.is_err());
        match outcome {
            Ok(swept) => Some(swept),
            Err(failure) => {
                if !failed_before {
                    tracing::error!("{} are not swept: {}", self.what, failure.message);
                }
                None
            }
        }
    }
}

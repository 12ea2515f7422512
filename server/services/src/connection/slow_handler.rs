//! Notices, in debug builds, requests that occupy a connection thread for long: other connections
//! of that thread wait for it.
//!
//! Measures processor time, not elapsed time: on a busy machine any thread may be stopped.

use crate::platform::thread_processor_time;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Maximum processor time for which a request may occupy a connection thread without a pause.
/// Longer work belongs on the blocking pool.
///
/// A debug build takes about ten times the processor time of a release build, and half as much
/// again on a busy machine: a transaction of a hundred entities took 13 ms. A lower limit would
/// report the machine's load.
const HELD_MAX: Duration = Duration::from_millis(40);

/// A request that measures the processor time of each poll.
pub struct Measured<F> {
    request: Pin<Box<F>>,
    what: String,
}

impl<F> Measured<F> {
    /// `what` names the request in the log line.
    pub fn new(request: F, what: String) -> Measured<F> {
        Measured {
            request: Box::pin(request),
            what,
        }
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<F::Output> {
        let before = thread_processor_time();
        let polled = self.request.as_mut().poll(task);
        let held = thread_processor_time().saturating_sub(before);
        if held > HELD_MAX {
            tracing::error!(
                milliseconds = held.as_millis() as u64,
                "a connection thread was held by {}",
                self.what
            );
        }
        polled
    }
}

//! The rules of queues.

use crate::advice::Finding;
use crate::request::Request;
use crate::rules::{EMPTY_POLLS, POLL_PAUSE_MILLISECONDS, RETURN_DEQUEUE_COUNT, RETURNS, Rule};
use crate::tally::Tally;
use crate::watch::Window;
use std::time::SystemTime;

#[derive(Debug)]
pub(crate) struct QueueWatch {
    window: Window,
    /// Empty answers in a row.
    empty: Tally,
    empty_since: Option<SystemTime>,
    returning: Tally,
}

impl Default for QueueWatch {
    fn default() -> QueueWatch {
        QueueWatch {
            window: Window::default(),
            empty: Tally::new(EMPTY_POLLS),
            empty_since: None,
            returning: Tally::new(RETURNS),
        }
    }
}

impl QueueWatch {
    pub(crate) fn see(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        if self.window.begins(request.at) {
            self.returning.restart(RETURNS);
            self.forget_empty();
        }
        let Some(delivered) = request.delivered else {
            return;
        };
        if delivered.messages == 0 {
            self.poll(request, weight, findings);
        } else {
            self.forget_empty();
        }
        if delivered.dequeue_count_max >= RETURN_DEQUEUE_COUNT {
            self.returning.add(request, weight);
            if self.returning.fires() {
                let text = format!(
                    "{} deliveries were of messages with a dequeue count of {RETURN_DEQUEUE_COUNT} or more; the last one had {}",
                    self.returning.count, delivered.dequeue_count_max
                );
                findings.push(Finding::of(
                    Rule::ReturningMessages,
                    request,
                    &self.returning,
                    text,
                ));
            }
        }
    }

    fn forget_empty(&mut self) {
        self.empty.restart(EMPTY_POLLS);
        self.empty_since = None;
    }

    fn poll(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        let since = *self.empty_since.get_or_insert(request.at);
        self.empty.add(request, weight);
        let elapsed = request.at.duration_since(since).unwrap_or_default();
        let pause = elapsed.as_millis() / u128::from(self.empty.count);
        if pause < u128::from(POLL_PAUSE_MILLISECONDS) && self.empty.fires() {
            let text = format!(
                "{} Get Messages in a row found nothing, {pause} milliseconds apart on average",
                self.empty.count
            );
            findings.push(Finding::of(Rule::BusyPolling, request, &self.empty, text));
        }
    }
}

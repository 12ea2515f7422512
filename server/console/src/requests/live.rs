//! Requests as server-sent events. Source: HTML Standard, "Server-sent events".

use crate::context::Console;
use crate::requests::facts::summary;
use crate::requests::filter::Wanted;
use crate::respond::{Page, Visit, text};
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Interval at which the ring is checked for new requests.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of requests in one event. The event also gives the number of requests left out.
const EVENT_MAX: usize = 100;
/// Number of ticks without a request after which a comment keeps the connection alive.
const QUIET_TICKS_MAX: u32 = 40;

/// `/_lazurite/requests/live?after=N`: a stream of the requests after position N.
pub async fn events(State(console): State<Arc<Console>>, visit: Visit) -> Page<Response<Body>> {
    let mut interval = interval(LOOK_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let last_event = visit
        .headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last_event.or_else(|| visit.parameter("after").parse().ok());
    let events = Events {
        after: after.unwrap_or_else(|| console.requests.totals().newest),
        skipped: console.requests.totals().skipped,
        console,
        wanted: Wanted::of(&visit),
        interval,
        quiet_ticks: 0,
    };
    Ok(text("text/event-stream", Body::new(events)))
}

struct Events {
    console: Arc<Console>,
    wanted: Wanted,
    after: u64,
    /// Number of skipped requests, up to the last event. They were counted but not kept.
    skipped: u64,
    interval: Interval,
    quiet_ticks: u32,
}

impl Events {
    /// The next event; `None` if there is nothing new.
    fn next(&mut self) -> Option<String> {
        let ring = &self.console.requests;
        let totals = ring.totals();
        // After a burst, only the newest requests are sent, and the others are counted.
        let start = self
            .after
            .max(totals.newest.saturating_sub(EVENT_MAX as u64));
        let batch = ring.after(start, EVENT_MAX, |record| {
            self.wanted.matches(record) && self.console.shows_request(record)
        });
        let missed = batch.missed + (start - self.after) + (totals.skipped - self.skipped);
        let is_quiet = batch.next == self.after;
        self.after = batch.next;
        if is_quiet {
            self.quiet_ticks += 1;
            let is_due = self.quiet_ticks >= QUIET_TICKS_MAX;
            return is_due.then(|| {
                self.quiet_ticks = 0;
                ":\n\n".to_owned()
            });
        }
        self.skipped = totals.skipped;
        self.quiet_ticks = 0;
        let data = serde_json::json!({
            "requests": batch.records.iter().map(|record| summary(record)).collect::<Vec<_>>(),
            "missed": missed,
            "seen": totals.seen,
        });
        Some(format!(
            "id: {}\nevent: requests\ndata: {data}\n\n",
            self.after
        ))
    }
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if self.interval.poll_tick(task).is_pending() {
                return Poll::Pending;
            }
            if self.console.is_closing.load(Ordering::Relaxed) {
                return Poll::Ready(None);
            }
            if let Some(event) = self.next() {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(event)))));
            }
        }
    }
}

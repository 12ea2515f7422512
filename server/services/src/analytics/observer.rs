//! The observer that makes the entries of logs and metrics.

use crate::analytics::{Analytics, Entry};
use crate::observer::{Answer, End, ExchangeFacts, Observer, Routing};

impl Observer for Box<Entry> {
    type Sink = Analytics;

    fn routed(_: &Analytics, _: &ExchangeFacts, routing: &Routing<'_>) -> Option<Box<Entry>> {
        Entry::of(routing)
    }

    fn answered(&mut self, _: &Analytics, exchange: &ExchangeFacts, answer: &mut Answer) -> bool {
        self.answer(exchange, answer.headers());
        true
    }

    fn ended(mut self, analytics: &Analytics, _: &ExchangeFacts, end: &End) {
        self.end(end);
        analytics.take(self);
    }
}

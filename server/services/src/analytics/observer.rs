//! The observer that makes the entries of logs and metrics.

use crate::analytics::{Analytics, Entry};
use crate::observer::{Answer, End, ExchangeFacts, Observer, Routing};
use lazurite_protocol::auth::Caller;
use lazurite_protocol::properties::ServiceProperties;

impl Observer for Box<Entry> {
    type Sink = Analytics;

    fn routed(
        _: &Analytics,
        _: &ExchangeFacts,
        routing: &Routing<'_>,
        properties: &ServiceProperties,
    ) -> Option<Box<Entry>> {
        Entry::of(routing, properties)
    }

    fn authenticated(
        this: Option<Box<Entry>>,
        _: &Analytics,
        _: &ExchangeFacts,
        _: &Routing<'_>,
        caller: &Caller,
    ) -> Option<Box<Entry>> {
        this.map(|entry| entry.of_caller(caller))
    }

    fn answered(&mut self, _: &Analytics, exchange: &ExchangeFacts, answer: &mut Answer) -> bool {
        self.answer(exchange, answer.headers());
        true
    }

    fn ended(mut self, analytics: &Analytics, exchange: &ExchangeFacts, end: &End) {
        self.end(exchange, end);
        analytics.take(self);
    }
}

//! A request under way, until its record is added to the ring.

use crate::observer::{Answer, End, ExchangeFacts, HowEnded, Observer};
use crate::pages;
use crate::request::body_copy::BodyCopy;
use crate::requests::head::{head_of, push_headers};
use crate::requests::record::{Bodies, Record};
use crate::requests::{HEADER, Ring};
use axum::http::header::HeaderMap;
use std::sync::Arc;

/// The parts of a record that are known so far.
#[derive(Debug, Default)]
pub struct RequestUnderWay {
    /// `None` if this second has had so many requests that this one is only counted.
    head: Option<Vec<u8>>,
    bodies: Option<Bodies>,
    /// Whether the response may be copied: it contains no key or token.
    copies_response: bool,
}

impl RequestUnderWay {
    /// The copy for the request's body; `None` if bodies are not kept.
    pub fn request_copy(&self) -> Option<Arc<BodyCopy>> {
        let bodies = self.bodies.as_ref()?;
        Some(bodies.request.clone())
    }
}

impl Observer for RequestUnderWay {
    type Sink = Ring;

    fn begun(
        ring: &Ring,
        exchange: &ExchangeFacts,
        headers: &HeaderMap,
    ) -> Option<RequestUnderWay> {
        // The server's own requests would displace those of clients, for example during an export.
        let is_of_client = !exchange.is_own && exchange.batch.is_none();
        let is_page = exchange.target.path().starts_with(pages::PREFIX);
        let is_unwatched = headers.get(HEADER).is_some_and(|wish| wish == "ignore");
        if !is_of_client || is_page || is_unwatched || !ring.is_on() {
            return None;
        }
        if !ring.has_room(exchange.started) {
            return Some(RequestUnderWay::default());
        }
        let mut head = head_of(&exchange.method, &exchange.target);
        push_headers(&mut head, headers);
        Some(RequestUnderWay {
            head: Some(head),
            bodies: ring.copies_for(headers),
            copies_response: false,
        })
    }

    fn answered(&mut self, ring: &Ring, exchange: &ExchangeFacts, answer: &mut Answer) -> bool {
        let is_refused = exchange.is_refused();
        if is_refused {
            ring.count_error();
        } else if self.head.is_none() {
            ring.skip();
            return false;
        }
        let operation = exchange.operation;
        let is_secret = operation == "GetUserDelegationKey"
            || operation.is_empty() && answer.status().is_success();
        self.copies_response = !is_secret;
        let head = self
            .head
            .get_or_insert_with(|| head_of(&exchange.method, &exchange.target));
        head.push(b'\n');
        push_headers(head, answer.headers());
        true
    }

    fn sent(&mut self, data: &[u8]) {
        if let Some(bodies) = self.bodies.as_ref().filter(|_| self.copies_response) {
            bodies.response.take(data);
        }
    }

    fn ended(self, ring: &Ring, exchange: &ExchangeFacts, end: &End) {
        if end.how == HowEnded::BrokenOff && !exchange.is_refused() {
            ring.count_error();
        }
        let origin = &exchange.origin;
        ring.push(Record {
            number: 0,
            at: origin.now,
            took: end.took,
            service: origin.service,
            peer: origin.peer.ip(),
            secure: origin.secure,
            request_id: origin.request_id.clone(),
            account: exchange.account.clone(),
            operation: exchange.operation,
            status: exchange.status.as_u16(),
            refusal: exchange.refusal.clone(),
            request_bytes: end.received,
            declared_bytes: exchange.declared_bytes,
            response_bytes: end.sent,
            ended: end.how,
            resource: 0,
            head: self.head.unwrap_or_default(),
            bodies: self.bodies,
        });
    }
}

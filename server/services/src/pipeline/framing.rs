//! Refuses a head that is too long or ambiguous, before any other check, and begins to follow the
//! body.

use crate::auth::identity;
use crate::pipeline::exchange::{Exchange, Step};
use crate::request::body::RequestBody;
use crate::request::limits::check_framing;

pub fn check(exchange: &mut Exchange<'_>) -> Step {
    let parts = &exchange.parts;
    check_framing(&parts.uri, &parts.headers, &exchange.raw)?;
    let requests = exchange.observers.requests.as_ref();
    let copy = requests.and_then(|request| request.request_copy());
    let copy = copy.filter(|_| !identity::is_path(parts.uri.path()));
    if let Some(incoming) = exchange.incoming.take() {
        let reception = exchange.answer.reception.clone();
        let body = RequestBody::new(incoming, &parts.headers, reception);
        exchange.body = Some(body.copied_to(copy));
    }
    Ok(())
}

//! Faults that a test injects into requests: errors, latency, connections that end, responses that
//! are cut.
//!
//! A rule of `/_lazurite/faults`, or the header `x-lazurite-fault` of one request, names a fault;
//! both use the syntax of `kind.rs`. A fault is chosen after routing and authentication: its rule
//! may name the operation, and unauthenticated requests are refused as always. Latency, errors and
//! resets come before the handler. The handler does not run after an error or a reset. A response
//! is lost or cut after the handler has run. Only errors that Azure Storage gives can be injected.
//!
//! `targets.rs` has the limits of Azure Storage. A request that exceeds a limit is refused as on
//! Azure Storage.
//!
//! Without rules and targets, a request costs two loads of atomic flags and a look for the header.

mod ending;
mod kind;
pub mod page;
mod rules;
pub mod targets;

pub use ending::Ending;
pub use kind::{Fault, HEADER};
pub use rules::Faults;

use crate::browser_guard;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};

/// The fault of a request, if it has one. Errors: the header is malformed, or not accepted from
/// this caller.
///
/// The header needs credentials. It also needs a client on this machine, unless `--faults` opens it
/// to others. A fault affects only its own request, but holds a connection for up to a minute, and
/// a header that a gateway forwards must not make a server fail.
pub fn choose(
    faults: &Faults,
    context: &Context,
    operation: &'static str,
    caller: &Caller,
) -> Result<Option<Fault>> {
    if context.headers.get(HEADER).is_some() {
        return from_header(faults, context, caller).map(Some);
    }
    Ok(faults.choose(context, operation))
}

fn from_header(faults: &Faults, context: &Context, caller: &Caller) -> Result<Fault> {
    let text = context.header(HEADER).unwrap_or_default();
    if matches!(caller, Caller::Anonymous) {
        let message = "The header x-lazurite-fault is accepted with credentials only.";
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    let is_near = context.peer.ip().to_canonical().is_loopback()
        && !browser_guard::came_through_proxy(&context.headers);
    if !is_near && !faults.takes_header_from_anywhere {
        let message = "The header x-lazurite-fault is accepted from this machine only. Start Lazurite with --faults to accept it from others.";
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    let kind = kind::Kind::parse(&text).map_err(|reason| {
        common::INVALID_HEADER_VALUE
            .with("HeaderName", HEADER)
            .with("HeaderValue", text)
            .with("Reason", reason)
    })?;
    Ok(faults.by_header(&kind))
}

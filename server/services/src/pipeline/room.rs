//! Memory for a response that may be long: reserved before the handler runs, held until it is sent.

use crate::memory::HOLDER;
use crate::pipeline::call::Call;
use crate::pipeline::exchange::{Exchange, Step};
use crate::response::long_responses;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::AUTHORIZATION;
use lazurite_protocol::request::context::Context;
use std::net::IpAddr;
use xxhash_rust::xxh3::xxh3_64;

pub async fn reserve(call: &mut Call<'_, '_>) -> Step {
    let _ = HOLDER.try_with(|number| number.set(holder(&call.context)));
    call.exchange.answer.grant = long_responses::reserve(call.operation.long_response).await?;
    Ok(())
}

/// A number for the credential of a request, or for its client's address if it has none. Requests
/// with the same number share one limit of memory.
fn holder(context: &Context) -> u64 {
    let authorization = context.headers.get_hashed(&AUTHORIZATION);
    let hash = match (context.query.get_literal("sig"), authorization) {
        (Some(signature), _) => xxh3_64(signature.as_bytes()),
        (None, Some(credentials)) => {
            // The part before the last colon is the account; the signature differs in each request.
            let credentials = credentials.as_bytes();
            let account = memchr::memrchr(b':', credentials);
            xxh3_64(&credentials[..account.unwrap_or(credentials.len())])
        }
        (None, None) => match context.peer.ip().to_canonical() {
            IpAddr::V4(address) => xxh3_64(&address.octets()),
            IpAddr::V6(address) => xxh3_64(&address.octets()),
        },
    };
    hash.max(1)
}

/// Holds the reserved memory until the response is sent.
pub fn hold(exchange: &mut Exchange<'_>, response: &mut Response<Body>) {
    if let Some(grant) = exchange.answer.grant.take() {
        *response = long_responses::hold(grant, std::mem::take(response));
    }
}

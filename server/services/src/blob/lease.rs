//! Lease Blob and Lease Container, and the headers of leases in responses.

use crate::blob::conditions::{optional_id, parse_id};
use crate::blob::request::Request;
use crate::blob::validators::with_validators;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{
    BlobService, Conditions, Lease, LeaseAction, LeaseDuration, LeaseOutcome, LeaseState, Written,
};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{LEASE_STATE, LEASE_STATUS, empty, put};
use std::time::SystemTime;

pub async fn lease_blob(request: Box<Request>) -> Result<Response<Body>> {
    let (action, conditions) = (action(&request.context)?, without_lease(&request)?);
    let call =
        move |blobs: &BlobService, r: &Request| blobs.lease_blob(&r.address(), action, &conditions);
    let (outcome, written, ticket) = request.write(call).await?;
    ticket.await?;
    Ok(lease_response(action, outcome, &written))
}

pub async fn lease_container(request: Box<Request>) -> Result<Response<Body>> {
    let (action, conditions) = (action(&request.context)?, without_lease(&request)?);
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.lease_container(r.account(), &r.container, action, &conditions)
    };
    let (outcome, written, ticket) = request.change(call).await?;
    ticket.await?;
    Ok(lease_response(action, outcome, &written))
}

/// The conditions without the lease id, which names the lease to act on and is not a condition.
fn without_lease(request: &Request) -> Result<Conditions> {
    Ok(Conditions {
        lease_id: None,
        ..request.conditions()?
    })
}

/// The requested action. Source: Lease Blob, "Request headers".
fn action(context: &Context) -> Result<LeaseAction> {
    let name = "x-ms-lease-action";
    let action = context.required_header(name)?;
    let id = |name| parse_id(name, context.required_header(name)?);
    match action.to_ascii_lowercase().as_str() {
        "acquire" => {
            let name = "x-ms-lease-duration";
            let text = context.required_header(name)?;
            let seconds = text.parse().map_err(|_| Failure::header(name, text))?;
            Ok(LeaseAction::Acquire {
                duration: LeaseDuration::new(seconds)?,
                proposed: optional_id(context, "x-ms-proposed-lease-id")?,
            })
        }
        "renew" => Ok(LeaseAction::Renew(id("x-ms-lease-id")?)),
        "change" => Ok(LeaseAction::Change(
            id("x-ms-lease-id")?,
            id("x-ms-proposed-lease-id")?,
        )),
        "release" => Ok(LeaseAction::Release(id("x-ms-lease-id")?)),
        "break" => {
            let name = "x-ms-lease-break-period";
            let parse = |text: String| text.parse().map_err(|_| Failure::header(name, text));
            Ok(LeaseAction::Break(
                context.header(name).map(parse).transpose()?,
            ))
        }
        _ => Err(Failure::header(name, action)),
    }
}

fn lease_response(action: LeaseAction, outcome: LeaseOutcome, written: &Written) -> Response<Body> {
    let status = match action {
        LeaseAction::Acquire { .. } => 201,
        LeaseAction::Break(_) => 202,
        LeaseAction::Renew(_) | LeaseAction::Change(..) | LeaseAction::Release(_) => 200,
    };
    let mut response = with_validators(empty(status), written);
    match outcome {
        LeaseOutcome::Held(id) => put(&mut response, "x-ms-lease-id", id.to_string()),
        LeaseOutcome::Released => {}
        LeaseOutcome::Breaking(seconds) => {
            put(&mut response, "x-ms-lease-time", seconds.to_string())
        }
    }
    response
}

/// The status, the state and, while leased, the duration, as headers and listings spell them.
pub fn texts(lease: &Lease, now: SystemTime) -> (&'static str, &'static str, Option<&'static str>) {
    let status = if lease.is_locked(now) {
        "locked"
    } else {
        "unlocked"
    };
    let state = match lease.state(now) {
        LeaseState::Available => "available",
        LeaseState::Leased => "leased",
        LeaseState::Expired => "expired",
        LeaseState::Breaking => "breaking",
        LeaseState::Broken => "broken",
    };
    let duration = lease.duration(now).map(|duration| match duration {
        LeaseDuration::Infinite => "infinite",
        LeaseDuration::Seconds(_) => "fixed",
    });
    (status, state, duration)
}

/// Adds the headers of a lease to the response of a read.
pub fn put_lease(response: &mut Response<Body>, lease: &Lease, now: SystemTime) {
    let (status, state, duration) = texts(lease, now);
    put(response, LEASE_STATUS, status);
    put(response, LEASE_STATE, state);
    if let Some(duration) = duration {
        put(response, "x-ms-lease-duration", duration);
    }
}

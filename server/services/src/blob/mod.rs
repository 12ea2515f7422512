//! The Blob service on the wire: runs the handler of a routed request, and refuses unsupported
//! requests by name.

mod append_blob;
mod azure_files;
mod batch;
mod block_blob;
mod checksums;
mod conditions;
mod container;
mod content;
mod copy;
mod copy_allow_list;
mod copy_request;
mod copy_slots;
mod copy_state;
mod data_lake;
mod encryption;
mod fetcher;
pub mod header_text;
mod immutability;
mod inputs;
pub mod lake;
mod lease;
mod list;
mod list_arrow;
mod listed;
mod long_read;
pub mod operations;
mod page_blob;
mod parameters;
mod pending_copy;
mod permissions;
mod query;
mod read;
mod remote_source;
mod request;
mod service;
mod source;
mod store_small_bodies;
mod sub_requests;
mod tags;
#[cfg(test)]
mod tests;
mod tier;
pub mod upload;
mod validators;
pub mod website;
mod write;

use crate::connection::blocking_pool;
use crate::request::body::RequestBody;
use crate::request::operation::BodyRule;
use crate::response::ResponseFuture;
use conditions::blob_state;
pub use container::access_text;
pub use content::content_body;
pub use fetcher::Fetcher;
use lake::Rights;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::auth::policy::authorize;
use lazurite_protocol::properties::LOGS_CONTAINER;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};
use operations::Row;
pub use operations::{Route, route};
use permissions::is_public;
use request::Request;
pub use request::State;
use std::sync::Arc;
pub use sub_requests::{PartFuture, SubRequests};

/// Starts the operation that a request asks for, if the caller may perform it.
pub fn handle(
    state: &Arc<State>,
    sub_requests: Arc<dyn SubRequests>,
    mut context: Box<Context>,
    route: Result<Route>,
    caller: Caller,
    body: RequestBody,
) -> Result<ResponseFuture> {
    let Route {
        operation,
        container,
        blob,
    } = route?;
    check_access(state, operation, &context, &caller, &container)?;
    let rights = Rights::of(&caller, &context, &state.data_owners);
    rights.check(operation)?;
    let surplus_body = if context.speaks_data_lake {
        lake::surplus_body
    } else {
        upload::surplus_body
    };
    let blob_state = blob_state(&context)?;
    let body = operation.check_content(&context, body, state.loose)?;
    operation.admit(&mut context, state.loose)?;
    check_body(operation, &context, &body, surplus_body)?;
    if container == LOGS_CONTAINER && !operation.on_analytics_data {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    // The client waits for 100 Continue: if the container does not exist, refuse before the client
    // sends the body.
    if body.is_awaited() && !container.is_empty() {
        let (blobs, account) = (&state.services.blobs, &context.account);
        blocking_pool::read(|| Ok(blobs.get_container_properties(account, &container)?))?;
    }
    let key_sha256 = encryption::customer_key_sha256(&context);
    let request = Box::new(Request {
        state: state.clone(),
        sub_requests,
        context,
        caller,
        rights,
        container,
        blob,
        blob_state,
    });
    let response = operation.begin(request, body, surplus_body);
    if key_sha256.is_none() {
        return Ok(response);
    }
    Ok(Box::pin(async move {
        let mut response = response.await?;
        encryption::echo_customer_key(&mut response, key_sha256);
        Ok(response)
    }))
}

fn check_access(
    state: &State,
    operation: &Row,
    context: &Context,
    caller: &Caller,
    container: &str,
) -> Result<()> {
    let is_anonymous = matches!(caller, Caller::Anonymous);
    if is_anonymous && is_public(state, context, operation, container)? {
        return Ok(());
    }
    match operation.needs(context) {
        Some(needs) => authorize(caller, context, &needs),
        None => Ok(()),
    }
}

/// Refuses a request that lacks a required body or its length, and one that declares a body where
/// none is allowed. Source: Put Blob, "Request headers", `Content-Length`.
fn check_body(
    operation: &Row,
    context: &Context,
    body: &RequestBody,
    surplus_body: fn(u64) -> Failure,
) -> Result<()> {
    if operation.body == BodyRule::Required {
        return body.check_length_is_declared(&context.headers);
    }
    match body.length_at_least() {
        0 => Ok(()),
        length => Err(surplus_body(length)),
    }
}

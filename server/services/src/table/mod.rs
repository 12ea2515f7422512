//! The Table service on the wire: the operation of a request, its authorization, the format of its
//! response.

mod access;
mod acl;
pub mod address;
mod batch;
mod entity;
mod format;
pub mod operations;
mod request;
mod route;
mod tables;
#[cfg(test)]
mod tests;
mod token;
pub mod value_text;

pub use entity::plan_name;
pub use operations::route;
pub use route::Route;

use crate::connection::blocking_pool;
use crate::request::body::RequestBody;
use crate::request::operation::{BodyRule, Resource};
use crate::response::ResponseFuture;
use access::{check_access, sas_key_range};
use format::{check_content_type, level};
use lazurite_protocol::auth::Caller;
use lazurite_protocol::odata::Level;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use request::Request;
pub use request::State;
use std::sync::Arc;

/// Starts the operation of a request, if the caller may perform it.
pub fn handle(
    state: &Arc<State>,
    mut context: Box<Context>,
    route: Result<Route>,
    caller: Caller,
    body: RequestBody,
) -> Result<ResponseFuture> {
    let Route {
        operation,
        table,
        keys,
        write,
        has_predicate,
    } = route?;
    let level = match level(&context) {
        Err(refused) if operation.has_odata_response => return Err(refused),
        // The legacy client of Node.js accepts only Atom for a batch, although its parts accept
        // JSON.
        level => level.unwrap_or(Level::Minimal),
    };
    check_access(operation, &context, &caller, &table)?;
    let body = operation.check_content(&context, body, state.loose)?;
    operation.admit(&mut context, state.loose)?;
    if operation.body == BodyRule::Required {
        body.check_length_is_declared(&context.headers)?;
    }
    let is_batch = operation.resource == Resource::TableBatch;
    let range = sas_key_range(&caller, &table, is_batch)?;
    check_content_type(&context, is_batch)?;
    let is_of_table = !table.is_empty() && operation.resource != Resource::Tables;
    if body.is_awaited() && is_of_table {
        let (tables, account) = (&state.services.tables, &context.account);
        blocking_pool::read(|| Ok(tables.check_table(account, &table)?))?;
    }
    let request = Box::new(Request {
        state: state.clone(),
        context,
        caller,
        table,
        keys,
        write,
        has_predicate,
        level,
        range,
    });
    Ok(operation.begin(request, body, surplus_body))
}

fn surplus_body(_: u64) -> Failure {
    let message = "The request has a body, which this operation does not take.";
    Failure::invalid_input(message)
}

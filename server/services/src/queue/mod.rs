//! The Queue service on the wire: translates between requests and operations on queues.

mod messages;
pub mod operations;
mod queues;
mod request;
#[cfg(test)]
mod tests;

pub use operations::{Route, route};

use crate::connection::blocking_pool;
use crate::request::body::RequestBody;
use crate::request::operation::BodyRule;
use crate::response::ResponseFuture;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::auth::policy::authorize;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};
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
        queue,
        message_id,
    } = route?;
    if let Some(needs) = operation.needs(&context) {
        authorize(&caller, &context, &needs)?;
    }
    let body = operation.check_content(&context, body, state.loose)?;
    operation.admit(&mut context, state.loose)?;
    if operation.body == BodyRule::Required {
        body.check_length_is_declared(&context.headers)?;
    }
    if body.is_awaited() && !queue.is_empty() {
        let (queues, account) = (&state.services.queues, &context.account);
        blocking_pool::read(|| Ok(queues.get_queue_metadata(account, &queue)?))?;
    }
    let request = Box::new(Request {
        state: state.clone(),
        context,
        caller,
        queue,
        message_id,
    });
    Ok(operation.begin(request, body, surplus_body))
}

fn surplus_body(_: u64) -> Failure {
    let detail = "The operation takes no request body.";
    common::INVALID_INPUT.with("ExtendedErrorDetail", detail)
}

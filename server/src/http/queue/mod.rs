//! The Queue service on the wire: parameters and XML to operations, outcomes to headers and XML.

mod messages;
pub mod operations;
mod queues;
mod service;
#[cfg(test)]
mod tests;

pub use operations::{Route, route};

use crate::auth::policy::authorize;
use crate::auth::{Caller, sas};
use crate::http::body::RequestBody;
use crate::http::context::{Context, decode};
use crate::http::error::{Result, known};
use crate::http::headers::{empty, put};
use crate::http::operation::BodyRule;
use crate::http::run;
use crate::http::{App, ResponseFuture};
use axum::body::Body;
use axum::http::Response;
use lazurite_engine::Ticket;
use lazurite_queue::QueueService;
use std::sync::Arc;

/// A request whose operation is known.
pub struct Request {
    app: Arc<App>,
    context: Context,
    caller: Caller,
    queue: String,
    message_id: String,
}

/// Begins the operation that a request asks for, if the caller may perform it.
pub fn handle(
    app: &Arc<App>,
    context: Context,
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
        authorize(&caller, context.service, &needs)?;
    }
    if operation.body == BodyRule::Required {
        body.check_length_is_declared(&context.headers)?;
    }
    let request = Request {
        app: app.clone(),
        context,
        caller,
        queue,
        message_id,
    };
    if operation.body != BodyRule::Empty || body.is_ended() {
        return Ok((operation.handler)(request, body));
    }
    Ok(Box::pin(async move {
        refuse_content(body).await?;
        (operation.handler)(request, RequestBody::empty()).await
    }))
}

/// Refuses a body, of an operation that takes none, unless it is empty.
async fn refuse_content(mut body: RequestBody) -> Result<()> {
    if body.length_at_least() > 0 || body.next_chunk().await?.is_some() {
        let detail = "The operation takes no request body.";
        return Err(known::INVALID_INPUT.with("ExtendedErrorDetail", detail));
    }
    Ok(())
}

/// The stored access policy of that name of the queue a request addresses.
pub fn stored_policy(
    queues: &QueueService,
    context: &Context,
    name: &str,
) -> Result<Option<sas::StoredPolicy>> {
    let path = decode(&context.resource);
    let queue = path.split('/').next().unwrap_or_default();
    let policies = match queues.get_queue_acl(&context.account, queue) {
        Ok(policies) => policies,
        Err(lazurite_queue::Error::Engine(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let policy = policies.into_iter().find(|policy| policy.id == name);
    Ok(policy.map(|policy| sas::StoredPolicy {
        start: policy.start,
        expiry: policy.expiry,
        permission: policy.permission,
    }))
}

impl Request {
    fn account(&self) -> &str {
        &self.context.account
    }
}

/// Runs an operation that answers `204` and nothing else.
async fn write(
    request: Request,
    operation: impl FnOnce(&QueueService, &Request) -> lazurite_queue::Result<Ticket> + Send + 'static,
) -> Result<Response<Body>> {
    let db = request.app.db.clone();
    let ticket = run::write(&db, move || Ok(operation(&request.app.queues, &request)?)).await?;
    ticket.await?;
    Ok(empty(204))
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    put(&mut response, "cache-control", "no-cache");
    response
}

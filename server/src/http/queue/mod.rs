//! The Queue service on the wire: routes, parameters and XML to operations, outcomes to headers and XML.

mod messages;
mod queues;

use super::body::RequestBody;
use super::context::{Context, decode};
use super::error::{Failure, Result, known};
use super::headers::{empty, metadata, put, xml};
use super::run;
use super::{Answering, App, at_once, properties};
use crate::analytics::Logged;
use crate::auth::policy::{Letters, Needs, authorize};
use crate::auth::{Caller, sas};
use axum::body::Body;
use axum::http::{Method, Response};
use lazurite_engine::Ticket;
use lazurite_queue::QueueService;
use std::sync::Arc;

/// Every operation of the service that is served, by its REST name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    ListQueues,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    GetUserDelegationKey,
    CreateQueue,
    DeleteQueue,
    GetQueueMetadata,
    SetQueueMetadata,
    GetQueueAcl,
    SetQueueAcl,
    PutMessage,
    GetMessages,
    PeekMessages,
    ClearMessages,
    UpdateMessage,
    DeleteMessage,
}

/// A request whose operation is known.
struct Request {
    app: Arc<App>,
    context: Context,
    queue: String,
    message_id: String,
}

/// Finds out which operation a request asks for and whether it may, and begins it.
pub fn handle<'a>(
    app: &Arc<App>,
    context: Context,
    caller: &'a Caller,
    body: RequestBody,
) -> Result<Answering<'a>> {
    let (operation, queue, message_id) = route(&context)?;
    if operation != Operation::GetUserDelegationKey {
        authorize(caller, context.service, &needs(operation))?;
    }
    // It reads by its verb only: what it takes is hidden from others.
    if operation == Operation::GetMessages && context.secondary {
        return Err(known::WRITE_ON_SECONDARY.into());
    }
    let request = Request {
        app: app.clone(),
        context,
        queue,
        message_id,
    };
    Ok(match operation {
        Operation::ListQueues => Box::pin(queues::list_queues(request)),
        Operation::GetServiceStats => at_once(xml(200, properties::stats(&request.context))),
        Operation::GetServiceProperties => {
            at_once(properties::get_service_properties(app, &request.context))
        }
        Operation::GetUserDelegationKey => Box::pin(super::get_user_delegation_key(
            request.app,
            request.context,
            caller,
            body,
        )),
        Operation::SetServiceProperties => Box::pin(properties::set_service_properties(
            request.app,
            request.context,
            body,
        )),
        Operation::CreateQueue => Box::pin(queues::create_queue(request)),
        Operation::DeleteQueue => Box::pin(write(request, |queues, r| {
            queues.delete_queue(r.account(), &r.queue)
        })),
        Operation::GetQueueMetadata => Box::pin(queues::get_queue_metadata(request)),
        Operation::SetQueueMetadata => Box::pin(write(request, |queues, r| {
            queues.set_queue_metadata(r.account(), &r.queue, metadata(&r.context))
        })),
        Operation::GetQueueAcl => Box::pin(queues::get_queue_acl(request)),
        Operation::SetQueueAcl => Box::pin(queues::set_queue_acl(request, body)),
        Operation::PutMessage => Box::pin(messages::put_message(request, body)),
        Operation::GetMessages => Box::pin(messages::get_messages(request)),
        Operation::PeekMessages => Box::pin(messages::peek_messages(request)),
        Operation::ClearMessages => Box::pin(write(request, |queues, r| {
            queues.clear_messages(r.account(), &r.queue)
        })),
        Operation::UpdateMessage => Box::pin(messages::update_message(request, body)),
        Operation::DeleteMessage => Box::pin(messages::delete_message(request)),
    })
}

/// What logs call the operation of a request.
pub fn logged(context: &Context) -> Option<Logged> {
    let (operation, ..) = route(context).ok()?;
    Some(Logged::new("Queue", &format!("{operation:?}")))
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

/// Method, path and `comp` to operation, queue and message id. Source: the operations' "Request" sections.
/// Whether the operation that a request names changes anything. What names none is refused later.
pub fn changes_state(context: &Context) -> bool {
    let reads = |operation| {
        matches!(
            operation,
            Operation::ListQueues
                | Operation::GetServiceStats
                | Operation::GetServiceProperties
                | Operation::GetUserDelegationKey
                | Operation::GetQueueMetadata
                | Operation::GetQueueAcl
                | Operation::PeekMessages
        )
    };
    route(context).is_ok_and(|(operation, _, _)| !reads(operation))
}

fn route(context: &Context) -> Result<(Operation, String, String)> {
    let path = decode(context.resource.trim_end_matches('/')).into_owned();
    let mut segments = path.splitn(3, '/').map(str::to_owned);
    let (queue, messages, id) = (segments.next(), segments.next(), segments.next());
    let (comp, method) = (context.comp(), &context.method);
    let operation = match (
        queue.as_deref().filter(|name| !name.is_empty()),
        messages.as_deref(),
        id.as_deref(),
    ) {
        (None, ..) => route_service(context, &comp)?,
        (Some(_), None, _) => route_queue(method, &comp)?,
        (Some(_), Some("messages"), None) => match *method {
            Method::POST => Operation::PutMessage,
            Method::DELETE => Operation::ClearMessages,
            Method::GET
                if context
                    .query
                    .get("peekonly")
                    .is_some_and(|value| value.eq_ignore_ascii_case("true")) =>
            {
                Operation::PeekMessages
            }
            Method::GET => Operation::GetMessages,
            _ => return Err(known::UNSUPPORTED_HTTP_VERB.into()),
        },
        (Some(_), Some("messages"), Some(_)) => match *method {
            Method::PUT => Operation::UpdateMessage,
            Method::DELETE => Operation::DeleteMessage,
            _ => return Err(known::UNSUPPORTED_HTTP_VERB.into()),
        },
        _ => return Err(known::INVALID_URI.into()),
    };
    Ok((operation, queue.unwrap_or_default(), id.unwrap_or_default()))
}

fn route_service(context: &Context, comp: &str) -> Result<Operation> {
    match (&context.method, context.restype().as_str(), comp) {
        (&Method::GET, "", "list") => Ok(Operation::ListQueues),
        (&Method::GET, "service", "properties") => Ok(Operation::GetServiceProperties),
        (&Method::PUT, "service", "properties") => Ok(Operation::SetServiceProperties),
        (_, "service", "properties") => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        (&Method::GET, "service", "stats") => {
            properties::check_secondary(context)?;
            Ok(Operation::GetServiceStats)
        }
        (&Method::POST, "service", "userdelegationkey") => Ok(Operation::GetUserDelegationKey),
        _ => Err(Failure::parameter(
            "comp",
            comp,
            "The account has no such operation.",
        )),
    }
}

fn route_queue(method: &Method, comp: &str) -> Result<Operation> {
    match (method, comp) {
        (&Method::PUT, "") => Ok(Operation::CreateQueue),
        (&Method::DELETE, "") => Ok(Operation::DeleteQueue),
        (&Method::GET | &Method::HEAD, "metadata") => Ok(Operation::GetQueueMetadata),
        (&Method::PUT, "metadata") => Ok(Operation::SetQueueMetadata),
        (&Method::GET | &Method::HEAD, "acl") => Ok(Operation::GetQueueAcl),
        (&Method::PUT, "acl") => Ok(Operation::SetQueueAcl),
        (_, "" | "metadata" | "acl") => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        _ => Err(Failure::parameter(
            "comp",
            comp,
            "A queue has no such operation.",
        )),
    }
}

/// Source: Create an account SAS, "Queue service"; Create a service SAS, "Permissions for a queue". Where Azurite asks
/// for resource type `c` and the page for `o`, either will do.
fn needs(operation: Operation) -> Needs {
    use Letters::{Any, Never};
    let both = |resource_types, account_sas, service_sas| Needs {
        resource_types,
        account_sas,
        service_sas,
    };
    match operation {
        Operation::ListQueues => Needs::account_only("s", Any("l")),
        Operation::GetServiceProperties | Operation::GetServiceStats => {
            Needs::account_only("s", Any("r"))
        }
        Operation::SetServiceProperties => Needs::account_only("s", Any("w")),
        // Asked for before this is: see `get_user_delegation_key`.
        Operation::GetUserDelegationKey => Needs::OWNER,
        Operation::CreateQueue => Needs::account_only("c", Any("cw")),
        Operation::DeleteQueue => Needs::account_only("c", Any("d")),
        Operation::GetQueueMetadata => both("c", Any("r"), Any("r")),
        Operation::SetQueueMetadata => both("c", Any("w"), Never),
        Operation::GetQueueAcl | Operation::SetQueueAcl => Needs::OWNER,
        Operation::PutMessage => both("o", Any("a"), Any("a")),
        Operation::GetMessages => both("o", Any("p"), Any("p")),
        Operation::PeekMessages => both("o", Any("r"), Any("r")),
        Operation::ClearMessages => both("o", Any("d"), Never),
        Operation::UpdateMessage => both("oc", Any("u"), Any("u")),
        Operation::DeleteMessage => both("oc", Any("p"), Any("p")),
    }
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

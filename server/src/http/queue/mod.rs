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

impl Operation {
    /// Whether the operation writes. Get Messages does, in spite of its verb: it hides what it returns.
    fn changes_state(self) -> bool {
        match self {
            Operation::SetServiceProperties
            | Operation::CreateQueue
            | Operation::DeleteQueue
            | Operation::SetQueueMetadata
            | Operation::SetQueueAcl
            | Operation::PutMessage
            | Operation::GetMessages
            | Operation::ClearMessages
            | Operation::UpdateMessage
            | Operation::DeleteMessage => true,
            Operation::ListQueues
            | Operation::GetServiceProperties
            | Operation::GetServiceStats
            | Operation::GetUserDelegationKey
            | Operation::GetQueueMetadata
            | Operation::GetQueueAcl
            | Operation::PeekMessages => false,
        }
    }

    /// Whether the request must have a body, or say that it is empty. Update Message without a body keeps the text.
    fn needs_body(self) -> bool {
        self.takes_body() && self != Operation::UpdateMessage
    }

    /// Whether the request may have a body. Source: the operations' "Request body" sections.
    fn takes_body(self) -> bool {
        matches!(
            self,
            Operation::SetServiceProperties
                | Operation::GetUserDelegationKey
                | Operation::SetQueueAcl
                | Operation::PutMessage
                | Operation::UpdateMessage
        )
    }
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
    if context.secondary && operation.changes_state() {
        return Err(known::WRITE_ON_SECONDARY.into());
    }
    if operation.needs_body() {
        body.check_length_is_declared(&context.headers)?;
    }
    let request = Request {
        app: app.clone(),
        context,
        queue,
        message_id,
    };
    if operation.takes_body() || body.is_ended() {
        return Ok(begin(operation, request, caller, body));
    }
    Ok(Box::pin(async move {
        refuse_content(body).await?;
        begin(operation, request, caller, RequestBody::empty()).await
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

fn begin<'a>(
    operation: Operation,
    request: Request,
    caller: &'a Caller,
    body: RequestBody,
) -> Answering<'a> {
    match operation {
        Operation::ListQueues => Box::pin(queues::list_queues(request)),
        Operation::GetServiceStats => at_once(xml(200, properties::stats(&request.context))),
        Operation::GetServiceProperties => at_once(properties::get_service_properties(
            &request.app,
            &request.context,
        )),
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
    }
}

/// Whether a request asks for an operation that writes, whatever its verb. `false` if it asks for no operation.
pub fn changes_state(context: &Context) -> bool {
    route(context).is_ok_and(|(operation, ..)| operation.changes_state())
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
            Method::GET if is_peek(context)? => Operation::PeekMessages,
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

/// Source: Peek Messages, "URI parameters".
fn is_peek(context: &Context) -> Result<bool> {
    let name = "peekonly";
    let value = context.query.get(name).unwrap_or("false".to_owned());
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Failure::parameter(
            name,
            value,
            "It is neither true nor false.",
        )),
    }
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
        also: "",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Accounts;
    use crate::http::context::{Arrival, ServiceKind};
    use std::time::SystemTime;

    /// The operation of each, and whether it writes.
    const REQUESTS: [(&str, &str, Operation, bool); 19] = [
        ("GET", "/?comp=list", Operation::ListQueues, false),
        (
            "GET",
            "/?restype=service&comp=properties",
            Operation::GetServiceProperties,
            false,
        ),
        (
            "PUT",
            "/?restype=service&comp=properties",
            Operation::SetServiceProperties,
            true,
        ),
        (
            "POST",
            "/?restype=service&comp=userdelegationkey",
            Operation::GetUserDelegationKey,
            false,
        ),
        ("PUT", "/q-1", Operation::CreateQueue, true),
        ("DELETE", "/q-1", Operation::DeleteQueue, true),
        (
            "GET",
            "/q-1?comp=metadata",
            Operation::GetQueueMetadata,
            false,
        ),
        (
            "HEAD",
            "/q-1?comp=metadata",
            Operation::GetQueueMetadata,
            false,
        ),
        (
            "PUT",
            "/q-1?comp=metadata",
            Operation::SetQueueMetadata,
            true,
        ),
        ("GET", "/q-1?comp=acl", Operation::GetQueueAcl, false),
        ("PUT", "/q-1?comp=acl", Operation::SetQueueAcl, true),
        ("POST", "/q-1/messages", Operation::PutMessage, true),
        ("GET", "/q-1/messages", Operation::GetMessages, true),
        (
            "GET",
            "/q-1/messages?peekonly=False",
            Operation::GetMessages,
            true,
        ),
        (
            "GET",
            "/q-1/messages?peekonly=True",
            Operation::PeekMessages,
            false,
        ),
        ("DELETE", "/q-1/messages", Operation::ClearMessages, true),
        ("PUT", "/q-1/messages/x", Operation::UpdateMessage, true),
        ("DELETE", "/q-1/messages/x", Operation::DeleteMessage, true),
        ("DELETE", "/q-1/messages/x/", Operation::DeleteMessage, true),
    ];

    fn context(method: &str, target: &str) -> Context {
        let accounts = Accounts::development();
        let arrival = Arrival {
            service: ServiceKind::Queue,
            now: SystemTime::UNIX_EPOCH,
            system_now: SystemTime::UNIX_EPOCH,
            peer: ([127, 0, 0, 1], 1).into(),
            secure: false,
            request_id: String::new(),
        };
        let request = axum::http::Request::builder()
            .method(method)
            .uri(format!("/devstoreaccount1{target}"))
            .header("host", "127.0.0.1:10001");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Context::new(&arrival, &accounts, &parts).unwrap()
    }

    #[test]
    fn operations_that_write_are_told_from_those_that_read_whatever_the_verb() {
        for (method, target, operation, writes) in REQUESTS {
            let context = context(method, target);
            assert_eq!(route(&context).unwrap().0, operation, "{method} {target}");
            assert_eq!(changes_state(&context), writes, "{method} {target}");
        }
        let mut stats = context("GET", "/?restype=service&comp=stats");
        stats.secondary = true;
        assert_eq!(route(&stats).unwrap().0, Operation::GetServiceStats);
        assert!(!changes_state(&stats));
        assert!(!changes_state(&context("GET", "/q-1/messages?peekonly=1")));
    }
}

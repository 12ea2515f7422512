//! The Queue service on the wire: routes, parameters and XML to operations, outcomes to headers and XML.

use super::body::{DOCUMENT_BYTES_MAX, RequestBody, collect};
use super::context::{Context, decode};
use super::error::{Failure, Result, known};
use super::headers::{empty, metadata, parse_xml, put, put_metadata, xml};
use super::run::{self, cross};
use super::{App, properties};
use crate::analytics::Logged;
use crate::auth::policy::{Letters, Needs, authorize};
use crate::auth::{Caller, sas};
use crate::codec::policies::{self, SignedIdentifier};
use crate::codec::{date, xml::Writer};
use axum::body::Body;
use axum::http::{Method, Response};
use lazurite_engine::Ticket;
use lazurite_queue::{
    Creation, GetMessages, ListQueues, PutMessage, QueueService, StoredPolicy, UpdateMessage,
};
use std::sync::Arc;
use std::time::SystemTime;

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

/// Serves one request.
pub async fn handle(
    app: &Arc<App>,
    context: Context,
    caller: &Caller,
    body: RequestBody,
) -> Result<Response<Body>> {
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
    match operation {
        Operation::ListQueues => list_queues(request).await,
        Operation::GetServiceStats => Ok(xml(200, properties::stats(&request.context))),
        Operation::GetServiceProperties => {
            Ok(properties::get_service_properties(app, &request.context))
        }
        Operation::GetUserDelegationKey => {
            super::get_user_delegation_key(app, &request.context, caller, body).await
        }
        Operation::SetServiceProperties => {
            properties::set_service_properties(app, request.context, body).await
        }
        Operation::CreateQueue => create_queue(request).await,
        Operation::DeleteQueue => {
            write(request, |queues, r| {
                queues.delete_queue(r.account(), &r.queue)
            })
            .await
        }
        Operation::GetQueueMetadata => get_queue_metadata(request).await,
        Operation::SetQueueMetadata => {
            write(request, |queues, r| {
                queues.set_queue_metadata(r.account(), &r.queue, metadata(&r.context))
            })
            .await
        }
        Operation::GetQueueAcl => get_queue_acl(request).await,
        Operation::SetQueueAcl => set_queue_acl(request, body).await,
        Operation::PutMessage => put_message(request, body).await,
        Operation::GetMessages => get_messages(request).await,
        Operation::PeekMessages => peek_messages(request).await,
        Operation::ClearMessages => {
            write(request, |queues, r| {
                queues.clear_messages(r.account(), &r.queue)
            })
            .await
        }
        Operation::UpdateMessage => update_message(request, body).await,
        Operation::DeleteMessage => delete_message(request).await,
    }
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

async fn list_queues(request: Request) -> Result<Response<Body>> {
    let parameter = |name| request.context.query.get(name).unwrap_or_default();
    let (prefix, marker, include) = (
        parameter("prefix"),
        parameter("marker"),
        parameter("include"),
    );
    let with_metadata = include
        .to_ascii_lowercase()
        .split(',')
        .any(|part| part.trim() == "metadata");
    let maxresults = request.context.integer("maxresults")?;
    let base_url = request.context.base_url.clone();
    let (wanted_prefix, wanted_marker) = (prefix.clone(), marker.clone());
    let page = cross(move || {
        let wanted = ListQueues {
            prefix: &wanted_prefix,
            marker: &wanted_marker,
            maxresults,
        };
        Ok(request.app.queues.list_queues(request.account(), wanted)?)
    })
    .await?;
    let mut document = Writer::new();
    document.open_with(
        "EnumerationResults",
        &[("ServiceEndpoint", &format!("{base_url}/"))],
    );
    document.optional(
        "Prefix",
        Some(prefix.as_str()).filter(|text| !text.is_empty()),
    );
    document.optional(
        "Marker",
        Some(marker.as_str()).filter(|text| !text.is_empty()),
    );
    document.optional(
        "MaxResults",
        maxresults.map(|number| number.to_string()).as_deref(),
    );
    document.open("Queues");
    for queue in &page.queues {
        document.open("Queue");
        document.element("Name", &queue.name);
        if with_metadata {
            super::headers::write_metadata(&mut document, &queue.metadata);
        }
        document.close("Queue");
    }
    document.close("Queues");
    document.element("NextMarker", page.next_marker.as_deref().unwrap_or(""));
    document.close("EnumerationResults");
    Ok(xml(200, document.finish()))
}

async fn create_queue(request: Request) -> Result<Response<Body>> {
    let db = request.app.db.clone();
    let work = move || {
        Ok(request.app.queues.create_queue(
            request.account(),
            &request.queue,
            metadata(&request.context),
        )?)
    };
    let (creation, ticket) = run::write(&db, work).await?;
    ticket.await?;
    Ok(empty(match creation {
        Creation::Created => 201,
        Creation::AlreadyThere => 204,
    }))
}

async fn get_queue_metadata(request: Request) -> Result<Response<Body>> {
    let now = request.context.now;
    let work = move || {
        Ok(request
            .app
            .queues
            .get_queue_metadata(request.account(), &request.queue, now)?)
    };
    let properties = cross(work).await?;
    let mut response = empty(200);
    put_metadata(&mut response, &properties.metadata);
    put(
        &mut response,
        "x-ms-approximate-messages-count",
        properties.approximate_message_count.to_string(),
    );
    put(&mut response, "cache-control", "no-cache");
    Ok(response)
}

async fn get_queue_acl(request: Request) -> Result<Response<Body>> {
    let queues = &request.app.queues;
    let policies = run::read(|| Ok(queues.get_queue_acl(request.account(), &request.queue)?))?;
    let identifiers: Vec<_> = policies.into_iter().map(SignedIdentifier::from).collect();
    let mut response = xml(200, policies::write(&identifiers));
    put(&mut response, "cache-control", "no-cache");
    Ok(response)
}

async fn set_queue_acl(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let bytes = collect(body, DOCUMENT_BYTES_MAX).await?;
    let identifiers = super::headers::parse_policies(&bytes)?;
    let policies = identifiers.into_iter().map(StoredPolicy::from).collect();
    write(request, move |queues, r| {
        queues.set_queue_acl(r.account(), &r.queue, policies)
    })
    .await
}

async fn put_message(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let bytes = collect(body, DOCUMENT_BYTES_MAX).await?;
    let text = message_text(&bytes)?;
    let ttl_seconds = message_ttl(&request.context)?;
    let visibility_seconds = request.context.integer("visibilitytimeout")?;
    let now = request.context.now;
    let db = request.app.db.clone();
    let (message, ticket) = run::write(&db, move || {
        let wanted = PutMessage {
            text: &text,
            ttl_seconds,
            visibility_seconds,
        };
        Ok(request
            .app
            .queues
            .put_message(request.account(), &request.queue, wanted, now)?)
    })
    .await?;
    ticket.await?;
    let shown = Shown {
        id: &message.message_id,
        inserted_at: message.inserted_at,
        expires_at: message.expires_at,
        holder: Some((&message.pop_receipt, message.visible_at)),
        content: None,
    };
    Ok(xml(201, messages_document([shown])))
}

/// Lives of more than a week, or without end, came with version 2017-07-29. Source: Put Message, "URI parameters".
fn message_ttl(context: &Context) -> Result<Option<i64>> {
    const WEEK: i64 = 7 * 24 * 60 * 60;
    let name = "messagettl";
    match context.integer(name)? {
        Some(ttl) if !(0..=WEEK).contains(&ttl) && !context.version.is_at_least("2017-07-29") => {
            let reason = "Before version 2017-07-29 a message lives for 604800 seconds at most.";
            Err(Failure::parameter(name, ttl.to_string(), reason))
        }
        ttl => Ok(ttl),
    }
}

/// The text of a `QueueMessage` document. White space is content.
fn message_text(bytes: &[u8]) -> Result<String> {
    let root = parse_xml(bytes)?;
    if root.name != "QueueMessage" {
        return Err(known::INVALID_XML_DOCUMENT.into());
    }
    let text = root.child("MessageText").map(|text| text.text.clone());
    text.ok_or_else(|| known::MISSING_REQUIRED_XML_NODE.with("XmlNodeName", "MessageText"))
}

/// What an answer shows of a message: Put and Get name its holder's receipt, Get and Peek its content.
struct Shown<'a> {
    id: &'a str,
    inserted_at: SystemTime,
    expires_at: SystemTime,
    /// Pop receipt, and when others may take the message.
    holder: Option<(&'a str, SystemTime)>,
    /// Dequeue count and text.
    content: Option<(u32, &'a str)>,
}

/// Source: Get Messages, "Response body".
fn messages_document<'a>(messages: impl IntoIterator<Item = Shown<'a>>) -> String {
    let mut document = Writer::new();
    document.open("QueueMessagesList");
    for message in messages {
        document.open("QueueMessage");
        document.element("MessageId", message.id);
        document.element("InsertionTime", &date::rfc1123(message.inserted_at));
        document.element("ExpirationTime", &date::rfc1123(message.expires_at));
        if let Some((pop_receipt, visible_at)) = message.holder {
            document.element("PopReceipt", pop_receipt);
            document.element("TimeNextVisible", &date::rfc1123(visible_at));
        }
        if let Some((dequeue_count, text)) = message.content {
            document.element("DequeueCount", &dequeue_count.to_string());
            document.element("MessageText", text);
        }
        document.close("QueueMessage");
    }
    document.close("QueueMessagesList");
    document.finish()
}

async fn get_messages(request: Request) -> Result<Response<Body>> {
    let count = request.context.integer("numofmessages")?;
    let visibility_seconds = request.context.integer("visibilitytimeout")?;
    let now = request.context.now;
    let db = request.app.db.clone();
    let (messages, ticket) = run::write(&db, move || {
        let wanted = GetMessages {
            count,
            visibility_seconds,
        };
        Ok(request
            .app
            .queues
            .get_messages(request.account(), &request.queue, wanted, now)?)
    })
    .await?;
    ticket.await?;
    let shown = messages.iter().map(|message| Shown {
        id: &message.message_id,
        inserted_at: message.inserted_at,
        expires_at: message.expires_at,
        holder: Some((&message.pop_receipt, message.visible_at)),
        content: Some((message.dequeue_count, &message.text)),
    });
    Ok(uncached(xml(200, messages_document(shown))))
}

async fn peek_messages(request: Request) -> Result<Response<Body>> {
    let count = request.context.integer("numofmessages")?;
    let now = request.context.now;
    let queues = &request.app.queues;
    let peek = || Ok(queues.peek_messages(request.account(), &request.queue, count, now)?);
    let messages = run::read(peek)?;
    let shown = messages.iter().map(|message| Shown {
        id: &message.message_id,
        inserted_at: message.inserted_at,
        expires_at: message.expires_at,
        holder: None,
        content: Some((message.dequeue_count, &message.text)),
    });
    Ok(uncached(xml(200, messages_document(shown))))
}

async fn update_message(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let pop_receipt = request.context.required_parameter("popreceipt")?;
    request.context.required_parameter("visibilitytimeout")?;
    let visibility_seconds = request
        .context
        .integer("visibilitytimeout")?
        .unwrap_or_default();
    let bytes = collect(body, DOCUMENT_BYTES_MAX).await?;
    let text = if bytes.is_empty() {
        None
    } else {
        Some(message_text(&bytes)?)
    };
    let now = request.context.now;
    let db = request.app.db.clone();
    let (message, ticket) = run::write(&db, move || {
        let wanted = UpdateMessage {
            message_id: &request.message_id,
            pop_receipt: &pop_receipt,
            visibility_seconds,
            text: text.as_deref(),
        };
        Ok(request
            .app
            .queues
            .update_message(request.account(), &request.queue, wanted, now)?)
    })
    .await?;
    ticket.await?;
    let mut response = empty(204);
    put(&mut response, "x-ms-popreceipt", message.pop_receipt);
    put(
        &mut response,
        "x-ms-time-next-visible",
        date::rfc1123(message.visible_at),
    );
    Ok(response)
}

async fn delete_message(request: Request) -> Result<Response<Body>> {
    let pop_receipt = request.context.required_parameter("popreceipt")?;
    let now = request.context.now;
    write(request, move |queues, r| {
        queues.delete_message(r.account(), &r.queue, &r.message_id, &pop_receipt, now)
    })
    .await
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    put(&mut response, "cache-control", "no-cache");
    response
}

//! The running server: its parts, and what every request passes on the way to its handler.

mod sub_request;

use crate::analytics::{Access, Analytics, Entry};
use crate::auth::{Authenticator, Caller, bearer, identity};
use crate::connection::framing::RawHead;
use crate::connection::listener::{Client, Server};
use crate::connection::{Connections, HeaderNames};
use crate::layers::access_log::AccessLog;
use crate::layers::browser_guard;
use crate::memory::Share;
use crate::properties::{self, PropertiesStore, ServiceProperties};
use crate::request::body::RequestBody;
use crate::request::context::{self, ApiVersion, Context, RequestIds, RequestOrigin, ServiceKind};
use crate::request::limits::check_framing;
use crate::request::operation::{Facts, Logged};
use crate::request::target::redact;
use crate::response::common_headers::CommonHeaders;
use crate::response::error::{self, Dialect, Failure, Result, known};
use crate::response::{ResponseFuture, headers, long_responses};
use crate::services::Services;
use crate::{blob, clock, queue, table};
use axum::body::Body;
use axum::http::header::{ACCEPT, CONNECTION, HeaderValue, ORIGIN};
use axum::http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The parts of a running server, which `start.rs` makes. Nothing below this module knows it.
#[derive(Debug)]
pub struct App {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    pub authenticator: Arc<Authenticator>,
    pub blob: Arc<blob::State>,
    pub queue: Arc<queue::State>,
    pub table: Arc<table::State>,
    pub durability: &'static str,
    /// Host names that requests may come under, beside those that only lead to this machine.
    pub allowed_hosts: Vec<String>,
    pub access_log: AccessLog,
    pub connections: Arc<Connections>,
    /// Longest that a request may take until its answer begins.
    pub request_timeout: Option<Duration>,
    pub analytics: Analytics,
    pub request_ids: Arc<RequestIds>,
}

impl App {
    /// A store in memory that is full answers as the emulators do.
    fn in_terms_of_memory(&self, failure: Failure) -> Failure {
        match self.durability == "memory" && failure.code == "InsufficientStorage" {
            true => Failure::new(
                409,
                "MemoryExtentStoreAtSizeLimit",
                "The store in memory is full: see --extentMemoryLimit. Delete something, or start with a higher limit.",
            ),
            false => failure,
        }
    }
}

impl Server for App {
    fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    fn respond(
        self: Arc<App>,
        client: Client,
        request: Request<Incoming>,
        notes: HeaderNames,
    ) -> impl Future<Output = Response<Body>> + Send {
        answer(self, client, request, notes)
    }
}

/// The answer to one request, whatever it is: headers every answer has, a line in each log.
async fn answer(
    app: Arc<App>,
    client: Client,
    request: Request<Incoming>,
    notes: HeaderNames,
) -> Response<Body> {
    let Client { service, peer, .. } = client;
    let (now, request_id) = (app.services.clock.now(), app.request_ids.next());
    let arrival = RequestOrigin {
        service,
        now,
        system_now: clock::system_time(),
        peer,
        secure: client.secure,
        request_id,
    };
    let (method, target) = (request.method().clone(), request.uri().clone());
    let accept = request.headers().get(ACCEPT).cloned();
    let echoed = CommonHeaders::of(&request);
    let origin = request.headers().get(ORIGIN).map(context::text_of);
    let mut learned = ResponseFacts::default();
    let raw = notes.take_head();
    let responding = respond(&app, &arrival, request, raw, &mut learned);
    let outcome = match app.request_timeout {
        None => responding.await,
        Some(time) => tokio::time::timeout(time, responding)
            .await
            .unwrap_or_else(|_| Err(known::OPERATION_TIMED_OUT.into())),
    };
    let mut response = match outcome {
        Ok(response) => response,
        Err(failure) => {
            let failure = app.in_terms_of_memory(failure);
            if failure.status.is_server_error() && failure.status != StatusCode::NOT_IMPLEMENTED {
                tracing::error!(
                    request_id = arrival.request_id,
                    status = failure.status.as_u16(),
                    "{}: {}",
                    failure.code,
                    failure.message
                );
            }
            error::render(
                failure,
                dialect(service, &target, accept.as_ref()),
                &arrival.request_id,
                now,
                method == Method::HEAD,
            )
        }
    };
    if let Some(room) = learned.room {
        response = long_responses::hold(room, response);
    }
    if learned.must_close.load(Ordering::Relaxed) {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    echoed.onto(
        &mut response,
        &arrival.request_id,
        learned
            .version
            .as_ref()
            .map_or(ApiVersion::NEWEST, ApiVersion::as_str),
    );
    if let Some(properties) = learned.properties {
        properties::cors::put_headers(
            &properties.cors_rules(),
            origin.as_deref(),
            &method,
            &mut response,
        );
    }
    let names = headers::take_metadata_names(&mut response);
    notes.set_response_names(&arrival.request_id, names);
    if let Some(entry) = learned.entry {
        app.analytics
            .take(entry.end(&response, app.services.clock.now()));
    }
    let status = response.status().as_u16();
    app.access_log
        .request(peer.ip(), now, method.as_str(), &target, status);
    tracing::info!(request_id = arrival.request_id, service = service.title(), %method, target = redact(&target.to_string()), status, "request");
    response
}

/// Facts that the response needs, even when the request fails.
#[derive(Debug, Default)]
struct ResponseFacts {
    /// The connection cannot be used again.
    must_close: Arc<AtomicBool>,
    version: Option<ApiVersion>,
    /// Of the service and account addressed; `None` where the CORS rules have no say.
    properties: Option<Arc<ServiceProperties>>,
    /// For the account's log and figures, if it wants such requests in them.
    entry: Option<Entry>,
    /// Room for an answer that may be long.
    room: Option<Share>,
}

async fn respond(
    app: &Arc<App>,
    arrival: &RequestOrigin,
    request: Request<Incoming>,
    raw: RawHead,
    learned: &mut ResponseFacts,
) -> Result<Response<Body>> {
    check_framing(&request, &raw)?;
    let (parts, body) = request.into_parts();
    let body = RequestBody::new(body, &parts.headers, learned.must_close.clone());
    let host = context::host(&parts)?;
    browser_guard::check_host(&host, &parts.headers, &app.allowed_hosts)?;
    if let (ServiceKind::Blob, Some(account)) = (
        arrival.service,
        blob::website::account_of(&host, &app.services.accounts),
    ) {
        return Box::pin(blob::website::serve(
            &app.blob,
            app.clone(),
            arrival,
            &account,
            &parts,
        ))
        .await;
    }
    if parts.uri.path() == "/_lazurite/health" {
        return Ok(health(app));
    }
    if app.authenticator.accepts_bearer_tokens
        && identity::is_asked(&app.services.accounts, arrival, &parts, &host)
    {
        browser_guard::check_origin(&parts.headers, &host)?;
        return Box::pin(identity::answer(arrival, &parts, &host, body)).await;
    }
    let mut context = Context::take(arrival, &app.services.accounts, parts, &host)?;
    context.metadata_names = raw.metadata_names;
    let properties = app.properties.get(arrival.service, &context.account);
    context.apply_default_version(properties.default_service_version.as_ref());
    learned.version = Some(context.version.clone());
    if context.method == Method::OPTIONS {
        return properties::cors::preflight(&properties.cors_rules(), &context);
    }
    learned.properties = Some(properties.clone());
    let is_covered = properties::cors::allows(&properties.cors_rules(), &context);
    let routed = Routed::new(&context);
    let facts = routed.facts(&context);
    if facts.changes_state && !is_covered {
        browser_guard::check_origin(&context.headers, &host)?;
    }
    let caller = app.authenticator.authenticate(&context)?;
    let has_credentials = !matches!(caller, Caller::Anonymous);
    if !is_covered && has_credentials && app.services.accounts.is_well_known(&context.account) {
        browser_guard::check_page(&context.headers)?;
    }
    learned.entry = log_entry(&context, facts.logged, &caller, &properties);
    check_location(&context, facts.changes_state)?;
    learned.room = long_responses::reserve(facts.long_response).await?;
    let token_would_do = matches!(caller, Caller::Anonymous)
        && app.authenticator.accepts_bearer_tokens
        && context.is_confidential();
    let begun = routed.handle(app, context, caller, body);
    let outcome = match begun {
        Ok(answering) => answering.await,
        Err(failure) => Err(failure),
    };
    match outcome {
        Err(failure) if token_would_do && failure.code == known::AUTHENTICATION_FAILED.1 => {
            Err(bearer::wanted())
        }
        outcome => outcome,
    }
}

/// The operation that a request asks for, or the refusal of a request that asks for none. A refusal is kept until the caller is known:
/// strangers do not learn which paths exist.
enum Routed {
    Blob(Result<blob::Route>),
    Queue(Result<queue::Route>),
    Table(Result<table::Route>),
}

impl Routed {
    fn new(context: &Context) -> Routed {
        match context.service {
            ServiceKind::Blob => Routed::Blob(blob::route(context)),
            ServiceKind::Queue => Routed::Queue(queue::route(context)),
            ServiceKind::Table => Routed::Table(table::route(context)),
        }
    }

    fn facts(&self, context: &Context) -> Facts {
        match self {
            Routed::Blob(Ok(route)) => route.operation.facts(context),
            Routed::Queue(Ok(route)) => route.operation.facts(context),
            Routed::Table(Ok(route)) => route.operation.facts(context),
            Routed::Blob(Err(_)) | Routed::Queue(Err(_)) | Routed::Table(Err(_)) => {
                Facts::unrouted(context)
            }
        }
    }

    fn handle(
        self,
        app: &Arc<App>,
        context: Context,
        caller: Caller,
        body: RequestBody,
    ) -> Result<ResponseFuture> {
        match self {
            Routed::Blob(route) => {
                blob::handle(&app.blob, app.clone(), context, route, caller, body)
            }
            Routed::Queue(route) => queue::handle(&app.queue, context, route, caller, body),
            Routed::Table(route) => table::handle(&app.table, context, route, caller, body),
        }
    }
}

/// What the account's log and figures will have of a request, if they cover such.
fn log_entry(
    context: &Context,
    operation: Option<Logged>,
    caller: &Caller,
    properties: &ServiceProperties,
) -> Option<Entry> {
    if !properties.logging.is_on() && !properties.keeps_metrics() {
        return None;
    }
    let operation = operation?;
    let wanted = properties.logging.covers(operation.class);
    let begin = || Entry::begin(context, operation, Access::of(caller), wanted);
    (wanted || properties.keeps_metrics()).then(begin)
}

/// Refuses writes through the secondary location.
fn check_location(context: &Context, changes_state: bool) -> Result<()> {
    if context.secondary && changes_state {
        return Err(known::WRITE_ON_SECONDARY.into());
    }
    Ok(())
}

/// What monitors ask: whether requests are served, at which level of durability.
fn health(app: &App) -> Response<Body> {
    // Why is for the log: anybody may ask here.
    let failure = app.services.db.failure();
    let status = if failure.is_none() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = serde_json::json!({
        "status": if failure.is_none() { "ready" } else { "read-only" },
        "reason": failure.map(|_| "An earlier failure of the disk: see the log of the server."),
        "durability": app.durability,
        "version": env!("CARGO_PKG_VERSION"),
    });
    let mut response = Response::new(Body::from(format!("{body}\n")));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert("content-type", HeaderValue::from_static("application/json"));
    response
}

/// Errors of Table are JSON where the request was OData; access control lists and service properties are XML.
fn dialect(service: ServiceKind, target: &Uri, accept: Option<&HeaderValue>) -> Dialect {
    if service != ServiceKind::Table {
        return Dialect::Xml;
    }
    let query = context::Query::parse(target.query().unwrap_or(""));
    let comp = query.ok().and_then(|query| query.get("comp"));
    let comp = comp.unwrap_or_default().to_ascii_lowercase();
    if let "acl" | "properties" | "stats" | "userdelegationkey" = &*comp {
        return Dialect::TableXml;
    }
    let accept = accept
        .map(context::text_of)
        .unwrap_or_default()
        .to_ascii_lowercase();
    match () {
        () if accept.contains("nometadata") => Dialect::TableJson("nometadata"),
        () if accept.contains("fullmetadata") => Dialect::TableJson("fullmetadata"),
        () => Dialect::TableJson("minimalmetadata"),
    }
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod matrix_tests;
#[cfg(test)]
mod operation_tests;
#[cfg(test)]
mod tests {
    use super::*;

    /// The size of what a function of four arguments promises.
    fn size_of_future<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn errors_of_tables_are_xml_where_the_operation_is_and_json_whatever_the_filter_says() {
        let dialect = |target: &str| dialect(ServiceKind::Table, &target.parse().unwrap(), None);
        let json = Dialect::TableJson("minimalmetadata");
        for target in [
            "/a/T?comp=acl",
            "/a/T?timeout=5&COMP=A%63l",
            "/a/?restype=service&comp=properties",
        ] {
            assert_eq!(dialect(target), Dialect::TableXml, "{target}");
        }
        for target in [
            "/a/T?$filter=x%20eq%20'?comp=acl'",
            "/a/T?$filter=comp=stats",
            "/a/T?decomp=acl",
            "/a/T",
        ] {
            assert_eq!(dialect(target), json, "{target}");
        }
    }

    #[test]
    fn the_future_of_a_request_fits_in_4_kib() {
        let bytes = size_of_future(answer);
        assert!(bytes < 4096, "{bytes} bytes");
    }
}

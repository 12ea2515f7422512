//! The running server: its parts, and the layers between a connection and the handler of a request.

mod addressed_store;
mod sub_request;

use crate::advisor::{self, Watched};
use crate::analytics::Entry;
use crate::auth::{Caller, bearer, identity};
use crate::connection::framing::RawHead;
use crate::connection::listener::{Client, Server};
use crate::connection::{self, ConnectionThreads, Connections, Endpoint, HeaderNames};
use crate::faults::targets::Subject;
use crate::faults::{self, Ending};
use crate::layers::access_log::RequestLog;
use crate::layers::analytics::log_entry;
use crate::layers::browser_guard;
use crate::layers::errors::ErrorLayer;
use crate::layers::retirement::while_in_service;
use crate::layers::secondary::check_location;
use crate::layers::wrong_service;
use crate::memory::{self, MemoryGrant};
use crate::pages::{self, Pages};
use crate::properties::{Properties, ServiceProperties, cors};
use crate::request::address::address;
use crate::request::body::RequestBody;
use crate::request::body_copy::BodyCopy;
use crate::request::context::{self, ApiVersion, Context, RequestOrigin, ServiceKind};
use crate::request::limits::check_framing;
use crate::request::operation::Facts;
use crate::requests::{Answer, Begun, Ring, WhyRefused};
use crate::response::common_headers::CommonHeaders;
use crate::response::error::{Result, common};
use crate::response::{ResponseFuture, headers, long_responses};
use crate::state::{self, Shared, Store, Stores, Write, WriteTarget};
use crate::{blob, queue, table};
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue, LOCATION, ORIGIN, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64;

/// The parts of a running server, which `start.rs` makes. Nothing below this module knows it.
#[derive(Debug)]
pub struct App {
    pub stores: Arc<Stores>,
    pub shared: Arc<Shared>,
    pub durability: &'static str,
    /// Host names that requests may come under, beside those that only lead to this machine.
    pub allowed_hosts: Vec<String>,
    pub connections: Arc<Connections>,
    /// Longest that a request may take until its answer begins.
    pub request_timeout: Option<Duration>,
    pub requests: Arc<Ring>,
    pub pages: Pages,
}

impl App {
    /// Serves one service on one listener, as a task of `serving`, until `stop` turns true. Not
    /// generic: the code of a connection is compiled once, in this crate.
    pub fn serve_in(
        self: &Arc<App>,
        serving: &mut JoinSet<()>,
        endpoint: Endpoint,
        threads: Arc<ConnectionThreads>,
        stop: watch::Receiver<bool>,
    ) {
        serving.spawn(connection::serve(self.clone(), endpoint, threads, stop));
    }
}

impl Server for App {
    fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    fn respond(
        self: &Arc<App>,
        client: Client,
        request: Request<Incoming>,
        notes: &HeaderNames,
    ) -> impl Future<Output = Response<Body>> + Send {
        serve(self, client, request, notes)
    }
}

/// The layers of a request, from the outside to the inside and back. [`handle`] has the inner ones.
fn serve(
    app: &Arc<App>,
    client: Client,
    request: Request<Incoming>,
    notes: &HeaderNames,
) -> impl Future<Output = Response<Body>> {
    // Lent to the inner layers, which take it. By value, their future would have room for it too;
    // and an async function would have room for it twice.
    let mut request = Some(request);
    async move {
        let Some(whole) = &request else {
            unreachable!("only the inner layers take the request");
        };
        let (store, refusal) = addressed_store::find(app, &client, whole).await;
        let store: &Arc<Store> = &store;
        let origin = store.request_origin(&client);
        let outer = OuterLayers::of(app, &client, whole);
        let mut facts = ResponseFacts {
            is_own: client.is_own,
            request_copy: outer.begun.as_ref().and_then(Begun::request_copy),
            ..ResponseFacts::default()
        };
        let outcome = {
            let head = notes.take_head();
            if pages::ends_with_client(whole.uri().path()) {
                notes.follow_client();
            }
            let handling = handle(app, store, &origin, &mut request, head, &mut facts);
            match refusal {
                None => within(app.request_timeout, pin!(handling)).await,
                Some(failure) => Err(*failure),
            }
        };
        outer.finish(app, store, &origin, outcome, facts, notes)
    }
}

/// The layers that see each request before anything may refuse it, and each response.
struct OuterLayers {
    log: RequestLog,
    common: CommonHeaders,
    cors_origin: Option<Box<str>>,
    errors: ErrorLayer,
    /// For the pages of requests, if they keep this one.
    begun: Option<Begun>,
    /// The User-Agent, by which a refusal names the service that the client is for.
    agent: Option<HeaderValue>,
}

impl OuterLayers {
    fn of(app: &App, client: &Client, request: &Request<Incoming>) -> OuterLayers {
        let log = RequestLog::new(request);
        // An export of many blobs would take the place of the requests of clients.
        let begun = (!client.is_own).then(|| app.requests.begin(request, log.started()));
        let cors_origin = request.headers().get(&ORIGIN).map(context::text_of);
        OuterLayers {
            common: CommonHeaders::of(request),
            cors_origin: cors_origin.map(String::into_boxed_str),
            errors: ErrorLayer::new(request, app.durability == "memory"),
            begun: begun.flatten(),
            agent: request.headers().get(&USER_AGENT).cloned(),
            log,
        }
    }

    /// Makes the response of an outcome, and hands what is known of the request to those who keep
    /// it.
    fn finish(
        self,
        app: &App,
        store: &Store,
        origin: &RequestOrigin,
        outcome: Result<Response<Body>>,
        mut facts: ResponseFacts,
        notes: &HeaderNames,
    ) -> Response<Body> {
        let (mut response, refusal) = self.render(app, origin, outcome);
        if let Some(memory) = facts.memory.take() {
            response = long_responses::hold(memory, response);
        }
        self.put_headers(&facts, store, origin, &mut response);
        let names = headers::take_metadata_names(&mut response);
        notes.set_response_names(&origin.request_id, names);
        facts.report(app, store, &mut response);
        let ending = facts.ending.take();
        let refusal = refusal.or_else(|| response.extensions_mut().remove());
        self.end(app, origin, facts, refusal, &mut response);
        if let Some(ending) = ending {
            ending.put(&mut response);
        }
        response
    }

    /// The response, and why the request was refused if it was.
    fn render(
        &self,
        app: &App,
        origin: &RequestOrigin,
        outcome: Result<Response<Body>>,
    ) -> (Response<Body>, Option<Box<WhyRefused>>) {
        let failure = match outcome {
            Ok(response) => return (response, None),
            Err(failure) => failure,
        };
        let target = self.log.target();
        let failure = wrong_service::explain(
            failure,
            self.agent.as_ref(),
            target,
            app.pages.addresses.all(),
            origin,
        );
        let refusal = WhyRefused::of(&failure);
        (self.errors.render(failure, origin, target), Some(refusal))
    }

    /// The headers that do not depend on the operation.
    fn put_headers(
        &self,
        facts: &ResponseFacts,
        store: &Store,
        origin: &RequestOrigin,
        response: &mut Response<Body>,
    ) {
        if facts.must_close.load(Ordering::Relaxed) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        let version = facts.version.as_ref();
        let version = version.map_or(ApiVersion::NEWEST, ApiVersion::as_str);
        self.common.onto(response, &origin.request_id, version);
        store.services.clock.put_date(origin.now, response);
        if let Some(properties) = &facts.properties {
            let (rules, method) = (properties.cors_rules(), self.log.method());
            cors::put_headers(&rules, self.cors_origin.as_deref(), method, response);
        }
    }

    /// Writes the line of the access log and the entry of the pages of requests.
    fn end(
        self,
        app: &App,
        origin: &RequestOrigin,
        facts: ResponseFacts,
        refusal: Option<Box<WhyRefused>>,
        response: &mut Response<Body>,
    ) {
        let (operation, why) = (facts.operation, refusal.as_deref());
        let log = &app.shared.access_log;
        self.log.end(log, origin, operation, why, response);
        if let Some(begun) = self.begun {
            begun.copy_response(operation, response);
            let answer = Answer {
                account: facts.account,
                operation,
                refusal,
                response,
            };
            app.requests.end(begun, origin, &self.log, answer);
        }
    }
}

/// The outcome of a request that has to begin its response within `time`. The future is pinned:
/// passed by value, it would be in here once more.
async fn within<T>(time: Option<Duration>, handling: impl Future<Output = Result<T>>) -> Result<T> {
    match time {
        None => handling.await,
        Some(time) => tokio::time::timeout(time, handling)
            .await
            .unwrap_or_else(|_| Err(common::OPERATION_TIMED_OUT.into())),
    }
}

/// Facts that the response needs, even when the request fails.
#[derive(Debug, Default)]
struct ResponseFacts {
    /// The request came to a port for those of the server to itself.
    is_own: bool,
    /// The connection cannot be used again.
    must_close: Arc<AtomicBool>,
    version: Option<ApiVersion>,
    /// The account addressed, once it is known.
    account: Option<String>,
    /// The REST name of the operation, once it is known.
    operation: &'static str,
    /// Of the service and account addressed; `None` if there are no CORS rules, or where they have
    /// no say.
    properties: Option<Arc<ServiceProperties>>,
    /// For the account's log and figures, if it wants such requests in them.
    entry: Option<Entry>,
    /// For the advisor, if it wants the request.
    watched: Option<Box<Watched>>,
    /// How the response ends, if a fault changes it.
    ending: Option<Ending>,
    /// Memory for a response that may be long.
    memory: Option<MemoryGrant>,
    /// Takes the start of the request's body, if that is kept.
    request_copy: Option<Arc<BodyCopy>>,
}

impl ResponseFacts {
    /// Hands the request to the account's log and figures, and to the advisor.
    fn report(&mut self, app: &App, store: &Store, response: &mut Response<Body>) {
        let (entry, watched) = (self.entry.take(), self.watched.take());
        if entry.is_none() && watched.is_none() {
            // The clock has a lock that all requests take once already.
            return;
        }
        let now = store.services.clock.now();
        if let Some(entry) = entry {
            store.analytics.take(entry.end(response, now));
        }
        if let Some(watched) = watched {
            watched.end(&app.shared.advisor, response, now);
        }
    }
}

/// The inner part, where any step may refuse the request. Takes the request.
async fn handle(
    app: &Arc<App>,
    store: &Arc<Store>,
    origin: &RequestOrigin,
    request: &mut Option<Request<Incoming>>,
    raw: RawHead,
    facts: &mut ResponseFacts,
) -> Result<Response<Body>> {
    let Some(request) = request.take() else {
        unreachable!("a request is handled once");
    };
    check_framing(&request, &raw)?;
    let (parts, body) = request.into_parts();
    let copy = facts.request_copy.take();
    let copy = copy.filter(|_| !identity::is_path(parts.uri.path()));
    let body = RequestBody::new(body, &parts.headers, facts.must_close.clone()).copied_to(copy);
    let host = context::host(&parts)?;
    browser_guard::check_host(&host, &parts.headers, &app.allowed_hosts)?;
    // All but the services are boxed, so that the futures of other requests stay small.
    match Destination::of(app, store, origin, &parts, &host) {
        Destination::Website(account) => {
            facts.account = Some(account.clone());
            let blobs = &store.blob;
            let serving = blob::website::serve(blobs, store.clone(), origin, &account, &parts);
            Box::pin(serving).await
        }
        Destination::Page => {
            let changes_state = pages::changes_store(&parts);
            let write = changes_state
                .then(|| store.writes.begin(None))
                .transpose()?;
            let answering = Box::pin(app.pages.answer(origin, &host, parts, body));
            while_in_service(store, write, answering).await
        }
        Destination::Console => Ok(to_console()),
        Destination::Identity => {
            browser_guard::check_origin(&parts.headers, &host)?;
            Box::pin(identity::answer(origin, &parts, &host, body)).await
        }
        Destination::Service => {
            let head = read_head(store, origin, parts, &host, raw, facts)?;
            serve_operation(app, store, origin, &host, head, body, facts).await
        }
    }
}

/// The part of the server that a request is for.
enum Destination {
    /// The static website of this account.
    Website(String),
    /// A path below `/_lazurite/`.
    Page,
    /// The start of the console: a browser asks for nothing in particular.
    Console,
    /// The identity endpoint.
    Identity,
    Service,
}

impl Destination {
    fn of(
        app: &App,
        store: &Store,
        origin: &RequestOrigin,
        parts: &Parts,
        host: &str,
    ) -> Destination {
        let accepts_tokens = store.authenticator.accepts_bearer_tokens;
        if let Some(account) = website_account(app, origin, host) {
            Destination::Website(account)
        } else if is_page(app, origin, parts, host) {
            Destination::Page
        } else if app.pages.are_wanted_by(parts) && !names_account(app, origin, parts, host) {
            Destination::Console
        } else if accepts_tokens && identity::is_asked(app.stores.accounts(), origin, parts, host) {
            Destination::Identity
        } else {
            Destination::Service
        }
    }
}

/// Finds out what a request to a service asks for and who asks, and hands it to the service.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an async function holds its arguments twice"
)]
fn serve_operation(
    app: &Arc<App>,
    store: &Arc<Store>,
    origin: &RequestOrigin,
    host: &str,
    (mut context, properties): (Box<Context>, Properties),
    body: RequestBody,
    facts: &mut ResponseFacts,
) -> impl Future<Output = Result<Response<Body>>> {
    async move {
        let secondary = if context.secondary && store.fork.is_none() {
            Box::pin(secondary_store(app, origin, &mut context)).await?
        } else {
            None
        };
        let store = secondary.as_ref().unwrap_or(store);
        if context.method == Method::OPTIONS {
            facts.operation = "PreflightRequest";
            return cors::preflight(&properties.cors_rules(), &context);
        }
        if context.fork != store.fork {
            let fork = context.fork.unwrap_or_default();
            return Err(state::fork_not_found(&fork));
        }
        if !properties.cors_rules().is_empty() {
            facts.properties = Some(Arc::clone(&properties));
        }
        let routed = Routed::new(&context);
        let operation = routed.facts(&context);
        facts.operation = operation.name;
        let caller = find_caller(store, &context, &properties, host, operation.changes_state)?;
        let page = advisor::Page::of(&context.method, &context.resource);
        if let (Some(page), Caller::Owner) = (page, &caller) {
            let (advisor, account) = (&app.shared.advisor, &context.account);
            return Ok(advisor::answer_owner(advisor, page, account, origin.now));
        }
        let is_anonymous = matches!(caller, Caller::Anonymous);
        if !facts.is_own {
            let advisor = &app.shared.advisor;
            facts.watched = Watched::begin(advisor, &context, operation.logged, is_anonymous);
        }
        facts.entry = log_entry(&context, operation.logged, &caller, &properties);
        drop(properties);
        let token_would_do = is_anonymous
            && store.authenticator.accepts_bearer_tokens
            && context.is_confidential()
            && bearer::is_challenged(&context);
        let holder = holder(&context);
        let answering = async {
            admit(store, &context, &operation, &routed, &caller, facts).await?;
            let write = begin_write(store, &context, &routed, operation.changes_state)?;
            let responding = routed.handle(store, context, caller, body)?;
            while_in_service(store, write, responding).await
        };
        let outcome = memory::HOLDER.scope(holder, answering).await;
        match outcome {
            Err(failure) if token_would_do && failure.code == common::AUTHENTICATION_FAILED.1 => {
                Err(bearer::wanted())
            }
            outcome => outcome,
        }
    }
}

/// A number for the credential of a request, or for its address if it has none. Requests of one
/// credential share a part of the memory.
fn holder(context: &Context) -> u64 {
    let authorization = context.headers.get("authorization");
    let hash = match (context.query.get_literal("sig"), authorization) {
        (Some(signature), _) => xxh3_64(signature.as_bytes()),
        (None, Some(credentials)) => {
            // A signature changes with each request. Before it stands the account.
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

/// Lets a request pass that the location, the faults, the targets and the memory for responses
/// admit.
async fn admit(
    store: &Store,
    context: &Context,
    operation: &Facts,
    routed: &Routed,
    caller: &Caller,
    facts: &mut ResponseFacts,
) -> Result<()> {
    check_location(context, operation.changes_state)?;
    // Rules and targets are for clients: an export would fail by them, and use up their hits.
    if !facts.is_own {
        if let Some(fault) =
            faults::choose(&store.services.faults, context, operation.name, caller)?
        {
            facts.ending = fault.ending();
            Box::pin(fault.strike()).await?;
        }
        if let Some(meter) = store.services.meter() {
            meter.admit(&context.account, routed.subject())?;
        }
    }
    facts.memory = long_responses::reserve(operation.long_response).await?;
    Ok(())
}

/// Counts an operation that changes state, so that a reset of its target can wait for it. Errors:
/// `503` while the target is reset.
fn begin_write<'s>(
    store: &'s Store,
    context: &Context,
    routed: &Routed,
    changes_state: bool,
) -> Result<Option<Write<'s>>> {
    if !changes_state {
        return Ok(None);
    }
    let target = WriteTarget {
        account: &context.account,
        service: context.service,
        name: routed.name(),
    };
    store.writes.begin(Some(target)).map(Some)
}

/// The store that a request to the secondary endpoint reads, if it is not the current one.
async fn secondary_store(
    app: &App,
    origin: &RequestOrigin,
    context: &mut Context,
) -> Result<Option<Arc<Store>>> {
    let Some(reading) = app.stores.secondary(origin.now).await? else {
        return Ok(None);
    };
    context.replication = reading.replication;
    Ok(Some(reading.store))
}

/// Whether the router serves a request. The pages of the advisor below the host name of an account
/// are for the owner of its key.
fn is_page(app: &App, origin: &RequestOrigin, parts: &Parts, host: &str) -> bool {
    let path = parts.uri.path();
    if !path.starts_with(pages::PREFIX) {
        return false;
    }
    let is_advice = advisor::Page::of(&parts.method, path.trim_start_matches('/')).is_some();
    !(is_advice && names_account(app, origin, parts, host))
}

fn names_account(app: &App, origin: &RequestOrigin, parts: &Parts, host: &str) -> bool {
    let accounts = app.stores.accounts();
    address(origin.service, accounts, host, parts.uri.path()).is_some()
}

/// Sends a browser that asks for nothing in particular to the console.
fn to_console() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    let location = HeaderValue::from_static(pages::PREFIX);
    response.headers_mut().insert(LOCATION, location);
    response
}

/// The account whose static website a request to this host is for.
fn website_account(app: &App, origin: &RequestOrigin, host: &str) -> Option<String> {
    if origin.service != ServiceKind::Blob {
        return None;
    }
    blob::website::account_of(host, app.stores.accounts())
}

/// Account, resource and version of a request, and the properties of the service that it addresses.
fn read_head(
    store: &Store,
    origin: &RequestOrigin,
    parts: Parts,
    host: &str,
    raw: RawHead,
    facts: &mut ResponseFacts,
) -> Result<(Box<Context>, Properties)> {
    let mut context = Context::take(origin, &store.services.accounts, parts, host)?;
    context.metadata_names = raw.metadata_names;
    let properties = store.properties.get(origin.service, &context.account);
    context.apply_default_version(properties.default_service_version.as_ref());
    facts.version = Some(context.version.clone());
    facts.account = Some(context.account.clone());
    Ok((context, properties))
}

/// Authenticates the request. Pages of other origins are refused unless a CORS rule covers them.
fn find_caller(
    store: &Store,
    context: &Context,
    properties: &ServiceProperties,
    host: &str,
    changes_state: bool,
) -> Result<Caller> {
    let is_covered = cors::allows(&properties.cors_rules(), context);
    if changes_state && !is_covered {
        browser_guard::check_origin(&context.headers, host)?;
    }
    let caller = store.authenticator.authenticate(context)?;
    let has_credentials = !matches!(caller, Caller::Anonymous);
    if !is_covered && has_credentials && store.services.accounts.is_well_known(&context.account) {
        browser_guard::check_page(&context.headers)?;
    }
    Ok(caller)
}

/// The operation that a request asks for, or the refusal of a request that asks for none. A refusal
/// is kept until the caller is known: strangers do not learn which paths exist.
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

    /// The container, queue or table; empty if the path names none.
    fn name(&self) -> &str {
        match self {
            Routed::Blob(Ok(route)) => &route.container,
            Routed::Queue(Ok(route)) => &route.queue,
            Routed::Table(Ok(route)) => &route.table,
            _ => "",
        }
    }

    /// What the targets of a request go by.
    fn subject(&self) -> Subject<'_> {
        match self {
            Routed::Blob(Ok(route)) if !route.blob.is_empty() => Subject::Blob {
                container: &route.container,
                blob: &route.blob,
            },
            Routed::Queue(Ok(route)) if route.operation.resource.is_of_messages() => {
                Subject::Messages {
                    queue: &route.queue,
                }
            }
            Routed::Table(Ok(route)) if !route.table.is_empty() => Subject::Table {
                table: &route.table,
            },
            _ => Subject::Other,
        }
    }

    fn handle(
        self,
        store: &Arc<Store>,
        context: Box<Context>,
        caller: Caller,
        body: RequestBody,
    ) -> Result<ResponseFuture> {
        match self {
            Routed::Blob(route) => {
                blob::handle(&store.blob, store.clone(), context, route, caller, body)
            }
            Routed::Queue(route) => queue::handle(&store.queue, context, route, caller, body),
            Routed::Table(route) => table::handle(&store.table, context, route, caller, body),
        }
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

    /// The size of what a function promises that makes the future of a request.
    fn size_of_future<'a, F>(
        _: impl Fn(&'a Arc<App>, Client, Request<Incoming>, &'a HeaderNames) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_request_fits_in_4_kib() {
        let bytes = size_of_future(serve);
        assert!(bytes < 4096, "{bytes} bytes");
    }
}

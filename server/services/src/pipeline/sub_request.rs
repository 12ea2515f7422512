//! A request inside a batch, authenticated and observed like a separate request.

use crate::blob::{PartFuture, SubRequests};
use crate::observer::{ExchangeFacts, Routing};
use crate::pipeline::location::check_location;
use crate::pipeline::observers::Observers;
use crate::pipeline::route::Route;
use crate::request::body::RequestBody;
use crate::requests::WhyRefused;
use crate::state::Store;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_LENGTH, HeaderMap};
use bytes::Bytes;
use http_body_util::BodyExt;
use lazurite_protocol::request::context::{Context, RequestOrigin};
use lazurite_protocol::response::common_headers::CommonHeaders;
use lazurite_protocol::response::error::{ErrorFormat, Result, render};
use std::sync::Arc;

impl SubRequests for Store {
    fn operation(&self, context: &Context) -> Option<&'static str> {
        let name = Route::new(context).facts(context).name;
        (!name.is_empty()).then_some(name)
    }

    fn respond<'a>(
        self: Arc<Store>,
        outer: &'a Context,
        context: Result<Box<Context>>,
    ) -> PartFuture<'a> {
        Box::pin(async move { respond(&self, outer, context).await })
    }
}

async fn respond(
    store: &Arc<Store>,
    outer: &Context,
    context: Result<Box<Context>>,
) -> Response<Bytes> {
    let inner = context.as_deref().ok();
    let version = inner.unwrap_or(outer).version.clone();
    let mut facts = facts(store, outer, inner);
    let mut observers = Observers::begin(store, &facts, &HeaderMap::new());
    let outcome = match context {
        Ok(context) => handle(store, context, &mut facts, &mut observers).await,
        Err(failure) => Err(failure),
    };
    let refusal = outcome.as_ref().err().map(WhyRefused::of);
    facts.refusal = refusal.map(Into::into);
    let id = &facts.origin.request_id;
    let mut response =
        outcome.unwrap_or_else(|failure| render(failure, ErrorFormat::Xml, id, outer.now, false));
    CommonHeaders::default().onto(&mut response, id, version.as_str());
    let (mut parts, body) = response.into_parts();
    // Responses to deletions, changes of tiers and refusals are small and in memory.
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.unwrap_or_default();
    parts.headers.insert(CONTENT_LENGTH, body.len().into());
    let response = Response::from_parts(parts, Body::from(body.clone()));
    let response = observers.follow(store, facts, Arc::default(), response);
    let (parts, observed) = response.into_parts();
    drop(observed.collect().await);
    Response::from_parts(parts, body)
}

/// The facts of a part of a batch. `context` is `None` if the part is not a valid request.
fn facts(store: &Store, outer: &Context, context: Option<&Context>) -> ExchangeFacts {
    let request = context.unwrap_or(outer);
    let request_id = match context {
        Some(context) => context.request_id.clone(),
        None => store.shared.request_ids.next(),
    };
    let origin = RequestOrigin {
        service: outer.service,
        now: outer.now,
        system_now: outer.system_now,
        sas_now: outer.sas_now,
        peer: outer.peer,
        secure: outer.secure,
        request_id,
    };
    let (method, target) = (request.method.clone(), request.target.clone());
    ExchangeFacts {
        batch: Some(outer.request_id.clone()),
        ..ExchangeFacts::new(origin, method, target, &HeaderMap::new())
    }
}

async fn handle(
    store: &Arc<Store>,
    context: Box<Context>,
    facts: &mut ExchangeFacts,
    observers: &mut Observers,
) -> Result<Response<Body>> {
    let route = Route::new(&context);
    let operation = route.facts(&context);
    facts.operation = operation.name;
    let routing = Routing {
        context: &context,
        operation: operation.logged,
    };
    let properties = store.properties.get(context.service, &context.account);
    observers.route(store, facts, &routing, &properties);
    drop(properties);
    let caller = store.authenticator.authenticate(&context)?;
    observers.authenticate(store, facts, &routing, &caller);
    check_location(&context, operation.changes_state)?;
    let body = RequestBody::empty();
    route.handle(store, context, caller, body)?.await
}

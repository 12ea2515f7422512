//! A request inside a batch: authenticated, logged, counted and watched by the advisor as if it had
//! come alone.

use crate::advisor::Watched;
use crate::analytics::Entry;
use crate::app::Routed;
use crate::auth::Caller;
use crate::blob::{PartFuture, SubRequests};
use crate::layers::access_log::Served;
use crate::layers::analytics::log_entry;
use crate::layers::secondary::check_location;
use crate::request::body::RequestBody;
use crate::request::context::{ApiVersion, Context};
use crate::request::target::redact;
use crate::requests::WhyRefused;
use crate::response::common_headers::CommonHeaders;
use crate::response::error::{ErrorFormat, Result, render};
use crate::state::Store;
use axum::body::Body;
use axum::http::{Method, Response, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use std::time::Instant;

impl SubRequests for Store {
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
    let (now, echo) = (outer.now, CommonHeaders::default());
    let mut inner = match &context {
        Ok(context) => Inner::of(context),
        Err(_) => Inner::unreadable(store, outer),
    };
    let outcome = match context {
        Ok(context) => inner.handle(store, context).await,
        Err(failure) => Err(failure),
    };
    inner.why = outcome.as_ref().err().map(WhyRefused::of);
    let mut response = outcome
        .unwrap_or_else(|failure| render(failure, ErrorFormat::Xml, &inner.request_id, now, false));
    echo.onto(&mut response, &inner.request_id, inner.version.as_str());
    let (parts, body) = response.into_parts();
    // Answers to deletions, and to refusals, are small and in memory.
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let mut response = Response::from_parts(parts, body);
    let length = response.body().len();
    response
        .headers_mut()
        .insert("content-length", length.into());
    inner.log(store, outer, &response);
    response
}

/// The facts about a request inside a batch that go into logs.
struct Inner {
    request_id: String,
    version: ApiVersion,
    method: Method,
    target: Uri,
    /// For the account's log and figures, if it wants such requests in them.
    entry: Option<Entry>,
    watched: Option<Box<Watched>>,
    started: Instant,
    operation: &'static str,
    why: Option<Box<WhyRefused>>,
}

impl Inner {
    fn of(context: &Context) -> Inner {
        Inner {
            request_id: context.request_id.clone(),
            version: context.version.clone(),
            method: context.method.clone(),
            target: context.target.clone(),
            entry: None,
            watched: None,
            started: Instant::now(),
            operation: "",
            why: None,
        }
    }

    /// Of a part that holds no request.
    fn unreadable(store: &Store, outer: &Context) -> Inner {
        Inner {
            request_id: store.shared.request_ids.next(),
            version: outer.version.clone(),
            method: outer.method.clone(),
            target: outer.target.clone(),
            entry: None,
            watched: None,
            started: Instant::now(),
            operation: "",
            why: None,
        }
    }

    async fn handle(
        &mut self,
        store: &Arc<Store>,
        context: Box<Context>,
    ) -> Result<Response<Body>> {
        let routed = Routed::new(&context);
        let facts = routed.facts(&context);
        self.operation = facts.name;
        let caller = store.authenticator.authenticate(&context)?;
        let properties = store.properties.get(context.service, &context.account);
        let is_anonymous = matches!(caller, Caller::Anonymous);
        self.watched = Watched::begin(&store.shared.advisor, &context, facts.logged, is_anonymous);
        self.entry = log_entry(&context, facts.logged, &caller, &properties);
        check_location(&context, facts.changes_state)?;
        routed
            .handle(store, context, caller, RequestBody::empty())?
            .await
    }

    fn log(self, store: &Store, context: &Context, response: &Response<Bytes>) {
        let status = response.status().as_u16();
        if self.entry.is_some() || self.watched.is_some() {
            let (mut sized, now) = (response.clone().map(Full::new), store.services.clock.now());
            if let Some(entry) = self.entry {
                store.analytics.take(entry.end(&sized, now));
            }
            if let Some(watched) = self.watched {
                watched.end(&store.shared.advisor, &mut sized, now);
            }
        }
        let method = self.method.as_str();
        store.shared.access_log.take(&Served {
            peer: context.peer.ip(),
            now: context.now,
            request_id: &self.request_id,
            batch: Some(&context.request_id),
            service: context.service.title(),
            method,
            target: &self.target,
            status,
            operation: self.operation,
            took: self.started.elapsed(),
            request_bytes: None,
            response_bytes: Some(response.body().len() as u64),
            plan: None,
            why: self.why.as_deref(),
        });
        tracing::info!(
            request_id = self.request_id,
            batch = context.request_id,
            service = context.service.title(),
            method,
            target = redact(&self.target.to_string()),
            status,
            "request in a batch"
        );
    }
}

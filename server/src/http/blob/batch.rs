//! Blob Batch: many deletions or changes of tier in one request, each with its own credentials and its own answer. Not a transaction.
//! Source: Blob Batch.

use crate::access_log::redact;
use crate::analytics::Entry;
use crate::codec::multipart::{self, SubRequest};
use crate::http::address::blob_names;
use crate::http::blob::Request;
use crate::http::blob::operations::{Route, route};
use crate::http::body::{DOCUMENT_BYTES_MAX, RequestBody, collect_held, parsed};
use crate::http::context::{ApiVersion, Arrival, Context};
use crate::http::documents;
use crate::http::error::{Dialect, Failure, Result, known, render};
use crate::http::headers::{empty, put};
use crate::http::{App, Echo, Routed, authenticate, check_location, check_sizes, wanted_entry};
use axum::body::Body;
use axum::http::{Method, Request as HttpRequest, Response, Uri, request::Parts};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use std::sync::Arc;

/// Most requests in a batch.
const REQUESTS_MAX: usize = 256;

pub async fn batch(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let media_type = request.context.required_header("content-type")?;
    let (document, share) = collect_held(body, DOCUMENT_BYTES_MAX).await?;
    let whole = document.clone();
    let read = move |_: &[u8]| {
        multipart::read_each(&media_type, &whole).map_err(|error| refused(error.to_string()))
    };
    let requests = parsed(document, read).await?;
    if requests.len() > REQUESTS_MAX {
        return Err(refused(format!(
            "A batch holds at most {REQUESTS_MAX} requests."
        )));
    }
    let mut kind = None;
    for (_, sub) in &requests {
        // Read twice, so that only one is in memory at a time.
        let context = read_one(&request, sub);
        let routed = context.and_then(|context| route(&context));
        if let Ok(Route { operation, .. }) = routed {
            let name = operation.name;
            let is_served = ["DeleteBlob", "SetBlobTier"].contains(&name);
            if !is_served || *kind.get_or_insert(name) != name {
                let detail =
                    "A batch holds deletions of blobs, or changes of their tiers, and not both.";
                return Err(refused(detail.to_owned()));
            }
        }
        // To read 256 long heads takes a while, too.
        tokio::task::yield_now().await;
    }
    let share = documents::beside_body(share).await?;
    let mut answers = Vec::new();
    for (id, sub) in requests {
        let context = read_one(&request, &sub);
        answers.push((id, answer(&request, context).await));
        // Each costs what a request of its own does: its neighbours on the thread get their turn in between.
        tokio::task::yield_now().await;
    }
    let (boundary, body) = multipart::write_each(&request.context.request_id, &answers);
    let mut response = empty(202);
    *response.body_mut() = Body::from(body);
    put(
        &mut response,
        "content-type",
        format!("multipart/mixed; boundary={boundary}"),
    );
    Ok(documents::hold(share, response))
}

fn refused(detail: String) -> Failure {
    known::INVALID_INPUT.with("ExtendedErrorDetail", detail)
}

/// The request in a part as if it had come alone, but for what the batch says for all: peer, protocol, version.
fn read_one(outer: &Request, sub: &SubRequest) -> Result<Context> {
    let parts = parts_of(outer, sub)?;
    check_sizes(&parts.uri, &parts.headers)?;
    let arrival = Arrival {
        service: outer.context.service,
        now: outer.context.now,
        system_now: outer.context.system_now,
        peer: outer.context.peer,
        secure: outer.context.secure,
        request_id: outer.app.request_ids.next(),
    };
    let mut context = match Context::new(&arrival, &outer.app.accounts, &parts) {
        Ok(context) if context.account == outer.context.account => context,
        // Some clients leave the account out of the path. What they sign is the path as they send it.
        _ => outer.context.within(&arrival, &parts)?,
    };
    context.assume_version(Some(&outer.context.version));
    let (container, _) = blob_names(&context)?;
    match outer.container.is_empty() || container == outer.container {
        true => Ok(context),
        false => Err(refused("The batch is for another container.".to_owned())),
    }
}

fn parts_of(outer: &Request, sub: &SubRequest) -> Result<Parts> {
    let malformed = |_| Failure::from(known::INVALID_URI);
    // Host and scheme do not matter.
    let target = match sub.target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => &sub.target,
    };
    let mut request = HttpRequest::builder()
        .method(sub.method.as_str())
        .uri(target);
    for (name, value) in sub.headers() {
        if !name.eq_ignore_ascii_case("host") {
            request = request.header(&*name, &*value);
        }
    }
    let host = outer.context.headers.get("host");
    if let Some(host) = host {
        request = request.header("host", host);
    }
    Ok(request.body(()).map_err(malformed)?.into_parts().0)
}

/// The answer to one request, as its part shows it. It is logged as a request that came alone.
async fn answer(outer: &Request, context: Result<Context>) -> Response<Bytes> {
    let app = &outer.app;
    let (now, echo) = (outer.context.now, Echo::default());
    let mut inner = match &context {
        Ok(context) => Inner::of(context),
        Err(_) => Inner::unreadable(outer),
    };
    let outcome = match context {
        Ok(context) => inner.handle(app, context).await,
        Err(failure) => Err(failure),
    };
    let mut response = outcome
        .unwrap_or_else(|failure| render(failure, Dialect::Xml, &inner.request_id, now, false));
    echo.onto(&mut response, &inner.request_id, Some(&inner.version));
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
    inner.log(outer, &response);
    response
}

/// What logs tell of a request inside a batch.
struct Inner {
    request_id: String,
    version: ApiVersion,
    method: Method,
    target: Uri,
    /// For the account's log and figures, if it wants such requests in them.
    entry: Option<Entry>,
}

impl Inner {
    fn of(context: &Context) -> Inner {
        Inner {
            request_id: context.request_id.clone(),
            version: context.version.clone(),
            method: context.method.clone(),
            target: context.target.clone(),
            entry: None,
        }
    }

    /// Of a part that holds no request.
    fn unreadable(outer: &Request) -> Inner {
        Inner {
            request_id: outer.app.request_ids.next(),
            version: outer.context.version.clone(),
            method: outer.context.method.clone(),
            target: outer.context.target.clone(),
            entry: None,
        }
    }

    async fn handle(&mut self, app: &Arc<App>, context: Context) -> Result<Response<Body>> {
        let routed = Routed::new(&context);
        let facts = routed.facts(&context);
        let caller = authenticate(app, &context)?;
        let properties = app.properties.get(context.service, &context.account);
        self.entry = wanted_entry(&context, facts.logged, &caller, &properties);
        check_location(&context, facts.changes_state)?;
        routed
            .handle(app, context, caller, RequestBody::empty())?
            .await
    }

    fn log(self, outer: &Request, response: &Response<Bytes>) {
        let (app, context) = (&outer.app, &outer.context);
        let status = response.status().as_u16();
        if let Some(entry) = self.entry {
            let sized = response.clone().map(Full::new);
            app.analytics.take(entry.end(&sized, app.clock.now()));
        }
        let (peer, method) = (context.peer.ip(), self.method.as_str());
        app.access_log
            .request(peer, context.now, method, &self.target, status);
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

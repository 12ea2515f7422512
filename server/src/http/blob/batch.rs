//! Blob Batch: many deletions or changes of tier in one request, each with its own credentials and its own answer. Not a transaction.
//! Source: Blob Batch.

use super::super::body::{DOCUMENT_BYTES_MAX, RequestBody, collect};
use super::super::error::{Dialect, Failure, Result, known, render};
use super::super::headers::{empty, put};
use super::super::{Echo, authenticate};
use super::route::{Operation, resource, route};
use super::{Request, handle};
use crate::codec::multipart::{self, SubRequest};
use crate::http::context::{Arrival, Context};
use axum::body::Body;
use axum::http::{Request as HttpRequest, Response, request::Parts};
use bytes::Bytes;
use http_body_util::BodyExt;

/// Most requests in a batch.
const REQUESTS_MAX: usize = 256;

pub async fn batch(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let media_type = request.context.required_header("content-type")?;
    let bytes = collect(body, DOCUMENT_BYTES_MAX).await?;
    let requests =
        multipart::read_each(&media_type, &bytes).map_err(|error| refused(error.to_string()))?;
    if requests.len() > REQUESTS_MAX {
        return Err(refused(format!(
            "A batch holds at most {REQUESTS_MAX} requests."
        )));
    }
    let (mut read, mut kind) = (Vec::new(), None);
    for (id, sub) in requests {
        let context = read_one(&request, &sub);
        let operation = context
            .as_ref()
            .ok()
            .and_then(|context| operation_of(context).ok());
        if let Some(operation) = operation {
            let served = matches!(operation, Operation::DeleteBlob | Operation::SetBlobTier);
            if !served || *kind.get_or_insert(operation) != operation {
                let detail =
                    "A batch holds deletions of blobs, or changes of their tiers, and not both.";
                return Err(refused(detail.to_owned()));
            }
        }
        read.push((id, context));
    }
    let mut answers = Vec::new();
    for (id, context) in read {
        answers.push((id, answer(&request, context).await));
    }
    let (boundary, body) = multipart::write_each(&request.context.request_id, &answers);
    let mut response = empty(202);
    *response.body_mut() = Body::from(body);
    put(
        &mut response,
        "content-type",
        format!("multipart/mixed; boundary={boundary}"),
    );
    Ok(response)
}

fn refused(detail: String) -> Failure {
    known::INVALID_INPUT.with("ExtendedErrorDetail", detail)
}

fn operation_of(context: &Context) -> Result<Operation> {
    let (container, blob) = resource(context)?;
    route(context, &container, &blob)
}

/// The request in a part as if it had come alone, but for what the batch says for all: peer, protocol, version.
fn read_one(outer: &Request, sub: &SubRequest) -> Result<Context> {
    let parts = parts_of(outer, sub)?;
    let arrival = Arrival {
        service: outer.context.service,
        now: outer.context.now,
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
    let (container, _) = resource(&context)?;
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
    for (name, value) in sub.headers.iter().filter(|(name, _)| name != "host") {
        request = request.header(name, value);
    }
    let host = outer.context.headers.get("host");
    if let Some(host) = host {
        request = request.header("host", host);
    }
    Ok(request.body(()).map_err(malformed)?.into_parts().0)
}

/// The answer to one request, as its part shows it.
async fn answer(outer: &Request, context: Result<Context>) -> Response<Bytes> {
    let app = &outer.app;
    let (now, echo) = (outer.context.now, Echo::default());
    let (request_id, version) = match &context {
        Ok(context) => (context.request_id.clone(), context.version.clone()),
        Err(_) => (app.request_ids.next(), outer.context.version.clone()),
    };
    let outcome = match context {
        Ok(context) => match authenticate(app, &context) {
            Ok(caller) => match handle(app, context, &caller, RequestBody::empty()) {
                Ok(answering) => answering.await,
                Err(failure) => Err(failure),
            },
            Err(failure) => Err(failure),
        },
        Err(failure) => Err(failure),
    };
    let mut response =
        outcome.unwrap_or_else(|failure| render(failure, Dialect::Xml, &request_id, now, false));
    echo.onto(&mut response, &request_id, Some(&version));
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
    response
}

//! Blob Batch: many deletions or changes of tier in one request, each with its own credentials and
//! its own answer. Not a transaction. Source: Blob Batch.

use crate::blob::request::Request;
use crate::request::body::{DOCUMENT_BYTES_MAX, RequestBody, collect_held, parsed};
use crate::request::limits::check_sizes;
use crate::response::long_responses;
use axum::body::Body;
use axum::http::{Request as HttpRequest, Response, request::Parts};
use lazurite_protocol::multipart::{self, SubRequest};
use lazurite_protocol::request::blob_names::blob_names;
use lazurite_protocol::request::context::{Context, RequestOrigin};
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, put};

/// Maximum number of requests in a batch.
const REQUESTS_MAX: usize = 256;

pub async fn batch(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let media_type = request.context.required_header("content-type")?;
    let (document, grant) = collect_held(body, DOCUMENT_BYTES_MAX).await?;
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
    check_operations(&request, &requests).await?;
    let grant = long_responses::beside_body(grant).await?;
    let mut answers = Vec::new();
    for (id, sub) in requests {
        let context = read_one(&request, &sub);
        let sub_requests = request.sub_requests.clone();
        answers.push((id, sub_requests.respond(&request.context, context).await));
        // A part costs as much as a separate request, so other requests of the thread run in
        // between.
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
    Ok(long_responses::hold(grant, response))
}

/// Refuses a batch unless its operations are all Delete Blob or all Set Blob Tier. A part that
/// cannot be read gets its own response later.
async fn check_operations(request: &Request, requests: &[(String, SubRequest)]) -> Result<()> {
    let mut kind = None;
    for (_, sub) in requests {
        // A part is parsed here and again when it is answered, so that only one parsed request is
        // in memory.
        let context = read_one(request, sub).ok();
        let operation = context.and_then(|context| request.sub_requests.operation(&context));
        if let Some(name) = operation {
            let is_served = ["DeleteBlob", "SetBlobTier"].contains(&name);
            if !is_served || *kind.get_or_insert(name) != name {
                let detail =
                    "A batch holds deletions of blobs, or changes of their tiers, and not both.";
                return Err(refused(detail.to_owned()));
            }
        }
        // Parsing 256 long heads takes a while, so other requests of the thread run in between.
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn refused(detail: String) -> Failure {
    common::INVALID_INPUT.with("ExtendedErrorDetail", detail)
}

/// The request in a part. Peer and protocol are those of the batch. So is the API version, unless
/// the part names one.
fn read_one(outer: &Request, sub: &SubRequest) -> Result<Box<Context>> {
    let parts = parts_of(outer, sub)?;
    check_sizes(&parts.uri, &parts.headers)?;
    let arrival = RequestOrigin {
        service: outer.context.service,
        now: outer.context.now,
        system_now: outer.context.system_now,
        sas_now: outer.context.sas_now,
        peer: outer.context.peer,
        secure: outer.context.secure,
        request_id: outer.state.request_ids.next(),
    };
    let mut context = match Context::new(&arrival, &outer.state.services.accounts, &parts) {
        Ok(context) if context.has_account_of(&outer.context) => context,
        // Some clients omit the account from the path of the part, and sign that path.
        _ => outer.context.within(&arrival, &parts)?,
    };
    context.apply_default_version(Some(&outer.context.version));
    let (container, _) = blob_names(&context)?;
    if outer.container.is_empty() || container == outer.container {
        Ok(context)
    } else {
        Err(refused("The batch is for another container.".to_owned()))
    }
}

fn parts_of(outer: &Request, sub: &SubRequest) -> Result<Parts> {
    let malformed = |_| Failure::from(common::INVALID_URI);
    // Drop scheme and host, which have no meaning in a part.
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

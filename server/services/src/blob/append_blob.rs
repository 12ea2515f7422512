//! Append blobs: created empty, appended to, sealed.

use crate::blob::block_blob::{conditions_of_new_blob, headers_of_new_blob};
use crate::blob::checksums::put_checksums;
use crate::blob::request::Request;
use crate::blob::upload::{check_before_body, is_structured, put_structure, receive, refuse_body};
use crate::blob::validators::with_validators;
use crate::blob::write::{refuse_overwrite, settings};
use crate::request::body::RequestBody;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{AppendBlock, AppendBlockOutcome, BlobService, PutAppendBlob, UploadKind};
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::Result;
use lazurite_protocol::response::headers::{REQUEST_SERVER_ENCRYPTED, empty, put, put_static};

pub async fn put_append_blob(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    refuse_body(body).await?;
    let put_blob = PutAppendBlob {
        headers: headers_of_new_blob(&request)?,
        metadata: metadata(&request.context)?,
        settings: settings(&request)?,
        conditions: conditions_of_new_blob(&request)?,
    };
    let create_only = request.is_create_only();
    let call =
        move |blobs: &BlobService, r: &Request| blobs.put_append_blob(&r.address(), put_blob);
    let outcome = request.write(call).await;
    let (written, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    let mut response = with_validators(empty(201), &written);
    put_static(&mut response, REQUEST_SERVER_ENCRYPTED, "true");
    Ok(response)
}

pub async fn append_block(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let max_size = request.context.number("x-ms-blob-condition-maxsize")?;
    let append_position = request.context.number("x-ms-blob-condition-appendpos")?;
    let (conditions, structured) = (request.conditions()?, is_structured(&request));
    check_before_body(&request, &body, UploadKind::AppendBlock, &conditions).await?;
    let upload = receive(&request, body, UploadKind::AppendBlock).await?;
    let call = move |blobs: &BlobService, r: &Request| {
        let append = AppendBlock {
            upload,
            max_size,
            append_position,
            conditions,
        };
        blobs.append_block(&r.address(), append)
    };
    let (outcome, ticket) = request.write(call).await?;
    ticket.await?;
    let mut response = appended(&outcome);
    put_structure(&mut response, structured);
    Ok(response)
}

/// The response to an append, whatever the source of the content.
pub fn appended(outcome: &AppendBlockOutcome) -> Response<Body> {
    let mut response = with_validators(empty(201), &outcome.written);
    let count = outcome.committed_block_count.to_string();
    put(
        &mut response,
        "x-ms-blob-append-offset",
        outcome.offset.to_string(),
    );
    put(&mut response, "x-ms-blob-committed-block-count", count);
    put_checksums(&mut response, &outcome.checksums);
    response
}

pub async fn append_blob_seal(request: Box<Request>) -> Result<Response<Body>> {
    let append_position = request.context.number("x-ms-blob-condition-appendpos")?;
    let conditions = request.conditions()?;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.append_blob_seal(&r.address(), append_position, &conditions)
    };
    let (written, ticket) = request.write(call).await?;
    ticket.await?;
    let mut response = with_validators(empty(200), &written);
    put_static(&mut response, "x-ms-blob-sealed", "true");
    Ok(response)
}

//! Data of files: appended at a position, and flushed to become the content. Source: Path - Update,
//! actions `append` and `flush`.

use crate::blob::block_blob::{conditions_of_block, staged};
use crate::blob::lake::inputs::{flag, path_headers, required_number};
use crate::blob::lake::lease_steps::LeaseSteps;
use crate::blob::request::Request;
use crate::blob::upload::{check_before_body, is_structured, put_structure, receive};
use crate::blob::validators::with_validators;
use crate::blob::write::refuse_overwrite;
use crate::request::body::RequestBody;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{BlobService, Conditions, ETags, FlushData, UploadKind};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{REQUEST_SERVER_ENCRYPTED, empty, put_static};

pub async fn append_data(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let context = &request.context;
    let position = required_number(context, "position")?;
    let flushes = flag(context, "flush")?.unwrap_or_default();
    flag(context, "close")?;
    let lease = LeaseSteps::of(context)?;
    let conditions = Conditions {
        lease_id: lease.lease_id,
        must_be_new: false,
        ..conditions_of_block(&request)?
    };
    let create_only = request.is_create_only();
    let structured = is_structured(&request);
    check_before_body(&request, &body, UploadKind::PutBlock, &conditions).await?;
    let upload = receive(&request, body, UploadKind::PutBlock).await?;
    if position.checked_add(upload.length()).is_none() {
        let reason = "The file would be too long.";
        return Err(Failure::parameter("position", position.to_string(), reason));
    }
    let call = move |blobs: &BlobService, r: &Request| {
        let (address, steps) = (r.address(), &lease.steps);
        if flushes {
            let done = blobs.append_and_flush(&address, position, upload, &conditions, steps)?;
            let ((outcome, written), ticket) = done;
            return Ok((outcome, Some(written), lease, ticket));
        }
        let (outcome, ticket) =
            blobs.append_data(&address, position, upload, &conditions, steps)?;
        Ok((outcome, None, lease, ticket))
    };
    let outcome = request.write(call).await;
    let (outcome, written, lease, ticket) =
        outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    let mut response = staged(outcome);
    *response.status_mut() = axum::http::StatusCode::ACCEPTED;
    if let Some(written) = written {
        response = with_validators(response, &written);
    }
    put_static(&mut response, REQUEST_SERVER_ENCRYPTED, "true");
    put_structure(&mut response, structured);
    lease.put(&mut response);
    Ok(response)
}

pub async fn flush_data(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    flag(context, "close")?;
    let lease = LeaseSteps::of(context)?;
    let flush = FlushData {
        position: required_number(context, "position")?,
        retain_uncommitted: flag(context, "retainUncommittedData")?.unwrap_or_default(),
        headers: path_headers(&request)?,
        lease: lease.steps,
        conditions: Conditions {
            lease_id: lease.lease_id,
            ..request.conditions()?
        },
    };
    let call = move |blobs: &BlobService, r: &Request| {
        // A flush needs the file. By this condition, clients refuse to change one that exists.
        if flush.conditions.if_none_match == Some(ETags::Any) {
            blobs.get_blob_properties(&r.address(), &Conditions::default())?;
            return Err(lazurite_blob::Error::BlobAlreadyExists);
        }
        let (written, ticket) = blobs.flush_data(&r.address(), &flush)?;
        Ok((written, lease, ticket))
    };
    let (written, lease, ticket) = request.change(call).await?;
    ticket.await?;
    let mut response = with_validators(empty(200), &written);
    put_static(&mut response, REQUEST_SERVER_ENCRYPTED, "true");
    lease.put(&mut response);
    Ok(response)
}

//! Copies from other servers, which take time: pending until the content has come, failed if it does not, and aborted if a
//! client wants that. Source: Copy Blob, "Remarks"; Abort Copy Blob.

use super::super::error::{Failure, Result, known};
use super::block_blob::refuse_overwrite;
use super::copy::{copied_answer, copies_tags, copy_request};
use super::foreign::{Foreign, Found};
use super::source::source_checksums;
use super::{Request, cross};
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{
    COPY_FROM_URL_BYTES_MAX, Checksums, Conditions, CopyBlob, CopyOutcome, CopyStatus, FetchedCopy,
    Guid, PUT_BLOB_BYTES_MAX, Ticket, UploadKind, Written,
};
use std::sync::Arc;
use std::time::SystemTime;

/// Copy Blob from another server: pending, while the content is fetched behind the answer.
pub async fn copy_foreign(request: Request, foreign: Foreign) -> Result<Response<Body>> {
    let copy = copy_request(&request, &foreign.url, &Conditions::default())?;
    let found = foreign.get(None).await?;
    found.check_length(PUT_BLOB_BYTES_MAX)?;
    let request = Arc::new(request);
    let (outcome, ticket) = start(&request, copy, found.length()).await?;
    ticket.await?;
    tokio::spawn(finish_behind(request, found, outcome.copy_id));
    Ok(copied_answer(&outcome))
}

async fn start(
    request: &Arc<Request>,
    copy: CopyBlob,
    length: u64,
) -> Result<(CopyOutcome, Ticket)> {
    let (r, create_only) = (request.clone(), request.create_only);
    let started = cross(move || {
        let blobs = &r.app.blobs;
        Ok(blobs.start_copy(&r.address(), copy, length, r.now())?)
    });
    let started = started.await;
    started.map_err(|failure| refuse_overwrite(failure, create_only))
}

/// Fetches what a pending copy is to hold, and ends it. One that was aborted meanwhile stays as it is.
async fn finish_behind(request: Arc<Request>, found: Found, copy_id: Guid) {
    let finished = finish(
        &request,
        found,
        copy_id,
        PUT_BLOB_BYTES_MAX,
        Checksums::default(),
    );
    if let Err(failure) = finished.await {
        // Nobody waits for the answer; whoever asks for the blob finds it.
        let _ = fail(request, copy_id, &failure).await;
    }
}

async fn finish(
    request: &Arc<Request>,
    found: Found,
    copy_id: Guid,
    bytes_max: u64,
    claimed: Checksums,
) -> Result<Written> {
    let (headers, metadata) = (found.blob_headers(), found.metadata());
    let blobs = &request.app.blobs;
    let kind = (UploadKind::PutBlob, bytes_max);
    let upload = found.store(blobs, kind, claimed, None).await?;
    let fetched = FetchedCopy {
        upload,
        headers,
        metadata,
    };
    let r = request.clone();
    let finished = cross(move || {
        let blobs = &r.app.blobs;
        Ok(blobs.finish_copy(&r.address(), copy_id, fetched, SystemTime::now())?)
    });
    let (written, ticket) = finished.await?;
    ticket.await?;
    Ok(written)
}

/// Ends a pending copy that got no content, and says why as the service does: status and code, then a sentence.
async fn fail(request: Arc<Request>, copy_id: Guid, failure: &Failure) -> Result<()> {
    let (status, code) = (failure.status.as_u16(), &failure.code);
    let description = format!("{status} {code} \"{}\"", failure.message);
    let fail = move || {
        let (blobs, now) = (&request.app.blobs, SystemTime::now());
        Ok(blobs.fail_copy(&request.address(), copy_id, &description, now)?)
    };
    Ok(cross(fail).await?.1.await?)
}

/// Copy Blob From URL from another server: the answer comes when the content has.
pub async fn copy_foreign_from_url(request: Request, foreign: Foreign) -> Result<Response<Body>> {
    if copies_tags(&request)? {
        return Err(Failure::unsupported("Copying tags from another server"));
    }
    let copy = copy_request(&request, &foreign.url, &Conditions::default())?;
    let claimed = source_checksums(&request)?;
    let found = foreign.get(None).await?;
    found.check_length(COPY_FROM_URL_BYTES_MAX)?;
    // Not part of the connection, or a client that goes away would leave the copy pending.
    let copying = tokio::spawn(copy_and_wait(Arc::new(request), copy, found, claimed));
    copying.await.unwrap_or_else(|panic| {
        tracing::error!(%panic, "a copy stopped on an assertion");
        Err(known::INTERNAL_ERROR.into())
    })
}

async fn copy_and_wait(
    request: Arc<Request>,
    copy: CopyBlob,
    found: Found,
    claimed: Checksums,
) -> Result<Response<Body>> {
    let (outcome, ticket) = start(&request, copy, found.length()).await?;
    ticket.await?;
    let (id, limit) = (outcome.copy_id, COPY_FROM_URL_BYTES_MAX);
    match finish(&request, found, id, limit, claimed).await {
        Ok(written) => Ok(copied_answer(&CopyOutcome {
            written,
            status: CopyStatus::Success,
            ..outcome
        })),
        Err(failure) => {
            fail(request, id, &failure).await?;
            Err(failure)
        }
    }
}

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
    Guid, Ticket, UploadKind, Written,
};
use std::sync::Arc;
use std::time::SystemTime;

/// Copy Blob from another server: pending, while the content is fetched behind the answer.
pub async fn copy_foreign(request: Request, foreign: Foreign) -> Result<Response<Body>> {
    let copy = copy_request(&request, &foreign.url, &Conditions::default())?;
    let found = foreign.get(None).await?;
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
    if let Err(failure) = finish(&request, found, copy_id, Checksums::default()).await {
        let description = format!("{} {}", failure.status.as_u16(), failure.code);
        let failed = cross(move || {
            let (blobs, now) = (&request.app.blobs, SystemTime::now());
            let failed = blobs.fail_copy(&request.address(), copy_id, &description, now);
            Ok(failed.map(|_| ())?)
        });
        let _ = failed.await;
    }
}

async fn finish(
    request: &Arc<Request>,
    found: Found,
    copy_id: Guid,
    claimed: Checksums,
) -> Result<Written> {
    let (headers, metadata) = (found.blob_headers(), found.metadata());
    let blobs = &request.app.blobs;
    let upload = found
        .store(blobs, UploadKind::PutBlob, claimed, None)
        .await?;
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

/// Copy Blob From URL from another server: the answer comes when the content has.
pub async fn copy_foreign_from_url(request: Request, foreign: Foreign) -> Result<Response<Body>> {
    if copies_tags(&request)? {
        return Err(Failure::unsupported("Copying tags from another server"));
    }
    let copy = copy_request(&request, &foreign.url, &Conditions::default())?;
    let claimed = source_checksums(&request)?;
    let found = foreign.get(None).await?;
    if found.length() > COPY_FROM_URL_BYTES_MAX {
        let limit = COPY_FROM_URL_BYTES_MAX.to_string();
        return Err(known::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit));
    }
    let request = Arc::new(request);
    let (outcome, ticket) = start(&request, copy, found.length()).await?;
    ticket.await?;
    let copy_id = outcome.copy_id;
    match finish(&request, found, copy_id, claimed).await {
        Ok(written) => Ok(copied_answer(&CopyOutcome {
            written,
            status: CopyStatus::Success,
            ..outcome
        })),
        Err(failure) => {
            let description = failure.code.to_string();
            let fail = move || {
                let (blobs, now) = (&request.app.blobs, request.now());
                Ok(blobs.fail_copy(&request.address(), copy_id, &description, now)?)
            };
            cross(fail).await?.1.await?;
            Err(failure)
        }
    }
}

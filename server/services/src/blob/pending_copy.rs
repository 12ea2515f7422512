//! Asynchronous copies from other servers: pending until the content has arrived, failed if it does
//! not arrive, and aborted at a client's request. Source: Copy Blob, "Remarks"; Abort Copy Blob.

use crate::blob::copy_request::{copy_request, copy_response};
use crate::blob::copy_slots::CopySlot;
use crate::blob::remote_source::{Found, RemoteSource};
use crate::blob::request::Request;
use crate::blob::write::refuse_overwrite;
use crate::connection::blocking_pool;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{
    Checksums, Conditions, CopyBlob, CopyOutcome, FetchedCopy, Guid, PUT_BLOB_BYTES_MAX,
    UploadKind, Written,
};
use lazurite_engine::Error as StoreError;
use lazurite_protocol::response::error::{Failure, Result, common};
use std::sync::Arc;
use std::time::Duration;

/// Copy Blob from another server. Answers "pending" and fetches the content afterwards.
pub async fn copy_foreign(request: Box<Request>, foreign: RemoteSource) -> Result<Response<Body>> {
    let copy = copy_request(&request, &foreign.url, &Conditions::default())?;
    let place = foreign.place()?;
    let found = foreign.get_for_copy().await?;
    found.check_length(PUT_BLOB_BYTES_MAX)?;
    detached(copy_behind(Arc::from(request), copy, found, place)).await
}

/// Runs the beginning and the end of a copy independently of the connection: a client that
/// disconnects would otherwise leave the copy pending.
async fn detached(
    copying: impl Future<Output = Result<Response<Body>>> + Send + 'static,
) -> Result<Response<Body>> {
    tokio::spawn(copying).await.unwrap_or_else(|panic| {
        tracing::error!(%panic, "a copy stopped on an assertion");
        Err(common::INTERNAL_ERROR.into())
    })
}

async fn copy_behind(
    request: Arc<Request>,
    copy: CopyBlob,
    found: Found,
    mut place: CopySlot,
) -> Result<Response<Body>> {
    let outcome = start(&request, copy, found.length(), &mut place).await?;
    tokio::spawn(finish_behind(request, found, outcome.copy_id, place));
    Ok(copy_response(&outcome))
}

/// Makes the destination a pending copy and assigns the slot to it.
async fn start(
    request: &Arc<Request>,
    copy: CopyBlob,
    length: u64,
    place: &mut CopySlot,
) -> Result<CopyOutcome> {
    let (r, create_only) = (request.clone(), request.is_create_only());
    let started = blocking_pool::change(&request.state.services.writers, move || {
        let blobs = &r.state.services.blobs;
        Ok(blobs.start_copy(&r.address(), copy, length)?)
    });
    let started = started.await;
    let (outcome, ticket) = started.map_err(|failure| refuse_overwrite(failure, create_only))?;
    place.assign(outcome.copy_id);
    ticket.await?;
    Ok(outcome)
}

/// Fetches the content of a pending copy, and ends the copy. If a client has aborted it meanwhile,
/// nothing changes.
async fn finish_behind(request: Arc<Request>, found: Found, copy_id: Guid, place: CopySlot) {
    let finished = finish(&request, found, copy_id, &place);
    if let Err(failure) = finished.await {
        // No request waits for the result. The properties of the blob show it.
        let _ = fail(request, copy_id, &failure).await;
    }
}

/// Ends a pending copy with the fetched content. Errors: those of the source;
/// `NoPendingCopyOperation` as soon as a client aborts the copy.
async fn finish(
    request: &Arc<Request>,
    found: Found,
    copy_id: Guid,
    place: &CopySlot,
) -> Result<Written> {
    tokio::select! {
        finished = fetch_and_finish(request, found, copy_id) => finished,
        () = place.stopped() => Err(lazurite_blob::Error::NoPendingCopyOperation.into()),
    }
}

async fn fetch_and_finish(request: &Arc<Request>, found: Found, copy_id: Guid) -> Result<Written> {
    let (headers, metadata) = (found.blob_headers(), found.metadata());
    let blobs = &request.state.services.blobs;
    let kind = (UploadKind::PutBlob, PUT_BLOB_BYTES_MAX);
    let upload = found.store(blobs, kind, Checksums::default(), None);
    let upload = upload.await?;
    let fetched = FetchedCopy {
        upload,
        headers,
        metadata,
    };
    let r = request.clone();
    let finished = blocking_pool::change(&request.state.services.writers, move || {
        let blobs = &r.state.services.blobs;
        Ok(blobs.finish_copy(&r.address(), copy_id, fetched)?)
    });
    let (written, ticket) = finished.await?;
    ticket.await?;
    Ok(written)
}

/// Pause before the store is asked again to end a copy. It doubles after each failure, up to
/// [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Ends a pending copy that got no content, with the reason in the service's form: status and code,
/// then a sentence. While the copy is pending, the blob cannot be written. So if the store fails,
/// tries again until the copy ends or the store refuses all writes.
async fn fail(request: Arc<Request>, copy_id: Guid, failure: &Failure) -> Result<()> {
    let (status, code) = (failure.status.as_u16(), &failure.code);
    let description = format!("{status} {code} \"{}\"", failure.message);
    let (_, ticket) = retried(|| {
        let (r, text) = (request.clone(), description.clone());
        move || {
            r.state
                .services
                .blobs
                .fail_copy(&r.address(), copy_id, &text)
        }
    })
    .await?;
    Ok(ticket.await?)
}

/// Repeats `attempt`, with growing pauses, while the store fails in a way that may pass.
async fn retried<T: Send + 'static, A>(attempt: impl Fn() -> A) -> Result<T>
where
    A: FnOnce() -> lazurite_blob::Result<T> + Send + 'static,
{
    let mut pause = RETRY_PAUSE_MIN;
    loop {
        let attempt = attempt();
        match blocking_pool::on_blocking_pool_limited(move || Ok(attempt())).await? {
            Ok(done) => return Ok(done),
            Err(lazurite_blob::Error::Engine(error)) if may_pass(&error) => {
                tracing::error!(
                    "a failed copy cannot be ended, and is tried again in {pause:?}: {error}"
                );
            }
            Err(other) => return Err(other.into()),
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(RETRY_PAUSE_MAX);
    }
}

/// Whether a later attempt may succeed after this error.
fn may_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { .. } | StoreError::NoSpace { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn only_failures_of_the_store_are_retried() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let no_space = || StoreError::NoSpace {
            path: "data".into(),
        };
        let done = retried(|| {
            let attempts = attempts.clone();
            move || match attempts.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Err(no_space().into()),
                _ => Ok(7),
            }
        });
        assert_eq!(done.await.unwrap(), 7);
        assert_eq!(attempts.load(Ordering::SeqCst), 3);
        let aborted = retried(|| {
            let attempts = attempts.clone();
            move || {
                attempts.fetch_add(1, Ordering::SeqCst);
                Err::<(), _>(lazurite_blob::Error::NoPendingCopyOperation)
            }
        });
        assert!(aborted.await.is_err());
        assert_eq!(attempts.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn a_store_that_is_closed_is_not_asked_again() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let closed = retried(|| {
            let attempts = attempts.clone();
            move || {
                attempts.fetch_add(1, Ordering::SeqCst);
                Err::<(), _>(StoreError::Closed.into())
            }
        });
        assert!(closed.await.is_err());
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
    }
}

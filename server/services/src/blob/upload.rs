//! The bodies of all uploads: stored chunk by chunk, plain or in segments.

use crate::blob::checksums::claimed;
use crate::blob::encryption::{OWN, customer_key};
use crate::blob::request::{Request, STRUCTURED_BODY};
use crate::blob::store_small_bodies::store_small_body;
use crate::blob::write::refuse_overwrite;
use crate::connection::blocking_pool;
use crate::request::body::RequestBody;
use axum::body::Body;
use axum::http::Response;
use bytes::Buf;
use lazurite_blob::{
    BlobAddress, BlobService, Checksums, Conditions, CustomerKey, Upload, UploadKind, WrittenPart,
};
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::put;
use lazurite_protocol::structured::{self, Decoder};

/// Maximum number of bytes that an upload holds in memory: one part that is being filled, and one
/// that is being written.
const UPLOAD_BYTES_HELD: u64 = 512 << 10;

/// If the client waits for 100 Continue, refuses an upload that would fail, before the client sends
/// its body.
pub async fn check_before_body(
    request: &Request,
    body: &RequestBody,
    kind: UploadKind,
    conditions: &Conditions,
) -> Result<()> {
    if !body.is_awaited() {
        return Ok(());
    }
    let (services, conditions) = (request.state.services.clone(), conditions.clone());
    let state = request.blob_state;
    let caller = request.rights.user.clone();
    let (account, container, blob) = (
        request.account().to_owned(),
        request.container.clone(),
        request.blob.clone(),
    );
    let checked = blocking_pool::on_blocking_pool_limited(move || {
        let address = BlobAddress {
            account: &account,
            container: &container,
            blob: &blob,
            state,
            caller: caller.as_ref(),
        };
        Ok(services.blobs.check_upload(&address, kind, &conditions)?)
    });
    let checked = checked.await;
    checked.map_err(|failure| refuse_overwrite(failure, request.is_create_only()))
}

/// Stores a body as it arrives, with at most two parts of it in memory, so that a fast client is
/// slowed down to the speed of the store.
pub async fn receive(request: &Request, mut body: RequestBody, kind: UploadKind) -> Result<Upload> {
    let limit = kind.bytes_max();
    if body.length_at_least() > limit {
        return Err(common::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit.to_string()));
    }
    let held = body.length_at_most().unwrap_or(limit);
    body.reserve_chunks(held.min(UPLOAD_BYTES_HELD) as usize)
        .await?;
    let key = customer_key(&request.context, OWN)?;
    let upload = begin(&request.state.services.blobs, kind, claimed(request)?, key)?;
    let mut structure = structure(request)?;
    let upload = drain(upload, body, &mut structure).await?;
    if let Some(decoder) = structure {
        decoder.finish()?;
    }
    store_small_body(upload).await
}

/// Writes a body to an upload as it arrives, and decodes its segments if `structure` is set. The
/// next part is received while one is written.
pub async fn drain(
    mut upload: Upload,
    mut body: RequestBody,
    structure: &mut Option<Decoder>,
) -> Result<Upload> {
    let mut writing = None;
    while let Some(chunk) = body.next_chunk().await? {
        let contents = match structure {
            None => vec![chunk],
            Some(decoder) => decoder.update(chunk)?,
        };
        for mut content in contents {
            while !content.is_empty() {
                content.advance(blocking_pool::read(|| Ok(upload.fill(&content)?))?);
                if upload.is_full() {
                    written(&mut upload, &mut writing).await?;
                    if let Some(part) = upload.take_part() {
                        writing = Some(
                            blocking_pool::start_on_blocking_pool_limited(
                                move || Ok(part.write()?),
                            )
                            .await,
                        );
                    }
                }
            }
        }
    }
    written(&mut upload, &mut writing).await?;
    if let Some(part) = upload.take_part() {
        upload.add(blocking_pool::on_blocking_pool_limited(move || Ok(part.write()?)).await?);
    }
    Ok(upload)
}

/// Waits for the part that is being written, if there is one, and adds it to the upload.
async fn written(
    upload: &mut Upload,
    writing: &mut Option<impl Future<Output = Result<WrittenPart>>>,
) -> Result<()> {
    if let Some(part) = writing.take() {
        upload.add(part.await?);
    }
    Ok(())
}

/// Begins to store a body, encrypted if there is a customer key.
pub fn begin(
    blobs: &BlobService,
    kind: UploadKind,
    claimed: Checksums,
    key: Option<CustomerKey>,
) -> Result<Upload> {
    Ok(match key {
        Some(key) => blobs.begin_encrypted_upload(kind, claimed, key)?,
        None => blobs.begin_upload(kind, claimed)?,
    })
}

/// The decoder of a structured body; `None` for a plain one. Error: other checksums are claimed.
fn structure(request: &Request) -> Result<Option<Decoder>> {
    let Some(form) = request.context.header(STRUCTURED_BODY) else {
        return Ok(None);
    };
    let length = request
        .context
        .required_header("x-ms-structured-content-length")?;
    let parsed = length.parse().ok().filter(|_| structured::is_served(&form));
    let Some(parsed) = parsed else {
        return Err(Failure::header(STRUCTURED_BODY, form));
    };
    if claimed(request)? == lazurite_blob::Checksums::default() {
        Ok(Some(Decoder::new(parsed)))
    } else {
        let detail = "A structured body has checksums of its own; Content-MD5 and x-ms-content-crc64 cannot be added.";
        Err(common::INVALID_INPUT.with("ExtendedErrorDetail", detail))
    }
}

/// Whether the body of a request is in segments.
pub fn is_structured(request: &Request) -> bool {
    request.context.header(STRUCTURED_BODY).is_some()
}

/// Fails if a body has content, with a Content-Length or in chunks. Discards the content.
pub async fn refuse_body(body: RequestBody) -> Result<()> {
    body.refuse_content(surplus_body).await
}

/// The failure for a body of at least `length` bytes sent to an operation that has no body.
pub fn surplus_body(length: u64) -> Failure {
    Failure::header("Content-Length", length.to_string()).with(
        "ExtendedErrorDetail",
        "The body of this request must be empty.",
    )
}

/// Echoes the form of a structured body in the response.
pub fn put_structure(response: &mut Response<Body>, structured: bool) {
    if structured {
        put(response, STRUCTURED_BODY, structured::FORM);
    }
}

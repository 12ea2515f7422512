//! Operations that take their content from a URL: copies, and blocks and pages from URLs.

use crate::blob::block_blob::{
    block_id, conditions_of_block, conditions_of_new_blob, headers_of_new_blob, staged,
};
use crate::blob::checksums::{put_checksums, put_values};
use crate::blob::conditions::optional_id;
use crate::blob::copy_request::{copy_request, copy_response};
use crate::blob::encryption::{OWN, customer_key};
use crate::blob::fetcher::unverified;
use crate::blob::page_blob::{pages, put_sequence, sequence_conditions};
use crate::blob::pending_copy::copy_foreign;
use crate::blob::read::DOWNLOAD_CHUNK_BYTES;
use crate::blob::remote_source::{Found, RemoteSource};
use crate::blob::request::Request;
use crate::blob::source::{
    Credentials, Origin, Source, origin, refuse_content, source, source_checksums, source_range,
};
use crate::blob::upload::begin;
use crate::blob::validators::with_validators;
use crate::blob::write::{check_md5_of_content, refuse_overwrite, settings};
use crate::connection::blocking_pool::on_blocking_pool;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{
    AppendBlock, BlobHeaders, BlobService, ByteRange, COPY_FROM_URL_BYTES_MAX, Checksummer,
    Checksums, Conditions, CopyBlob, CopyOutcome, CopyStatus, Error, Guid, Metadata, PageUpdate,
    PutBlob, PutPage, Tags, Ticket, Upload, UploadKind,
};
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::empty;

/// Copy Blob. A copy within this server completes at once: the blobs share the content.
pub async fn copy_blob(request: Box<Request>) -> Result<Response<Body>> {
    // `true` selects Copy Blob From URL, `false` this operation. Any other value is an error.
    request.context.flag("x-ms-requires-sync")?;
    let source = match origin(&request, Credentials::Shared).await? {
        Origin::Own(source) => source,
        Origin::RemoteSource(foreign) => return copy_foreign(request, foreign).await,
    };
    let copy = copy_request(&request, &source.url, &source.conditions)?;
    let create_only = request.is_create_only();
    let copied = request
        .change(move |blobs, r| blobs.copy_blob(&source.address(), &r.address(), copy))
        .await;
    let (outcome, ticket) = copied.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    Ok(copy_response(&outcome))
}

/// Copy Blob From URL. Source: Copy Blob From URL, "Request headers".
pub async fn copy_blob_from_url(request: Box<Request>) -> Result<Response<Body>> {
    let claimed = source_checksums(&request)?;
    match origin(&request, Credentials::OfTheSource).await? {
        Origin::Own(source) => copy_own_blob(request, source, claimed).await,
        Origin::RemoteSource(foreign) => copy_remote_blob(request, foreign, claimed).await,
    }
}

/// Copy Blob From URL within this server. The copy shares the content of the source, which is read
/// only to compute its checksum.
async fn copy_own_blob(
    request: Box<Request>,
    source: Source,
    claimed: Checksums,
) -> Result<Response<Body>> {
    let copy = CopyBlob {
        copy_tags: copies_tags(&request)?,
        ..copy_request(&request, &source.url, &source.conditions)?
    };
    let create_only = request.is_create_only();
    let copied = request
        .change(move |blobs, r| copy_checked(blobs, &source, r, &copy, &claimed))
        .await;
    let copied = copied.map_err(|failure| refuse_overwrite(failure, create_only));
    let copied = copied.map_err(source_of_other_type);
    let (outcome, computed, ticket) = copied.map_err(missing_source)?;
    ticket.await?;
    Ok(response_with_checksum(&outcome, &claimed, computed))
}

/// Maximum number of times a source is read if other requests keep changing it.
const SOURCE_READS_MAX: usize = 4;

/// Copies a blob after comparing the claimed checksums. Returns the outcome and the checksums.
fn copy_checked(
    blobs: &BlobService,
    source: &Source,
    request: &Request,
    copy: &CopyBlob,
    claimed: &Checksums,
) -> lazurite_blob::Result<(CopyOutcome, Checksums, Ticket)> {
    let mut reads = 1;
    loop {
        let (source_conditions, computed) = checked_source(blobs, source, copy, claimed)?;
        let copy = CopyBlob {
            source_conditions,
            ..copy.clone()
        };
        match blobs.copy_blob_from_url(&source.address(), &request.address(), copy) {
            Err(Error::SourceConditionNotMet) if reads < SOURCE_READS_MAX => reads += 1,
            copied => return copied.map(|(outcome, ticket)| (outcome, computed, ticket)),
        }
    }
}

/// Reads the source and compares its checksums with the claimed ones. Returns conditions that hold
/// while the source has this content, and the computed checksums.
fn checked_source(
    blobs: &BlobService,
    source: &Source,
    copy: &CopyBlob,
    claimed: &Checksums,
) -> lazurite_blob::Result<(Conditions, Checksums)> {
    let mut download = blobs.open_copied_blob(&source.address(), copy)?;
    let mut checksummer = Checksummer::new(claimed.md5.is_some(), claimed.md5.is_none());
    while let Some(chunk) = download.body.next_chunk(DOWNLOAD_CHUNK_BYTES)? {
        checksummer.update(&chunk);
    }
    let computed = checksummer.finish();
    claimed.check(&computed)?;
    let conditions = source.conditions.clone();
    Ok((conditions.and_unchanged(download.blob.etag), computed))
}

/// Copy Blob From URL from another server. Like Put Blob From URL, it fetches the content before it
/// reads the destination.
async fn copy_remote_blob(
    request: Box<Request>,
    foreign: RemoteSource,
    claimed: Checksums,
) -> Result<Response<Body>> {
    let copy = copy_request(&request, &foreign.url, &Conditions::default())?;
    let create_only = request.is_create_only();
    let tags = remote_tags(&request, &foreign).await?;
    let found = foreign.get_for_copy().await?;
    if !found.may_be_block_blob() {
        return Err(not_a_block_blob());
    }
    let kind = (UploadKind::PutBlob, COPY_FROM_URL_BYTES_MAX);
    let fetched = fetch_remote(&request, found, kind, tags).await?;
    let put = put_request(fetched, copy);
    let copied =
        request.change(move |blobs, r| blobs.copy_fetched_blob(&r.address(), foreign.url, put));
    let copied = copied.await;
    let (outcome, computed, ticket) =
        copied.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    Ok(response_with_checksum(&outcome, &claimed, computed))
}

/// The request to put a fetched copy. Metadata comes from the source unless the request has its
/// own. Tags come from the source only if the request copies them.
fn put_request(fetched: Fetched, copy: CopyBlob) -> PutBlob {
    let mut settings = copy.settings;
    if let Some(tags) = fetched.tags {
        settings.tags = tags;
    }
    let metadata = if copy.metadata.is_empty() {
        fetched.metadata
    } else {
        copy.metadata
    };
    PutBlob {
        upload: fetched.upload,
        headers: fetched.headers,
        metadata,
        settings,
        conditions: copy.conditions,
    }
}

/// Shows the MD5 if the request gave one, else the CRC-64. Source: Copy Blob From URL, "Response
/// headers".
fn response_with_checksum(
    outcome: &CopyOutcome,
    claimed: &Checksums,
    computed: Checksums,
) -> Response<Body> {
    let mut response = copy_response(outcome);
    let shown = match claimed.md5 {
        Some(_) => Checksums {
            crc64: None,
            ..computed
        },
        None => Checksums {
            md5: None,
            ..computed
        },
    };
    put_values(&mut response, &shown);
    response
}

/// True if the copy takes the source's tags, not the request's (`x-ms-copy-source-tag-option`).
pub fn copies_tags(request: &Request) -> Result<bool> {
    let name = "x-ms-copy-source-tag-option";
    let option = request
        .context
        .header(name)
        .map(|text| text.to_ascii_uppercase());
    match option.as_deref() {
        None | Some("REPLACE") => Ok(false),
        Some("COPY") if request.context.header("x-ms-tags").is_some() => Err(Failure::new(
            400,
            "BothUserTagsAndSourceTagsCopyPresentException",
            "x-ms-tags and x-ms-copy-source-tag-option: COPY cannot be given together.",
        )),
        Some("COPY") => Ok(true),
        Some(other) => Err(Failure::header(name, other)),
    }
}

/// The operation Incremental Copy Blob.
pub async fn incremental_copy_blob(request: Box<Request>) -> Result<Response<Body>> {
    let source = source(&request, Credentials::Shared).await?;
    let conditions = conditions_of_new_blob(&request)?;
    let call = move |blobs: &BlobService, r: &Request| {
        let url = source.url.clone();
        blobs.incremental_copy_blob(&source.address(), &r.address(), url, &conditions)
    };
    let create_only = request.is_create_only();
    let copied = request.change(call).await;
    let copied = copied.map_err(|failure| refuse_overwrite(failure, create_only));
    let (outcome, ticket) = copied.map_err(missing_source)?;
    ticket.await?;
    // The copy is complete, and reads of the blob say so. This response says `pending`, like the
    // hosted service's; clients then poll.
    Ok(copy_response(&CopyOutcome {
        status: CopyStatus::Pending,
        ..outcome
    }))
}

/// The operation Abort Copy Blob.
pub async fn abort_copy_blob(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let (name, action) = (
        "x-ms-copy-action",
        context.required_header("x-ms-copy-action")?,
    );
    if !action.eq_ignore_ascii_case("abort") {
        return Err(Failure::header(name, action));
    }
    let text = context.required_parameter("copyid")?;
    let copy_id = Guid::parse(&text)
        .ok_or_else(|| Failure::parameter("copyid", text, "It is not a GUID."))?;
    let lease_id = optional_id(context, "x-ms-lease-id")?;
    let fetcher = request.state.fetcher.clone();
    let call =
        move |blobs: &BlobService, r: &Request| blobs.abort_copy(&r.address(), copy_id, lease_id);
    request.change(call).await?.await?;
    if let Some(fetcher) = fetcher {
        fetcher.stop(copy_id);
    }
    Ok(empty(204))
}

/// The content of a source, stored as an upload, and the properties of the source.
struct Fetched {
    upload: Upload,
    headers: BlobHeaders,
    metadata: Metadata,
    /// `None` for a source on another server, unless the request copies its tags: reading them
    /// takes another request.
    tags: Option<Tags>,
}

/// The tags of a source on another server; `None` unless the request copies them.
async fn remote_tags(request: &Request, foreign: &RemoteSource) -> Result<Option<Tags>> {
    if copies_tags(request)? {
        foreign.get_tags().await.map(Some)
    } else {
        Ok(None)
    }
}

/// Stores the content of a source on another server.
async fn fetch_remote(
    request: &Request,
    found: Found,
    kind: (UploadKind, u64),
    tags: Option<Tags>,
) -> Result<Fetched> {
    let claimed = source_checksums(request)?;
    let key = customer_key(&request.context, OWN)?;
    let headers = found.blob_headers();
    let metadata = found.metadata();
    let blobs = &request.state.services.blobs;
    let upload = found.store(blobs, kind, claimed, key).await?;
    Ok(Fetched {
        upload,
        headers,
        metadata,
        tags,
    })
}

/// Reads a source, or a range of it, into an upload of this kind. If the source cannot be read,
/// reports its refusal as `CannotVerifyCopySource`.
async fn fetch(request: &Request, kind: UploadKind, range: Option<ByteRange>) -> Result<Fetched> {
    refuse_content(request)?;
    let (services, claimed) = (request.state.services.clone(), source_checksums(request)?);
    let (limit, key) = (kind.bytes_max(), customer_key(&request.context, OWN)?);
    let source = match origin(request, Credentials::OfTheSource).await? {
        Origin::Own(source) => source,
        Origin::RemoteSource(foreign) => {
            let tags = remote_tags(request, &foreign).await?;
            let found = foreign.get(range).await?;
            return fetch_remote(request, found, (kind, limit), tags).await;
        }
    };
    on_blocking_pool(move || {
        let opened = services
            .blobs
            .open_source(&source.address(), range, &source.conditions);
        let mut download = opened.map_err(of_source)?;
        if download.body.remaining() > limit {
            return Err(common::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit.to_string()));
        }
        let mut upload = begin(&services.blobs, kind, claimed, key)?;
        upload.write_from(&mut download.body)?;
        Ok(Fetched {
            upload,
            headers: download.blob.headers,
            metadata: download.blob.metadata,
            tags: Some(download.blob.tags),
        })
    })
    .await
}

/// The failure for an error while reading a source: a refusal of the source, unless the error is
/// the store's own.
fn of_source(error: Error) -> Failure {
    match error {
        Error::Engine(_) | Error::InternalError { .. } => error.into(),
        other => unverified(other.into()),
    }
}

/// Reports a missing blob as a missing source. For copies whose destination need not exist: only
/// their source can be missing. Copy Blob itself answers `BlobNotFound`. Source: the .NET client's
/// tests of copies whose source does not exist.
fn missing_source(failure: Failure) -> Failure {
    match &*failure.code {
        "BlobNotFound" => unverified(failure),
        _ => failure,
    }
}

/// Copy Blob From URL copies only block blobs. Source: azure-sdk-for-go, issue 20942.
fn source_of_other_type(failure: Failure) -> Failure {
    match &*failure.code {
        "InvalidSourceBlobType" => not_a_block_blob(),
        _ => failure,
    }
}

fn not_a_block_blob() -> Failure {
    let message = "The copy source must be a block blob.";
    Failure::new(409, "CannotVerifyCopySource", message)
}

/// Put Blob From URL. Source: Put Blob From URL, "Request headers".
pub async fn put_blob_from_url(request: Box<Request>) -> Result<Response<Body>> {
    check_md5_of_content(&request)?;
    let context = &request.context;
    let (mut headers, conditions) = (
        headers_of_new_blob(&request)?,
        conditions_of_new_blob(&request)?,
    );
    let (metadata, mut settings) = (metadata(context)?, settings(&request)?);
    let (copies_tags, create_only) = (copies_tags(&request)?, request.is_create_only());
    let keeps = context.flag("x-ms-copy-source-blob-properties")?;
    let fetched = fetch(&request, UploadKind::PutBlob, None).await?;
    let upload = fetched.upload;
    if keeps.unwrap_or(true) {
        headers = filled(headers, fetched.headers);
    }
    if let Some(tags) = fetched.tags.filter(|_| copies_tags) {
        settings.tags = tags;
    }
    let call = move |blobs: &BlobService, r: &Request| {
        let put = PutBlob {
            upload,
            headers,
            metadata,
            settings,
            conditions,
        };
        blobs.put_blob(&r.address(), put)
    };
    let outcome = request.change(call).await;
    let (outcome, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    let mut response = with_validators(empty(201), &outcome.written);
    put_checksums(&mut response, &outcome.checksums);
    Ok(response)
}

/// The headers of the request, completed with those of the source.
fn filled(given: BlobHeaders, source: BlobHeaders) -> BlobHeaders {
    BlobHeaders {
        content_type: given.content_type.or(source.content_type),
        content_encoding: given.content_encoding.or(source.content_encoding),
        content_language: given.content_language.or(source.content_language),
        cache_control: given.cache_control.or(source.cache_control),
        content_disposition: given.content_disposition.or(source.content_disposition),
        content_md5: given.content_md5,
    }
}

/// The operation Put Block From URL.
pub async fn put_block_from_url(request: Box<Request>) -> Result<Response<Body>> {
    let id = block_id(&request.context.required_parameter("blockid")?)?;
    let (conditions, create_only) = (conditions_of_block(&request)?, request.is_create_only());
    let range = source_range(&request.context)?;
    let upload = fetch(&request, UploadKind::PutBlock, range).await?.upload;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.put_block(&r.address(), &id, upload, &conditions)
    };
    let outcome = request.change(call).await;
    let (outcome, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    Ok(staged(outcome))
}

/// The operation Append Block From URL.
pub async fn append_block_from_url(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let max_size = context.number("x-ms-blob-condition-maxsize")?;
    let append_position = context.number("x-ms-blob-condition-appendpos")?;
    let (conditions, range) = (request.conditions()?, source_range(context)?);
    let upload = fetch(&request, UploadKind::AppendBlock, range)
        .await?
        .upload;
    let call = move |blobs: &BlobService, r: &Request| {
        let append = AppendBlock {
            upload,
            max_size,
            append_position,
            conditions,
        };
        blobs.append_block(&r.address(), append)
    };
    let (outcome, ticket) = request.change(call).await?;
    ticket.await?;
    Ok(crate::blob::append_blob::appended(&outcome))
}

/// The operation Put Page From URL.
pub async fn put_page_from_url(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    context.required_header("x-ms-source-range")?;
    // Source: Put Page From URL, "Request headers": this operation cannot clear pages.
    if let Some(write) = context.header("x-ms-page-write")
        && !write.eq_ignore_ascii_case("update")
    {
        return Err(Failure::header("x-ms-page-write", write));
    }
    let (pages, sequence) = (pages(context)?, sequence_conditions(context)?);
    let (conditions, range) = (request.conditions()?, source_range(context)?);
    let upload = fetch(&request, UploadKind::PutPage { start: pages.start }, range)
        .await?
        .upload;
    let call = move |blobs: &BlobService, r: &Request| {
        let put = PutPage {
            range: pages,
            update: PageUpdate::Update(upload),
            sequence,
            conditions,
        };
        blobs.put_page(&r.address(), put)
    };
    let (outcome, ticket) = request.change(call).await?;
    ticket.await?;
    let mut response = with_validators(empty(201), &outcome.written);
    put_sequence(&mut response, outcome.sequence);
    put_checksums(&mut response, &outcome.checksums);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::Services;
    use lazurite_base::wall_clock::SystemWallClock;
    use lazurite_blob::{BlobAddress, ContainerSettings};
    use std::sync::Arc;

    const SOURCE: BlobAddress<'static> = BlobAddress::current("account", "con", "source");

    fn put(blobs: &BlobService, content: &[u8]) {
        let kind = UploadKind::PutBlob;
        let mut upload = blobs.begin_upload(kind, Checksums::default()).unwrap();
        upload.write(content).unwrap();
        drop(blobs.put_blob(&SOURCE, PutBlob::of(upload)).unwrap());
    }

    #[test]
    fn content_that_was_not_compared_with_the_checksums_is_not_copied() {
        let blobs = Services::in_memory(Arc::new(SystemWallClock::default())).blobs;
        let settings = ContainerSettings::default();
        let made = blobs.create_container_with(SOURCE.account, SOURCE.container, settings);
        drop(made.unwrap());
        put(&blobs, b"claimed");
        let source = Source::for_tests(&SOURCE);
        let mut checksummer = Checksummer::new(true, false);
        checksummer.update(b"claimed");
        let claimed = checksummer.finish();
        let target = BlobAddress {
            blob: "target",
            ..SOURCE
        };
        let checked = || checked_source(&blobs, &source, &CopyBlob::default(), &claimed);
        let copy = |source_conditions| {
            let copy = CopyBlob {
                source_conditions,
                ..CopyBlob::default()
            };
            blobs.copy_blob_from_url(&SOURCE, &target, copy)
        };
        let (conditions, computed) = checked().unwrap();
        assert_eq!(computed.md5, claimed.md5);
        assert!(copy(conditions.clone()).is_ok());
        put(&blobs, b"changed");
        let refused = copy(conditions).map(|_| ());
        assert!(
            matches!(refused, Err(Error::SourceConditionNotMet)),
            "{refused:?}"
        );
        let refused = checked().map(|_| ());
        assert!(
            matches!(refused, Err(Error::Md5Mismatch { .. })),
            "{refused:?}"
        );
    }
}

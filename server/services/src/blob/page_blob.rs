//! Page blobs: created as zeros, written and cleared in pages of 512 bytes, resized; and the lists
//! of their written pages and of changes since a snapshot.

use crate::blob::block_blob::{conditions_of_new_blob, headers_of_new_blob};
use crate::blob::checksums::{check_document, claimed, put_checksums};
use crate::blob::read::range;
use crate::blob::request::Request;
use crate::blob::upload::{check_before_body, is_structured, put_structure, receive, refuse_body};
use crate::blob::validators::{with_etag, with_validators};
use crate::blob::write::{blob_headers, refuse_overwrite, replaced_headers, settings};
use crate::request::body::RequestBody;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{
    BlobHeaders, BlobService, GetPageRanges, PageRanges, PageUpdate, PutPage, PutPageBlob,
    SequenceAction, SequenceConditions, SnapshotTime, UploadKind,
};
use lazurite_protocol::request::context::{Context, Query};
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{REQUEST_SERVER_ENCRYPTED, empty, put, put_static, xml};
use lazurite_protocol::xml::Writer;
use std::ops::Range;

pub async fn put_page_blob(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    refuse_body(body).await?;
    let context = &request.context;
    context.required_header("x-ms-blob-content-length")?;
    let put_blob = PutPageBlob {
        length: context
            .number("x-ms-blob-content-length")?
            .unwrap_or_default(),
        sequence: context
            .number("x-ms-blob-sequence-number")?
            .unwrap_or_default(),
        headers: headers_of_new_blob(&request)?,
        metadata: metadata(context)?,
        settings: settings(&request)?,
        conditions: conditions_of_new_blob(&request)?,
    };
    let create_only = request.is_create_only();
    let call = move |blobs: &BlobService, r: &Request| blobs.put_page_blob(&r.address(), put_blob);
    let outcome = request.change(call).await;
    let (written, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    let mut response = with_validators(empty(201), &written);
    put_static(&mut response, REQUEST_SERVER_ENCRYPTED, "true");
    Ok(response)
}

/// Put Page: writes the body, or clears pages.
pub async fn put_page(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let context = &request.context;
    let (pages, sequence) = (pages(context)?, sequence_conditions(context)?);
    let (conditions, structured) = (request.conditions()?, is_structured(&request));
    let name = "x-ms-page-write";
    let update = match context.required_header(name)?.to_ascii_lowercase().as_str() {
        "update" => {
            let kind = UploadKind::PutPage { start: pages.start };
            check_before_body(&request, &body, kind, &conditions).await?;
            PageUpdate::Update(receive(&request, body, kind).await?)
        }
        "clear" => {
            refuse_body(body).await?;
            check_document(&claimed(&request)?, b"")?;
            PageUpdate::Clear
        }
        other => return Err(Failure::header(name, other)),
    };
    let call = move |blobs: &BlobService, r: &Request| {
        let put = PutPage {
            range: pages,
            update,
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
    put_structure(&mut response, structured);
    Ok(response)
}

/// The byte range of a write, end exclusive. Source: Put Page, "Request headers", `Range`.
pub fn pages(context: &Context) -> Result<Range<u64>> {
    let name = "x-ms-range";
    let text = context.header(name).or_else(|| context.header("range"));
    let text = text.ok_or_else(|| Failure::missing_header(name))?;
    let range = || {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some(first..last.checked_add(1)?)
    };
    range().ok_or_else(|| Failure::header(name, text.as_str()))
}

pub fn sequence_conditions(context: &Context) -> Result<SequenceConditions> {
    Ok(SequenceConditions {
        at_most: context.number("x-ms-if-sequence-number-le")?,
        less_than: context.number("x-ms-if-sequence-number-lt")?,
        equal: context.number("x-ms-if-sequence-number-eq")?,
    })
}

/// Set Blob Properties with a length or a sequence number. If the request has no blob headers,
/// those of the blob stay as they are. Otherwise, blob headers that are not in the request are
/// cleared.
pub async fn set_page_blob_properties(request: Box<Request>) -> Result<Response<Body>> {
    let length = request.context.number("x-ms-blob-content-length")?;
    let action = sequence_action(&request.context)?;
    let are_given = blob_headers(&request)? != BlobHeaders::default();
    let headers = are_given.then(|| replaced_headers(&request)).transpose()?;
    let conditions = request.conditions()?;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.set_page_blob_properties(&r.address(), length, action, headers, &conditions)
    };
    let (written, sequence, ticket) = request.change(call).await?;
    ticket.await?;
    let mut response = with_validators(empty(200), &written);
    put_sequence(&mut response, sequence);
    Ok(response)
}

/// The change of the sequence number. Source: Set Blob Properties, "Request headers".
fn sequence_action(context: &Context) -> Result<Option<SequenceAction>> {
    let (name, number_name) = ("x-ms-sequence-number-action", "x-ms-blob-sequence-number");
    let Some(action) = context.header(name) else {
        return Ok(None);
    };
    let number = context.number(number_name)?;
    let needed = || number.ok_or_else(|| Failure::missing_header(number_name));
    match (action.to_ascii_lowercase().as_str(), number) {
        ("update", _) => Ok(Some(SequenceAction::Update(needed()?))),
        ("max", _) => Ok(Some(SequenceAction::Max(needed()?))),
        ("increment", None) => Ok(Some(SequenceAction::Increment)),
        ("increment", Some(number)) => Err(Failure::header(number_name, number.to_string())),
        _ => Err(Failure::header(name, action)),
    }
}

/// Answers Get Page Ranges and Get Page Ranges (Diff).
pub async fn get_page_ranges(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let max_results = context.integer("maxresults")?;
    let wanted = GetPageRanges {
        range: range(&request),
        previous: previous_snapshot(&request)?,
        marker: context.query.get("marker"),
        max_results: max_results.map(|number| u32::try_from(number.max(0)).unwrap_or(u32::MAX)),
        conditions: request.conditions()?,
    };
    // The document is written here too: thousands of ranges take as long to write as to find.
    let call = move |blobs: &BlobService, r: &Request| {
        let found = blobs.get_page_ranges(&r.address(), &wanted)?;
        let mut response = with_etag(
            xml(200, page_list(&found)),
            found.blob.etag,
            found.blob.last_modified,
        );
        let length = found.blob.length.to_string();
        put(&mut response, "x-ms-blob-content-length", length);
        Ok(response)
    };
    request.call(call).await
}

/// The earlier snapshot, from `prevsnapshot` or from a URL. The URL must be that of a snapshot of
/// this blob. If both are given, they must agree.
fn previous_snapshot(request: &Request) -> Result<Option<SnapshotTime>> {
    let context = &request.context;
    let parameter = "prevsnapshot";
    let moment = context.query.get(parameter).map(|text| {
        let moment = SnapshotTime::parse(&text);
        moment.ok_or_else(|| Failure::parameter(parameter, text, "It is not a time."))
    });
    let moment = moment.transpose()?;
    let name = "x-ms-previous-snapshot-url";
    let Some(url) = context.header(name) else {
        return Ok(moment);
    };
    let of_url = || {
        let (address, query) = url.split_once('?')?;
        let path = address.split_once("://")?.1.split_once('/')?.1;
        let same = format!("/{path}") == context.raw_path;
        let snapshot = Query::parse(query).ok()?.get("snapshot")?;
        SnapshotTime::parse(&snapshot).filter(|_| same)
    };
    match of_url() {
        Some(found) if moment.is_none_or(|moment| moment == found) => Ok(Some(found)),
        _ => Err(Failure::header(name, url.as_str())),
    }
}

fn page_list(found: &PageRanges) -> String {
    let mut document = Writer::new();
    document.open("PageList");
    for page in &found.ranges {
        let name = if page.cleared {
            "ClearRange"
        } else {
            "PageRange"
        };
        document.open(name);
        document.element("Start", &page.range.start.to_string());
        document.element("End", &(page.range.end - 1).to_string());
        document.close(name);
    }
    document.optional("NextMarker", found.next_marker.as_deref());
    document.close("PageList");
    document.finish()
}

pub fn put_sequence(response: &mut Response<Body>, sequence: u64) {
    put(response, "x-ms-blob-sequence-number", sequence.to_string());
}

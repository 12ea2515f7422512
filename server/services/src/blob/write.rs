//! Changes to a blob that do not touch its content, and its deletion; the request headers that
//! writes of blobs share.

use crate::blob::conditions::optional_id;
use crate::blob::header_text;
use crate::blob::immutability::{immutability_policy, legal_hold};
use crate::blob::lake::{UNDELETE_SOURCE, undelete_path};
use crate::blob::request::Request;
use crate::blob::tags::tags_of_header;
use crate::blob::tier::access_tier;
use crate::blob::validators::with_validators;
use axum::body::Body;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{
    BlobHeaders, BlobService, BlobSettings, BlobState, DeleteBlob, DeleteSnapshots, Tags,
    TierChanged,
};
use lazurite_protocol::request::checksums::{md5, no_md5};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{REQUEST_SERVER_ENCRYPTED, empty, put, put_static};

const CONTENT_MD5_OF_BLOB: &str = "x-ms-blob-content-md5";

pub async fn set_blob_properties(request: Box<Request>) -> Result<Response<Body>> {
    let (headers, conditions) = (replaced_headers(&request)?, request.conditions()?);
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.set_blob_properties(&r.address(), headers, &conditions)
    };
    let (written, ticket) = request.write(call).await?;
    ticket.await?;
    Ok(with_validators(empty(200), &written))
}

pub async fn set_blob_metadata(request: Box<Request>) -> Result<Response<Body>> {
    let (metadata, conditions) = (metadata(&request.context)?, request.conditions()?);
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.set_blob_metadata(&r.address(), metadata, &conditions)
    };
    let (written, ticket) = request.write(call).await?;
    ticket.await?;
    let mut response = with_validators(empty(200), &written);
    put_static(&mut response, REQUEST_SERVER_ENCRYPTED, "true");
    Ok(response)
}

/// Delete Blob. Source: Delete Blob, "Request headers" and "URI parameters".
pub async fn delete_blob(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let snapshots = delete_snapshots(context)?;
    if let (BlobState::Version(version), Some(_)) = (request.blob_state, snapshots) {
        // Source: recorded responses of the hosted service.
        return Err(Failure::parameter(
            "versionid",
            version.to_string(),
            "This operation is only allowed on the root blob. Version id should not be provided.",
        ));
    }
    let delete = DeleteBlob {
        snapshots,
        permanent: is_permanent(context)?,
        conditions: request.conditions()?,
        tier_changed: tier_changed(context)?,
    };
    let call = move |blobs: &BlobService, r: &Request| blobs.delete_blob(&r.address(), &delete);
    let (deletion, ticket) = match snapshots {
        None => request.write(call).await?,
        Some(_) => request.change(call).await?,
    };
    ticket.await?;
    let mut response = empty(202);
    put(
        &mut response,
        "x-ms-delete-type-permanent",
        deletion.permanent.to_string(),
    );
    Ok(response)
}

fn delete_snapshots(context: &Context) -> Result<Option<DeleteSnapshots>> {
    let name = "x-ms-delete-snapshots";
    match context.header(name).as_deref() {
        None => Ok(None),
        Some("include") => Ok(Some(DeleteSnapshots::Include)),
        Some("only") => Ok(Some(DeleteSnapshots::Only)),
        Some(other) => Err(Failure::header(name, other)),
    }
}

fn is_permanent(context: &Context) -> Result<bool> {
    let name = "deletetype";
    match context.query.get(name).as_deref() {
        None | Some("") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("permanent") => Ok(true),
        Some(other) => Err(Failure::parameter(name, other, "It can only be permanent.")),
    }
}

fn tier_changed(context: &Context) -> Result<TierChanged> {
    Ok(TierChanged {
        since: context.date("x-ms-access-tier-if-modified-since")?,
        not_since: context.date("x-ms-access-tier-if-unmodified-since")?,
    })
}

pub async fn undelete_blob(request: Box<Request>) -> Result<Response<Body>> {
    if request.context.header(UNDELETE_SOURCE).is_some() {
        return undelete_path(request).await;
    }
    let lease_id = optional_id(&request.context, "x-ms-lease-id")?;
    let call = move |blobs: &BlobService, r: &Request| blobs.undelete_blob(&r.address(), lease_id);
    request.change(call).await?.await?;
    Ok(empty(200))
}

pub async fn snapshot_blob(request: Box<Request>) -> Result<Response<Body>> {
    let (metadata, conditions) = (metadata(&request.context)?, request.conditions()?);
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.snapshot_blob(&r.address(), metadata, &conditions)
    };
    let (moment, written, ticket) = request.write(call).await?;
    ticket.await?;
    let mut response = with_validators(empty(201), &written);
    put(&mut response, "x-ms-snapshot", moment.to_string());
    put_static(&mut response, REQUEST_SERVER_ENCRYPTED, "true");
    Ok(response)
}

/// The six headers that a writer sets on a blob. An MD5 of any length is kept. Source: Set Blob
/// Properties, "Request headers"; recorded answers of the hosted service.
pub fn blob_headers(request: &Request) -> Result<BlobHeaders> {
    let content_md5 = match request.context.header(CONTENT_MD5_OF_BLOB) {
        None => None,
        Some(text) => match STANDARD.decode(&text) {
            Ok(bytes) => Some(bytes),
            Err(_) => return Err(no_md5(CONTENT_MD5_OF_BLOB, text)),
        },
    };
    Ok(BlobHeaders {
        content_md5,
        ..texts(request)
    })
}

/// Refuses a malformed MD5 for the blob. It is not compared with the content.
pub fn check_md5_of_content(request: &Request) -> Result<()> {
    let text = request.context.header(CONTENT_MD5_OF_BLOB);
    text.map_or(Ok(()), |text| md5(CONTENT_MD5_OF_BLOB, text).map(drop))
}

/// The headers that are stored as text, so without the MD5.
fn texts(request: &Request) -> BlobHeaders {
    let header = |name: &str| header_text::sent(&request.context, name);
    BlobHeaders {
        content_type: header("x-ms-blob-content-type"),
        content_encoding: header("x-ms-blob-content-encoding"),
        content_language: header("x-ms-blob-content-language"),
        cache_control: header("x-ms-blob-cache-control"),
        content_disposition: header("x-ms-blob-content-disposition"),
        content_md5: None,
    }
}

/// The headers after Set Blob Properties, which clears those that are not given. A cleared type is
/// stored as an empty text, because a blob without a stored type is read as
/// `application/octet-stream`. Source: Set Blob Properties, "Request headers",
/// `x-ms-blob-content-type`.
pub fn replaced_headers(request: &Request) -> Result<BlobHeaders> {
    let mut headers = blob_headers(request)?;
    headers.content_type.get_or_insert_default();
    Ok(headers)
}

/// The settings of a new blob other than headers and metadata.
pub fn settings(request: &Request) -> Result<BlobSettings> {
    let context = &request.context;
    let tags = context.header("x-ms-tags");
    Ok(BlobSettings {
        tags: tags.map_or(Tags::new(), |text| tags_of_header(&text)),
        tier: access_tier(context)?,
        immutability: immutability_policy(context)?,
        legal_hold: legal_hold(context)?,
    })
}

pub fn refuse_overwrite(failure: Failure, create_only: bool) -> Failure {
    if create_only && failure.code == "BlobAlreadyExists" {
        overwrite_refused()
    } else {
        failure
    }
}

/// The refusal to overwrite a blob. Source: Blob Service error codes.
pub fn overwrite_refused() -> Failure {
    let message = "This request is not authorized to perform blob overwrites.";
    Failure::new(403, "UnauthorizedBlobOverwrite", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_protocol::request::context::ServiceKind;
    use lazurite_protocol::testing::request;

    #[test]
    fn a_deletion_is_permanent_only_if_it_says_so() {
        let permanent = |query: &str| {
            let target = format!("/c/b?{query}");
            let context = request(ServiceKind::Blob, "DELETE", &target, "myaccount", &[]);
            is_permanent(&context).map_err(|failure| failure.code.clone())
        };
        for (query, is_expected) in [
            ("", false),
            ("deletetype=", false),
            ("deletetype=permanent", true),
            ("deletetype=Permanent", true),
        ] {
            assert_eq!(permanent(query), Ok(is_expected), "{query}");
        }
        let refused = permanent("deletetype=soft").unwrap_err();
        assert_eq!(refused, "InvalidQueryParameterValue");
    }
}

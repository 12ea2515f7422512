//! Inputs that most operations share: the snapshot or version, and the conditions.

use crate::blob::encryption;
use lazurite_blob::{BlobState, Conditions, ETags, Guid, SnapshotTime, TagCondition};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use std::borrow::Cow;

/// The conditions in the request's headers, with the lease id and the encryption that the request
/// names. Source: Specifying conditional headers for Blob service operations.
pub fn conditions(context: &Context) -> Result<Conditions> {
    let tags = context.header("x-ms-if-tags");
    Ok(Conditions {
        if_tags: tags.map(|text| TagCondition::parse(&text)).transpose()?,
        lease_id: optional_id(context, "x-ms-lease-id")?,
        customer_key: encryption::customer_key(context, encryption::OWN)?,
        encryption_scope: encryption::scope(context)?,
        ..conditions_named(context, "")?
    })
}

/// Conditions in headers whose names begin with `prefix`: `x-ms-source-` for the source of a copy,
/// `x-ms-blob-` for the blob in operations on its tags, and nothing in all other cases.
pub fn conditions_named(context: &Context, prefix: &'static str) -> Result<Conditions> {
    let named = |name: &'static str| match prefix {
        "" => Cow::Borrowed(name),
        prefix => Cow::Owned([prefix, name].concat()),
    };
    let header = |name| {
        let name = named(name);
        context.header(&name).map(|text| (name, text))
    };
    let date = |name| context.date(&named(name));
    let tags = |name: &'static str| match header(name) {
        Some((name, text)) => match ETags::parse(&text) {
            Some(tags) => Ok(Some(tags)),
            None => Err(Failure::header(&name, text)),
        },
        None => Ok(None),
    };
    let if_tags = header("if-tags").filter(|_| !prefix.is_empty());
    Ok(Conditions {
        if_match: tags("if-match")?,
        if_none_match: tags("if-none-match")?,
        if_modified_since: date("if-modified-since")?,
        if_unmodified_since: date("if-unmodified-since")?,
        if_tags: if_tags
            .map(|(name, text)| {
                TagCondition::parse(&text).map_err(|_| Failure::header(&name, text))
            })
            .transpose()?,
        ..Conditions::default()
    })
}

/// The state of a blob that `snapshot` or `versionid` selects. Source: Get Blob, "URI parameters".
pub fn blob_state(context: &Context) -> Result<BlobState> {
    let moment = |name: &str| match context.query.get(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => match SnapshotTime::parse(&text) {
            Some(moment) => Ok(Some(moment)),
            None => Err(Failure::parameter(
                name,
                text,
                "It is not a time with seven digits of a second's fraction.",
            )),
        },
    };
    match (moment("snapshot")?, moment("versionid")?) {
        (None, None) => Ok(BlobState::Current),
        (Some(snapshot), None) => Ok(BlobState::Snapshot(snapshot)),
        (None, Some(version)) => Ok(BlobState::Version(version)),
        // Source: recorded responses of the hosted service.
        (Some(_), Some(_)) => Err(Failure::new(
            400,
            "MutuallyExclusiveQueryParameters",
            "snapshot and versionid are mutually exclusive query parameters. Only one of these should be present.",
        )),
    }
}

/// The id in a header; `None` if the header is absent.
pub fn optional_id(context: &Context, name: &'static str) -> Result<Option<Guid>> {
    context
        .header(name)
        .map(|text| parse_id(name, text))
        .transpose()
}

/// Parses the id in the header `name`. Error: the header is invalid.
pub fn parse_id(name: &'static str, text: String) -> Result<Guid> {
    Guid::parse(&text).ok_or_else(|| Failure::header(name, text))
}

//! Checks the blobs of an import before the first write.

use crate::blobs::line::{Kind, headers_of, kind_of};
use crate::blobs::put::{Put, each_blob};
use crate::blobs::upload::PAGE_BYTES;
use crate::checks::{CONTAINER_RULES, check_flag, check_metadata, without_full_stop};
use crate::error::{Error, Result};
use crate::fields::{text_field, texts_field};
use crate::import_run::Import;
use crate::resource_kind::ResourceKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{AccessTier, BlobType, PAGE_BLOB_BYTES_MAX};
use lazurite_protocol::date;
use lazurite_protocol::resource_names::check_container_name;
use serde_json::{Map, Value};

/// Reads and checks all lines and settings. Errors: all that an import refuses without asking the
/// service.
pub fn check(import: &Import<'_>) -> Result<()> {
    for container in import.resources(ResourceKind::Container)? {
        let root = format!("blobs/{container}");
        check_container_name(&container).map_err(|error| Error::from(error).within(&root))?;
        if lazurite_blob::is_system_container(&container) {
            return Err(Error::from("the service makes it itself").within(root));
        }
        CONTAINER_RULES.check(import.source, &ResourceKind::Container.settings(&container))?;
        each_blob(import, &container, &mut |put| {
            check_blob(import, &put).map_err(|error| error.within(&put.path))
        })?;
    }
    Ok(())
}

fn check_blob(import: &Import<'_>, put: &Put) -> Result<()> {
    lazurite_blob::check_blob_name(&put.name).map_err(|error| match error {
        lazurite_blob::Error::OutOfRangeInput { reason } => format!("name: {reason}"),
        _ => format!("name: {:?} cannot be a blob's", put.name),
    })?;
    let length = put.content.length(import)?;
    let kind = kind_of(&put.fields)?;
    check_properties(&put.fields, kind)?;
    if matches!(kind, Kind::Page)
        && !(length.is_multiple_of(PAGE_BYTES as u64) && length <= PAGE_BLOB_BYTES_MAX)
    {
        let rule = format!(
            "a page blob has a multiple of {PAGE_BYTES}, and at most {PAGE_BLOB_BYTES_MAX}"
        );
        return Err(format!("{length} bytes: {rule}").into());
    }
    Ok(headers_of(&put.fields).map(drop)?)
}

/// Checks the line of a blob like the service would, except its name and the length of its content.
fn check_properties(fields: &Map<String, Value>, kind: Kind) -> Result<(), String> {
    check_metadata(fields)?;
    check_tags(fields)?;
    check_tier(fields, kind)?;
    let field = |name| text_field(fields, name);
    if let Some(md5) = field("contentMD5")?
        && STANDARD.decode(md5).is_err()
    {
        return Err(format!("contentMD5: {md5:?} is not base64"));
    }
    if let Some(expires) = field("expires")?
        && date::parse_http(expires).is_none()
    {
        return Err(format!("expires: {expires:?} is no time of HTTP"));
    }
    if let Some(number) = field("sequenceNumber")?
        && !number.parse().is_ok_and(|number: i64| number >= 0)
    {
        return Err(format!("sequenceNumber: {number:?} is no such number"));
    }
    check_flag(fields, "sealed")?;
    if field("sealed")? == Some("true") && !matches!(kind, Kind::Append) {
        return Err("sealed: only an append blob can be".to_owned());
    }
    Ok(())
}

fn check_tags(fields: &Map<String, Value>) -> Result<(), String> {
    let tags = texts_field(fields, "tags")?.into_iter();
    let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned()));
    lazurite_blob::checked_tags(tags.collect())
        .map(drop)
        .map_err(|error| format!("tags: {}", without_full_stop(&error.to_string())))
}

fn check_tier(fields: &Map<String, Value>, kind: Kind) -> Result<(), String> {
    let Some(text) = text_field(fields, "tier")? else {
        return Ok(());
    };
    let tier = AccessTier::parse(text).ok_or_else(|| format!("tier: there is no tier {text:?}"))?;
    let blob_type = match kind {
        Kind::Block => BlobType::BlockBlob,
        Kind::Page => BlobType::PageBlob,
        // An import drops the tier of an append blob.
        Kind::Append => return Ok(()),
    };
    lazurite_blob::check_tier(blob_type, tier)
        .map_err(|_| format!("tier: a blob of this type cannot have the tier {text:?}"))
}

//! The properties of a blob, or of a container, as listings show them.

use crate::blob::copy_state::copy_texts;
use crate::blob::encryption::encryption_text;
use crate::blob::header_text;
use crate::blob::immutability::protection_texts;
use crate::blob::lake::resource_type;
use crate::blob::lease::texts;
use crate::blob::read::blob_type;
use crate::blob::tier::tier_texts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{Blob, BlobHeaders, Deleted, Encryption, Lease, ListedBlob, SnapshotTime};
use lazurite_protocol::date;
use lazurite_protocol::request::path_properties::IS_FOLDER;
use lazurite_protocol::xml::Writer;
use std::borrow::Cow;
use std::time::SystemTime;

/// The optional parts of a blob that a listing shows in addition to its properties.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    pub metadata: bool,
    pub tags: bool,
    pub copies: bool,
    /// Owner, group and access control list of paths.
    pub permissions: bool,
}

/// The target for the properties of a listed blob: elements of a document, or columns of the same
/// names.
pub trait Properties {
    fn element(&mut self, name: &str, text: &str);

    /// Writes the element if there is text.
    fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.element(name, text);
        }
    }
}

impl Properties for Writer {
    fn element(&mut self, name: &str, text: &str) {
        Writer::element(self, name, text);
    }
}

/// True if metadata is encrypted with a customer-provided key, and so is not listed. Source:
/// recorded answers of the hosted service.
pub fn hides_metadata(blob: &Blob) -> bool {
    matches!(blob.encryption, Encryption::CustomerKey(_)) && !blob.metadata.is_empty()
}

/// Writes which state of a blob is listed, such as a snapshot, a version or a deleted blob.
pub fn write_state(document: &mut impl Properties, listed: &ListedBlob) {
    let Some(blob) = &listed.blob else {
        return;
    };
    document.optional("Deleted", blob.deleted.map(|_| "true"));
    let deletion_id = listed.deletion_id.map(|id| id.to_string());
    document.optional("DeletionId", deletion_id.as_deref());
    let moment = |moment: Option<SnapshotTime>| moment.map(|moment| moment.to_string());
    document.optional("Snapshot", moment(blob.snapshot).as_deref());
    document.optional("VersionId", moment(blob.version).as_deref());
    let current = blob.version.is_some() && listed.is_current;
    document.optional("IsCurrentVersion", current.then_some("true"));
    document.optional(
        "HasVersionsOnly",
        listed.has_versions_only.then_some("true"),
    );
}

pub fn write_properties(
    document: &mut impl Properties,
    listed: &ListedBlob,
    shown: Shown,
    now: SystemTime,
) {
    match &listed.blob {
        Some(blob) => write_blob_properties(document, blob, shown, now),
        // The blob has only uncommitted blocks.
        None => {
            document.element("Content-Length", "0");
            document.element("BlobType", "BlockBlob");
        }
    }
}

/// Elements in the order of the hosted service. Source: List Blobs, "Response body".
fn write_blob_properties(
    document: &mut impl Properties,
    blob: &Blob,
    shown: Shown,
    now: SystemTime,
) {
    write_validators(document, blob);
    write_path(document, blob, shown);
    write_blob_headers(document, &blob.headers);
    let sequence = blob.sequence_number().map(|number| number.to_string());
    document.optional("x-ms-blob-sequence-number", sequence.as_deref());
    document.element("BlobType", blob_type(blob));
    for (_, name, text) in tier_texts(blob, now) {
        document.element(name, &text);
    }
    if blob.is_current {
        write_lease(document, &blob.lease, now);
    }
    if shown.copies {
        for (_, name, text) in blob.copy.iter().flat_map(copy_texts) {
            document.element(name, &text);
        }
    }
    document.element("ServerEncrypted", "true");
    if let Some((_, name, text)) = encryption_text(blob) {
        document.element(name, &text);
    }
    let count = blob.tags.len();
    document.optional(
        "TagCount",
        (count > 0).then(|| count.to_string()).as_deref(),
    );
    document.optional("Sealed", blob.is_sealed().then_some("true"));
    let expires = blob.expires_at.map(date::rfc1123);
    document.optional("Expiry-Time", expires.as_deref());
    for (_, name, text) in protection_texts(blob) {
        document.element(name, &text);
    }
    write_deletion(document, blob.deleted, now);
}

fn write_validators(document: &mut impl Properties, blob: &Blob) {
    let created = date::rfc1123(blob.created_at);
    document.element("Creation-Time", &created);
    // Reused if equal: most blobs of a long list were never changed.
    if blob.last_modified == blob.created_at {
        document.element("Last-Modified", &created);
    } else {
        document.element("Last-Modified", &date::rfc1123(blob.last_modified));
    }
    document.element("Etag", &blob.etag.to_string());
    document.element("Content-Length", &blob.length.to_string());
}

/// The kind of a path in a hierarchical namespace, and its access control.
fn write_path(document: &mut impl Properties, blob: &Blob, shown: Shown) {
    let Some(access) = &blob.access else {
        return;
    };
    document.element("ResourceType", resource_type(blob));
    if shown.permissions {
        document.element("Owner", &access.owner);
        document.element("Group", &access.group);
        document.element("Permissions", &access.permissions_text());
        document.element("Acl", &access.acl_text());
    }
}

/// The metadata of a blob, with the marker of directories, which older clients look for.
pub fn metadata_of(blob: &Blob) -> Cow<'_, [(String, String)]> {
    let is_marked = |(name, _): &(String, String)| name.eq_ignore_ascii_case(IS_FOLDER);
    if !blob.is_directory() || blob.metadata.iter().any(is_marked) {
        return blob.metadata.as_slice().into();
    }
    let mut metadata = blob.metadata.clone();
    metadata.push((IS_FOLDER.to_owned(), "true".to_owned()));
    metadata.into()
}

/// The headers that a read of the blob returns. Those without a value are empty elements.
fn write_blob_headers(document: &mut impl Properties, headers: &BlobHeaders) {
    let md5 = headers.content_md5.as_ref();
    let content_type = headers.content_type.as_deref();
    let mut element = |name, text: Option<&str>| {
        document.element(name, &header_text::shown(text.unwrap_or_default()));
    };
    element(
        "Content-Type",
        content_type.or(Some("application/octet-stream")),
    );
    element("Content-Encoding", headers.content_encoding.as_deref());
    element("Content-Language", headers.content_language.as_deref());
    element("Content-CRC64", None);
    element(
        "Content-MD5",
        md5.map(|md5| STANDARD.encode(md5)).as_deref(),
    );
    element("Cache-Control", headers.cache_control.as_deref());
    element(
        "Content-Disposition",
        headers.content_disposition.as_deref(),
    );
}

/// Writes when a container or blob was deleted, and how long it can still be restored.
pub fn write_deletion(document: &mut impl Properties, deleted: Option<Deleted>, now: SystemTime) {
    if let Some(deleted) = deleted {
        document.element("DeletedTime", &date::rfc1123(deleted.at));
        let days_left = deleted.days_left(now).to_string();
        document.element("RemainingRetentionDays", &days_left);
    }
}

pub fn write_lease(document: &mut impl Properties, lease: &Lease, now: SystemTime) {
    let (status, state, duration) = texts(lease, now);
    document.element("LeaseStatus", status);
    document.element("LeaseState", state);
    document.optional("LeaseDuration", duration);
}

//! Describes facts about blobs in words.

use lazurite_blob::{Blob, BlobType, LeaseState};

/// The state of a lease.
pub fn lease(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Available => "available",
        LeaseState::Leased => "leased",
        LeaseState::Expired => "expired",
        LeaseState::Breaking => "breaking",
        LeaseState::Broken => "broken",
    }
}

/// The content type, or `application/octet-stream` if the blob has none.
pub fn content_type(blob: &Blob) -> &str {
    if blob.is_directory() {
        return "directory";
    }
    blob.headers
        .content_type
        .as_deref()
        .unwrap_or("application/octet-stream")
}

/// The type of a blob.
pub fn kind(kind: BlobType) -> &'static str {
    match kind {
        BlobType::BlockBlob => "block blob",
        BlobType::AppendBlob => "append blob",
        BlobType::PageBlob => "page blob",
    }
}

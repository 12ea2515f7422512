//! Directories made by the Blob protocol: an empty blob whose metadata marks it as one.

use crate::blob::request::Request;
use lazurite_blob::{
    BlobHeaders, BlobService, Conditions, CreatePath, Metadata, PathKind, Written,
};

/// Whether metadata marks a directory, as clients of the Blob protocol do.
pub fn marks_directory(metadata: &Metadata) -> bool {
    let is_marker = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("hdi_isfolder") && value.eq_ignore_ascii_case("true")
    };
    metadata.iter().any(is_marker)
}

/// Makes the directory that a Put Blob with the marker `hdi_isfolder` asks for. Error:
/// `NotHierarchical`, in a flat container, where the marker is a blob like others.
pub fn put_directory(
    blobs: &BlobService,
    request: &Request,
    headers: &BlobHeaders,
    metadata: &Metadata,
    conditions: &Conditions,
) -> lazurite_blob::Result<(Written, lazurite_blob::Ticket)> {
    let path = CreatePath {
        headers: headers.clone(),
        metadata: metadata.clone(),
        conditions: conditions.clone(),
        ..CreatePath::of(PathKind::Directory)
    };
    blobs.create_path(&request.address(), path)
}

//! Groups of headers and parameters of the Blob service. The rows of `operations.rs` combine them
//! into the inputs of their operations.

use lazurite_protocol::request::inputs::{CHECKSUMS, Inputs, headers, parameters, union};

/// The inputs of an operation on a blob: `groups`, and a snapshot or version. If the operation does
/// not accept a snapshot or version, the service refuses it.
pub const fn of_blob(groups: &[Inputs]) -> Inputs {
    union(&[SNAPSHOT_OR_VERSION, union(groups)])
}

const SNAPSHOT_OR_VERSION: Inputs = parameters(&["snapshot", "versionid"]);

// Conditions.

/// Containers have no tags, so these lack the condition on tags.
pub const CONTAINER_CONDITIONS: Inputs = headers(&[
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
]);
pub const TAG_CONDITION: Inputs = headers(&["x-ms-if-tags"]);
pub const CONDITIONS: Inputs = union(&[CONTAINER_CONDITIONS, TAG_CONDITION]);
/// For operations on tags. There, the usual conditional headers apply to the tags, and these apply
/// to the blob.
pub const BLOB_CONDITIONS: Inputs = headers(&[
    "x-ms-blob-if-match",
    "x-ms-blob-if-modified-since",
    "x-ms-blob-if-none-match",
    "x-ms-blob-if-unmodified-since",
]);
pub const TIER_CONDITIONS: Inputs = headers(&[
    "x-ms-access-tier-if-modified-since",
    "x-ms-access-tier-if-unmodified-since",
]);
pub const APPEND_POSITION: Inputs = headers(&["x-ms-blob-condition-appendpos"]);
pub const BLOB_SIZE_MAX: Inputs = headers(&["x-ms-blob-condition-maxsize"]);
pub const SEQUENCE_CONDITIONS: Inputs = headers(&[
    "x-ms-if-sequence-number-eq",
    "x-ms-if-sequence-number-le",
    "x-ms-if-sequence-number-lt",
]);
pub const LEASE: Inputs = headers(&["x-ms-lease-id"]);
pub const LEASE_ACTION: Inputs = headers(&[
    "x-ms-lease-action",
    "x-ms-lease-break-period",
    "x-ms-lease-duration",
    "x-ms-lease-id",
    "x-ms-proposed-lease-id",
]);

// Stored properties.

pub const METADATA: Inputs = headers(&["x-ms-meta-"]);
pub const PUBLIC_ACCESS: Inputs = headers(&["x-ms-blob-public-access"]);
pub const DEFAULT_SCOPE: Inputs = headers(&[
    "x-ms-default-encryption-scope",
    "x-ms-deny-encryption-scope-override",
]);
/// The headers that a read of the blob returns.
pub const BLOB_HEADERS: Inputs = headers(&[
    "x-ms-blob-cache-control",
    "x-ms-blob-content-disposition",
    "x-ms-blob-content-encoding",
    "x-ms-blob-content-language",
    "x-ms-blob-content-md5",
    "x-ms-blob-content-type",
]);
pub const IMMUTABILITY_POLICY: Inputs = headers(&[
    "x-ms-immutability-policy-mode",
    "x-ms-immutability-policy-until-date",
]);
pub const LEGAL_HOLD: Inputs = headers(&["x-ms-legal-hold"]);
pub const TIER: Inputs = headers(&["x-ms-access-tier"]);
pub const REHYDRATION: Inputs = headers(&["x-ms-rehydrate-priority"]);
/// The inputs of an operation that creates a blob, with conditions, but without its content and
/// [`BLOB_HEADERS`].
pub const NEW_BLOB: Inputs = union(&[
    CONDITIONS,
    LEASE,
    METADATA,
    TIER,
    IMMUTABILITY_POLICY,
    LEGAL_HOLD,
    headers(&["x-ms-blob-type", "x-ms-tags"]),
]);
pub const PAGE_BLOB_LENGTH: Inputs = headers(&["x-ms-blob-content-length"]);
pub const SEQUENCE_NUMBER: Inputs = headers(&["x-ms-blob-sequence-number"]);
pub const SEQUENCE_ACTION: Inputs =
    headers(&["x-ms-blob-sequence-number", "x-ms-sequence-number-action"]);

// Encryption.

pub const SCOPE: Inputs = headers(&[crate::blob::encryption::SCOPE]);
pub const CUSTOMER_KEY: Inputs = headers(&[
    "x-ms-encryption-algorithm",
    "x-ms-encryption-key",
    "x-ms-encryption-key-sha256",
]);
/// For operations that store or change content.
pub const ENCRYPTION: Inputs = union(&[CUSTOMER_KEY, SCOPE]);

// Content.

pub const STRUCTURED_BODY: Inputs =
    headers(&["x-ms-structured-body", "x-ms-structured-content-length"]);
/// For operations that store their body.
pub const UPLOAD: Inputs = union(&[ENCRYPTION, CHECKSUMS, STRUCTURED_BODY]);
pub const RANGE: Inputs = headers(&["range", "x-ms-range"]);
pub const RANGE_CHECKSUMS: Inputs =
    headers(&["x-ms-range-get-content-crc64", "x-ms-range-get-content-md5"]);
pub const PAGE_WRITE: Inputs = headers(&["x-ms-page-write"]);
pub const BLOCK_ID: Inputs = parameters(&["blockid"]);

// Copies.

/// The source of a copy, its credentials and its conditions.
pub const SOURCE: Inputs = headers(&[
    "x-ms-copy-source",
    "x-ms-copy-source-authorization",
    "x-ms-source-encryption-algorithm",
    "x-ms-source-encryption-key",
    "x-ms-source-encryption-key-sha256",
    "x-ms-source-if-match",
    "x-ms-source-if-modified-since",
    "x-ms-source-if-none-match",
    "x-ms-source-if-tags",
    "x-ms-source-if-unmodified-since",
]);
pub const SOURCE_CHECKSUMS: Inputs =
    headers(&["x-ms-source-content-crc64", "x-ms-source-content-md5"]);
pub const SOURCE_RANGE: Inputs = headers(&["x-ms-source-range"]);
pub const TAGS_OF_SOURCE: Inputs = headers(&["x-ms-copy-source-tag-option"]);
/// For the two operations that copy a whole blob.
pub const COPY: Inputs = union(&[
    NEW_BLOB,
    SOURCE,
    REHYDRATION,
    headers(&["x-ms-requires-sync", "x-ms-seal-blob"]),
]);

// Lists.

pub const PAGE: Inputs = parameters(&["marker", "maxresults"]);
pub const INCLUDE: Inputs = parameters(&["include"]);

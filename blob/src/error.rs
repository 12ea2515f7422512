//! Error and Result: one variant per protocol error code, with the protocol's message as its text.
//!
//! What the protocol adds to a code as detail elements or headers is carried as fields. Statuses are the server's affair.

use crate::etag::ETag;
use crate::model::Md5;
use std::time::SystemTime;

/// The result of every call of the service.
pub type Result<T> = std::result::Result<T, Error>;

/// A protocol error. The variant's name is the code on the wire, but for [`Error::NotModified`], [`Error::ResourceNameLength`]
/// and [`Error::Engine`].
#[derive(Debug, Clone, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "the display text of each variant says what it means"
)]
pub enum Error {
    #[error("The specified blob already exists.")]
    BlobAlreadyExists,
    #[error("The specified blob does not exist.")]
    BlobNotFound,
    #[error("The uncommitted block count cannot exceed the maximum limit of {limit} blocks.")]
    BlockCountExceedsLimit { limit: u32 },
    #[error("The block list may not contain more than {limit} blocks.")]
    BlockListTooLong { limit: usize },
    #[error("Both x-ms-content-crc64 header and Content-MD5 header are present.")]
    BothCrc64AndMd5HeaderPresent,
    #[error("Condition headers are not supported.")]
    ConditionHeadersNotSupported,
    #[error("The condition specified using HTTP conditional header(s) is not met.")]
    ConditionNotMet,
    /// Code `ConditionNotMet` too, of a read that the client may answer from its own copy: no body, but these validators.
    #[error("The condition specified using HTTP conditional header(s) is not met.")]
    NotModified {
        etag: ETag,
        last_modified: SystemTime,
    },
    #[error("The specified container already exists.")]
    ContainerAlreadyExists,
    #[error("The specified container does not exist.")]
    ContainerNotFound,
    /// Both values as numbers; on the wire they are the base64 of their eight bytes, little-endian.
    #[error(
        "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server."
    )]
    Crc64Mismatch { specified: u64, calculated: u64 },
    #[error("The key for one of the metadata key-value pairs is empty.")]
    EmptyMetadataKey,
    /// The store holds what this service cannot have written: the log should have `reason`, the client only the text.
    #[error("The server encountered an internal error. Please retry the request.")]
    InternalError { reason: String },
    #[error("The specified blob or block content is invalid.")]
    InvalidBlobOrBlock,
    #[error("The specified block ID is invalid. The block ID must be Base64-encoded.")]
    InvalidBlockId,
    #[error("The specified block list is invalid.")]
    InvalidBlockList,
    #[error("The value for one of the HTTP headers is not in the correct format.")]
    InvalidHeaderValue { header: &'static str, value: String },
    #[error("One of the request inputs is not valid.")]
    InvalidInput { reason: &'static str },
    #[error("The metadata specified is invalid. It has characters that are not permitted.")]
    InvalidMetadata { name: String },
    #[error("Value for one of the query parameters specified in the request URI is invalid.")]
    InvalidQueryParameterValue {
        parameter: &'static str,
        value: String,
        reason: &'static str,
    },
    /// `length` is the size of the blob, for `Content-Range: bytes */length`.
    #[error("The range specified is invalid for the current size of the resource.")]
    InvalidRange { length: u64 },
    #[error("The specified resource name contains invalid characters.")]
    InvalidResourceName,
    #[error("The requested URI does not represent any resource on the server.")]
    InvalidUri,
    #[error("XML specified is not syntactically valid.")]
    InvalidXmlDocument { reason: &'static str },
    #[error(
        "The MD5 value specified in the request did not match with the MD5 value calculated by the server."
    )]
    Md5Mismatch { specified: Md5, calculated: Md5 },
    #[error("The metadata specified exceeds the maximum permissible limit (8KB).")]
    MetadataTooLarge,
    #[error("Multiple condition headers are not supported.")]
    MultipleConditionHeadersNotSupported,
    #[error("One of the request inputs is out of range.")]
    OutOfRangeInput { reason: &'static str },
    #[error(
        "One of the query parameters specified in the request URI is outside the permissible range."
    )]
    OutOfRangeQueryParameterValue {
        parameter: &'static str,
        value: String,
        minimum: u64,
        maximum: u64,
    },
    #[error("The request body is too large and exceeds the maximum permissible limit.")]
    RequestBodyTooLarge { limit: u64 },
    /// Code `OutOfRangeInput` too, of a container's name.
    #[error("The specified resource name length is not within the permissible limits.")]
    ResourceNameLength,
    #[error("The request includes an unsatisfiable condition for this operation.")]
    UnsatisfiableCondition,
    /// The store failed; see [`lazurite_engine::Error`] for what the caller can do.
    #[error(transparent)]
    Engine(#[from] lazurite_engine::Error),
}

//! Error and Result: one variant per protocol error code, with the protocol's message as its text,
//! and one variant for failures of the store.
//!
//! Detail elements and headers that the protocol adds to a code are fields. The server maps errors
//! to statuses.

use crate::etag::ETag;
use crate::md5::Md5;
use std::time::SystemTime;

/// The result of every call of the service.
pub type Result<T> = std::result::Result<T, Error>;

/// A protocol error. The variant's name is the code on the wire, unless its comment names another.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "the display text of each variant documents it")]
pub enum Error {
    #[error("The specified blob already exists.")]
    BlobAlreadyExists,
    #[error("The specified blob does not exist.")]
    BlobNotFound,
    #[error("The {which} block count cannot exceed the maximum limit of {limit} blocks.")]
    BlockCountExceedsLimit { which: &'static str, limit: u32 },
    #[error("The block list may not contain more than {limit} blocks.")]
    BlockListTooLong { limit: usize },
    #[error("Both x-ms-content-crc64 header and Content-MD5 header are present.")]
    BothCrc64AndMd5HeaderPresent,
    #[error("Condition headers are not supported.")]
    ConditionHeadersNotSupported,
    #[error("The condition specified using HTTP conditional header(s) is not met.")]
    ConditionNotMet,
    /// Code `ConditionNotMet` for a read that the client may answer from its own copy: the response
    /// has no body, but these validators.
    #[error("The condition specified using HTTP conditional header(s) is not met.")]
    NotModified {
        etag: ETag,
        last_modified: SystemTime,
    },
    #[error("The specified container already exists.")]
    ContainerAlreadyExists,
    #[error("The specified container does not exist.")]
    ContainerNotFound,
    /// Both values are numbers; on the wire they are the base64 of eight bytes, little-endian.
    #[error(
        "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server."
    )]
    Crc64Mismatch { specified: u64, calculated: u64 },
    /// The store holds a malformed record, or lacks something that a record refers to. `reason` is
    /// for the log, the text for the client.
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
    #[error("The request is forbidden by the container encryption policy.")]
    RequestForbiddenByContainerEncryptionPolicy,
    /// Code `OutOfRangeInput`, for the name of a container.
    #[error("The specified resource name length is not within the permissible limits.")]
    ResourceNameLength,
    #[error("The request includes an unsatisfiable condition for this operation.")]
    UnsatisfiableCondition,
    #[error(
        "The condition specified using access tier change time conditional header(s) is not met."
    )]
    AccessTierChangeTimeConditionNotMet,
    #[error("The append position condition specified was not met.")]
    AppendPositionConditionNotMet,
    #[error("This operation is not permitted on an archived blob.")]
    BlobArchived,
    #[error("This operation is not permitted because the blob is being rehydrated.")]
    BlobBeingRehydrated,
    #[error(
        "The blob is not encrypted with customer specified encryption, but it was provided in the request."
    )]
    BlobDoesNotUseCustomerSpecifiedEncryption,
    #[error(
        "This operation is not permitted as the blob is immutable due to one or more legal holds."
    )]
    BlobImmutableDueToLegalHold,
    #[error("This operation is not permitted as the blob is immutable due to a policy.")]
    BlobImmutableDueToPolicy,
    #[error(
        "The specified blob is sealed, and its contents can't be modified unless the blob is re-created after a delete."
    )]
    BlobIsSealed,
    #[error(
        "The given customer specified encryption does not match the encryption used to encrypt the blob."
    )]
    BlobCustomerSpecifiedEncryptionMismatch,
    #[error("The blob has been recreated since the previous snapshot was taken.")]
    BlobOverwritten,
    #[error("Specified blob tier size limit cannot be less than content length.")]
    BlobTierInadequateForContentLength,
    #[error(
        "The blob is encrypted with customer specified encryption, but it was not provided in the request."
    )]
    BlobUsesCustomerSpecifiedEncryption,
    #[error("A higher blob tier has already been explicitly set.")]
    CannotChangeToLowerTier,
    #[error("The specified content length is larger than the size limit of the blob's tier.")]
    ContentLengthLargerThanTierLimit,
    #[error("The specified copy ID did not match the copy ID for the pending copy operation.")]
    CopyIdMismatch,
    #[error("The tags specified contain duplicate names.")]
    DuplicateTagNames,
    #[error("The name of one of the tag key-value pairs is empty.")]
    EmptyTagName,
    #[error(
        "The specified source blob is different than the copy source of the existing incremental copy blob."
    )]
    IncrementalCopyBlobMismatch,
    #[error(
        "The specified snapshot is earlier than the last snapshot copied into the incremental copy blob."
    )]
    IncrementalCopyOfEarlierSnapshotNotAllowed,
    #[error("The source for incremental copy request must be a snapshot.")]
    IncrementalCopySourceMustBeSnapshot,
    #[error("The lease ID matched, but the specified lease must be an infinite-duration lease.")]
    InfiniteLeaseDurationRequired,
    #[error("The specified blob tier is invalid.")]
    InvalidBlobTier,
    #[error("The blob type is invalid for this operation.")]
    InvalidBlobType,
    #[error("Invalid operation against a blob snapshot.")]
    InvalidOperation { reason: &'static str },
    #[error("The page range specified is invalid.")]
    InvalidPageRange,
    #[error("The copy source blob type is invalid for this operation.")]
    InvalidSourceBlobType,
    #[error("The tags specified are invalid. They contain characters that are not permitted.")]
    InvalidTag { reason: &'static str },
    /// Code `InvalidQueryParameterValue`, for `where`. The message says what is wrong.
    #[error("{message}")]
    InvalidTagQuery { value: String, message: String },
    #[error("There is already a lease present.")]
    LeaseAlreadyPresent,
    #[error("The lease ID specified did not match the lease ID for the blob.")]
    LeaseIdMismatchWithBlobOperation,
    #[error("The lease ID specified did not match the lease ID for the container.")]
    LeaseIdMismatchWithContainerOperation,
    #[error("The lease ID specified did not match the lease ID for the blob/container.")]
    LeaseIdMismatchWithLeaseOperation,
    #[error(
        "There is currently a lease on the blob/container and no lease ID was specified in the request."
    )]
    LeaseIdMissing,
    #[error(
        "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken."
    )]
    LeaseIsBreakingAndCannotBeAcquired,
    #[error(
        "The lease ID matched, but the lease is currently in breaking state and cannot be changed."
    )]
    LeaseIsBreakingAndCannotBeChanged,
    #[error(
        "The lease ID matched, but the lease has been broken explicitly and cannot be renewed."
    )]
    LeaseIsBrokenAndCannotBeRenewed,
    #[error("A lease ID was specified, but the lease for the blob/container has expired.")]
    LeaseLost,
    #[error("There is currently no lease on the blob.")]
    LeaseNotPresentWithBlobOperation,
    #[error("There is currently no lease on the container.")]
    LeaseNotPresentWithContainerOperation,
    #[error("There is currently no lease on the blob/container.")]
    LeaseNotPresentWithLeaseOperation,
    #[error("The max blob size condition specified was not met.")]
    MaxBlobSizeConditionNotMet,
    #[error("There is currently no pending copy operation.")]
    NoPendingCopyOperation,
    #[error("The specified operation is not allowed on an incremental copy blob.")]
    OperationNotAllowedOnIncrementalCopyBlob,
    #[error("The specified operation is not allowed on root blob.")]
    OperationNotAllowedOnRootBlob,
    #[error("There is currently a pending copy operation.")]
    PendingCopyOperation,
    #[error(
        "The prevsnapshot query parameter value cannot be newer than the snapshot query parameter value."
    )]
    PreviousSnapshotCannotBeNewer,
    #[error("The previous snapshot is not found.")]
    PreviousSnapshotNotFound,
    #[error("The sequence number condition specified was not met.")]
    SequenceNumberConditionNotMet,
    #[error(
        "The sequence number increment cannot be performed because it would result in overflow of the sequence number."
    )]
    SequenceNumberIncrementTooLarge,
    #[error("This operation is not permitted while the blob has snapshots.")]
    SnapshotsPresent,
    #[error("The source condition specified using HTTP conditional header(s) is not met.")]
    SourceConditionNotMet,
    #[error("The tags specified exceed the maximum permissible limit.")]
    TagsTooLarge,
    /// Code `DirectoryIsNotEmpty` in the Blob protocol.
    #[error("This operation is not permitted on a non-empty directory.")]
    DirectoryNotEmpty,
    #[error("The feature is not supported for a container with a hierarchical namespace.")]
    FeatureNotSupportedInHierarchy { feature: &'static str },
    #[error(
        "The uploaded data is not contiguous or the position query parameter value is not equal to the length of the file after appending the uploaded data."
    )]
    InvalidFlushPosition,
    #[error(
        "The source directory cannot be the same as the destination directory, nor can the destination be a subdirectory of the source directory."
    )]
    InvalidRenameSourcePath,
    #[error("The source or destination resource type is invalid for this operation.")]
    InvalidSourceOrDestinationResourceType,
    /// The container has no hierarchical namespace, and the operation needs one.
    #[error("The container has no hierarchical namespace.")]
    NotHierarchical,
    #[error("This operation is not supported on a directory.")]
    OperationNotSupportedOnDirectory,
    /// The access control of a path refuses the caller.
    #[error("This request is not authorized to perform this operation using this permission.")]
    AuthorizationPermissionMismatch,
    #[error(
        "The specified path, or an element of the path, exists and its resource type is invalid for this operation."
    )]
    PathConflict,
    #[error("The parent directory of the destination path does not exist.")]
    RenameDestinationParentPathNotFound,
    #[error("The source path for a rename operation does not exist.")]
    SourcePathNotFound,
    /// The store failed. [`lazurite_engine::Error`] documents how the caller can react.
    #[error(transparent)]
    Engine(#[from] lazurite_engine::Error),
}

/// The error for a row whose key this service cannot have written.
pub(crate) fn corrupt_record() -> Error {
    Error::InternalError {
        reason: "a row's key is not one of this service".to_string(),
    }
}

/// The error for something that a record refers to and that is missing.
pub(crate) fn missing(reason: &str) -> Error {
    Error::InternalError {
        reason: reason.to_string(),
    }
}

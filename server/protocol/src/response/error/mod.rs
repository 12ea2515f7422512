//! The only place with status codes: the responses to requests that are refused or fail.
//!
//! Every refusal and failure becomes a [`Failure`]: `common.rs` has the codes that all services
//! share, this file maps the errors of each service, and `render.rs` writes them in the format of
//! the service.

pub mod common;
mod data_lake;
mod failure;
mod render;

pub use data_lake::in_words_of_data_lake;
pub use failure::{ClientSigned, Failure, FailureContent, Result, WRONG_SERVICE};
pub use render::{ErrorFormat, render, table_json_body};

use crate::date;
use crate::parameters::{PARAMETERS_MAX, QueryError};
use crate::structured::Malformed;
use axum::http::header::{CONTENT_RANGE, ETAG, HeaderValue, LAST_MODIFIED};

impl Failure {
    /// The failure for a header with an invalid value.
    pub fn header(name: &str, value: impl Into<String>) -> Failure {
        common::INVALID_HEADER_VALUE
            .with("HeaderName", name)
            .with("HeaderValue", value)
    }

    /// The failure for a required header that is absent.
    pub fn missing_header(name: &str) -> Failure {
        common::MISSING_REQUIRED_HEADER.with("HeaderName", name)
    }

    /// The failure for an element of a document with an invalid value.
    pub fn element(name: &str, value: impl Into<String>) -> Failure {
        common::INVALID_XML_NODE_VALUE
            .with("XmlNodeName", name)
            .with("XmlNodeValue", value)
    }

    /// The failure for a required element of a document that is absent or empty.
    pub fn missing_element(name: &str) -> Failure {
        common::MISSING_REQUIRED_XML_NODE.with("XmlNodeName", name)
    }

    /// The failure for a query parameter with an invalid value.
    pub fn parameter(name: &str, value: impl Into<String>, reason: impl Into<String>) -> Failure {
        common::INVALID_QUERY_PARAMETER_VALUE
            .with("QueryParameterName", name)
            .with("QueryParameterValue", value)
            .with("Reason", reason)
    }
}

impl From<QueryError> for Failure {
    #[cold]
    fn from(error: QueryError) -> Failure {
        match error {
            QueryError::TooMany => {
                let message =
                    format!("The request has more than {PARAMETERS_MAX} query parameters.");
                Failure::new(400, "InvalidUri", message)
            }
            QueryError::Name => common::INVALID_URI.into(),
            QueryError::Value { name, value } => {
                Failure::parameter(&name, value, "It is not UTF-8.")
            }
        }
    }
}

impl From<Malformed> for Failure {
    #[cold]
    fn from(malformed: Malformed) -> Failure {
        match malformed {
            Malformed::Framing(detail) => common::INVALID_INPUT.with("ExtendedErrorDetail", detail),
            Malformed::Checksum {
                specified,
                calculated,
            } => lazurite_blob::Error::Crc64Mismatch {
                specified,
                calculated,
            }
            .into(),
        }
    }
}

impl From<lazurite_engine::Error> for Failure {
    #[cold]
    fn from(error: lazurite_engine::Error) -> Failure {
        use lazurite_engine::Error;
        let busy = |message: &'static str| Failure::new(503, "ServerBusy", message);
        match &error {
            Error::NoSpace { .. } => {
                tracing::warn!(%error, "the store is full");
                let message = "There is no space left for the data of this server.";
                Failure::new(507, "InsufficientStorage", message)
            }
            Error::TooLarge { .. } => {
                common::REQUEST_BODY_TOO_LARGE.with("ExtendedErrorDetail", error.to_string())
            }
            Error::ReadOnly { .. } => {
                tracing::warn!(%error, "the store refuses to write");
                busy("The store is read-only since an earlier failure: see the log of the server.")
            }
            Error::Closed | Error::Locked { .. } => busy("The server is closing its store."),
            Error::Conflict => busy("Another operation came in between: send the request again."),
            Error::Io { .. } if error.is_passing() => {
                tracing::warn!(%error, "no file handle is left");
                busy("No file handle is left for this work. Try again later.")
            }
            // The client gets `500`; only the log says which file is affected, and where.
            Error::Io { .. }
            | Error::Corrupt { .. }
            | Error::UnknownFormat { .. }
            | Error::UnknownKeyspace { .. }
            | Error::UnknownValue
            | Error::Deadlock
            | Error::InvalidOption { .. } => {
                tracing::error!(%error, "the store failed");
                common::INTERNAL_ERROR.into()
            }
        }
    }
}

impl From<lazurite_queue::Error> for Failure {
    #[cold]
    fn from(error: lazurite_queue::Error) -> Failure {
        use lazurite_queue::Error;
        let message = error.to_string();
        let answer = |status: u16, code: &'static str| Failure::new(status, code, message);
        match error {
            Error::InvalidMarker => answer(400, "InvalidMarker"),
            Error::InvalidQueryParameterValue {
                name,
                value,
                reason,
            } => Failure::parameter(name, value, reason),
            Error::InvalidResourceName => answer(400, "InvalidResourceName"),
            Error::InvalidXmlDocument { reason } => {
                answer(400, "InvalidXmlDocument").with("ExtendedErrorDetail", reason)
            }
            Error::MessageNotFound => answer(404, "MessageNotFound"),
            Error::OutOfRangeInput => answer(400, "OutOfRangeInput"),
            Error::OutOfRangeQueryParameterValue {
                name,
                value,
                minimum,
                maximum,
            } => answer(400, "OutOfRangeQueryParameterValue")
                .with("QueryParameterName", name)
                .with("QueryParameterValue", value.to_string())
                .with("MinimumAllowed", minimum.to_string())
                .with("MaximumAllowed", maximum.to_string()),
            Error::PopReceiptMismatch => answer(400, "PopReceiptMismatch"),
            Error::QueueAlreadyExists => answer(409, "QueueAlreadyExists"),
            Error::QueueNotFound => answer(404, "QueueNotFound"),
            Error::RequestBodyTooLarge { limit } => {
                answer(413, "RequestBodyTooLarge").with("MaxLimit", limit.to_string())
            }
            Error::Engine(error) => error.into(),
        }
    }
}

impl From<lazurite_blob::Error> for Failure {
    #[cold]
    fn from(error: lazurite_blob::Error) -> Failure {
        use lazurite_blob::Error;
        let message = error.to_string();
        let answer = |status: u16, code: &'static str| Failure::new(status, code, message);
        let base64 = |bytes: &[u8]| {
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
        };
        match error {
            Error::BlobAlreadyExists => answer(409, "BlobAlreadyExists"),
            Error::BlobNotFound => answer(404, "BlobNotFound"),
            Error::BlockCountExceedsLimit { .. } => answer(409, "BlockCountExceedsLimit"),
            Error::BlockListTooLong { .. } => answer(400, "BlockListTooLong"),
            Error::BothCrc64AndMd5HeaderPresent => answer(400, "BothCrc64AndMd5HeaderPresent"),
            Error::ConditionHeadersNotSupported => answer(400, "ConditionHeadersNotSupported"),
            Error::ConditionNotMet => answer(412, "ConditionNotMet"),
            Error::NotModified {
                etag,
                last_modified,
            } => {
                let header =
                    |text: String| HeaderValue::try_from(text).expect("validators are plain ASCII");
                answer(304, "ConditionNotMet")
                    .with_header(ETAG, header(etag.quoted()))
                    .with_header(LAST_MODIFIED, header(date::rfc1123(last_modified)))
            }
            Error::ContainerAlreadyExists => answer(409, "ContainerAlreadyExists"),
            Error::ContainerNotFound => answer(404, "ContainerNotFound"),
            Error::Crc64Mismatch {
                specified,
                calculated,
            } => answer(400, "Crc64Mismatch")
                .with("UserSpecifiedCrc", base64(&specified.to_le_bytes()))
                .with("ServerCalculatedCrc", base64(&calculated.to_le_bytes())),
            Error::InternalError { reason } => {
                tracing::error!(
                    reason,
                    "the store holds a record that the Blob service cannot have written"
                );
                common::INTERNAL_ERROR.into()
            }
            Error::InvalidBlobOrBlock => answer(400, "InvalidBlobOrBlock"),
            Error::InvalidBlockId => answer(400, "InvalidBlockId"),
            Error::InvalidBlockList => answer(400, "InvalidBlockList"),
            Error::InvalidHeaderValue { header, value } => Failure::header(header, value),
            Error::InvalidInput { reason } => {
                answer(400, "InvalidInput").with("ExtendedErrorDetail", reason)
            }
            Error::InvalidQueryParameterValue {
                parameter,
                value,
                reason,
            } => Failure::parameter(parameter, value, reason),
            Error::InvalidRange { length } => {
                let value = HeaderValue::try_from(format!("bytes */{length}"))
                    .expect("numbers are plain ASCII");
                answer(416, "InvalidRange").with_header(CONTENT_RANGE, value)
            }
            Error::InvalidResourceName => answer(400, "InvalidResourceName"),
            Error::InvalidUri => answer(400, "InvalidUri"),
            Error::InvalidXmlDocument { reason } => {
                answer(400, "InvalidXmlDocument").with("ExtendedErrorDetail", reason)
            }
            Error::Md5Mismatch {
                specified,
                calculated,
            } => answer(400, "Md5Mismatch")
                .with("UserSpecifiedMd5", base64(&specified))
                .with("ServerCalculatedMd5", base64(&calculated)),
            Error::MultipleConditionHeadersNotSupported => {
                answer(400, "MultipleConditionHeadersNotSupported")
            }
            Error::OutOfRangeInput { reason } => {
                answer(400, "OutOfRangeInput").with("ExtendedErrorDetail", reason)
            }
            Error::OutOfRangeQueryParameterValue {
                parameter,
                value,
                minimum,
                maximum,
            } => answer(400, "OutOfRangeQueryParameterValue")
                .with("QueryParameterName", parameter)
                .with("QueryParameterValue", value)
                .with("MinimumAllowed", minimum.to_string())
                .with("MaximumAllowed", maximum.to_string()),
            Error::RequestForbiddenByContainerEncryptionPolicy => {
                answer(403, "RequestForbiddenByContainerEncryptionPolicy")
            }
            Error::RequestBodyTooLarge { limit } => {
                answer(413, "RequestBodyTooLarge").with("MaxLimit", limit.to_string())
            }
            Error::ResourceNameLength => answer(400, "OutOfRangeInput"),
            Error::UnsatisfiableCondition => answer(400, "UnsatisfiableCondition"),
            Error::AccessTierChangeTimeConditionNotMet => {
                answer(412, "AccessTierChangeTimeConditionNotMet")
            }
            Error::AppendPositionConditionNotMet => answer(412, "AppendPositionConditionNotMet"),
            Error::BlobArchived => answer(409, "BlobArchived"),
            Error::BlobBeingRehydrated => answer(409, "BlobBeingRehydrated"),
            Error::BlobCustomerSpecifiedEncryptionMismatch => {
                answer(409, "BlobCustomerSpecifiedEncryptionMismatch")
            }
            Error::BlobDoesNotUseCustomerSpecifiedEncryption => {
                answer(409, "BlobDoesNotUseCustomerSpecifiedEncryption")
            }
            Error::BlobImmutableDueToLegalHold => answer(409, "BlobImmutableDueToLegalHold"),
            Error::BlobImmutableDueToPolicy => answer(409, "BlobImmutableDueToPolicy"),
            Error::BlobIsSealed => answer(409, "BlobIsSealed"),
            Error::BlobOverwritten => answer(409, "BlobOverwritten"),
            Error::BlobTierInadequateForContentLength => {
                answer(409, "BlobTierInadequateForContentLength")
            }
            Error::BlobUsesCustomerSpecifiedEncryption => {
                answer(409, "BlobUsesCustomerSpecifiedEncryption")
            }
            Error::CannotChangeToLowerTier => answer(409, "CannotChangeToLowerTier"),
            Error::ContentLengthLargerThanTierLimit => {
                answer(409, "ContentLengthLargerThanTierLimit")
            }
            Error::CopyIdMismatch => answer(409, "CopyIdMismatch"),
            Error::DuplicateTagNames => answer(400, "DuplicateTagNames"),
            Error::EmptyTagName => answer(400, "EmptyTagName"),
            Error::IncrementalCopyBlobMismatch => answer(409, "IncrementalCopyBlobMismatch"),
            Error::IncrementalCopyOfEarlierSnapshotNotAllowed => {
                answer(409, "IncrementalCopyOfEarlierSnapshotNotAllowed")
            }
            Error::IncrementalCopySourceMustBeSnapshot => {
                answer(409, "IncrementalCopySourceMustBeSnapshot")
            }
            Error::InfiniteLeaseDurationRequired => answer(412, "InfiniteLeaseDurationRequired"),
            Error::InvalidBlobTier => answer(400, "InvalidBlobTier"),
            Error::InvalidBlobType => answer(409, "InvalidBlobType"),
            Error::InvalidOperation { reason } => {
                answer(400, "InvalidOperation").with("ExtendedErrorDetail", reason)
            }
            Error::InvalidPageRange => answer(416, "InvalidPageRange"),
            Error::InvalidSourceBlobType => answer(409, "InvalidSourceBlobType"),
            Error::InvalidTag { reason } => {
                answer(400, "InvalidTag").with("ExtendedErrorDetail", reason)
            }
            Error::InvalidTagQuery { value, .. } => answer(400, "InvalidQueryParameterValue")
                .with("QueryParameterName", "where")
                .with("QueryParameterValue", value),
            Error::LeaseAlreadyPresent => answer(409, "LeaseAlreadyPresent"),
            Error::LeaseIdMismatchWithBlobOperation => {
                answer(412, "LeaseIdMismatchWithBlobOperation")
            }
            Error::LeaseIdMismatchWithContainerOperation => {
                answer(412, "LeaseIdMismatchWithContainerOperation")
            }
            Error::LeaseIdMismatchWithLeaseOperation => {
                answer(409, "LeaseIdMismatchWithLeaseOperation")
            }
            Error::LeaseIdMissing => answer(412, "LeaseIdMissing"),
            Error::LeaseIsBreakingAndCannotBeAcquired => {
                answer(409, "LeaseIsBreakingAndCannotBeAcquired")
            }
            Error::LeaseIsBreakingAndCannotBeChanged => {
                answer(409, "LeaseIsBreakingAndCannotBeChanged")
            }
            Error::LeaseIsBrokenAndCannotBeRenewed => {
                answer(409, "LeaseIsBrokenAndCannotBeRenewed")
            }
            Error::LeaseLost => answer(412, "LeaseLost"),
            Error::LeaseNotPresentWithBlobOperation => {
                answer(412, "LeaseNotPresentWithBlobOperation")
            }
            Error::LeaseNotPresentWithContainerOperation => {
                answer(412, "LeaseNotPresentWithContainerOperation")
            }
            Error::LeaseNotPresentWithLeaseOperation => {
                answer(409, "LeaseNotPresentWithLeaseOperation")
            }
            Error::MaxBlobSizeConditionNotMet => answer(412, "MaxBlobSizeConditionNotMet"),
            Error::NoPendingCopyOperation => answer(409, "NoPendingCopyOperation"),
            Error::OperationNotAllowedOnIncrementalCopyBlob => {
                answer(409, "OperationNotAllowedOnIncrementalCopyBlob")
            }
            Error::OperationNotAllowedOnRootBlob => answer(403, "OperationNotAllowedOnRootBlob"),
            Error::PendingCopyOperation => answer(409, "PendingCopyOperation"),
            Error::PreviousSnapshotCannotBeNewer => answer(400, "PreviousSnapshotCannotBeNewer"),
            Error::PreviousSnapshotNotFound => answer(409, "PreviousSnapshotNotFound"),
            Error::SequenceNumberConditionNotMet => answer(412, "SequenceNumberConditionNotMet"),
            Error::SequenceNumberIncrementTooLarge => {
                answer(409, "SequenceNumberIncrementTooLarge")
            }
            Error::SnapshotsPresent => answer(409, "SnapshotsPresent"),
            Error::SourceConditionNotMet => answer(412, "SourceConditionNotMet"),
            Error::TagsTooLarge => answer(400, "TagsTooLarge"),
            Error::DirectoryNotEmpty => answer(409, "DirectoryIsNotEmpty"),
            Error::FeatureNotSupportedInHierarchy { feature } => {
                let code = "FeatureNotYetSupportedForHierarchicalNamespaceAccounts";
                answer(409, code).with("ExtendedErrorDetail", feature)
            }
            Error::InvalidFlushPosition => answer(400, "InvalidFlushPosition"),
            Error::InvalidRenameSourcePath => answer(409, "InvalidRenameSourcePath"),
            Error::InvalidSourceOrDestinationResourceType => {
                answer(409, "InvalidSourceOrDestinationResourceType")
            }
            Error::NotHierarchical => answer(400, "HierarchicalNamespaceNotEnabled").with(
                "ExtendedErrorDetail",
                "The container was created before --hns was set for its account.",
            ),
            Error::OperationNotSupportedOnDirectory => {
                answer(409, "OperationNotSupportedOnDirectory")
            }
            Error::AuthorizationPermissionMismatch => {
                answer(403, "AuthorizationPermissionMismatch")
            }
            Error::PathConflict => answer(409, "PathConflict"),
            Error::RenameDestinationParentPathNotFound => {
                answer(404, "RenameDestinationParentPathNotFound")
            }
            Error::SourcePathNotFound => answer(404, "SourcePathNotFound"),
            Error::Engine(error) => error.into(),
        }
    }
}

impl From<lazurite_table::Error> for Failure {
    #[cold]
    fn from(error: lazurite_table::Error) -> Failure {
        use lazurite_table::Error;
        let message = error.to_string();
        let answer = |status: u16, code: &'static str| Failure::new(status, code, message);
        match error {
            Error::CommandsInBatchActOnDifferentPartitions => {
                answer(400, "CommandsInBatchActOnDifferentPartitions")
            }
            Error::DuplicatePropertiesSpecified => answer(400, "DuplicatePropertiesSpecified"),
            Error::EntityAlreadyExists => answer(409, "EntityAlreadyExists"),
            Error::EntityTooLarge => answer(400, "EntityTooLarge"),
            Error::InternalError(reason) => {
                tracing::error!(
                    reason,
                    "the store holds a record that the Table service cannot have written"
                );
                common::INTERNAL_ERROR.into()
            }
            Error::InvalidDuplicateRow => answer(400, "InvalidDuplicateRow"),
            Error::InvalidInput(_) => answer(400, "InvalidInput"),
            Error::InvalidResourceName => answer(400, "InvalidResourceName"),
            Error::InvalidXmlDocument { reason } => {
                answer(400, "InvalidXmlDocument").with("ExtendedErrorDetail", reason)
            }
            Error::NotImplemented(_) => answer(501, "NotImplemented"),
            Error::OutOfRangeInput(_) => answer(400, "OutOfRangeInput"),
            Error::PropertiesNeedValue => answer(400, "PropertiesNeedValue"),
            Error::PropertyNameInvalid => answer(400, "PropertyNameInvalid"),
            Error::PropertyNameTooLong => answer(400, "PropertyNameTooLong"),
            Error::PropertyValueTooLarge => answer(400, "PropertyValueTooLarge"),
            Error::ResourceNotFound => answer(404, "ResourceNotFound"),
            Error::TableAlreadyExists => answer(409, "TableAlreadyExists"),
            Error::TableNotFound => answer(404, "TableNotFound"),
            Error::TooManyProperties => answer(400, "TooManyProperties"),
            Error::UpdateConditionNotSatisfied => answer(412, "UpdateConditionNotSatisfied"),
            Error::Engine(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::Path;

    #[test]
    fn a_lack_of_file_handles_passes_and_other_failures_of_the_disk_do_not() {
        let status = |source: io::Error| {
            let error = lazurite_engine::Error::io("open", Path::new("store"), source);
            Failure::from(error).status
        };
        let too_many = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        assert_eq!(status(too_many), 503);
        assert_eq!(status(io::Error::other("broken")), 500);
    }
}

//! Failures in the words of Data Lake Storage: it has names and sentences of its own for much that
//! blobs have too. Source: Azure Data Lake Storage Gen2 REST API, the error tables of "Path" and
//! "Filesystem".

use crate::response::error::Failure;

/// A code of the Blob service, the code of Data Lake Storage, and its message; `""` for the same
/// message.
const CODES: [(&str, &str, &str); 19] = [
    (
        "BlobNotFound",
        "PathNotFound",
        "The specified path does not exist.",
    ),
    (
        "BlobAlreadyExists",
        "PathAlreadyExists",
        "The specified path already exists.",
    ),
    (
        "ContainerNotFound",
        "FilesystemNotFound",
        "The specified filesystem does not exist.",
    ),
    (
        "ContainerAlreadyExists",
        "FilesystemAlreadyExists",
        "The specified filesystem already exists.",
    ),
    (
        "ContainerBeingDeleted",
        "FilesystemBeingDeleted",
        "The specified filesystem is being deleted.",
    ),
    (
        "DirectoryIsNotEmpty",
        "DirectoryNotEmpty",
        "The recursive query parameter value must be true to delete a non-empty directory.",
    ),
    (
        "OperationNotSupportedOnDirectory",
        "ResourceTypeMismatch",
        "The resource type of the path is invalid for this operation.",
    ),
    ("InvalidBlobType", "ResourceTypeMismatch", ""),
    ("InvalidMetadata", "InvalidPropertyName", ""),
    ("EmptyMetadataKey", "InvalidPropertyName", ""),
    (
        "LeaseIdMismatchWithBlobOperation",
        "LeaseIdMismatch",
        "The lease ID specified did not match the lease ID for the resource.",
    ),
    (
        "LeaseIdMismatchWithContainerOperation",
        "LeaseIdMismatch",
        "The lease ID specified did not match the lease ID for the resource.",
    ),
    (
        "LeaseNotPresentWithBlobOperation",
        "LeaseNotPresent",
        "There is currently no lease on the resource.",
    ),
    (
        "LeaseLost",
        "LeaseLost",
        "A lease ID was specified, but the lease for the resource has expired.",
    ),
    (
        "LeaseNotPresentWithContainerOperation",
        "LeaseNotPresent",
        "There is currently no lease on the resource.",
    ),
    (
        "LeaseIdMissing",
        "LeaseIdMissing",
        "There is currently a lease on the resource and no lease ID was specified in the request.",
    ),
    (
        "LeaseIdMismatchWithLeaseOperation",
        "LeaseIdMismatchWithLeaseOperation",
        "The lease ID specified did not match the lease ID for the resource with the specified lease operation.",
    ),
    (
        "LeaseNotPresentWithLeaseOperation",
        "LeaseNotPresentWithLeaseOperation",
        "There is currently no lease on the resource.",
    ),
    ("InvalidMarker", "InvalidQueryParameterValue", ""),
];

/// Renames a failure for a client of Data Lake Storage.
pub fn in_words_of_data_lake(mut failure: Failure) -> Failure {
    let Some((_, code, message)) = CODES.iter().find(|(blob, ..)| *blob == failure.code) else {
        return failure;
    };
    failure.code = (*code).into();
    if !message.is_empty() {
        failure.message = (*message).into();
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_blobs_have_their_names_in_data_lake_storage() {
        let renamed = |error: lazurite_blob::Error| {
            let failure = in_words_of_data_lake(error.into());
            (failure.status.as_u16(), failure.code.to_string())
        };
        use lazurite_blob::Error;
        for (error, status, code) in [
            (Error::BlobNotFound, 404, "PathNotFound"),
            (Error::ContainerNotFound, 404, "FilesystemNotFound"),
            (Error::BlobAlreadyExists, 409, "PathAlreadyExists"),
            (
                Error::ContainerAlreadyExists,
                409,
                "FilesystemAlreadyExists",
            ),
            (Error::DirectoryNotEmpty, 409, "DirectoryNotEmpty"),
            (
                Error::OperationNotSupportedOnDirectory,
                409,
                "ResourceTypeMismatch",
            ),
            (
                Error::LeaseIdMismatchWithBlobOperation,
                412,
                "LeaseIdMismatch",
            ),
            (
                Error::LeaseNotPresentWithBlobOperation,
                412,
                "LeaseNotPresent",
            ),
            (Error::InvalidFlushPosition, 400, "InvalidFlushPosition"),
            (Error::PathConflict, 409, "PathConflict"),
            (Error::SourcePathNotFound, 404, "SourcePathNotFound"),
        ] {
            assert_eq!(renamed(error), (status, code.to_owned()));
        }
    }

    #[test]
    fn a_code_may_change_without_its_message() {
        let (code, renamed, _) = CODES
            .iter()
            .find(|(_, _, message)| message.is_empty())
            .unwrap();
        let failure = in_words_of_data_lake(Failure::new(400, *code, "The message."));
        assert_eq!(
            (&*failure.code, &*failure.message),
            (*renamed, "The message.")
        );
    }
}

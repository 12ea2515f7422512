//! The only place with status codes: what a client sees when something is refused or fails.
//!
//! Everything that is not a success becomes a [`Failure`], and one function renders it in the dialect of the service:
//! XML for Blob and Queue, OData JSON (or XML, for what is not OData) for Table.

use crate::codec::date;
use axum::body::Body;
use axum::http::header::{
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED,
};
use axum::http::{Response, StatusCode};
use std::borrow::Cow;
use std::time::SystemTime;

/// A protocol error that needs no further data: status, code, message.
#[derive(Debug, Clone, Copy)]
pub struct Known(pub u16, pub &'static str, pub &'static str);

/// Codes that every service shares. Source: Common REST API error codes; Blob service error codes.
pub mod known {
    use super::Known;

    pub const AUTHENTICATION_FAILED: Known = Known(
        403,
        "AuthenticationFailed",
        "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly \
         including the signature.",
    );
    pub const AUTHORIZATION_FAILURE: Known = Known(
        403,
        "AuthorizationFailure",
        "This request is not authorized to perform this operation.",
    );
    pub const PERMISSION_MISMATCH: Known = Known(
        403,
        "AuthorizationPermissionMismatch",
        "This request is not authorized to perform this operation using this permission.",
    );
    pub const PROTOCOL_MISMATCH: Known = Known(
        403,
        "AuthorizationProtocolMismatch",
        "This request is not authorized to perform this operation using this protocol.",
    );
    pub const RESOURCE_TYPE_MISMATCH: Known = Known(
        403,
        "AuthorizationResourceTypeMismatch",
        "This request is not authorized to perform this operation using this resource type.",
    );
    pub const SERVICE_MISMATCH: Known = Known(
        403,
        "AuthorizationServiceMismatch",
        "This request is not authorized to perform this operation using this service.",
    );
    pub const INTERNAL_ERROR: Known = Known(
        500,
        "InternalError",
        "The server encountered an internal error. Please retry the request.",
    );
    pub const INVALID_AUTHENTICATION_INFO: Known = Known(
        400,
        "InvalidAuthenticationInfo",
        "Authentication information is not given in the correct format. Check the value of Authorization header.",
    );
    pub const INVALID_HEADER_VALUE: Known = Known(
        400,
        "InvalidHeaderValue",
        "The value for one of the HTTP headers is not in the correct format.",
    );
    pub const INVALID_INPUT: Known = Known(
        400,
        "InvalidInput",
        "One of the request inputs is not valid.",
    );
    pub const INVALID_MD5: Known = Known(
        400,
        "InvalidMd5",
        "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded.",
    );
    pub const INVALID_QUERY_PARAMETER_VALUE: Known = Known(
        400,
        "InvalidQueryParameterValue",
        "Value for one of the query parameters specified in the request URI is invalid.",
    );
    pub const INVALID_URI: Known = Known(
        400,
        "InvalidUri",
        "The requested URI does not represent any resource on the server.",
    );
    pub const INVALID_XML_DOCUMENT: Known = Known(
        400,
        "InvalidXmlDocument",
        "XML specified is not syntactically valid.",
    );
    pub const INVALID_XML_NODE_VALUE: Known = Known(
        400,
        "InvalidXmlNodeValue",
        "The value for one of the XML nodes is not in the correct format.",
    );
    pub const MISSING_REQUIRED_HEADER: Known = Known(
        400,
        "MissingRequiredHeader",
        "An HTTP header that's mandatory for this request is not specified.",
    );
    pub const MISSING_REQUIRED_QUERY_PARAMETER: Known = Known(
        400,
        "MissingRequiredQueryParameter",
        "A query parameter that's mandatory for this request is not specified.",
    );
    pub const MISSING_REQUIRED_XML_NODE: Known = Known(
        400,
        "MissingRequiredXmlNode",
        "A required XML node was not specified in the request body.",
    );
    pub const REQUEST_BODY_TOO_LARGE: Known = Known(
        413,
        "RequestBodyTooLarge",
        "The request body is too large and exceeds the maximum permissible limit.",
    );
    pub const RESOURCE_NOT_FOUND: Known = Known(
        404,
        "ResourceNotFound",
        "The specified resource does not exist.",
    );
    pub const UNSUPPORTED_HTTP_VERB: Known = Known(
        405,
        "UnsupportedHttpVerb",
        "The resource doesn't support the specified HTTP verb.",
    );
    pub const UNSUPPORTED_XML_NODE: Known = Known(
        400,
        "UnsupportedXmlNode",
        "One of the XML nodes specified in the request body is not supported.",
    );
    pub const WRITE_ON_SECONDARY: Known = Known(
        403,
        "WriteOperationNotSupportedOnSecondary",
        "Write operations are not allowed on the secondary endpoint of an account.",
    );
}

impl Known {
    /// The failure, with one more element for its body.
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Failure {
        Failure::from(self).with(name, value)
    }
}

/// An answer that is not a success, before it has been put into a dialect.
#[derive(Debug)]
pub struct Failure {
    pub status: StatusCode,
    pub code: Cow<'static, str>,
    pub message: Cow<'static, str>,
    /// Further elements of an XML body, in order: `HeaderName`, `QueryParameterName`, `AuthenticationErrorDetail`.
    pub details: Vec<(&'static str, String)>,
    /// Headers of the answer beside the common ones.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The result of anything a request may be refused for.
pub type Result<T> = std::result::Result<T, Failure>;

impl From<Known> for Failure {
    fn from(Known(status, code, message): Known) -> Failure {
        Failure::new(status, code, message)
    }
}

impl Failure {
    pub fn new(
        status: u16,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Failure {
        let status = StatusCode::from_u16(status).expect("statuses are written here, in range");
        Failure {
            status,
            code: code.into(),
            message: message.into(),
            details: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// `501` for a part of the protocol that is not served yet; `feature` names it, as the subject of a sentence.
    pub fn unsupported(feature: impl std::fmt::Display) -> Failure {
        Failure::new(
            501,
            "NotImplemented",
            format!("{feature} is not supported by this version of Lazurite."),
        )
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Failure {
        self.details.push((name, value.into()));
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Failure {
        self.headers.push((name, value));
        self
    }

    /// A header whose value cannot be read.
    pub fn header(name: &str, value: impl Into<String>) -> Failure {
        known::INVALID_HEADER_VALUE
            .with("HeaderName", name)
            .with("HeaderValue", value)
    }

    /// A query parameter whose value cannot be read.
    pub fn parameter(name: &str, value: impl Into<String>, reason: impl Into<String>) -> Failure {
        known::INVALID_QUERY_PARAMETER_VALUE
            .with("QueryParameterName", name)
            .with("QueryParameterValue", value)
            .with("Reason", reason)
    }
}

impl From<lazurite_engine::Error> for Failure {
    fn from(error: lazurite_engine::Error) -> Failure {
        use lazurite_engine::Error;
        let busy = |message: String| Failure::new(503, "ServerBusy", message);
        match &error {
            Error::NoSpace { .. } => Failure::new(507, "InsufficientStorage", error.to_string()),
            Error::TooLarge { .. } => {
                known::REQUEST_BODY_TOO_LARGE.with("ExtendedErrorDetail", error.to_string())
            }
            Error::ReadOnly { .. } | Error::Closed | Error::Locked { .. } => {
                busy(error.to_string())
            }
            // The client learns that it is ours to mend; which file and where is for the log.
            Error::Io { .. }
            | Error::Corrupt { .. }
            | Error::UnknownFormat { .. }
            | Error::UnknownKeyspace { .. } => {
                tracing::error!(%error, "the store failed");
                known::INTERNAL_ERROR.into()
            }
        }
    }
}

impl From<lazurite_queue::Error> for Failure {
    fn from(error: lazurite_queue::Error) -> Failure {
        use lazurite_queue::Error;
        let message = error.to_string();
        let answer = |status: u16, code: &'static str| Failure::new(status, code, message);
        match error {
            Error::EmptyMetadataKey => answer(400, "EmptyMetadataKey"),
            Error::InvalidMarker => answer(400, "InvalidMarker"),
            Error::InvalidMetadata => answer(400, "InvalidMetadata"),
            Error::InvalidQueryParameterValue {
                name,
                value,
                reason,
            } => Failure::parameter(name, value, reason),
            Error::InvalidResourceName => answer(400, "InvalidResourceName"),
            Error::InvalidXmlDocument => answer(400, "InvalidXmlDocument"),
            Error::MessageNotFound => answer(404, "MessageNotFound"),
            Error::MetadataTooLarge => answer(400, "MetadataTooLarge"),
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
            Error::EmptyMetadataKey => answer(400, "EmptyMetadataKey"),
            Error::InternalError { reason } => {
                tracing::error!(
                    reason,
                    "the store holds what the Blob service cannot have written"
                );
                known::INTERNAL_ERROR.into()
            }
            Error::InvalidBlobOrBlock => answer(400, "InvalidBlobOrBlock"),
            Error::InvalidBlockId => answer(400, "InvalidBlockId"),
            Error::InvalidBlockList => answer(400, "InvalidBlockList"),
            Error::InvalidHeaderValue { header, value } => Failure::header(header, value),
            Error::InvalidInput { reason } => {
                answer(400, "InvalidInput").with("ExtendedErrorDetail", reason)
            }
            Error::InvalidMetadata { name } => {
                answer(400, "InvalidMetadata").with("HeaderName", format!("x-ms-meta-{name}"))
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
            Error::MetadataTooLarge => answer(400, "MetadataTooLarge"),
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
            Error::AppendPositionConditionNotMet => answer(412, "AppendPositionConditionNotMet"),
            Error::BlobArchived => answer(409, "BlobArchived"),
            Error::BlobBeingRehydrated => answer(409, "BlobBeingRehydrated"),
            Error::BlobCustomerSpecifiedEncryptionMismatch => {
                answer(409, "BlobCustomerSpecifiedEncryptionMismatch")
            }
            Error::BlobDoesNotUseCustomerSpecifiedEncryption => {
                answer(409, "BlobDoesNotUseCustomerSpecifiedEncryption")
            }
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
            Error::Engine(error) => error.into(),
        }
    }
}

impl From<lazurite_table::Error> for Failure {
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
                    "the store holds what the Table service cannot have written"
                );
                known::INTERNAL_ERROR.into()
            }
            Error::InvalidDuplicateRow => answer(400, "InvalidDuplicateRow"),
            Error::InvalidInput(_) => answer(400, "InvalidInput"),
            Error::InvalidResourceName => answer(400, "InvalidResourceName"),
            Error::InvalidXmlDocument => answer(400, "InvalidXmlDocument"),
            Error::NotImplemented => answer(501, "NotImplemented"),
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

/// Which form an error body takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Blob and Queue.
    Xml,
    /// Table, for what is not OData: ACLs and service properties.
    TableXml,
    /// Table, everything else; the text is the metadata level for the content type.
    TableJson(&'static str),
}

/// The whole answer. Errors to HEAD, and 304, have no body: clients read the header.
pub fn render(
    failure: Failure,
    dialect: Dialect,
    request_id: &str,
    now: SystemTime,
    bodiless: bool,
) -> Response<Body> {
    let bodiless = bodiless || failure.status == StatusCode::NOT_MODIFIED;
    let (content_type, body) = match dialect {
        Dialect::Xml => (
            "application/xml".to_owned(),
            xml_body(&failure, request_id, now),
        ),
        Dialect::TableXml => (
            "application/xml".to_owned(),
            table_xml_body(&failure, request_id, now),
        ),
        Dialect::TableJson(level) => (
            format!("application/json;odata={level};streaming=true;charset=utf-8"),
            table_json_body(&failure, request_id, now),
        ),
    };
    let mut response = Response::new(if bodiless {
        Body::empty()
    } else {
        Body::from(body)
    });
    *response.status_mut() = failure.status;
    let headers = response.headers_mut();
    if !bodiless {
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::try_from(content_type).expect("media types are plain ASCII"),
        );
    }
    if let Ok(code) = HeaderValue::try_from(failure.code.as_ref()) {
        headers.insert("x-ms-error-code", code);
    }
    headers.extend(failure.headers);
    response
}

/// The message as the service sends it: its sentence, then what a support engineer would ask for.
pub fn full_message(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    format!(
        "{}\nRequestId:{request_id}\nTime:{}",
        failure.message,
        date::iso8601(now)
    )
}

fn xml_body(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><Error>");
    element(&mut body, "Code", &failure.code);
    element(
        &mut body,
        "Message",
        &full_message(failure, request_id, now),
    );
    for (name, value) in &failure.details {
        element(&mut body, name, value);
    }
    body.push_str("</Error>");
    body
}

fn table_xml_body(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let mut body = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
         <m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">",
    );
    element(&mut body, "m:code", &failure.code);
    body.push_str("<m:message xml:lang=\"en-US\">");
    crate::codec::xml::escape_into(&mut body, &message_with_detail(failure, request_id, now));
    body.push_str("</m:message></m:error>");
    body
}

/// The body of an OData error; also the last part of a failed batch, whose message starts with the failing index.
pub fn table_json_body(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let message = message_with_detail(failure, request_id, now);
    serde_json::json!({
        "odata.error": { "code": failure.code, "message": { "lang": "en-US", "value": message } }
    })
    .to_string()
}

/// OData errors have no place for further elements; the authentication detail, which people need, ends the message.
fn message_with_detail(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let mut message = full_message(failure, request_id, now);
    for (name, value) in &failure.details {
        if *name == "AuthenticationErrorDetail" {
            message.push('\n');
            message.push_str(value);
        }
    }
    message
}

fn element(body: &mut String, name: &str, text: &str) {
    body.push('<');
    body.push_str(name);
    body.push('>');
    crate::codec::xml::escape_into(body, text);
    body.push_str("</");
    body.push_str(name);
    body.push('>');
}

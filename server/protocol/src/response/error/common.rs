//! Error codes that all services share. Source: Common and Blob service error codes.

use crate::response::error::failure::Failure;

/// A protocol error that needs no further data: status, code and message.
#[derive(Debug, Clone, Copy)]
pub struct CommonError(pub u16, pub &'static str, pub &'static str);

impl CommonError {
    /// The failure with an additional element in its body.
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Failure {
        Failure::from(self).with(name, value)
    }
}

impl From<CommonError> for Failure {
    #[cold]
    fn from(CommonError(status, code, message): CommonError) -> Failure {
        Failure::new(status, code, message)
    }
}

pub const AUTHENTICATION_FAILED: CommonError = CommonError(
    403,
    "AuthenticationFailed",
    "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly \
     including the signature.",
);
pub const AUTHORIZATION_FAILURE: CommonError = CommonError(
    403,
    "AuthorizationFailure",
    "This request is not authorized to perform this operation.",
);
pub const PERMISSION_MISMATCH: CommonError = CommonError(
    403,
    "AuthorizationPermissionMismatch",
    "This request is not authorized to perform this operation using this permission.",
);
pub const PROTOCOL_MISMATCH: CommonError = CommonError(
    403,
    "AuthorizationProtocolMismatch",
    "This request is not authorized to perform this operation using this protocol.",
);
pub const RESOURCE_TYPE_MISMATCH: CommonError = CommonError(
    403,
    "AuthorizationResourceTypeMismatch",
    "This request is not authorized to perform this operation using this resource type.",
);
pub const SERVICE_MISMATCH: CommonError = CommonError(
    403,
    "AuthorizationServiceMismatch",
    "This request is not authorized to perform this operation using this service.",
);
pub const INTERNAL_ERROR: CommonError = CommonError(
    500,
    "InternalError",
    "The server encountered an internal error. Please retry the request.",
);
pub const KEYS_NOT_PERMITTED: CommonError = CommonError(
    403,
    "KeyBasedAuthenticationNotPermitted",
    "Key based authentication is not permitted on this storage account.",
);
pub const OPERATION_TIMED_OUT: CommonError = CommonError(
    500,
    "OperationTimedOut",
    "The operation could not be completed within the permitted time.",
);
pub const PUBLIC_ACCESS_NOT_PERMITTED: CommonError = CommonError(
    409,
    "PublicAccessNotPermitted",
    "Public access is not permitted on this storage account.",
);
pub const INVALID_AUTHENTICATION_INFO: CommonError = CommonError(
    400,
    "InvalidAuthenticationInfo",
    "Authentication information is not given in the correct format. Check the value of Authorization header.",
);
pub const INVALID_HEADER_VALUE: CommonError = CommonError(
    400,
    "InvalidHeaderValue",
    "The value for one of the HTTP headers is not in the correct format.",
);
pub const INVALID_INPUT: CommonError = CommonError(
    400,
    "InvalidInput",
    "One of the request inputs is not valid.",
);
pub const INVALID_MD5: CommonError = CommonError(
    400,
    "InvalidMd5",
    "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded.",
);
pub const INVALID_QUERY_PARAMETER_VALUE: CommonError = CommonError(
    400,
    "InvalidQueryParameterValue",
    "Value for one of the query parameters specified in the request URI is invalid.",
);
pub const INVALID_URI: CommonError = CommonError(
    400,
    "InvalidUri",
    "The requested URI does not represent any resource on the server.",
);
pub const INVALID_XML_DOCUMENT: CommonError = CommonError(
    400,
    "InvalidXmlDocument",
    "XML specified is not syntactically valid.",
);
pub const INVALID_XML_NODE_VALUE: CommonError = CommonError(
    400,
    "InvalidXmlNodeValue",
    "The value for one of the XML nodes is not in the correct format.",
);
pub const MISSING_CONTENT_LENGTH: CommonError = CommonError(
    411,
    "MissingContentLengthHeader",
    "The Content-Length header was not specified.",
);
pub const MISSING_REQUIRED_HEADER: CommonError = CommonError(
    400,
    "MissingRequiredHeader",
    "An HTTP header that's mandatory for this request is not specified.",
);
pub const MISSING_REQUIRED_QUERY_PARAMETER: CommonError = CommonError(
    400,
    "MissingRequiredQueryParameter",
    "A query parameter that's mandatory for this request is not specified.",
);
pub const MISSING_REQUIRED_XML_NODE: CommonError = CommonError(
    400,
    "MissingRequiredXmlNode",
    "A required XML node was not specified in the request body.",
);
pub const REQUEST_BODY_TOO_LARGE: CommonError = CommonError(
    413,
    "RequestBodyTooLarge",
    "The request body is too large and exceeds the maximum permissible limit.",
);
pub const RESOURCE_NOT_FOUND: CommonError = CommonError(
    404,
    "ResourceNotFound",
    "The specified resource does not exist.",
);
pub const UNSUPPORTED_HTTP_VERB: CommonError = CommonError(
    405,
    "UnsupportedHttpVerb",
    "The resource doesn't support the specified HTTP verb.",
);
pub const UNSUPPORTED_XML_NODE: CommonError = CommonError(
    400,
    "UnsupportedXmlNode",
    "One of the XML nodes specified in the request body is not supported.",
);
pub const WRITE_ON_SECONDARY: CommonError = CommonError(
    403,
    "InsufficientAccountPermissions",
    "Write operations are not allowed.",
);

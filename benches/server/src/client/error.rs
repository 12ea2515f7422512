//! Failures of requests, and whether the server may have executed them anyway.

use serde_json::Value;

/// The failure of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No connection was made, so nothing was done.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent and the response was lost, so it may have been executed or not.
    #[error("the answer was lost: {0}")]
    InDoubt(String),
    /// The server refused the request.
    #[error("{operation}: {status} {code}: {message}")]
    Refused {
        operation: String,
        status: u16,
        code: String,
        message: String,
        /// The seconds of `Retry-After`, if the answer has it.
        retry_after: Option<u64>,
    },
    /// The response is a success that cannot be parsed.
    #[error("{0}")]
    Malformed(String),
    /// The user has asked the program to stop.
    #[error("interrupted")]
    Interrupted,
    /// An argument of the user is invalid.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Whether the protocol error code is `code`.
    pub(crate) fn is(&self, code: &str) -> bool {
        matches!(self, Error::Refused { code: found, .. } if found == code)
    }

    /// Whether the server was busy or unreachable, or its answer was lost.
    pub(crate) fn is_outage(&self) -> bool {
        let busy = matches!(self, Error::Refused { status: 503, .. });
        busy || matches!(self, Error::Unreachable(_) | Error::InDoubt(_))
    }
}

/// The beginning of an error body on one line, for reports.
pub(super) fn one_line(body: &str) -> String {
    let line = body.replace(['\r', '\n'], " ");
    line.chars().take(200).collect()
}

/// The code in an OData error body, which other text may follow.
pub(super) fn error_code(body: &str) -> Option<String> {
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some(value.get("odata.error")?.get("code")?.as_str()?.to_owned())
}

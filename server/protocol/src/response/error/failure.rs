//! The content of a response that reports a failure, as plain data.

use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

/// The name of the detail that says which service the request was probably meant for.
pub const WRONG_SERVICE: &str = "WrongService";

/// The content of a response that reports a failure, before it is rendered. A pointer,
/// because every step returns a result that may hold one, and nearly no result does.
#[derive(Debug, Clone)]
pub struct Failure(Box<FailureContent>);

/// What a [`Failure`] says.
#[derive(Debug, Clone)]
pub struct FailureContent {
    pub status: StatusCode,
    pub code: Cow<'static, str>,
    pub message: Cow<'static, str>,
    /// Further elements of an XML body, in order, such as `HeaderName`, `QueryParameterName` and
    /// `AuthenticationErrorDetail`.
    pub details: Vec<(&'static str, String)>,
    /// Headers of the response besides the common ones.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The string that the client signed by mistake, if known. Only for the console: the client
    /// does not get it.
    pub client_signed: Option<Box<ClientSigned>>,
}

/// A string that a client signed by mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSigned {
    pub text: String,
    /// The client's mistake, as a sentence.
    pub mistake: Cow<'static, str>,
}

/// The result of a step that may refuse a request.
pub type Result<T> = std::result::Result<T, Failure>;

impl Deref for Failure {
    type Target = FailureContent;

    fn deref(&self) -> &FailureContent {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut FailureContent {
        &mut self.0
    }
}

impl Failure {
    // Cold, so that the code of refusals lies apart from that of requests that succeed.
    #[cold]
    pub fn new(
        status: u16,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Failure {
        let status = StatusCode::from_u16(status).expect("statuses are written here, in range");
        Failure(Box::new(FailureContent {
            status,
            code: code.into(),
            message: message.into(),
            details: Vec::new(),
            headers: Vec::new(),
            client_signed: None,
        }))
    }

    /// `501` for a part of the protocol that is not served yet; `feature` names it, as the subject
    /// of a sentence.
    pub fn unsupported(feature: impl std::fmt::Display) -> Failure {
        Failure::new(
            501,
            "NotImplemented",
            format!("{feature} is not supported by this version of Lazurite."),
        )
    }

    /// `400 InvalidInput`.
    pub fn invalid_input(message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(400, "InvalidInput", message)
    }

    /// `503 ServerBusy`, with a Retry-After of one second.
    pub fn busy(message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(503, "ServerBusy", message)
            .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// The content, for callers that take parts of it.
    pub fn into_content(self) -> FailureContent {
        *self.0
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Failure {
        self.details.push((name, value.into()));
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Failure {
        self.headers.push((name, value));
        self
    }
}

//! Why a request of a command failed.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The service answered with an error.
    Refused(Refusal),
    /// There is no answer, or only a part of it: the request may have been executed. The text is a
    /// clause without a full stop.
    Unanswered(String),
    /// HTTP or the connection string does not allow the request, or its content cannot be read: the
    /// service does not execute it. The text is a clause without a full stop.
    Unsent(String),
}

/// A response that refuses the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// The error code; for an operation of a transaction, the phrase of the status.
    pub code: String,
    pub message: String,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Refused(refusal) => refusal.fmt(f),
            RequestError::Unanswered(sentence) | RequestError::Unsent(sentence) => {
                f.write_str(sentence)
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.code, self.message)?;
        if self.code == "AuthenticationFailed" {
            f.write_str(" `lazurite doctor` finds out why.")?;
        }
        Ok(())
    }
}

/// For commands, which print the error and exit.
impl From<RequestError> for String {
    fn from(error: RequestError) -> String {
        error.to_string()
    }
}

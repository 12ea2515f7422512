//! Why a transfer, or one item of it, failed.

use crate::fields::at;
use crate::request_error::{Refusal, RequestError};
use std::fmt;
use std::io;
use std::path::Path;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A cause with its place. The text is a sentence without a final period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The places of the error, from the outermost to the innermost, such as `container photos`;
    /// empty if the cause names the place.
    place: String,
    cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    Request(RequestError),
    /// The disk or a quota is full.
    NoSpace(String),
    /// Content, settings, a file or the state of a destination does not permit the transfer.
    Other(String),
}

impl Error {
    /// An I/O error of the file at this path.
    pub fn of_file(path: &Path, error: io::Error) -> Error {
        Error::of_disk(error.kind(), at(path, error))
    }

    /// An I/O error whose text already begins with the path.
    pub fn of_named_file(error: io::Error) -> Error {
        Error::of_disk(error.kind(), error.to_string())
    }

    fn of_disk(kind: io::ErrorKind, sentence: String) -> Error {
        let cause = match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Cause::NoSpace(sentence),
            _ => Cause::Other(sentence),
        };
        cause.into()
    }

    /// An announced file does not fit on the disk.
    pub fn no_space(sentence: String) -> Error {
        Cause::NoSpace(sentence).into()
    }

    /// The error of a connection that broke within the body of a response, or delivered other bytes
    /// than it announced.
    pub fn broken(sentence: String) -> Error {
        RequestError::Unanswered(sentence).into()
    }

    /// The same error, with an outer place added.
    pub fn within(mut self, place: impl fmt::Display) -> Error {
        self.place = match self.place.as_str() {
            "" => place.to_string(),
            inner => format!("{place}: {inner}"),
        };
        self
    }

    /// The refusal by a service, if that is the cause.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.cause {
            Cause::Request(RequestError::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }

    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// The error code of the protocol; empty if the cause is not a refusal.
    pub fn code(&self) -> &str {
        self.refusal().map_or("", |refusal| &refusal.code)
    }

    pub fn is_no_space(&self) -> bool {
        matches!(self.cause, Cause::NoSpace(_))
    }

    /// True if the request may have been executed although it failed: no answer, or 408, 500, 502
    /// or 504.
    pub fn is_broken(&self) -> bool {
        match &self.cause {
            Cause::Request(RequestError::Unanswered(_)) => true,
            _ => matches!(self.status(), Some(408 | 500 | 502 | 504)),
        }
    }

    /// Whether the service is busy, so that the request should be repeated later.
    pub fn is_busy(&self) -> bool {
        matches!(self.status(), Some(429 | 503))
    }

    /// True if the transfer must end because later requests would fail too: there is no answer, the
    /// service is broken or busy, the credentials are refused, or the service cannot write. True
    /// for all errors that do not come from a request.
    pub fn is_fatal(&self) -> bool {
        match &self.cause {
            Cause::Request(RequestError::Unsent(_)) => false,
            Cause::Request(RequestError::Refused(refusal)) => match refusal.status {
                401 | 507 => true,
                403 => refusal.code == "AuthenticationFailed",
                _ => self.is_broken() || self.is_busy(),
            },
            _ => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        match &self.cause {
            Cause::Request(error) => error.fmt(f),
            Cause::NoSpace(sentence) | Cause::Other(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for Error {}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Error {
        Error {
            place: String::new(),
            cause,
        }
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Error {
        Cause::Request(error).into()
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        RequestError::Refused(refusal).into()
    }
}

impl From<String> for Error {
    fn from(sentence: String) -> Error {
        Cause::Other(sentence).into()
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Error {
        Error::from(sentence.to_owned())
    }
}

/// For the commands, which print the error and exit.
impl From<Error> for String {
    fn from(error: Error) -> String {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, code: &str) -> Error {
        let (code, message) = (code.to_owned(), "no".to_owned());
        Error::from(Refusal {
            status,
            code,
            message,
        })
    }

    #[test]
    fn refusals_of_one_request_do_not_end_a_transfer() {
        let unsent = RequestError::Unsent("a header has a line break".to_owned());
        for error in [
            refusal(400, "PropertyValueTooLarge"),
            refusal(400, "Bad Request"),
            refusal(403, "AuthorizationFailure"),
            refusal(403, "AccountBeingCreated"),
            refusal(404, "TableNotFound"),
            refusal(409, "PublicAccessNotPermitted"),
            refusal(501, "NotImplemented"),
            unsent.into(),
        ] {
            assert!(!error.is_fatal(), "{error}");
            assert!(!error.within("container photos").is_fatal());
        }
        for error in [
            refusal(401, "InvalidAuthenticationInfo"),
            refusal(403, "AuthenticationFailed"),
            refusal(429, "no code"),
            refusal(500, "InternalError"),
            refusal(502, "no code"),
            refusal(503, "ServerBusy"),
            refusal(507, "InsufficientStorage"),
            Error::broken("the connection to 127.0.0.1:1 broke: reset".to_owned()),
            Error::from("the journal cannot be written"),
        ] {
            assert!(error.is_fatal(), "{error}");
        }
    }

    #[test]
    fn places_stand_from_the_outermost_to_the_innermost() {
        let error = refusal(404, "BlobNotFound").within("lake.jpg");
        let error = error.within("container photos");
        assert_eq!(
            error.to_string(),
            "container photos: lake.jpg: 404 BlobNotFound: no"
        );
        assert_eq!((error.status(), error.code()), (Some(404), "BlobNotFound"));
    }

    #[test]
    fn full_disk_is_told_from_other_errors_of_files() {
        let of = |kind| Error::of_file(Path::new("a"), io::Error::from(kind));
        assert!(of(io::ErrorKind::StorageFull).is_no_space());
        assert!(of(io::ErrorKind::QuotaExceeded).is_no_space());
        assert!(!of(io::ErrorKind::PermissionDenied).is_no_space());
    }
}

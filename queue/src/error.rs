//! Errors: one variant per error code of the protocol, spelled as on the wire, with the protocol's
//! own message as its text; and one variant for failures of the store.
//!
//! Fields hold the values of the extra elements of an error response. The server chooses the status
//! codes. Source: "Queue Service error codes" and "Common REST API error codes".

/// The result of every operation of the service.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation was refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The marker of List Queues was not returned by this service.
    #[error("The specified marker is invalid.")]
    InvalidMarker,
    /// The value of a parameter is invalid, by itself or in this combination.
    #[error("Value for one of the query parameters specified in the request URI is invalid.")]
    InvalidQueryParameterValue {
        /// `QueryParameterName`.
        name: &'static str,
        /// `QueryParameterValue`: the value as sent.
        value: String,
        /// `Reason`, in one sentence.
        reason: &'static str,
    },
    /// A queue name has invalid characters or misplaced hyphens.
    #[error("The specified resource name contains invalid characters.")]
    InvalidResourceName,
    /// A stored access policy breaks a rule.
    #[error("XML specified is not syntactically valid.")]
    InvalidXmlDocument {
        /// The broken rule, in words for a person.
        reason: &'static str,
    },
    /// There is no message with this id: it is unknown, deleted or expired.
    #[error("The specified message does not exist.")]
    MessageNotFound,
    /// The name of a queue is too short or too long.
    #[error("The specified resource name length is not within the permissible limits.")]
    OutOfRangeInput,
    /// A number is outside its range.
    #[error(
        "One of the query parameters specified in the request URI is outside the permissible range."
    )]
    OutOfRangeQueryParameterValue {
        /// `QueryParameterName`.
        name: &'static str,
        /// `QueryParameterValue`: the value as sent.
        value: i64,
        /// `MinimumAllowed`.
        minimum: i64,
        /// `MaximumAllowed`.
        maximum: i64,
    },
    /// The message exists, but the receipt is not its current one.
    #[error("The specified pop receipt did not match the pop receipt for a dequeued message.")]
    PopReceiptMismatch,
    /// The queue exists with different metadata.
    #[error("The specified queue already exists.")]
    QueueAlreadyExists,
    /// There is no such queue.
    #[error("The specified queue does not exist.")]
    QueueNotFound,
    /// The text of a message exceeds 64 KiB.
    #[error("The request body is too large and exceeds the maximum permissible limit.")]
    RequestBodyTooLarge {
        /// `MaxLimit`, in bytes.
        limit: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Engine(#[from] lazurite_engine::Error),
}

//! Errors: one variant per error code of the protocol, spelled as on the wire, and one for failures
//! of the store.
//!
//! The display text is the protocol's own message if it has one. Source: Table Service Error Codes.

use crate::limits::TRANSACTION_OPERATIONS_MAX;

/// The result of every fallible operation of the service.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation was refused or failed. A refused operation changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An operation of a transaction names a different partition than the first one.
    #[error("All commands in a batch must operate on same entity group.")]
    CommandsInBatchActOnDifferentPartitions,
    /// Two properties of an entity have the same name, or one has the name of a system property.
    #[error("A property is specified more than one time.")]
    DuplicatePropertiesSpecified,
    /// Insert Entity, but an entity with the same keys exists.
    #[error("The specified entity already exists.")]
    EntityAlreadyExists,
    /// The entity exceeds 1 MiB, possibly only after a merge.
    #[error("The entity is larger than the maximum allowed size (1MB).")]
    EntityTooLarge,
    /// Stored bytes cannot be decoded, through no fault of the client. The text is for the log.
    #[error("The server encountered an internal error: {0}")]
    InternalError(String),
    /// An operation of a transaction names the same entity as an earlier one.
    #[error(
        "The batch request contains multiple changes with same row key. An entity can appear only once in a batch \
         request."
    )]
    InvalidDuplicateRow,
    /// Invalid input without an error code of its own; see [`InvalidInput`].
    #[error(transparent)]
    InvalidInput(InvalidInput),
    /// A table name has characters other than letters and digits, or begins with a digit. The typo
    /// in the message is Azure's.
    #[error("The specifed resource name contains invalid characters.")]
    InvalidResourceName,
    /// A stored access policy breaks a rule.
    #[error("XML specified is not syntactically valid.")]
    InvalidXmlDocument {
        /// The broken rule, in words for a person.
        reason: &'static str,
    },
    /// A `$filter` with a feature of OData that the service does not have.
    #[error("The requested operation is not implemented on the specified resource. {0}")]
    NotImplemented(UnsupportedFilter),
    /// A value outside the range of the protocol; see [`OutOfRangeInput`].
    #[error(transparent)]
    OutOfRangeInput(OutOfRangeInput),
    /// A key is missing or null. Raised by the server when it reads a request: an
    /// [`Entity`](crate::Entity) always has both keys.
    #[error("The values are not specified for all properties in the entity.")]
    PropertiesNeedValue,
    /// A property name that is empty, begins with a digit, or has a forbidden character.
    #[error("The property name is invalid.")]
    PropertyNameInvalid,
    /// A property name longer than 255 UTF-16 code units.
    #[error("The property name exceeds the maximum allowed length (255).")]
    PropertyNameTooLong,
    /// A String over 32,768 UTF-16 code units, a Binary over 65,536 bytes, or a key over 512 UTF-16
    /// code units.
    #[error(
        "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 \
         encoded and the maximum number of characters should be 32K or less."
    )]
    PropertyValueTooLarge,
    /// The entity does not exist; for operations on tables, the table does not exist.
    #[error("The specified resource does not exist.")]
    ResourceNotFound,
    /// A table with this name exists, possibly in a different spelling.
    #[error("The table specified already exists.")]
    TableAlreadyExists,
    /// An operation on entities or on the ACL of a table that does not exist.
    #[error("The table specified does not exist.")]
    TableNotFound,
    /// More than 252 own properties, possibly only after a merge.
    #[error(
        "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. \
         Each entity also has 3 system properties."
    )]
    TooManyProperties,
    /// The entity exists, but not in the version that the write requires.
    #[error("The update condition specified in the request was not satisfied.")]
    UpdateConditionNotSatisfied,
    /// The store failed.
    #[error(transparent)]
    Engine(#[from] lazurite_engine::Error),
}

/// The causes of the error code `InvalidInput`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInput {
    /// Input that the protocol has no specific message for.
    #[error("One of the request inputs is not valid.")]
    Request,
    /// A key in a URL contains `/` or `\`.
    #[error("Bad Request - Error in query syntax.")]
    QuerySyntax,
    /// A `$filter` with a syntax error.
    #[error("Syntax error at position {position} in '{filter}'.")]
    Filter {
        /// Index of the offending character, from 0.
        position: usize,
        /// The filter as given.
        filter: String,
    },
    /// A `$filter` that is too long or too deeply nested.
    #[error("The {what} of the $filter is {found}; the maximum is {limit}.")]
    FilterTooLarge {
        /// `length in bytes` or `nesting depth`.
        what: &'static str,
        /// The actual length or depth.
        found: usize,
        /// The maximum length or depth.
        limit: usize,
    },
    /// An order comparison with `null`.
    #[error(
        "The operator '{0}' is not supported for the 'null' literal; only equality checks are supported."
    )]
    NullOrder(&'static str),
    /// An `If-Match` that is neither `*` nor an ETag of this service.
    #[error(
        "The etag value '{0}' specified in one of the request headers is not valid. Please make sure only one etag \
         value is specified and is valid."
    )]
    ETag(String),
    /// A transaction of more than 100 operations.
    #[error(
        "The batch request operation exceeds the maximum {TRANSACTION_OPERATIONS_MAX} changes per change set."
    )]
    TooManyOperations,
}

/// The causes of the error code `OutOfRangeInput`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutOfRangeInput {
    /// A key in a URL contains a forbidden character.
    #[error("One of the request inputs is out of range.")]
    Request,
    /// A key or an instant in a body cannot be stored.
    #[error("The '{name}' parameter of value '{value}' is out of range.")]
    Parameter {
        /// The name of the property.
        name: String,
        /// The value as sent.
        value: String,
    },
    /// A table name shorter than 3 or longer than 63 characters.
    #[error("The specified resource name length is not within the permissible limits.")]
    ResourceNameLength,
}

impl From<InvalidInput> for Error {
    fn from(what: InvalidInput) -> Error {
        Error::InvalidInput(what)
    }
}

impl From<OutOfRangeInput> for Error {
    fn from(what: OutOfRangeInput) -> Error {
        Error::OutOfRangeInput(what)
    }
}

/// A feature of OData that a `$filter` must not use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedFilter {
    /// A property is compared with a property. The second one, which the message names, is usually
    /// a string without quotes.
    #[error(
        "The filter compares a property with the property '{0}'. If that is a string, write it in quotes: '{0}'."
    )]
    TwoProperties(String),
    /// Two literals are compared.
    #[error(
        "The filter compares two values. One of them must be a property; its name has no quotes."
    )]
    TwoValues,
    /// A function is called, such as `startswith`.
    #[error(
        "The filter calls the function '{0}'. Tables know comparisons, 'and', 'or' and 'not'; a prefix is a range of values."
    )]
    Function(String),
    /// The filter uses an arithmetic operator, such as `add`.
    #[error("The filter calculates with '{0}', which tables do not support.")]
    Arithmetic(String),
}

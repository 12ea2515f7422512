//! A request: address, version, parameters, headers, body, and the row of its operation.

pub mod address;
pub mod api_version;
pub mod blob_names;
pub mod body;
pub mod body_copy;
pub mod checksums;
pub mod context;
pub mod inputs;
pub mod limits;
pub mod metadata;
pub mod operation;
pub mod permissions;
pub mod policies;
pub mod request_id;

pub use lazurite_codec::{headers, parameters, target};

use crate::response::error::{Failure, common};
use parameters::{PARAMETERS_MAX, QueryError};

impl From<QueryError> for Failure {
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

//! A request as it came: address, version, parameters, headers, body, and the row of its operation.

pub mod address;
pub mod api_version;
pub mod blob_names;
pub mod body;
pub mod context;
pub mod headers;
pub mod inputs;
pub mod limits;
pub mod metadata;
pub mod operation;
pub mod parameters;
pub mod permissions;
pub mod policies;
pub mod request_id;
pub mod target;

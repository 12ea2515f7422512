//! A request as its head says: address, version, parameters, headers, and the names in it.

pub mod address;
pub mod api_version;
pub mod blob_names;
pub mod checksums;
pub mod context;
pub mod data_lake;
mod header_text;
pub mod inputs;
pub mod metadata;
pub mod path_properties;
pub mod permissions;
pub mod request_id;

//! Data Lake Storage on the wire: file systems and paths of accounts with a hierarchical namespace.
//!
//! A file system is a container; a file or directory is a blob of the same name. So reads, leases
//! and conditions are those of blobs, in the words of this protocol.

mod access;
mod append;
mod caller;
mod file_systems;
mod inputs;
mod lease_steps;
mod list;
mod marker;
pub mod operations;
mod path_headers;
mod paths;
mod permissions;
mod rename;
mod rename_source;
mod undelete;

pub use caller::{DataOwners, Rights};
pub use marker::{marks_directory, put_directory};
pub use operations::operation;
pub use path_headers::{put_path_headers, resource_type};
pub use undelete::{UNDELETE_SOURCE, undelete_path};

use lazurite_protocol::response::error::Failure;

/// The failure for a body that is sent to an operation without one.
pub fn surplus_body(_length: u64) -> Failure {
    let message = "The Content-Length request header must be zero.";
    Failure::new(400, "ContentLengthMustBeZero", message)
}

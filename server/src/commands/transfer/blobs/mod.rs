//! Containers and their blobs.

mod container;
mod export;
mod import;
mod line;
mod upload;

pub use container::{
    containers, each_listed, is_in_use, make_container, policies_of, property, put_metadata,
};
pub use export::{export, quoted, reason_to_leave_out};
pub use import::{check, import};
pub use line::{Kind, headers_of, kind_of, line_of};

use crate::commands::client::encode;

/// The endings of the files of a container.
pub const ENDINGS: [&str; 2] = ["json", "blobs.jsonl"];

/// The path of a blob in a request.
pub fn resource(container: &str, name: &str) -> String {
    format!("{}/{}", encode(container), encode(name))
}

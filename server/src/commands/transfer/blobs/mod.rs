//! Containers and their blobs.

mod container;
mod export;
mod import;
mod line;
mod upload;

pub use container::{containers, each_listed, holds_any, make_container, property, put_metadata};
pub use export::{export, quoted, reason_to_leave_out};
pub use import::{check, import};
pub use line::{Kind, headers_of, kind_of, later_property_headers, line_of};

use crate::commands::client::encode;

/// The path of a blob in a request.
pub fn resource(container: &str, name: &str) -> String {
    format!("{}/{}", encode(container), encode(name))
}

//! The row for a request, and the resource that the request addresses.

use crate::request::operation::{Asked, Operation};
use crate::table::address::{Address, EntityKeys};
use crate::table::request::Request;
use lazurite_protocol::response::error::Result;
use lazurite_table::Write;

pub type Row = Operation<Request>;

/// Finds the row of a request, or of an operation inside a batch.
pub type Router = fn(Address, &Asked) -> Result<Route>;

/// The operation of a request, with the resource that it addresses. Parts that the address leaves
/// out are empty.
pub struct Route {
    pub operation: &'static Row,
    pub table: String,
    pub keys: EntityKeys,
    /// The kind of write that method and conditions ask for; `None` unless it writes an entity.
    pub write: Option<Write>,
    /// Whether the path has a predicate in parentheses.
    pub has_predicate: bool,
}

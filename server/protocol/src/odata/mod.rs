//! OData JSON: entities in (`read.rs`) and out (`write.rs`) at the three metadata levels. Types
//! that JSON does not have are sent as text with an annotation. Source: Payload Format for Table
//! Service Operations; Understanding the Table Service Data Model.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{EntityBody, read_entity};
pub use write::{Frame, entity_path, table_list, table_single};

/// How much metadata a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// None: only names and values.
    None,
    /// The URL of the metadata, the ETags of entities, and the types that JSON values do not show.
    Minimal,
    /// Also the type of `Timestamp`, and the types and addresses of entities and tables.
    Full,
}

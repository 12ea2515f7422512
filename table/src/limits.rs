//! Limits on entities, transactions and filters.

/// Maximum number of own properties of an entity, not counting the three system properties.
pub const PROPERTIES_MAX: usize = 252;
/// Longest property name, in UTF-16 code units.
pub const PROPERTY_NAME_UNITS_MAX: usize = 255;
/// Longest PartitionKey or RowKey, in UTF-16 code units: 1 KiB. The documentation says 1 KiB in one
/// place and 1,024 characters in another. The limit here is that of Azurite, 512 units.
pub const KEY_UNITS_MAX: usize = 512;
/// Longest String, in UTF-16 code units: 64 KiB.
pub const STRING_UNITS_MAX: usize = 32 * 1024;
/// Longest Binary, in bytes.
pub const BINARY_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of an entity. The size counts 4 bytes, 2 per UTF-16 code unit of the keys, and for
/// each property 8 bytes, 2 per code unit of its name, and its value: 4 plus 2 per code unit of a
/// String, 4 plus the length of a Binary, and 1, 4, 8 or 16 for other types.
pub const ENTITY_BYTES_MAX: usize = 1 << 20;
/// Maximum number of operations of an entity group transaction.
pub const TRANSACTION_OPERATIONS_MAX: usize = 100;
/// Longest filter, in bytes: as long as a URL may be.
pub const FILTER_BYTES_MAX: usize = 64 * 1024;
/// Maximum nesting of `and`, `or` and `not` in each other. A chain of one operator is one level,
/// parenthesised or not.
pub const FILTER_DEPTH_MAX: usize = 64;

//! `$filter`.

/// Longest filter that is read, in bytes.
pub const FILTER_BYTES_MAX: usize = 8 * 1024;
/// Deepest nesting of parentheses and `not` that is read.
pub const FILTER_DEPTH_MAX: usize = 64;

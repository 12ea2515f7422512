//! Responses: headers, and errors with their status codes.

pub mod common_headers;
pub mod error;
pub mod headers;
pub mod listed_urls;

//! The protocols of Blob, Queue and Table, between bytes of the wire and plain data: the heads of
//! requests, parameters, headers, documents, errors with their status codes, and signatures.
//!
//! Nothing here opens a store, a socket or a file. The bodies of requests as they arrive, the rows
//! of operations and their handlers are left to the services.

#![allow(
    missing_docs,
    reason = "items are public for other crates of this program, and have the comments of private ones"
)]

pub mod accounts;
pub mod auth;
mod chunks;
pub mod date;
pub mod headers;
pub mod multipart;
pub mod odata;
pub mod parameters;
pub mod policies;
pub mod properties;
pub mod request;
pub mod resource_names;
pub mod response;
pub mod service_kind;
pub mod structured;
pub mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod xml;

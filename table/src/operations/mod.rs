//! The operations of the service: one file per resource, and one function per REST operation, under
//! its REST name.

mod acl;
pub(crate) mod entity;
mod metrics;
mod service;
pub(crate) mod table;

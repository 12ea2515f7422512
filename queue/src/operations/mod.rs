//! The operations of the service: one file per resource, and one function per REST operation, under its REST name.

mod message;
mod queue;
mod service;

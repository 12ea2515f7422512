//! A request with its body: how it is read, and the row of its operation.

pub mod body;
pub mod body_copy;
pub mod limits;
pub mod operation;
pub mod policies;

//! Model: what a store must hold, as plain maps, and which prefixes of its batches it may hold
//! after a reopening.

mod change;
mod explained;
mod history;
mod rows;
mod value;

pub use change::{Change, Way};
pub use history::History;
pub use rows::{Row, Rows};
pub use value::Value;

/// The keyspaces of every store.
pub const KEYSPACES: [&str; 3] = ["a", "b", "c"];

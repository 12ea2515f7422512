//! The stores of the server: the one that it serves, and how it is opened, swept and closed.
//!
//! [`Store`] is everything of a request that depends on the store it addresses; [`Shared`] belongs to the process and outlives each of
//! them. A request takes its store once, when it begins, and keeps it to its end.

mod housekeeping;
mod secondary;
mod store;
mod stores;

pub use secondary::Place;
pub use store::{Settings, Shared, Store};
pub use stores::Stores;

//! The stores of the server: the current one, how it is opened, swept and closed, and how another
//! replaces it.
//!
//! [`Store`] is the state of requests that depends on the store they address; [`Shared`] belongs to
//! the process and outlives each store. A request takes its store once, when it begins, and keeps
//! it to its end.

mod data_directory;
pub mod diff;
mod directories;
mod disk_use;
mod fork_table;
mod forks;
mod housekeeping;
mod operations;
pub mod page;
mod partial_reset;
mod place;
mod secondary;
mod settings;
mod store;
mod stores;
mod stores_file;
#[cfg(test)]
mod tests;
mod writes;

pub use data_directory::{DataDirectory, FORK_HANDLES_MAX, may_lie_beside_store};
pub use directories::Directories;
pub use disk_use::bytes_below;
pub use fork_table::{ForkFacts, forks_by_open_files};
pub use forks::{HeldFork, fork_not_found};
pub use operations::SnapshotFacts;
pub use settings::{ForkSettings, ForkSource, Settings};
pub use store::{Shared, Store};
pub use stores::{StoreGuard, Stores};
pub use stores_file::is_snapshot_name;
pub use writes::{Write, WriteTarget};

/// Opens the stores of a data directory with the settings of a server without flags.
#[cfg(test)]
pub fn stores_for_tests(directory: DataDirectory) -> std::result::Result<Stores, String> {
    Stores::open(directory, Settings::for_tests(), Shared::for_tests())
}

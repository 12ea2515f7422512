//! The stores of the server: the one that it serves, how it is opened, swept and closed, and how
//! another takes its place.
//!
//! [`Store`] is everything of a request that depends on the store it addresses; [`Shared`] belongs
//! to the process and outlives each of them. A request takes its store once, when it begins, and
//! keeps it to its end.

mod data_directory;
pub mod diff;
mod directories;
mod disk_use;
mod forks;
mod housekeeping;
mod operations;
pub mod page;
mod partial_reset;
mod secondary;
mod store;
mod stores;
mod stores_file;
#[cfg(test)]
mod tests;
mod writes;

pub use data_directory::{DataDirectory, FORK_HANDLES_MAX, may_lie_beside_store};
pub use directories::Directories;
pub use disk_use::bytes_below;
pub use forks::{
    ForkFacts, ForkSettings, ForkSource, HeldFork, fork_not_found, forks_by_open_files,
};
pub use operations::SnapshotFacts;
pub use store::{Settings, Shared, Store};
pub use stores::{StoreGuard, Stores};
pub use stores_file::is_snapshot_name;
pub use writes::{Write, WriteTarget};

/// The stores of a data directory, as a server without flags opens them.
#[cfg(test)]
pub fn stores_for_tests(directory: DataDirectory) -> std::result::Result<Stores, String> {
    use crate::layers::access_log::AccessLog;
    use crate::request::context::RequestIds;
    use std::sync::Arc;

    let shared = Arc::new(Shared {
        access_log: AccessLog::silent(),
        advisor: Arc::default(),
        request_ids: Arc::new(RequestIds::new(1)),
    });
    Stores::open(directory, Settings::for_tests(), shared)
}

//! The stores of the process, of which one is the current one: requests that name no other are for it.

use crate::accounts::Accounts;
use crate::state::store::{Settings, Shared, Store};
use arc_swap::ArcSwap;
use lazurite_engine::Db;
use std::sync::Arc;

/// The stores of the process.
#[derive(Debug)]
pub struct Stores {
    current: ArcSwap<Store>,
    settings: Settings,
}

impl Stores {
    /// Serves an open store. Blocks for the disk. The error is a sentence.
    pub fn open(db: Db, settings: Settings, shared: Arc<Shared>) -> Result<Stores, String> {
        let store = Store::open(db, &settings, shared)?;
        Ok(Stores {
            current: ArcSwap::from_pointee(store),
            settings,
        })
    }

    /// The store of requests that name no other.
    pub fn current(&self) -> Arc<Store> {
        self.current.load_full()
    }

    pub fn accounts(&self) -> &Accounts {
        &self.settings.accounts
    }

    /// Starts the tasks of the store, on the runtime of the caller.
    pub fn start_housekeeping(&self) {
        self.current()
            .start_housekeeping(self.settings.log_interval);
    }

    pub fn stop_sweeping(&self) {
        self.current().stop_sweeping();
    }

    /// Writes the logs that wait, and closes the store.
    pub async fn close(&self) -> lazurite_engine::Result<()> {
        self.current().close().await
    }
}

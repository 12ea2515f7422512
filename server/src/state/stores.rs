//! The stores of the process, of which one is the current one: requests that name no other are for it.

use crate::accounts::Accounts;
use crate::response::error;
use crate::state::secondary::{Place, Reading, Secondary};
use crate::state::store::{Settings, Shared, Store};
use arc_swap::ArcSwap;
use lazurite_engine::Db;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// The stores of the process.
#[derive(Debug)]
pub struct Stores {
    current: ArcSwap<Store>,
    settings: Settings,
    /// `None`: the secondary endpoint reads the current store.
    secondary: OnceLock<Arc<Secondary>>,
}

impl Stores {
    /// Serves an open store. Blocks for the disk. The error is a sentence.
    pub fn open(db: Db, settings: Settings, shared: Arc<Shared>) -> Result<Stores, String> {
        let store = Store::open(db, &settings, shared)?;
        Ok(Stores {
            current: ArcSwap::from_pointee(store),
            settings,
            secondary: OnceLock::new(),
        })
    }

    /// Makes the secondary endpoint read the store as it was `lag` ago. Before the first request; once. Blocks for the disk. The error is
    /// a sentence.
    pub fn keep_secondary(&self, lag: Duration, place: Place) -> Result<(), String> {
        let store = self.current();
        let (settings, shared) = (self.settings.clone(), store.shared.clone());
        let secondary = Secondary::start(lag, place, settings, shared, &store)?;
        let _ = self.secondary.set(Arc::new(secondary));
        Ok(())
    }

    /// What a request to the secondary endpoint reads at this time of the store's clock; `None` is the current store.
    pub async fn secondary(&self, now: SystemTime) -> error::Result<Option<Reading>> {
        match self.secondary.get() {
            Some(secondary) => secondary.read(now).await.map(Some),
            None => Ok(None),
        }
    }

    /// Before the clock of the current store is moved: see [`Secondary::note`]. Blocks for the disk.
    pub fn note_for_secondary(&self) -> lazurite_engine::Result<()> {
        match self.secondary.get() {
            Some(secondary) => secondary.note(&self.current()),
            None => Ok(()),
        }
    }

    /// The store of requests that name no other.
    pub fn current(&self) -> Arc<Store> {
        self.current.load_full()
    }

    pub fn accounts(&self) -> &Accounts {
        &self.settings.accounts
    }

    /// Starts the tasks of the store, on the runtime of the caller.
    pub fn start_housekeeping(self: &Arc<Self>) {
        self.current()
            .start_housekeeping(self.settings.log_interval);
        if let Some(secondary) = self.secondary.get() {
            let stores = Arc::downgrade(self);
            secondary.tick(move || stores.upgrade().map(|stores| stores.current()));
        }
    }

    pub fn stop_sweeping(&self) {
        self.current().stop_sweeping();
    }

    /// Writes the logs that wait, and closes the store.
    pub async fn close(&self) -> lazurite_engine::Result<()> {
        if let Some(secondary) = self.secondary.get().cloned() {
            let closed = tokio::task::spawn_blocking(move || secondary.close()).await;
            closed.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        }
        self.current().close().await
    }
}

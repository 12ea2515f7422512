//! The stores of the process. Requests that name no store address the current one.

use crate::state::data_directory::{DataDirectory, Opener};
use crate::state::directories::Directories;
use crate::state::disk_use::bytes_below;
use crate::state::fork_table::Forks;
use crate::state::secondary::{Reading, Secondary};
use crate::state::settings::Settings;
use crate::state::store::{Shared, Store};
use crate::state::stores_file::StoresFile;
use arc_swap::{ArcSwap, Guard};
use lazurite_base::locks::lock;
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::response::error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// How long requests and responses may still use a replaced store. After that they fail.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// Interval at which the wait for these requests checks whether the server stops.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// The store of a request. A guard, because all requests would write to the reference count of the
/// current store.
pub type StoreGuard = Guard<Arc<Store>>;

/// The stores of the process.
#[derive(Debug)]
pub struct Stores {
    current: ArcSwap<Store>,
    pub(super) settings: Settings,
    pub(super) shared: Arc<Shared>,
    pub(super) directories: Arc<Directories>,
    pub(super) opener: Opener,
    pub(super) forks: Forks,
    /// The stores on disk. An operation on whole stores holds the lock from start to end.
    pub(super) file: Arc<tokio::sync::Mutex<StoresFile>>,
    /// The runtime for the tasks of stores, which outlive the requests that start them.
    runtime: OnceLock<Handle>,
    /// Removals of stores that were replaced or were forks, in the background.
    removals: Mutex<JoinSet<()>>,
    /// The task that ends unused forks.
    reaper: Mutex<Option<JoinHandle<()>>>,
    pub(super) is_closing: Arc<AtomicBool>,
    /// Held during a comparison of stores, so that there is one at a time.
    pub(super) comparing: Arc<tokio::sync::Mutex<()>>,
    /// The secondary endpoint's checkpoints; `None` if the endpoint reads the current store.
    secondary: OnceLock<Arc<Secondary>>,
}

impl Stores {
    /// Opens the services of an open data directory. Waits for the disk. The error is a sentence.
    pub fn open(
        directory: DataDirectory,
        settings: Settings,
        shared: Arc<Shared>,
    ) -> Result<Stores, String> {
        let number = directory.file.current;
        let store = Store::open(directory.db, number, None, &settings, shared.clone())?;
        Ok(Stores {
            current: ArcSwap::from_pointee(store),
            forks: Forks::new(settings.forks.clone()),
            settings,
            shared,
            directories: directory.directories,
            opener: directory.opener,
            file: Arc::new(tokio::sync::Mutex::new(directory.file)),
            runtime: OnceLock::new(),
            removals: Mutex::default(),
            reaper: Mutex::default(),
            is_closing: Arc::default(),
            comparing: Arc::default(),
            secondary: OnceLock::new(),
        })
    }

    /// Makes the secondary endpoint read the store as it was `lag` ago. Call it once, before the
    /// first request. Blocks for the disk. The error is a sentence.
    pub fn keep_secondary(&self, lag: Duration) -> Result<(), String> {
        let store = self.current();
        let place = self.opener.place(self.directories.root());
        let (settings, shared) = (self.settings.clone(), store.shared.clone());
        let secondary = Secondary::start(lag, place, settings, shared, &store)?;
        let _ = self.secondary.set(Arc::new(secondary));
        Ok(())
    }

    /// Removes the checkpoints that the secondary endpoint of an earlier run left. Blocks for the
    /// disk.
    pub fn remove_checkpoints(&self) -> lazurite_engine::Result<()> {
        self.opener.place(self.directories.root()).remove_copies()
    }

    /// The store that a request to the secondary endpoint reads when the store's clock shows `now`;
    /// `None` means the current store.
    pub async fn secondary(&self, now: SystemTime) -> error::Result<Option<Reading>> {
        match self.secondary.get() {
            Some(secondary) => secondary.read(now).await.map(Some),
            None => Ok(None),
        }
    }

    /// Makes a checkpoint for the secondary endpoint, if there is one. Call it before the clock of
    /// the current store is moved. Blocks for the disk.
    pub fn note_for_secondary(&self) -> lazurite_engine::Result<()> {
        match self.secondary.get() {
            Some(secondary) => secondary.note(&self.current()),
            None => Ok(()),
        }
    }

    /// The current store, which requests that name no store address.
    pub fn current(&self) -> Arc<Store> {
        self.current.load_full()
    }

    /// The current store, for a request. Once another replaces it, the guard counts as a reference.
    pub fn load_current(&self) -> StoreGuard {
        self.current.load()
    }

    /// The directory of the current store; `None` in memory.
    pub fn current_directory(&self) -> Option<PathBuf> {
        let number = self.current().number;
        (!self.opener.is_in_memory()).then(|| self.directories.path(number))
    }

    /// Bytes of disk that the data directory takes, with snapshots, forks and the secondary. `None`
    /// in memory. Blocks for the disk.
    pub fn bytes_on_disk(&self) -> Option<u64> {
        let root = self.directories.root();
        (!self.opener.is_in_memory()).then(|| bytes_below(root))
    }

    pub fn accounts(&self) -> &Accounts {
        &self.settings.accounts
    }

    /// Starts the tasks of the current store on the caller's runtime, which later stores use too.
    pub fn start_housekeeping(self: &Arc<Stores>) {
        let _ = self.runtime.set(Handle::current());
        self.start_housekeeping_of(&self.current());
        let mut reaper = lock(&self.reaper);
        *reaper = Some(tokio::spawn(self.clone().end_unused_forks()));
        if let Some(secondary) = self.secondary.get() {
            let stores = Arc::downgrade(self);
            secondary.tick(move || stores.upgrade().map(|stores| stores.current()));
        }
    }

    pub(super) fn start_housekeeping_of(&self, store: &Store) {
        if let Some(runtime) = self.runtime.get() {
            let _entered = runtime.enter();
            store.start_housekeeping(self.settings.log_interval);
        }
    }

    pub fn stop_sweeping(&self) {
        self.current().stop_sweeping();
    }

    /// Replaces the current store, which must be retired already. With `removes_former`, the former
    /// store is removed once nothing uses it. Pass false if a power cut could bring back the file
    /// that names the former store.
    pub(super) fn replace(&self, store: Arc<Store>, removes_former: bool) {
        let before = self.current.swap(store.clone());
        self.start_housekeeping_of(&store);
        if removes_former {
            self.remove(before);
        } else {
            before.abort_housekeeping();
        }
    }

    /// Closes a retired store and removes its directory in the background, once it is unused.
    pub(super) fn remove(&self, store: Arc<Store>) {
        store.abort_housekeeping();
        let Some(runtime) = self.runtime.get() else {
            return;
        };
        let (directories, is_closing) = (self.directories.clone(), self.is_closing.clone());
        let mut removals = self.removals();
        while removals.try_join_next().is_some() {}
        let removal = remove_unused(store, directories, is_closing);
        removals.spawn_on(removal, runtime);
    }

    /// Ends the forks and removes all stores that are not in use. Waits for an operation on whole
    /// stores that is under way. If this is interrupted, the next start removes the rest.
    pub async fn close_others(&self) {
        let _no_operation = self.file.lock().await;
        self.is_closing.store(true, Ordering::Relaxed);
        let reaper = lock(&self.reaper).take();
        if let Some(reaper) = reaper {
            reaper.abort();
        }
        self.end_forks();
        let mut removals = std::mem::take(&mut *self.removals());
        while removals.join_next().await.is_some() {}
    }

    /// Writes the pending logs, closes the current store and releases the data directory.
    pub async fn close(&self) -> lazurite_engine::Result<()> {
        if let Some(secondary) = self.secondary.get().cloned() {
            let closed = tokio::task::spawn_blocking(move || secondary.close()).await;
            closed.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        }
        let closed = self.current().close().await;
        self.directories.unlock();
        closed
    }

    fn removals(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        lock(&self.removals)
    }
}

/// Releases a store, and removes it once no request or task uses it, after [`DRAIN_MAX`], or when
/// the server stops.
async fn remove_unused(
    store: Arc<Store>,
    directories: Arc<Directories>,
    is_closing: Arc<AtomicBool>,
) {
    let (mut ending, number) = (store.services.ending(), store.number);
    drop(store);
    let began = Instant::now();
    while tokio::time::timeout(DRAIN_STEP, ending.wait())
        .await
        .is_err()
        && began.elapsed() < DRAIN_MAX
        && !is_closing.load(Ordering::Relaxed)
    {}
    let removed = tokio::task::spawn_blocking(move || {
        ending.abandon();
        directories.remove(number);
    });
    if let Err(panic) = removed.await {
        tracing::error!(%panic, "the removal of a store stopped on an assertion");
    }
}

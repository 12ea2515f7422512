//! Forks: temporary copies of the store, each a store of its own. A fork is addressed under the
//! names of all accounts, as `ACCOUNT--FORK` with the account's own key.
//!
//! A fork shares the files of its source by hard links and keeps no WAL. It ends with the process,
//! when it is released, or when no request has used it for a while. The file `STORES.list` does not
//! name its directory, so if a kill has left the directory, the next start removes it.

use crate::services::Services;
use crate::state::data_directory::{FORK_DURABILITY, FORK_LOG_BYTES_MAX};
use crate::state::fork_table::ForkFacts;
use crate::state::operations::existing;
use crate::state::settings::ForkSource;
use crate::state::store::Store;
use crate::state::stores::Stores;
use crate::state::stores_file::{StoreNumber, StoresFile};
use lazurite_engine::copy_store;
use lazurite_protocol::accounts::is_fork_name;
use lazurite_protocol::response::error::{Failure, Result};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bytes of memtables that a fork may rebuild from the WAL, because each fork
/// holds them in memory. If there are more, the store is flushed first.
const REPLAYED_BYTES_MAX: u64 = 256 << 10;
/// Minimum interval at which unused forks are looked for.
const LOOK_MIN: Duration = Duration::from_millis(100);
/// Maximum interval at which unused forks are looked for.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Number of random bytes in a generated name.
const NAME_BYTES: usize = 5;

/// Keeps a fork alive beyond its lifetime, for work that takes long before it sends the fork a
/// request.
#[derive(Debug)]
pub struct HeldFork {
    pub name: String,
    /// Keeps the fork in use, like a request.
    store: Arc<Store>,
}

impl Stores {
    /// The store of a fork; `None` if there is no such fork.
    pub fn fork(&self, name: &str) -> Option<Arc<Store>> {
        self.forks.find(name)
    }

    /// Keeps a fork from ending when its lifetime is over. Error: `ForkNotFound`.
    pub fn hold_fork(&self, name: String) -> Result<HeldFork> {
        let store = self.forks.find(&name);
        let store = store.ok_or_else(|| fork_not_found(&name))?;
        Ok(HeldFork { name, store })
    }

    /// Fails if a held fork was released, or another fork has been made under its name. Error:
    /// `ForkNotFound`.
    pub fn check_held(&self, fork: &HeldFork) -> Result<()> {
        let present = self.forks.find(&fork.name);
        if present.is_some_and(|present| Arc::ptr_eq(&present, &fork.store)) {
            return Ok(());
        }
        Err(fork_not_found(&fork.name))
    }

    /// The store of a fork. Makes the fork if the server makes forks at first use. The caller must
    /// have authenticated the request. Errors: `ForkNotFound`; `SnapshotNotFound`; `503` if there
    /// are too many forks.
    pub async fn fork_at_first_use(self: &Arc<Stores>, name: String) -> Result<Arc<Store>> {
        let Some(source) = self.forks.settings.at_first_use.clone() else {
            return Err(fork_not_found(&name));
        };
        self.exclusively(move |stores, file| {
            // Another request may have created the fork in the meantime.
            if let Some(store) = stores.forks.find(&name) {
                return Ok(store);
            }
            stores.make_fork(file, name.clone(), source)?;
            stores
                .forks
                .find(&name)
                .ok_or_else(|| fork_not_found(&name))
        })
        .await
    }

    /// Makes a fork. If `name` is `None`, its name is random. Errors: `InvalidForkName`;
    /// `ForkAlreadyExists`; `SnapshotNotFound`; `503` if there are too many forks.
    pub async fn fork_from(
        self: &Arc<Stores>,
        name: Option<String>,
        source: ForkSource,
    ) -> Result<ForkFacts> {
        let name = name.map_or_else(random_name, Ok)?;
        if !is_fork_name(&name) {
            let message = "The name of a fork has 1 to 40 lower-case letters, digits and hyphens. It begins and ends with a letter or a digit, \
                           has no two hyphens in a row, and does not end in \"secondary\".";
            return Err(Failure::new(400, "InvalidForkName", message));
        }
        self.exclusively(move |stores, file| stores.make_fork(file, name, source))
            .await
    }

    /// Bytes of disk that the files of a fork take, including files shared with other stores.
    /// `None` in memory. Blocks for the disk.
    pub fn fork_bytes(&self, fork: &ForkFacts) -> Option<u64> {
        let is_in_memory = self.opener.is_in_memory();
        (!is_in_memory)
            .then(|| self.directories.used(fork.number))
            .flatten()
    }

    /// Ends a fork once the requests that use it are complete, or after a minute. Error:
    /// `ForkNotFound`.
    pub fn release_fork(&self, name: &str) -> Result<()> {
        let store = self.forks.take(name).ok_or_else(|| fork_not_found(name))?;
        self.end_fork(store);
        Ok(())
    }

    /// All forks in the order of their names.
    pub fn list_forks(&self) -> Vec<ForkFacts> {
        self.forks.list()
    }

    fn make_fork(
        self: &Arc<Stores>,
        file: &StoresFile,
        name: String,
        source: ForkSource,
    ) -> Result<ForkFacts> {
        self.forks.check_new(&name)?;
        let number = self.directories.next_number(file)?;
        let made = self.copy_for_fork(file, &source, number);
        let store = made.and_then(|()| self.open_fork(number, name.clone()));
        let store = store.inspect_err(|_| self.directories.remove(number))?;
        self.start_housekeeping_of(&store);
        Ok(self.forks.add(name, store, source))
    }

    pub(super) fn copy_for_fork(
        &self,
        file: &StoresFile,
        source: &ForkSource,
        number: StoreNumber,
    ) -> Result<()> {
        let directories = &self.directories;
        let target = directories.path(number);
        match source {
            ForkSource::Now => {
                let current = self.current();
                let services = &current.services;
                if !self.opener.is_in_memory() {
                    flush_for_forks(services)?;
                }
                Ok(services.checkpoint_for(&target, FORK_DURABILITY)?)
            }
            ForkSource::Snapshot(name) => {
                let snapshot = self.snapshot_for_forks(file, name)?;
                Ok(copy_store(
                    directories.fs(),
                    &directories.path(snapshot),
                    &target,
                    FORK_DURABILITY,
                )?)
            }
        }
    }

    /// The directory of a snapshot, for a fork. The first fork turns the WAL of the snapshot into
    /// SSTables, so that later forks need not replay the WAL.
    fn snapshot_for_forks(&self, file: &StoresFile, name: &str) -> Result<StoreNumber> {
        if self.forks.find(name).is_some() && file.snapshot(name).is_none() {
            let message = format!(
                "\"{name}\" is a fork. There are no forks of forks: fork the store, or one of its snapshots."
            );
            return Err(Failure::new(409, "ForkOfFork", message));
        }
        let number = existing(file, name)?.number;
        if self.directories.has_log(number)? {
            self.opener.open(&self.directories, number)?.close()?;
        }
        Ok(number)
    }

    fn open_fork(&self, number: StoreNumber, name: String) -> Result<Arc<Store>> {
        let db = self.opener.open_fork(&self.directories, number)?;
        self.services_on(db, number, Some(name))
    }

    fn end_fork(&self, store: Arc<Store>) {
        store.retire();
        self.remove(store);
    }

    /// Ends all forks.
    pub(super) fn end_forks(&self) {
        let all = self.forks.take_all();
        all.into_iter().for_each(|store| self.end_fork(store));
    }

    /// Periodically ends unused forks. Never returns.
    pub(super) async fn end_unused_forks(self: Arc<Stores>) {
        let interval = (self.forks.settings.lifetime / 4).clamp(LOOK_MIN, LOOK_MAX);
        loop {
            tokio::time::sleep(interval).await;
            let unused = self.forks.take_unused();
            unused.into_iter().for_each(|store| self.end_fork(store));
        }
    }
}

/// Flushes a store if each of its forks would otherwise hold much in memory, or replay a long WAL.
/// The WAL can be long although the memtables are small.
fn flush_for_forks(services: &Services) -> lazurite_engine::Result<()> {
    let stats = services.stats();
    if stats.memtable_bytes > REPLAYED_BYTES_MAX || stats.wal_bytes > FORK_LOG_BYTES_MAX {
        services.flush()?;
    }
    Ok(())
}

pub fn fork_not_found(name: &str) -> Failure {
    let message = format!(
        "There is no fork \"{name}\" of the store: make it with POST /_lazurite/state/forks, or start Lazurite with --forks, which makes forks \
         when a request with credentials names them first."
    );
    Failure::new(404, "ForkNotFound", message)
}

fn random_name() -> Result<String> {
    let mut bytes = [0; NAME_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = format!("There are no random numbers: {error}.");
        Failure::new(500, "InternalError", message)
    })?;
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.fold("f".to_owned(), |name, digits| name + &digits))
}

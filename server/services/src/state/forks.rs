//! Forks: copies of the store that are made for a while, each a store of its own. A fork is reached
//! under the names of all accounts, as `ACCOUNT--FORK` with the account's own key.
//!
//! A fork shares the files of its source by hard links and keeps no log: it ends with the process,
//! when it is released, or when no request has used it for a while. Its directory is named in no
//! list, so that the next start removes what a kill leaves of it.

use crate::accounts::is_fork_name;
use crate::clock::system_time;
use crate::platform;
use crate::response::error::{Failure, Result};
use crate::state::data_directory::{FORK_DURABILITY, FORK_HANDLES_MAX};
use crate::state::operations::existing;
use crate::state::store::Store;
use crate::state::stores::Stores;
use crate::state::stores_file::{StoreNumber, StoresFile};
use lazurite_engine::{Db, copy_store};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Bytes of memtables that a fork may have to make anew from the log. With more, the store is
/// flushed first: each fork would hold them in memory.
const REPLAYED_BYTES_MAX: u64 = 256 << 10;
/// Bytes of the log that a fork may have to read.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// Bytes of memtables that are flushed before a snapshot, which should not wait long.
const FLUSHED_FIRST_BYTES_MAX: u64 = 4 << 20;
/// How often forks are looked for that no request has used, at most and at least.
const LOOK_MIN: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Bytes of the random part of a name.
const NAME_BYTES: usize = 5;

/// The forks of a process, as its flags want them.
#[derive(Debug, Clone)]
pub struct ForkSettings {
    /// The source of forks that are made when a request names them first; `None` if none are.
    pub at_first_use: Option<ForkSource>,
    /// How long a fork lives without requests.
    pub lifetime: Duration,
    /// Most forks at a time.
    pub count_max: usize,
}

/// What a fork begins as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkSource {
    /// The store as it is when the fork is made.
    Now,
    Snapshot(String),
}

impl ForkSource {
    pub fn snapshot(&self) -> Option<&str> {
        match self {
            ForkSource::Now => None,
            ForkSource::Snapshot(name) => Some(name),
        }
    }
}

/// A fork as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkFacts {
    pub name: String,
    pub source: ForkSource,
    /// By the clock of the machine.
    pub made_at: SystemTime,
    /// Since the last request began, or one was seen to be under way.
    pub idle: Duration,
    /// The number of its directory.
    pub number: StoreNumber,
}

#[derive(Debug)]
struct Fork {
    store: Arc<Store>,
    source: ForkSource,
    made_at: SystemTime,
    /// In milliseconds since the beginning of [`Forks`].
    used_at: AtomicU64,
}

/// A fork that does not end by its lifetime for as long as this lives: for work that takes long
/// before it sends the fork a request.
#[derive(Debug)]
pub struct HeldFork {
    pub name: String,
    /// Counts as a request.
    store: Arc<Store>,
}

/// The forks that there are.
#[derive(Debug)]
pub(super) struct Forks {
    settings: ForkSettings,
    began: Instant,
    by_name: RwLock<HashMap<String, Fork>>,
}

impl Forks {
    pub(super) fn new(settings: ForkSettings) -> Forks {
        Forks {
            settings,
            began: Instant::now(),
            by_name: RwLock::default(),
        }
    }

    fn milliseconds(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn idle(&self, fork: &Fork) -> Duration {
        let used_at = fork.used_at.load(Ordering::Relaxed);
        Duration::from_millis(self.milliseconds().saturating_sub(used_at))
    }

    /// The store of a fork, which is used now.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Store>> {
        let forks = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let fork = forks.get(name)?;
        fork.used_at.store(self.milliseconds(), Ordering::Relaxed);
        Some(fork.store.clone())
    }

    /// The store of a fork, which is used now, and what the fork began as.
    pub(super) fn with_source(&self, name: &str) -> Option<(Arc<Store>, ForkSource)> {
        let store = self.find(name)?;
        let forks = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        Some((store, forks.get(name)?.source.clone()))
    }

    fn check_new(&self, name: &str) -> Result<()> {
        let forks = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        if forks.contains_key(name) {
            let message =
                format!("There is a fork \"{name}\" already: release it, or choose another name.");
            return Err(Failure::new(409, "ForkAlreadyExists", message));
        }
        let most = self.settings.count_max;
        let by_files = forks_by_open_files(platform::open_files_max());
        let limit = if by_files < most {
            "for the files that this process may have open: ulimit -n"
        } else {
            "--forks-max"
        };
        if forks.len() < most.min(by_files) {
            return Ok(());
        }
        let message = format!(
            "There are {} forks, which is the most ({limit}). One has to be released, or to end after {} s without requests \
             (--fork-lifetime).",
            forks.len(),
            self.settings.lifetime.as_secs()
        );
        Err(Failure::busy(message))
    }

    fn add(&self, name: String, store: Arc<Store>, source: ForkSource) -> ForkFacts {
        let fork = Fork {
            store,
            source,
            made_at: system_time(),
            used_at: AtomicU64::new(self.milliseconds()),
        };
        let facts = self.facts(&name, &fork);
        let mut forks = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        forks.insert(name, fork);
        facts
    }

    fn facts(&self, name: &str, fork: &Fork) -> ForkFacts {
        ForkFacts {
            name: name.to_owned(),
            source: fork.source.clone(),
            made_at: fork.made_at,
            idle: self.idle(fork),
            number: fork.store.number,
        }
    }

    fn take(&self, name: &str) -> Option<Arc<Store>> {
        let mut forks = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        forks.remove(name).map(|fork| fork.store)
    }

    pub(super) fn take_all(&self) -> Vec<Arc<Store>> {
        let mut forks = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        forks.drain().map(|(_, fork)| fork.store).collect()
    }

    /// Takes the forks that no request has used for their lifetime, nor uses now.
    fn take_unused(&self) -> Vec<Arc<Store>> {
        let mut forks = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        let is_unused = |fork: &Fork| {
            let is_used = fork.store.has_requests();
            if is_used {
                fork.used_at.store(self.milliseconds(), Ordering::Relaxed);
            }
            !is_used && self.idle(fork) >= self.settings.lifetime
        };
        let unused = forks.extract_if(|_, fork| is_unused(fork));
        unused.map(|(_, fork)| fork.store).collect()
    }
}

impl Stores {
    /// The store of a fork.
    pub fn fork(&self, name: &str) -> Option<Arc<Store>> {
        self.forks.find(name)
    }

    /// Keeps a fork from ending by its lifetime. Errors: `ForkNotFound`.
    pub fn hold_fork(&self, name: String) -> Result<HeldFork> {
        let store = self.forks.find(&name);
        let store = store.ok_or_else(|| fork_not_found(&name))?;
        Ok(HeldFork { name, store })
    }

    /// Whether a fork that is held has not been released, nor another one made under its name.
    /// Errors: `ForkNotFound`.
    pub fn check_held(&self, fork: &HeldFork) -> Result<()> {
        let present = self.forks.find(&fork.name);
        if present.is_some_and(|present| Arc::ptr_eq(&present, &fork.store)) {
            return Ok(());
        }
        Err(fork_not_found(&fork.name))
    }

    /// The store of a fork, which is made if requests make forks. The caller has authenticated the
    /// request. Errors: `ForkNotFound`; `SnapshotNotFound`; `503` if there are too many.
    pub async fn fork_at_first_use(self: &Arc<Stores>, name: String) -> Result<Arc<Store>> {
        let Some(source) = self.forks.settings.at_first_use.clone() else {
            return Err(fork_not_found(&name));
        };
        self.exclusively(move |stores, file| {
            // Another request may have made it meanwhile.
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

    /// Makes a fork; without a name, under a random one. Errors: `InvalidForkName`;
    /// `ForkAlreadyExists`; `SnapshotNotFound`; `503` if there are too many.
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

    /// Bytes of disk that the files of a fork take, those that other stores share included. `None`
    /// in memory. Blocks for the disk.
    pub fn fork_bytes(&self, fork: &ForkFacts) -> Option<u64> {
        let is_in_memory = self.opener.is_in_memory();
        (!is_in_memory)
            .then(|| self.directories.used(fork.number))
            .flatten()
    }

    /// Ends a fork. Requests that use it are completed. Errors: `ForkNotFound`.
    pub fn release_fork(&self, name: &str) -> Result<()> {
        let store = self.forks.take(name).ok_or_else(|| fork_not_found(name))?;
        self.end_fork(store);
        Ok(())
    }

    /// By name.
    pub fn list_forks(&self) -> Vec<ForkFacts> {
        let forks = self.forks.by_name.read();
        let forks = forks.unwrap_or_else(PoisonError::into_inner);
        let facts = forks
            .iter()
            .map(|(name, fork)| self.forks.facts(name, fork));
        let mut facts: Vec<_> = facts.collect();
        facts.sort_by(|one, other| one.name.cmp(&other.name));
        facts
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
                let db = &current.services.db;
                if !self.opener.is_in_memory() {
                    flush_for_forks(db)?;
                }
                Ok(db.checkpoint_for(&target, FORK_DURABILITY)?)
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

    /// The directory of a snapshot, without a log: each fork would have to replay it. The first
    /// fork of a snapshot writes its SSTables.
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

    /// Ends forks that no request uses any more, for as long as the process lives.
    pub(super) async fn end_unused_forks(self: Arc<Stores>) {
        let interval = (self.forks.settings.lifetime / 4).clamp(LOOK_MIN, LOOK_MAX);
        loop {
            tokio::time::sleep(interval).await;
            let unused = self.forks.take_unused();
            unused.into_iter().for_each(|store| self.end_fork(store));
        }
    }
}

/// How many forks there can be beside the store and connections: they have a quarter of the open
/// files that the system allows.
pub fn forks_by_open_files(files: Option<u64>) -> usize {
    let forks = files.unwrap_or(u64::MAX) / 4 / FORK_HANDLES_MAX;
    usize::try_from(forks).unwrap_or(usize::MAX).max(1)
}

/// Flushes a store of which each fork would hold much in memory, or read a long log: one that small
/// memtables keep.
fn flush_for_forks(db: &Db) -> lazurite_engine::Result<()> {
    let stats = db.stats();
    if stats.memtable_bytes > REPLAYED_BYTES_MAX || stats.wal_bytes > LOG_BYTES_MAX {
        db.flush_all()?;
    }
    Ok(())
}

/// Flushes a store before a snapshot if that takes little, so that the first fork of the snapshot
/// does not find a long log. A snapshot is taken on a full disk too.
pub(super) fn flush_for_snapshot(db: &Db) -> lazurite_engine::Result<()> {
    let stats = db.stats();
    if stats.memtable_bytes > FLUSHED_FIRST_BYTES_MAX || stats.wal_bytes <= LOG_BYTES_MAX {
        return Ok(());
    }
    match db.flush_all() {
        Err(lazurite_engine::Error::NoSpace { .. }) => Ok(()),
        flushed => flushed,
    }
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

//! The secondary endpoint of a server with `--secondary-lag`: it reads the store as it was that
//! many seconds ago.
//!
//! A few times in each lag, and before each move of the clock, the server flushes the store and
//! makes a checkpoint of it: a directory of hard links, which costs milliseconds. The first request
//! that reads a checkpoint opens it as a store of its own, which nothing writes to. Old checkpoints
//! are removed once no request reads them. The others are removed when the server stops, or at its
//! next start. If the store was not written to, its last checkpoint is as good as a new one, and
//! none is made.

use crate::clock::{self, Clock};
use crate::connection::on_blocking_pool;
use crate::services::Ending;
use crate::state::place::{DIRECTORY, Place};
use crate::state::settings::Settings;
use crate::state::store::{Shared, Store};
use crate::state::stores_file::StoreNumber;
use lazurite_base::locks::lock;
use lazurite_engine::{Background, Config, Db, Environment, remove_store};
use lazurite_protocol::request::context::Replication;
use lazurite_protocol::response::error::Result;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;

/// Number of checkpoints made during each lag.
const COPIES_PER_LAG: u32 = 8;
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Maximum number of checkpoints. Moves of the clock add to the regular ones.
const COPIES_MAX: usize = 32;
/// Maximum number of bytes of the block cache of an opened checkpoint.
const CACHE_BYTES: usize = 8 << 20;
/// Maximum number of bytes of a memtable of an opened checkpoint.
const MEMTABLE_BYTES: usize = 1 << 20;

/// The store that a request to the secondary endpoint reads, and how far it lags behind.
#[derive(Debug)]
pub struct Reading {
    pub store: Arc<Store>,
    pub replication: Replication,
}

/// The checkpoints, and the task that makes them.
#[derive(Debug)]
pub struct Secondary {
    lag: Duration,
    place: Place,
    settings: Settings,
    shared: Arc<Shared>,
    copies: Mutex<Copies>,
    /// Held while a checkpoint is made, so that there is one at a time.
    copying: Mutex<()>,
    ticks: Mutex<Option<JoinHandle<()>>>,
}

/// The checkpoints, oldest first. `present` is not empty from the start to [`Secondary::close`].
#[derive(Debug, Default)]
struct Copies {
    present: VecDeque<Arc<Copied>>,
    /// Copies that requests no longer find. A request that found one earlier may still open it.
    retired: Vec<Arc<Copied>>,
    /// Copies that no request opens any more. Some requests may still read them.
    ending: Vec<EndingCopy>,
    made: u64,
}

/// One checkpoint. Its times are by the clock of the store.
#[derive(Debug)]
struct Copied {
    path: PathBuf,
    /// The checkpoint has nothing that was written after this time.
    made_at: SystemTime,
    /// The checkpoint has everything that was written before this time.
    complete_to: Mutex<SystemTime>,
    /// The copied store, and its sequence number at the time of the copy.
    source: (StoreNumber, u64),
    clock: Arc<Clock>,
    opened: OnceLock<Arc<Store>>,
    /// Held while the checkpoint is opened, so that only one request opens it.
    opening: Mutex<()>,
}

impl Secondary {
    /// Makes the first checkpoint. [`Secondary::tick`] starts the task that makes others. Waits for
    /// the disk. The error is a sentence.
    pub fn start(
        lag: Duration,
        place: Place,
        settings: Settings,
        shared: Arc<Shared>,
        store: &Store,
    ) -> std::result::Result<Secondary, String> {
        let secondary = Secondary {
            lag,
            place,
            settings,
            shared,
            copies: Mutex::default(),
            copying: Mutex::default(),
            ticks: Mutex::default(),
        };
        let noted = secondary.note(store);
        noted.map_err(|error| {
            format!("cannot copy the store for its secondary endpoint: {error}")
        })?;
        Ok(secondary)
    }

    /// Starts the task that makes checkpoints of the store that `current` returns, on the runtime
    /// of the caller. It ends when `current` returns `None`.
    pub fn tick(self: &Arc<Self>, current: impl Fn() -> Option<Arc<Store>> + Send + 'static) {
        let interval = (self.lag / COPIES_PER_LAG).max(INTERVAL_MIN);
        let secondary = self.clone();
        let ticks = tokio::spawn(async move {
            let mut has_failed = false;
            loop {
                tokio::time::sleep(interval).await;
                let Some(store) = current() else { return };
                let secondary = secondary.clone();
                let noted = on_blocking_pool(move || Ok(secondary.note(&store)?)).await;
                if let (Err(failure), false) = (&noted, has_failed) {
                    tracing::error!("the secondary endpoint falls behind: {}", failure.message);
                }
                has_failed = noted.is_err();
            }
        });
        *lock(&self.ticks) = Some(ticks);
    }

    /// Makes a checkpoint of the store: at intervals, and before the clock is moved, so that data
    /// written so far has a checkpoint from before the move. Blocks for the disk.
    pub fn note(&self, store: &Store) -> lazurite_engine::Result<()> {
        let _one_at_a_time = lock(&self.copying);
        // Another store is about to replace this one, and will be copied.
        if store.check_in_service().is_err() {
            return Ok(());
        }
        let copied = self.copy(store);
        let target = self.target(store.services.clock.now());
        let unused = lock(&self.copies).take_unused(target);
        // Try to remove all of them, even if copying failed: that frees space on a full disk.
        let removed = unused.into_iter().map(|copy| self.remove(copy));
        removed.fold(copied, lazurite_engine::Result::and)
    }

    /// Makes a checkpoint, unless nothing was written since the last one.
    fn copy(&self, store: &Store) -> lazurite_engine::Result<()> {
        let (services, clock) = (&store.services, &store.services.clock);
        let before = clock.now();
        let source = (store.number, services.stats().last_sequence);
        if !lock(&self.copies).is_as_before(source, before) {
            let path = self.next_path();
            services.flush()?;
            services.checkpoint(&path)?;
            let copied = Copied {
                path,
                made_at: clock.now(),
                complete_to: Mutex::new(before),
                source,
                clock: clock.clone(),
                opened: OnceLock::new(),
                opening: Mutex::default(),
            };
            lock(&self.copies).add(Arc::new(copied));
        }
        Ok(())
    }

    fn next_path(&self) -> PathBuf {
        let mut copies = lock(&self.copies);
        copies.made += 1;
        let directory = self.place.directory.join(DIRECTORY);
        directory.join(format!("{:06}", copies.made))
    }

    /// The newest time whose data may be read: the present minus the lag.
    fn target(&self, now: SystemTime) -> SystemTime {
        now.checked_sub(self.lag).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The store to read when the store's clock shows `now`: the last checkpoint that is old
    /// enough, or the first one if none is.
    pub async fn read(self: &Arc<Self>, now: SystemTime) -> Result<Reading> {
        let target = self.target(now);
        let found = lock(&self.copies).at(target);
        let (copied, replication) = found.ok_or(lazurite_engine::Error::Closed)?;
        let secondary = self.clone();
        let opened = match copied.opened.get() {
            Some(store) => Ok(store.clone()),
            None => on_blocking_pool(move || Ok(secondary.opened(&copied))).await?,
        };
        let store = opened.map_err(|sentence| {
            tracing::error!("the secondary endpoint cannot be read: {sentence}");
            lazurite_protocol::response::error::common::INTERNAL_ERROR
        })?;
        Ok(Reading { store, replication })
    }

    fn opened(&self, copied: &Copied) -> std::result::Result<Arc<Store>, String> {
        let _one_at_a_time = lock(&copied.opening);
        if let Some(store) = copied.opened.get() {
            return Ok(store.clone());
        }
        // Failures are not cached: space may be free on the disk by the next request.
        let store = Arc::new(self.open(copied)?);
        let _ = copied.opened.set(store.clone());
        Ok(store)
    }

    fn open(&self, copied: &Copied) -> std::result::Result<Store, String> {
        let config = Config {
            cache_bytes_max: CACHE_BYTES,
            memtable_bytes_max: MEMTABLE_BYTES,
            quota_bytes: None,
            ..self.place.config.clone()
        };
        let environment = Environment {
            background: Background::FewThreads,
            ..self.place.environment.clone()
        };
        let db = Db::open_with(&copied.path, config, environment);
        let db = db.map_err(|error| error.to_string())?;
        // `copied.clock` includes the moves of the store's clock, so drop their record in the copy.
        clock::forget_moves(&db).map_err(|error| error.to_string())?;
        let settings = Settings {
            clock: copied.clock.clone(),
            ..self.settings.clone()
        };
        Store::open(db, copied.source.0, None, &settings, self.shared.clone())
    }

    fn remove(&self, copy: EndingCopy) -> lazurite_engine::Result<()> {
        if let Some(store) = copy.store {
            store.abandon();
        }
        remove_store(&self.place.environment.fs, &copy.path)
    }

    /// Ends the task and removes the checkpoints. Waits for the disk.
    pub fn close(&self) {
        if let Some(ticks) = lock(&self.ticks).take() {
            ticks.abort();
        }
        let _no_other = lock(&self.copying);
        let Copies {
            present,
            retired,
            ending,
            ..
        } = std::mem::take(&mut *lock(&self.copies));
        let others = present.into_iter().chain(retired);
        let others = others.map(|copied| EndingCopy::of(&copied));
        for copy in others.chain(ending) {
            if let Err(error) = self.remove(copy) {
                tracing::warn!("a checkpoint of the secondary endpoint is left: {error}");
            }
        }
        let directory = self.place.directory.join(DIRECTORY);
        let _ = self.place.environment.fs.remove_directory(&directory);
    }
}

impl Copies {
    /// True if the last checkpoint is of the same store at the same sequence number. Then notes
    /// that it is complete up to `now`.
    fn is_as_before(&self, source: (StoreNumber, u64), now: SystemTime) -> bool {
        let last = self.present.back();
        let same = last.filter(|last| last.source == source);
        if let Some(same) = same {
            *lock(&same.complete_to) = now;
        }
        same.is_some()
    }

    fn add(&mut self, copied: Arc<Copied>) {
        // A reset or a restore has undone the moves of the clock. Without this, the earlier
        // checkpoints would be read until the clock has caught up.
        if let Some(last) = self.present.back()
            && last.made_at > copied.made_at
        {
            self.retired.extend(self.present.drain(..));
        }
        if self.present.len() == COPIES_MAX
            && let Some(last) = self.present.pop_back()
        {
            self.retired.push(last);
        }
        self.present.push_back(copied);
    }

    /// The last checkpoint made at or before `target`, else the first one; `None` after
    /// [`Secondary::close`].
    fn at(&self, target: SystemTime) -> Option<(Arc<Copied>, Replication)> {
        let mut old_enough = self.present.iter().rev();
        match old_enough.find(|copied| copied.made_at <= target) {
            Some(copied) => {
                let complete_to = *lock(&copied.complete_to);
                let until = complete_to.min(target);
                Some((copied.clone(), Replication::Until(until)))
            }
            None => {
                let first = self.present.front()?;
                Some((first.clone(), Replication::Bootstrap))
            }
        }
    }

    /// Removes the checkpoints that are too old at `target`. Returns those that no request uses.
    fn take_unused(&mut self, target: SystemTime) -> Vec<EndingCopy> {
        while self
            .present
            .get(1)
            .is_some_and(|next| next.made_at <= target)
        {
            self.retired.extend(self.present.pop_front());
        }
        for copied in std::mem::take(&mut self.retired) {
            // Fails while a request that is about to open the checkpoint holds it. No other request
            // can find it, because the caller holds the lock.
            match Arc::try_unwrap(copied) {
                Ok(copied) => self.ending.push(EndingCopy::of(&copied)),
                Err(held) => self.retired.push(held),
            }
        }
        let ended = self.ending.extract_if(.., |copy| copy.has_ended());
        ended.collect()
    }
}

/// A checkpoint that no further request can open, but some may still read.
#[derive(Debug)]
struct EndingCopy {
    path: PathBuf,
    /// Shows when the last reader is gone; `None` if the checkpoint was never opened.
    store: Option<Ending>,
}

impl EndingCopy {
    fn of(copied: &Copied) -> EndingCopy {
        EndingCopy {
            path: copied.path.clone(),
            store: copied.opened.get().map(|store| store.services.ending()),
        }
    }

    fn has_ended(&self) -> bool {
        self.store.as_ref().is_none_or(Ending::has_come)
    }
}

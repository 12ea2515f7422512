//! The forks that exist, with facts about each.

use crate::clock::system_time;
use crate::platform;
use crate::state::data_directory::FORK_HANDLES_MAX;
use crate::state::settings::{ForkSettings, ForkSource};
use crate::state::store::Store;
use crate::state::stores_file::StoreNumber;
use lazurite_base::locks;
use lazurite_protocol::response::error::{Failure, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// A fork as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkFacts {
    pub name: String,
    pub source: ForkSource,
    /// The time of creation by the machine's clock.
    pub made_at: SystemTime,
    /// The time since the last request began or was last seen under way.
    pub idle: Duration,
    /// The fork ends once it has been idle for this long.
    pub lifetime: Duration,
    /// The number of the fork's directory.
    pub number: StoreNumber,
}

#[derive(Debug)]
struct Fork {
    store: Arc<Store>,
    source: ForkSource,
    made_at: SystemTime,
    /// Milliseconds between the creation of [`Forks`] and the last use.
    used_at: AtomicU64,
}

/// The forks that exist.
#[derive(Debug)]
pub(super) struct Forks {
    pub(super) settings: ForkSettings,
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

    /// The store of a fork. Counts as a use of the fork.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Store>> {
        let forks = locks::read(&self.by_name);
        let fork = forks.get(name)?;
        fork.used_at.store(self.milliseconds(), Ordering::Relaxed);
        Some(fork.store.clone())
    }

    /// The store of a fork and the source of the fork. Counts as a use.
    pub(super) fn with_source(&self, name: &str) -> Option<(Arc<Store>, ForkSource)> {
        let store = self.find(name)?;
        let forks = locks::read(&self.by_name);
        Some((store, forks.get(name)?.source.clone()))
    }

    pub(super) fn check_new(&self, name: &str) -> Result<()> {
        let forks = locks::read(&self.by_name);
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

    pub(super) fn add(&self, name: String, store: Arc<Store>, source: ForkSource) -> ForkFacts {
        let fork = Fork {
            store,
            source,
            made_at: system_time(),
            used_at: AtomicU64::new(self.milliseconds()),
        };
        let facts = self.facts(&name, &fork);
        let mut forks = locks::write(&self.by_name);
        forks.insert(name, fork);
        facts
    }

    fn facts(&self, name: &str, fork: &Fork) -> ForkFacts {
        ForkFacts {
            name: name.to_owned(),
            source: fork.source.clone(),
            made_at: fork.made_at,
            idle: self.idle(fork),
            lifetime: self.settings.lifetime,
            number: fork.store.number,
        }
    }

    pub(super) fn take(&self, name: &str) -> Option<Arc<Store>> {
        let mut forks = locks::write(&self.by_name);
        forks.remove(name).map(|fork| fork.store)
    }

    pub(super) fn take_all(&self) -> Vec<Arc<Store>> {
        let mut forks = locks::write(&self.by_name);
        forks.drain().map(|(_, fork)| fork.store).collect()
    }

    /// Removes the forks that no request has used for their lifetime. Returns their stores.
    pub(super) fn take_unused(&self) -> Vec<Arc<Store>> {
        let mut forks = locks::write(&self.by_name);
        let is_unused = |fork: &mut Fork| {
            let is_used = !Store::is_unused(&mut fork.store);
            if is_used {
                fork.used_at.store(self.milliseconds(), Ordering::Relaxed);
            }
            !is_used && self.idle(fork) >= self.settings.lifetime
        };
        let unused = forks.extract_if(|_, fork| is_unused(fork));
        unused.map(|(_, fork)| fork.store).collect()
    }

    /// All forks in the order of their names.
    pub(super) fn list(&self) -> Vec<ForkFacts> {
        let forks = locks::read(&self.by_name);
        let facts = forks.iter().map(|(name, fork)| self.facts(name, fork));
        let mut facts: Vec<_> = facts.collect();
        facts.sort_by(|one, other| one.name.cmp(&other.name));
        facts
    }
}

/// Maximum number of forks if the process may have `files` open files (`None`: no limit). All forks
/// together may use a quarter of these, and leave the rest to the store and connections.
pub fn forks_by_open_files(files: Option<u64>) -> usize {
    let forks = files.unwrap_or(u64::MAX) / 4 / FORK_HANDLES_MAX;
    usize::try_from(forks).unwrap_or(usize::MAX).max(1)
}

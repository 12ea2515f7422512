//! How the stores of a process are opened, as its flags want it.

use crate::accounts::Accounts;
use crate::blob::Fetcher;
use crate::faults::Faults;
use lazurite_base::wall_clock::WallClock;
use std::sync::Arc;
use std::time::Duration;

/// How stores are opened: the same for all stores of a process.
#[derive(Debug, Clone)]
pub struct Settings {
    pub accounts: Arc<Accounts>,
    /// The clock that the clocks of stores follow.
    pub clock: Arc<dyn WallClock>,
    pub faults: Arc<Faults>,
    /// Origins that browsers may come from (`--cors`).
    pub cors: Vec<String>,
    pub fetcher: Option<Arc<Fetcher>>,
    pub accepts_bearer_tokens: bool,
    pub accepts_account_keys: bool,
    pub sas_duration_max: Option<Duration>,
    pub allowed_hosts: Vec<String>,
    pub loose: bool,
    pub public_access: bool,
    pub blob_versioning: bool,
    pub container_retention_days: Option<u16>,
    /// How long entries of logs may wait to be written.
    pub log_interval: Duration,
    pub forks: ForkSettings,
}

#[cfg(test)]
impl Settings {
    /// Those of a server without flags, for the development account.
    pub fn for_tests() -> Settings {
        Settings {
            accounts: Arc::new(Accounts::development()),
            clock: Arc::new(lazurite_base::wall_clock::SystemWallClock::default()),
            faults: Arc::new(Faults::new(false, false)),
            cors: Vec::new(),
            fetcher: None,
            accepts_bearer_tokens: false,
            accepts_account_keys: true,
            sas_duration_max: None,
            allowed_hosts: Vec::new(),
            loose: false,
            public_access: true,
            blob_versioning: false,
            container_retention_days: None,
            log_interval: Duration::from_secs(60),
            forks: ForkSettings {
                at_first_use: None,
                lifetime: Duration::from_secs(600),
                count_max: 1000,
            },
        }
    }
}

/// The forks of a process, as its flags want them.
#[derive(Debug, Clone)]
pub struct ForkSettings {
    /// The source of forks that are made when a request names them first; `None` if none are.
    pub at_first_use: Option<ForkSource>,
    /// How long a fork lives without requests.
    pub lifetime: Duration,
    /// Maximum number of forks at a time.
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

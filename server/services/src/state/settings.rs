//! The settings of a process's stores, from its flags.

use crate::blob::Fetcher;
use crate::faults::Faults;
use lazurite_base::wall_clock::WallClock;
use lazurite_protocol::accounts::Accounts;
use std::sync::Arc;
use std::time::Duration;

/// The settings that all stores of a process share.
#[derive(Debug, Clone)]
pub struct Settings {
    pub accounts: Arc<Accounts>,
    /// The clock that the clocks of stores follow.
    pub clock: Arc<dyn WallClock>,
    pub faults: Arc<Faults>,
    /// Origins whose pages may use the services (`--cors`).
    pub cors: Vec<String>,
    pub fetcher: Option<Arc<Fetcher>>,
    pub accepts_bearer_tokens: bool,
    pub accepts_account_keys: bool,
    pub sas_duration_max: Option<Duration>,
    pub allowed_hosts: Vec<String>,
    pub loose: bool,
    pub public_access: bool,
    /// Object ids of bearers who may do everything (`--data-owners`).
    pub data_owners: Vec<String>,
    pub blob_versioning: bool,
    pub container_retention_days: Option<u16>,
    /// Time after which gathered log entries and figures are written.
    pub log_interval: Duration,
    pub forks: ForkSettings,
}

#[cfg(test)]
impl Settings {
    /// The settings of a server without flags, with the development account.
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
            data_owners: Vec::new(),
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

/// The settings of a process's forks, from its flags.
#[derive(Debug, Clone)]
pub struct ForkSettings {
    /// The source of forks created by the first request that names them; `None` disables that.
    pub at_first_use: Option<ForkSource>,
    /// How long a fork lives after its last request.
    pub lifetime: Duration,
    /// Maximum number of forks at a time.
    pub count_max: usize,
}

/// The state with which a fork begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkSource {
    /// The current store at the time of the fork.
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

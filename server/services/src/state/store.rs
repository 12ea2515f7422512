//! One store with its services, and what serves them.

use crate::accounts::Accounts;
use crate::analytics::{self, Analytics};
use crate::auth::Authenticator;
use crate::blob::Fetcher;
use crate::clock::{self, Clock};
use crate::connection::listener::Client;
use crate::faults::Faults;
use crate::faults::targets::Usage;
use crate::layers::access_log::AccessLog;
use crate::properties::PropertiesStore;
use crate::request::context::{RequestIds, RequestOrigin};
use crate::response::error::{Failure, Result};
use crate::services::Services;
use crate::state::forks::ForkSettings;
use crate::state::housekeeping::Housekeeping;
use crate::state::stores_file::StoreNumber;
use crate::state::writes::Writes;
use crate::{blob, queue, table};
use lazurite_advisor::Advisor;
use lazurite_base::wall_clock::WallClock;
use lazurite_blob::{AccountPolicy, BlobService};
use lazurite_engine::{Db, RandomIds};
use lazurite_queue::QueueService;
use lazurite_table::TableService;
use std::result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The text of a copy from another server that a restart cut off: going on would take the source's
/// credentials, which are not kept.
const COPY_CUT_OFF: &str =
    "500 OperationCancelled \"The server was restarted before the copy had ended.\"";

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

/// What belongs to the process and is used by requests of all stores.
#[derive(Debug)]
pub struct Shared {
    pub access_log: AccessLog,
    pub advisor: Arc<Advisor>,
    pub request_ids: Arc<RequestIds>,
}

/// An open store, its services and what they keep in memory.
#[derive(Debug)]
pub struct Store {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    pub authenticator: Arc<Authenticator>,
    pub blob: Arc<blob::State>,
    pub queue: Arc<queue::State>,
    pub table: Arc<table::State>,
    pub analytics: Analytics,
    pub shared: Arc<Shared>,
    /// The directory that holds it.
    pub number: StoreNumber,
    /// The name of the fork that it is.
    pub fork: Option<String>,
    pub writes: Writes,
    housekeeping: Mutex<Option<Housekeeping>>,
    /// Set when another store is about to take its place, before the durable record of that.
    is_retired: AtomicBool,
    /// References to the services that the parts of the store itself have.
    own_references: usize,
}

impl Store {
    /// The services on an open store, whose directory has this number. Blocks for the disk. The
    /// error is a sentence.
    pub fn open(
        db: Db,
        number: StoreNumber,
        fork: Option<String>,
        settings: &Settings,
        shared: Arc<Shared>,
    ) -> result::Result<Store, String> {
        let services = Arc::new(open_services(db, settings)?);
        let properties = Arc::new(PropertiesStore::read(services.clone(), &settings.cors)?);
        let authenticator = Arc::new(Authenticator {
            services: services.clone(),
            accepts_bearer_tokens: settings.accepts_bearer_tokens,
            accepts_account_keys: settings.accepts_account_keys,
            sas_duration_max: settings.sas_duration_max,
        });
        let loose = settings.loose;
        let mut store = Store {
            blob: Arc::new(blob::State {
                services: services.clone(),
                properties: properties.clone(),
                authenticator: authenticator.clone(),
                request_ids: shared.request_ids.clone(),
                fetcher: settings.fetcher.clone(),
                allowed_hosts: settings.allowed_hosts.clone(),
                loose,
                public_access: settings.public_access,
            }),
            queue: Arc::new(queue::State {
                services: services.clone(),
                properties: properties.clone(),
                loose,
            }),
            table: Arc::new(table::State {
                services: services.clone(),
                properties: properties.clone(),
                loose,
            }),
            services,
            properties,
            authenticator,
            analytics: Analytics::default(),
            shared,
            number,
            fork,
            writes: Writes::default(),
            housekeeping: Mutex::default(),
            is_retired: AtomicBool::new(false),
            own_references: 0,
        };
        store.own_references = Arc::strong_count(&store.services);
        Ok(store)
    }

    /// Refuses to acknowledge a write once another store is to take the place of this one. A
    /// request that writes asks before and after.
    pub fn check_in_service(&self) -> Result<()> {
        if self.is_retired.load(Ordering::SeqCst) {
            let message = "The store is being reset or restored. Send the request again.";
            return Err(Failure::busy(message));
        }
        Ok(())
    }

    /// From now on no write is acknowledged.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
    }

    /// Takes back [`Store::retire`]: no other store takes the place of this one.
    pub fn stay_in_service(&self) {
        self.is_retired.store(false, Ordering::SeqCst);
    }

    /// Whether requests use the store, of which the caller has one reference.
    pub fn has_requests(self: &Arc<Store>) -> bool {
        Arc::strong_count(self) > 1
            || Arc::strong_count(&self.blob) > 1
            || Arc::strong_count(&self.queue) > 1
            || Arc::strong_count(&self.table) > 1
    }

    /// Whether requests, or responses that are being sent, use the store, whose housekeeping has
    /// ended.
    pub fn is_in_use(self: &Arc<Store>) -> bool {
        self.has_requests() || Arc::strong_count(&self.services) > self.own_references
    }

    /// Ends housekeeping without writing the logs that wait, for a store that is about to be
    /// removed.
    pub fn abort_housekeeping(&self) {
        if let Some(housekeeping) = self.housekeeping_slot().take() {
            housekeeping.abort();
        }
    }

    /// When and from where a request came that arrives now, with a new id.
    pub fn request_origin(&self, client: &Client) -> RequestOrigin {
        let system_now = clock::system_time();
        RequestOrigin {
            service: client.service,
            now: self.services.clock.now(),
            system_now,
            sas_now: self.services.clock.sas_time(system_now),
            peer: client.peer,
            secure: client.secure,
            request_id: self.shared.request_ids.next(),
        }
    }

    /// Starts the sweeper and the writer of logs, on the runtime of the caller.
    pub fn start_housekeeping(&self, log_interval: Duration) {
        let inputs = analytics::Inputs {
            services: self.services.clone(),
            properties: self.properties.clone(),
        };
        let started =
            Housekeeping::start(&self.analytics, inputs, log_interval, self.fork.is_some());
        *self.housekeeping_slot() = Some(started);
    }

    /// Stops sweeping. Requests go on.
    pub fn stop_sweeping(&self) {
        if let Some(housekeeping) = &*self.housekeeping_slot() {
            housekeeping.stop_sweeping();
        }
    }

    /// Writes the logs that wait, ends housekeeping and closes the store. Requests that come later
    /// fail.
    pub async fn close(&self) -> lazurite_engine::Result<()> {
        let housekeeping = self.housekeeping_slot().take();
        if let Some(housekeeping) = housekeeping {
            housekeeping.end(&self.analytics).await;
        }
        let db = self.services.db.clone();
        let closed = tokio::task::spawn_blocking(move || db.close()).await;
        closed.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    fn housekeeping_slot(&self) -> std::sync::MutexGuard<'_, Option<Housekeeping>> {
        self.housekeeping
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_services(db: Db, settings: &Settings) -> result::Result<Services, String> {
    let clock = Arc::new(Clock::open(&db, settings.clock.clone())?);
    let ids = Arc::new(RandomIds);
    let blobs =
        BlobService::open(&db, ids.clone(), clock.clone()).map_err(|error| error.to_string())?;
    let tables = TableService::open(&db, clock.clone()).map_err(|error| error.to_string())?;
    let queues = QueueService::open(&db, ids, clock.clone()).map_err(|error| error.to_string())?;
    let cut_off = blobs.fail_interrupted_copies(COPY_CUT_OFF);
    for failure in cut_off.map_err(|error| error.to_string())?.failures {
        tracing::error!("a copy that was cut off is still pending: {failure}");
    }
    keep_account_policies(settings, &blobs).map_err(|error| error.to_string())?;
    Ok(Services {
        accounts: settings.accounts.clone(),
        clock,
        faults: settings.faults.clone(),
        usage: Usage::default(),
        db,
        blobs,
        queues,
        tables,
    })
}

/// What Azure sets in its management plane is set by flags here, for all accounts, and holds until
/// the next start.
fn keep_account_policies(settings: &Settings, blobs: &BlobService) -> lazurite_blob::Result<()> {
    for account in settings.accounts.names() {
        let before = blobs.get_account_policy(account)?;
        let policy = AccountPolicy {
            versioning: settings.blob_versioning,
            container_retention_days: settings.container_retention_days,
            ..before
        };
        if policy != before {
            blobs.set_account_policy(account, policy, None)?.wait()?;
        }
    }
    Ok(())
}

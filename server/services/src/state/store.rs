//! One store with its services and all that requests to it need.

use crate::access_log::AccessLog;
use crate::analytics::{self, Analytics};
use crate::auth::Authenticator;
use crate::clock;
use crate::connection::listener::Client;
use crate::properties::PropertiesStore;
use crate::requests::Ring;
use crate::services::Services;
use crate::state::housekeeping::Housekeeping;
use crate::state::settings::Settings;
use crate::state::stores_file::StoreNumber;
use crate::state::writes::Writes;
use crate::{blob, queue, table};
use lazurite_advisor::Advisor;
use lazurite_base::locks::lock;
use lazurite_blob::{AccountPolicy, BlobService};
use lazurite_engine::Db;
use lazurite_protocol::request::context::{RequestIds, RequestOrigin};
use lazurite_protocol::response::error::{Failure, Result};
use std::result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The parts of a process that requests to all stores share.
#[derive(Debug)]
pub struct Shared {
    pub access_log: AccessLog,
    pub requests: Arc<Ring>,
    pub advisor: Arc<Advisor>,
    pub request_ids: Arc<RequestIds>,
}

#[cfg(test)]
impl Shared {
    /// Parts that neither log nor keep requests.
    pub fn for_tests() -> Arc<Shared> {
        Arc::new(Shared {
            access_log: AccessLog::silent(),
            requests: Arc::new(Ring::new(0, 0)),
            advisor: Arc::default(),
            request_ids: Arc::new(RequestIds::new(1)),
        })
    }
}

/// An open store with its services and their state in memory.
#[derive(Debug)]
pub struct Store {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    pub authenticator: Arc<Authenticator>,
    pub blob: Arc<blob::State>,
    pub queue: Arc<queue::State>,
    pub table: Arc<table::State>,
    pub analytics: Arc<Analytics>,
    pub shared: Arc<Shared>,
    /// The number of the store's directory.
    pub number: StoreNumber,
    /// The name of the fork whose store this is; `None` for the current and former stores.
    pub fork: Option<String>,
    pub writes: Writes,
    housekeeping: Mutex<Option<Housekeeping>>,
    /// Set before the durable record that another store replaces this one.
    is_retired: AtomicBool,
}

impl Store {
    /// The services on an open store whose directory has this number. Blocks for the disk. The
    /// error is a sentence.
    pub fn open(
        db: Db,
        number: StoreNumber,
        fork: Option<String>,
        settings: &Settings,
        shared: Arc<Shared>,
    ) -> result::Result<Store, String> {
        let Settings {
            accounts,
            clock,
            faults,
            ..
        } = settings;
        let services = Services::open(db, accounts.clone(), clock.clone(), faults.clone())?;
        keep_account_policies(settings, &services.blobs).map_err(|error| error.to_string())?;
        let services = Arc::new(services);
        let properties = Arc::new(PropertiesStore::read(services.clone(), &settings.cors)?);
        let authenticator = Arc::new(Authenticator {
            services: services.clone(),
            accepts_bearer_tokens: settings.accepts_bearer_tokens,
            accepts_account_keys: settings.accepts_account_keys,
            sas_duration_max: settings.sas_duration_max,
        });
        let loose = settings.loose;
        Ok(Store {
            blob: Arc::new(blob::State {
                services: services.clone(),
                properties: properties.clone(),
                authenticator: authenticator.clone(),
                request_ids: shared.request_ids.clone(),
                fetcher: settings.fetcher.clone(),
                allowed_hosts: settings.allowed_hosts.clone(),
                loose,
                public_access: settings.public_access,
                data_owners: settings.data_owners.clone().into(),
            }),
            queue: Arc::new(queue::State {
                services: services.clone(),
                properties: properties.clone(),
                loose,
            }),
            table: Arc::new(table::State {
                services: services.clone(),
                properties: properties.clone(),
                advisor: shared.advisor.clone(),
                loose,
            }),
            services,
            properties,
            authenticator,
            analytics: Arc::default(),
            shared,
            number,
            fork,
            writes: Writes::default(),
            housekeeping: Mutex::default(),
            is_retired: AtomicBool::new(false),
        })
    }

    /// Refuses to acknowledge a write once another store is about to replace this one. A request
    /// that writes calls this before and after the write.
    pub fn check_in_service(&self) -> Result<()> {
        if self.is_retired.load(Ordering::SeqCst) {
            let message = "The store is being reset or restored. Send the request again.";
            return Err(Failure::busy(message));
        }
        Ok(())
    }

    /// Makes all later acknowledgements of writes fail.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
    }

    /// Reverts [`Store::retire`]: the store is not replaced after all.
    pub fn stay_in_service(&self) {
        self.is_retired.store(false, Ordering::SeqCst);
    }

    /// Whether the caller is the only owner of the store, so that no request uses it.
    pub fn is_unused(store: &mut Arc<Store>) -> bool {
        Arc::get_mut(store).is_some_and(|store| {
            Arc::get_mut(&mut store.blob).is_some()
                && Arc::get_mut(&mut store.queue).is_some()
                && Arc::get_mut(&mut store.table).is_some()
        })
    }

    /// Ends housekeeping without writing the logs that wait, for a store that is about to be
    /// removed.
    pub fn abort_housekeeping(&self) {
        if let Some(housekeeping) = self.housekeeping_slot().take() {
            housekeeping.abort();
        }
    }

    /// The origin of a request that arrives now from `client`, with a new id.
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

    /// Starts the sweeper and the writer of logs on the caller's runtime.
    pub fn start_housekeeping(&self, log_interval: Duration) {
        let inputs = analytics::Inputs {
            services: self.services.clone(),
            properties: self.properties.clone(),
        };
        let started =
            Housekeeping::start(&self.analytics, inputs, log_interval, self.fork.is_some());
        *self.housekeeping_slot() = Some(started);
    }

    /// Ends the sweeper. Requests are still served.
    pub fn stop_sweeping(&self) {
        if let Some(housekeeping) = &*self.housekeeping_slot() {
            housekeeping.stop_sweeping();
        }
    }

    /// Writes the pending logs, ends housekeeping and closes the store. Later requests fail.
    pub async fn close(&self) -> lazurite_engine::Result<()> {
        let housekeeping = self.housekeeping_slot().take();
        if let Some(housekeeping) = housekeeping {
            housekeeping.end(&self.analytics).await;
        }
        let services = self.services.clone();
        let closed = tokio::task::spawn_blocking(move || services.close()).await;
        closed.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    fn housekeeping_slot(&self) -> std::sync::MutexGuard<'_, Option<Housekeeping>> {
        lock(&self.housekeeping)
    }
}

/// Sets the policies of all accounts from flags, until the next start. On Azure they belong to the
/// management plane.
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

//! The properties of a service that its account can set: logging, metrics, CORS rules, and for Blob
//! the default version, retention and the static website. A service only stores the bytes.
//!
//! All properties are read when the server starts, and later changed only here, so that requests
//! find them in memory.

pub mod metrics_tables;

use crate::connection::blocking_pool;
use crate::request::body;
use crate::services::Services;
use arc_swap::{ArcSwap, Guard};
use axum::body::Body;
use axum::http::Response;
use lazurite_base::locks::lock;
use lazurite_blob::{AccountPolicy, ContainerSettings};
use lazurite_engine::Ticket;
use lazurite_protocol::date;
use lazurite_protocol::properties::document::{self, Change};
use lazurite_protocol::properties::{LOGS_CONTAINER, ServiceProperties, WEBSITE_CONTAINER, cors};
use lazurite_protocol::request::context::{Context, Replication, ServiceKind};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{empty, parse_xml, xml};
use lazurite_protocol::xml::Writer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The properties of every service of every account.
#[derive(Debug)]
pub struct PropertiesStore {
    services: Arc<Services>,
    slots: BTreeMap<String, [Slot; 3]>,
}

/// The properties of a service as of the call to [`PropertiesStore::get`]. A guard, because all
/// requests would write to a reference count. arc-swap has eight fast guards per thread: do not
/// hold one across an await.
pub type Properties = Guard<Arc<ServiceProperties>>;

#[derive(Debug, Default)]
struct Slot {
    current: ArcSwap<ServiceProperties>,
    /// Held during a change, from its read to its write.
    changing: Mutex<()>,
}

/// A panic under the lock leaves a slot consistent: properties are replaced whole.
impl Slot {
    fn get(&self) -> Properties {
        self.current.load()
    }

    fn set(&self, properties: ServiceProperties) {
        self.current.store(Arc::new(properties));
    }

    /// Locks the slot against other changes.
    fn begin_change(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }
}

impl PropertiesStore {
    /// Reads the properties of all accounts from the store. The error is a sentence.
    pub fn read(
        services: Arc<Services>,
        cors_origins: &[String],
    ) -> std::result::Result<PropertiesStore, String> {
        let cors_at_start = if cors_origins.is_empty() {
            None
        } else {
            Some(cors::rule_at_start(cors_origins)?)
        };
        let slot = |service: ServiceKind, account: &str| {
            let stored = match service {
                ServiceKind::Blob => services.blobs.get_service_properties(account).map_err(text),
                ServiceKind::Queue => services
                    .queues
                    .get_service_properties(account)
                    .map_err(text),
                ServiceKind::Table => services
                    .tables
                    .get_service_properties(account)
                    .map_err(text),
            };
            let read = |bytes: Vec<u8>| document::read_stored(service, &bytes);
            let properties = stored?.map(read).transpose().map_err(|failure| {
                let title = service.title();
                format!(
                    "the {title} properties of account {account}: {}",
                    failure.message
                )
            })?;
            let properties = ServiceProperties {
                cors_at_start: cors_at_start.clone(),
                ..properties.unwrap_or_default()
            };
            Ok::<_, String>(Slot {
                current: ArcSwap::from_pointee(properties),
                changing: Mutex::default(),
            })
        };
        let mut slots = BTreeMap::new();
        for account in services.accounts.names() {
            let [blob, queue, table] = ServiceKind::ALL.map(|service| slot(service, account));
            slots.insert(account.to_owned(), [blob?, queue?, table?]);
        }
        Ok(PropertiesStore { services, slots })
    }

    /// The properties of a service of a configured account.
    pub fn get(&self, service: ServiceKind, account: &str) -> Properties {
        self.slot(service, account).get()
    }

    /// Restores the default properties of a service, keeping the rule of `--cors`.
    pub fn reset(&self, service: ServiceKind, account: &str) -> Result<Ticket> {
        let slot = self.slot(service, account);
        let _changing = slot.begin_change();
        let properties = ServiceProperties {
            cors_at_start: slot.get().cors_at_start.clone(),
            ..ServiceProperties::default()
        };
        let ticket = write_properties(&self.services, service, account, &properties)?;
        slot.set(properties);
        Ok(ticket)
    }

    /// Replaces the parts of the properties that a document sets, as Set Service Properties does.
    pub fn change(&self, service: ServiceKind, account: &str, document: &[u8]) -> Result<Ticket> {
        apply(
            self,
            (service, account),
            Change::read(service, &parse_xml(document)?)?,
        )
    }

    fn slot(&self, service: ServiceKind, account: &str) -> &Slot {
        let slots = self.slots.get(account);
        &slots.expect("a request's account is a configured one")[service as usize]
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Answers Get Service Properties.
pub fn get_service_properties(store: &PropertiesStore, context: &Context) -> Response<Body> {
    let properties = store.get(context.service, &context.account);
    xml(200, document::write(context.service, &properties))
}

/// Answers Set Service Properties. Parts that the document omits stay unchanged.
pub async fn set_service_properties(
    store: Arc<PropertiesStore>,
    context: Box<Context>,
    body: body::RequestBody,
) -> Result<Response<Body>> {
    let bytes = body::collect(body, body::SMALL_DOCUMENT_BYTES_MAX).await?;
    let change = Change::read(context.service, &parse_xml(&bytes)?)?;
    change_properties(store, context, change).await
}

/// Makes a change, and waits until it is as durable as an acknowledged write.
async fn change_properties(
    store: Arc<PropertiesStore>,
    context: Box<Context>,
    change: Change,
) -> Result<Response<Body>> {
    let writers = store.services.writers.clone();
    let apply = move || apply(&store, (context.service, &context.account), change);
    blocking_pool::change(&writers, apply).await?.await?;
    Ok(empty(202))
}

fn apply(
    store: &PropertiesStore,
    (service, account): (ServiceKind, &str),
    change: Change,
) -> Result<Ticket> {
    let services = &store.services;
    let slot = store.slot(service, account);
    let _changing = slot.begin_change();
    let mut properties = ServiceProperties::clone(&slot.get());
    change.apply_to(&mut properties);
    if properties.logging.is_on() {
        make_container(services, account, LOGS_CONTAINER)?;
    }
    metrics_tables::make_tables(&services.tables, account, service, &properties)?;
    if service == ServiceKind::Blob && properties.static_website.enabled {
        make_container(services, account, WEBSITE_CONTAINER)?;
    }
    let ticket = write_properties(services, service, account, &properties)?;
    slot.set(properties);
    Ok(ticket)
}

fn write_properties(
    services: &Services,
    service: ServiceKind,
    account: &str,
    properties: &ServiceProperties,
) -> Result<Ticket> {
    let bytes = document::write(service, properties).into_bytes();
    Ok(match service {
        ServiceKind::Blob => {
            let policy = AccountPolicy {
                delete_retention_days: properties.delete_retention.days,
                permanent_delete: properties.delete_retention.allow_permanent_delete,
                ..services.blobs.get_account_policy(account)?
            };
            services
                .blobs
                .set_account_policy(account, policy, Some(&bytes))?
        }
        ServiceKind::Queue => services.queues.set_service_properties(account, &bytes)?,
        ServiceKind::Table => services.tables.set_service_properties(account, &bytes)?,
    })
}

/// Creates the container that an enabled feature needs, unless it exists.
fn make_container(services: &Services, account: &str, container: &str) -> Result<()> {
    let settings = ContainerSettings::default();
    match services
        .blobs
        .create_container_with(account, container, settings)
    {
        Ok(_) | Err(lazurite_blob::Error::ContainerAlreadyExists) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Get Blob Service Stats, and the same operation of Queue and Table. Without `--secondary-lag` the
/// secondary endpoint reads the primary itself, so it is always up to date. Source: Get Blob
/// Service Stats, "Response body".
pub fn get_service_stats(context: &Context) -> Response<Body> {
    let mut document = Writer::new();
    document.open("StorageServiceStats");
    document.open("GeoReplication");
    let (status, last_sync) = match context.replication {
        Replication::Current => ("live", date::rfc1123(context.now)),
        Replication::Until(time) => ("live", date::rfc1123(time)),
        Replication::Bootstrap => ("bootstrap", String::new()),
    };
    document.element("Status", status);
    document.element("LastSyncTime", &last_sync);
    document.close("GeoReplication");
    document.close("StorageServiceStats");
    xml(200, document.finish())
}

/// Only the secondary endpoint serves statistics. Source: Get Blob Service Stats, "Request".
pub fn check_secondary(context: &Context) -> Result<()> {
    if context.secondary {
        Ok(())
    } else {
        Err(Failure::parameter(
            "comp",
            "stats",
            "Statistics are served by the secondary endpoint only.",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{DataDirectory, stores_for_tests};
    use lazurite_engine::fs::{FaultFs, MemoryFs, Operation};
    use lazurite_engine::{Config, Durability, Environment};
    use lazurite_protocol::request::context::ApiVersion;
    use lazurite_protocol::testing::request;
    use std::time::Duration;

    fn open(disk: &FaultFs) -> Arc<PropertiesStore> {
        let durability = Durability::Disk;
        let environment = Environment {
            fs: Arc::new(disk.clone()),
            ..Environment::system(durability)
        };
        let config = Config {
            durability,
            ..Config::default()
        };
        let directory = DataDirectory::open("data".as_ref(), config, environment).unwrap();
        let stores = stores_for_tests(directory).unwrap();
        stores.current().properties.clone()
    }

    #[tokio::test]
    async fn answer_to_set_service_properties_waits_for_the_disk() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let store = open(&disk);
        let change = |service: ServiceKind| {
            let context = request(service, "PUT", "/", "devstoreaccount1", &[]);
            let document = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read>\
                <Write>false</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging></StorageServiceProperties>";
            let root = parse_xml(document.as_bytes()).unwrap();
            let change = Change::read(service, &root).unwrap();
            let context = Box::new(context);
            Box::pin(change_properties(store.clone(), context, change))
        };
        for service in ServiceKind::ALL {
            // The first write may create a WAL segment, which also waits for a sync.
            change(service).await.unwrap();
            disk.hold(Some(Operation::Sync));
            let mut changed = change(service);
            let early = Duration::from_millis(50);
            assert!(tokio::time::timeout(early, &mut changed).await.is_err());
            disk.hold(None);
            assert_eq!(changed.await.unwrap().status(), 202);
        }
    }

    #[test]
    fn a_panic_during_a_change_leaves_properties_that_can_be_read_and_changed() {
        let slot = Slot::default();
        let panicked = std::thread::scope(|scope| {
            let change = scope.spawn(|| {
                let _changing = slot.begin_change();
                panic!("as a service may");
            });
            change.join().is_err()
        });
        assert!(panicked && slot.changing.is_poisoned());
        let _changing = slot.begin_change();
        let version = ServiceProperties {
            default_service_version: Some(ApiVersion::parse("2021-12-02").unwrap()),
            ..ServiceProperties::clone(&slot.get())
        };
        slot.set(version.clone());
        assert_eq!(**slot.get(), version);
    }

    #[test]
    fn only_the_secondary_serves_statistics() {
        let mut context = request(ServiceKind::Blob, "GET", "/?comp=stats", "myaccount", &[]);
        let refused = check_secondary(&context).unwrap_err();
        assert_eq!(refused.code, "InvalidQueryParameterValue");
        context.secondary = true;
        assert!(check_secondary(&context).is_ok());
    }
}

//! The properties of a service that its account can set: logging, metrics, CORS rules, and for Blob the default version,
//! retention and the static website. One model and one document for all three services; a service only keeps the bytes.
//!
//! All properties are read when the server starts, and from then on changed here alone: a request finds them in memory.

pub mod cors;
mod document;

use super::blob::website;
use super::context::{ApiVersion, Context, ServiceKind};
use super::error::{Failure, Result};
use super::headers::{empty, parse_xml, xml};
use super::run::write_beside;
use super::{App, body};
use crate::accounts::Accounts;
use crate::analytics::{self, Class, LogVersion};
use crate::codec::date;
use crate::codec::xml::Writer;
use axum::body::Body;
use axum::http::Response;
use cors::CorsRule;
use document::Change;
use lazurite_blob::{AccountPolicy, BlobService, ContainerSettings};
use lazurite_engine::Ticket;
use lazurite_queue::QueueService;
use lazurite_table::TableService;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Properties of one service of one account. Source: Set Blob Service Properties, "Request body".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    pub logging: Logging,
    pub hour_metrics: Metrics,
    pub minute_metrics: Metrics,
    /// In the order in which they are tried.
    pub cors: Vec<CorsRule>,
    /// The version of requests that name none; Blob only.
    pub default_service_version: Option<ApiVersion>,
    delete_retention: DeleteRetention,
    pub static_website: StaticWebsite,
}

impl ServiceProperties {
    /// Whether requests are counted.
    pub fn keeps_metrics(&self) -> bool {
        self.hour_metrics.enabled || self.minute_metrics.enabled
    }
}

/// Which requests are to be logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logging {
    pub version: LogVersion,
    pub delete: bool,
    pub read: bool,
    pub write: bool,
    /// Days that logs are kept. `None`: the policy is not enabled, and they are kept forever.
    pub retention_days: Option<u16>,
}

impl Logging {
    /// Whether anything is logged.
    pub fn is_on(&self) -> bool {
        self.delete || self.read || self.write
    }

    /// Whether operations of this class are.
    pub fn covers(&self, class: Class) -> bool {
        match class {
            Class::Read => self.read,
            Class::Write => self.write,
            Class::Delete => self.delete,
        }
    }
}

/// Which figures are to be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    pub enabled: bool,
    /// Whether by operation, too.
    pub include_apis: bool,
    /// Days that they are kept. `None`: the policy is not enabled, and they are kept forever.
    pub retention_days: Option<u16>,
}

/// How long deleted blobs are kept; `None`: not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct DeleteRetention {
    days: Option<u16>,
    allow_permanent_delete: bool,
}

/// What browsers get of the container `$web`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StaticWebsite {
    pub enabled: bool,
    /// What each directory shows.
    pub index_document: Option<String>,
    /// What every directory shows; not together with the former.
    pub default_index_document_path: Option<String>,
    pub error_document_404_path: Option<String>,
}

/// The properties of every service of every account.
#[derive(Debug)]
pub struct PropertiesStore {
    slots: BTreeMap<String, [Slot; 3]>,
}

#[derive(Debug, Default)]
struct Slot {
    current: RwLock<Arc<ServiceProperties>>,
    /// Held from the reading of what a change starts from to its write.
    changing: Mutex<()>,
}

impl PropertiesStore {
    /// Reads what the services have kept for the accounts. The error is a sentence.
    pub fn read(
        accounts: &Accounts,
        blobs: &BlobService,
        queues: &QueueService,
        tables: &TableService,
    ) -> std::result::Result<PropertiesStore, String> {
        let slot = |service: ServiceKind, account: &str| {
            let stored = match service {
                ServiceKind::Blob => blobs.get_service_properties(account).map_err(text),
                ServiceKind::Queue => queues.get_service_properties(account).map_err(text),
                ServiceKind::Table => tables.get_service_properties(account).map_err(text),
            };
            let read = |bytes: Vec<u8>| document::read_stored(service, &bytes);
            let properties = stored?.map(read).transpose().map_err(|failure| {
                let title = service.title();
                format!(
                    "the {title} properties of account {account}: {}",
                    failure.message
                )
            })?;
            Ok::<_, String>(Slot {
                current: RwLock::new(Arc::new(properties.unwrap_or_default())),
                changing: Mutex::default(),
            })
        };
        let mut slots = BTreeMap::new();
        for account in accounts.names() {
            let [blob, queue, table] = ServiceKind::ALL.map(|service| slot(service, account));
            slots.insert(account.to_owned(), [blob?, queue?, table?]);
        }
        Ok(PropertiesStore { slots })
    }

    /// The properties of a service of a configured account.
    pub fn get(&self, service: ServiceKind, account: &str) -> Arc<ServiceProperties> {
        let slot = self.slot(service, account);
        slot.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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
pub fn get_service_properties(app: &App, context: &Context) -> Response<Body> {
    let properties = app.properties.get(context.service, &context.account);
    xml(200, document::write(context.service, &properties))
}

/// Answers Set Service Properties: what the document leaves out stays as it is.
pub async fn set_service_properties(
    app: Arc<App>,
    context: Context,
    body: body::RequestBody,
) -> Result<Response<Body>> {
    let bytes = body::collect(body, body::SMALL_DOCUMENT_BYTES_MAX).await?;
    let change = Change::read(context.service, &parse_xml(&bytes)?)?;
    let db = app.db.clone();
    // May wait for the disk in several writes, so it always runs on the blocking pool.
    let ticket = write_beside(true, &db, move || apply(&app, &context, change)).await?;
    ticket.await?;
    Ok(empty(202))
}

fn apply(app: &App, context: &Context, change: Change) -> Result<Ticket> {
    let slot = app.properties.slot(context.service, &context.account);
    // Each change starts from the published properties, so a panic in an earlier one leaves nothing half done.
    let _changing = slot.changing.lock().unwrap_or_else(PoisonError::into_inner);
    let mut properties =
        ServiceProperties::clone(&app.properties.get(context.service, &context.account));
    change.apply_to(&mut properties);
    let bytes = document::write(context.service, &properties).into_bytes();
    let account = &context.account;
    if properties.logging.is_on() {
        make_container(app, account, analytics::CONTAINER)?;
    }
    analytics::make_tables(&app.tables, account, context.service, &properties)?;
    let ticket = match context.service {
        ServiceKind::Blob => {
            let policy = AccountPolicy {
                delete_retention_days: properties.delete_retention.days,
                permanent_delete: properties.delete_retention.allow_permanent_delete,
                ..app.blobs.get_account_policy(account)?
            };
            if properties.static_website.enabled {
                make_container(app, account, website::CONTAINER)?;
            }
            app.blobs
                .set_account_policy(account, policy, Some(&bytes))?
        }
        ServiceKind::Queue => app.queues.set_service_properties(account, &bytes)?,
        ServiceKind::Table => app.tables.set_service_properties(account, &bytes)?,
    };
    let published = slot.current.write();
    *published.unwrap_or_else(PoisonError::into_inner) = Arc::new(properties);
    Ok(ticket)
}

/// What is enabled has a container, which is made with it.
fn make_container(app: &App, account: &str, container: &str) -> Result<()> {
    let settings = ContainerSettings::default();
    match app
        .blobs
        .create_container_with(account, container, settings)
    {
        Ok(_) | Err(lazurite_blob::Error::ContainerAlreadyExists) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The copy at the secondary endpoint is the primary itself, so it is always up to date.
/// Source: Get Blob Service Stats, "Response body".
pub fn stats(context: &Context) -> String {
    let mut document = Writer::new();
    document.open("StorageServiceStats");
    document.open("GeoReplication");
    document.element("Status", "live");
    document.element("LastSyncTime", &date::rfc1123(context.now));
    document.close("GeoReplication");
    document.close("StorageServiceStats");
    document.finish()
}

/// Statistics are a matter of the secondary endpoint. Source: Get Blob Service Stats, "Request".
pub fn check_secondary(context: &Context) -> Result<()> {
    match context.secondary {
        true => Ok(()),
        false => Err(Failure::parameter(
            "comp",
            "stats",
            "Statistics are served by the secondary endpoint only.",
        )),
    }
}

//! The reset of a part of a store: an account, a service of it, a container, a queue or a table.

use crate::properties::metrics_tables;
use crate::services::Services;
use crate::state::forks::fork_not_found;
use crate::state::store::Store;
use crate::state::stores::Stores;
use crate::state::writes::Scope;
use lazurite_blob::ListContainers;
use lazurite_engine::Ticket;
use lazurite_protocol::accounts::Addressed;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_queue::ListQueues;
use lazurite_table::TableQuery;
use std::sync::Arc;

/// The part that a request wants to reset, by the names that it gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedReset {
    /// The account; in the form `ACCOUNT--FORK`, the account in that fork.
    pub account: Option<String>,
    pub service: Option<String>,
    pub container: Option<String>,
    pub queue: Option<String>,
    pub table: Option<String>,
}

impl WantedReset {
    /// Whether the request gives no name, so that everything is reset.
    pub fn is_of_all(&self) -> bool {
        *self == WantedReset::default()
    }

    /// The service and the name of the part. Errors: names that conflict or are unknown.
    fn part(&self) -> Result<(Option<ServiceKind>, Option<String>)> {
        let known = |label: &String| {
            let found = ServiceKind::ALL
                .into_iter()
                .find(|service| service.label() == label);
            found.ok_or_else(|| {
                Failure::invalid_input(format!(
                    "service: {label:?} is none of blob, queue and table."
                ))
            })
        };
        let service = self.service.as_ref().map(known).transpose()?;
        let named = [
            (ServiceKind::Blob, "container", &self.container),
            (ServiceKind::Queue, "queue", &self.queue),
            (ServiceKind::Table, "table", &self.table),
        ];
        let mut named = named.into_iter().filter(|(_, _, name)| name.is_some());
        let Some((owner, field, name)) = named.next() else {
            return Ok((service, None));
        };
        if let Some((_, other, _)) = named.next() {
            return Err(Failure::invalid_input(format!(
                "{field} and {other} contradict each other: a reset is of one of them, or of a whole service."
            )));
        }
        if let Some(service) = service.filter(|service| *service != owner) {
            return Err(Failure::invalid_input(format!(
                "service and {field} contradict each other: the {} service has no {field}s.",
                service.label()
            )));
        }
        Ok((Some(owner), name.clone()))
    }
}

impl Stores {
    /// Deletes the named data, including deleted data that can be restored, whatever leases or
    /// policies protect it. The names are free at once; durable on return. Errors: names contradict
    /// each other; a name is unknown.
    pub async fn reset_part(self: &Arc<Stores>, wanted: WantedReset) -> Result<()> {
        self.exclusively(move |stores, _| {
            let (service, name) = wanted.part()?;
            let (store, account) = stores.store_of(wanted.account.as_deref())?;
            let scope = Scope {
                account,
                service,
                name,
            };
            let deleted = store
                .writes
                .while_resetting(&scope, || delete(&store, &scope))?;
            store.services.usage.forget_deleted();
            Ok(deleted.map_or(Ok(()), Ticket::wait)?)
        })
        .await
    }

    /// The account to reset and the store that has it. `account` may be `None` if there is only
    /// one.
    fn store_of(&self, account: Option<&str>) -> Result<(Arc<Store>, String)> {
        let accounts = self.accounts();
        let names: Vec<_> = accounts.names().collect();
        let name = match (account, &names[..]) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => {
                return Err(Failure::invalid_input(format!(
                    "account: name one of {}.",
                    names.join(", ")
                )));
            }
        };
        let found = accounts.find(name).filter(|found| !found.secondary);
        let Some(Addressed { account, fork, .. }) = found else {
            let message = format!(
                "There is no account {name:?}. There are: {}.",
                names.join(", ")
            );
            return Err(Failure::new(404, "AccountNotFound", message));
        };
        let store = match fork {
            None => self.current(),
            Some(fork) => self.fork(&fork).ok_or_else(|| fork_not_found(&fork))?,
        };
        Ok((store, account))
    }
}

/// Deletes the contents of a scope. When the returned ticket is durable, so are all deletions.
fn delete(store: &Store, scope: &Scope) -> Result<Option<Ticket>> {
    let (services, account) = (&*store.services, &*scope.account);
    if let (Some(service), Some(name)) = (scope.service, &scope.name) {
        let deleted = delete_one(services, account, service, name)?;
        return deleted
            .map(Some)
            .ok_or_else(|| not_there(service, account, name));
    }
    let mut last = None;
    for service in ServiceKind::ALL {
        if scope.service.is_none_or(|wanted| wanted == service) {
            delete_all(services, account, service)?;
            last = Some(store.properties.reset(service, account)?);
        }
    }
    Ok(last)
}

fn not_there(service: ServiceKind, account: &str, name: &str) -> Failure {
    let (kind, code) = match service {
        ServiceKind::Blob => ("container", "ContainerNotFound"),
        ServiceKind::Queue => ("queue", "QueueNotFound"),
        ServiceKind::Table => ("table", "TableNotFound"),
    };
    let message = format!("The account {account} has no {kind} {name:?}.");
    Failure::new(404, code, message)
}

/// Deletes one container, queue or table; `None` if it does not exist.
fn delete_one(
    services: &Services,
    account: &str,
    service: ServiceKind,
    name: &str,
) -> Result<Option<Ticket>> {
    match service {
        ServiceKind::Blob => Ok(services.blobs.purge_container(account, name)?),
        ServiceKind::Queue => match services.queues.delete_queue(account, name) {
            Ok(ticket) => Ok(Some(ticket)),
            Err(lazurite_queue::Error::QueueNotFound) => Ok(None),
            Err(error) => Err(error.into()),
        },
        ServiceKind::Table => match services.tables.delete_table(account, name) {
            Ok(ticket) => Ok(Some(ticket)),
            Err(lazurite_table::Error::ResourceNotFound) => Ok(None),
            Err(error) => Err(error.into()),
        },
    }
}

/// Deletes all containers, queues or tables of an account, page by page.
fn delete_all(services: &Services, account: &str, service: ServiceKind) -> Result<()> {
    let mut marker = None;
    loop {
        let (names, next) = names(services, account, service, marker)?;
        for name in names {
            delete_one(services, account, service, &name)?;
        }
        if next.is_none() {
            break;
        }
        marker = next;
    }
    if service == ServiceKind::Table {
        for name in metrics_tables::names() {
            delete_one(services, account, service, &name)?;
        }
    }
    Ok(())
}

/// A page of names, including deleted containers, and the marker of the next page.
fn names(
    services: &Services,
    account: &str,
    service: ServiceKind,
    marker: Option<String>,
) -> Result<(Vec<String>, Option<String>)> {
    match service {
        ServiceKind::Blob => {
            let request = ListContainers {
                marker,
                system: true,
                deleted: true,
                ..ListContainers::default()
            };
            let page = services.blobs.list_containers(account, &request)?;
            let names = page.containers.into_iter().map(|(name, _)| name);
            Ok((names.collect(), page.next_marker))
        }
        ServiceKind::Queue => {
            let request = ListQueues {
                marker: marker.as_deref().unwrap_or_default(),
                ..ListQueues::default()
            };
            let page = services.queues.list_queues(account, request)?;
            let names = page.queues.into_iter().map(|queue| queue.name);
            Ok((names.collect(), page.next_marker))
        }
        ServiceKind::Table => {
            let query = TableQuery {
                continuation: marker.as_deref(),
                ..TableQuery::default()
            };
            let page = services.tables.query_tables(account, &query, &|| false)?;
            Ok((page.tables, page.next))
        }
    }
}

//! `lazurite copy`: copies all that an account stores from one server to another. Both speak the
//! protocols of Azure Storage.
//!
//! It lists like an export and sends the requests of an import, without files between them. It
//! holds no item as a whole: it copies a blob in pieces, a table in pages of entities, and a queue
//! in pages of messages. Each item is checked before the journal notes it.

mod blobs;
mod journal;
mod paths;
mod queues;
mod run;
mod tables;

use crate::asking::{ask, send};
use crate::blobs::container::containers;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::existing::{Existing, choices_about_existing};
use crate::fields::Resource;
use crate::progress::{LEFT_OUT_SHOWN, Progress};
use crate::queues::messages::queues;
use crate::resource_kind::ResourceKind;
use crate::resources::is_in_use;
use crate::tables::entities::tables;
use journal::Journal;
use lazurite_base::terminal::plain;
use lazurite_protocol::service_kind::ServiceKind;
pub use paths::BlobsCopy;
use run::CopyRun;
pub use run::Options;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

/// The result of a copy, which may be a part of what was wanted.
pub struct Copied {
    /// The counts of what was copied, as text.
    pub counts: String,
    /// Sentences about settings and states that are not copied, and about existing resources.
    pub notes: Vec<String>,
    /// Sentences about contents that were left out.
    pub left_out: Vec<String>,
    /// The sentence about the error that ended the copy early.
    pub ended: Result<(), String>,
}

/// Runs a copy. Error: it could not begin.
pub fn run(from: &str, to: &str, options: &Options) -> Result<Copied, String> {
    let (from, to) = (client("FROM", from)?, client("TO", to)?);
    let mut copy = CopyRun {
        from,
        to,
        options,
        journal: Journal::default(),
        progress: Progress::new(),
        known: AtomicU64::new(0),
        notes: Mutex::default(),
    };
    let services = copy.services()?;
    copy.check_stores(&services)?;
    copy.check_access(&services)?;
    if let Some(path) = &options.journal {
        copy.journal = Journal::open(path, &copy.places(&services)?)?;
    }
    copy.from.retry = options.retry;
    copy.to.retry = options.retry;
    let plan = copy.plan(&services)?;
    let copied = copy.copy(&services, &plan);
    Ok(copy.report(copied))
}

/// The client of a connection string, or of the variable in `env:NAME`.
fn client(which: &str, text: &str) -> Result<Client, String> {
    let text = match text.strip_prefix("env:") {
        None => text.to_owned(),
        Some(name) => std::env::var(name)
            .map_err(|_| format!("{which}: the environment has no variable {name}"))?,
    };
    Client::with_azure(&text).map_err(|error| format!("{which}: {error}"))
}

impl CopyRun<'_> {
    /// The services to copy. Error: a connection string lacks the endpoint of a named service.
    fn services(&self) -> Result<Vec<ServiceKind>> {
        let options = self.options;
        let named = |service| match service {
            ServiceKind::Blob => !options.containers.is_empty(),
            ServiceKind::Queue => !options.queues.is_empty(),
            ServiceKind::Table => !options.tables.is_empty(),
        };
        let mut all = ServiceKind::ALL.to_vec();
        if !options.services.is_empty() {
            all.retain(|service| options.services.contains(service) || named(*service));
        } else if self.is_of_names() {
            all.retain(|service| named(*service));
        } else {
            all.retain(|service| self.from.has(*service));
        }
        for service in &all {
            for (which, client) in [("FROM", &self.from), ("TO", &self.to)] {
                if !client.has(*service) {
                    let title = service.title();
                    let reason = format!("the connection string has no {title}Endpoint");
                    return Err(format!("{which}: {reason}; --services chooses others").into());
                }
            }
        }
        Ok(all)
    }

    /// Whether the flags name containers, queues or tables, so that the others are not copied.
    fn is_of_names(&self) -> bool {
        let options = self.options;
        let names = [&options.containers, &options.queues, &options.tables];
        names.iter().any(|names| !names.is_empty())
    }

    /// Fails if source and destination are the same: the copy would delete what it reads.
    fn check_stores(&self, services: &[ServiceKind]) -> Result<()> {
        for service in services {
            if self.from.shares_store(&self.to, *service)? {
                let place = self.to.place(*service)?;
                let title = service.title();
                let reason = format!("FROM and TO are the same {title} service, {place}");
                return Err(format!("{reason}. Nothing was copied").into());
            }
        }
        Ok(())
    }

    /// Sends a request to each service, to find a wrong key or address before the first write.
    fn check_access(&self, services: &[ServiceKind]) -> Result<()> {
        for (which, client) in [("FROM", &self.from), ("TO", &self.to)] {
            for service in services {
                let resource = match service {
                    ServiceKind::Table => "Tables?$top=1",
                    _ => "?comp=list&maxresults=1",
                };
                let asked = client.ask(*service, "GET", resource.to_owned());
                let place = format_args!("{which}, {}", service.title());
                asked.map_err(|error| Error::from(error).within(place))?;
            }
        }
        Ok(())
    }

    /// The addresses of source and destination, for the journal.
    fn places(&self, services: &[ServiceKind]) -> Result<Value> {
        let places_of = |client: &Client| {
            let mut places = Map::new();
            for service in services {
                places.insert(service.label().to_owned(), client.place(*service)?.into());
            }
            Ok::<_, Error>(places)
        };
        Ok(json!({ "from": places_of(&self.from)?, "to": places_of(&self.to)? }))
    }

    /// The containers, queues and tables to copy. Error: one that a flag names does not exist; or,
    /// with [`Existing::Refuse`], [`Self::check_unused`] fails.
    fn plan(&self, services: &[ServiceKind]) -> Result<Plan> {
        let has = |service| services.contains(&service);
        let mut plan = Plan::default();
        if has(ServiceKind::Blob) {
            let all = containers(&self.from)?;
            plan.containers = chosen("container", all, &self.options.containers)?;
        }
        if has(ServiceKind::Queue) {
            let all = queues(&self.from)?;
            plan.queues = chosen("queue", all, &self.options.queues)?;
        }
        if has(ServiceKind::Table) {
            let all = tables(&self.from)?.into_iter();
            let all = all.map(|name| (name, Map::new())).collect();
            plan.tables = chosen("table", all, &self.options.tables)?;
        }
        if self.options.existing == Existing::Refuse {
            self.check_unused(ResourceKind::Container, &plan.containers)?;
            self.check_unused(ResourceKind::Queue, &plan.queues)?;
            self.check_unused(ResourceKind::Table, &plan.tables)?;
        }
        Ok(plan)
    }

    fn copy(&self, services: &[ServiceKind], plan: &Plan) -> Result<()> {
        blobs::copy(self, &plan.containers)?;
        queues::copy(self, &plan.queues)?;
        tables::copy(self, &plan.tables)?;
        self.copy_properties(services)
    }

    /// Fails if the destination has one of the resources with contents, and this copy has not begun
    /// to write that resource.
    fn check_unused(&self, kind: ResourceKind, resources: &[Resource]) -> Result<()> {
        for (name, _) in resources {
            if !self.journal.has_begun(&format!("{kind} {name}"))
                && is_in_use(&self.to, kind, name)?
            {
                let choices = choices_about_existing("--existing ");
                let reason = format!("{kind} {name} is there and holds something");
                return Err(format!("{reason}. Nothing was copied. {choices}").into());
            }
        }
        Ok(())
    }

    /// Copies the properties of the services, such as CORS rules. Does not copy them if flags name
    /// resources, or if existing resources are not refused.
    fn copy_properties(&self, services: &[ServiceKind]) -> Result<()> {
        if self.is_of_names() {
            return Ok(());
        }
        for service in services {
            let what = format!("properties of the {} service", service.title());
            if self.options.existing != Existing::Refuse {
                self.note(format!("{what}: left as they are with --existing"));
                continue;
            }
            let resource = "?restype=service&comp=properties";
            let copied = ask(&self.from, *service, "GET", resource)
                .and_then(|reply| Ok(reply.text()?))
                .and_then(|text| {
                    send(&self.to, *service, "PUT", resource, &[], text.as_bytes()).map(drop)
                });
            if let Err(error) = copied {
                self.refused(&what, error)?;
            }
        }
        Ok(())
    }

    /// Returns what was copied and what was left out.
    fn report(self, copied: Result<()>) -> Copied {
        let mut counts = self.progress.counts_of_contents();
        let known = self.known.into_inner();
        if known > 0 {
            counts += &format!(
                "; {known} blobs, queues and tables were there from an earlier run of this copy"
            );
        }
        let left_out = self.progress.end(LEFT_OUT_SHOWN);
        let notes = self.notes.into_inner();
        Copied {
            counts,
            notes: notes.unwrap_or_else(PoisonError::into_inner),
            left_out,
            ended: copied.map_err(|error| {
                let way_on = match &self.options.journal {
                    Some(_) => "The same command goes on from here",
                    None => "With --resume FILE, a copy goes on where it broke off",
                };
                format!("{}. {way_on}", plain(&error.to_string()))
            }),
        }
    }
}

/// The resources to copy.
#[derive(Default)]
struct Plan {
    containers: Vec<Resource>,
    queues: Vec<Resource>,
    tables: Vec<Resource>,
}

/// The resources with these names, or all if there are none. Error: one does not exist.
fn chosen(kind: &str, all: Vec<Resource>, names: &[String]) -> Result<Vec<Resource>> {
    if names.is_empty() {
        return Ok(all);
    }
    let known: HashSet<_> = all.iter().map(|(name, _)| name).collect();
    if let Some(absent) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("FROM has no {kind} {absent}").into());
    }
    let chosen = all.into_iter().filter(|(name, _)| names.contains(name));
    Ok(chosen.collect())
}

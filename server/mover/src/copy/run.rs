//! A running copy: source, destination, and the treatment of each container, queue and table.

use crate::client::Client;
use crate::copy::journal::Journal;
use crate::error::{Error, Result};
use crate::existing::Existing;
use crate::fields::Resource;
use crate::progress::Progress;
use crate::resource_kind::ResourceKind;
use crate::{policies, resources};
use lazurite_base::locks::lock;
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The options of a copy.
pub struct Options {
    /// The services to copy; empty: those of the named resources, or all that both sides have.
    pub services: Vec<ServiceKind>,
    /// Names of containers; empty: all.
    pub containers: Vec<String>,
    pub queues: Vec<String>,
    pub tables: Vec<String>,
    pub existing: Existing,
    /// Number of requests at a time.
    pub parallel: usize,
    pub journal: Option<PathBuf>,
    /// How long requests are repeated after a connection broke.
    pub retry: Duration,
    /// Whether to accept the first messages of a queue if the server does not show all.
    pub takes_first_messages: bool,
    /// Whether copied blobs are read back from the destination and compared.
    pub reads_back: bool,
}

/// The state of a running copy.
pub(super) struct CopyRun<'a> {
    pub(super) from: Client,
    pub(super) to: Client,
    pub(super) options: &'a Options,
    pub(super) journal: Journal,
    pub(super) progress: Progress,
    /// Number of items that an earlier run has copied.
    pub(super) known: AtomicU64,
    /// Sentences about settings and states that are not copied, and about existing resources.
    pub(super) notes: Mutex<Vec<String>>,
}

/// The state of a destination resource after [`CopyRun::make`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// This run created the resource, or it existed and was empty.
    New,
    /// An earlier run of this copy began the resource.
    Ours,
    /// The resource existed and may have contents.
    Others,
    /// The resource existed and is left as it is.
    Left,
}

impl CopyRun<'_> {
    /// Makes a container, queue or table, if it is not there. Error: something was put there after
    /// [`CopyRun::check_unused`].
    pub(super) fn make(&self, kind: ResourceKind, (name, settings): &Resource) -> Result<Made> {
        let resource = format!("{kind} {name}");
        let mut settings = settings.clone();
        let place = format!("{resource}, its policies");
        match policies::of(&self.from, kind, name) {
            Ok(policies) => drop(settings.insert("policies".to_owned(), policies.into())),
            Err(error) => self.refused(&place, error)?,
        }
        let is_ours = self.journal.has_begun(&resource);
        let is_refused = self.options.existing == Existing::Refuse;
        if !is_ours && !is_refused && kind.exists(&self.to, name)? {
            if self.options.existing == Existing::Skip {
                self.note(format!("{resource} is there: left as it is"));
                return Ok(Made::Left);
            }
            self.complete(kind, name, &settings)?;
            return Ok(Made::Others);
        }
        if !is_ours && is_refused && resources::is_in_use(&self.to, kind, name)? {
            return Err("something was put there while the copy ran, and stays as it is".into());
        }
        // Recorded before the creation. After a kill, this shows that the resource is ours.
        self.journal.begin(&resource)?;
        match resources::make(&self.to, kind, name, &settings) {
            Ok(true) => {}
            Ok(false) => self.complete(kind, name, &settings)?,
            Err(error) => {
                // The resource may have been created, though without its policies.
                let has_policies = settings.remove("policies").is_some();
                if !has_policies || error.status() != Some(403) {
                    return Err(error);
                }
                resources::make(&self.to, kind, name, &settings)?;
                self.refused(&place, error)?;
            }
        }
        Ok(if is_ours { Made::Ours } else { Made::New })
    }

    /// Sets the policies of a destination resource that lacks them.
    fn complete(
        &self,
        kind: ResourceKind,
        name: &str,
        settings: &Map<String, Value>,
    ) -> Result<()> {
        let completed = policies::complete(&self.to, kind, name, settings);
        completed.or_else(|error| self.refused(&format!("{kind} {name}, its policies"), error))
    }

    /// Notes that a setting was refused, and continues: a SAS may lack the right to it. Error: a
    /// fatal error without the status 403, such as a broken connection.
    pub(super) fn refused(&self, what: &str, error: Error) -> Result<()> {
        let (is_fatal, status) = (error.is_fatal(), error.status());
        let error = error.within(what);
        if is_fatal && status != Some(403) {
            return Err(error);
        }
        self.note(error.to_string());
        Ok(())
    }

    /// Notes that contents were refused, and continues. Error: a fatal error, such as refused
    /// credentials or a broken connection.
    pub(super) fn leave_out(&self, what: &str, error: Error) -> Result<()> {
        let is_fatal = error.is_fatal();
        let error = error.within(what);
        if is_fatal {
            return Err(error);
        }
        self.progress.leave_out(error.to_string());
        Ok(())
    }

    pub(super) fn note(&self, sentence: String) {
        let mut notes = lock(&self.notes);
        notes.push(sentence);
    }

    pub(super) fn add_known(&self) {
        self.known.fetch_add(1, Ordering::Relaxed);
    }
}

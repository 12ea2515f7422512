//! A running copy: source and destination, and what it does about each container, queue and table.

use crate::commands::client::Client;
use crate::commands::transfer::copy::journal::Journal;
use crate::commands::transfer::error::{Error, Result};
use crate::commands::transfer::existing::Existing;
use crate::commands::transfer::fields::Resource;
use crate::commands::transfer::progress::Progress;
use crate::commands::transfer::resource_kind::ResourceKind;
use crate::commands::transfer::{policies, resources};
use crate::service_kind::ServiceKind;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What is copied, and how.
pub struct Options {
    /// Empty: those of which something is named, else all that both connection strings have.
    pub services: Vec<ServiceKind>,
    /// Empty: all.
    pub containers: Vec<String>,
    pub queues: Vec<String>,
    pub tables: Vec<String>,
    pub existing: Existing,
    /// Requests at a time.
    pub parallel: usize,
    pub journal: Option<PathBuf>,
    /// How long a request is sent again after its connection broke.
    pub retry: Duration,
    /// Copy what a server shows of a queue although it is not all.
    pub takes_first_messages: bool,
    /// Whether copied blobs are read again from the destination.
    pub reads_back: bool,
}

/// A copy that runs.
pub(super) struct CopyRun<'a> {
    pub(super) from: Client,
    pub(super) to: Client,
    pub(super) options: &'a Options,
    pub(super) journal: Journal,
    pub(super) progress: Progress,
    /// Items that an earlier run has copied.
    pub(super) known: AtomicU64,
    /// Sentences about settings and states that are not copied, and about what was there.
    pub(super) notes: Mutex<Vec<String>>,
}

/// What is at the destination after [`CopyRun::make`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// Made by this run; or it was there and empty.
    New,
    /// Begun by an earlier run of this copy.
    Ours,
    /// It was there.
    Others,
    /// It was there, and stays as it is.
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
        // Before it is made: after a kill, it is known as this copy's.
        self.journal.begin(&resource)?;
        match resources::make(&self.to, kind, name, &settings) {
            Ok(true) => {}
            Ok(false) => self.complete(kind, name, &settings)?,
            Err(error) => {
                // It may have been made, without its policies.
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

    /// Gives policies to a resource of the destination that is there without them.
    fn complete(
        &self,
        kind: ResourceKind,
        name: &str,
        settings: &Map<String, Value>,
    ) -> Result<()> {
        let completed = policies::complete(&self.to, kind, name, settings);
        completed.or_else(|error| self.refused(&format!("{kind} {name}, its policies"), error))
    }

    /// Notes that a setting was refused, and continues: a SAS may lack the right to it. Error: any
    /// other fatal error, such as a broken connection.
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
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(sentence);
    }

    pub(super) fn add_known(&self) {
        self.known.fetch_add(1, Ordering::Relaxed);
    }
}

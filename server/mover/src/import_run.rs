//! A running import: source, destination, treatment of existing resources, and report.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::existing::Existing;
use crate::files::{Source, resource_name};
use crate::progress::Progress;
use crate::resource_kind::ResourceKind;
use crate::{policies, resources};
use lazurite_base::locks::lock;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The state of a running import.
pub struct Import<'a> {
    pub client: &'a Client,
    pub source: &'a Source<'a>,
    pub existing: Existing,
    pub progress: &'a Progress,
    /// The directory of another program whose files contain the contents of blobs. With it, an
    /// import leaves out contents that the service refuses.
    pub foreign: Option<&'a Path>,
    /// Sentences about existing resources.
    notes: Mutex<Vec<String>>,
    /// The first container, queue or table that was skipped.
    skipped: OnceLock<String>,
}

impl<'a> Import<'a> {
    /// `foreign` is the directory of the other program, if the source was converted from one.
    pub fn new(
        client: &'a Client,
        source: &'a Source<'a>,
        existing: Existing,
        progress: &'a Progress,
        foreign: Option<&'a Path>,
    ) -> Import<'a> {
        Import {
            client,
            source,
            existing,
            progress,
            foreign,
            notes: Mutex::default(),
            skipped: OnceLock::new(),
        }
    }

    /// The notes, and the first container, queue or table that was skipped.
    pub fn end(self) -> (Vec<String>, Option<String>) {
        let notes = self.notes.into_inner();
        let notes = notes.unwrap_or_else(PoisonError::into_inner);
        (notes, self.skipped.into_inner())
    }
}

impl Import<'_> {
    /// The names of the containers, queues or tables to import. They come from files with the
    /// extensions of the kind, and for containers also from directories.
    pub fn resources(&self, kind: ResourceKind) -> Result<Vec<String>> {
        let directory = kind.directory();
        let endings = kind.endings();
        let mut names = BTreeSet::new();
        for (name, is_file) in self.source.list(directory)? {
            let by_ending = || {
                let mut stems = endings.iter().filter_map(|ending| {
                    let stem = name.strip_suffix(ending)?.strip_suffix('.')?;
                    (!stem.contains('.')).then_some(stem)
                });
                stems.next()
            };
            // A directory has the blobs of the container with its name.
            let found = if is_file {
                by_ending()
            } else {
                (kind == ResourceKind::Container).then_some(&*name)
            };
            let found = found.ok_or_else(|| outside_layout(&format!("{directory}/{name}")));
            names.insert(resource_name(found?).to_owned());
        }
        Ok(names.into_iter().collect())
    }

    /// Makes a container, queue or table with its settings. Returns whether it is new; `None` if it
    /// exists and stays as it is. One that was refused and left out counts as new.
    pub fn make(&self, kind: ResourceKind, name: &str) -> Result<Option<bool>> {
        let settings = kind.settings(name);
        let mut fields = self.source.read_settings(&settings)?;
        let mut made = resources::make(self.client, kind, name, &fields);
        let what = match self.foreign {
            Some(_) => format!("{kind} {name}"),
            None => settings,
        };
        let is_forbidden = |error: &Error| error.code() == "PublicAccessNotPermitted";
        if self.foreign.is_some() && made.as_ref().is_err_and(is_forbidden) {
            fields.remove("publicAccess");
            self.progress.leave_out(format!(
                "{what}: its public access, which the server does not permit"
            ));
            made = resources::make(self.client, kind, name, &fields);
        }
        let Some(is_new) = self.or_leave_out(&what, made)? else {
            // The resource may have been created, though without its policies.
            return Ok(Some(true));
        };
        if !is_new && self.existing == Existing::Skip {
            self.note_existing(kind, name, "left as it is");
            let _ = self.skipped.set(format!("{kind} {name}"));
            return Ok(None);
        }
        if !is_new {
            let completed = policies::complete(self.client, kind, name, &fields);
            self.or_leave_out(&what, completed)?;
        }
        Ok(Some(is_new))
    }

    /// The value; `None` if the item is left out, with a sentence in the report. The error begins
    /// with `what`.
    pub fn or_leave_out<T>(&self, what: &str, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(done) => Ok(Some(done)),
            Err(error) if self.leaves_out(&error) => {
                self.progress.leave_out(error.within(what).to_string());
                Ok(None)
            }
            Err(error) => Err(error.within(what)),
        }
    }

    /// Whether the import continues without the item that failed with this error.
    pub fn leaves_out(&self, error: &Error) -> bool {
        self.foreign.is_some() && !error.is_fatal()
    }

    pub fn note_existing(&self, kind: ResourceKind, name: &str, what: &str) {
        self.note(format!("{kind} {name} is there: {what}"));
    }

    /// Adds a sentence to the report.
    pub fn note(&self, sentence: String) {
        let mut notes = lock(&self.notes);
        notes.push(sentence);
    }
}

/// The error for a file that is not part of the layout.
pub fn outside_layout(path: &str) -> Error {
    Error::from("it is no part of the layout of an export").within(path)
}

//! `lazurite import`: an export, or a directory that people wrote in the same layout, into a store.

use crate::commands::client::Client;
use crate::commands::transfer::archive::UnpackLimits;
use crate::commands::transfer::asking::send;
use crate::commands::transfer::checks::check_service_properties;
use crate::commands::transfer::fields::{FORMAT, MANIFEST};
use crate::commands::transfer::files::{Source, Target};
use crate::commands::transfer::import_error::ImportError;
use crate::commands::transfer::progress::Progress;
use crate::commands::transfer::resource_kind::ResourceKind;
use crate::commands::transfer::scratch::Scratch;
use crate::commands::transfer::{
    Error, Result, archive, blobs, declaration, export::properties_path, policies, queues, tables,
};
use crate::service_kind::ServiceKind;
use clap::ValueEnum;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What directories with intermediate files begin with.
const SCRATCH: &str = ".lazurite-import-";

/// What happens to containers, queues and tables that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Existing {
    /// If one of them holds anything, nothing is imported
    Refuse,
    /// They are left as they are
    Skip,
    /// Blobs and entities of the same names are replaced, others stay; messages are deleted first
    Replace,
}

/// What an import works with.
pub struct Import<'a> {
    pub client: &'a Client,
    pub source: &'a Source<'a>,
    pub existing: Existing,
    pub progress: &'a Progress,
    /// The directory of another program whose files contain the contents of blobs. With it, an
    /// import leaves out what the service refuses.
    pub foreign: Option<&'a Path>,
    /// Sentences about what was there.
    notes: Mutex<Vec<String>>,
    /// The first container, queue or table that was skipped.
    skipped: OnceLock<String>,
}

/// What was imported: the counts, and sentences about what was there.
pub struct Imported {
    pub counts: String,
    /// The counts as a JSON object.
    pub json: Value,
    pub notes: Vec<String>,
    /// The first container, queue or table that was there and stayed as it was.
    pub skipped: Option<String>,
}

impl Import<'_> {
    /// The names of the containers, queues or tables: of directories, and of files with the
    /// extensions of the kind.
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
                stems.next().map(str::to_owned)
            };
            // Directories hold the blobs of containers.
            let found = if is_file {
                by_ending()
            } else {
                (kind == ResourceKind::Container).then(|| name.clone())
            };
            let found = found.ok_or_else(|| outside_layout(&format!("{directory}/{name}")));
            names.insert(found?);
        }
        Ok(names.into_iter().collect())
    }

    /// Makes a container, queue or table with its settings. Returns whether it is new; `None` if it
    /// exists and stays as it is.
    pub fn make(&self, kind: ResourceKind, name: &str) -> Result<Option<bool>> {
        let settings = kind.settings(name);
        let mut fields = self.source.read_settings(&settings)?;
        let mut made = kind.make(self.client, name, &fields);
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
            made = kind.make(self.client, name, &fields);
        }
        let Some(is_new) = self.or_leave_out(&what, made)? else {
            // It may have been made, without its policies.
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

    /// Notes what is refused and left out; `None` then. The error begins with the name.
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

    /// Whether the import continues without the item of this error.
    pub fn leaves_out(&self, error: &Error) -> bool {
        self.foreign.is_some() && !error.is_fatal()
    }

    pub fn note_existing(&self, kind: ResourceKind, name: &str, what: &str) {
        self.note(format!("{kind} {name} is there: {what}"));
    }

    /// Adds a sentence to the report.
    pub fn note(&self, sentence: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(sentence);
    }

    /// Writes everything. Calls `begin` before the first write.
    fn write(&self, begin: &dyn Fn() -> Result<(), String>) -> Result<(), ImportError> {
        if self.existing == Existing::Refuse
            && let Some(name) = find_in_use(self).map_err(ImportError::NotBegun)?
        {
            return Err(ImportError::InUse(name));
        }
        begin()?;
        self.write_all().map_err(ImportError::Begun)
    }

    fn write_all(&self) -> Result<()> {
        blobs::import(self)?;
        queues::import(self)?;
        tables::import(self)?;
        // Last: logs and metrics begin with them.
        for service in ServiceKind::ALL {
            let path = properties_path(service);
            if let Some(properties) = self.source.read(&path)? {
                let resource = "?restype=service&comp=properties";
                let sent = send(self.client, service, "PUT", resource, &[], &properties);
                self.or_leave_out(&path, sent.map(drop))?;
            }
        }
        Ok(())
    }

    /// Sentences about what was there.
    fn into_notes(self) -> Vec<String> {
        let notes = self.notes.into_inner();
        notes.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Imports a directory, an archive or a TOML file. Calls `begin` after all checks and before the
/// first write.
pub fn import(
    client: &Client,
    path: &Path,
    existing: Existing,
    begin: &dyn Fn() -> Result<(), String>,
) -> Result<Imported, ImportError> {
    let at_path = |error| Error::of_file(path, error);
    if fs::metadata(path).map_err(at_path)?.is_dir() {
        let source = Source::new(path);
        return import_directory(client, &source, existing, Progress::new(), begin);
    }
    if declaration::is_name(path) {
        let place = std::env::temp_dir();
        let layout =
            Scratch::new(&place, SCRATCH).map_err(|error| Error::of_file(&place, error))?;
        let target = Target::new(layout.path());
        declaration::convert(path, &target)
            .map_err(|error| ImportError::Content(error.into()).of(path))?;
        let source = Source::new(layout.path());
        return import_directory(client, &source, existing, Progress::new(), begin);
    }
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    // Beside it there is room, unless that is mounted to be read only.
    let unpacked = Scratch::new(parent.unwrap_or(Path::new(".")), SCRATCH)
        .or_else(|_| Scratch::new(&std::env::temp_dir(), SCRATCH))
        .map_err(at_path)?;
    let archive = File::open(path).map_err(at_path)?;
    unpack(archive, unpacked.path(), &UnpackLimits::NONE).map_err(|error| error.of(path))?;
    let source = Source::new(unpacked.path());
    import_directory(client, &source, existing, Progress::new(), begin)
}

/// Unpacks an archive into an empty directory. Errors: those of [`archive::unpack`]; it is not a
/// complete export.
pub fn unpack(
    archive: impl Read,
    root: &Path,
    limits: &UnpackLimits<'_>,
) -> Result<(), ImportError> {
    archive::unpack(archive, root, limits)?;
    let manifest = Source::new(root).read(MANIFEST);
    if manifest.map_err(ImportError::Content)?.is_none() {
        let reason = format!("it is no whole export: {MANIFEST} is missing");
        return Err(ImportError::Content(reason.into()));
    }
    Ok(())
}

/// Imports a directory, with a manifest or without. Calls `begin` after all checks and before the
/// first write.
pub fn import_directory(
    client: &Client,
    source: &Source<'_>,
    existing: Existing,
    progress: Progress,
    begin: &dyn Fn() -> Result<(), String>,
) -> Result<Imported, ImportError> {
    let import = Import {
        client,
        source,
        existing,
        progress: &progress,
        foreign: None,
        notes: Mutex::default(),
        skipped: OnceLock::new(),
    };
    check(&import)?;
    import.write(begin)?;
    let skipped = import.skipped.get().cloned();
    let notes = import.into_notes();
    let (counts, json) = (progress.counts(), progress.json());
    let _ = progress.end();
    Ok(Imported {
        counts,
        json,
        notes,
        skipped,
    })
}

/// Reads and checks everything to import. Errors: what an import would refuse without asking the
/// service.
fn check(import: &Import<'_>) -> Result<(), ImportError> {
    check_format(import.source)
        .and_then(|()| check_places(import.source))
        .and_then(|()| check_all_service_properties(import.source))
        .and_then(|()| blobs::check(import))
        .and_then(|()| queues::check(import))
        .map_err(ImportError::Content)?;
    tables::check(import)
}

/// Imports a directory that was converted from the files of another program, those at `foreign`.
/// Returns sentences about what already existed.
pub fn import_converted(
    client: &Client,
    root: &Path,
    foreign: &Path,
    existing: Existing,
    progress: &Progress,
) -> Result<Vec<String>, ImportError> {
    let source = Source::new(root);
    let import = Import {
        client,
        source: &source,
        existing,
        progress,
        foreign: Some(foreign),
        notes: Mutex::default(),
        skipped: OnceLock::new(),
    };
    import.write(&|| Ok(()))?;
    Ok(import.into_notes())
}

/// A directory without a manifest was written by people.
fn check_format(source: &Source<'_>) -> Result<()> {
    let manifest = source.read_settings(MANIFEST)?;
    match manifest.get("format").and_then(serde_json::Value::as_u64) {
        Some(FORMAT) => Ok(()),
        None if manifest.is_empty() => Ok(()),
        Some(format) => {
            let reason = format!("its format is {format}, and this release reads {FORMAT}");
            Err(Error::from(reason).within(MANIFEST))
        }
        None => Err(Error::from("format: it is no number").within(MANIFEST)),
    }
}

/// Refuses names that no import reads, at the top and among the service properties: they would be
/// left out silently. Notes and hidden files next to the data are allowed.
fn check_places(source: &Source<'_>) -> Result<()> {
    for (name, is_file) in source.list_top()? {
        let is_known = if is_file {
            name == MANIFEST || name.ends_with(".md")
        } else {
            ["blobs", "queues", "tables", "services"].contains(&name.as_str())
        };
        if !is_known {
            return Err(outside_layout(&name));
        }
    }
    let known = ServiceKind::ALL.map(properties_path);
    for (name, _) in source.list("services")? {
        let path = format!("services/{name}");
        if !known.contains(&path) {
            return Err(outside_layout(&path));
        }
    }
    Ok(())
}

fn check_all_service_properties(source: &Source<'_>) -> Result<()> {
    for service in ServiceKind::ALL {
        let path = properties_path(service);
        if let Some(document) = source.read(&path)? {
            check_service_properties(service, &document)
                .map_err(|error| Error::from(error).within(&path))?;
        }
    }
    Ok(())
}

fn outside_layout(path: &str) -> Error {
    Error::from("it is no part of the layout of an export").within(path)
}

/// The first container, queue or table that is to be imported and holds something.
fn find_in_use(import: &Import<'_>) -> Result<Option<String>> {
    for kind in ResourceKind::ALL {
        for name in import.resources(kind)? {
            if kind.is_in_use(import.client, &name)? {
                return Ok(Some(format!("{kind} {name}")));
            }
        }
    }
    Ok(None)
}

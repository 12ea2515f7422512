//! Imports a directory in the layout of an export into the services of a client.

use crate::asking::send;
use crate::checks::check_service_properties;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::existing::Existing;
use crate::fields::{FORMAT, MANIFEST, properties_path};
use crate::files::Source;
use crate::import_error::ImportError;
use crate::import_run::{Import, outside_layout};
use crate::progress::{LEFT_OUT_KEPT, Progress};
use crate::resource_kind::ResourceKind;
use crate::resources::is_in_use;
use crate::{blobs, queues, tables};
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::Value;
use std::path::Path;

/// The result of an import: the counts, and sentences about existing items and items left out.
pub struct Imported {
    pub counts: String,
    /// The counts as a JSON object.
    pub json: Value,
    pub notes: Vec<String>,
    /// Sentences about items left out; only imports from another program leave any out.
    pub left_out: Vec<String>,
    /// The first container, queue or table that existed and was skipped.
    pub skipped: Option<String>,
}

impl Imported {
    /// Also ends the progress line on the terminal.
    pub fn new(progress: Progress, notes: Vec<String>, skipped: Option<String>) -> Imported {
        Imported {
            counts: progress.counts(),
            json: progress.json(),
            notes,
            left_out: progress.end(LEFT_OUT_KEPT),
            skipped,
        }
    }
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
    let import = Import::new(client, source, existing, &progress, None);
    check(&import)?;
    write(&import, begin)?;
    let (notes, skipped) = import.end();
    Ok(Imported::new(progress, notes, skipped))
}

/// Imports a directory that was converted from the files of another program at `foreign`. Returns
/// sentences about what already existed.
pub fn import_converted(
    client: &Client,
    root: &Path,
    foreign: &Path,
    existing: Existing,
    progress: &Progress,
) -> Result<Vec<String>, ImportError> {
    let source = Source::new(root);
    let import = Import::new(client, &source, existing, progress, Some(foreign));
    write(&import, &|| Ok(()))?;
    Ok(import.end().0)
}

/// Reads and checks everything to import. Errors: all that an import refuses without asking the
/// service.
fn check(import: &Import<'_>) -> Result<(), ImportError> {
    check_format(import.source)
        .and_then(|()| check_places(import.source))
        .and_then(|()| check_all_service_properties(import.source))
        .and_then(|()| blobs::check::check(import))
        .and_then(|()| queues::import::check(import))
        .map_err(ImportError::Content)?;
    tables::check::check(import)
}

/// Refuses other formats. A directory without a manifest was written by hand and is accepted.
fn check_format(source: &Source<'_>) -> Result<()> {
    let manifest = source.read_settings(MANIFEST)?;
    match manifest.get("format").and_then(Value::as_u64) {
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
/// left out silently. Markdown files and hidden files at the top are allowed.
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

/// Writes everything. Calls `begin` before the first write.
fn write(import: &Import<'_>, begin: &dyn Fn() -> Result<(), String>) -> Result<(), ImportError> {
    if import.existing == Existing::Refuse
        && let Some(name) = find_in_use(import).map_err(ImportError::NotBegun)?
    {
        return Err(ImportError::InUse(name));
    }
    begin()?;
    write_all(import).map_err(ImportError::Begun)
}

fn write_all(import: &Import<'_>) -> Result<()> {
    blobs::import::import(import)?;
    queues::import::import(import)?;
    tables::import::import(import)?;
    // Last, because logs and metrics begin with these properties.
    for service in ServiceKind::ALL {
        let path = properties_path(service);
        if let Some(properties) = import.source.read(&path)? {
            let resource = "?restype=service&comp=properties";
            let sent = send(import.client, service, "PUT", resource, &[], &properties);
            import.or_leave_out(&path, sent.map(drop))?;
        }
    }
    Ok(())
}

/// The first container, queue or table to import that exists and is not empty.
fn find_in_use(import: &Import<'_>) -> Result<Option<String>> {
    for kind in ResourceKind::ALL {
        for name in import.resources(kind)? {
            if is_in_use(import.client, kind, &name)? {
                return Ok(Some(format!("{kind} {name}")));
            }
        }
    }
    Ok(None)
}

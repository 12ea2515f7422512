//! Exports the contents of an account to a directory.

use crate::asking::ask;
use crate::client::Client;
use crate::error::Result;
use crate::fields::{FORMAT, MANIFEST, properties_path};
use crate::files::Target;
use crate::progress::Progress;
use crate::{blobs, queues, tables};
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The result of an export: the counts, and sentences about items that were left out.
pub struct Exported {
    pub counts: String,
    pub left_out: Vec<String>,
    /// Number of blobs exported without their immutability policy or legal hold.
    pub unprotected: u64,
}

/// Exports all services of the connection string to an empty directory. Returns at most
/// `left_out_max` sentences about what was left out.
pub fn export_directory(
    client: &Client,
    root: &Path,
    progress: Progress,
    left_out_max: usize,
) -> Result<Exported> {
    write(client, &Target::new(root), &progress)?;
    Ok(Exported {
        counts: progress.counts(),
        unprotected: progress.unprotected.load(Ordering::Relaxed),
        left_out: progress.end(left_out_max),
    })
}

fn write(client: &Client, target: &Target<'_>, progress: &Progress) -> Result<()> {
    for service in ServiceKind::ALL {
        if !client.has(service) {
            continue;
        }
        let resource = "?restype=service&comp=properties";
        let properties = ask(client, service, "GET", resource)?.text()?;
        target.write(&properties_path(service), properties.as_bytes())?;
        match service {
            ServiceKind::Blob => blobs::export::export(client, target, progress)?,
            ServiceKind::Queue => queues::export::export(client, target, progress)?,
            ServiceKind::Table => tables::export::export(client, target, progress)?,
        }
    }
    let mut manifest = Map::new();
    manifest.insert("format".to_owned(), Value::from(FORMAT));
    target.write_settings(MANIFEST, manifest)
}

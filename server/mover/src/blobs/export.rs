//! Writes containers and their blobs to the files of an export.

use crate::asking::patiently;
use crate::blobs::container::{containers, each_listed, property, resource};
use crate::blobs::line::line_of;
use crate::client::{Call, Client};
use crate::error::{Error, Result};
use crate::fields::header;
use crate::files::{BlobFiles, Target};
use crate::parallel::{Hand, in_parallel};
use crate::policies;
use crate::progress::Progress;
use crate::resource_kind::ResourceKind;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use lazurite_services::http_client::Upload;
use serde_json::Value;
use std::io::{self, Write};

/// Writes all containers.
pub fn export(client: &Client, target: &Target<'_>, progress: &Progress) -> Result<()> {
    for (name, mut settings) in containers(client)? {
        let policies = policies::of(client, ResourceKind::Container, &name)?;
        settings.insert("policies".to_owned(), policies.into());
        target.write_settings(&ResourceKind::Container.settings(&name), settings)?;
        progress.add(&progress.containers, 1);
        export_container(client, &name, target, progress)?;
    }
    Ok(())
}

/// A blob whose content is to be read.
struct Job {
    name: String,
    etag: String,
    bytes: u64,
    path: String,
}

fn export_container(
    client: &Client,
    container: &str,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<()> {
    let lines_path = ResourceKind::Container.lines(container);
    let produce = |hand: &mut Hand<'_, Job>| {
        let mut lines = target.create(&lines_path)?;
        let mut files = BlobFiles::default();
        each_listed(client, container, "metadata,tags", &mut |blob| {
            let name = &*blob.child_name("Name");
            if let Some(reason) = reason_to_leave_out(blob) {
                progress.leave_out(format!("{container}/{name}: {reason}"));
                return Ok(());
            }
            progress.add(&progress.unprotected, is_protected(blob).into());
            let file = files.choose(name);
            let line = line_of(blob, name, &file);
            writeln!(lines, "{}", Value::from(line)).map_err(Error::of_named_file)?;
            hand(Job {
                name: name.to_owned(),
                etag: property(blob, "Etag").to_owned(),
                bytes: property(blob, "Content-Length").parse().unwrap_or(0),
                path: format!("blobs/{container}/{file}"),
            })
        })?;
        lines.flush().map_err(Error::of_named_file)
    };
    in_parallel(produce, |job| {
        read_content(client, container, job, target, progress)
    })
}

/// Whether an immutability policy or a legal hold protects a listed blob.
fn is_protected(blob: &Element) -> bool {
    let has_policy = !property(blob, "ImmutabilityPolicyUntilDate").is_empty();
    has_policy || property(blob, "LegalHold") == "true"
}

/// Why the content of a blob cannot be read; `None` if it can.
pub fn reason_to_leave_out(blob: &Element) -> Option<&'static str> {
    let properties = blob.child("Properties")?;
    if properties.raw_text("AccessTier") == "Archive" {
        return Some("its tier is Archive, from which nothing can be read: rehydrate it first");
    }
    properties
        .child("CustomerProvidedKeySha256")
        .map(|_| "it is encrypted with a key that only its client has")
}

/// Writes the content of a blob to its file.
fn read_content(
    client: &Client,
    container: &str,
    job: Job,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<()> {
    let at_blob = |error: Error| error.within(format_args!("{container}/{}", job.name));
    let mut file = target.create(&job.path)?;
    if job.bytes > 0 {
        let headers = vec![header("If-Match", &quoted(&job.etag))];
        let resource = resource(container, &job.name);
        let reply = patiently(client, || {
            let call = Call {
                service: ServiceKind::Blob,
                method: "GET",
                resource: resource.clone(),
                headers: headers.clone(),
            };
            client.send(call, Upload::empty())
        });
        let mut reply = reply.map_err(|error| match error.code() {
            "ConditionNotMet" | "BlobNotFound" => {
                at_blob("it was changed while it was exported: export again".into())
            }
            _ => at_blob(error),
        })?;
        let read = io::copy(reply.body(), &mut file);
        let read = read.map_err(|error| at_blob(Error::of_named_file(error)))?;
        if read != job.bytes {
            let reason = format!("it ended after {read} of {} bytes", job.bytes);
            return Err(at_blob(Error::broken(reason)));
        }
    }
    file.flush()
        .map_err(|error| at_blob(Error::of_named_file(error)))?;
    progress.add(&progress.bytes, job.bytes);
    progress.add(&progress.blobs, 1);
    Ok(())
}

/// An ETag in quotes, which listings omit.
pub fn quoted(etag: &str) -> String {
    format!("\"{}\"", etag.trim_matches('"'))
}

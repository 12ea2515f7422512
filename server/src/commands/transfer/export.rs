//! `lazurite export`: everything of an account to a directory or an archive.

use crate::commands::client::Client;
use crate::commands::transfer::asking::ask;
use crate::commands::transfer::fields::{FORMAT, MANIFEST};
use crate::commands::transfer::files::Target;
use crate::commands::transfer::progress::Progress;
use crate::commands::transfer::scratch::Scratch;
use crate::commands::transfer::{Error, Result, archive, blobs, plain, queues, tables};
use crate::platform::keep_private;
use crate::service_kind::ServiceKind;
use serde_json::{Map, Value};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What was exported: the counts, and sentences about what was left out.
pub struct Exported {
    pub counts: String,
    pub left_out: Vec<String>,
    /// Blobs that are exported without their immutability policy or legal hold.
    pub unprotected: u64,
}

/// Exports all services of the connection string. A path that ends in `.tar.zst` becomes an
/// archive, any other one a directory, which may exist if it is empty.
pub fn export(client: &Client, path: &Path) -> Result<Exported> {
    archive::check_name(path)?;
    check_place(path)?;
    write_beside(client, path, |_, _| Ok(path.to_path_buf()))
}

/// Exports to an empty directory, without showing progress. Returns sentences about what was left
/// out, and the number of blobs that are exported without their immutability policy or legal hold.
pub fn write_to(client: &Client, root: &Path) -> Result<(Vec<String>, u64)> {
    let progress = Progress::silent();
    write(client, &Target::new(root), &progress)?;
    let unprotected = progress.unprotected.load(Ordering::Relaxed);
    Ok((progress.end_with_all(), unprotected))
}

/// Like [`export`], and replaces an earlier archive. An archive that is not complete replaces
/// nothing: it becomes `FILE.incomplete`, and the error says so.
pub fn replace(client: &Client, path: &Path) -> Result<Exported> {
    let exported = write_beside(client, path, |written, left_out| {
        keep_private(written, path).map_err(|error| Error::of_file(path, error))?;
        Ok(if left_out.is_empty() {
            path.to_path_buf()
        } else {
            incomplete(path)
        })
    })?;
    if exported.left_out.is_empty() {
        return Ok(exported);
    }
    let left_out: Vec<_> = exported.left_out.iter().map(|one| plain(one)).collect();
    let sentence = format!(
        "the export is not whole, so that {} stays as it was, and the export is {}. Not exported: {}",
        path.display(),
        incomplete(path).display(),
        left_out.join("; ")
    );
    Err(sentence.into())
}

fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".incomplete");
    name.into()
}

/// Exports to a temporary path next to `path`, and renames the result to the path that `place`
/// chooses, given the sentences about what was left out. The name of `path` decides between a
/// directory and an archive.
fn write_beside(
    client: &Client,
    path: &Path,
    place: impl FnOnce(&Path, &[String]) -> Result<PathBuf>,
) -> Result<Exported> {
    let is_archive = archive::is_name(path);
    let parent = parent_of(path)?;
    // Beside its place, so that it can be renamed; gone if this fails.
    let scratch = Scratch::new(&parent, ".lazurite-export-");
    let scratch = scratch.map_err(|error| Error::of_file(&parent, error))?;
    let root = scratch.path().join("export");
    let progress = Progress::new();
    write(client, &Target::new(&root), &progress)?;
    let counts = progress.counts();
    let unprotected = progress.unprotected.load(Ordering::Relaxed);
    let left_out = progress.end();
    let written = if is_archive {
        let packed = scratch.path().join("archive");
        archive::pack(&root, &packed)?;
        packed
    } else {
        root
    };
    let place = place(&written, &left_out)?;
    fs::rename(&written, &place).map_err(|error| Error::of_file(&place, error))?;
    sync(&parent);
    Ok(Exported {
        counts,
        left_out,
        unprotected,
    })
}

/// Makes a rename durable. Not all systems open directories.
fn sync(directory: &Path) {
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
}

fn check_place(path: &Path) -> Result<()> {
    let is_empty = |path: &Path| {
        let entries = fs::read_dir(path);
        entries.is_ok_and(|mut entries| entries.next().is_none())
    };
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(_) if is_empty(path) => Ok(()),
        Ok(_) => Err(format!("{} exists already", path.display()).into()),
    }
}

fn parent_of(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(|error| Error::of_file(path, error))?;
    let parent = path.parent().filter(|_| path.file_name().is_some());
    let parent =
        parent.ok_or_else(|| format!("{} names no place for an export", path.display()))?;
    fs::create_dir_all(parent).map_err(|error| Error::of_file(parent, error))?;
    Ok(parent.to_path_buf())
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
            ServiceKind::Blob => blobs::export(client, target, progress)?,
            ServiceKind::Queue => queues::export(client, target, progress)?,
            ServiceKind::Table => tables::export(client, target, progress)?,
        }
    }
    let mut manifest = Map::new();
    manifest.insert("format".to_owned(), Value::from(FORMAT));
    target.write_settings(MANIFEST, manifest)
}

/// The file with the properties of a service.
pub fn properties_path(service: ServiceKind) -> String {
    format!("services/{}.xml", service.label())
}

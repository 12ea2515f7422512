//! `lazurite export` and `lazurite import`: everything that an account stores, as files that people
//! can read and edit. `lazurite copy`: the same between two servers, without files (`copy/`).
//!
//! The layout, which `docs/export.md` describes for users:
//!
//! ```text
//! lazurite-export.json          the version of the layout; written last
//! services/blob.xml             service properties, as the service shows them; also queue.xml, table.xml
//! blobs/photos.json             a container: public access, metadata, stored access policies
//! blobs/photos.blobs.jsonl      its blobs, one JSON object a line
//! blobs/photos/2026/lake.jpg    their content
//! queues/work.json              a queue: metadata, stored access policies
//! queues/work.messages.jsonl    its messages, the next one first
//! tables/Customers.json         a table: stored access policies
//! tables/Customers.entities.jsonl
//! ```
//!
//! An archive is the same as a tar file, compressed by Zstandard. An export is written under a
//! temporary name next to its path, and renamed. Directories and archives are not trusted: paths
//! stay inside, links are refused, lines and settings have limits.

mod archive;
mod asking;
pub mod azurite;
mod blobs;
mod checks;
mod content;
mod copy;
mod declaration;
mod error;
mod export;
mod fields;
mod files;
mod import;
mod import_error;
mod key_hashes;
mod parallel;
mod policies;
mod progress;
mod queues;
mod resource_kind;
mod scratch;
mod tables;

pub use archive::{UnpackLimits, is_name as is_archive_name, pack_into};
pub use copy::{Options as CopyOptions, run as run_copy};
pub use error::{Error, Result};
pub use import::{Existing, Imported, unpack};
pub use import_error::{ImportError, choices_about_existing};
pub use scratch::scratch_in;

use crate::commands::client::Client;
use crate::commands::terminal::{plain, print_line};
use files::Source;
use progress::Progress;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Exports, and says what. The exit status is a failure if anything was left out.
pub fn run_export(client: &Client, path: &Path) -> Result<ExitCode, String> {
    let exported = export::export(client, path)?;
    for sentence in &exported.left_out {
        eprintln!("not exported: {}", plain(sentence));
    }
    if exported.unprotected > 0 {
        eprintln!(
            "exported without immutability policies and legal holds: {} blobs",
            exported.unprotected
        );
    }
    print_line(format_args!("{}: {}", path.display(), exported.counts));
    Ok(if exported.left_out.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Imports, and says what.
pub fn run_import(client: &Client, path: &Path, existing: Existing) -> Result<ExitCode, String> {
    let imported = import::import(client, path, existing, &|| Ok(()))?;
    for sentence in &imported.notes {
        print_line(plain(sentence));
    }
    print_line(format_args!("{}: {}", path.display(), imported.counts));
    Ok(ExitCode::SUCCESS)
}

/// What [`seed`] has done.
pub struct Seeded {
    pub sentences: Vec<String>,
    /// The first container, queue or table that was there already and stayed as it was.
    pub skipped: Option<String>,
}

/// Imports into the server of a connection string, and skips what exists. Calls `begin` after all
/// checks and before the first write.
pub fn seed(
    connection_string: &str,
    path: &Path,
    begin: &dyn Fn() -> Result<(), String>,
) -> Result<Seeded, String> {
    let client = Client::new(Some(connection_string))?;
    let imported = import::import(&client, path, Existing::Skip, begin)?;
    let mut sentences = imported.notes;
    sentences.push(format!("{}: {}", path.display(), imported.counts));
    Ok(Seeded {
        sentences,
        skipped: imported.skipped,
    })
}

/// Exports the store of a connection string to an archive, which replaces an earlier one. Returns a
/// sentence. Fails if something was left out; then the earlier archive stays.
pub fn carry(connection_string: &str, path: &Path) -> Result<String, String> {
    let client = Client::new(Some(connection_string))?;
    let exported = export::replace(&client, path)?;
    Ok(format!(
        "exported to {}: {}",
        path.display(),
        exported.counts
    ))
}

/// Exports the store of a connection string to an empty directory, for [`pack_into`]. Returns
/// sentences about what was left out, and the number of blobs that are exported without their
/// immutability policy or legal hold.
pub fn export_to(connection_string: &str, root: &Path) -> Result<(Vec<String>, u64)> {
    export::write_to(&Client::new(Some(connection_string))?, root)
}

/// Imports a directory that [`unpack`] has made into the store of a connection string. Ends early
/// once `stop` is true.
pub fn import_unpacked(
    connection_string: &str,
    root: &Path,
    existing: Existing,
    stop: &AtomicBool,
) -> Result<Imported, ImportError> {
    let client = Client::new(Some(connection_string))?;
    let source = Source::stoppable(root, stop);
    import::import_directory(&client, &source, existing, Progress::silent(), &|| Ok(()))
}

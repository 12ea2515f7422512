//! `lazurite export` and `lazurite import`: everything that an account stores, as files that users
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
mod copy;
mod declaration;
mod error;
mod existing;
mod export;
mod fields;
mod files;
mod formats;
mod import;
mod import_error;
mod import_run;
mod key_hashes;
mod listing;
mod parallel;
mod policies;
mod progress;
mod queues;
mod resource_kind;
mod resources;
mod scratch;
mod tables;

pub use archive::{UnpackLimits, is_name as is_archive_name, pack_into};
pub use copy::{Options as CopyOptions, run as run_copy};
pub use error::{Error, Result};
pub use existing::{Existing, choices_about_existing};
pub use export::export_directory;
pub use files::Source;
pub use formats::{export, import, replace, unpack};
pub use import::{Imported, import_directory};
pub use import_error::ImportError;
pub use progress::{LEFT_OUT_KEPT, Progress};
pub use scratch::scratch_in;
pub use tables::batches::write_lines;
pub use tables::entities::{Fields, make_table, read_page};

use crate::commands::client::Client;
use crate::commands::terminal::{plain, print_line};
use std::path::Path;
use std::process::ExitCode;

/// Runs an export and reports it. The exit status is a failure if anything was left out.
pub fn run_export(client: &Client, path: &Path) -> Result<ExitCode, String> {
    let exported = export(client, path)?;
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
    Ok(status(&exported.left_out))
}

/// Runs an import and reports it.
pub fn run_import(client: &Client, path: &Path, existing: Existing) -> Result<ExitCode, String> {
    let imported = import(client, path, existing, &|| Ok(()))?;
    Ok(say_imported(path, &imported))
}

/// Imports a data directory of Azurite, and prints the result. The exit status is a failure if
/// anything was left out.
pub fn run_import_azurite(
    client: &Client,
    path: &Path,
    account: Option<&str>,
    existing: Existing,
) -> Result<ExitCode, String> {
    let imported = azurite::import_account(client, path, account, existing)?;
    Ok(say_imported(path, &imported))
}

/// Reports what was imported and what was left out.
fn say_imported(path: &Path, imported: &Imported) -> ExitCode {
    for sentence in &imported.notes {
        print_line(plain(sentence));
    }
    for sentence in &imported.left_out {
        eprintln!("not imported: {}", plain(sentence));
    }
    print_line(format_args!("{}: {}", path.display(), imported.counts));
    status(&imported.left_out)
}

fn status(left_out: &[String]) -> ExitCode {
    if left_out.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

//! `lazurite export`, `import`, `import-azurite` and `copy`: print what was moved and what was left
//! out.

use lazurite_base::terminal::{plain, print_line};
use lazurite_mover::{Client, CopyOptions, Existing, Imported, azurite};
use std::path::Path;
use std::process::ExitCode;

/// Runs an export and reports it. The exit status is a failure if anything was left out.
pub fn run_export(client: &Client, path: &Path) -> Result<ExitCode, String> {
    let exported = lazurite_mover::export(client, path)?;
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
    let imported = lazurite_mover::import(client, path, existing, &|| Ok(()))?;
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

/// Runs a copy and reports it. The exit status is a failure if contents were left out.
pub fn run_copy(from: &str, to: &str, options: &CopyOptions) -> Result<ExitCode, String> {
    let copied = lazurite_mover::copy(from, to, options)?;
    for note in &copied.notes {
        print_line(plain(note));
    }
    for sentence in &copied.left_out {
        eprintln!("not copied: {}", plain(sentence));
    }
    print_line(format_args!("copied: {}", copied.counts));
    copied.ended?;
    Ok(status(&copied.left_out))
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

//! `lazurite export`, `import`, `import-azurite` and `copy`: print what was moved and what was left
//! out.

use crate::commands::outcome::{note, say};
use lazurite_mover::{Client, CopyOptions, Existing, Imported, azurite};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// Runs an export and reports it. The exit status is a failure if anything was left out.
pub fn run_export(client: &Client, path: &Path, as_json: bool) -> Result<ExitCode, String> {
    let exported = lazurite_mover::export(client, path)?;
    for sentence in &exported.left_out {
        note(format_args!("not exported: {sentence}"));
    }
    if exported.unprotected > 0 {
        note(format_args!(
            "exported without immutability policies and legal holds: {} blobs",
            exported.unprotected
        ));
    }
    let fact = json!({"path": path.display().to_string(), "counts": exported.counts, "left_out": exported.left_out});
    say(
        as_json,
        fact,
        &format!("{}: {}", path.display(), exported.counts),
    );
    Ok(status(&exported.left_out))
}

/// Runs an import and reports it.
pub fn run_import(
    client: &Client,
    path: &Path,
    existing: Existing,
    as_json: bool,
) -> Result<ExitCode, String> {
    let imported = lazurite_mover::import(client, path, existing, &|| Ok(()))?;
    Ok(say_imported(path, &imported, as_json))
}

/// Imports a data directory of Azurite, and prints the result. The exit status is a failure if
/// anything was left out.
pub fn run_import_azurite(
    client: &Client,
    path: &Path,
    account: Option<&str>,
    existing: Existing,
    as_json: bool,
) -> Result<ExitCode, String> {
    let imported = azurite::import_account(client, path, account, existing)?;
    Ok(say_imported(path, &imported, as_json))
}

/// Runs a copy and reports it. The exit status is a failure if contents were left out.
pub fn run_copy(
    from: &str,
    to: &str,
    options: &CopyOptions,
    as_json: bool,
) -> Result<ExitCode, String> {
    let copied = lazurite_mover::copy(from, to, options)?;
    say_notes(&copied.notes, as_json);
    for sentence in &copied.left_out {
        note(format_args!("not copied: {sentence}"));
    }
    let fact = json!({"counts": copied.counts, "notes": copied.notes, "left_out": copied.left_out});
    say(as_json, fact, &format!("copied: {}", copied.counts));
    copied.ended?;
    Ok(status(&copied.left_out))
}

/// Reports what was imported and what was left out.
fn say_imported(path: &Path, imported: &Imported, as_json: bool) -> ExitCode {
    say_notes(&imported.notes, as_json);
    for sentence in &imported.left_out {
        note(format_args!("not imported: {sentence}"));
    }
    let fact = json!({
        "path": path.display().to_string(), "imported": imported.json, "notes": imported.notes, "left_out": imported.left_out,
    });
    say(
        as_json,
        fact,
        &format!("{}: {}", path.display(), imported.counts),
    );
    status(&imported.left_out)
}

/// Prints notes, unless JSON contains them.
fn say_notes(notes: &[String], as_json: bool) {
    if !as_json {
        notes.iter().for_each(|note| say(false, Value::Null, note));
    }
}

fn status(left_out: &[String]) -> ExitCode {
    if left_out.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

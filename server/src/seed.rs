//! `--seed` and `--import`, which import before the server is ready, and `--export-on-exit`. They
//! send the requests of `lazurite import` and `lazurite export`.

use crate::app::App;
use crate::connection::ConnectionThreads;
use crate::local_services::while_served;
use crate::platform::patiently;
use lazurite_mover::{Client, Existing, import, replace};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A flag with the path to import, and the file that marks the import as begun.
pub struct Flag {
    pub name: &'static str,
    pub path: PathBuf,
    pub mark: Option<PathBuf>,
    /// Whether the store replaces the archive at exit, so that the import must not skip anything.
    pub is_carried: bool,
}

/// Imports the contents of the path into the first account. Existing items stay as they are, so
/// that a seed does nothing at the second start. Returns sentences: what was imported, and what was
/// there already. The error is a sentence.
pub async fn seed(
    app: &Arc<App>,
    threads: &Arc<ConnectionThreads>,
    flag: Flag,
) -> Result<Vec<String>, String> {
    while_served(app, threads, move |accounts| {
        let first = accounts.first().ok_or("there is no account")?;
        run(&first.connection_string(), &flag)
    })
    .await
}

/// If `mark` exists, an earlier import began and did not end: items may be incomplete.
fn run(connection_string: &str, flag: &Flag) -> Result<Vec<String>, String> {
    let name = flag.name;
    let path = flag.path.as_path();
    let mark = flag.mark.as_deref();
    let failed = |error: String| {
        let place = format!("{}: ", path.display());
        // Remove the path from errors that begin with it, so that it is not repeated.
        let error = error.strip_prefix(&place).unwrap_or(&error);
        format!("--{name} {place}{error}")
    };
    if let Some(mark) = mark.filter(|mark| mark.exists()) {
        return Err(failed(format!(
            "an earlier import broke off, so that the store holds a part of it. Begin with an empty store; or start without --{name}, run \
             `lazurite import --existing replace`, and remove {}",
            mark.display()
        )));
    }
    let begin = || match mark {
        Some(mark) => std::fs::write(mark, "").map_err(|error| error.to_string()),
        None => Ok(()),
    };
    let client = Client::new(Some(connection_string)).map_err(failed)?;
    let imported = import(&client, path, Existing::Skip, &begin);
    let imported = imported.map_err(|error| failed(error.into()))?;
    if let Some(mark) = mark {
        patiently(|| std::fs::remove_file(mark)).map_err(|error| failed(error.to_string()))?;
    }
    if let Some(skipped) = imported.skipped.filter(|_| flag.is_carried) {
        return Err(failed(format!(
            "{skipped} is in the store already, so that it is not imported, and --export-on-exit would replace the archive without it. Begin \
             with an empty store, or start without --export-on-exit"
        )));
    }
    let kept = match imported.notes.as_slice() {
        [] => "all of it is new".to_owned(),
        notes => notes.join("; "),
    };
    Ok(vec![imported.counts, kept])
}

/// Exports the first account to an archive, which replaces an earlier one. The result and the error
/// are sentences.
pub async fn export(
    app: &Arc<App>,
    threads: &Arc<ConnectionThreads>,
    path: PathBuf,
) -> Result<String, String> {
    while_served(app, threads, move |accounts| {
        let first = accounts.first().ok_or("there is no account")?;
        let exported = run_export(&first.connection_string(), &path);
        exported.map_err(|error| format!("--export-on-exit: {error}"))
    })
    .await
}

fn run_export(connection_string: &str, path: &Path) -> Result<String, String> {
    let exported = replace(&Client::new(Some(connection_string))?, path)?;
    let counts = exported.counts;
    Ok(format!("exported to {}: {counts}", path.display()))
}

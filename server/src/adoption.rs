//! Adoption: the first start on a data directory of Azurite imports the data into a new store next
//! to that directory.
//!
//! Three files in the data directory record the progress. The mark exists from before the first
//! write until the end. A start that finds the mark empties the store, which no client has used
//! yet, and begins again. The report is written at the end and stays; a start that finds the report
//! imports nothing. The directory of lines is intermediate. Azurite's files are only read.

use crate::app::App;
use crate::cli::Cli;
use crate::connection::ConnectionThreads;
use crate::local_services::{LocalAccount, while_served};
use crate::{output, platform, private_files};
use lazurite_base::terminal::plain;
use lazurite_mover::{Imported, azurite};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MARK: &str = ".azurite-import-begun";
const LINES: &str = ".azurite-import";
const REPORT: &str = "azurite-import.txt";

/// Imports the data of Azurite next to the store, once. Returns lines about what was imported; none
/// if there is nothing to do. The error is a sentence.
pub async fn adopt(
    cli: &Cli,
    app: &Arc<App>,
    threads: &Arc<ConnectionThreads>,
) -> Result<Vec<String>, String> {
    let data = &cli.location;
    if cli.in_memory {
        return Ok(Vec::new());
    }
    if data.join(REPORT).exists() {
        // Ends an adoption that was killed after its last write. If the mark stayed, the store
        // would be emptied once the report is deleted.
        return match remove_intermediate(data) {
            Ok(()) => Ok(Vec::new()),
            Err(error) => Err(format!("{}: {error}", data.display())),
        };
    }
    let has_begun = data.join(MARK).exists();
    let Some(source) = cli.azurite.as_ref() else {
        let advice = "Start with the same --location as before and Azurite's files in it";
        return if has_begun {
            Err(broken_off(data, advice))
        } else {
            Ok(Vec::new())
        };
    };
    let shown = format!("the data of Azurite in {}", source.display());
    if cli.no_shared_key {
        if has_begun {
            return Err(broken_off(data, "Start once without --no-shared-key"));
        }
        let reason = "that needs account keys: start once without --no-shared-key";
        return Ok(vec![format!("{shown} is not imported: {reason}")]);
    }
    let imported = import(data, source, app, threads).await;
    let imported = imported.map_err(|error| {
        format!("cannot import {shown}: {error}. Another --location starts without it")
    })?;
    let Some(imported) = imported else {
        let reason =
            "the store is not new. `lazurite import-azurite` imports into a running server";
        return Ok(vec![format!("{shown} is not imported: {reason}")]);
    };
    let left_out = left_out_line(&imported, &data.join(REPORT));
    let imported = format!("imported {shown}: {}", imported.counts);
    Ok(vec![imported, left_out])
}

/// The refusal to serve a partly imported store: the import would begin again with an empty store,
/// and new writes would be lost.
fn broken_off(data: &Path, advice: &str) -> String {
    format!(
        "an import of Azurite's data broke off, so that the store in {0} holds a part of it. {advice}, which begins the import again; or delete \
         {0} to begin with an empty store",
        data.display()
    )
}

/// Imports, and writes the report once everything is on the disk. If the mark is there, empties the
/// store first. Otherwise, returns `None` without an import if anything was ever written to the
/// store, even for accounts that this start does not name: after an interrupted import, the next
/// start would delete that.
async fn import(
    data: &Path,
    source: &Path,
    app: &Arc<App>,
    threads: &Arc<ConnectionThreads>,
) -> Result<Option<Imported>, String> {
    if data.join(MARK).exists() {
        let reset = app.stores.reset().await;
        reset.map_err(|failure| format!("the store cannot be emptied: {}", failure.message))?;
    } else if app.stores.current().services.stats().last_sequence > 0 {
        return Ok(None);
    }
    let (from, place) = (source.to_path_buf(), data.to_path_buf());
    let imported = while_served(app, threads, move |accounts| run(&from, &place, accounts)).await?;
    let synced = app.stores.current().services.sync();
    synced.map_err(|error| error.to_string())?;
    finish(data, &imported).map_err(|error| format!("{}: {error}", data.display()))?;
    Ok(Some(imported))
}

fn left_out_line(imported: &Imported, report: &Path) -> String {
    match imported.left_out.as_slice() {
        [] => "nothing was left out".to_owned(),
        [one] => format!("not imported: {}", plain(one)),
        more => format!(
            "{} things were not imported: {}",
            more.len(),
            report.display()
        ),
    }
}

fn run(source: &Path, data: &Path, accounts: &[LocalAccount]) -> Result<Imported, String> {
    let accounts: Vec<_> = accounts
        .iter()
        .map(|account| (account.name.as_str(), account.connection_string()))
        .collect();
    output::say(format!(
        "lazurite: importing the data of Azurite in {}",
        source.display()
    ));
    let lines = begin(data).map_err(|error| format!("{}: {error}", data.display()))?;
    azurite::import_accounts(source, &accounts, &lines)
}

/// Writes the mark and empties the directory of lines, whose path is returned.
fn begin(data: &Path) -> io::Result<PathBuf> {
    private_files::write_whole(&data.join(MARK), "")?;
    let lines = data.join(LINES);
    remove_if_there(|| fs::remove_dir_all(&lines))?;
    platform::create_private_directory(&lines)?;
    Ok(lines)
}

fn remove_if_there(remove: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    match platform::patiently(remove) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn finish(data: &Path, imported: &Imported) -> io::Result<()> {
    let mut text = format!("imported: {}\n", imported.counts);
    for sentence in &imported.left_out {
        text += &format!("not imported: {}\n", plain(sentence));
    }
    private_files::write_whole(&data.join(REPORT), &text)?;
    remove_intermediate(data)
}

fn remove_intermediate(data: &Path) -> io::Result<()> {
    remove_if_there(|| fs::remove_file(data.join(MARK)))?;
    remove_if_there(|| fs::remove_dir_all(data.join(LINES)))
}

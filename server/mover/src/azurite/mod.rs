//! `lazurite import-azurite`: imports the data directory of Azurite 3.3x into a store, without
//! running Azurite.
//!
//! Azurite keeps five LokiJS databases, `__azurite_db_*__.json`, and the contents of blobs and
//! messages in files that it calls extents, below `__blobstorage__` and `__queuestorage__`. A
//! conversion reads the databases once and writes lines in the layout of an export; the lines of
//! blobs name ranges of the extents, so contents are not copied. The code of
//! `lazurite import` then reads the lines.
//!
//! The directory is not trusted, and is opened for reading only. It may be damaged: unreadable
//! parts are named and left out, and the rest is imported.

mod blobs;
mod conversion;
mod database;
mod documents;
mod extents;
mod queues;
mod staging;
mod tables;

use crate::client::Client;
use crate::existing::Existing;
use crate::fields::at;
use crate::files::Source;
use crate::import::{Imported, import_converted};
use crate::progress::Progress;
use crate::scratch::Scratch;
use conversion::{Conversion, DATABASES, Unopened};
use staging::Staging;
use std::collections::BTreeMap;
use std::path::Path;

/// The account of Azurite if none is configured.
const DEFAULT_ACCOUNT: &str = "devstoreaccount1";

/// Whether a directory has a database of Azurite.
pub fn is_directory(path: &Path) -> bool {
    DATABASES.iter().any(|name| path.join(name).is_file())
}

/// An account of Azurite, and the client of the account that it is imported to.
struct Account<'a> {
    name: &'a str,
    client: &'a Client,
}

/// Imports the account with the given name, by default the client's.
pub fn import_account(
    client: &Client,
    path: &Path,
    account: Option<&str>,
    existing: Existing,
) -> Result<Imported, String> {
    let place = std::env::temp_dir();
    let staging = Scratch::new(&place, ".lazurite-azurite-").map_err(|error| at(&place, error))?;
    let name = account.unwrap_or_else(|| client.account().unwrap_or(DEFAULT_ACCOUNT));
    let accounts = [Account { name, client }];
    let staging = staging.path();
    import(path, &accounts, existing, staging, Unopened::LeaveOut)
}

/// Imports accounts (name and connection string) into stores that must be empty.
pub fn import_accounts(
    path: &Path,
    accounts: &[(&str, String)],
    staging: &Path,
) -> Result<Imported, String> {
    let clients: Vec<_> = accounts
        .iter()
        .map(|(name, connection_string)| {
            Ok((*name, Client::new(Some(connection_string.as_str()))?))
        })
        .collect::<Result<_, String>>()?;
    let accounts: Vec<_> = clients
        .iter()
        .map(|(name, client)| Account { name, client })
        .collect();
    import(path, &accounts, Existing::Refuse, staging, Unopened::Refuse)
}

/// Imports accounts of a data directory of Azurite. `staging` is an empty directory for
/// intermediate files. The error is a sentence.
fn import(
    path: &Path,
    accounts: &[Account<'_>],
    existing: Existing,
    staging: &Path,
    unopened: Unopened,
) -> Result<Imported, String> {
    if !is_directory(path) {
        return Err(format!(
            "{}: it holds no data of Azurite: none of {} is there",
            path.display(),
            DATABASES.join(", ")
        ));
    }
    let progress = Progress::new();
    let names: Vec<_> = accounts.iter().map(|account| account.name).collect();
    let mut conversion = Conversion {
        source: Source::new(path),
        staging: Staging::new(staging),
        accounts: &names,
        others: BTreeMap::new(),
        unopened,
        progress: &progress,
    };
    blobs::convert(&mut conversion)?;
    queues::convert(&mut conversion)?;
    tables::convert(&mut conversion)?;
    conversion.finish()?;
    let mut notes = Vec::new();
    for (index, account) in accounts.iter().enumerate() {
        let root = staging.join(index.to_string());
        notes.extend(import_converted(
            account.client,
            &root,
            path,
            existing,
            &progress,
        )?);
    }
    Ok(Imported::new(progress, notes, None))
}

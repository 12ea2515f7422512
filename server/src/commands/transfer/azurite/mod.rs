//! `lazurite import-azurite`: imports the data directory of Azurite 3.3x into a store, without
//! running Azurite.
//!
//! Azurite keeps five LokiJS databases, `__azurite_db_*__.json`, and the contents of blobs and
//! messages in files that it calls extents, below `__blobstorage__` and `__queuestorage__`. A
//! conversion reads the databases once and writes lines in the layout of an export; the lines of
//! blobs name ranges of the extents, so contents are not copied. `lazurite import` then reads the
//! result.
//!
//! The directory is not trusted, and is opened for reading only. It may be damaged: what cannot be
//! read is named and left out, and the rest is imported.

mod blobs;
mod database;
mod documents;
mod extents;
mod queues;
mod staging;
mod tables;

use crate::commands::client::Client;
use crate::commands::transfer::files::Source;
use crate::commands::transfer::import::{self, Existing};
use crate::commands::transfer::progress::Progress;
use crate::commands::transfer::scratch::Scratch;
use crate::commands::transfer::{at, plain, print_line};
use serde_json::value::RawValue;
use staging::Staging;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// The databases of the services. Azurite makes those that it serves.
const DATABASES: [&str; 3] = [
    "__azurite_db_blob__.json",
    "__azurite_db_queue__.json",
    "__azurite_db_table__.json",
];
const BLOB_EXTENTS: &str = "__azurite_db_blob_extent__.json";
const QUEUE_EXTENTS: &str = "__azurite_db_queue_extent__.json";
/// The account of Azurite when none is configured.
const DEFAULT_ACCOUNT: &str = "devstoreaccount1";
/// Most other accounts that are named.
const OTHER_ACCOUNTS_MAX: usize = 100;

/// Whether a directory is one of Azurite's.
pub fn is_directory(path: &Path) -> bool {
    DATABASES.iter().any(|name| path.join(name).is_file())
}

/// An account of Azurite's, and where it is imported to.
struct Account<'a> {
    name: &'a str,
    client: &'a Client,
}

/// What to do about a database, or the directory of extents, that exists and that the system does
/// not let the program read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unopened {
    /// It is named, and the rest is imported.
    LeaveOut,
    /// Nothing is imported: an import that is done once would lose it.
    Refuse,
}

/// The result of an import.
struct Outcome {
    /// How much was imported.
    counts: String,
    /// Sentences about what was there.
    notes: Vec<String>,
    /// Sentences about what was not imported.
    left_out: Vec<String>,
}

/// Imports, and says what. The exit status is a failure if anything was left out.
pub fn run(
    client: &Client,
    path: &Path,
    account: Option<&str>,
    existing: Existing,
) -> Result<ExitCode, String> {
    let place = std::env::temp_dir();
    let staging = Scratch::new(&place, ".lazurite-azurite-").map_err(|error| at(&place, error))?;
    let name = account.unwrap_or_else(|| client.account().unwrap_or(DEFAULT_ACCOUNT));
    let accounts = [Account { name, client }];
    let outcome = import(
        path,
        &accounts,
        existing,
        staging.path(),
        Unopened::LeaveOut,
    )?;
    for sentence in &outcome.notes {
        print_line(plain(sentence));
    }
    for sentence in &outcome.left_out {
        eprintln!("not imported: {}", plain(sentence));
    }
    print_line(format_args!("{}: {}", path.display(), outcome.counts));
    Ok(if outcome.left_out.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Imports accounts, names with connection strings, into empty stores. Returns the counts, and
/// sentences about what was not imported.
pub fn import_accounts(
    path: &Path,
    accounts: &[(&str, String)],
    staging: &Path,
) -> Result<(String, Vec<String>), String> {
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
    let outcome = import(path, &accounts, Existing::Refuse, staging, Unopened::Refuse)?;
    Ok((outcome.counts, outcome.left_out))
}

/// Imports the accounts of a directory of Azurite's. `staging` is an empty directory for
/// intermediate files. The error is a sentence.
fn import(
    path: &Path,
    accounts: &[Account<'_>],
    existing: Existing,
    staging: &Path,
    unopened: Unopened,
) -> Result<Outcome, String> {
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
        let imported = import::import_converted(account.client, &root, path, existing, &progress)?;
        notes.extend(imported);
    }
    let counts = progress.counts();
    Ok(Outcome {
        counts,
        notes,
        left_out: progress.end_with_all(),
    })
}

/// The directory that is read, and the lines that are made of it.
struct Conversion<'a> {
    source: Source<'a>,
    staging: Staging<'a>,
    /// The accounts that are imported; their lines lie in the directories of their indices.
    accounts: &'a [&'a str],
    /// How many documents other accounts have.
    others: BTreeMap<String, u64>,
    unopened: Unopened,
    progress: &'a Progress,
}

impl<'a> Conversion<'a> {
    /// Passes on the documents of a database, with the place of each for messages. A missing
    /// database has none.
    fn read(
        &mut self,
        database: &str,
        take: &mut dyn FnMut(&mut Conversion<'a>, &Document<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let file = match self.source.open(database) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(()),
            Err(error) => return self.leave_out_unopened(error.to_string()),
        };
        let damage = database::read(file, &mut |collection, json: &RawValue, end| {
            let document = Document {
                collection,
                json: json.get(),
                place: format!("{database}, the document that ends at byte {end}"),
            };
            take(self, &document)
        })?;
        let Some(damage) = damage else { return Ok(()) };
        let sentence = format!(
            "{database}: the documents after byte {}: {}",
            damage.offset, damage.reason
        );
        if damage.is_unreadable {
            return self.leave_out_unopened(sentence);
        }
        self.leave_out(sentence);
        Ok(())
    }

    /// Leaves out a database or directory that the system does not let the program read, or refuses
    /// the import.
    fn leave_out_unopened(&self, sentence: String) -> Result<(), String> {
        match self.unopened {
            Unopened::LeaveOut => self.leave_out(sentence),
            Unopened::Refuse => return Err(sentence),
        }
        Ok(())
    }

    /// The directory of an account's lines; `None` if it is not imported.
    fn directory(&mut self, account: &str) -> Option<usize> {
        let index = self.accounts.iter().position(|name| *name == account);
        if index.is_none()
            && (self.others.contains_key(account) || self.others.len() < OTHER_ACCOUNTS_MAX)
        {
            *self.others.entry(account.to_owned()).or_default() += 1;
        }
        index
    }

    fn leave_out(&self, sentence: String) {
        self.progress.leave_out(sentence);
    }

    /// The value, or a sentence in the report.
    fn or_leave_out<T>(
        &self,
        what: impl FnOnce() -> String,
        converted: Result<T, String>,
    ) -> Option<T> {
        converted
            .inspect_err(|reason| self.leave_out(format!("{}: {reason}", what())))
            .ok()
    }

    fn finish(mut self) -> Result<(), String> {
        for (account, documents) in &self.others {
            self.progress.leave_out(format!(
                "account {account:?} with {documents} containers, blobs, queues, messages, tables and entities: the destination has no such account"
            ));
        }
        self.staging.flush()
    }
}

/// A document of a database.
struct Document<'a> {
    collection: &'a str,
    json: &'a str,
    /// How messages name it.
    place: String,
}

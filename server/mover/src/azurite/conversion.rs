//! The conversion of Azurite's directory: its source, and the lines that are written.

use crate::azurite::database;
use crate::azurite::staging::Staging;
use crate::files::Source;
use crate::progress::Progress;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The databases of the services. Azurite only creates those of the services that it runs.
pub(super) const DATABASES: [&str; 3] = [
    "__azurite_db_blob__.json",
    "__azurite_db_queue__.json",
    "__azurite_db_table__.json",
];

pub(super) const BLOB_EXTENTS: &str = "__azurite_db_blob_extent__.json";

pub(super) const QUEUE_EXTENTS: &str = "__azurite_db_queue_extent__.json";

/// Maximum number of other accounts that the report names.
const OTHER_ACCOUNTS_MAX: usize = 100;

/// The treatment of a database or directory of extents that exists, but that the system does not
/// allow to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unopened {
    /// The report names it, and the rest is imported.
    LeaveOut,
    /// Nothing is imported, because an import that happens only once would lose the data.
    Refuse,
}

/// A running conversion: the source, the lines written so far, and the report.
pub(super) struct Conversion<'a> {
    pub(super) source: Source<'a>,
    pub(super) staging: Staging<'a>,
    /// The accounts to import. The index of each is the name of the directory of its lines.
    pub(super) accounts: &'a [&'a str],
    /// Number of documents by account, for accounts that are not imported.
    pub(super) others: BTreeMap<String, u64>,
    pub(super) unopened: Unopened,
    pub(super) progress: &'a Progress,
}

impl<'a> Conversion<'a> {
    /// Passes the documents of a database to `take`. Each document has its place for messages. A
    /// missing database has no documents.
    pub(super) fn read(
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

    /// Leaves out a database or a directory that the system does not allow to be read, or refuses
    /// the import.
    pub(super) fn leave_out_unopened(&self, sentence: String) -> Result<(), String> {
        match self.unopened {
            Unopened::LeaveOut => self.leave_out(sentence),
            Unopened::Refuse => return Err(sentence),
        }
        Ok(())
    }

    /// The index of an account, which is the name of its directory. If the account is not imported,
    /// returns `None`, and counts the document under the account's name, for at most
    /// [`OTHER_ACCOUNTS_MAX`] names.
    pub(super) fn directory(&mut self, account: &str) -> Option<usize> {
        let index = self.accounts.iter().position(|name| *name == account);
        if index.is_none()
            && (self.others.contains_key(account) || self.others.len() < OTHER_ACCOUNTS_MAX)
        {
            *self.others.entry(account.to_owned()).or_default() += 1;
        }
        index
    }

    pub(super) fn leave_out(&self, sentence: String) {
        self.progress.leave_out(sentence);
    }

    /// The value; after an error `None`, with a sentence in the report.
    pub(super) fn or_leave_out<T>(
        &self,
        what: impl FnOnce() -> String,
        converted: Result<T, String>,
    ) -> Option<T> {
        converted
            .inspect_err(|reason| self.leave_out(format!("{}: {reason}", what())))
            .ok()
    }

    pub(super) fn finish(mut self) -> Result<(), String> {
        for (account, documents) in &self.others {
            self.progress.leave_out(format!(
                "account {account:?} with {documents} containers, blobs, queues, messages, tables and entities: the destination has no such account"
            ));
        }
        self.staging.flush()
    }
}

/// A document of a database.
pub(super) struct Document<'a> {
    pub(super) collection: &'a str,
    pub(super) json: &'a str,
    /// The place of the document in messages.
    pub(super) place: String,
}

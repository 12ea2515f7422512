//! The contents of a store: the manifest, recovery and replay, checkpoints.

pub(crate) mod checkpoint;
pub(crate) mod closed;
mod damage;
pub(crate) mod manifest;
pub(crate) mod parts;
pub(crate) mod recovered;
pub(crate) mod recovery;
pub(crate) mod replay;
pub(crate) mod state;

use crate::Result;
use crate::base::mutex::lock;
use crate::format::edit::{EditLog, Field, LogMark, VersionEdit};
use manifest::Manifest;
use std::sync::{Mutex, MutexGuard};

/// The manifest of an open store, shared by everything that changes the listed files.
#[derive(Debug)]
pub(crate) struct Catalog(Mutex<Manifest>);

impl Catalog {
    pub(crate) fn new(manifest: Manifest) -> Catalog {
        Catalog(Mutex::new(manifest))
    }

    /// Locks the manifest, for a change that depends on its contents. Held over the sync of edits.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Manifest> {
        lock(&self.0)
    }
}

impl EditLog for Catalog {
    fn next_file(&self) -> u64 {
        self.lock().next_file()
    }

    fn append(&self, fields: Vec<Field>) -> Result<()> {
        self.lock().append(VersionEdit { fields })
    }

    fn append_marked(&self, mark: LogMark, mut fields: Vec<Field>) -> Result<()> {
        let mut manifest = self.lock();
        fields.extend(manifest.mark(mark));
        if fields.is_empty() {
            return Ok(());
        }
        manifest.append(VersionEdit { fields })
    }
}

//! Operations on the whole store: reset, and snapshots with their restoration.
//!
//! One operation runs at a time: it holds the lock on the list of stores from its first read to its
//! end. Other requests do not take the lock. An operation that has begun is completed, even if its
//! client leaves.
//!
//! A swap of stores has four steps. The next store is opened. The current store is retired, so that
//! no write to it is acknowledged any more. The file that names the current store is replaced.
//! Requests find the next store. So every acknowledged write was made before the swap, or to the
//! next store.

use crate::clock::system_time;
use crate::connection::on_blocking_pool;
use crate::services::Services;
use crate::state::data_directory::FORK_LOG_BYTES_MAX;
use crate::state::store::Store;
use crate::state::stores::Stores;
use crate::state::stores_file::{
    SNAPSHOTS_MAX, SnapshotRecord, StoreNumber, StoresFile, is_snapshot_name,
};
use lazurite_engine::{Db, copy_store};
use lazurite_protocol::response::error::{Failure, Result};
use std::sync::Arc;
use std::time::SystemTime;

/// Memtables with more bytes are not flushed before a snapshot, which would otherwise wait long.
const FLUSHED_FIRST_BYTES_MAX: u64 = 4 << 20;

/// A snapshot as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotFacts {
    pub name: String,
    /// The time of creation by the machine's clock.
    pub made_at: SystemTime,
    /// Bytes of its files on disk, including those shared with other stores; `None` in memory.
    pub bytes: Option<u64>,
}

impl Stores {
    /// Replaces the current store with an empty one. The reset is durable on return.
    pub async fn reset(self: &Arc<Stores>) -> Result<()> {
        self.exclusively(|stores, file| {
            let number = stores.directories.next_number(file)?;
            stores.put_in_service(file, number)
        })
        .await
    }

    /// Replaces the current store with a copy of a snapshot; durable on return. Errors:
    /// `SnapshotNotFound`.
    pub async fn restore(self: &Arc<Stores>, name: String) -> Result<()> {
        self.exclusively(move |stores, file| {
            let directories = &stores.directories;
            let source = directories.path(existing(file, &name)?.number);
            let number = directories.next_number(file)?;
            let durability = stores.opener.durability();
            let target = directories.path(number);
            copy_store(directories.fs(), &source, &target, durability)
                .inspect_err(|_| directories.remove(number))?;
            stores.put_in_service(file, number)
        })
        .await
    }

    /// Saves the current store as a snapshot of this name; durable on return. Errors:
    /// `InvalidSnapshotName`; `SnapshotAlreadyExists`.
    pub async fn take_snapshot(self: &Arc<Stores>, name: String) -> Result<SnapshotFacts> {
        self.exclusively(move |stores, file| {
            check_new(file, &name)?;
            let directories = &stores.directories;
            let number = directories.next_number(file)?;
            let record = SnapshotRecord {
                name,
                number,
                made_at: system_time(),
            };
            let mut next = file.clone();
            next.snapshots.push(record.clone());
            let services = &stores.current().services;
            flush_for_snapshot(services)
                .and_then(|()| services.checkpoint(&directories.path(number)))
                .map_err(Failure::from)
                .and_then(|()| stores.write(file, next))
                .inspect_err(|_| stores.remove_unless_named(file, number))?;
            Ok(stores.facts(&record))
        })
        .await
    }

    /// The snapshots in the order of their creation. Waits for an operation that is under way.
    pub async fn list_snapshots(self: &Arc<Stores>) -> Result<Vec<SnapshotFacts>> {
        self.exclusively(|stores, file| {
            let snapshots = file.snapshots.iter();
            Ok(snapshots.map(|record| stores.facts(record)).collect())
        })
        .await
    }

    /// Deletes a snapshot. Error: `SnapshotNotFound`.
    pub async fn delete_snapshot(self: &Arc<Stores>, name: String) -> Result<()> {
        self.exclusively(move |stores, file| {
            let number = existing(file, &name)?.number;
            let mut next = file.clone();
            next.snapshots.retain(|record| record.number != number);
            stores.write(file, next)?;
            stores.directories.remove(number);
            Ok(())
        })
        .await
    }

    /// Runs an operation on whole stores on the blocking pool, one at a time.
    pub(super) async fn exclusively<T: Send + 'static>(
        self: &Arc<Stores>,
        operation: impl FnOnce(&Arc<Stores>, &mut StoresFile) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (stores, mut file) = (self.clone(), self.file.clone().lock_owned().await);
        on_blocking_pool(move || operation(&stores, &mut file)).await
    }

    /// Makes the store with this number the current one. If that fails, removes the store. If only
    /// the last sync fails, returns the error although the store is in service: a power cut may
    /// bring back the former store.
    fn put_in_service(&self, file: &mut StoresFile, number: StoreNumber) -> Result<()> {
        let opened = self.open_store(number);
        let store = opened.inspect_err(|_| self.directories.remove(number))?;
        let next = StoresFile {
            current: number,
            ..file.clone()
        };
        let before = self.current();
        let replaced = self.directories.prepare(&next).and_then(|()| {
            before.retire();
            store.services.follow(&before.services);
            self.directories.replace()
        });
        if let Err(error) = replaced {
            before.stay_in_service();
            store.services.ending().abandon();
            self.directories.remove(number);
            return Err(error.into());
        }
        *file = next;
        // If the sync fails, a power cut may restore the former file. Its store must exist then.
        let synced = self.directories.sync();
        self.replace(store, synced.is_ok());
        if let Err(error) = self.note_for_secondary() {
            tracing::error!(%error, "the secondary endpoint falls behind");
        }
        Ok(synced?)
    }

    fn open_store(&self, number: StoreNumber) -> Result<Arc<Store>> {
        let db = self.opener.open(&self.directories, number)?;
        self.services_on(db, number, None)
    }

    pub(super) fn services_on(
        &self,
        db: Db,
        number: StoreNumber,
        fork: Option<String>,
    ) -> Result<Arc<Store>> {
        let shared = self.shared.clone();
        match Store::open(db.clone(), number, fork, &self.settings, shared) {
            Ok(store) => Ok(Arc::new(store)),
            Err(reason) => {
                db.abandon();
                tracing::error!(reason, "a store cannot be opened");
                let message = format!("The store cannot be opened: {reason}.");
                Err(Failure::new(500, "InternalError", message))
            }
        }
    }

    /// Replaces the file that names the stores, and updates `file` as soon as a restart would read
    /// the new contents.
    fn write(&self, file: &mut StoresFile, next: StoresFile) -> Result<()> {
        self.directories.prepare(&next)?;
        self.directories.replace()?;
        *file = next;
        Ok(self.directories.sync()?)
    }

    fn remove_unless_named(&self, file: &StoresFile, number: StoreNumber) {
        if file.numbers().all(|named| named != number) {
            self.directories.remove(number);
        }
    }

    fn facts(&self, record: &SnapshotRecord) -> SnapshotFacts {
        let is_in_memory = self.opener.is_in_memory();
        SnapshotFacts {
            name: record.name.clone(),
            made_at: record.made_at,
            // A file system in memory counts the bytes of all its files, not those of one store.
            bytes: (!is_in_memory)
                .then(|| self.directories.used(record.number))
                .flatten(),
        }
    }
}

/// Flushes a store before a snapshot if its memtables are small but its WAL is long: the first fork
/// of the snapshot would have to replay the WAL. A full disk does not prevent the snapshot.
fn flush_for_snapshot(services: &Services) -> lazurite_engine::Result<()> {
    let stats = services.stats();
    if stats.memtable_bytes > FLUSHED_FIRST_BYTES_MAX || stats.wal_bytes <= FORK_LOG_BYTES_MAX {
        return Ok(());
    }
    match services.flush() {
        Err(lazurite_engine::Error::NoSpace { .. }) => Ok(()),
        flushed => flushed,
    }
}

pub(super) fn existing<'f>(file: &'f StoresFile, name: &str) -> Result<&'f SnapshotRecord> {
    file.snapshot(name).ok_or_else(|| {
        let known: Vec<_> = file.snapshots.iter().map(|record| &*record.name).collect();
        let known = match known.len() {
            0 => "There are none.".to_owned(),
            1..=20 => format!("There are: {}.", known.join(", ")),
            count => format!("There are {count}."),
        };
        let message = format!("There is no snapshot of this name. {known}");
        Failure::new(404, "SnapshotNotFound", message)
    })
}

fn check_new(file: &StoresFile, name: &str) -> Result<()> {
    if !is_snapshot_name(name) {
        let message = "The name of a snapshot has 1 to 64 letters, digits, dots, hyphens and underscores of ASCII, and begins with a letter \
                       or a digit. It is not \"now\", which is the store in use.";
        return Err(Failure::new(400, "InvalidSnapshotName", message));
    }
    if file.snapshot(name).is_some() {
        let message =
            format!("There is a snapshot \"{name}\" already: delete it, or choose another name.");
        return Err(Failure::new(409, "SnapshotAlreadyExists", message));
    }
    if file.snapshots.len() == SNAPSHOTS_MAX {
        let message =
            format!("There are {SNAPSHOTS_MAX} snapshots, which is the most: delete one first.");
        return Err(Failure::new(409, "TooManySnapshots", message));
    }
    Ok(())
}

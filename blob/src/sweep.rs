//! The sweep: work that is due at a certain time, done a few steps at a time.
//!
//! A write that creates something with a limited lifetime sets a timer: a row with a time and a
//! subject. So a sweep reads only due rows. A timer is only a hint: its subject may have changed
//! since, and is read again.

use crate::codec;
use crate::directory::stored_name;
use crate::error::corrupt_record;
use crate::error::{Error, Result};
use crate::files::{FileChanges, FileRows};
use crate::keys::{self, File, History, Timer};
use crate::model::AccountPolicy;
use crate::model::Blob;
use crate::operations::merge_in_steps::PreparedMerge;
use crate::operations::permit::check_allowed;
use crate::operations::staging::STAGING_LIFETIME;
use crate::operations::{Action, BlobWrite, RecordSlot};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_base::locks::lock;
use lazurite_engine::{Batch, Direction, KeyRange, Keyspace, Transaction};
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

/// How long work that cannot be done yet is put off.
const LATER: Duration = Duration::from_secs(24 * 60 * 60);
/// Time after which work is tried again whose rows another operation held.
const SOON: Duration = Duration::from_secs(1);
/// A step of a purge ends once it has deleted this many rows.
const PURGED_ROWS: usize = 500;

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Steps taken, each of them one batch.
    pub steps: u32,
    /// When the next work is due: a time in the past if the sweep ended early. `None` if there are
    /// no timers.
    pub next_due: Option<SystemTime>,
    /// Work that failed, one sentence each. It is tried again after a day, except timers that
    /// cannot be read.
    pub failures: Vec<String>,
}

/// A row of `blob.timers`.
struct DueTimer {
    key: Vec<u8>,
    timer: Timer,
    subject: Vec<u8>,
    container_key: Vec<u8>,
}

/// The fate of a timer after its step.
enum Then {
    Done,
    Again(SystemTime),
}

impl BlobService {
    /// Does the work that is due. Drops, among others, uncommitted blocks after a week, deleted
    /// blobs after their retention, and expired blobs. Takes at most `steps_max` steps of bounded
    /// size, so that a caller can pace the work. Errors: those of the engine, `InternalError`.
    ///
    /// Work that fails is put off and reported in [`Sweep::failures`]; the rest continues. A timer
    /// that cannot be read is skipped, and reported once while the store is open. A second sweep
    /// waits for the first.
    pub fn sweep(&self, steps_max: u32) -> Result<Sweep> {
        let mut unreadable = lock(&self.sweep_state);
        let (mut steps, mut failures) = (0, Vec::new());
        loop {
            let next = self.next_timer(&mut unreadable, &mut failures)?;
            let next_due = next.as_ref().map(|(due, _)| due.time());
            match next {
                Some((_, due)) if steps < steps_max && next_due <= Some(self.now()) => {
                    let key = due.key.clone();
                    let timer = due.timer;
                    let subject = due.subject.clone();
                    let container_key = due.container_key.clone();
                    // The sweep is admitted before it takes any lock, so that it never waits for
                    // the store while it holds a lock.
                    let transaction = self.db.begin_deletion()?;
                    if let Err(error) = self.sweep_one(due, transaction, &mut failures) {
                        // If the store takes no writes, this write fails too and ends the sweep.
                        let mut transaction = self.db.begin_deletion()?;
                        let batch = transaction.batch();
                        // An operation that holds a row is no failure.
                        let is_held =
                            matches!(error, Error::Engine(lazurite_engine::Error::Conflict));
                        let delay = if is_held { SOON } else { LATER };
                        let later = SnapshotTime::at(self.now() + delay);
                        batch.delete(&self.keyspaces.timers, &key);
                        let again = keys::timer(later, timer, &subject);
                        batch.put(&self.keyspaces.timers, &again, &container_key);
                        commit_swept(transaction)?;
                        let subject = subject.escape_ascii();
                        if !is_held {
                            failures.push(format!("{timer:?} of {subject}: {error}"));
                        }
                    }
                    steps += 1;
                }
                _ => {
                    return Ok(Sweep {
                        steps,
                        next_due,
                        failures,
                    });
                }
            }
        }
    }

    /// Returns the first timer. Skips rows of kinds that this program does not know. Skips rows
    /// with corrupt values, and adds them to `unreadable` and, if they are new there, to
    /// `failures`. Errors: a corrupt block of an SSTable ends the sweep here, because the rows in
    /// it, and thus the next timer, are unknown.
    fn next_timer(
        &self,
        unreadable: &mut HashSet<Vec<u8>>,
        failures: &mut Vec<String>,
    ) -> Result<Option<(SnapshotTime, DueTimer)>> {
        let timers = &self.keyspaces.timers;
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(timers, KeyRange::all(), Direction::Forward);
        while rows.advance()? {
            let timed = keys::timed(rows.key());
            let timed = timed.and_then(|(due, kind, rest)| Some((due, Timer::of(kind)?, rest)));
            let Some((due, timer, subject)) = timed else {
                continue;
            };
            let value = match rows.value() {
                Err(error @ lazurite_engine::Error::Corrupt { .. }) => {
                    if unreadable.insert(rows.key().to_vec()) {
                        let subject = subject.escape_ascii();
                        failures.push(format!("{timer:?} of {subject}: {error}"));
                    }
                    continue;
                }
                value => value?,
            };
            let due_row = DueTimer {
                key: rows.key().to_vec(),
                timer,
                subject: subject.to_vec(),
                container_key: value.to_vec(),
            };
            return Ok(Some((due, due_row)));
        }
        Ok(None)
    }

    fn sweep_one(
        &self,
        due: DueTimer,
        transaction: Transaction<'_>,
        failures: &mut Vec<String>,
    ) -> Result<()> {
        match due.timer {
            Timer::Container => self.sweep_container(due, transaction),
            Timer::Purge => self.sweep_purge(due, transaction, failures),
            Timer::Pages => self.sweep_pages(due, transaction),
            Timer::Directory => self.sweep_directory(due, transaction),
            Timer::Deleted | Timer::Staging | Timer::Expiry | Timer::Snapshots | Timer::Trim => {
                self.sweep_blob(due, transaction)
            }
            // A merge takes space, so a full store must not admit it.
            Timer::Merge => self.sweep_blob(due, self.db.begin()?),
        }
    }

    fn sweep_blob(&self, mut due: DueTimer, mut transaction: Transaction<'_>) -> Result<()> {
        let home = keys::container_of(&due.subject).ok_or_else(corrupt_record)?;
        due.container_key = self.current_key(home, due.container_key)?;
        let name = match due.timer {
            Timer::Deleted | Timer::Snapshots | Timer::Trim => {
                keys::history_name(&due.subject).map(|(name, _)| name)
            }
            _ => keys::blob_name(&due.subject),
        };
        let name = name.ok_or_else(corrupt_record)?;
        // A merge is prepared before any lock is taken.
        let prepared = match due.timer {
            Timer::Merge => self.prepare_merge(&due.subject)?,
            _ => PreparedMerge::Nothing,
        };
        let unlisted = match (due.timer, keys::history_name(&due.subject)) {
            (Timer::Trim, Some((_, Some(gone)))) => self.unlisted_contents((home, &name), gone)?,
            _ => Vec::new(),
        };
        let is_long = matches!(due.timer, Timer::Trim | Timer::Snapshots);
        let _long = is_long.then(|| self.begin_long_operation());
        let containers = &self.keyspaces.containers;
        transaction.lock_shared([(containers, &due.container_key[..])])?;
        let key = keys::blob(home, &name);
        transaction.lock([(&self.keyspaces.blobs, &key[..])])?;
        let container = self.db.get(containers, &due.container_key)?;
        let container = container.map(|value| codec::decode_container(&value));
        let policy = AccountPolicy::default();
        match container.transpose()?.filter(|found| found.id == home) {
            // The container was deleted and may be restored. Its blobs stay for that.
            None => self.sweep_without_container(home, &due, transaction),
            Some(container) => {
                let key = due.container_key.clone();
                let mut write = self.open_write(key, container, policy, name, transaction)?;
                let then = write.sweep(&due, prepared, unlisted)?;
                write.end_timer(&due, then);
                // The write is not awaited: see `commit_swept`.
                drop(write.commit()?);
                Ok(())
            }
        }
    }

    /// Ends or puts off a timer whose container was deleted or renamed.
    fn sweep_without_container(
        &self,
        home: u128,
        due: &DueTimer,
        mut transaction: Transaction<'_>,
    ) -> Result<()> {
        let then = if !self.subject_is_there(due)? {
            Then::Done
        } else if self.current_key(home, due.container_key.clone())? != due.container_key {
            // The container was renamed since the timer was read.
            Then::Again(self.now())
        } else {
            Then::Again(self.now() + LATER)
        };
        let batch = transaction.batch();
        if matches!(then, Then::Done) && due.timer == Timer::Merge {
            self.drop_merge_of(batch, home, &due.subject)?;
        }
        self.end_timer(batch, due, then);
        commit_swept(transaction)
    }

    fn subject_is_there(&self, due: &DueTimer) -> Result<bool> {
        let home = keys::container_of(&due.subject).ok_or_else(corrupt_record)?;
        let keyspace = match due.timer {
            Timer::Deleted | Timer::Snapshots => &self.keyspaces.history,
            Timer::Trim | Timer::Merge => return self.is_kept(due),
            _ => &self.keyspaces.blobs,
        };
        let uncommitted = match keys::blob_name(&due.subject) {
            Some(name) if due.timer == Timer::Staging => {
                let marker = keys::history_of(home, History::Uncommitted, &name);
                self.db.get(&self.keyspaces.history, &marker)?.is_some()
            }
            _ => false,
        };
        Ok(uncommitted || self.db.get(keyspace, &due.subject)?.is_some())
    }

    /// Whether the container is among those that are deleted and kept.
    fn is_kept(&self, due: &DueTimer) -> Result<bool> {
        let home = keys::container_of(&due.subject).ok_or_else(corrupt_record)?;
        let range = KeyRange::prefix(&[&due.container_key[..], &[0]].concat());
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(&self.keyspaces.containers, range, Direction::Forward);
        while rows.advance()? {
            if codec::decode_container(&rows.value()?)?.id == home {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn end_timer(&self, batch: &mut Batch, due: &DueTimer, then: Then) {
        let timers = &self.keyspaces.timers;
        batch.delete(timers, &due.key);
        if let Then::Again(at) = then {
            let key = keys::timer(SnapshotTime::at(at), due.timer, &due.subject);
            batch.put(timers, &key, &due.container_key);
        }
    }

    fn sweep_container(&self, due: DueTimer, mut transaction: Transaction<'_>) -> Result<()> {
        let key = keys::undeleted_container(&due.subject).ok_or_else(corrupt_record)?;
        transaction.lock([(&self.keyspaces.containers, key)])?;
        let now = self.now();
        let batch = transaction.batch();
        let mut then = Then::Done;
        if let Some(value) = self.db.get(&self.keyspaces.containers, &due.subject)? {
            let container = codec::decode_container(&value)?;
            match container.deleted.map(|deleted| deleted.until) {
                Some(until) if until > now => then = Then::Again(until),
                _ => match self.permit_container(&container, None, now) {
                    Ok(permit) => {
                        batch.delete(&self.keyspaces.containers, &due.subject);
                        self.drop_container(batch, &permit, now)?;
                    }
                    // The container holds protected blobs, and stays until their protection ends.
                    Err(Error::BlobImmutableDueToPolicy) => then = Then::Again(now + LATER),
                    Err(other) => return Err(other),
                },
            }
        }
        self.end_timer(batch, &due, then);
        commit_swept(transaction)
    }

    /// Removes rows of a removed container, which no operation can find, in one step. Records of
    /// other containers may name its files. Unreadable and protected rows stay, and are tried again
    /// later.
    fn sweep_purge(
        &self,
        due: DueTimer,
        transaction: Transaction<'_>,
        failures: &mut Vec<String>,
    ) -> Result<()> {
        let home = keys::container_of(&due.subject).ok_or_else(corrupt_record)?;
        let keyspaces = &self.keyspaces;
        let mut purge = Purge::new(home, self.now(), transaction);
        for keyspace in [&keyspaces.blobs, &keyspaces.history] {
            self.purge(keyspace, keys::all_of_container(home), &mut purge)?;
        }
        let Purge {
            now,
            mut transaction,
            files,
            rows,
            stay,
            corrupt_record,
            ..
        } = purge;
        let batch = transaction.batch();
        let mut then = Then::Again(now);
        if rows < PURGED_ROWS {
            // Unreadable rows are reported only once everything else is removed.
            failures.extend(corrupt_record);
            batch.delete_range(&keyspaces.tags, keys::all_of_container(home));
            then = Then::Again(now + LATER);
            if stay == 0 {
                then = Then::Done;
            }
        }
        self.end_timer(batch, &due, then);
        self.settle_files(&mut transaction, &files, now)?;
        commit_swept(transaction)
    }

    /// Removes some of what was in a directory that is gone. Nothing is added to it any more, but
    /// timers and copies may still write to what is in it, so its rows are locked.
    fn sweep_directory(&self, mut due: DueTimer, mut transaction: Transaction<'_>) -> Result<()> {
        let home = keys::container_of(&due.subject).ok_or_else(corrupt_record)?;
        due.container_key = self.current_key(home, due.container_key)?;
        let containers = &self.keyspaces.containers;
        transaction.lock_shared([(containers, &due.container_key[..])])?;
        let container = self.db.get(containers, &due.container_key)?;
        let container = container.map(|value| codec::decode_container(&value));
        if container.transpose()?.is_none_or(|found| found.id != home) {
            // The rows go with the container.
            let then = match self.is_kept(&due)? {
                true => Then::Again(self.now() + LATER),
                false => Then::Done,
            };
            self.end_timer(transaction.batch(), &due, then);
            return commit_swept(transaction);
        }
        let blobs = &self.keyspaces.blobs;
        let mut range = KeyRange::prefix(&due.subject);
        let mut rows = Vec::new();
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(blobs, range.clone(), Direction::Forward);
        while rows.len() < PURGED_ROWS && scan.advance()? {
            rows.push(scan.key().to_vec());
        }
        // Only rows that are locked, and whose directories get timers, are removed in this step.
        let is_full = rows.len() == PURGED_ROWS;
        if let Some(last) = rows.last().filter(|_| is_full) {
            range.end = Some([&last[..], &[0]].concat());
        }
        transaction.lock(rows.iter().map(|key| (blobs, &key[..])))?;
        let mut purge = Purge::new(home, self.now(), transaction);
        for key in &rows {
            self.drop_merge_of(purge.transaction.batch(), home, key)?;
            if let Some(blob) = self.keyspaces.record(&self.db, home, key)? {
                self.sweep_directory_in(&blob, &due, &mut purge);
            }
        }
        self.purge(blobs, range, &mut purge)?;
        let name = &due.subject[16..];
        for kind in History::ALL {
            let start = [&due.subject[..16], &[kind as u8], name].concat();
            self.purge(
                &self.keyspaces.history,
                KeyRange::prefix(&start),
                &mut purge,
            )?;
        }
        let (now, stay) = (purge.now, purge.stay);
        let Purge {
            mut transaction,
            files,
            rows,
            ..
        } = purge;
        let then = if rows >= PURGED_ROWS || (is_full && rows > 0) {
            Then::Again(now)
        } else if stay > 0 {
            Then::Again(now + LATER)
        } else {
            Then::Done
        };
        self.end_timer(transaction.batch(), &due, then);
        self.settle_files(&mut transaction, &files, now)?;
        commit_swept(transaction)
    }

    /// Sets the timer of a directory that was in the one that is gone.
    fn sweep_directory_in(&self, blob: &Blob, due: &DueTimer, purge: &mut Purge<'_>) {
        if let Some(id) = blob.directory() {
            let subject = keys::blob_name_start(purge.home, &stored_name(id, ""));
            let timer = keys::timer(SnapshotTime::at(purge.now), Timer::Directory, &subject);
            let timers = &self.keyspaces.timers;
            purge
                .transaction
                .batch()
                .put(timers, &timer, &due.container_key);
        }
    }

    fn sweep_pages(&self, due: DueTimer, mut transaction: Transaction<'_>) -> Result<()> {
        let file = File::of(&due.subject).ok_or_else(corrupt_record)?;
        transaction.lock([(&self.keyspaces.references, &due.subject[..])])?;
        let batch = transaction.batch();
        let then = if self.drop_nodes(batch, file)? {
            Then::Done
        } else {
            Then::Again(self.now())
        };
        self.end_timer(batch, &due, then);
        commit_swept(transaction)
    }

    /// Returns the record of a row. If the row marks a name without a blob, returns the file of its
    /// uncommitted blocks.
    fn purged_record(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        home: u128,
    ) -> Result<Purged> {
        if *keyspace == self.keyspaces.history && keys::is_uncommitted_marker(key) {
            let id = codec::decode_uncommitted(value)?;
            Ok(Purged::Uncommitted(File { home, id }))
        } else {
            let blob = codec::decode_blob(value, home)?;
            Ok(Purged::Blob(blob))
        }
    }

    /// Deletes rows of a range and the content that they refer to, until the step has deleted
    /// [`PURGED_ROWS`].
    fn purge(&self, keyspace: &Keyspace, range: KeyRange, purge: &mut Purge<'_>) -> Result<()> {
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(keyspace, range, Direction::Forward);
        while purge.rows < PURGED_ROWS && rows.advance()? {
            let record = match self.purged_record(keyspace, rows.key(), &rows.value()?, purge.home)
            {
                Ok(record) => record,
                Err(error) => {
                    let key = rows.key().escape_ascii();
                    let failure = format!("{:?} of {key}: {error}", Timer::Purge);
                    purge.corrupt_record.push(failure);
                    purge.stay += 1;
                    continue;
                }
            };
            match record {
                Purged::Uncommitted(file) => {
                    let mut rows = FileRows::new(&self.keyspaces, purge.transaction.batch());
                    rows.drop_file(file);
                }
                Purged::Blob(blob) => {
                    let allowed = check_allowed(Action::Purge, &blob, purge.now, false);
                    if allowed.is_err() {
                        purge.stay += 1;
                        continue;
                    }
                    self.purge_blob(&blob, purge)?;
                }
            }
            purge.transaction.batch().delete(keyspace, rows.key());
            purge.rows += 1;
        }
        Ok(())
    }

    /// Removes a blob's references to its files and drops its uncommitted blocks. If other records
    /// name the file of these blocks, the blocks are dropped one by one instead of as a range.
    fn purge_blob(&self, blob: &Blob, purge: &mut Purge<'_>) -> Result<()> {
        for layer in &blob.layers {
            let mut rows = FileRows::new(&self.keyspaces, purge.transaction.batch());
            purge.files.remove(&mut rows, layer);
        }
        let Some(id) = blob.staging else {
            return Ok(());
        };
        let home = purge.home;
        let staging = File { home, id };
        let mut rows = FileRows::new(&self.keyspaces, purge.transaction.batch());
        match blob.layers.iter().find(|layer| layer.file == staging) {
            None => rows.drop_file(staging),
            Some(layer) if layer.shared => {
                purge.rows += self.drop_staged(&mut rows, staging)?;
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// Commits without waiting for the disk: a sweep that a power cut undoes is repeated.
fn commit_swept(mut transaction: Transaction<'_>) -> Result<()> {
    drop(transaction.commit()?);
    Ok(())
}

/// One step of a purge.
struct Purge<'t> {
    home: u128,
    now: SystemTime,
    transaction: Transaction<'t>,
    files: FileChanges,
    /// Number of rows deleted.
    rows: usize,
    /// Number of rows that stay.
    stay: usize,
    /// Descriptions of unreadable rows.
    corrupt_record: Vec<String>,
}

/// A row that a purge removes.
enum Purged {
    Blob(Box<Blob>),
    Uncommitted(File),
}

impl<'t> Purge<'t> {
    fn new(home: u128, now: SystemTime, transaction: Transaction<'t>) -> Purge<'t> {
        Purge {
            home,
            now,
            transaction,
            files: FileChanges::new(home),
            rows: 0,
            stay: 0,
            corrupt_record: Vec::new(),
        }
    }
}

impl BlobWrite<'_> {
    /// Does the work of a timer. Returns whether the timer is done or must come again.
    fn sweep(
        &mut self,
        due: &DueTimer,
        prepared: PreparedMerge,
        unlisted: Vec<Vec<u8>>,
    ) -> Result<Then> {
        match due.timer {
            Timer::Deleted => self.end_deleted(due),
            Timer::Staging => self.end_staging(),
            Timer::Snapshots => self.end_snapshots_of(due),
            Timer::Merge if self.apply_merge(prepared)? => Ok(Then::Again(self.now)),
            Timer::Merge => Ok(Then::Done),
            Timer::Trim => {
                let gone = keys::history_name(&due.subject).and_then(|name| name.1);
                self.trim_around(gone.ok_or_else(corrupt_record)?)?;
                for key in unlisted {
                    self.rows().delete_content(&key);
                }
                Ok(Then::Done)
            }
            // Beginning the write removed the blob, unless a policy or hold keeps it.
            _ => match self.current().and_then(|blob| blob.expires_at) {
                Some(at) if at <= self.now => Ok(Then::Again(self.now + LATER)),
                _ => Ok(Then::Done),
            },
        }
    }

    fn end_timer(&mut self, due: &DueTimer, then: Then) {
        self.delete_timer(&due.key);
        if let Then::Again(at) = then {
            self.set_timer(at, due.timer, &due.subject);
        }
    }

    fn end_deleted(&mut self, due: &DueTimer) -> Result<Then> {
        let moment = keys::history_name(&due.subject).and_then(|(_, moment)| moment);
        let place = RecordSlot::Past(History::Deleted, moment.ok_or_else(corrupt_record)?);
        let Some(blob) = self.past(place)? else {
            return Ok(Then::Done);
        };
        let until = blob.deleted.map(|deleted| deleted.until);
        if let Some(until) = until.filter(|until| *until > self.now) {
            return Ok(Then::Again(until));
        }
        let Ok(permit) = self.permit(Action::Remove, place, Some(&blob)) else {
            return Ok(Then::Again(self.now + LATER));
        };
        self.remove(&permit);
        self.forget_past(place, &blob);
        Ok(Then::Done)
    }

    fn end_snapshots_of(&mut self, due: &DueTimer) -> Result<Then> {
        let last = keys::history_name(&due.subject).and_then(|(_, moment)| moment);
        Ok(if self.end_snapshots(last.ok_or_else(corrupt_record)?)? {
            Then::Again(self.now)
        } else {
            Then::Done
        })
    }

    fn end_staging(&mut self) -> Result<Then> {
        let Some(id) = self.staging() else {
            return Ok(Then::Done);
        };
        let service = self.service;
        let staging = self.file(id).staging();
        if let Some(value) = service.db.get(&service.keyspaces.blocks, &staging)? {
            let until = codec::decode_staging(&value)?.touched_at + STAGING_LIFETIME;
            if until > self.now {
                return Ok(Then::Again(until));
            }
        }
        self.discard_staging(true)?;
        self.put_without_staging()?;
        Ok(Then::Done)
    }

    /// Removes an expired blob, and its snapshots as [`BlobWrite::end_all_snapshots`] does. Every
    /// write to the name does this first; if there is no write, the sweep does it.
    pub(crate) fn end_expired(&mut self) -> Result<()> {
        if let Some(blob) = self
            .current()
            .filter(|blob| blob.is_expired(self.now))
            .cloned()
        {
            let permit = self.permit_current(Action::Remove)?;
            self.discard_staging(false)?;
            self.forget(&blob);
            self.remove(&permit);
            self.end_current();
            self.end_all_snapshots()?;
        }
        Ok(())
    }
}

//! BlobWrite: the one way to write to a blob. Begin, check, change, commit: the name of the blob is
//! locked from the beginning to the commit. The changes are one batch, or several steps.

use crate::codec;
use crate::conditions::Validators;
use crate::error::{Error, Result};
use crate::files::{FileChanges, FileRows};
use crate::keys::Timer;
use crate::keys::{self, File, History};
use crate::model::AccountPolicy;
use crate::model::{
    Blob, BlobAddress, BlobState, Container, Deleted, Layer, LayerMerge, PreviousState, Tags,
    Written,
};
use crate::names;
use crate::operations::path::{Path, Purpose};
use crate::operations::permit::{Action, Permit, RecordSlot};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Batch, Keyspace, Ticket, Transaction};
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// A write to the blobs of one name. Until it is committed or dropped, no other write changes these
/// blobs or deletes their container.
pub(crate) struct BlobWrite<'a> {
    pub(crate) service: &'a BlobService,
    pub(crate) policy: AccountPolicy,
    /// The key of the container's row.
    pub(crate) container_key: Vec<u8>,
    pub(crate) container: Container,
    /// The name that the blob is filed under.
    pub(crate) name: String,
    pub(crate) key: Vec<u8>,
    pub(crate) path: Path,
    /// The object id of the caller, who owns what it makes; `None` for a caller with all rights.
    pub(crate) owner: Option<String>,
    /// The moment by which what the write deleted can be restored.
    pub(crate) deleted_at: Option<SnapshotTime>,
    /// Whether the write renames, removes or changes a directory.
    pub(crate) moves_directory: bool,
    /// The time of the write, read under the lock that orders the writes to a name.
    pub(crate) now: SystemTime,
    /// The current blob; `None` if there is none, or if it has expired. The transaction removes an
    /// expired one.
    current: Option<Box<Blob>>,
    /// The snapshots that the transaction removes with an expired blob.
    pub(crate) expired_snapshots: Vec<SnapshotTime>,
    /// The last moment that this write assigned.
    given: Cell<Option<SnapshotTime>>,
    /// The file of the uncommitted blocks of a name without a blob.
    pub(crate) uncommitted: Option<u128>,
    /// The merge of layers of the current blob that is under way.
    merge: Option<LayerMerge>,
    files: FileChanges,
    /// Holds these locks, in this order: the container, shared; the name, exclusively; at the end
    /// the files whose counts of records change.
    pub(crate) transaction: Transaction<'a>,
    /// Whether the write has locked a file of pages: then it can lock no other file.
    pub(crate) has_file_lock: bool,
}

impl BlobService {
    /// Begins a write to one blob. Blocks while another operation writes to the blob, or to the
    /// container itself. Errors: invalid names; `InvalidOperation` for a snapshot or version;
    /// `ContainerNotFound`.
    pub(crate) fn begin_write(&self, address: &BlobAddress<'_>) -> Result<BlobWrite<'_>> {
        check_current(address)?;
        self.begin_any_write(address)
    }

    /// Like [`BlobService::begin_write`], for operations on a file or directory of a hierarchical
    /// container, for this purpose. Error: `NotHierarchical` if the operation needs such a container.
    pub(crate) fn begin_path_write(
        &self,
        address: &BlobAddress<'_>,
        purpose: Purpose,
    ) -> Result<BlobWrite<'_>> {
        check_current(address)?;
        self.begin_in(address, purpose, || Ok(self.db.begin()?))
    }

    /// Like [`BlobService::begin_write`], for operations that a full store also admits: see
    /// [`Db::admit_deletion`].
    ///
    /// [`Db::admit_deletion`]: lazurite_engine::Db::admit_deletion
    pub(crate) fn begin_housekeeping(&self, address: &BlobAddress<'_>) -> Result<BlobWrite<'_>> {
        check_current(address)?;
        self.begin_deletion(address)
    }

    /// Like [`BlobService::begin_write`], for operations that snapshots and versions accept too:
    /// see [`BlobWrite::find`].
    pub(crate) fn begin_any_write(&self, address: &BlobAddress<'_>) -> Result<BlobWrite<'_>> {
        self.begin_in(address, Purpose::Write, || Ok(self.db.begin()?))
    }

    /// Like [`BlobService::begin_any_write`], for an operation that deletes, which a full store
    /// also admits.
    pub(crate) fn begin_deletion(&self, address: &BlobAddress<'_>) -> Result<BlobWrite<'_>> {
        self.begin_in(address, Purpose::Remove, || Ok(self.db.begin_deletion()?))
    }

    fn begin_in<'s>(
        &'s self,
        address: &BlobAddress<'_>,
        purpose: Purpose,
        begin: impl FnOnce() -> Result<Transaction<'s>>,
    ) -> Result<BlobWrite<'s>> {
        names::check_container_name(address.container)?;
        let container_key = keys::container(address.account, address.container);
        let mut transaction = begin()?;
        transaction.lock_shared([(&self.keyspaces.containers, &container_key[..])])?;
        let container = self.keyspaces.container(&self.db, &container_key)?;
        let mut path = match container.hierarchical {
            true => self.lock_path(&mut transaction, &container, address, purpose)?,
            false => self.lock_name(&mut transaction, &container, address.blob)?,
        };
        let policy = self
            .policies
            .get(&self.db, &self.keyspaces, address.account)?;
        let name = std::mem::take(&mut path.stored_name);
        let mut write = self.open_write(container_key, container, policy, name, transaction)?;
        write.enter(path, purpose, address.caller)?;
        Ok(write)
    }

    /// Begins two writes at once: to the source of a copy, whose files are about to be shared, and
    /// to the destination, whose transaction holds the locks of both.
    pub(crate) fn begin_two_writes(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
    ) -> Result<[BlobWrite<'_>; 2]> {
        self.begin_both(source, destination, [Purpose::Read, Purpose::Write])
    }

    /// Like [`BlobService::begin_two_writes`], for these purposes.
    pub(crate) fn begin_both(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        purposes: [Purpose; 2],
    ) -> Result<[BlobWrite<'_>; 2]> {
        names::check_container_name(source.container)?;
        names::check_container_name(destination.container)?;
        let container_keys = [source, destination]
            .map(|address| keys::container(address.account, address.container));
        // The source's transaction holds no locks and writes nothing.
        let (mut transaction, for_source) = (self.db.begin()?, self.db.begin()?);
        let containers = &self.keyspaces.containers;
        transaction.lock_shared(container_keys.iter().map(|key| (containers, &key[..])))?;
        let [source_container, destination_container] = self.containers_of_copy(&container_keys)?;
        let targets = [
            (&source_container, source.blob, source.caller),
            (&destination_container, destination.blob, destination.caller),
        ];
        let [mut source_path, mut path] = self.lock_paths(&mut transaction, targets)?;
        let [source_name, name] =
            [&mut source_path, &mut path].map(|path| std::mem::take(&mut path.stored_name));
        let [source_key, key] = container_keys;
        let policy = |account| self.policies.get(&self.db, &self.keyspaces, account);
        let (from, to) = (policy(source.account)?, policy(destination.account)?);
        let mut from =
            self.open_write(source_key, source_container, from, source_name, for_source)?;
        from.enter(source_path, purposes[0], source.caller)?;
        let mut to = self.open_write(key, destination_container, to, name, transaction)?;
        to.enter(path, purposes[1], destination.caller)?;
        Ok([from, to])
    }

    /// Begins a change of the container with that key. Writes to its blobs wait until the
    /// transaction is dropped.
    pub(crate) fn begin_container_change(&self, key: &[u8]) -> Result<Transaction<'_>> {
        let mut transaction = self.db.begin()?;
        transaction.lock([(&self.keyspaces.containers, key)])?;
        Ok(transaction)
    }

    /// Commits records with new ETags.
    pub(crate) fn commit_records(&self, transaction: &mut Transaction<'_>) -> Result<Ticket> {
        self.etags.record(|bound| {
            let mut batch = Batch::new();
            let value = codec::encode_count(bound);
            batch.put(&self.keyspaces.accounts, keys::ETAG_BOUND, &value);
            // The ticket of the records covers this write.
            drop(self.db.write_admitted(batch, transaction.admission())?);
            Ok(())
        })?;
        Ok(transaction.commit()?)
    }

    /// Marks an operation that holds locks for long, until the guard is dropped: see
    /// [`BlobService::has_long_operation`].
    pub(crate) fn begin_long_operation(&self) -> LongOperation<'_> {
        self.long_operations.fetch_add(1, Ordering::Relaxed);
        LongOperation(&self.long_operations)
    }

    /// True while an operation holds locks for more than a few milliseconds: a hint for callers
    /// that must not block.
    pub fn has_long_operation(&self) -> bool {
        self.long_operations.load(Ordering::Relaxed) > 0
    }

    /// The containers of the source and the destination of a copy.
    fn containers_of_copy(&self, [source, destination]: &[Vec<u8>; 2]) -> Result<[Container; 2]> {
        // If both are missing, the error is the destination's.
        let destination = self.keyspaces.container(&self.db, destination)?;
        let source = self.keyspaces.container(&self.db, source);
        let source = source.map_err(|error| match error {
            Error::ContainerNotFound => Error::BlobNotFound,
            other => other,
        })?;
        Ok([source, destination])
    }

    /// The merge of the blob's layers that is under way.
    fn merge_of(&self, blob: Option<&Blob>, home: u128, key: &[u8]) -> Result<Option<LayerMerge>> {
        match blob {
            Some(blob) if blob.layers.len() > LayerMerge::LAYERS_MIN => {
                self.keyspaces.merge(&self.db, home, key)
            }
            _ => Ok(None),
        }
    }

    /// Reads the record and the clock. The caller holds the locks.
    pub(crate) fn open_write<'s>(
        &'s self,
        container_key: Vec<u8>,
        container: Container,
        policy: AccountPolicy,
        name: String,
        transaction: Transaction<'s>,
    ) -> Result<BlobWrite<'s>> {
        let home = container.id;
        let key = keys::blob(home, &name);
        let current = self.keyspaces.record(&self.db, home, &key)?;
        let uncommitted = match current {
            Some(_) => None,
            None => self.keyspaces.uncommitted(&self.db, home, &name)?,
        };
        let merge = self.merge_of(current.as_deref(), home, &key)?;
        let mut write = BlobWrite {
            service: self,
            policy,
            container_key,
            container,
            name,
            key,
            path: Path::default(),
            owner: None,
            deleted_at: None,
            moves_directory: false,
            now: self.now(),
            current,
            expired_snapshots: Vec::new(),
            given: Cell::new(None),
            uncommitted,
            merge,
            files: FileChanges::new(home),
            transaction,
            has_file_lock: false,
        };
        write.end_expired()?;
        Ok(write)
    }
}

fn check_current(address: &BlobAddress<'_>) -> Result<()> {
    match address.state {
        BlobState::Current => Ok(()),
        BlobState::Snapshot(_) | BlobState::Version(_) => Err(Error::InvalidOperation {
            reason: "snapshots and versions are not written to",
        }),
    }
}

/// Drop guard: counts an operation that holds locks for long.
pub(crate) struct LongOperation<'a>(&'a AtomicUsize);

impl Drop for LongOperation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Later than every assigned moment.
pub(crate) const LAST: SnapshotTime = SnapshotTime(u64::MAX);

/// Why a blob is no longer current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetireReason {
    Overwritten,
    Deleted,
}

impl RetireReason {
    fn action(self) -> Action {
        match self {
            RetireReason::Overwritten => Action::Replace,
            RetireReason::Deleted => Action::Delete,
        }
    }
}

impl<'a> BlobWrite<'a> {
    pub(crate) fn home(&self) -> u128 {
        self.container.id
    }

    /// A file of the container, by its id.
    pub(crate) fn file(&self, id: u128) -> File {
        File {
            home: self.home(),
            id,
        }
    }

    /// Marks as shared the layers of the current blob that another record is about to name, and
    /// counts that record.
    pub(crate) fn share_layers(&mut self, named: impl Fn(File) -> bool) {
        for layer in self.current.iter_mut().flat_map(|blob| &mut blob.layers) {
            if named(layer.file) {
                layer.shared = true;
                self.files.add(layer);
            }
        }
    }

    pub(crate) fn new_file(&self) -> File {
        self.file(self.service.ids.next_id())
    }

    /// The current blob; `None` if there is none, or it has expired.
    pub(crate) fn current(&self) -> Option<&Blob> {
        self.current.as_deref()
    }

    /// Takes a record that has no row yet as the current one.
    pub(crate) fn set_current(&mut self, blob: Box<Blob>) {
        self.current = Some(blob);
    }

    /// Ends the current blob: from now on the name has none.
    pub(crate) fn end_current(&mut self) {
        self.current = None;
    }

    /// Like [`BlobWrite::current`]. Error: `BlobNotFound`.
    pub(crate) fn existing(&self) -> Result<Box<Blob>> {
        self.current.clone().ok_or(Error::BlobNotFound)
    }

    pub(crate) fn validators(&self) -> Option<Validators> {
        self.current().map(Validators::from)
    }

    /// The record of a state of the blob, and its place. Error: `BlobNotFound`.
    pub(crate) fn find(&self, state: BlobState) -> Result<(RecordSlot, Box<Blob>)> {
        let place = match state {
            BlobState::Current => return Ok((RecordSlot::Current, self.existing()?)),
            BlobState::Version(moment) => match self.current() {
                Some(blob) if blob.version == Some(moment) => {
                    return Ok((RecordSlot::Current, Box::new(blob.clone())));
                }
                _ => RecordSlot::Past(History::Version, moment),
            },
            BlobState::Snapshot(moment) => RecordSlot::Past(History::Snapshot, moment),
        };
        let found = self.past(place)?;
        Ok((place, found.ok_or(Error::BlobNotFound)?))
    }

    /// The record at a place, deleted ones included.
    pub(crate) fn past(&self, place: RecordSlot) -> Result<Option<Box<Blob>>> {
        let RecordSlot::Past(kind, moment) = place else {
            return Ok(self.current.clone());
        };
        if kind == History::Snapshot && self.expired_snapshots.contains(&moment) {
            return Ok(None);
        }
        let key = keys::history(self.home(), kind, &self.name, moment);
        let service = self.service;
        service.keyspaces.past(&service.db, self.home(), &key)
    }

    /// Returns a moment later than all moments under this name, even if the clock was set back
    /// before a restart.
    pub(crate) fn new_moment(&self) -> Result<SnapshotTime> {
        let etag = self.current.as_ref().map(|blob| blob.etag);
        self.after_all_moments(SnapshotTime(self.service.etags.next(self.now, etag).0))
    }

    /// This moment, or the first one later than all that are assigned under this name.
    pub(crate) fn after_all_moments(&self, mut moment: SnapshotTime) -> Result<SnapshotTime> {
        let current = self.current.as_ref();
        let mut last = vec![current.and_then(|blob| blob.version)];
        for kind in [History::Snapshot, History::Version, History::Deleted] {
            last.push(self.last_moment(kind)?);
        }
        last.push(self.given.get());
        for last in last.into_iter().flatten() {
            moment = moment.max(last.next());
        }
        self.given.set(Some(moment));
        Ok(moment)
    }

    /// Allows an action on a record. `blob` is the stored record, if any. Errors: as
    /// [`Permit::new`].
    pub(crate) fn permit(
        &self,
        action: Action,
        place: RecordSlot,
        blob: Option<&Blob>,
    ) -> Result<Permit> {
        debug_assert!(
            blob.is_some() || action != Action::Add || self.past(place)?.is_none(),
            "something stands at {place:?}"
        );
        // A blob that becomes a version is kept.
        let keeps = matches!(action, Action::Replace | Action::Delete) && self.keeps_versions();
        Permit::new(action, place, blob, self.now, keeps)
    }

    /// Like [`BlobWrite::permit`], with the current blob.
    pub(crate) fn permit_current(&self, action: Action) -> Result<Permit> {
        self.permit(action, RecordSlot::Current, self.current())
    }

    /// Replaces the stored record, if any. Indexes the tags of the current blob and of versions.
    pub(crate) fn put(&mut self, permit: &Permit, blob: &Blob) {
        if blob.legal_hold || blob.immutability.is_some() {
            // The value differs each time: see `permit_container`.
            let mark = self.service.ids.next_id().to_be_bytes();
            let protected = &self.service.keyspaces.protected;
            let home = self.home().to_be_bytes();
            self.transaction.batch().put(protected, &home, &mark);
        }
        match permit.place() {
            RecordSlot::Current => {
                self.moves_directory |= self.is_directory();
                self.index_tags(&blob.tags);
                self.keep_merge_of(Some(blob));
                if self.uncommitted.is_some() {
                    let marker = keys::history_of(self.home(), History::Uncommitted, &self.name);
                    let history = &self.service.keyspaces.history;
                    self.transaction.batch().delete(history, &marker);
                }
            }
            RecordSlot::Past(History::Version, moment) => {
                self.index(&Tags::new(), &blob.tags, Some(moment));
            }
            RecordSlot::Past(..) => {}
        }
        let (keyspace, key) = self.row(permit.place());
        let key = key.into_owned();
        let value = codec::encode_blob(blob, self.home());
        self.transaction.batch().put(keyspace, &key, &value);
    }

    /// Puts a record of another write, and nothing else, to be committed with this one.
    pub(crate) fn put_for(&mut self, other: &BlobWrite<'_>, permit: &Permit, blob: &Blob) {
        let (keyspace, key) = other.row(permit.place());
        let value = codec::encode_blob(blob, other.home());
        self.transaction.batch().put(keyspace, &key, &value);
    }

    /// Removes a record. For the current blob, also removes its tags from the index and ends its
    /// merge. The files of the blob stay.
    pub(crate) fn remove(&mut self, permit: &Permit) {
        if permit.place() == RecordSlot::Current {
            self.index_tags(&Tags::new());
            self.keep_merge_of(None);
        }
        let (keyspace, key) = self.row(permit.place());
        let key = key.into_owned();
        self.transaction.batch().delete(keyspace, &key);
    }

    /// The merge of layers of the current blob that is under way.
    pub(crate) fn merge(&self) -> Option<&LayerMerge> {
        self.merge.as_ref()
    }

    /// Stores how far a merge has come.
    pub(crate) fn put_merge(&mut self, merge: LayerMerge) {
        let value = codec::encode_merge(&merge, self.home());
        let merges = &self.service.keyspaces.merges;
        self.transaction.batch().put(merges, &self.key, &value);
        self.merge = Some(merge);
    }

    /// Ends the merge that is under way, and returns it; its target stays.
    pub(crate) fn end_merge(&mut self) -> Option<LayerMerge> {
        let merge = self.merge.take()?;
        let merges = &self.service.keyspaces.merges;
        self.transaction.batch().delete(merges, &self.key);
        Some(merge)
    }

    /// Abandons the merge and drops its copies.
    pub(crate) fn drop_merge(&mut self) {
        if let Some(merge) = self.end_merge() {
            self.rows().drop_file(merge.target);
        }
    }

    /// Drops the merge unless its layers stay in place in `next`, the next current blob.
    fn keep_merge_of(&mut self, next: Option<&Blob>) {
        let merge = self.merge.as_ref();
        if merge.is_some_and(|merge| next.and_then(|blob| merge.place_in(blob)).is_none()) {
            self.drop_merge();
        }
    }

    /// The rows of files that the write puts and deletes.
    pub(crate) fn rows(&mut self) -> FileRows<'_> {
        FileRows::new(&self.service.keyspaces, self.transaction.batch())
    }

    /// Notes that one more record names the layer's file.
    pub(crate) fn name_file(&mut self, layer: &Layer) {
        self.files.add(layer);
    }

    /// Notes that a record of another container no longer names the file of a shared layer.
    pub(crate) fn unname_shared_file_of(&mut self, home: u128, layer: &Layer) {
        self.files.remove_shared_of(home, layer);
    }

    /// Notes that a record no longer names the layer's file. Drops the file if no record names it.
    pub(crate) fn unname_file(&mut self, layer: &Layer) {
        let mut rows = FileRows::new(&self.service.keyspaces, self.transaction.batch());
        self.files.remove(&mut rows, layer);
    }

    /// Notes that the record of this blob is removed, and no longer names its files.
    pub(crate) fn forget(&mut self, blob: &Blob) {
        self.remove_below_later(blob);
        let mut rows = FileRows::new(&self.service.keyspaces, self.transaction.batch());
        self.files.remove_all(&mut rows, blob);
    }

    /// Notes that a record of this blob may name the file.
    pub(crate) fn note_namer(&mut self, file: File, blob_key: &[u8], container_key: &[u8]) {
        self.rows()
            .put_reference(&file.namer(blob_key), container_key);
    }

    /// Notes that the name has uncommitted blocks only, and the file they are in.
    pub(crate) fn put_uncommitted_marker(&mut self, file: File) {
        let marker = keys::history_of(self.home(), History::Uncommitted, &self.name);
        let value = codec::encode_uncommitted(file.id);
        let history = &self.service.keyspaces.history;
        self.transaction.batch().put(history, &marker, &value);
    }

    /// Adds the blob to the list of destinations of pending copies.
    pub(crate) fn list_pending_copy(&mut self) {
        let copies = &self.service.keyspaces.copies;
        self.transaction
            .batch()
            .put(copies, &self.key, &self.container_key);
    }

    /// Removes the blob from the list of destinations of pending copies.
    pub(crate) fn unlist_pending_copy(&mut self) {
        let copies = &self.service.keyspaces.copies;
        self.transaction.batch().delete(copies, &self.key);
    }

    /// The keyspace and the key of a record.
    fn row(&self, place: RecordSlot) -> (&'a Keyspace, Cow<'_, [u8]>) {
        let keyspaces = &self.service.keyspaces;
        match place {
            RecordSlot::Current => (&keyspaces.blobs, Cow::Borrowed(&self.key[..])),
            RecordSlot::Past(kind, moment) => {
                let key = keys::history(self.home(), kind, &self.name, moment);
                (&keyspaces.history, Cow::Owned(key))
            }
        }
    }

    /// Updates the index so that the current blob is found by these tags.
    fn index_tags(&mut self, tags: &Tags) {
        let before = self
            .current
            .as_ref()
            .map_or(Tags::new(), |blob| blob.tags.clone());
        self.index(&before, tags, None);
    }

    /// Updates the index of the current blob, or of a version, from the tags `before` to `after`. A
    /// hierarchical container has no index: a rename of a directory would change all that is below.
    pub(crate) fn index(&mut self, before: &Tags, after: &Tags, version: Option<SnapshotTime>) {
        if self.container.hierarchical {
            return;
        }
        let home = self.container.id;
        let keyspace = &self.service.keyspaces.tags;
        for (name, value) in before.iter().filter(|tag| !after.contains(tag)) {
            let key = keys::tag(home, name, value, &self.name, version);
            self.transaction.batch().delete(keyspace, &key);
        }
        for (name, value) in after.iter().filter(|tag| !before.contains(tag)) {
            let key = keys::tag(home, name, value, &self.name, version);
            self.transaction.batch().put(keyspace, &key, b"");
        }
    }

    /// Moves the current blob to the history if the account keeps it; otherwise removes it for
    /// good. Removes its uncommitted blocks in both cases. The caller must replace or remove the
    /// record.
    pub(crate) fn retire(&mut self, why: RetireReason) -> Result<Permit> {
        let permit = self.permit_current(why.action())?;
        let kept = self.retire_blob(why)?;
        self.discard_staging(kept)?;
        Ok(permit)
    }

    /// Like [`BlobWrite::retire`] without the uncommitted blocks. Returns whether the blob is kept.
    pub(crate) fn retire_blob(&mut self, why: RetireReason) -> Result<bool> {
        let _ = self.permit_current(why.action())?;
        let Some(mut blob) = self.current.clone() else {
            return Ok(false);
        };
        blob.lease = Default::default();
        blob.staging = None;
        if self.keeps_versions() {
            blob.expires_at = None;
            let moment = match blob.version {
                Some(moment) => moment,
                None => self.moment_of_version(&blob)?,
            };
            blob.version = Some(moment);
            let place = RecordSlot::Past(History::Version, moment);
            let permit = self.permit(Action::Add, place, None)?;
            self.put(&permit, &blob);
            return Ok(true);
        }
        if self.keeps(why) {
            let moment = self.new_moment()?;
            let previous = match why {
                RetireReason::Overwritten => PreviousState::Snapshot(moment),
                RetireReason::Deleted => PreviousState::Blob,
            };
            if why == RetireReason::Overwritten {
                blob.snapshot = Some(moment);
                blob.expires_at = None;
            }
            self.put_deleted(moment, previous, blob)?;
            return Ok(true);
        }
        self.trim_later(History::Snapshot, LAST, &blob);
        self.forget(&blob);
        Ok(false)
    }

    /// Returns the moment of the version that is made of a blob written before the account kept
    /// versions: the time of its write, or a new moment if another version already has that time
    /// because the clock was set back.
    fn moment_of_version(&self, blob: &Blob) -> Result<SnapshotTime> {
        let moment = SnapshotTime(blob.etag.0);
        for kind in [History::Version, History::Deleted] {
            if self.past(RecordSlot::Past(kind, moment))?.is_some() {
                return self.new_moment();
            }
        }
        Ok(moment)
    }

    /// Whether a blob that is overwritten or deleted now is kept. In a hierarchical container, the
    /// retention of deleted blobs does not cover overwritten ones. Source: Soft delete for blobs,
    /// "How overwrites are handled".
    pub(crate) fn keeps(&self, why: RetireReason) -> bool {
        let retains = !self.container.hierarchical || why == RetireReason::Deleted;
        let days = self.policy.delete_retention_days.filter(|_| retains);
        self.current().is_some() && (self.keeps_versions() || days.is_some())
    }

    /// True if the blob becomes a version when it is replaced: the account keeps versions now, or
    /// kept them when the blob was written. Source: Blob versioning, "Enable or disable blob
    /// versioning".
    pub(crate) fn keeps_versions(&self) -> bool {
        let is_version = self.current().is_some_and(|blob| blob.version.is_some());
        self.policy.versioning || is_version
    }

    /// Files a blob as deleted, for the retention of the account.
    pub(crate) fn put_deleted(
        &mut self,
        moment: SnapshotTime,
        previous: PreviousState,
        mut blob: Box<Blob>,
    ) -> Result<()> {
        let days = self.policy.delete_retention_days.unwrap_or(1);
        let until = self.now + Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        blob.deleted = Some(Deleted {
            at: self.now,
            until,
            previous: Some(previous),
        });
        // A snapshot and a version can have the same moment after the clock was set back.
        let is_free = self
            .past(RecordSlot::Past(History::Deleted, moment))?
            .is_none();
        let moment = if is_free { moment } else { self.new_moment()? };
        self.deleted_at = Some(moment);
        let place = RecordSlot::Past(History::Deleted, moment);
        let permit = self.permit(Action::Add, place, None)?;
        self.put(&permit, &blob);
        let key = keys::history(self.home(), History::Deleted, &self.name, moment);
        self.set_timer(until, Timer::Deleted, &key);
        Ok(())
    }

    /// Deletes the timer with this key in `blob.timers`.
    pub(crate) fn delete_timer(&mut self, key: &[u8]) {
        self.transaction
            .batch()
            .delete(&self.service.keyspaces.timers, key);
    }

    pub(crate) fn set_timer(&mut self, due: SystemTime, timer: Timer, subject: &[u8]) {
        let key = keys::timer(SnapshotTime::at(due), timer, subject);
        let timers = &self.service.keyspaces.timers;
        self.transaction
            .batch()
            .put(timers, &key, &self.container_key);
    }

    /// Removes the uncommitted blocks. If `kept`, the file of the current blob stays.
    pub(crate) fn discard_staging(&mut self, kept: bool) -> Result<()> {
        let home = self.home();
        let staging = self.staging();
        let Some(file) = staging.map(|id| File { home, id }) else {
            return Ok(());
        };
        let layers = self.current.as_ref().map_or(&[][..], |blob| &blob.layers);
        let stays = layers
            .iter()
            .any(|layer| layer.file == file && (kept || layer.shared));
        if !stays {
            self.rows().drop_file(file);
            return Ok(());
        }
        self.service.drop_staged(&mut self.rows(), file)?;
        Ok(())
    }

    /// Notes that there are no uncommitted blocks. Removes a name that had nothing else.
    pub(crate) fn put_without_staging(&mut self) -> Result<()> {
        match self.current.clone() {
            Some(mut blob) => {
                blob.staging = None;
                let permit = self.permit_current(Action::Refile)?;
                self.put(&permit, &blob);
            }
            None => {
                let marker = keys::history_of(self.home(), History::Uncommitted, &self.name);
                let keyspaces = &self.service.keyspaces;
                self.transaction.batch().delete(&keyspaces.history, &marker);
            }
        }
        Ok(())
    }

    /// The id of the file of the uncommitted blocks, if there are any.
    pub(crate) fn staging(&self) -> Option<u128> {
        match &self.current {
            Some(blob) => blob.staging,
            None => self.uncommitted,
        }
    }

    /// Puts a changed blob with new validators, and commits.
    pub(crate) fn commit_changed(
        mut self,
        permit: &Permit,
        mut blob: Box<Blob>,
    ) -> Result<(Written, Ticket)> {
        let written = self.touch(&mut blob);
        self.put(permit, &blob);
        Ok((written, self.commit()?))
    }

    /// Writes the changes so far, and keeps the locks. Does not wait for the disk: the ticket of
    /// the last step covers this one. Waits between steps while writers are throttled. This delays
    /// no other operation: readers take no lock, and other writers wait as well.
    pub(crate) fn commit_step(&mut self) -> Result<()> {
        let none = FileChanges::new(self.home());
        let files = std::mem::replace(&mut self.files, none);
        drop(self.settle_and_write(&files)?);
        // The next step may change other files, so the locks of these are released.
        let references = &self.service.keyspaces.references;
        self.transaction.unlock_from(references);
        self.has_file_lock = false;
        Ok(self.transaction.admit_deletion_again()?)
    }

    /// Writes the changes, and releases the locks.
    pub(crate) fn commit(mut self) -> Result<Ticket> {
        let none = FileChanges::new(self.home());
        let files = std::mem::replace(&mut self.files, none);
        self.settle_and_write(&files)
    }

    fn settle_and_write(&mut self, files: &FileChanges) -> Result<Ticket> {
        debug_assert!(
            !self.has_file_lock || files.is_empty(),
            "a lock of a file is held, and others are to be taken"
        );
        let service = self.service;
        self.put_new_directories()?;
        service.settle_files(&mut self.transaction, files, self.now)?;
        let _move = self
            .moves_directory
            .then(|| service.directories.begin_move());
        service.commit_records(&mut self.transaction)
    }
}

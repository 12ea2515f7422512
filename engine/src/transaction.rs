//! Transactions: read, check and write with no other writer in between.
//!
//! A [`Transaction`] locks keys, and waits for the transactions that hold them. An [`OptimisticTransaction`] locks nothing, and its
//! commit fails if a key or range that it read has changed. Both see their own writes, and both commit as one [`Batch`].
//!
//! transaction -> [`Db::begin`]: admitted -> [`Transaction::lock`] -> [`Transaction::get`], check -> [`Transaction::batch`]
//!             -> [`Transaction::commit`] -> dropped: unlocked -> ticket awaited

use crate::base::codec::wide_hash;
use crate::base::key::{Kind, SEQUENCE_MAX, is_before_end};
use crate::base::mutex::lock;
use crate::base::sync::Mutex;
use crate::format::change::{Change, Changes};
use crate::tree::memtable::Memtable;
use crate::values::Pin;
use crate::write::key_locks::{HeldLocks, LockedKey, Mode};
use crate::write::reads::{CheckedReads, Reads};
use crate::{
    Admission, Batch, Db, Direction, KeyRange, Keyspace, Result, Scan, Snapshot, Ticket,
    ValueReader,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Holds locks on keys until it is dropped. Writes that are not committed by then are discarded.
///
/// A lock keeps out only transactions that lock the same key: not [`Db::write`], not an [`OptimisticTransaction`], and not a
/// transaction that writes the key without locking it. A key that is only written together with a locked one needs no lock of its own.
///
/// Stays with its thread, as a mutex guard does. A thread needs one transaction at a time: while it holds keys in one, no other one
/// waits for a key.
#[derive(Debug)]
pub struct Transaction<'d> {
    db: &'d Db,
    admission: Admission,
    locks: HeldLocks<'d>,
    writes: Writes,
}

/// Reads a snapshot, and commits only if the keys and ranges that it read have not changed since.
#[derive(Debug)]
pub struct OptimisticTransaction<'d> {
    db: &'d Db,
    snapshot: Snapshot,
    reads: Reads,
    writes: Writes,
}

/// The batch of a transaction, with an index for reads of its own writes.
#[derive(Debug, Default)]
struct Writes {
    batch: Batch,
    /// Made by the first read behind a write: most transactions read before they write.
    index: Option<Box<WriteIndex>>,
    /// The rows of the batch in each keyspace that was scanned since the last change of the batch.
    rows: Mutex<Vec<(u32, OwnRows)>>,
}

/// The last write to each key of a batch.
#[derive(Debug, Default)]
struct WriteIndex {
    /// Bytes of the payload that are in the index.
    indexed: usize,
    values: BTreeMap<(u32, Vec<u8>), Written>,
    deleted: Vec<(u32, KeyRange)>,
}

/// The changes of a batch to one keyspace, for scans.
#[derive(Debug)]
struct OwnRows {
    memtable: Arc<Memtable>,
    /// How many changes there are.
    last: u64,
    pins: Arc<[Pin]>,
}

impl OwnRows {
    /// The batch must have passed [`Batch::check_rows`].
    fn new(batch: &Batch, keyspace: &Keyspace) -> OwnRows {
        let changes = Changes::new(&batch.payload);
        let changes = changes.map(|change| change.expect("the payload was encoded by a batch"));
        let own = changes.filter(|change| change.keyspace() == keyspace.id());
        let memtable = Memtable::new(Duration::ZERO);
        let mut last = 0;
        let counted = (1..).zip(own).inspect(|(sequence, _)| last = *sequence);
        // No reader sees a part of them: a later change replaces earlier ones.
        memtable.apply(counted, SEQUENCE_MAX);
        OwnRows {
            memtable: Arc::new(memtable),
            last,
            pins: batch.pins.as_slice().into(),
        }
    }
}

#[derive(Debug, Clone)]
enum Written {
    Deleted,
    Value(Bytes),
    /// A pointer into the value log.
    Large(Bytes),
}

impl Db {
    /// Begins a transaction and locks these keys. Waits to be admitted first, as [`Db::admit`] does, so that no lock is held
    /// meanwhile. Transactions queue for a key in the order of arrival; one that waits is passed by a bounded number of others.
    /// Errors: as [`Db::admit`] and [`Transaction::lock`].
    pub fn transaction(&self, keys: &[(&Keyspace, &[u8])]) -> Result<Transaction<'_>> {
        let mut transaction = self.begin()?;
        transaction.lock(keys.iter().copied())?;
        Ok(transaction)
    }

    /// Begins a transaction without locks. Waits as [`Db::admit`] does. Errors: as [`Db::admit`].
    pub fn begin(&self) -> Result<Transaction<'_>> {
        Ok(self.begin_admitted(self.admit()?))
    }

    /// As [`Db::begin`], for a transaction that deletes: see [`Db::admit_deletion`].
    pub fn begin_deletion(&self) -> Result<Transaction<'_>> {
        Ok(self.begin_admitted(self.admit_deletion()?))
    }

    fn begin_admitted(&self, admission: Admission) -> Transaction<'_> {
        Transaction {
            db: self,
            admission,
            locks: self.parts().key_locks.begin(),
            writes: Writes::default(),
        }
    }

    /// Begins a transaction that never locks and reads the store as it is now.
    pub fn optimistic(&self) -> OptimisticTransaction<'_> {
        OptimisticTransaction {
            db: self,
            snapshot: self.snapshot(),
            reads: Reads::default(),
            writes: Writes::default(),
        }
    }
}

impl Transaction<'_> {
    /// Locks more keys. A key may be named twice, and one that the transaction holds may be named again.
    ///
    /// Keys are ordered by keyspace, in the order in which this process first opened the keyspaces, then by a hash. Waits for other
    /// holders if all new keys come after those that the transaction holds: lock all keys of a keyspace in one call, and keyspaces in
    /// the order of their opening. Otherwise takes the keys only if they are free. Errors: `Conflict` if they are not: drop the
    /// transaction and begin again; `Deadlock` if they are not and this thread holds keys in another transaction;
    /// `UnknownKeyspace`. After an error the transaction holds the keys that it held.
    pub fn lock<'k>(
        &mut self,
        keys: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        self.lock_as(Mode::Exclusive, keys)
    }

    /// As [`Transaction::lock`], for keys that the transaction reads and does not write: several transactions may hold them shared.
    /// [`Transaction::lock`] makes such a lock exclusive if there is no other holder; otherwise its error is `Conflict`.
    pub fn lock_shared<'k>(
        &mut self,
        keys: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        self.lock_as(Mode::Shared, keys)
    }

    fn lock_as<'k>(
        &mut self,
        mode: Mode,
        keys: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        let parts = self.db.parts();
        let key = |(keyspace, key): (&Keyspace, &[u8])| {
            parts.trees.check(keyspace.tree())?;
            let (rank, hash) = (keyspace.tree().lock_rank(), wide_hash(key));
            Ok((LockedKey { rank, hash }, mode))
        };
        self.locks.lock(keys.into_iter().map(key))
    }

    /// Unlocks the keys of `keyspace`, and of all that were opened after it: for a transaction of several commits of which each needs
    /// other keys there. Call it after a commit.
    pub fn unlock_from(&mut self, keyspace: &Keyspace) {
        self.locks.unlock_from(keyspace.tree().lock_rank());
    }

    /// Waits to be admitted to another commit, as [`Db::begin_deletion`] does, but with its keys locked: for a transaction of several
    /// commits that readers do not wait for. Errors: as [`Db::admit`].
    pub fn admit_deletion_again(&mut self) -> Result<()> {
        self.admission = self.db.admit_deletion()?;
        Ok(())
    }

    /// The value that this transaction has written to a key, or else the newest one. A large value is read whole. Errors: as
    /// [`Db::get`].
    pub fn get(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        match self.writes.find(keyspace, key) {
            Some(written) => self.writes.read(self.db, written),
            None => self.db.get(keyspace, key),
        }
    }

    /// The rows of a range as they are now, with the writes of this transaction so far. Only locked keys stay as they are: a row
    /// that is not locked may change during the scan and after it. The first advance answers `TooLarge` if a key or a value that was
    /// written is over the limits.
    pub fn scan(&self, keyspace: &Keyspace, range: KeyRange, direction: Direction) -> Scan {
        let snapshot = self.db.snapshot();
        self.writes.scan(&snapshot, keyspace, range, direction)
    }

    /// The writes of the next commit. Add to this batch; do not replace it by another one.
    pub fn batch(&mut self) -> &mut Batch {
        self.writes.batch_mut()
    }

    /// For other batches that are written under the locks of this transaction.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Writes the batch. The keys stay locked until the transaction is dropped, so that state in memory can follow the write. Drop it
    /// before you wait for the ticket. Errors: as [`Db::write_admitted`]; the batch is then discarded.
    pub fn commit(&mut self) -> Result<Ticket> {
        let batch = self.writes.take();
        self.db.write_admitted(batch, &self.admission)
    }
}

impl OptimisticTransaction<'_> {
    /// The value that this transaction has written to a key, or else the one when it began. Errors: as [`Snapshot::get`].
    pub fn get(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(written) = self.writes.find(keyspace, key) {
            return self.writes.read(self.db, written);
        }
        let value = self.snapshot.get(keyspace, key)?;
        self.reads.add_key(keyspace.tree(), key);
        Ok(value)
    }

    /// The rows of a range when the transaction began, with its own writes so far. The whole range counts as read: a row that another
    /// writer adds to it is a conflict.
    /// The first advance answers `TooLarge` as in [`Transaction::scan`].
    pub fn scan(&mut self, keyspace: &Keyspace, range: KeyRange, direction: Direction) -> Scan {
        self.reads.add_range(keyspace.tree(), range.clone());
        self.writes.scan(&self.snapshot, keyspace, range, direction)
    }

    /// The writes of the next commit. Add to this batch; do not replace it by another one.
    pub fn batch(&mut self) -> &mut Batch {
        self.writes.batch_mut()
    }

    /// Writes the batch if no write of any kind has changed a key or range that was read. A transaction that writes nothing has read
    /// one state of the store and always succeeds. Blocks as [`Db::write`] does, and reads from the disk if there were writes since
    /// it began. Errors: `Conflict`, and then nothing is written; as [`Db::write`]. A commit may also fail with `Conflict` without a
    /// change: when a flush comes in between, or when a range that was read has over 10,000 rows in memory and writes come in
    /// between.
    pub fn commit(self) -> Result<Ticket> {
        let batch = self.writes.batch;
        if batch.is_empty() {
            return Ok(self.db.ticket());
        }
        let is_deletion = batch.deletes && !batch.puts;
        let admission = if is_deletion {
            self.db.admit_deletion()?
        } else {
            self.db.admit()?
        };
        let now = self.db.snapshot();
        let numbers = [self.snapshot.sequence(), now.sequence()];
        if self.reads.differ(&self.db.parts().cache, numbers)? {
            return Err(crate::Error::Conflict);
        }
        let reads = CheckedReads {
            reads: self.reads,
            since: now.sequence(),
        };
        self.db.write_checked(batch, &admission, Some(reads))
    }
}

impl Writes {
    /// The last write to a key, if any.
    fn find(&mut self, keyspace: &Keyspace, key: &[u8]) -> Option<Written> {
        if self.batch.is_empty() {
            return None;
        }
        let index = self.index.get_or_insert_default();
        index.extend(&self.batch);
        let id = keyspace.id();
        if let Some(written) = index.values.get(&(id, key.to_vec())) {
            return Some(written.clone());
        }
        let covers = |(deleted, range): &(u32, KeyRange)| {
            *deleted == id && range.start[..] <= *key && is_before_end(key, range.end.as_deref())
        };
        index.deleted.iter().any(covers).then_some(Written::Deleted)
    }

    fn scan(
        &self,
        snapshot: &Snapshot,
        keyspace: &Keyspace,
        range: KeyRange,
        direction: Direction,
    ) -> Scan {
        if let Err(error) = self.batch.check_rows() {
            return snapshot.refused_scan(keyspace, error);
        }
        let mut cached = lock(&self.rows);
        let known = cached.iter().position(|(id, _)| *id == keyspace.id());
        let at = known.unwrap_or_else(|| {
            cached.push((keyspace.id(), OwnRows::new(&self.batch, keyspace)));
            cached.len() - 1
        });
        let own = &cached[at].1;
        if own.last == 0 {
            return snapshot.scan(keyspace, range, direction);
        }
        let writes = (own.memtable.clone(), own.last);
        snapshot.scan_with(keyspace, range, direction, writes, own.pins.clone())
    }

    /// The batch, about to be changed.
    fn batch_mut(&mut self) -> &mut Batch {
        self.forget_rows();
        &mut self.batch
    }

    /// The batch, about to be committed. Another one begins.
    fn take(&mut self) -> Batch {
        self.forget_rows();
        self.index = None;
        std::mem::take(&mut self.batch)
    }

    fn forget_rows(&mut self) {
        let rows = self.rows.get_mut().unwrap_or_else(PoisonError::into_inner);
        rows.clear();
    }

    fn read(&self, db: &Db, written: Written) -> Result<Option<Bytes>> {
        match written {
            Written::Deleted => Ok(None),
            Written::Value(value) => Ok(Some(value)),
            // The batch keeps it where it is.
            Written::Large(pointer) => {
                let value = db.parts().open_large(&pointer)?;
                value.as_ref().map(ValueReader::read_all).transpose()
            }
        }
    }
}

impl WriteIndex {
    /// Indexes the changes since the last read.
    fn extend(&mut self, batch: &Batch) {
        if self.indexed > batch.payload.len() {
            // Another batch, against the documentation. Its changes are not the indexed ones.
            (self.indexed, self.values, self.deleted) = Default::default();
        }
        let payload = &batch.payload[self.indexed..];
        for change in Changes::new(payload) {
            match change.expect("the payload was encoded by a batch") {
                Change::Set {
                    keyspace,
                    key,
                    kind,
                    value,
                } => self.set(keyspace, key, kind, value),
                Change::DeleteRange {
                    keyspace,
                    start,
                    end,
                } => self.delete_range(keyspace, start, end),
            }
        }
        self.indexed = batch.payload.len();
    }

    fn set(&mut self, keyspace: u32, key: &[u8], kind: Kind, value: &[u8]) {
        let written = match kind {
            Kind::Delete => Written::Deleted,
            Kind::Put => Written::Value(Bytes::copy_from_slice(value)),
            Kind::Large => Written::Large(Bytes::copy_from_slice(value)),
        };
        self.values.insert((keyspace, key.to_vec()), written);
    }

    fn delete_range(&mut self, keyspace: u32, start: &[u8], end: Option<&[u8]>) {
        let from = (keyspace, start.to_vec());
        let rows = self.values.range_mut(from..);
        let covered = rows.take_while(|((id, key), _)| *id == keyspace && is_before_end(key, end));
        covered.for_each(|(_, written)| *written = Written::Deleted);
        let range = KeyRange {
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        };
        self.deleted.push((keyspace, range));
    }
}

//! Transactions: to read, check and write with nobody in between.
//!
//! A [`Transaction`] waits for the keys that it names, and has them to itself until it commits. An [`OptimisticTransaction`] waits for
//! nobody, and is refused at its commit if what it read is no longer so. Both see their own writes, and both commit as one [`Batch`].
//!
//! transaction -> [`Db::begin`]: admitted -> [`Transaction::lock`] -> [`Transaction::get`], check -> [`Transaction::batch`]
//!             -> [`Transaction::commit`] -> dropped: unlocked -> ticket awaited

use crate::base::codec::wide_hash;
use crate::base::key::{Kind, is_before_end};
use crate::format::change::{Change, Changes};
use crate::write::key_locks::{HeldLocks, LockedKey, Mode};
use crate::write::reads::{CheckedReads, Reads};
use crate::{
    Admission, Batch, Db, Direction, KeyRange, Keyspace, Result, Scan, Snapshot, Ticket,
    ValueReader,
};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Has some keys to itself: no other transaction has them until it is dropped. What it has not committed by then is not written.
///
/// What is written without a lock, by [`Db::write`] or by a transaction that has not locked the key, is not kept away. Keys that are
/// written only together with a locked one need no lock of their own.
#[derive(Debug)]
pub struct Transaction<'d> {
    db: &'d Db,
    admission: Admission,
    locks: HeldLocks<'d>,
    writes: Writes,
}

/// Reads a snapshot, and commits if what it has read of it is still so.
#[derive(Debug)]
pub struct OptimisticTransaction<'d> {
    db: &'d Db,
    snapshot: Snapshot,
    reads: Reads,
    writes: Writes,
}

/// The batch of a transaction, and where in it its reads find what was written.
#[derive(Debug, Default)]
struct Writes {
    batch: Batch,
    /// Bytes of the payload that the next fields know of.
    indexed: usize,
    values: BTreeMap<(u32, Vec<u8>), Written>,
    deleted: Vec<(u32, KeyRange)>,
}

#[derive(Debug, Clone)]
enum Written {
    Deleted,
    Value(Bytes),
    /// A pointer into the value log.
    Large(Bytes),
}

impl Db {
    /// Begins a transaction that has locked these keys. Blocks until it is admitted to write, as [`Db::admit`] does, and until no other
    /// transaction has any of the keys; no lock is held while it waits to be admitted. Who comes first is served first. Errors: as
    /// [`Db::admit`] and [`Transaction::lock`].
    pub fn transaction(&self, keys: &[(&Keyspace, &[u8])]) -> Result<Transaction<'_>> {
        let mut transaction = self.begin()?;
        transaction.lock(keys.iter().copied())?;
        Ok(transaction)
    }

    /// Begins a transaction that has locked nothing yet. Waits as [`Db::admit`] does. Errors: as [`Db::admit`].
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

    /// Begins a transaction that locks nothing and reads the store as it is now.
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
    /// Locks more keys, those of the keyspace that was opened first before others. Keys that it has are passed over, and one may be
    /// named twice. If all others come after those that it has, it blocks until no other transaction has them; keys out of this order
    /// it gets only if they are free. Errors: `Conflict` if they are not; `Deadlock` if this thread has one in another transaction;
    /// `UnknownKeyspace`. After an error it has what it had.
    pub fn lock<'k>(
        &mut self,
        keys: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        self.lock_as(Mode::Exclusive, keys)
    }

    /// As [`Transaction::lock`], of keys that it reads and does not write: others may lock them too, as long as all do so by this.
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
            let (keyspace, hash) = (keyspace.id(), wide_hash(key));
            Ok((LockedKey { keyspace, hash }, mode))
        };
        let mut keys = keys.into_iter().map(key).collect::<Result<Vec<_>>>()?;
        self.locks.lock(&mut keys)
    }

    /// The newest value of a key, or what this transaction has written. Nobody changes a locked key meanwhile. A large value is read
    /// whole. Errors: as [`Db::get`].
    pub fn get(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        match self.writes.find(keyspace, key) {
            Some(written) => self.writes.read(self.db, written),
            None => self.db.get(keyspace, key),
        }
    }

    /// What it writes when it commits.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.writes.batch
    }

    /// That it waits for its turn to write no more, for what else is written under its locks.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Writes the batch. The keys stay locked until the transaction is dropped, for what has to be done before others see them: do not
    /// wait for the ticket meanwhile. Errors: as [`Db::write_admitted`].
    pub fn commit(&mut self) -> Result<Ticket> {
        let batch = std::mem::take(&mut self.writes).batch;
        self.db.write_admitted(batch, &self.admission)
    }
}

impl OptimisticTransaction<'_> {
    /// The value of a key when the transaction began, or what it has written. Errors: as [`Snapshot::get`].
    pub fn get(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(written) = self.writes.find(keyspace, key) {
            return self.writes.read(self.db, written);
        }
        let value = self.snapshot.get(keyspace, key)?;
        self.reads.add_key(keyspace.tree(), key);
        Ok(value)
    }

    /// The rows of a range when the transaction began, without what it has written. The whole range counts as read: a row that
    /// somebody adds to it is a conflict.
    pub fn scan(&mut self, keyspace: &Keyspace, range: KeyRange, direction: Direction) -> Scan {
        self.reads.add_range(keyspace.tree(), range.clone());
        self.snapshot.scan(keyspace, range, direction)
    }

    /// What it writes when it commits.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.writes.batch
    }

    /// Writes the batch if all that was read is as it was, whoever writes. One that writes nothing has read one state of the store, and
    /// does not fail. Blocks as [`Db::write`], and for the disk if something was written since it began. Errors: `Conflict`, after which
    /// nothing is written; as [`Db::write`]. A conflict is also answered if the store has just flushed what was written meanwhile.
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
    /// What was written to a key last, if anything was.
    fn find(&mut self, keyspace: &Keyspace, key: &[u8]) -> Option<Written> {
        if self.batch.is_empty() {
            return None;
        }
        self.index();
        let id = keyspace.id();
        if let Some(written) = self.values.get(&(id, key.to_vec())) {
            return Some(written.clone());
        }
        let covers = |(deleted, range): &(u32, KeyRange)| {
            *deleted == id && range.start[..] <= *key && is_before_end(key, range.end.as_deref())
        };
        self.deleted.iter().any(covers).then_some(Written::Deleted)
    }

    /// Takes note of what was written since the last read.
    fn index(&mut self) {
        let payload = &self.batch.payload[self.indexed..];
        for change in Changes::new(payload) {
            match change.expect("the payload was encoded by a batch") {
                Change::Set {
                    keyspace,
                    key,
                    kind,
                    value,
                } => {
                    let written = match kind {
                        Kind::Delete => Written::Deleted,
                        Kind::Put => Written::Value(Bytes::copy_from_slice(value)),
                        Kind::Large => Written::Large(Bytes::copy_from_slice(value)),
                    };
                    self.values.insert((keyspace, key.to_vec()), written);
                }
                Change::DeleteRange {
                    keyspace,
                    start,
                    end,
                } => {
                    let from = (keyspace, start.to_vec());
                    let covered = self
                        .values
                        .range_mut(from..)
                        .take_while(|((id, key), _)| *id == keyspace && is_before_end(key, end));
                    covered.for_each(|(_, written)| *written = Written::Deleted);
                    let range = KeyRange {
                        start: start.to_vec(),
                        end: end.map(<[u8]>::to_vec),
                    };
                    self.deleted.push((keyspace, range));
                }
            }
        }
        self.indexed = self.batch.payload.len();
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

//! Transactions: read, check and write with no other writer of the same keys in between.
//!
//! A [`Transaction`] locks keys, waits for the transactions that hold them, and commits one
//! [`Batch`] at a time. Reads go through the [`Db`] or a snapshot, and see the transaction's own
//! batch only after its commit.
//!
//! transaction -> [`Db::begin`]: admitted -> [`Transaction::lock`] -> [`Db::get`], check
//!             -> [`Transaction::batch`] -> [`Transaction::commit`] -> dropped: unlocked
//!             -> ticket awaited

use crate::base::codec::wide_hash;
use crate::write::key_locks::{HeldLocks, LockedKey, Mode};
use crate::{Admission, Batch, Db, Keyspace, Result, Ticket};

/// Holds locks on keys until it is dropped. Writes that are not committed by then are discarded.
///
/// A lock keeps out only transactions that lock the same key: not [`Db::write`], and not a
/// transaction that writes the key without locking it. A key needs no lock of its own if every
/// writer of the key locks another key that they all share.
///
/// Cannot be sent to another thread, like a mutex guard. A thread should have one transaction at a
/// time: while it holds keys in one, its other transactions fail instead of waiting for a key.
#[derive(Debug)]
pub struct Transaction<'d> {
    db: &'d Db,
    admission: Admission,
    locks: HeldLocks<'d>,
    batch: Batch,
}

impl Db {
    /// Begins a transaction and locks these keys. First waits to be admitted, as [`Db::admit`]
    /// does, because no lock should be held during that wait. Transactions queue for a key in the
    /// order of arrival; only a bounded number of others may overtake a waiting one. Errors: as
    /// [`Db::admit`] and [`Transaction::lock`].
    pub fn transaction(&self, keys: &[(&Keyspace, &[u8])]) -> Result<Transaction<'_>> {
        let mut transaction = self.begin()?;
        transaction.lock(keys.iter().copied())?;
        Ok(transaction)
    }

    /// Begins a transaction without locks. Waits and fails as [`Db::admit`] does.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        Ok(self.begin_admitted(self.admit()?))
    }

    /// Like [`Db::begin`], for a transaction that deletes: see [`Db::admit_deletion`].
    pub fn begin_deletion(&self) -> Result<Transaction<'_>> {
        Ok(self.begin_admitted(self.admit_deletion()?))
    }

    fn begin_admitted(&self, admission: Admission) -> Transaction<'_> {
        Transaction {
            db: self,
            admission,
            locks: self.parts().key_locks.begin(),
            batch: Batch::default(),
        }
    }
}

impl Transaction<'_> {
    /// Locks more keys. A key may be named twice, and one that the transaction holds may be named
    /// again.
    ///
    /// Keys are ordered by keyspace, in the order in which this process first opened the keyspaces,
    /// then by a hash. Waits for other holders if all new keys come after those that the
    /// transaction holds: lock all keys of a keyspace in one call, and keyspaces in the order of
    /// their opening. Otherwise takes the keys only if they are free. Errors: `Conflict` if a key
    /// is not free: drop the transaction and begin again; `Deadlock` instead if this thread holds
    /// keys in another transaction; `UnknownKeyspace`. After an error the transaction holds the
    /// keys that it held before; some that were shared may have become exclusive.
    pub fn lock<'k>(
        &mut self,
        keys: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        self.lock_as(Mode::Exclusive, keys)
    }

    /// Like [`Transaction::lock`], for keys that the transaction reads and does not write: several
    /// transactions may hold them shared. [`Transaction::lock`] makes such a lock exclusive if
    /// there is no other holder; otherwise its error is `Conflict`.
    pub fn lock_shared<'k>(
        &mut self,
        keys: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        self.lock_as(Mode::Shared, keys)
    }

    /// Like [`Transaction::lock`] and [`Transaction::lock_shared`] in one call, for keys of one
    /// keyspace that are needed in both ways.
    pub fn lock_both<'k>(
        &mut self,
        shared: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
        exclusive: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        let shared = shared.into_iter().map(|key| (Mode::Shared, key));
        let exclusive = exclusive.into_iter().map(|key| (Mode::Exclusive, key));
        self.lock_in_modes(shared.chain(exclusive))
    }

    fn lock_as<'k>(
        &mut self,
        mode: Mode,
        keys: impl IntoIterator<Item = (&'k Keyspace, &'k [u8])>,
    ) -> Result<()> {
        self.lock_in_modes(keys.into_iter().map(|key| (mode, key)))
    }

    fn lock_in_modes<'k>(
        &mut self,
        keys: impl IntoIterator<Item = (Mode, (&'k Keyspace, &'k [u8]))>,
    ) -> Result<()> {
        let parts = self.db.parts();
        let key = |(mode, (keyspace, key)): (Mode, (&Keyspace, &[u8]))| {
            parts.trees.check(keyspace.tree())?;
            let rank = keyspace.tree().lock_rank();
            let hash = wide_hash(key);
            Ok((LockedKey { rank, hash }, mode))
        };
        self.locks.lock(keys.into_iter().map(key))
    }

    /// Unlocks the keys of `keyspace`, and of all keyspaces opened after it: for a transaction of
    /// several commits, each of which needs other keys there. Call it after a commit.
    pub fn unlock_from(&mut self, keyspace: &Keyspace) {
        self.locks.unlock_from(keyspace.tree().lock_rank());
    }

    /// Like [`Db::begin_deletion`], waits to be admitted, but for another commit of this
    /// transaction, whose keys stay locked meanwhile. For transactions of several commits whose
    /// locked keys delay no reader. Errors: as [`Db::admit`].
    pub fn admit_deletion_again(&mut self) -> Result<()> {
        self.admission = self.db.admit_deletion()?;
        Ok(())
    }

    /// The writes of the next commit. Reads see them once they are committed.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The admission of this transaction, for other batches that are written under its locks.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Writes the batch. The keys stay locked until the transaction is dropped, so that the caller
    /// can first update its state in memory. Drop the transaction before you wait for the ticket.
    /// Errors: as [`Db::write_admitted`]; the batch is then discarded.
    pub fn commit(&mut self) -> Result<Ticket> {
        let batch = std::mem::take(&mut self.batch);
        self.db.write_admitted(batch, &self.admission)
    }
}

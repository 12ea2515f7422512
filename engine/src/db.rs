//! Db: open, write, get, scan, snapshot, close.
//!
//! A write: `Db::write` -> large values to the value log -> group commit (`commit.rs`): log, memtable, visible -> ticket.
//! A read: `Db::get` -> active memtable, sealed ones newest first, level 0 newest first, one SSTable per deeper level.

use crate::commit::Log;
use crate::config::{Background, Config, Durability, Environment, KeyspaceOptions};
use crate::key::Kind;
use crate::keyspace::{Keyspace, Tree};
use crate::recovery;
use crate::stats::Stats;
use crate::store::{Job, PanicGuard, Store, lock};
use crate::value_log::{LargeValue, ValueWriter};
use crate::verify::Verified;
use crate::version::{Field, Version, VersionEdit};
use crate::{Batch, Error, Result, Snapshot, Ticket};
use bytes::Bytes;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Keys from `start` (inclusive) to `end` (exclusive; `None` is the end of the keyspace), in byte order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRange {
    /// The first key covered.
    pub start: Vec<u8>,
    /// The first key no longer covered.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key of the keyspace.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while let Some(last) = end.last_mut() {
            if *last < 0xff {
                *last += 1;
                return KeyRange {
                    start: prefix.to_vec(),
                    end: Some(end),
                };
            }
            end.pop();
        }
        KeyRange {
            start: prefix.to_vec(),
            end: None,
        }
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// Says that its holder has waited for its turn to write: see [`Db::admit`].
#[derive(Debug)]
#[must_use]
pub struct Admission {
    is_deletion: bool,
}

/// How much the threads of the engine stand back for those of its callers, and compaction for flushes: on two cores they
/// would take turns of milliseconds with a writer otherwise.
const FLUSH_NICE: i32 = 5;
const COMPACTION_NICE: i32 = 10;

/// An open store: keyspaces on one write-ahead log. A cheap handle; the last one dropped closes it.
#[derive(Debug, Clone)]
pub struct Db(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    store: Arc<Store>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// How the first close ended. Held while it goes on, so that a second one waits for it.
    closed: Mutex<Option<Result<()>>>,
}

impl Db {
    /// Opens the store in `directory`, creating it if absent. Blocks while the log is replayed. On a full disk a store that is there opens
    /// too, and is read-only until there is space: writes answer `NoSpace`. Errors: `InvalidOption`, if a
    /// setting is out of its bounds.
    pub fn open(directory: &Path, config: Config) -> Result<Db> {
        let environment = Environment::system(config.durability);
        Db::open_with(directory, config, environment)
    }

    /// Opens the store in `directory` of the given environment.
    pub fn open_with(directory: &Path, config: Config, environment: Environment) -> Result<Db> {
        let store = Arc::new(recovery::open(directory, config, environment)?);
        store.note_versions();
        let handle = Handle {
            threads: Mutex::default(),
            closed: Mutex::default(),
            store,
        };
        handle.start_threads()?;
        Ok(Db(Arc::new(handle)))
    }

    /// Opens the keyspace of that name, creating it if absent; durable on return. Errors: `InvalidOption`.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let store = self.store();
        store.check_open()?;
        options.check()?;
        let mut manifest = lock(&store.manifest);
        let trees = store.trees();
        if let Some(tree) = trees.iter().find(|tree| *tree.name == *name) {
            tree.set_options(options);
            return Ok(Keyspace::new(tree.clone()));
        }
        store.check_writable()?;
        let id = trees.len() as u32;
        let fields = vec![Field::Keyspace(id, name.to_owned())];
        let appended = manifest.append(VersionEdit { fields });
        appended.inspect_err(|error| {
            if !matches!(error, Error::NoSpace { .. }) {
                store.fail(error);
            }
        })?;
        let tree = Arc::new(Tree::new(
            store.instance,
            id,
            name,
            Version::default(),
            store.clock.now(),
        ));
        tree.set_options(options);
        let mut trees = store.trees.write().unwrap_or_else(PoisonError::into_inner);
        trees.push(tree.clone());
        Ok(Keyspace::new(tree))
    }

    /// Makes `batch` visible, whole, to every read that starts after the return; the ticket says when it is durable.
    /// A caller that holds a key lock may release it now and wait afterwards. Waits while flushes, compactions or
    /// syncs lag far behind. Errors: `TooLarge`; `NoSpace`, after which the batch is not there and later ones may succeed, those that only
    /// delete first of all (`Config::reserve_bytes`); `ReadOnly`; `UnknownKeyspace` and `UnknownValue` for handles of
    /// another store, and then too the batch is not there; any other error leaves it open whether the batch will be
    /// there after a restart.
    pub fn write(&self, batch: Batch) -> Result<Ticket> {
        self.store().check_writable()?;
        if batch.is_empty() {
            return Ok(self.ticket());
        }
        let is_deletion = batch.deletes && !batch.puts;
        self.store().admit(is_deletion)?;
        self.write_admitted(batch, &Admission { is_deletion })
    }

    /// Waits until a writer has to wait no longer: see [`Db::write_admitted`]. Errors: as [`Db::write`]; `NoSpace` if puts are
    /// refused.
    pub fn admit(&self) -> Result<Admission> {
        let is_deletion = false;
        self.store().admit(is_deletion)?;
        Ok(Admission { is_deletion })
    }

    /// As [`Db::admit`], for an operation that deletes: it is admitted while puts are refused for lack of space, and what little it puts is
    /// not refused either. What puts more than it deletes is no deletion.
    pub fn admit_deletion(&self) -> Result<Admission> {
        let is_deletion = true;
        self.store().admit(is_deletion)?;
        Ok(Admission { is_deletion })
    }

    /// As [`Db::write`], but does not wait for flushes, compactions or syncs: the caller did before it took the locks under which
    /// it writes. So the limits are exceeded by no more than what the holders of admissions write: write little with each, and
    /// soon.
    pub fn write_admitted(&self, batch: Batch, admission: &Admission) -> Result<Ticket> {
        let store = self.store();
        store.check_writable()?;
        if batch.is_empty() {
            return Ok(self.ticket());
        }
        for keyspace in &batch.keyspaces {
            store.check_keyspace(keyspace)?;
        }
        if !store.value_log.owns(&batch.pins) {
            return Err(Error::UnknownValue);
        }
        batch.check_keys()?;
        let threshold = store.config.value_bytes_separated;
        let batch = batch.separate_values(threshold, |value| store.write_value(value))?;
        batch.check()?;
        if !admission.is_deletion {
            store.room.take(batch.payload.len() as u64)?;
        }
        let sequence = store.commit(batch)?;
        Ok(store.ticket(sequence))
    }

    /// Whether [`Db::write`] would make its caller wait now, or soon, because flushes, compactions or syncs lag behind: a hint for
    /// those who must not block.
    pub fn makes_writers_wait(&self) -> bool {
        let store = self.store();
        store.is_near_limit() || store.is_sync_late(3) || store.commit.segments.is_overdue()
    }

    /// Completes once everything that is visible now is durable: what an answer waits for that rests on reads.
    pub fn ticket(&self) -> Ticket {
        self.store().ticket(self.store().snapshots.published())
    }

    /// The newest value of `key`. Never waits for writers: at [`Durability::Disk`] too a value can be read before it is durable, and a
    /// power cut may take it; wait for [`Db::ticket`] before an answer that must not be taken back. A large value is read whole: see [`Snapshot::open_value`].
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        let store = self.store();
        store.check_open()?;
        store.check_keyspace(keyspace.tree())?;
        let published = || store.snapshots.published();
        let Some(entry) = keyspace.tree().find(&store.cache, key, published)? else {
            return Ok(None);
        };
        match entry.kind {
            Kind::Delete => Ok(None),
            Kind::Put => Ok(Some(entry.value)),
            // Only a snapshot keeps the value from being collected between the lookup and the read.
            Kind::Large => self.snapshot().get(keyspace, key),
        }
    }

    /// The store as it is now, for as long as the handle lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.store().clone())
    }

    /// Begins a large value; see [`ValueWriter`].
    pub fn value_writer(&self) -> Result<ValueWriter> {
        self.store().check_writable()?;
        let writer = ValueWriter::new(self.store().value_log.clone());
        Ok(writer.within(self.store().room.clone()))
    }

    /// Puts a value that is at hand as a whole into the value log, whatever its size. It is with the operating system on
    /// return; the batch that names it makes it as durable as itself. Blocks for the disk. Errors: as [`Db::write`], but for
    /// `TooLarge`.
    pub fn write_value(&self, value: &[u8]) -> Result<LargeValue> {
        self.store().check_writable()?;
        self.store().write_value(value)
    }

    /// As [`Db::write_value`] of each, in their order; small ones in one write, which costs less than one for each of them.
    pub fn write_values(&self, values: &[&[u8]]) -> Result<Vec<LargeValue>> {
        let store = self.store();
        store.check_writable()?;
        let bytes: usize = values.iter().map(|value| value.len()).sum();
        store.room.take(bytes as u64)?;
        store.value_log.write_together(values)
    }

    /// Flushes, marks the directory as cleanly closed and releases it. Later calls answer [`Error::Closed`]; a second
    /// close waits for the first and answers the same.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }

    /// `None` while writes are taken; otherwise the failure that made the store read-only.
    pub fn failure(&self) -> Option<Error> {
        self.store().failure().cloned()
    }

    /// `Some` while background work fails for lack of space; it is tried again every second.
    pub fn space_failure(&self) -> Option<Error> {
        self.store().shortage()
    }

    /// What an acknowledged write survives here.
    pub fn durability(&self) -> Durability {
        self.store().config.durability
    }

    /// Makes everything written so far durable, and notes that it is, so that damage to it is never taken for the torn tail of a
    /// log. The engine does the same when nothing was written for a quarter of a second. Blocks for the disk.
    pub fn sync(&self) -> Result<()> {
        let store = self.store();
        store.check_writable()?;
        store.sync_and_mark()
    }

    /// Writes the memtables of the keyspace to SSTables. Blocks for the disk.
    pub fn flush(&self, keyspace: &Keyspace) -> Result<()> {
        let store = self.store();
        store.check_writable()?;
        store.check_keyspace(keyspace.tree())?;
        store.seal(keyspace.tree());
        while !keyspace.tree().view().sealed.is_empty() {
            store.run_flush()?;
        }
        Ok(())
    }

    /// Flushes the keyspace and merges all its SSTables into one run. Blocks for as long as that takes, and no keyspace is
    /// compacted by itself meanwhile: not for a large store that is being written to.
    pub fn compact(&self, keyspace: &Keyspace) -> Result<()> {
        self.flush(keyspace)?;
        self.store().compact_all(keyspace.tree())
    }

    /// Runs one pending piece of background work, if any, and answers which. For tests, and for embedders who
    /// chose [`Background::Stepped`].
    pub fn step(&self) -> Result<Option<Job>> {
        self.store().step()
    }

    /// Reads everything and checks every checksum, every order and every reference. Blocks for as long as that takes;
    /// changes nothing. The error is about the store not being open; damage is in the answer.
    pub fn verify(&self) -> Result<Verified> {
        self.store().check_open()?;
        Ok(crate::verify::verify(self.store()))
    }

    /// The same for a store that is not open, its log included. Takes the lock of the directory meanwhile. The error says why
    /// it could not even be begun: another process has it, or there is no manifest to be read.
    pub fn verify_directory(
        directory: &Path,
        config: Config,
        environment: Environment,
    ) -> Result<Verified> {
        recovery::verify(directory, config, environment)
    }

    /// Makes `directory`, which must be on the same file system and not exist or be empty, a store of its own with everything
    /// that is visible now: hard links, made while the store is in use, and durable on return. Later writes to either do
    /// not show in the other. Background work waits meanwhile, writers do not but for a moment. After an error the
    /// links made so far are removed again, as far as they can be.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.store().check_writable()?;
        self.store().checkpoint(directory)
    }

    /// Figures of the store as it is now.
    pub fn stats(&self) -> Stats {
        self.store().stats()
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.0.store
    }
}

impl Handle {
    fn start_threads(&self) -> Result<()> {
        if self.store.background == Background::Stepped {
            return Ok(());
        }
        let mut loops = vec![
            ("flush", FLUSH_NICE, Store::flush_loop as fn(&Store)),
            ("compaction", COMPACTION_NICE, Store::maintenance_loop),
        ];
        if self.store.config.durability != Durability::Memory {
            loops.push(("sync", 0, Store::sync_loop));
            loops.push(("value sync", 0, Store::value_sync_loop));
        }
        for (name, nice, run) in loops {
            let store = self.store.clone();
            let thread = std::thread::Builder::new().name(name.to_owned());
            let started = thread.spawn(move || {
                crate::fs::lower_priority(nice);
                let _guard = PanicGuard::new(&store, name);
                run(&store);
            });
            let path = self.store.directory.path();
            let started = started.map_err(|error| Error::io("start a thread for", path, error))?;
            lock(&self.threads).push(started);
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let mut closed = lock(&self.closed);
        closed.get_or_insert_with(|| self.shut_down()).clone()
    }

    fn shut_down(&self) -> Result<()> {
        self.store.mark_closed();
        self.store.sync.close();
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has nothing left to stop.
            let _ = thread.join();
        }
        let finished = self.store.finish();
        *lock(&self.store.lock) = None;
        finished
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the store was not closed cleanly; the next open recovers it");
        }
    }
}

impl Store {
    fn write_value(&self, value: &[u8]) -> Result<LargeValue> {
        self.room.take(value.len() as u64)?;
        self.value_log.write_whole(value)
    }

    /// Leaves nothing in the log and nothing half done, and says so in the manifest.
    fn finish(&self) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure.clone());
        }
        if self.is_in_memory() {
            return Ok(());
        }
        self.sync_all()?;
        // No commit begins any more; the one that was under way ends before the lock is ours.
        for tree in self.trees() {
            self.seal(&tree);
        }
        while self.run_flush()? {}
        self.value_log.close();
        self.value_log.seal_retired()?;
        self.with_log(|log| self.retire_log(log))
    }

    /// Says in the manifest that the log is no longer needed, and removes it.
    fn retire_log(&self, log: &mut Log) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        let wals: Vec<u64> = manifest.state.wals.keys().copied().collect();
        let mut fields: Vec<Field> = wals.iter().map(|&wal| Field::RemoveWal(wal)).collect();
        fields.push(Field::LastSequence(log.last_sequence));
        fields.push(Field::Closed);
        // Written anew, so that CURRENT vouches for all of it: a shortened manifest would look like an older one.
        manifest.rewrite(&VersionEdit { fields })?;
        log.wal = None;
        self.commit.segments.take_next();
        self.remove_wals(&wals);
        self.remove_spare_wals();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Failure, Fault, FaultFs, MemoryFs, Operation};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn open(fs: Arc<dyn crate::fs::Fs>) -> (Db, Keyspace) {
        let config = Config {
            durability: Durability::Disk,
            value_chunk_bytes: 100,
            ..Config::default()
        };
        let environment = Environment::stepped(fs);
        let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        (db, keyspace)
    }

    fn put_large(db: &Db, keyspace: &Keyspace, value: LargeValue) -> Result<()> {
        let mut batch = Batch::new();
        batch.put_large(keyspace, b"key", value);
        db.write(batch)?.wait()
    }

    #[test]
    fn a_large_value_of_another_store_is_refused_and_the_store_opens_again() {
        let fs = MemoryFs::crashable();
        let (db, keyspace) = open(Arc::new(fs.clone()));
        let (other, _) = open(Arc::new(MemoryFs::volatile()));
        // Its segment has a number that the store does not have.
        for _ in 0..10 {
            drop(other.write_value(&[1; 50]).unwrap());
            other.store().value_log.retire();
        }
        let foreign = other.write_value(&[1; 50]).unwrap();
        let refused = put_large(&db, &keyspace, foreign);
        assert!(matches!(refused, Err(Error::UnknownValue)), "{refused:?}");
        put_large(&db, &keyspace, db.write_value(&[2; 50]).unwrap()).unwrap();
        db.close().unwrap();
        drop((db, keyspace));
        let (db, keyspace) = open(Arc::new(fs));
        assert_eq!(db.get(&keyspace, b"key").unwrap().unwrap(), [2; 50][..]);
    }

    #[test]
    fn a_large_value_from_before_a_reopening_is_refused() {
        let fs = MemoryFs::crashable();
        let (db, keyspace) = open(Arc::new(fs.clone()));
        let old = db.write_value(&[1; 50]).unwrap();
        db.close().unwrap();
        drop((db, keyspace));
        let (db, keyspace) = open(Arc::new(fs));
        let refused = put_large(&db, &keyspace, old);
        assert!(matches!(refused, Err(Error::UnknownValue)), "{refused:?}");
    }

    #[test]
    fn a_value_is_refused_whose_chunks_are_not_all_its_own_in_their_order() {
        let (db, _keyspace) = open(Arc::new(MemoryFs::volatile()));
        let chunk = |writer: &mut ValueWriter, bytes: usize| {
            assert_eq!(writer.fill(&vec![7; bytes]), bytes);
            writer.take_chunk().unwrap().write().unwrap()
        };
        let refused = |writer: ValueWriter| {
            let finished = writer.finish();
            assert!(matches!(finished, Err(Error::UnknownValue)), "{finished:?}");
        };
        let mut lost = db.value_writer().unwrap();
        drop(chunk(&mut lost, 100));
        refused(lost);
        let (mut first, mut second) = (db.value_writer().unwrap(), db.value_writer().unwrap());
        let foreign = chunk(&mut first, 100);
        second.add(foreign);
        refused(second);
        let mut swapped = db.value_writer().unwrap();
        let (one, two) = (chunk(&mut swapped, 100), chunk(&mut swapped, 100));
        swapped.add(two);
        swapped.add(one);
        refused(swapped);
        let mut short = db.value_writer().unwrap();
        for bytes in [60, 100] {
            let chunk = chunk(&mut short, bytes);
            short.add(chunk);
        }
        refused(short);
        let mut right = db.value_writer().unwrap();
        for bytes in [100, 60] {
            let chunk = chunk(&mut right, bytes);
            right.add(chunk);
        }
        assert_eq!(right.finish().unwrap().length(), 160);
    }

    #[test]
    fn a_checkpoint_does_not_wait_for_a_writer_that_panicked() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let (db, keyspace) = open(Arc::new(disk.clone()));
        put_large(&db, &keyspace, db.write_value(&[2; 50]).unwrap()).unwrap();
        disk.set(Some(Fault {
            operation: Some(Operation::Write),
            path: ".vlog".into(),
            nth: 1,
            failure: Failure::Panic,
            sticky: false,
        }));
        let write = || db.write_value(&[3; 50]);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).is_err());
        let (made, is_made) = channel();
        let other = db.clone();
        std::thread::spawn(move || made.send(other.checkpoint("/copy".as_ref())).unwrap());
        let made = is_made.recv_timeout(Duration::from_secs(10));
        made.expect("it does not wait").unwrap();
        let damages = db.verify().unwrap().damages;
        assert!(damages.is_empty(), "{damages:?}");
    }

    #[test]
    fn a_second_close_waits_for_the_first() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let (db, keyspace) = open(Arc::new(disk.clone()));
        let mut batch = Batch::new();
        batch.put(&keyspace, b"key", b"value");
        drop(db.write(batch).unwrap());
        disk.hold(Some(Operation::Sync));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| db.close());
            while disk.held() == 0 {
                std::thread::yield_now();
            }
            let (closed, is_closed) = channel();
            let db = &db;
            scope.spawn(move || closed.send(db.close()).unwrap());
            let early = is_closed.recv_timeout(Duration::from_millis(50));
            disk.hold(None);
            assert!(early.is_err(), "the first close goes on");
            first.join().unwrap().unwrap();
            is_closed.recv().unwrap().unwrap();
        });
    }
}

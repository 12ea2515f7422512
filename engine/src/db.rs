//! Db: open, write, get, scan, snapshot, close.
//!
//! A write: `Db::write` -> large values to the value log -> group commit (`queue.rs`, `commit.rs`):
//! log, memtable, visible -> ticket. A read: `Db::get` -> active memtable, sealed ones newest
//! first, level 0 newest first, one SSTable per deeper level.

use crate::base::config::{Background, Config, Durability, KeyspaceOptions};
use crate::base::health::PanicGuard;
use crate::base::key::Kind;
use crate::base::mutex::lock;
use crate::catalog::parts::Parts;
use crate::catalog::recovery;
use crate::format::edit::{Field, VersionEdit};
use crate::fs::environment::Environment;
use crate::stats::Stats;
use crate::tree::keyspace::{Keyspace, Tree};
use crate::tree::version::Version;
use crate::values::{LargeValue, ValueWriter};
use crate::verify::Verified;
use crate::work::Work;
#[cfg(any(test, feature = "testing"))]
use crate::work::job::Job;
use crate::work::signal::Signal;
use crate::write::log::Log;
use crate::{Batch, Error, Recovered, Result, Snapshot, Ticket};
use bytes::Bytes;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Proof that its holder has waited for its turn to write: see [`Db::admit`].
#[derive(Debug)]
#[must_use]
pub struct Admission {
    is_deletion: bool,
}

/// Niceness of the threads of flushes and of compaction. Without it these threads would alternate
/// with a writer in turns of milliseconds on two cores. Compaction also yields to flushes.
const FLUSH_NICE: i32 = 5;
const COMPACTION_NICE: i32 = 10;

/// An open store: keyspaces on one write-ahead log. A cheap handle; dropping the last one closes
/// the store.
#[derive(Debug, Clone)]
pub struct Db(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    parts: Arc<Parts>,
    work: Arc<Work>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The result of the first close. Locked during that close, so that a second one waits for it.
    closed: Mutex<Option<Result<()>>>,
}

/// The name, the niceness and the work of a thread.
type Loop = (&'static str, i32, fn(&Work));

/// Starts a thread with the given name.
type Spawn<'a> = dyn Fn(&'static str, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> + 'a;

fn spawn(name: &'static str, run: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run)
}

impl Db {
    /// Opens the store in `directory`, creating it if absent. Blocks while the log is replayed. An
    /// existing store on a full disk opens too, but is read-only until there is space: writes
    /// answer `NoSpace`. Errors: `InvalidOption` if a setting is out of its bounds; `Locked`;
    /// `UnknownFormat`; `Corrupt`; `Io`; `NoSpace` for a new store.
    pub fn open(directory: &Path, config: Config) -> Result<Db> {
        let environment = Environment::system(config.durability);
        Db::open_with(directory, config, environment)
    }

    /// Opens the store in `directory` of the given environment.
    pub fn open_with(directory: &Path, config: Config, environment: Environment) -> Result<Db> {
        Db::open_spawning(directory, config, environment, &spawn)
    }

    fn open_spawning(
        directory: &Path,
        config: Config,
        environment: Environment,
        spawn: &Spawn<'_>,
    ) -> Result<Db> {
        let signal = Arc::<Signal>::default();
        let parts = Arc::new(recovery::open(
            directory,
            config,
            environment,
            signal.clone(),
        )?);
        let work = Arc::new(Work::new(parts.clone(), signal));
        work.note_versions();
        let handle = Handle {
            parts,
            work,
            threads: Mutex::default(),
            closed: Mutex::default(),
        };
        handle.start_threads(spawn)?;
        Ok(Db(Arc::new(handle)))
    }

    /// Opens the keyspace `name`, creating it if absent; durable on return. Errors:
    /// `InvalidOption`; `Closed`; for a new keyspace also `ReadOnly`, `NoSpace` and `Io`.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let parts = self.parts();
        parts.health.check_open()?;
        options.check()?;
        let mut manifest = parts.catalog.lock();
        let trees = parts.trees.all();
        if let Some(tree) = trees.iter().find(|tree| *tree.name == *name) {
            parts.trees.open(tree, options);
            return Ok(Keyspace::new(tree.clone()));
        }
        parts.health.check_writable()?;
        let id = trees.len() as u32;
        let fields = vec![Field::Keyspace(id, name.to_owned())];
        let appended = manifest.append(VersionEdit { fields });
        appended.inspect_err(|error| parts.health.note(error))?;
        let tree = Arc::new(Tree::new(
            parts.trees.instance(),
            id,
            name,
            Version::default(),
            parts.clock.now(),
        ));
        parts.trees.open(&tree, options);
        parts.trees.add(tree.clone());
        Ok(Keyspace::new(tree))
    }

    /// Makes the whole of `batch` visible to every read that starts after the return; the ticket
    /// completes when the batch is durable. A caller that holds a key lock may release it on return
    /// and wait for the ticket afterwards. Waits while flushes, compactions or syncs lag far
    /// behind.
    ///
    /// Errors: `TooLarge`; `NoSpace`, after which later batches may succeed, first of all those
    /// that only delete (`Config::reserve_bytes`); `ReadOnly`; `Closed`; `UnknownKeyspace` and
    /// `UnknownValue` for handles of another store. After these errors the batch is not in the
    /// store. After any other error the batch may or may not be in the store after a restart.
    pub fn write(&self, batch: Batch) -> Result<Ticket> {
        self.parts().health.check_writable()?;
        if batch.is_empty() {
            return Ok(self.ticket());
        }
        let is_deletion = batch.deletes && !batch.puts;
        self.work().admit(is_deletion)?;
        self.write_admitted(batch, &Admission { is_deletion })
    }

    /// Waits as long as [`Db::write`] would wait for flushes, compactions or syncs, and returns the
    /// admission for [`Db::write_admitted`]. Errors: those of [`Db::write`] that do not depend on
    /// the batch.
    pub fn admit(&self) -> Result<Admission> {
        let is_deletion = false;
        self.work().admit(is_deletion)?;
        Ok(Admission { is_deletion })
    }

    /// Like [`Db::admit`], for an operation that deletes: it is admitted even while puts are
    /// refused for lack of space, until memtables take twice `Config::memory_bytes_max`. Its few
    /// puts are then accepted too. Not for an operation that puts more than it deletes.
    pub fn admit_deletion(&self) -> Result<Admission> {
        let is_deletion = true;
        self.work().admit(is_deletion)?;
        Ok(Admission { is_deletion })
    }

    /// Like [`Db::write`], but does not wait for flushes, compactions or syncs: the caller must
    /// have waited in [`Db::admit`] before it took the locks under which it writes. Such writes may
    /// go beyond the limits, so write little with each admission, and soon.
    pub fn write_admitted(&self, batch: Batch, admission: &Admission) -> Result<Ticket> {
        let parts = self.parts();
        parts.health.check_writable()?;
        if batch.is_empty() {
            return Ok(self.ticket());
        }
        for keyspace in &batch.keyspaces {
            parts.trees.check(keyspace)?;
        }
        if !parts.value_log.owns(&batch.pins) {
            return Err(Error::UnknownValue);
        }
        batch.check_keys()?;
        let threshold = parts.config.value_bytes_separated;
        let batch = batch.separate_values(threshold, |value| write_value(parts, value))?;
        batch.check()?;
        if !admission.is_deletion {
            parts.reserve.take(batch.payload.len() as u64)?;
        }
        self.work().charge(batch.payload.len() as u64);
        let sequence = parts.log.commit(batch)?;
        Ok(parts.log.sync().ticket(sequence))
    }

    /// True if [`Db::write`] would make its caller wait now, or soon, because flushes, compactions
    /// or syncs lag behind: a hint for callers that must not block.
    pub fn makes_writers_wait(&self) -> bool {
        let parts = self.parts();
        self.work().is_near_limit()
            || parts.log.sync().is_nearly_late()
            || parts.log.segments().is_overdue()
    }

    /// Returns a ticket that completes once everything visible now is durable: for an answer based
    /// on reads.
    pub fn ticket(&self) -> Ticket {
        self.parts()
            .log
            .sync()
            .ticket(self.parts().snapshots.published())
    }

    /// Returns the newest value of `key`. Never waits for writers. Even at [`Durability::Disk`] the
    /// value may not be durable yet, and a power cut may lose it: wait for [`Db::ticket`] before
    /// giving an answer that must stay true. A large value is read whole; see
    /// [`Snapshot::open_value`].
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        let parts = self.parts();
        parts.health.check_open()?;
        parts.trees.check(keyspace.tree())?;
        let published = || parts.snapshots.published();
        let Some(entry) = keyspace.tree().find(&parts.cache, key, published)? else {
            return Ok(None);
        };
        match entry.kind {
            Kind::Delete => Ok(None),
            Kind::Put => Ok(Some(entry.value)),
            // Only a snapshot keeps the value from being collected between the lookup and the read.
            Kind::Large => self.snapshot().get(keyspace, key),
        }
    }

    /// A snapshot of the store as it is now, which lasts as long as the handle.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.parts().clone())
    }

    /// Begins a large value; see [`ValueWriter`].
    pub fn value_writer(&self) -> Result<ValueWriter> {
        self.parts().health.check_writable()?;
        let writer = ValueWriter::new(self.parts().value_log.clone());
        Ok(writer.within(self.parts().reserve.clone()))
    }

    /// Writes `value` to the value log, whatever its size. On return the operating system has it.
    /// It becomes durable with the batch that names it. Blocks for the disk. Errors: as
    /// [`Db::write`], except `TooLarge`.
    pub fn write_value(&self, value: &[u8]) -> Result<LargeValue> {
        self.parts().health.check_writable()?;
        write_value(self.parts(), value)
    }

    /// Like [`Db::write_value`], for several values, in order. Small values share a write, which
    /// costs less.
    pub fn write_values(&self, values: &[&[u8]]) -> Result<Vec<LargeValue>> {
        let parts = self.parts();
        parts.health.check_writable()?;
        let bytes: usize = values.iter().map(|value| value.len()).sum();
        parts.reserve.take(bytes as u64)?;
        parts.value_log.write_together(values)
    }

    /// Flushes, marks the directory as cleanly closed and releases it. Later calls answer
    /// [`Error::Closed`]; a second close waits for the first and returns the same result.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }

    /// Closes the store without flushing or syncing anything, and releases its directory: for a
    /// store whose directory is about to be removed. The directory is left as the death of the
    /// process would leave it, and opens again. Later calls answer [`Error::Closed`], and so do
    /// tickets of writes that are not durable by then. Waits for work that is under way. Does
    /// nothing after a close.
    pub fn abandon(&self) {
        self.0.abandon();
    }

    /// The failure that made the store read-only, if any. A close or a lack of space is not one.
    pub fn failure(&self) -> Option<Error> {
        self.parts().health.failure().cloned()
    }

    /// Returns the error while background work fails for lack of space or of file handles, else
    /// `None`. The work is retried every second.
    pub fn space_failure(&self) -> Option<Error> {
        self.work().shortage()
    }

    /// What the opening of the store found in its log.
    pub fn recovered(&self) -> &Recovered {
        &self.parts().recovered
    }

    /// The failures that an acknowledged write of this store survives.
    pub fn durability(&self) -> Durability {
        self.parts().config.durability
    }

    /// Makes everything written so far durable, and records that, so that damage to it is never
    /// taken for the torn tail of a log. The engine does the same when nothing was written for a
    /// quarter of a second. Blocks for the disk.
    pub fn sync(&self) -> Result<()> {
        let parts = self.parts();
        parts.health.check_writable()?;
        parts.log.sync_and_mark()
    }

    /// Writes the memtables that the keyspace has now to SSTables. Blocks for the disk; writes that
    /// begin meanwhile do not prolong it.
    pub fn flush(&self, keyspace: &Keyspace) -> Result<()> {
        let parts = self.parts();
        parts.health.check_writable()?;
        parts.trees.check(keyspace.tree())?;
        let last = parts.log.seal(keyspace.tree());
        while keyspace.tree().is_unflushed(last) {
            self.work().run_flush()?;
        }
        Ok(())
    }

    /// Like [`Db::flush`], for every keyspace. Call it before a checkpoint that will be opened many
    /// times: a checkpoint of a flushed store has no log, so opening it reads only the manifest
    /// instead of replaying rows. A [`Db::compact`] after it saves each copy its own compaction.
    /// Blocks for the disk. Errors: `NoSpace`; `Io` for lack of file handles; `ReadOnly`; `Closed`;
    /// any other failure makes the store read-only.
    pub fn flush_all(&self) -> Result<()> {
        let parts = self.parts();
        parts.health.check_writable()?;
        let last = parts.log.seal_all();
        while self.work().is_unflushed(last) {
            self.work().run_flush()?;
        }
        Ok(())
    }

    /// Flushes the keyspace and merges all its SSTables into one run. Blocks until that is done,
    /// and no keyspace is compacted in the background meanwhile, so do not use it on a large store
    /// that is being written to.
    pub fn compact(&self, keyspace: &Keyspace) -> Result<()> {
        self.flush(keyspace)?;
        self.work().compact_all(keyspace.tree())
    }

    /// Runs one pending piece of background work and returns its kind; `None` if there is none. For
    /// tests that chose [`Background::Stepped`](crate::Background::Stepped).
    #[cfg(any(test, feature = "testing"))]
    pub fn step(&self) -> Result<Option<Job>> {
        self.work().step()
    }

    /// Reads everything and checks every checksum, every order and every reference. Blocks until
    /// that is done; changes nothing. Damage is part of the result. Errors: `Closed`.
    pub fn verify(&self) -> Result<Verified> {
        self.parts().health.check_open()?;
        Ok(crate::verify::verify(self.parts()))
    }

    /// Like [`Db::verify`], for a store that is not open, its log included. Holds the lock of the
    /// directory meanwhile. Errors: `InvalidOption`; `Locked` if the store is open; the error of
    /// reading the manifest, without which no verification can start.
    pub fn verify_directory(
        directory: &Path,
        config: Config,
        environment: Environment,
    ) -> Result<Verified> {
        crate::verify::verify_directory(directory, config, environment)
    }

    /// Makes `directory` a store of its own with everything that is visible now. The directory must
    /// be on the same file system, and either absent or empty. Links are made while the store is in
    /// use, and are durable on return, except at [`Durability::Memory`]. Neither store sees later
    /// writes to the other, or needs the other to exist. After an error the links made so far are
    /// removed if possible.
    ///
    /// The checkpoint waits for a running flush, but for no compaction. New flushes wait until the
    /// checkpoint is made, writers only for a moment. The checkpoint takes time for each file, not
    /// for each row, and for bytes that are not synced yet.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.checkpoint_for(directory, self.durability())
    }

    /// Like [`Db::checkpoint`], for a copy that will be opened at `durability`. A copy at
    /// [`Durability::Memory`] is not durable, and the directory is not synced for it. A store at
    /// [`Durability::Memory`] can only make such copies: its own files are not synced.
    pub fn checkpoint_for(&self, directory: &Path, durability: Durability) -> Result<()> {
        self.parts().health.check_writable()?;
        let is_brief = self.durability() == Durability::Memory;
        let durability = if is_brief {
            Durability::Memory
        } else {
            durability
        };
        self.work().checkpoint(directory, durability)
    }

    /// Counters and sizes of the store as it is now.
    pub fn stats(&self) -> Stats {
        Stats::of(self.parts(), self.work())
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.0.parts
    }

    pub(crate) fn work(&self) -> &Arc<Work> {
        &self.0.work
    }
}

impl Handle {
    fn loops(&self) -> Vec<Loop> {
        let syncs = self.parts.config.durability != Durability::Memory;
        let mut loops: Vec<Loop> = Vec::new();
        match self.parts.background {
            Background::Threads => {
                loops.push(("flush", FLUSH_NICE, Work::flush_loop));
                loops.push(("compaction", COMPACTION_NICE, Work::maintenance_loop));
                if syncs {
                    loops.push(("value sync", 0, Work::value_sync_loop));
                }
            }
            Background::FewThreads => {
                loops.push(("background", FLUSH_NICE, Work::flush_and_maintenance_loop));
            }
            #[cfg(any(test, feature = "testing"))]
            Background::Stepped => return loops,
        }
        if syncs {
            loops.push(("sync", 0, Work::sync_loop));
        }
        loops
    }

    fn start_threads(&self, spawn: &Spawn<'_>) -> Result<()> {
        for (name, nice, run) in self.loops() {
            let work = self.work.clone();
            let run = move || {
                crate::fs::lower_priority(nice);
                let _guard = PanicGuard::new(work.health(), name);
                run(&work);
            };
            let started = spawn(name, Box::new(run));
            let path = self.parts.directory.path();
            let started = started.map_err(|error| Error::io("start a thread for", path, error))?;
            lock(&self.threads).push(started);
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let mut closed = lock(&self.closed);
        closed.get_or_insert_with(|| self.shut_down()).clone()
    }

    fn abandon(&self) {
        let mut closed = lock(&self.closed);
        if closed.is_none() {
            self.stop_threads();
            self.parts.log.sync().abandon();
            self.release();
            *closed = Some(Ok(()));
        }
    }

    fn shut_down(&self) -> Result<()> {
        self.stop_threads();
        let finished = self.finish();
        self.release();
        finished
    }

    /// Gives up the directory once everything that writes to it has ended.
    fn release(&self) {
        self.parts.value_log.close();
        // No commit begins any more, and the last one has its records in the log by now.
        self.parts.log.with_log(Log::end_segment);
        self.work.await_jobs();
        self.parts.catalog.lock().close();
        self.parts.directory.release();
    }

    fn stop_threads(&self) {
        self.work.close();
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the store was not closed cleanly; the next open recovers it");
        }
    }
}

fn write_value(parts: &Parts, value: &[u8]) -> Result<LargeValue> {
    parts.reserve.take(value.len() as u64)?;
    parts.value_log.write_whole(value)
}

impl Handle {
    /// Flushes all memtables, seals the value log, removes the log, and records the clean close in
    /// the manifest. Does nothing for a store in memory.
    fn finish(&self) -> Result<()> {
        if let Some(failure) = self.parts.health.failure() {
            return Err(failure.clone());
        }
        if self.parts.is_in_memory() {
            return Ok(());
        }
        self.parts.log.sync().sync_all()?;
        // No commit begins any more. The seal waits for the last one.
        for tree in self.parts.trees.all() {
            self.parts.log.seal(&tree);
        }
        while self.work.run_flush()? {}
        self.parts.value_log.close();
        self.parts.value_log.seal_retired()?;
        self.parts.log.with_log(|log| self.retire_log(log))
    }

    /// Records in the manifest that the log is no longer needed, and removes the log.
    fn retire_log(&self, log: &mut Log) -> Result<()> {
        let mut manifest = self.parts.catalog.lock();
        let wals: Vec<u64> = manifest.state.wals.keys().copied().collect();
        let mut fields: Vec<Field> = wals.iter().map(|&wal| Field::RemoveWal(wal)).collect();
        fields.push(Field::LastSequence(log.last_sequence));
        fields.push(Field::Closed);
        // The manifest is rewritten, so that CURRENT covers its whole length: otherwise a truncated
        // manifest would look like an older one.
        manifest.rewrite(&VersionEdit { fields })?;
        log.wal = None;
        self.parts.log.segments().take_next();
        self.parts.log.segments().remove_wals(&wals);
        self.parts.log.segments().remove_spare_wals();
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
        // The segment of the large value has a number that the store does not have.
        for _ in 0..10 {
            drop(other.write_value(&[1; 50]).unwrap());
            other.parts().value_log.retire();
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
    fn a_thread_that_cannot_be_started_is_an_error_and_releases_the_directory() {
        let fs = MemoryFs::crashable();
        let environment = || Environment {
            background: Background::Threads,
            ..Environment::stepped(Arc::new(fs.clone()))
        };
        for refused in ["flush", "compaction", "sync", "value sync"] {
            let spawn = |name: &'static str, run: Box<dyn FnOnce() + Send>| {
                if name == refused {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                spawn(name, run)
            };
            let path = "/data".as_ref();
            let opened = Db::open_spawning(path, Config::default(), environment(), &spawn);
            assert!(matches!(opened, Err(Error::Io { .. })), "{refused}");
            let db = Db::open_with(path, Config::default(), environment());
            db.expect("the directory is free again").close().unwrap();
        }
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

//! The segments of the log: prepared before they are needed, listed in the manifest while they are
//! needed, and reused afterwards.
//!
//! A commit must not wait for the creation of a file. So when a segment is half full, the next one
//! is made in the background: created at its full length, or made of one that is no longer needed
//! (writing to blocks that were written before costs the disk the least), and entered in the
//! manifest before its first record is written. Segments begin small and double, so that a store
//! with few rows takes little space.

use crate::base::config::{Background, Config, Durability};
use crate::base::health::Health;
use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::format::edit::EditLog;
use crate::format::edit::{Field, WalMeta};
use crate::format::frame::Beginning;
use crate::fs::LogWrites;
use crate::fs::directory::Directory;
use crate::fs::name::{FileKind, FileName};
use crate::write::log::Log;
use crate::write::log::writer::{Prepared, WalWriter};
use crate::write::shared_sync::SharedSync;
use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Length of the first segment: what a store takes on disk from its first write on.
const FIRST_BYTES: u64 = 512 << 10;
/// How many times its length a segment may grow to while the next one is being made. Beyond that,
/// writers are not admitted until the next one is ready.
const OVERLONG: u64 = 4;
/// Like [`OVERLONG`], for writers that were admitted before: they hold locks, and should not wait
/// for the disk. Their number bounds their writes. Beyond this limit the next writer makes the
/// segment itself.
const OVERLONG_ADMITTED: u64 = 64;
/// Bytes after which a segment takes no more batches, whatever its length is: recovery reads it as
/// a whole.
const BYTES_MAX: u64 = crate::base::config::WAL_SEGMENT_BYTES_MAX;

/// Number of sequence numbers after which a segment ends: its frames count from its base in 32
/// bits. Writes that fail for lack of space use up numbers too.
const SEQUENCES_MAX: u64 = 1 << 31;

/// Maximum number of segments that are kept for reuse while the store is written to.
const SPARE_MAX: usize = 8;

/// A segment with records in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) number: u64,
    /// The last sequence number before the segment.
    pub(crate) base: SequenceNumber,
    /// Length of the file in bytes.
    pub(crate) bytes: u64,
    /// The end of its records; 0 while it is appended to.
    pub(crate) end: u64,
    /// Whether the file may be written again once it is not needed.
    pub(crate) is_reusable: bool,
}

#[derive(Debug)]
pub(crate) struct LogSegments {
    config: Arc<Config>,
    background: Background,
    directory: Directory,
    store_id: u128,
    edits: Arc<dyn EditLog>,
    health: Arc<Health>,
    sync: Arc<SharedSync>,
    /// The segments with records, in the order of their records; the last segment takes appends.
    used: Mutex<Vec<Used>>,
    /// Segments of full length that are no longer needed and not in the manifest.
    spare: Mutex<Vec<u64>>,
    /// Held while a segment is made, so that segments come into use in the order of their numbers.
    making: Mutex<()>,
    /// The segment to be used next.
    next: Mutex<Option<Prepared>>,
    /// Whether the segment in use is overlong.
    is_overlong: AtomicBool,
}

impl LogSegments {
    pub(crate) fn new(
        config: Arc<Config>,
        background: Background,
        directory: Directory,
        store_id: u128,
        edits: Arc<dyn EditLog>,
        health: Arc<Health>,
        sync: Arc<SharedSync>,
    ) -> LogSegments {
        LogSegments {
            config,
            background,
            directory,
            store_id,
            edits,
            health,
            sync,
            used: Mutex::default(),
            spare: Mutex::default(),
            making: Mutex::default(),
            next: Mutex::default(),
            is_overlong: AtomicBool::new(false),
        }
    }

    pub(crate) fn add(&self, used: Used) {
        lock(&self.used).push(used);
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.used).len()
    }

    /// Bytes of all segments with records in them, up to the last record.
    pub(crate) fn bytes(&self, log: &Log) -> u64 {
        let end = log.wal.as_ref().map_or(log.previous.1, WalWriter::end);
        let used = lock(&self.used);
        used.split_last().map_or(0, |(_, full)| {
            full.iter().map(|segment| segment.end).sum::<u64>() + end
        })
    }

    fn note_end(&self, number: u64, end: u64) {
        let mut used = lock(&self.used);
        if let Some(last) = used.last_mut().filter(|last| last.number == number) {
            last.end = end;
        }
    }

    pub(crate) fn take_next(&self) -> Option<Prepared> {
        lock(&self.next).take()
    }

    fn has_next(&self) -> bool {
        lock(&self.next).is_some()
    }

    /// Takes note of how long the segment in use has become.
    pub(crate) fn note_length(&self, wal: &WalWriter) {
        let is_overlong = wal.end() >= wal.length().saturating_mul(OVERLONG);
        self.is_overlong.store(is_overlong, Ordering::Relaxed);
    }

    /// Whether the next segment should have been made by now.
    pub(crate) fn is_overdue(&self) -> bool {
        self.is_overlong.load(Ordering::Relaxed) && !self.has_next()
    }

    /// Returns the last sequence number before the newest segments that fit into `bytes_max` bytes:
    /// changes up to it should be flushed. 0 if all segments fit.
    pub(crate) fn limit(&self, bytes_max: u64) -> SequenceNumber {
        let used = lock(&self.used);
        let mut bytes = 0;
        let kept = used.iter().rev().take_while(|segment| {
            bytes += segment.bytes;
            bytes <= bytes_max
        });
        let first_kept = used.len() - kept.count();
        used.get(first_kept.min(used.len().saturating_sub(1)))
            .filter(|_| first_kept > 0)
            .map_or(0, |segment| segment.base)
    }

    /// Returns the segments with records, and excludes their files from reuse.
    pub(crate) fn keep_used(&self) -> Vec<u64> {
        let mut used = lock(&self.used);
        used.iter_mut()
            .for_each(|segment| segment.is_reusable = false);
        used.iter().map(|segment| segment.number).collect()
    }

    /// Returns the segments, except the last, that hold only changes before `first_needed`; `None`
    /// means that no change is needed.
    pub(crate) fn unneeded(&self, first_needed: Option<SequenceNumber>) -> Vec<u64> {
        let used = lock(&self.used);
        let unneeded = used.windows(2).take_while(|pair| {
            let last_inside = pair[1].base;
            first_needed.is_none_or(|first| last_inside < first)
        });
        unneeded.map(|pair| pair[0].number).collect()
    }
}

impl LogSegments {
    /// Makes sure that the log has a segment with room.
    pub(crate) fn provide_wal(&self, log: &mut Log) -> Result<()> {
        if let Some(wal) = &log.wal {
            let awaits = || !self.background.is_stepped() && !self.has_next();
            let (end, length) = (wal.end(), wal.length());
            let has_room = end < length || (end < overlong_end(length) && awaits());
            if has_room && log.last_sequence - wal.base() < SEQUENCES_MAX {
                return Ok(());
            }
        }
        let begun = self.begin_wal(log);
        if let Err(error) = &begun
            && !error.is_passing()
        {
            self.health.fail(error);
        }
        begun
    }

    /// Whether writers that hold no lock are to wait for the next segment.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.background.is_stepped() && self.is_overdue()
    }

    fn begin_wal(&self, log: &mut Log) -> Result<()> {
        let prepared = match self.take_next() {
            Some(prepared) => prepared,
            None => {
                let _making = lock(&self.making);
                match self.take_next() {
                    Some(prepared) => prepared,
                    None => self.make_segment(self.next_length(log))?,
                }
            }
        };
        let (previous, previous_end) = match &log.wal {
            Some(wal) => (wal.number(), wal.end()),
            None => log.previous,
        };
        let beginning = Beginning {
            base: log.last_sequence,
            durable: self.sync.durable().min(log.last_sequence),
            previous,
            previous_end,
        };
        let mut wal = prepared.writer(beginning.base);
        if let Err(error) = wal.begin(beginning) {
            // The manifest lists the segment, so the next batch tries it again.
            *lock(&self.next) = Some(wal.into_prepared());
            return Err(error);
        }
        self.sync.begin_file(wal.file());
        self.note_end(previous, previous_end);
        self.add(Used {
            number: wal.number(),
            base: wal.base(),
            bytes: wal.length(),
            end: 0,
            is_reusable: wal.length() == self.config.wal_segment_bytes as u64,
        });
        self.note_length(&wal);
        log.wal = Some(wal);
        Ok(())
    }

    fn next_length(&self, log: &Log) -> u64 {
        let length = log.wal.as_ref().map_or(FIRST_BYTES, |wal| wal.length() * 2);
        length.min(self.config.wal_segment_bytes as u64).max(1)
    }

    /// The length of the segment to be made next, if the present one is half full.
    pub(crate) fn wanted_length(&self, log: &Log) -> Option<u64> {
        let wal = log.wal.as_ref().filter(|wal| wal.is_half_full());
        wal.map(|_| self.next_length(log))
    }

    /// Makes the next segment, unless it is there.
    pub(crate) fn prepare(&self, length: u64) -> Result<()> {
        let _making = lock(&self.making);
        if !self.has_next() {
            let made = self.make_segment(length)?;
            *lock(&self.next) = Some(made);
        }
        Ok(())
    }

    /// Makes a segment, perhaps from a spare file, and lists it in the manifest.
    fn make_segment(&self, length: u64) -> Result<Prepared> {
        let number = self.edits.next_file();
        let is_full = length == self.config.wal_segment_bytes as u64;
        let spare = || lock(&self.spare).pop();
        let old = is_full.then(spare).flatten();
        let writes = match self.config.durability {
            Durability::Disk => LogWrites::AtSync,
            Durability::Memory | Durability::Process => LogWrites::AtOnce,
        };
        let directory = &self.directory;
        let made = Prepared::create(directory, self.store_id, number, length, old, writes);
        if made.is_err() {
            self.remove_wals(&[number]);
            self.remove_wals(old.as_slice());
        }
        let made = made?;
        self.directory
            .sync()
            .inspect_err(|error| self.health.fail(error))?;
        let fields = vec![Field::AddWal(number, WalMeta::default())];
        let appended = self.edits.append(fields);
        if appended.as_ref().is_err_and(Error::is_passing) {
            self.remove_wals(&[number]);
        }
        appended?;
        Ok(made)
    }

    /// Releases segments that the manifest no longer lists. Some of full length are kept for reuse.
    pub(crate) fn release_wals(&self, numbers: &[u64]) {
        let mut removed = Vec::new();
        {
            let mut used = lock(&self.used);
            let mut spare = lock(&self.spare);
            for &number in numbers {
                let released = used.iter().position(|segment| segment.number == number);
                match released.map(|index| used.remove(index)) {
                    Some(segment) if segment.is_reusable && spare.len() < SPARE_MAX => {
                        spare.push(number);
                    }
                    _ => removed.push(number),
                }
            }
        }
        self.remove_wals(&removed);
    }

    /// Removes the segments that were kept to be used again.
    pub(crate) fn remove_spare_wals(&self) {
        let spare = std::mem::take(&mut *lock(&self.spare));
        self.remove_wals(&spare);
    }

    /// Removes segments that the manifest does not list.
    pub(crate) fn remove_wals(&self, numbers: &[u64]) {
        for &number in numbers {
            // A file that cannot be removed now is an orphan that the next open removes.
            let name = FileName::Numbered(FileKind::Wal, number);
            let _ = self.directory.remove(name);
        }
    }
}

/// Where a segment of this length ends at the latest while the next one is being made.
fn overlong_end(length: u64) -> u64 {
    length.saturating_mul(OVERLONG_ADMITTED).min(BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, overlong_end};
    use crate::fs::{Keep, MemoryFs};
    use crate::{Batch, Config, Db, Environment, Keyspace, KeyspaceOptions};
    use std::sync::Arc;

    #[test]
    fn no_segment_grows_beyond_what_recovery_reads_at_once() {
        assert_eq!(overlong_end(1 << 20), 64 << 20);
        for length in [32 << 20, BYTES_MAX, u64::MAX] {
            assert_eq!(overlong_end(length), BYTES_MAX);
        }
    }

    #[test]
    fn a_segment_ends_before_its_sequence_numbers_exceed_32_bits() {
        let fs = MemoryFs::crashable();
        let open = |fs| {
            let environment = Environment::stepped(Arc::new(fs));
            let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
            let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
            (db, keyspace)
        };
        let (db, keyspace) = open(fs.clone());
        for key in 0..4u8 {
            let mut batch = Batch::new();
            batch.put(&keyspace, &[key], b"value");
            drop(db.write(batch).unwrap());
            // Uses up numbers, as many writes that fail for lack of space would.
            db.parts().log.with_log(|log| log.last_sequence += 3 << 30);
        }
        std::mem::forget((db, keyspace));
        let (db, keyspace) = open(fs.crash(1, Keep::Everything));
        for key in 0..4u8 {
            assert!(db.get(&keyspace, &[key]).unwrap().is_some(), "{key}");
        }
    }

    #[test]
    fn the_numbers_of_a_refused_batch_are_not_used_again_after_a_kill() {
        let fs = MemoryFs::crashable();
        let open = |fs| {
            let environment = Environment::stepped(Arc::new(fs));
            let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
            let keyspace = |name| db.keyspace(name, KeyspaceOptions::default()).unwrap();
            let keyspaces = ["kept", "flushed"].map(keyspace);
            (db, keyspaces)
        };
        let write = |db: &Db, keyspace: &Keyspace| {
            let mut batch = Batch::new();
            batch.put(keyspace, b"key", b"value");
            drop(db.write(batch).unwrap());
        };
        let (db, keyspaces) = open(fs.clone());
        write(&db, &keyspaces[0]);
        // Imitates a refused batch of a hundred changes, and a segment that was begun after it.
        db.parts().log.with_log(|log| {
            log.last_sequence += 100;
            log.end_segment();
            db.parts().log.segments().provide_wal(log).unwrap();
        });
        std::mem::forget((db, keyspaces));
        let fs = fs.crash(1, Keep::Everything);
        let (db, keyspaces) = open(fs.clone());
        write(&db, &keyspaces[1]);
        db.flush(&keyspaces[1]).unwrap();
        std::mem::forget((db, keyspaces));
        let (db, keyspaces) = open(fs.crash(2, Keep::Everything));
        for keyspace in &keyspaces {
            assert!(db.get(keyspace, b"key").unwrap().is_some());
        }
    }
}

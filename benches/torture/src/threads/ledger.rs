//! Ledger: the batches of each writer of a threaded life, and what a store must therefore hold.
//!
//! A writer writes numbered batches, each a function of its number. Each batch puts its number into
//! two keyspaces, and notes how many batches each writer had written when it began. So the rows
//! show how many batches of each writer there are, which determines all other rows.

use crate::finding::{Checked, Finding, Symptom};
use crate::model::{Change, Rows, Value, Way};
use lazurite_engine::Choices;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of writers in a life.
pub const WRITERS: usize = 4;

/// Number of rows of a writer that its batches overwrite in turn.
const ROWS: u64 = 30;

/// A number for each writer.
pub type Counts = [u64; WRITERS];

/// The batches of one writer.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The last batch that was begun.
    tried: AtomicU64,
    /// The last batch whose write returned.
    written: AtomicU64,
    /// The last batch that is durable.
    durable: AtomicU64,
    /// By batch, from the first on: the written batches of all writers when it was begun.
    seen: Mutex<Vec<Counts>>,
}

/// The batches of all writers.
#[derive(Debug, Default)]
pub struct Ledgers {
    seed: u64,
    writers: [Ledger; WRITERS],
}

impl Ledgers {
    /// The ledgers of a life whose store is empty.
    pub fn new(seed: u64) -> Ledgers {
        Ledgers {
            seed,
            ..Ledgers::default()
        }
    }

    /// Begins the next batch of a writer. Returns its number and its changes.
    pub fn begin(&self, writer: usize) -> (u64, Vec<Change>) {
        let ledger = &self.writers[writer];
        let written = self.written();
        let number = ledger.tried.fetch_add(1, Ordering::SeqCst) + 1;
        let seen = &mut *ledger.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(written);
        let mut changes = self.changes(writer, number);
        for (other, count) in written.iter().enumerate() {
            changes.push(put(1, seen_key(writer, other), Value::new(8, *count)));
        }
        (number, changes)
    }

    /// Notes that the write of this batch returned.
    pub fn wrote(&self, writer: usize, number: u64) {
        self.writers[writer].written.store(number, Ordering::SeqCst);
    }

    /// Notes that the batches of a writer up to this one are durable.
    pub fn is_durable(&self, writer: usize, number: u64) {
        self.writers[writer]
            .durable
            .fetch_max(number, Ordering::SeqCst);
    }

    /// The last written batch of each writer.
    pub fn written(&self) -> Counts {
        self.counts(|ledger| &ledger.written)
    }

    /// The last durable batch of each writer.
    pub fn durable(&self) -> Counts {
        self.counts(|ledger| &ledger.durable)
    }

    fn counts(&self, of: impl Fn(&Ledger) -> &AtomicU64) -> Counts {
        std::array::from_fn(|writer| of(&self.writers[writer]).load(Ordering::SeqCst))
    }

    /// Continues each writer at its number in `counts`: the batches that the reopened store holds.
    pub fn go_on(&self, counts: Counts) {
        for (ledger, count) in self.writers.iter().zip(counts) {
            for number in [&ledger.tried, &ledger.written, &ledger.durable] {
                number.store(count, Ordering::SeqCst);
            }
            let seen = &mut *ledger.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.truncate(count as usize);
        }
    }

    /// The changes of a batch, without the record of the batches that it has seen.
    fn changes(&self, writer: usize, number: u64) -> Vec<Change> {
        let name = format!("{writer}/{number}");
        let mut choices = Choices::child(self.seed, &name);
        let mut changes = vec![
            put(0, count_key(writer), Value::new(8, number)),
            put(1, count_key(writer), Value::new(8, number)),
        ];
        let row = format!("r{writer}/{:03}", number % ROWS).into_bytes();
        let keyspace = choices.index(3);
        let length = choices.pick(&[20, 150, 150, 400]);
        let value = Value::new(length, choices.next());
        let way = choices.pick(&[Way::Batch, Way::Batch, Way::Whole, Way::Streamed]);
        changes.push(Change::Put {
            keyspace,
            key: row.clone(),
            value,
            way,
        });
        match choices.below(8) {
            // The batch deletes the value that it has put.
            0 => changes.push(Change::Delete { keyspace, key: row }),
            1 | 2 => {
                let old = format!("r{writer}/{:03}", (number + ROWS / 2) % ROWS);
                changes.push(Change::Delete {
                    keyspace: choices.index(3),
                    key: old.into_bytes(),
                });
            }
            _ => {}
        }
        changes
    }

    /// Checks that the rows are those of some batches of each writer, at least `floors`, at most
    /// those that were begun; and that no batch is there without the batches that were written
    /// before it began. Returns how many there are of each writer.
    pub fn check(&self, found: &Rows, floors: Counts) -> Checked<Counts> {
        let counts: Counts = std::array::from_fn(|writer| {
            let count = found.maps[0].get(&count_key(writer));
            count.map_or(0, |value| value.fill())
        });
        let mut expected = Rows::default();
        for (writer, (&count, floor)) in counts.iter().zip(floors).enumerate() {
            let tried = self.writers[writer].tried.load(Ordering::SeqCst);
            let is_right = (floor..=tried).contains(&count);
            Finding::unless(is_right, Symptom::LostOrTorn, || {
                format!("{count} batches of writer {writer} are there, not {floor}..={tried}")
            })?;
            (1..=count).for_each(|number| expected.apply(&self.changes(writer, number)));
            self.expect_seen(writer, counts, &mut expected)?;
        }
        let (count, words) = expected.difference(found);
        Finding::unless(count == 0, Symptom::LostOrTorn, || {
            format!("with {counts:?} batches of the writers, {count} rows are wrong: {words}")
        })?;
        Ok(counts)
    }

    fn expect_seen(&self, writer: usize, counts: Counts, expected: &mut Rows) -> Checked {
        let Some(last) = counts[writer].checked_sub(1) else {
            return Ok(());
        };
        let seen = self.writers[writer].seen.lock();
        let seen = seen.unwrap_or_else(PoisonError::into_inner)[last as usize];
        for (other, count) in seen.into_iter().enumerate() {
            expected.apply(&[put(1, seen_key(writer, other), Value::new(8, count))]);
            Finding::unless(counts[other] >= count, Symptom::LostOrTorn, || {
                let before = counts[other];
                format!(
                    "a hole: batch {} of writer {writer} is there, and batch {count} of writer {other}, written before, is not ({before} are)",
                    last + 1
                )
            })?;
        }
        Ok(())
    }
}

fn count_key(writer: usize) -> Vec<u8> {
    format!("count/{writer}").into_bytes()
}

fn seen_key(writer: usize, other: usize) -> Vec<u8> {
    format!("seen/{writer}/{other}").into_bytes()
}

fn put(keyspace: usize, key: Vec<u8>, value: Value) -> Change {
    Change::Put {
        keyspace,
        key,
        value,
        way: Way::Batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two writers that write in turn.
    fn written() -> (Ledgers, Vec<Vec<Change>>) {
        let ledgers = Ledgers::new(1);
        let mut batches = Vec::new();
        for turn in 0..40 {
            let writer = turn % 2;
            let (number, changes) = ledgers.begin(writer);
            ledgers.wrote(writer, number);
            batches.push(changes);
        }
        (ledgers, batches)
    }

    fn rows(batches: &[Vec<Change>]) -> Rows {
        let mut rows = Rows::default();
        batches.iter().for_each(|changes| rows.apply(changes));
        rows
    }

    #[test]
    fn every_prefix_is_right_and_a_lost_batch_is_found() {
        let (ledgers, batches) = written();
        for count in 0..=batches.len() {
            ledgers
                .check(&rows(&batches[..count]), Counts::default())
                .unwrap();
        }
        let lost = rows(&batches[..39]);
        let found = ledgers.check(&lost, ledgers.written()).unwrap_err();
        assert_eq!(found.symptom, Symptom::LostOrTorn);
    }

    #[test]
    fn a_hole_and_a_torn_batch_are_found() {
        let (ledgers, mut batches) = written();
        let torn = batches[39].split_off(2);
        assert!(ledgers.check(&rows(&batches), Counts::default()).is_err());
        batches[39].extend(torn);
        batches.remove(38);
        let hole = ledgers.check(&rows(&batches), Counts::default());
        assert!(hole.unwrap_err().text.contains("a hole"));
    }
}

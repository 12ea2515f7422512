//! Damager: a file of a store at rest is damaged, in a copy of the disk. The copy must refuse to open, or answer `Corrupt`, or the right
//! rows; it may lose batches only behind the point that is recorded as durable. `verify` must report what a read reports.

use super::number;
use crate::access::{known_value, read_row, unexpected};
use crate::choices::Choices;
use crate::finding::{Checked, Finding, Symptom};
use crate::life::{Life, Slot, Store};
use crate::model::{History, KEYSPACES, Row, Rows, Value};
use crate::settings;
use lazurite_engine::fs::{FaultFs, Fs, Keep, MemoryFs};
use lazurite_engine::{Config, Db, Direction, Environment, Error, KeyRange};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A step of the damager.
#[derive(Debug, Clone)]
pub struct Step {
    store: usize,
    file: usize,
    harm: Harm,
    settings: u64,
}

/// What happens to the file. Places are counted in a circle among the bytes that are in use: those up to the last that is not zero.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Bit { at: usize, bit: u32 },
    Zeros { at: usize, bytes: usize },
    CutTo { at: usize },
    CutOff { bytes: usize },
    Removed,
}

impl Step {
    pub fn next(choices: &mut Choices) -> Step {
        let at = choices.index(1 << 30);
        let harm = match choices.below(10) {
            0..=3 => Harm::Bit {
                at,
                bit: choices.below(8) as u32,
            },
            4 | 5 => Harm::Zeros {
                at,
                bytes: 1 + choices.index(600),
            },
            6 | 7 => Harm::CutTo { at },
            8 => Harm::CutOff {
                bytes: 1 + choices.index(200),
            },
            _ => Harm::Removed,
        };
        Step {
            store: number(choices),
            file: choices.index(1 << 16),
            harm,
            settings: choices.next(),
        }
    }

    pub fn run(&self, life: &mut Life) -> Checked {
        let Some(slot) = life.closed_slot(self.store) else {
            return Ok(());
        };
        let Slot::Closed(history) = &life.slots[slot] else {
            return Ok(());
        };
        let copy = life.memory.crash(0, Keep::Everything);
        let mut choices = Choices::new(self.settings);
        let durability = settings::durability(&mut choices);
        let config = settings::config(&mut choices, durability);
        let ground = Ground {
            environment: life.environment(Arc::new(copy.clone())),
            disk: copy,
            path: Life::path(slot),
            config,
        };
        let Some(damaged) = ground.damage(self.file, self.harm)? else {
            return Ok(());
        };
        ground
            .check(history, &damaged)
            .map_err(|finding| finding.within(damaged.words))
    }
}

/// The copy that is damaged.
struct Ground {
    disk: MemoryFs,
    path: PathBuf,
    config: Config,
    environment: Environment,
}

struct Damaged {
    words: String,
    /// Whether the file is an SSTable that the store refers to.
    is_live_sstable: bool,
}

impl Ground {
    fn verify(&self) -> lazurite_engine::Result<lazurite_engine::Verified> {
        Db::verify_directory(&self.path, self.config.clone(), self.environment.clone())
    }

    /// Damages a file; `None` if that leaves it as it is.
    fn damage(&self, file: usize, harm: Harm) -> Checked<Option<Damaged>> {
        let verified = self.verify();
        let verified = verified.map_err(|error| unexpected("verify a store at rest", &error))?;
        Finding::unless(verified.damages.is_empty(), Symptom::Damaged, || {
            format!("verify finds {:?} in an undamaged store", verified.damages)
        })?;
        let files = self.disk.files().into_iter();
        let files = files.filter(|(path, _)| path.starts_with(&self.path) && !is_lock(path));
        let files: Vec<(PathBuf, Vec<u8>)> = files.collect();
        let Some(at) = file.checked_rem(files.len()) else {
            return Ok(None);
        };
        let sstables = files.iter().filter(|(path, _)| is_sstable(path)).count();
        let (path, bytes) = &files[at];
        let left = harm.of(bytes);
        if left.as_ref() == Some(bytes) {
            return Ok(None);
        }
        let replaced = replace(&self.disk, path, left.as_deref());
        replaced.expect("a disk in memory takes every call");
        Ok(Some(Damaged {
            words: format!("{} of {} bytes, {harm:?}", path.display(), bytes.len()),
            is_live_sstable: is_sstable(path) && sstables as u64 == verified.sstables,
        }))
    }

    fn check(&self, history: &History, damaged: &Damaged) -> Checked {
        let is_reported = match self.verify() {
            Ok(verified) => !verified.damages.is_empty(),
            Err(_) => true,
        };
        let opened = Store::open(
            &self.path,
            &self.config,
            self.environment.clone(),
            &FaultFs::new(Arc::new(self.disk.clone())),
            history.clone(),
        );
        let is_noticed = match opened {
            Ok(store) => {
                let seen = Seen::of(&store, history)?;
                store.db.abandon();
                seen.check(history)?;
                seen.has_errors
            }
            Err(Error::Corrupt { .. } | Error::UnknownFormat { .. } | Error::Io { .. }) => true,
            Err(error) => return Err(unexpected("open a damaged store", &error)),
        };
        let must_report = is_noticed || damaged.is_live_sstable;
        Finding::unless(is_reported || !must_report, Symptom::UnseenDamage, || {
            format!("verify reports nothing; noticed by reads: {is_noticed}")
        })
    }
}

fn is_lock(path: &Path) -> bool {
    path.ends_with("LOCK")
}

fn is_sstable(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

fn replace(disk: &MemoryFs, path: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
    disk.remove(path)?;
    match bytes {
        Some(bytes) => disk.create(path)?.write_at(bytes, 0),
        None => Ok(()),
    }
}

impl Harm {
    /// The bytes that are left; `None`: no file.
    fn of(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let used = bytes.iter().rposition(|byte| *byte != 0);
        let used = used.map_or(0, |last| last + 1);
        let mut left = bytes.to_vec();
        match self {
            Harm::Removed => return None,
            Harm::Bit { at, bit } => {
                if let Some(at) = at.checked_rem(used) {
                    left[at] ^= 1 << bit;
                }
            }
            Harm::Zeros { at, bytes } => {
                let at = at.checked_rem(used).unwrap_or(0);
                let end = used.min(at + bytes);
                left[at..end].fill(0);
            }
            Harm::CutTo { at } => left.truncate(at.checked_rem(used).unwrap_or(0)),
            Harm::CutOff { bytes } => left.truncate(used.saturating_sub(bytes)),
        }
        Some(left)
    }
}

/// What reads of a damaged store answer.
struct Seen {
    /// By keyspace: the rows of a scan, up to its error if there is one.
    scanned: Vec<(Vec<Row>, bool)>,
    /// By keyspace: the answers of gets that are no errors.
    got: Vec<BTreeMap<Vec<u8>, Option<Value>>>,
    has_errors: bool,
}

impl Seen {
    fn of(store: &Store, history: &History) -> Checked<Seen> {
        let mut seen = Seen {
            scanned: Vec::new(),
            got: Vec::new(),
            has_errors: false,
        };
        for keyspace in 0..KEYSPACES.len() {
            seen.scan(store, keyspace)?;
            seen.get(store, keyspace, history)?;
        }
        Ok(seen)
    }

    fn scan(&mut self, store: &Store, keyspace: usize) -> Checked {
        let keyspace = &store.keyspaces[keyspace];
        let snapshot = store.db.snapshot();
        let mut scan = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
        let mut rows = Vec::new();
        let is_whole = loop {
            match read_row(&mut scan)? {
                Ok(Some(row)) => rows.push(row),
                Ok(None) => break true,
                Err(error) => {
                    self.note(&error)?;
                    break false;
                }
            }
        };
        self.scanned.push((rows, is_whole));
        Ok(())
    }

    fn get(&mut self, store: &Store, keyspace: usize, history: &History) -> Checked {
        let mut keys = Vec::new();
        // Of every state that may be left, not only of the last one.
        history.may_be_left_by_damage(|state| {
            keys.extend(state.maps[keyspace].keys().cloned());
            false
        });
        keys.sort();
        keys.dedup();
        let mut got = BTreeMap::new();
        for key in keys {
            match store.db.get(&store.keyspaces[keyspace], &key) {
                Ok(found) => {
                    let found = found.map(|bytes| known_value(&key, &bytes)).transpose()?;
                    got.insert(key, found);
                }
                Err(error) => self.note(&error)?,
            }
        }
        self.got.push(got);
        Ok(())
    }

    fn note(&mut self, error: &Error) -> Checked {
        self.has_errors = true;
        match error {
            // A file that is not there cannot be opened.
            Error::Corrupt { .. } | Error::Io { .. } => Ok(()),
            error => Err(unexpected("read a damaged store", error)),
        }
    }

    fn check(&self, history: &History) -> Checked {
        let mut nearest: Option<Vec<String>> = None;
        let is_right = history.may_be_left_by_damage(|state| {
            let wrong = self.contradictions(state);
            let is_right = wrong.is_empty();
            if nearest
                .as_ref()
                .is_none_or(|nearest| wrong.len() < nearest.len())
            {
                nearest = Some(wrong);
            }
            is_right
        });
        Finding::unless(is_right, Symptom::LostOrTorn, || {
            let wrong = nearest.unwrap_or_default();
            let shown = wrong.iter().take(6).cloned().collect::<Vec<_>>().join("; ");
            format!(
                "{} answers do not fit the nearest state: {shown}",
                wrong.len()
            )
        })
    }

    /// The answers that are not those of this state.
    fn contradictions(&self, state: &Rows) -> Vec<String> {
        let keyspaces = 0..KEYSPACES.len();
        keyspaces
            .flat_map(|keyspace| self.contradictions_in(keyspace, &state.maps[keyspace]))
            .collect()
    }

    fn contradictions_in(&self, keyspace: usize, map: &BTreeMap<Vec<u8>, Value>) -> Vec<String> {
        let name = KEYSPACES[keyspace];
        let (rows, is_whole) = &self.scanned[keyspace];
        let expected = map.iter().map(|(key, value)| (key.clone(), *value));
        let mut expected: Vec<_> = expected.collect();
        if !is_whole {
            expected.truncate(rows.len());
        }
        let mut wrong = Vec::new();
        for at in 0..rows.len().max(expected.len()) {
            let (row, expected) = (rows.get(at), expected.get(at));
            if row != expected {
                wrong.push(format!(
                    "row {at} of {name} is {row:?}, expected {expected:?}"
                ));
            }
        }
        for (key, value) in &self.got[keyspace] {
            let expected = map.get(key).copied();
            if *value != expected {
                wrong.push(format!(
                    "get {name} {key:?}: {value:?}, expected {expected:?}"
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: &[u8]) -> Rows {
        let mut rows = Rows::default();
        for &key in keys {
            rows.maps[0].insert(vec![key], Value::new(9, key.into()));
        }
        rows
    }

    fn seen(keys: &[u8], is_whole: bool) -> Seen {
        let row = |&key: &u8| (vec![key], Value::new(9, key.into()));
        let mut scanned = vec![(Vec::new(), true); KEYSPACES.len()];
        scanned[0] = (keys.iter().map(row).collect(), is_whole);
        Seen {
            scanned,
            got: vec![BTreeMap::new(); KEYSPACES.len()],
            has_errors: !is_whole,
        }
    }

    fn fits(seen: &Seen, keys: &[u8]) -> bool {
        seen.contradictions(&rows(keys)).is_empty()
    }

    #[test]
    fn a_scan_may_end_with_an_error_but_not_without_its_rows() {
        assert!(fits(&seen(&[1, 2, 3], true), &[1, 2, 3]));
        assert!(fits(&seen(&[1, 2], false), &[1, 2, 3]));
        assert!(!fits(&seen(&[1, 2], true), &[1, 2, 3]), "a row is gone");
        assert!(!fits(&seen(&[1, 3], false), &[1, 2, 3]), "one is skipped");
    }

    #[test]
    fn a_get_that_answers_nothing_or_an_older_value_is_found() {
        for wrong in [None, Some(Value::new(9, 8))] {
            let mut seen = seen(&[], false);
            seen.got[0].insert(vec![1], wrong);
            assert!(!fits(&seen, &[1]));
        }
    }

    #[test]
    fn harm_is_done_to_bytes_in_use() {
        let bytes = [1, 2, 3, 0, 0];
        assert_eq!(
            Harm::Bit { at: 4, bit: 0 }.of(&bytes).unwrap(),
            [1, 3, 3, 0, 0]
        );
        assert_eq!(Harm::CutOff { bytes: 1 }.of(&bytes).unwrap(), [1, 2]);
        assert_eq!(Harm::CutTo { at: 4 }.of(&bytes).unwrap(), [1]);
        assert_eq!(Harm::Removed.of(&bytes), None);
    }
}

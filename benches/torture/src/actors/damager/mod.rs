//! Damager: damages a file of a store, in a copy of the disk as the death of the process leaves it.
//! The copy must refuse to open, answer `Corrupt`, or return the right rows; it may lose only
//! batches after the point that is recorded as durable. `verify` must report what a read reports,
//! and damage of a live SSTable in any case.

mod seen;

use super::choose::number;
use crate::access::unexpected;
use crate::finding::{Checked, Finding, Symptom};
use crate::life::{Life, Slot, Store};
use crate::model::History;
use crate::settings;
use lazurite_engine::Choices;
use lazurite_engine::fs::{FaultFs, Fs, Keep, MemoryFs};
use lazurite_engine::{Config, Db, Environment, Error};
use seen::Seen;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A step of the damager.
#[derive(Debug, Clone)]
pub struct Step {
    store: usize,
    file: usize,
    /// Whether to damage a file of the log, if there is one.
    is_log: bool,
    harm: Harm,
    settings: u64,
}

/// The damage to the file.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Bit { at: Place, bit: u32 },
    Zeros { at: Place, bytes: usize },
    CutTo { at: Place },
    CutOff { bytes: usize },
    Removed,
}

/// A place among the bytes in use, which end with the last byte that is not zero.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// This index, modulo the number of bytes in use.
    Anywhere(usize),
    /// This many bytes before the last one in use, where the latest records are.
    BeforeEnd(usize),
}

impl Place {
    fn next(choices: &mut Choices) -> Place {
        if choices.one_in(2) {
            Place::Anywhere(choices.index(1 << 30))
        } else {
            Place::BeforeEnd(choices.index(100))
        }
    }

    /// The index of the byte; `None` if no byte is in use.
    fn among(self, used: usize) -> Option<usize> {
        match self {
            Place::Anywhere(at) => at.checked_rem(used),
            Place::BeforeEnd(bytes) => used.checked_sub(1).map(|last| last.saturating_sub(bytes)),
        }
    }
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let at = Place::next(choices);
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
            is_log: choices.one_in(3),
            harm,
            settings: choices.next(),
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        let Some(slot) = life.lasting_slot(self.store) else {
            return Ok(());
        };
        let history = match &life.slots[slot] {
            Slot::Open(store) => &store.history,
            Slot::Closed(history) => history,
            Slot::Empty => return Ok(()),
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
        let Some(damaged) = ground.damage(self.file, self.is_log, self.harm)? else {
            return Ok(());
        };
        ground
            .check(history, &damaged)
            .map_err(|finding| finding.within(damaged.words))
    }
}

/// The copy of a store that is damaged.
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
    fn damage(&self, file: usize, is_log: bool, harm: Harm) -> Checked<Option<Damaged>> {
        let verified = self.verify();
        let verified =
            verified.map_err(|error| unexpected("verify a store that no one has open", &error))?;
        Finding::unless(verified.damages.is_empty(), Symptom::Damaged, || {
            format!("verify finds {:?} in an undamaged store", verified.damages)
        })?;
        let files = self.disk.files().into_iter();
        let files = files.filter(|(path, _)| path.starts_with(&self.path) && !is_lock(path));
        let files: Vec<(PathBuf, Vec<u8>)> = files.collect();
        let sstables = files.iter().filter(|(path, _)| is_sstable(path)).count();
        let logs: Vec<_> = files.iter().filter(|(path, _)| is_wal(path)).collect();
        let chosen = if is_log && !logs.is_empty() {
            logs
        } else {
            files.iter().collect()
        };
        let Some(at) = file.checked_rem(chosen.len()) else {
            return Ok(None);
        };
        let (path, bytes) = chosen[at];
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

fn is_wal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wal")
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
    /// The bytes that are left of a file; `None` if the file is removed.
    fn of(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let used = bytes.iter().rposition(|byte| *byte != 0);
        let used = used.map_or(0, |last| last + 1);
        let mut left = bytes.to_vec();
        match self {
            Harm::Removed => return None,
            Harm::Bit { at, bit } => {
                if let Some(at) = at.among(used) {
                    left[at] ^= 1 << bit;
                }
            }
            Harm::Zeros { at, bytes } => {
                let at = at.among(used).unwrap_or(0);
                let end = used.min(at + bytes);
                left[at..end].fill(0);
            }
            Harm::CutTo { at } => left.truncate(at.among(used).unwrap_or(0)),
            Harm::CutOff { bytes } => left.truncate(used.saturating_sub(bytes)),
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harm_is_done_to_bytes_in_use() {
        let bytes = [1, 2, 3, 0, 0];
        assert_eq!(
            Harm::Bit {
                at: Place::Anywhere(4),
                bit: 0
            }
            .of(&bytes)
            .unwrap(),
            [1, 3, 3, 0, 0]
        );
        assert_eq!(Harm::CutOff { bytes: 1 }.of(&bytes).unwrap(), [1, 2]);
        assert_eq!(
            Harm::CutTo {
                at: Place::Anywhere(4)
            }
            .of(&bytes)
            .unwrap(),
            [1]
        );
        assert_eq!(
            Harm::CutTo {
                at: Place::BeforeEnd(1)
            }
            .of(&bytes)
            .unwrap(),
            [1]
        );
        assert_eq!(Harm::Removed.of(&bytes), None);
    }
}

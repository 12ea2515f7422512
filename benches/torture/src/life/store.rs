//! Store: one store of a life, open, with what is held of it, and its history.

use crate::finding::{Checked, Finding, Symptom};
use crate::model::{Change, History, KEYSPACES, Rows, Value, Way};
use crate::settings;
use lazurite_engine::fs::FaultFs;
use lazurite_engine::{
    Batch, Config, Db, Direction, Environment, Error, KeyRange, Keyspace, Result, Scan, Snapshot,
};
use std::collections::VecDeque;
use std::path::Path;

/// An open store.
#[derive(Debug)]
pub struct Store {
    /// The store itself.
    pub db: Db,
    /// Its keyspaces, in the order of [`KEYSPACES`].
    pub keyspaces: Vec<Keyspace>,
    /// What it must hold.
    pub history: History,
    /// Snapshots, each with the rows that it must show.
    pub snapshots: Vec<(Snapshot, Rows)>,
    /// Scans under way.
    pub scans: Vec<HeldScan>,
    /// The disk, which knows whether a call has failed.
    pub faults: FaultFs,
    /// Whether one had failed when the disk was mended.
    pub was_hurt: bool,
}

/// A scan under way, with the rows that must follow.
#[derive(Debug)]
pub struct HeldScan {
    /// The scan.
    pub scan: Scan,
    /// The rows that it must show from here on.
    pub rest: VecDeque<(Vec<u8>, Value)>,
}

impl Store {
    /// Opens a store and its keyspaces.
    pub fn open(
        path: &Path,
        config: &Config,
        environment: Environment,
        faults: &FaultFs,
        history: History,
    ) -> Result<Store> {
        let db = Db::open_with(path, config.clone(), environment)?;
        let names = KEYSPACES.iter().enumerate();
        let keyspaces = names
            .map(|(index, name)| db.keyspace(name, settings::keyspace_options(config, index)));
        let keyspaces = keyspaces.collect::<Result<_>>()?;
        Ok(Store {
            db,
            keyspaces,
            history,
            snapshots: Vec::new(),
            scans: Vec::new(),
            faults: faults.clone(),
            was_hurt: false,
        })
    }

    /// Whether a call on the disk has failed since the store was opened, so that its calls may fail.
    pub fn is_hurt(&self) -> bool {
        self.was_hurt || self.faults.seen().1
    }

    /// Whether this error may come of a call on the disk that was made to fail.
    pub fn tolerates(&self, error: &Error) -> bool {
        let is_consequence = matches!(
            error,
            Error::Io { .. } | Error::NoSpace { .. } | Error::ReadOnly { .. }
        );
        is_consequence && self.is_hurt()
    }

    /// The answer of a call; `None` for an error with a cause; a finding for one without.
    pub fn checked<T>(&self, action: &str, result: Result<T>) -> Checked<Option<T>> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if self.tolerates(&error) => Ok(None),
            Err(error) => Err(unexpected(action, &error)),
        }
    }

    /// The changes as a batch; values that do not go in it are written first.
    pub fn batch(&self, changes: &[Change]) -> Result<Batch> {
        let mut batch = Batch::new();
        self.add_to(&mut batch, changes)?;
        Ok(batch)
    }

    /// Adds the changes to a batch of this store.
    pub fn add_to(&self, batch: &mut Batch, changes: &[Change]) -> Result<()> {
        let together = changes.iter().filter_map(|change| match change {
            Change::Put {
                way: Way::Together,
                value,
                ..
            } => Some(value.bytes()),
            _ => None,
        });
        let together: Vec<Vec<u8>> = together.collect();
        let together: Vec<&[u8]> = together.iter().map(|bytes| &bytes[..]).collect();
        let mut together = self.db.write_values(&together)?.into_iter();
        for change in changes {
            let keyspace = &self.keyspaces[change.keyspace()];
            match change {
                Change::Put {
                    key, value, way, ..
                } => {
                    let bytes = value.bytes();
                    let large = match way {
                        Way::Batch => {
                            batch.put(keyspace, key, &bytes);
                            continue;
                        }
                        Way::Whole => self.db.write_value(&bytes)?,
                        Way::Streamed => self.stream(&bytes)?,
                        Way::Together => together.next().expect("it was written with the others"),
                    };
                    batch.put_large(keyspace, key, large);
                }
                Change::Delete { key, .. } => batch.delete(keyspace, key),
                Change::DeleteRange { range, .. } => batch.delete_range(keyspace, range.clone()),
            }
        }
        Ok(())
    }

    fn stream(&self, bytes: &[u8]) -> Result<lazurite_engine::LargeValue> {
        let mut writer = self.db.value_writer()?;
        for part in bytes.chunks(70) {
            writer.write(part)?;
        }
        writer.finish()
    }

    /// Everything in the store. The outer error is a finding: bytes that no put wrote, or damage.
    pub fn dump(&self) -> Checked<Result<Rows>> {
        let snapshot = self.db.snapshot();
        let mut rows = Rows::default();
        for (index, keyspace) in self.keyspaces.iter().enumerate() {
            let mut scan = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
            loop {
                match read_row(&mut scan)? {
                    Ok(None) => break,
                    Ok(Some((key, value))) => rows.maps[index].insert(key, value),
                    Err(error @ Error::Corrupt { .. }) => return Err(unexpected("scan", &error)),
                    Err(error) => return Ok(Err(error)),
                };
            }
        }
        Ok(Ok(rows))
    }

    /// Compares everything in the store with the model, if reads work and the model knows.
    pub fn check_rows(&self) -> Checked {
        let Some(found) = self.checked("scan everything", self.dump()?)? else {
            return Ok(());
        };
        let Some(live) = self.history.live() else {
            return Ok(());
        };
        let (count, words) = live.difference(&found);
        Finding::unless(count == 0, Symptom::WrongRead, || {
            format!("{count} rows of the open store differ: {words}")
        })
    }

    /// Verifies the open store, which must be whole.
    pub fn check_whole(&self) -> Checked {
        let Some(verified) = self.checked("verify", self.db.verify())? else {
            return Ok(());
        };
        let mut damages = verified.damages;
        damages.retain(|damage| !self.tolerates(damage));
        Finding::unless(damages.is_empty(), Symptom::Damaged, || {
            let first: Vec<String> = damages.iter().take(3).map(ToString::to_string).collect();
            format!("verify finds {}: {}", damages.len(), first.join("; "))
        })
    }
}

/// The next row of a scan, `None` at its end. A finding if its value is of no put.
pub fn read_row(scan: &mut Scan) -> Checked<Result<Option<(Vec<u8>, Value)>>> {
    match scan.advance() {
        Ok(true) => {}
        Ok(false) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
    }
    let key = scan.key().to_vec();
    match scan.value() {
        Ok(bytes) => Ok(Ok(Some((key.clone(), known_value(&key, &bytes)?)))),
        Err(error) => Ok(Err(error)),
    }
}

/// The value that has these bytes; a finding if no put wrote it.
pub fn known_value(key: &[u8], bytes: &[u8]) -> Checked<Value> {
    Value::read(bytes).ok_or_else(|| {
        let text = format!("{key:?} has {} bytes that no put wrote", bytes.len());
        Finding::new(Symptom::WrongRead, text)
    })
}

/// The finding of a call that failed without a cause.
pub fn unexpected(action: &str, error: &Error) -> Finding {
    let symptom = match error {
        Error::Corrupt { .. } => Symptom::Damaged,
        _ => Symptom::UnexpectedError,
    };
    Finding::new(symptom, format!("{action}: {error}"))
}

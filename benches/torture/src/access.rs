//! Writes the model's batches to a store and reads the whole store back. Shared by the lives of one
//! thread (`life/`) and the sessions of many (`threads/`).

use crate::finding::{Checked, Finding, Symptom};
use crate::model::{Change, KEYSPACES, Row, Rows, Value, Way};
use crate::settings;
use lazurite_engine::{
    Batch, Config, Db, Direction, Error, KeyRange, Keyspace, LargeValue, Result, Scan, ValueReader,
};

/// Opens the keyspaces of a store, in the order of [`KEYSPACES`].
pub fn keyspaces(db: &Db, config: &Config) -> Result<Vec<Keyspace>> {
    let names = KEYSPACES.iter().enumerate();
    let opened =
        names.map(|(index, name)| db.keyspace(name, settings::keyspace_options(config, index)));
    opened.collect()
}

/// Adds the changes to a batch. First writes the values that the batch will only point to.
pub fn add_to(
    batch: &mut Batch,
    db: &Db,
    keyspaces: &[Keyspace],
    changes: &[Change],
) -> Result<()> {
    let mut together = write_together(db, changes)?.into_iter();
    for change in changes {
        let keyspace = &keyspaces[change.keyspace()];
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
                    Way::Whole => db.write_value(&bytes)?,
                    Way::Streamed => stream(db, &bytes)?,
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

fn write_together(db: &Db, changes: &[Change]) -> Result<Vec<LargeValue>> {
    let values = changes.iter().filter_map(|change| match change {
        Change::Put {
            way: Way::Together,
            value,
            ..
        } => Some(value.bytes()),
        _ => None,
    });
    let values: Vec<Vec<u8>> = values.collect();
    let values: Vec<&[u8]> = values.iter().map(|bytes| &bytes[..]).collect();
    db.write_values(&values)
}

fn stream(db: &Db, bytes: &[u8]) -> Result<LargeValue> {
    let mut writer = db.value_writer()?;
    for part in bytes.chunks(70) {
        writer.write(part)?;
    }
    writer.finish()
}

/// Everything in the store. The outer error is a finding: bytes that no put wrote, or damage.
pub fn dump(db: &Db, keyspaces: &[Keyspace]) -> Checked<Result<Rows>> {
    let snapshot = db.snapshot();
    let mut rows = Rows::default();
    for (index, keyspace) in keyspaces.iter().enumerate() {
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

/// The next row of a scan, `None` at its end. Errors: a finding, if no put wrote its value.
pub fn read_row(scan: &mut Scan) -> Checked<Result<Option<Row>>> {
    match scan.advance() {
        Ok(true) => {}
        Ok(false) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
    }
    let key = scan.key().to_vec();
    match scan.value() {
        Ok(bytes) => {
            let value = known_value(&key, &bytes)?;
            Ok(Ok(Some((key, value))))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Reads the whole value, part by part.
pub fn read_whole(reader: &ValueReader) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < reader.length() {
        bytes.extend(reader.read_at(bytes.len() as u64, usize::MAX)?);
    }
    Ok(bytes)
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

/// The finding of a store that must open and does not.
pub fn does_not_open(place: &str, error: &Error) -> Finding {
    Finding::new(Symptom::DoesNotOpen, format!("{place}: {error}"))
}

/// The finding of damage in a store that has none.
pub fn expect_whole(damages: &[Error]) -> Checked {
    Finding::unless(damages.is_empty(), Symptom::Damaged, || {
        let first: Vec<String> = damages.iter().take(3).map(ToString::to_string).collect();
        format!("verify finds {}: {}", damages.len(), first.join("; "))
    })
}

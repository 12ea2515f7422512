//! Explains damage that prevents a store from opening: what the file held, and what the operator
//! can do.

use crate::Error;
use crate::catalog::state::{KeyspaceState, ManifestState};
use crate::fs::name::{FileKind, FileName};
use std::path::Path;

const ADVICE: &str = "Nothing was changed. Restore the whole directory from a backup or a checkpoint; files of different moments do not fit together";

/// Extends an error about a damaged or missing file by what the file held according to `state`, and
/// by advice. Other errors stay as they are.
pub(crate) fn explain(error: Error, state: &ManifestState) -> Error {
    match error {
        Error::Corrupt {
            path,
            offset,
            reason,
        } => Error::Corrupt {
            reason: format!("{reason}; {}. {ADVICE}", contents_of(&path, state)),
            path,
            offset,
        },
        error => error,
    }
}

fn contents_of(path: &Path, state: &ManifestState) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    match name.and_then(FileName::parse) {
        Some(FileName::Numbered(FileKind::Wal, _)) => {
            "the file holds the last writes to all keyspaces".into()
        }
        Some(FileName::Numbered(FileKind::Sstable, number)) => rows_in(number, state),
        Some(FileName::Numbered(FileKind::ValueLog, number)) => values_in(number, state),
        Some(FileName::Numbered(FileKind::Manifest, _)) => {
            "the file lists all files of the store".into()
        }
        Some(FileName::Current | FileName::CurrentNew | FileName::Lock) | None => {
            "without it nothing says which files belong to the store".into()
        }
    }
}

fn rows_in(number: u64, state: &ManifestState) -> String {
    let entry = |keyspace: &KeyspaceState| {
        let (_, meta) = keyspace.files.get(&number)?;
        let entries = meta.entries;
        let name = &keyspace.name;
        Some(format!(
            "the file holds {entries} rows of keyspace {name:?}"
        ))
    };
    let found = state.keyspaces.values().find_map(entry);
    found.unwrap_or_else(|| "the file holds rows".into())
}

/// Describes the large values in segment `number` by the keyspaces whose SSTables refer to them.
/// Rows that are still in the log may refer to more.
fn values_in(number: u64, state: &ManifestState) -> String {
    let bytes_of = |keyspace: &KeyspaceState| -> u64 {
        let files = keyspace.files.values();
        let references = files.flat_map(|(_, meta)| &meta.references);
        let inside = references.filter(|(segment, _)| *segment == number);
        inside.map(|(_, bytes)| bytes).sum()
    };
    let parts: Vec<String> = state
        .keyspaces
        .values()
        .map(|keyspace| (bytes_of(keyspace), &keyspace.name))
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, name)| format!("{bytes} bytes of keyspace {name:?}"))
        .collect();
    match parts[..] {
        [] => "the file holds large values that were written last".into(),
        _ => format!("the file holds large values: {}", parts.join(", ")),
    }
}

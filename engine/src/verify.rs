//! Verification: every checksum, every order, every reference. Reports all, changes nothing.

use crate::base::key::Kind;
use crate::catalog::parts::Parts;
use crate::catalog::recovery;
use crate::snapshot::Snapshot;
use crate::tree::keyspace::Tree;
use crate::work::signal::Signal;
use crate::{Config, Direction, Environment, Error, KeyRange, Keyspace, Result};
use std::path::Path;
use std::sync::Arc;

/// The extent of a verification, and the damage that it found.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// Number of SSTables, each read whole.
    pub sstables: u64,
    /// Sealed value-log segments, each read whole, unreferenced values included.
    pub value_segments: u64,
    /// Live rows of all keyspaces.
    pub rows: u64,
    /// Bytes of the values of these rows, those in the value log included.
    pub value_bytes: u64,
    /// Everything that is wrong, in the order in which it was found. Each error names a path;
    /// `Corrupt` also gives an offset in the file.
    pub damages: Vec<Error>,
}

impl Verified {
    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.damages.push(error)).ok()
    }
}

/// Reads the store in `path` without changing it, and verifies it, its log included.
pub(crate) fn verify_directory(
    path: &Path,
    config: Config,
    environment: Environment,
) -> Result<Verified> {
    let inspected = recovery::inspect(path, config, environment, Arc::<Signal>::default())?;
    let missing = inspected.missing();
    let parts = Arc::new(inspected.parts);
    let mut verified = verify(&parts);
    verified.damages.extend(inspected.damages);
    verified.damages.extend(missing);
    parts.health.close();
    Ok(verified)
}

/// Verifies all that the store has on disk, and that every live row can be read.
pub(crate) fn verify(parts: &Arc<Parts>) -> Verified {
    let mut verified = Verified::default();
    for (number, meta) in parts.value_log.sealed() {
        let read = parts
            .value_log
            .verify_segment(number, meta.size, meta.checksum);
        // A segment that is gone by now was collected meanwhile, so its error is no damage.
        if read.is_ok() || parts.value_log.sealed_size(number).is_some() {
            let found = verified.note(read);
            verified.damages.extend(found.into_iter().flatten());
            verified.value_segments += 1;
        }
    }
    let snapshot = Snapshot::new(parts.clone());
    for tree in parts.trees.all() {
        verify_files(parts, &tree, &mut verified);
        verify_rows(&snapshot, &tree, &mut verified);
    }
    verified
}

fn verify_files(parts: &Parts, tree: &Tree, verified: &mut Verified) {
    let view = tree.view();
    for (_, file) in view.version.files() {
        verified.sstables += 1;
        if let Some(reader) = verified.note(file.reader())
            && let Some(found) = verified.note(reader.verify(&parts.cache, &file.meta))
        {
            verified.damages.extend(found);
        }
    }
    for files in &view.version.levels[1..] {
        for pair in files.windows(2) {
            if pair[0].meta.overlaps(&pair[1].meta.range) {
                let path = parts.cache.path_of(pair[1].meta.number);
                let reason = "the file overlaps another of its level";
                verified.damages.push(Error::corrupt(&path, 0, reason));
            }
        }
    }
}

/// Reads every live row with its value. Damage of a block, which is also reported with its file, is
/// reported here again.
fn verify_rows(snapshot: &Snapshot, tree: &Arc<Tree>, verified: &mut Verified) {
    let keyspace = Keyspace::new(tree.clone());
    let mut scan = snapshot.scan(&keyspace, KeyRange::all(), Direction::Forward);
    while verified.note(scan.advance()) == Some(true) {
        verified.rows += 1;
        let length = match scan.kind() {
            Kind::Large => verified.note(scan.verify_value()).unwrap_or(0),
            _ => verified
                .note(scan.value())
                .map_or(0, |value| value.len() as u64),
        };
        verified.value_bytes += length;
    }
}

//! Directories for intermediate files of commands, which only their owner can enter.
//!
//! A directory is removed when its command ends. A killed command leaves it. A lock shows whether a
//! directory is in use. The next command that makes a directory in the same place removes unused
//! ones.

use crate::error::{Error, Result};
use lazurite_services::platform::{patiently, restrict_to_owner};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// The file in a directory that its command has locked. An import ignores hidden names.
const LOCK: &str = ".lock";

pub struct Scratch {
    // Dropped before the directory: some systems do not remove open files.
    _lock: File,
    directory: TempDir,
}

impl Scratch {
    /// Creates a directory in `place`, and removes those that killed commands left there.
    pub fn new(place: &Path, prefix: &str) -> Result<Scratch, io::Error> {
        let directory = scratch_directory(prefix).tempdir_in(place)?;
        let lock = locked(directory.path())?;
        remove_left_overs(place, prefix);
        Ok(Scratch {
            _lock: lock,
            directory,
        })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Makes the lock of a directory. The file gets its name only once it is locked, so a command that
/// begins now never finds it unlocked.
fn locked(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join(".lock-new");
    let lock = File::create_new(&unnamed)?;
    // Ignored: if files cannot be locked, none will be found unlocked either.
    let _ = lock.try_lock();
    patiently(|| fs::rename(&unnamed, directory.join(LOCK)))?;
    Ok(lock)
}

/// A builder of directories for intermediate files, accessible only to their owner.
fn scratch_directory(prefix: &str) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    restrict_to_owner(&mut builder);
    builder
}

/// Creates a directory for intermediate files in `place`.
pub fn scratch_in(place: &Path, prefix: &str) -> Result<TempDir> {
    let made = scratch_directory(prefix).tempdir_in(place);
    made.map_err(|error| Error::of_file(place, error))
}

/// Ignores directories that cannot be removed.
fn remove_left_overs(place: &Path, prefix: &str) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(prefix.as_bytes()) && is_left(&entry.path()) {
            let _ = patiently(|| fs::remove_dir_all(entry.path()));
        }
    }
}

/// Whether a directory has a lock file that no process has locked.
fn is_left(directory: &Path) -> bool {
    let lock = File::options().write(true).open(directory.join(LOCK));
    lock.is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_commands_are_removed_and_others_stay() {
        let place = tempfile::tempdir().unwrap();
        let used = Scratch::new(place.path(), ".import-").unwrap();
        let make = |name: &str, lock: &str| {
            let directory = place.path().join(name);
            fs::create_dir_all(directory.join("blobs")).unwrap();
            fs::write(directory.join(lock), "").unwrap();
            directory
        };
        let left = make(".import-left", LOCK);
        let others = [
            make(".export-left", LOCK),
            make(".import-mine", "file"),
            used.path().to_path_buf(),
        ];
        let own = Scratch::new(place.path(), ".import-").unwrap();
        assert!(!left.exists());
        assert!(others.iter().all(|other| other.exists()));
        let path = own.path().to_path_buf();
        assert!(path.exists());
        drop(own);
        assert!(!path.exists());
    }
}

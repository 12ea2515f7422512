//! A data directory whose current store is open, as the server starts with it.

use crate::state::directories::Directories;
use crate::state::place::Place;
use crate::state::stores_file::{StoreNumber, StoresFile};
use lazurite_engine::{Background, Config, Db, Durability, Environment, Error, Result};
use std::path::Path;
use std::sync::Arc;

/// Forks do not outlive the process, so their writes need not reach the disk.
pub(super) const FORK_DURABILITY: Durability = Durability::Memory;
/// Limits of a fork. They are low, because there may be many forks.
const FORK_CACHE_BYTES_MAX: usize = 4 << 20;
const FORK_MEMTABLE_BYTES_MAX: usize = 2 << 20;
const FORK_MEMTABLE_SECONDS_MAX: u64 = 600;
const FORK_MEMORY_BYTES_MAX: usize = 8 << 20;
const FORK_OPEN_FILES_MAX: usize = 8;
/// Maximum number of files that a fork has open: its SSTables, the lock, the manifest, and files of
/// values.
pub const FORK_HANDLES_MAX: u64 = FORK_OPEN_FILES_MAX as u64 + 4;

/// Maximum size of the WAL that the opening of a fork may have to replay, in bytes.
pub(super) const FORK_LOG_BYTES_MAX: u64 = 1 << 20;

/// An open data directory.
#[derive(Debug)]
pub struct DataDirectory {
    pub(super) directories: Arc<Directories>,
    pub(super) file: StoresFile,
    pub(super) opener: Opener,
    /// The current store.
    pub(super) db: Db,
}

impl DataDirectory {
    /// Opens the current store, creating one in an empty directory, and removes leftovers of other
    /// stores. Blocks while the WAL is replayed. Errors: those of [`Db::open_with`]; `Corrupt` and
    /// `UnknownFormat` for the file that names the stores.
    pub fn open(path: &Path, config: Config, environment: Environment) -> Result<DataDirectory> {
        let (directories, file) = Directories::open(environment.fs.clone(), path)?;
        let environment = Environment {
            is_tolerated: may_lie_beside_store,
            ..environment
        };
        let opener = Opener {
            config,
            environment,
        };
        let db = opener.open(&directories, file.current)?;
        // We locked the store that `file` named. Another process may have replaced the file before.
        if directories.read()? != file {
            db.abandon();
            return Err(Error::Locked {
                path: path.to_owned(),
                process_id: 0,
            });
        }
        // Not earlier: another process with the store open may have created them.
        directories.remove_unnamed(&file)?;
        Ok(DataDirectory {
            directories: Arc::new(directories),
            file,
            opener,
            db,
        })
    }
}

/// True if a new store may be made in a directory with a file of this name: certificates, logs, and
/// files that version control, desktops, file systems and containers leave in empty directories.
pub fn may_lie_beside_store(name: &str) -> bool {
    let names = [
        "lost+found",
        ".gitkeep",
        ".gitignore",
        ".keep",
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
    ];
    let endings = [".log", ".pem", ".crt", ".cer", ".key", ".pfx", ".p12"];
    names.contains(&name) || endings.iter().any(|ending| name.ends_with(ending))
}

/// Opens the stores of a process, all with the same configuration.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    config: Config,
    environment: Environment,
}

impl Opener {
    pub(super) fn open(&self, directories: &Directories, number: StoreNumber) -> Result<Db> {
        let path = directories.path(number);
        Db::open_with(&path, self.config.clone(), self.environment.clone())
    }

    /// Opens the store of a fork: not durable, with little memory and few threads.
    pub(super) fn open_fork(&self, directories: &Directories, number: StoreNumber) -> Result<Db> {
        let config = Config {
            durability: FORK_DURABILITY,
            // A merge would cost each fork time and disk; the source merges once.
            merges_inherited: false,
            // Keeps deletions in the memtable: once flushed, they would be merged with all data
            // that they hide, and the space of shared files would not become free.
            memtable_seconds_max: FORK_MEMTABLE_SECONDS_MAX,
            cache_bytes_max: FORK_CACHE_BYTES_MAX,
            memtable_bytes_max: FORK_MEMTABLE_BYTES_MAX,
            memory_bytes_max: FORK_MEMORY_BYTES_MAX,
            open_files_max: FORK_OPEN_FILES_MAX,
            ..self.config.clone()
        };
        let environment = Environment {
            background: Background::FewThreads,
            ..self.environment.clone()
        };
        Db::open_with(&directories.path(number), config, environment)
    }

    /// The place of the secondary endpoint's checkpoints, for the data directory at `root`.
    pub(super) fn place(&self, root: &Path) -> Place {
        Place {
            directory: root.to_owned(),
            config: self.config.clone(),
            environment: self.environment.clone(),
        }
    }

    /// The durability of stores other than forks.
    pub(super) fn durability(&self) -> Durability {
        self.config.durability
    }

    /// Whether stores are only in memory and end with the process.
    pub(super) fn is_in_memory(&self) -> bool {
        self.durability() == Durability::Memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_created_beside_files_that_mean_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        for name in [".gitkeep", ".DS_Store", "debug.log", "127.0.0.1-key.pem"] {
            std::fs::write(directory.path().join(name), "theirs").unwrap();
        }
        let open = |path: &Path| {
            let environment = Environment::system(Durability::Process);
            DataDirectory::open(path, Config::default(), environment)
        };
        drop(open(directory.path()).unwrap());
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("package.json"), "{}").unwrap();
        let refused = open(other.path()).unwrap_err();
        assert!(refused.to_string().contains("package.json"), "{refused}");
    }
}

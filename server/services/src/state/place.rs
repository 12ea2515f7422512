//! The place of the secondary endpoint's checkpoints.

use lazurite_engine::fs::Fs;
use lazurite_engine::{Config, Environment, remove_store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the checkpoints, relative to the data directory.
pub(super) const DIRECTORY: &str = "secondary";

/// The data directory whose store is copied, and how its copies are opened.
#[derive(Debug, Clone)]
pub struct Place {
    pub directory: PathBuf,
    pub config: Config,
    pub environment: Environment,
}

impl Place {
    /// Removes the checkpoints of earlier runs. Waits for the disk.
    pub fn remove_copies(&self) -> lazurite_engine::Result<()> {
        let (fs, directory) = (&self.environment.fs, self.directory.join(DIRECTORY));
        let copies = listed(fs, &directory);
        copies.iter().try_for_each(|path| remove_store(fs, path))?;
        // Fails harmlessly if the directory does not exist or has files of others.
        let _ = fs.remove_directory(&directory);
        Ok(())
    }
}

/// The directories of checkpoints; empty if the directory above them does not exist.
fn listed(fs: &Arc<dyn Fs>, directory: &Path) -> Vec<PathBuf> {
    let names = fs.list(directory).unwrap_or_default();
    let is_own = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let own = names.into_iter().filter(is_own);
    own.map(|name| directory.join(name)).collect()
}

//! Where the checkpoints of the secondary endpoint are.

use lazurite_engine::fs::Fs;
use lazurite_engine::{Config, Environment, remove_store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the checkpoints, in that of the store.
pub(super) const DIRECTORY: &str = "secondary";

/// Where the store is, and how it is opened.
#[derive(Debug, Clone)]
pub struct Place {
    pub directory: PathBuf,
    pub config: Config,
    pub environment: Environment,
}

impl Place {
    /// Removes the checkpoints that an earlier run has left. Blocks for the disk.
    pub fn remove_copies(&self) -> lazurite_engine::Result<()> {
        let (fs, directory) = (&self.environment.fs, self.directory.join(DIRECTORY));
        let copies = listed(fs, &directory);
        copies.iter().try_for_each(|path| remove_store(fs, path))?;
        // It is not there, or others keep files in it.
        let _ = fs.remove_directory(&directory);
        Ok(())
    }
}

/// The directories of checkpoints; none if there is no directory for them.
fn listed(fs: &Arc<dyn Fs>, directory: &Path) -> Vec<PathBuf> {
    let names = fs.list(directory).unwrap_or_default();
    let is_own = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let own = names.into_iter().filter(is_own);
    own.map(|name| directory.join(name)).collect()
}

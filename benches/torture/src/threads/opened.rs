//! Opened: an open store of threads.

use crate::access;
use lazurite_engine::Choices;
use lazurite_engine::fs::{FaultFs, Fs};
use lazurite_engine::{Background, Config, Db, Environment, Keyspace};
use std::path::Path;
use std::sync::Arc;

/// An open store of threads.
#[derive(Debug, Clone)]
pub struct Opened {
    pub db: Db,
    pub keyspaces: Arc<[Keyspace]>,
}

/// Opens the store with these settings.
pub fn open_with(
    path: &Path,
    disk: &FaultFs,
    config: &Config,
    choices: &mut Choices,
) -> lazurite_engine::Result<Opened> {
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let mut environment = Environment::system(config.durability);
    environment.fs = fs;
    environment.background = choices.pick(&[
        Background::Threads,
        Background::Threads,
        Background::FewThreads,
    ]);
    let db = Db::open_with(path, config.clone(), environment)?;
    let keyspaces = access::keyspaces(&db, config)?.into();
    Ok(Opened { db, keyspaces })
}

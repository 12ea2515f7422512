//! Environment: everything the engine reaches outside itself.

use crate::fs::ids::{IdSource, RandomIds};
use crate::fs::{Clock, DiskFs, Fs, MemoryFs, SystemClock};
use crate::{Background, Durability};
use std::sync::Arc;

/// Everything the engine reaches outside itself.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The file system that holds the files.
    pub fs: Arc<dyn Fs>,
    /// The clock for ages, delays and rates; it does not know the time of day.
    pub clock: Arc<dyn Clock>,
    /// The source of the id of a new store.
    pub ids: Arc<dyn IdSource>,
    /// Whether a store may be created in a directory that holds a foreign file of this name.
    /// [`Environment::system`] tolerates no foreign file. An existing store opens in any case.
    pub is_tolerated: fn(&str) -> bool,
    /// The threads that run background work.
    pub background: Background,
}

impl Environment {
    /// The environment outside of tests: the disk (or memory, at `Durability::Memory`), the
    /// system's clock and randomness, threads.
    pub fn system(durability: Durability) -> Environment {
        let fs: Arc<dyn Fs> = match durability {
            Durability::Memory => Arc::new(MemoryFs::volatile()),
            Durability::Process | Durability::Disk => Arc::new(DiskFs::default()),
        };
        Environment {
            fs,
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
            is_tolerated: |_| false,
            background: Background::Threads,
        }
    }
}

#[cfg(test)]
impl Environment {
    /// An environment for unit tests: no threads, and a clock that stands still.
    pub(crate) fn stepped(fs: Arc<dyn Fs>) -> Environment {
        Environment {
            fs,
            clock: Arc::new(crate::fs::ManualClock::default()),
            ids: Arc::new(crate::CountingIds::default()),
            is_tolerated: |_| false,
            background: Background::Stepped,
        }
    }
}

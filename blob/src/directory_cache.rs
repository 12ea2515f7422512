//! DirectoryCache: the directories that paths led through lately, so that a path with a known
//! directory costs one look-up more than a name. Fixed in size: a slot has one directory.
//!
//! A directory is in the cache with the number of moves at the time it was read. A move is a rename
//! or removal of a directory, or a change of its record. While a move is under way, and for what was
//! read before it, the cache is not used.

use crate::model::Blob;
use lazurite_base::locks::lock;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const SLOTS: usize = 4096;

/// A directory on a path.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The key of its row.
    pub(crate) key: Vec<u8>,
    pub(crate) id: u128,
    pub(crate) blob: Box<Blob>,
    /// The directory that it is in; `None` for the root.
    pub(crate) above: Option<Arc<Directory>>,
}

/// A number of moves at which none was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moves(u64);

#[derive(Debug)]
pub(crate) struct DirectoryCache {
    begun: AtomicU64,
    done: AtomicU64,
    slots: Box<[Mutex<Option<Slot>>]>,
}

#[derive(Debug)]
struct Slot {
    container: u128,
    path: String,
    moves: Moves,
    directory: Arc<Directory>,
}

impl Default for DirectoryCache {
    fn default() -> DirectoryCache {
        DirectoryCache {
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
        }
    }
}

impl DirectoryCache {
    /// The number of moves so far; `None` while one is under way.
    pub(crate) fn moves(&self) -> Option<Moves> {
        let done = self.done.load(Ordering::Acquire);
        (self.begun.load(Ordering::Acquire) == done).then_some(Moves(done))
    }

    /// Marks a move, until the guard is dropped. The caller commits it meanwhile, and holds the
    /// locks of the directory's rows.
    pub(crate) fn begin_move(&self) -> MoveGuard<'_> {
        self.begun.fetch_add(1, Ordering::AcqRel);
        MoveGuard(self)
    }

    /// The directory at a path without slashes at its ends, if nothing has moved since `moves`.
    pub(crate) fn get(&self, container: u128, path: &str, moves: Moves) -> Option<Arc<Directory>> {
        let slot = self.slot(container, path);
        let slot = lock(slot);
        let found = slot.as_ref().filter(|slot| {
            (slot.container, slot.moves, &slot.path[..]) == (container, moves, path)
        })?;
        let directory = found.directory.clone();
        drop(slot);
        (self.moves() == Some(moves)).then_some(directory)
    }

    /// Keeps a directory that was read after `moves` was.
    pub(crate) fn put(&self, container: u128, path: &str, moves: Moves, directory: Arc<Directory>) {
        let slot = self.slot(container, path);
        *lock(slot) = Some(Slot {
            container,
            path: path.to_string(),
            moves,
            directory,
        });
    }

    fn slot(&self, container: u128, path: &str) -> &Mutex<Option<Slot>> {
        let mut hasher = DefaultHasher::new();
        (container, path).hash(&mut hasher);
        &self.slots[hasher.finish() as usize % SLOTS]
    }
}

/// Drop guard: a move under way.
pub(crate) struct MoveGuard<'a>(&'a DirectoryCache);

impl Drop for MoveGuard<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

//! ContainerGates: keeps a container where it is while its blobs are written.
//!
//! A write to a blob reads its container, then files rows under the container's id. If the container were deleted between the two,
//! acknowledged rows would belong to no container. So a write to a blob holds its container's gate shared, and a change of the
//! container holds it alone. Gates are taken before key locks, and two gates always in one order.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Striped: two containers may share a gate, which costs waiting and nothing else.
#[derive(Debug)]
pub(crate) struct ContainerGates(Box<[RwLock<()>]>);

const GATES: usize = 256;

impl Default for ContainerGates {
    fn default() -> Self {
        ContainerGates((0..GATES).map(|_| RwLock::new(())).collect())
    }
}

impl ContainerGates {
    /// For a write to a blob. Blocks while the container itself is changed.
    pub(crate) fn shared(&self, container_key: &[u8]) -> RwLockReadGuard<'_, ()> {
        // The lock guards no data that a panic could leave half changed.
        self.gate(container_key)
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`ContainerGates::shared`] for two containers, which may be one.
    pub(crate) fn shared_both(&self, keys: [&[u8]; 2]) -> Vec<RwLockReadGuard<'_, ()>> {
        let mut gates = keys.map(|key| self.index(key));
        gates.sort_unstable();
        let distinct = if gates[0] == gates[1] { 1 } else { 2 };
        let read = |&gate: &usize| self.0[gate].read().unwrap_or_else(PoisonError::into_inner);
        gates[..distinct].iter().map(read).collect()
    }

    /// For a change of the container. Blocks while blobs of it are being written.
    pub(crate) fn alone(&self, container_key: &[u8]) -> RwLockWriteGuard<'_, ()> {
        self.gate(container_key)
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`ContainerGates::alone`] for two containers.
    pub(crate) fn both_alone(&self, keys: [&[u8]; 2]) -> Vec<RwLockWriteGuard<'_, ()>> {
        let mut gates = keys.map(|key| self.index(key));
        gates.sort_unstable();
        let distinct = if gates[0] == gates[1] { 1 } else { 2 };
        let write = |&gate: &usize| self.0[gate].write().unwrap_or_else(PoisonError::into_inner);
        gates[..distinct].iter().map(write).collect()
    }

    fn gate(&self, container_key: &[u8]) -> &RwLock<()> {
        &self.0[self.index(container_key)]
    }

    fn index(&self, container_key: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        container_key.hash(&mut hasher);
        (hasher.finish() % GATES as u64) as usize
    }
}

//! The interface that the workloads use of every engine, and the settings that all engines share.

use lazurite_bench_common::Outcome;
use lazurite_engine::Ticket;

/// The settings of an engine, the same for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Size of the cache in bytes.
    pub(crate) cache_bytes: usize,
    /// Size at which a memtable is flushed, in bytes.
    pub(crate) memtable_bytes: usize,
    /// Whether `put` returns only after a sync of the disk.
    pub(crate) is_synced: bool,
    /// Whether values are so large that they belong outside the tree.
    pub(crate) has_large_values: bool,
}

impl Setup {
    /// Settings with everything in the cache, no syncs, and small values.
    pub(crate) fn hot() -> Setup {
        Setup {
            cache_bytes: 512 << 20,
            memtable_bytes: 64 << 20,
            is_synced: false,
            has_large_values: false,
        }
    }
}

/// A row of a batch: key and value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// An ordered store of keys and values.
pub(crate) trait Engine: Send + Sync {
    /// Sets one key in a commit of its own, which is synced if the setup says so.
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()>;
    /// Sets the first of these keys as `put` does, in a transaction that locks all of them; `None`
    /// if the engine has no locks.
    fn put_locked(&self, _keys: &[&[u8]], _value: &[u8]) -> Option<Outcome<()>> {
        None
    }
    /// Like `put`, for a value that arrives in pieces; in one piece if the engine takes only whole
    /// values.
    fn put_streamed(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.put(key, value)
    }
    /// Sets many keys in one commit, which need not be synced.
    fn put_many(&self, rows: &[Row]) -> Outcome<()>;
    /// Removes one key in a commit of its own, which need not be synced.
    fn delete(&self, key: &[u8]) -> Outcome<()>;
    /// Removes the keys from `start` to `end` (not included) in the best way the engine offers.
    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()>;
    /// Passes the value of `key` to `see`, without a copy if the engine can; returns whether the
    /// key exists.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool>;
    /// Passes the rows from `start` to `end` (not included) to `see`, in order, until it returns
    /// `false`.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()>;
    /// Flushes the memtables. Background work may go on.
    fn flush(&self) -> Outcome<()>;
    /// Closes the store cleanly.
    fn close(self: Box<Self>) -> Outcome<()>;
    /// Whether commits that were not synced survive the death of the process.
    fn keeps_unsynced(&self) -> bool {
        true
    }
    /// How often the log was synced since the store was opened; `None` if the engine does not say.
    fn syncs(&self) -> Option<u64> {
        None
    }
    /// Begins a commit of one key and returns its ticket; `None` if the engine has no tickets.
    fn submit(&self, _key: &[u8], _value: &[u8]) -> Option<Outcome<Ticket>> {
        None
    }
}

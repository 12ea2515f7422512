//! The public surface of the engine, over an ordered map in memory until the real tree lands.

use crate::{Error, Result};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

/// Longest key the engine takes, in bytes.
pub const KEY_BYTES_MAX: usize = 32 * 1024;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the store lives in memory.
    Memory,
    /// The death of the process; a power cut may take at most the last 250 ms, as a suffix.
    Process,
    /// A power cut.
    Disk,
}

/// Sizes, limits and intervals as plain data with defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// When a write counts as acknowledged. Default: `Process`.
    pub durability: Durability,
    /// Bytes of memtable after which it is sealed and flushed. Default: 16 MiB.
    pub memtable_bytes_max: usize,
    /// Bytes of the block cache of the whole process. Default: 64 MiB.
    pub cache_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            durability: Durability::Process,
            memtable_bytes_max: 16 << 20,
            cache_bytes_max: 64 << 20,
        }
    }
}

/// Choices of one keyspace, fixed in code and given at each open.
#[derive(Debug, Clone, Default)]
pub struct KeyspaceOptions {}

/// A named, independent, ordered set of keys; a cheap handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyspace {
    id: u32,
    name: Arc<str>,
}

impl Keyspace {
    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Keys from `start` (inclusive) to `end` (exclusive; `None` is the end of the keyspace), in byte order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRange {
    /// The first key covered.
    pub start: Vec<u8>,
    /// The first key no longer covered.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key of the keyspace.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while let Some(last) = end.last_mut() {
            if *last < 0xff {
                *last += 1;
                return KeyRange {
                    start: prefix.to_vec(),
                    end: Some(end),
                };
            }
            end.pop();
        }
        KeyRange {
            start: prefix.to_vec(),
            end: None,
        }
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// Which way a scan walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Backward,
}

#[derive(Debug, Clone)]
enum Change {
    Put(u32, Bytes, Bytes),
    Delete(u32, Bytes),
    DeleteRange(u32, KeyRange),
}

/// What becomes visible, and survives, together; may span keyspaces. Later changes win over earlier ones of one key.
#[derive(Debug, Default)]
pub struct Batch {
    changes: Vec<Change>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`. Values over the separation threshold go to the value log by themselves.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
        self.changes.push(Change::Put(
            keyspace.id,
            Bytes::copy_from_slice(key),
            Bytes::copy_from_slice(value),
        ));
    }

    /// Sets `key` to a value that a [`ValueWriter`] has streamed into the value log.
    pub fn put_large(&mut self, keyspace: &Keyspace, key: &[u8], value: LargeValue) {
        self.changes.push(Change::Put(
            keyspace.id,
            Bytes::copy_from_slice(key),
            value.bytes,
        ));
    }

    /// Removes `key`; no error if it is absent.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) {
        self.changes
            .push(Change::Delete(keyspace.id, Bytes::copy_from_slice(key)));
    }

    /// Removes every key of `range`: one record, whatever it covers.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: KeyRange) {
        self.changes.push(Change::DeleteRange(keyspace.id, range));
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Completes when a write has reached its durability level. Wait on it (a thread) or await it (a task).
#[derive(Debug)]
#[must_use = "a write is acknowledged only once its ticket has completed"]
pub struct Ticket(Result<()>);

impl Ticket {
    /// A ticket for a write that changed nothing.
    pub fn ready() -> Ticket {
        Ticket(Ok(()))
    }

    /// Blocks until the write is durable.
    pub fn wait(self) -> Result<()> {
        self.0
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(self.0.clone())
    }
}

type Tree = BTreeMap<Bytes, Bytes>;

#[derive(Debug, Default)]
struct State {
    names: Vec<Arc<str>>,
    trees: Vec<Arc<Tree>>,
}

/// An open store: keyspaces on one write-ahead log. A cheap handle; the last one dropped closes it.
#[derive(Debug, Clone)]
pub struct Db {
    state: Arc<Mutex<State>>,
}

impl Db {
    /// Opens the store in `directory`, creating it if absent. Blocks while the log is replayed.
    pub fn open(directory: &Path, _config: Config) -> Result<Db> {
        let _ = directory;
        Ok(Db {
            state: Arc::default(),
        })
    }

    /// Opens the keyspace of that name, creating it if absent; durable on return.
    pub fn keyspace(&self, name: &str, _options: KeyspaceOptions) -> Result<Keyspace> {
        let mut state = self.state();
        let id = state
            .names
            .iter()
            .position(|known| **known == *name)
            .unwrap_or_else(|| {
                state.names.push(name.into());
                state.trees.push(Arc::default());
                state.names.len() - 1
            });
        Ok(Keyspace {
            id: id as u32,
            name: name.into(),
        })
    }

    /// Makes `batch` visible, whole, to every read that starts after the return; the ticket says when it is durable.
    /// A caller that holds a key lock may release it now and wait afterwards.
    pub fn write(&self, batch: Batch) -> Result<Ticket> {
        let mut state = self.state();
        for change in batch.changes {
            match change {
                Change::Put(id, key, value) => {
                    Arc::make_mut(&mut state.trees[id as usize]).insert(key, value);
                }
                Change::Delete(id, key) => {
                    Arc::make_mut(&mut state.trees[id as usize]).remove(&key);
                }
                Change::DeleteRange(id, range) => {
                    Arc::make_mut(&mut state.trees[id as usize]).retain(|key, _| {
                        key[..] < range.start[..]
                            || range.end.as_ref().is_some_and(|end| key[..] >= end[..])
                    });
                }
            }
        }
        Ok(Ticket(Ok(())))
    }

    /// The newest value of `key`. Never waits for writers. A large value is read whole: see [`Snapshot::open_value`].
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.state().trees[keyspace.id as usize].get(key).cloned())
    }

    /// The store as it is now, for as long as the handle lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            trees: self.state().trees.clone(),
        }
    }

    /// Begins a large value; see [`ValueWriter`].
    pub fn value_writer(&self) -> Result<ValueWriter> {
        Ok(ValueWriter { bytes: Vec::new() })
    }

    /// Flushes, marks the directory as cleanly closed and releases it. Later calls answer [`Error::Closed`].
    pub fn close(&self) -> Result<()> {
        Ok(())
    }

    /// `None` while writes are taken; otherwise the failure that made the store read-only.
    pub fn failure(&self) -> Option<Error> {
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic happens under this lock")
    }
}

/// The store at one sequence number. Cheap to clone; old ones pin disk space.
#[derive(Debug, Clone)]
pub struct Snapshot {
    trees: Vec<Arc<Tree>>,
}

impl Snapshot {
    /// The value of `key` as of this snapshot.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.trees[keyspace.id as usize].get(key).cloned())
    }

    /// A reader over the value of `key`, large or small, without reading it. It keeps the value's bytes on disk for as
    /// long as it lives, whatever happens to the key.
    pub fn open_value(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<ValueReader>> {
        Ok(self.get(keyspace, key)?.map(|bytes| ValueReader { bytes }))
    }

    /// Walks the keys of `range`. Cheap to make; reads as it advances.
    pub fn scan(&self, keyspace: &Keyspace, range: KeyRange, direction: Direction) -> Scan {
        let tree = self.trees[keyspace.id as usize].clone();
        Scan {
            tree,
            next_from: None,
            range,
            direction,
            current: None,
        }
    }
}

/// A position in a range of keys. Starts before the first entry.
#[derive(Debug)]
pub struct Scan {
    tree: Arc<Tree>,
    range: KeyRange,
    direction: Direction,
    next_from: Option<Bound<Bytes>>,
    current: Option<(Bytes, Bytes)>,
}

impl Scan {
    /// Moves to the next entry in the scan's direction; `false` at the end of the range, and from then on.
    pub fn advance(&mut self) -> Result<bool> {
        let start = Bound::Included(Bytes::copy_from_slice(&self.range.start));
        let end = self.range.end.as_ref().map_or(Bound::Unbounded, |end| {
            Bound::Excluded(Bytes::copy_from_slice(end))
        });
        let bounds = match (self.direction, self.next_from.clone()) {
            (Direction::Forward, from) => (from.unwrap_or(start), end),
            (Direction::Backward, from) => (start, from.unwrap_or(end)),
        };
        let empty = match (&bounds.0, &bounds.1) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b) | Bound::Included(b)) => {
                a >= b
            }
            _ => false,
        };
        self.current = if empty {
            None
        } else {
            let mut entries = self.tree.range(bounds);
            let entry = if self.direction == Direction::Forward {
                entries.next()
            } else {
                entries.next_back()
            };
            entry.map(|(key, value)| (key.clone(), value.clone()))
        };
        if let Some((key, _)) = &self.current {
            self.next_from = Some(Bound::Excluded(key.clone()));
        }
        Ok(self.current.is_some())
    }

    /// The next `advance` goes to the first entry at or beyond `key` in the scan's direction, within the range.
    pub fn seek(&mut self, key: &[u8]) {
        let beyond_end = self.range.end.as_ref().is_some_and(|end| key >= &end[..]);
        self.next_from = match self.direction {
            Direction::Forward if key > &self.range.start[..] => {
                Some(Bound::Included(Bytes::copy_from_slice(key)))
            }
            Direction::Backward if !beyond_end => {
                Some(Bound::Included(Bytes::copy_from_slice(key)))
            }
            _ => None,
        };
    }

    /// The key at the position. Panics unless the last `advance` answered `true`.
    pub fn key(&self) -> &[u8] {
        &self
            .current
            .as_ref()
            .expect("the scan stands on an entry")
            .0
    }

    /// The value at the position; a large one is read now.
    pub fn value(&self) -> Result<Bytes> {
        Ok(self
            .current
            .as_ref()
            .expect("the scan stands on an entry")
            .1
            .clone())
    }
}

/// Streams a value of any size into the value log in bounded memory. Dropped unfinished, or never put in a batch, its
/// bytes are garbage and collected.
#[derive(Debug)]
pub struct ValueWriter {
    bytes: Vec<u8>,
}

impl ValueWriter {
    /// Appends to the value. Blocks for the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the value. It is with the operating system on return; the batch that names it makes it as durable as itself.
    pub fn finish(self) -> Result<LargeValue> {
        Ok(LargeValue {
            bytes: self.bytes.into(),
        })
    }
}

/// A value that lies in the value log and waits for the one batch that refers to it.
#[derive(Debug)]
pub struct LargeValue {
    bytes: Bytes,
}

impl LargeValue {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Reads one value, any part of it, verifying checksums on the way.
#[derive(Debug, Clone)]
pub struct ValueReader {
    bytes: Bytes,
}

impl ValueReader {
    /// Length of the whole value in bytes.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Some bytes from `offset` on: at least one and at most `length_max`, as many as are cheap to return at once; empty
    /// only at the end of the value. Blocks for the disk.
    pub fn read_at(&self, offset: u64, length_max: usize) -> Result<Bytes> {
        let start = (offset as usize).min(self.bytes.len());
        Ok(self
            .bytes
            .slice(start..(start + length_max).min(self.bytes.len())))
    }
}

/// Striped locks that a caller holds across read, check and write. They are not held across the wait for the disk.
#[derive(Debug)]
pub struct KeyLocks {
    stripes: Box<[Mutex<()>]>,
}

/// Holds the stripes of the keys it was made for.
#[derive(Debug)]
pub struct KeyGuard<'a>(#[allow(dead_code, reason = "held, not read")] Vec<MutexGuard<'a, ()>>);

impl Default for KeyLocks {
    fn default() -> Self {
        KeyLocks {
            stripes: (0..1024).map(|_| Mutex::new(())).collect(),
        }
    }
}

impl KeyLocks {
    /// Locks one key; blocks while another holder has it.
    pub fn lock(&self, key: &[u8]) -> KeyGuard<'_> {
        self.lock_all([key])
    }

    /// Locks several keys at once, in an order that cannot deadlock. The same key may be given twice.
    pub fn lock_all<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> KeyGuard<'_> {
        let mut stripes: Vec<usize> = keys.into_iter().map(|key| self.stripe(key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        KeyGuard(
            stripes
                .into_iter()
                .map(|stripe| self.stripes[stripe].lock().expect("holders do not panic"))
                .collect(),
        )
    }

    fn stripe(&self, key: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() as usize % self.stripes.len()
    }
}

/// Where ids come from; tests give one that counts.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// 128 bits that no other call has returned or will return.
    fn next_id(&self) -> u128;
}

/// Ids from the operating system's randomness.
#[derive(Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn next_id(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives randomness");
        u128::from_le_bytes(bytes)
    }
}

/// Ids that count up from a seed: the same run gives the same ids.
#[derive(Debug, Default)]
pub struct CountingIds(std::sync::atomic::AtomicU64);

impl IdSource for CountingIds {
    fn next_id(&self) -> u128 {
        u128::from(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) + 1
    }
}

const _: fn(Error) = |_| {};

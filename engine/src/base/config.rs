//! Config: sizes, limits and intervals as plain data with defaults.

use crate::{Error, Result};
use std::ops::RangeInclusive;

/// Longest key the engine takes, in bytes.
pub const KEY_BYTES_MAX: usize = 32 * 1024;

/// Maximum encoded length of a batch, in bytes. Values below the separation threshold count.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// Bytes before the payload of a chunk of the value log.
pub(crate) const CHUNK_HEADER_BYTES: usize = 12;

/// Largest chunk that a value pointer may name; it bounds the memory of a reader.
pub(crate) const CHUNK_BYTES_MAX: u64 = 16 << 20;

/// Largest memtable, in bytes: 32 bits suffice to number its rows.
const MEMTABLE_BYTES_MAX: u64 = 64 << 30;

/// Largest WAL segment, in bytes: recovery holds a few segments in memory.
pub(crate) const WAL_SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Largest data block, in bytes.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// Largest SSTable and value-log segment, in bytes: offsets in them stay below 2^48.
const FILE_BYTES_MAX: u64 = 1 << 40;

/// The failures that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the store lives in memory.
    Memory,
    /// The death of the process. A power cut may lose acknowledged writes, but only those of the
    /// last 250 ms with the default [`Config::sync_milliseconds`], however long a sync takes.
    Process,
    /// A power cut. Writes whose tickets were not awaited may be lost with the process.
    Disk,
}

/// Sizes, limits and intervals as plain data with defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// The failures that an acknowledged write survives. Default: `Process`.
    pub durability: Durability,
    /// Bytes of one keyspace's memtable after which it is sealed and flushed. Default: 16 MiB.
    /// Raised: more memory, fewer and larger flushes, longer recovery. Lowered: more compaction.
    pub memtable_bytes_max: usize,
    /// Bytes of all memtables of all keyspaces, sealed ones included, at which writers wait for
    /// flushes. Default: 64 MiB. Raised: more memory. Lowered: writers wait sooner.
    pub memory_bytes_max: usize,
    /// Bytes of the store's block cache, which all keyspaces share and which also caches small
    /// values of the value log. Default: 64 MiB. Raised: more memory, fewer reads.
    pub cache_bytes_max: usize,
    /// SSTables held open at once. Default: 256. Raised: more file handles. Lowered: more opens.
    pub open_files_max: usize,
    /// Bytes of a WAL segment after which the next begins. Default: 8 MiB. Raised: a store with few
    /// rows takes more space, up to three segments. Lowered: more files and more manifest edits.
    pub wal_segment_bytes: usize,
    /// Bytes of all WAL segments after which the oldest memtable is flushed to free them. Default:
    /// 128 MiB. Raised: longer recovery. Lowered: idle keyspaces are flushed in smaller pieces.
    pub wal_bytes_max: u64,
    /// A manifest is rewritten once it has more than this many bytes, and is more than four times
    /// as long as when it was begun. Default: 256 KiB.
    pub manifest_bytes_min: u64,
    /// Bytes of a data block before compression. Default: 4 KiB. Raised: better compression, more
    /// bytes read per key.
    pub block_bytes: usize,
    /// Bytes of an SSTable after which the next begins. Default: 16 MiB. Raised: larger steps of
    /// compaction.
    pub sstable_bytes: u64,
    /// Bytes that level 1 may hold. Each deeper level may hold `level_ratio` times as much as the
    /// level above it. Above the deepest level in use, a level is limited further: to the size of
    /// the deepest one, divided by `level_ratio` for each level down to it, but never to fewer
    /// bytes than this. Default: 64 MiB.
    pub level_bytes_base: u64,
    /// Ratio of the size of a level to the size of the level above it. Default: 10. Raised: fewer
    /// levels, more write amplification.
    pub level_ratio: u64,
    /// Number of SSTables in level 0 at which they are compacted. While hardly anything is written,
    /// fewer suffice. Default: 8. Raised: slower reads, less write amplification.
    pub level0_files_max: usize,
    /// Number of SSTables in level 0 at which writers wait for compaction; more than
    /// `level0_files_max`. Default: 24.
    pub level0_files_stop: usize,
    /// Values of at least this many bytes go to the value log. Default: 32 KiB. Raised: compaction
    /// rewrites more bytes.
    pub value_bytes_separated: usize,
    /// Bytes of a chunk in the value log, the unit of its checksums. Default: 256 KiB less the 12
    /// bytes of the chunk's header: full chunks of a streamed value then begin on whole pages, and
    /// a dump finds the next chunk there after a damaged one. Raised: a read of a small part reads
    /// more.
    pub value_chunk_bytes: usize,
    /// Bytes of a value-log segment after which the next begins, at most `reserve_bytes`. Default:
    /// 64 MiB. Raised: space is freed later.
    pub value_segment_bytes: u64,
    /// Bytes that puts leave free on the disk, or under the limit of a store in memory, so that
    /// deletions can be flushed, merged and collected; at most a sixteenth of the total. Default:
    /// 64 MiB. Raised: puts are refused sooner. Lowered: a full store may lack the space that
    /// freeing space takes.
    pub reserve_bytes: u64,
    /// Maximum number of bytes that the directory may take; puts beyond it are refused as on a full
    /// disk, with the same reserve. Default: no limit. Files kept for snapshots and checkpoints
    /// count while they are in the directory.
    pub quota_bytes: Option<u64>,
    /// Milliseconds after which a change is synced in the background at durability `Process`.
    /// Default: 50. If syncs take longer, writes wait once the age of the oldest unsynced change
    /// reaches four times this value (or 20 ms, if that is longer). So a power cut loses no older
    /// change. Raised: a power cut loses more. Lowered: more syncs, and writers wait for them on a
    /// slow disk.
    pub sync_milliseconds: u64,
    /// Seconds after which a memtable that hides older data is flushed, so that the space of that
    /// data can be freed. Default: 10.
    pub memtable_seconds_max: u64,
    /// Whether background work merges SSTables, and rewrites value-log segments, that existed when
    /// the store was opened (inherited files). Default: true. Use false for copies that share files
    /// with each other: each copy would take the time and the space of the same merges. With false,
    /// a merge includes at most four bytes of inherited SSTables for each byte of newer SSTables.
    /// The limit does not apply if writers would have to wait, or if a quota is nearly used up.
    /// SSTables are not joined only to speed up reads, which stay as fast as in the source.
    /// Inherited value-log segments are rewritten only if a quota is nearly used up.
    pub merges_inherited: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            durability: Durability::Process,
            memtable_bytes_max: 16 << 20,
            memory_bytes_max: 64 << 20,
            cache_bytes_max: 64 << 20,
            open_files_max: 256,
            wal_segment_bytes: 8 << 20,
            wal_bytes_max: 128 << 20,
            manifest_bytes_min: 256 << 10,
            block_bytes: 4 << 10,
            sstable_bytes: 16 << 20,
            level_bytes_base: 64 << 20,
            level_ratio: 10,
            level0_files_max: 8,
            level0_files_stop: 24,
            value_bytes_separated: 32 << 10,
            value_chunk_bytes: (256 << 10) - CHUNK_HEADER_BYTES,
            value_segment_bytes: 64 << 20,
            reserve_bytes: 64 << 20,
            quota_bytes: None,
            sync_milliseconds: 50,
            memtable_seconds_max: 10,
            merges_inherited: true,
        }
    }
}

impl Config {
    /// Refuses settings that cannot work: sizes of zero, sizes beyond the limits of the formats,
    /// and limits that would make writers wait for ever. [`crate::Db::open`] calls this first.
    /// Errors: `InvalidOption`.
    pub fn check(&self) -> Result<()> {
        self.check_not_zero()?;
        check_memtable(self.memtable_bytes_max)?;
        check_block(self.block_bytes)?;
        check_sstable(self.sstable_bytes)?;
        let segment_bytes = self.wal_segment_bytes as u64;
        let chunk_bytes = self.value_chunk_bytes as u64;
        check_bounds(
            "wal_segment_bytes",
            segment_bytes,
            1..=WAL_SEGMENT_BYTES_MAX,
        )?;
        check_bounds("value_chunk_bytes", chunk_bytes, 1..=CHUNK_BYTES_MAX)?;
        check_bounds(
            "value_segment_bytes",
            self.value_segment_bytes,
            1..=FILE_BYTES_MAX,
        )?;
        check_bounds("level_ratio", self.level_ratio, 2..=u64::MAX)?;
        self.check_level0()
    }

    fn check_not_zero(&self) -> Result<()> {
        for (option, value) in [
            ("memory_bytes_max", self.memory_bytes_max as u64),
            ("level_bytes_base", self.level_bytes_base),
            ("level0_files_max", self.level0_files_max as u64),
            ("sync_milliseconds", self.sync_milliseconds),
            ("open_files_max", self.open_files_max as u64),
            ("wal_bytes_max", self.wal_bytes_max),
            ("quota_bytes", self.quota_bytes.unwrap_or(1)),
            // 0 would separate empty values, but a value without bytes has no chunk to lie in.
            ("value_bytes_separated", self.value_bytes_separated as u64),
        ] {
            check_bounds(option, value, 1..=u64::MAX)?;
        }
        Ok(())
    }

    fn check_level0(&self) -> Result<()> {
        let (files_max, stop) = (self.level0_files_max, self.level0_files_stop);
        if stop > files_max {
            return Ok(());
        }
        Err(Error::InvalidOption {
            option: "level0_files_stop",
            value: stop as u64,
            reason: format!(
                "it must be more than level0_files_max ({files_max}), or writers would wait for a compaction that never begins"
            ),
        })
    }
}

fn check_memtable(bytes: usize) -> Result<()> {
    check_bounds("memtable_bytes_max", bytes as u64, 1..=MEMTABLE_BYTES_MAX)
}

fn check_block(bytes: usize) -> Result<()> {
    check_bounds("block_bytes", bytes as u64, 1..=BLOCK_BYTES_MAX)
}

fn check_sstable(bytes: u64) -> Result<()> {
    check_bounds("sstable_bytes", bytes, 1..=FILE_BYTES_MAX)
}

fn check_bounds(option: &'static str, value: u64, bounds: RangeInclusive<u64>) -> Result<()> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let reason = match *bounds.end() {
        u64::MAX => format!("it must be at least {}", bounds.start()),
        end => format!("it must be from {} to {end}", bounds.start()),
    };
    Err(Error::InvalidOption {
        option,
        value,
        reason,
    })
}

/// The threads that run flushes, compactions, collections and syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Four of the engine's own threads for each store: one each for flushes, for compaction, for
    /// syncs of the log and for syncs of the value log. A store in memory has no threads for syncs.
    /// A large merge runs in parts on up to three more threads, at most one part for each
    /// processor.
    Threads,
    /// Two threads: one for flushes and compaction, one for syncs, which a store in memory lacks.
    /// For processes that open very many stores. A flush may wait for a running merge, and writers
    /// for the flush.
    FewThreads,
    /// The caller, one `Db::step` at a time. A writer that would have to wait for a job runs it
    /// itself. Feature `testing`.
    #[cfg(any(test, feature = "testing"))]
    Stepped,
}

impl Background {
    /// Whether the caller runs the background work, one step at a time.
    pub(crate) fn is_stepped(self) -> bool {
        !matches!(self, Background::Threads | Background::FewThreads)
    }
}

/// How the data blocks of SSTables are compressed. A block that would hardly become smaller is
/// stored as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are stored uncompressed.
    None = 0,
    /// Zstandard: the smallest blocks.
    Zstd = 1,
    /// LZ4: larger blocks than `Zstd`, but faster to compress and to decompress.
    Lz4 = 2,
}

/// Settings of one keyspace, given when it is opened; while it is open, a second opening does not
/// change them. `None`: the value of [`Config`] if it has the option, otherwise the default below.
/// Background work before the keyspace is opened uses the values for `None`.
#[derive(Debug, Clone, Default)]
pub struct KeyspaceOptions {
    /// Bytes of the keyspace's memtable after which it is sealed. Lowered: a keyspace that is
    /// seldom written takes less memory.
    pub memtable_bytes_max: Option<usize>,
    /// Bytes of a data block before compression. Raised: better for long scans; lowered: better for
    /// single rows.
    pub block_bytes: Option<usize>,
    /// Bytes of an SSTable after which the next begins. Lower it for rows that are written and
    /// deleted in few places of the key order (a queue): merges then rewrite fewer rows around
    /// these places.
    pub sstable_bytes: Option<u64>,
    /// Percentage of tombstones among the entries of an SSTable at which it is compacted although
    /// its level is not full. Default: 50. Lowered: scans pass fewer tombstones, and compaction
    /// rewrites more. Raise it for rows that no scan passes over (a queue whose readers know where
    /// its head is).
    pub tombstone_percent_max: Option<u64>,
    /// How the data blocks of its SSTables are compressed. Default: LZ4 in a flush, because writers
    /// may wait for it, and zstd in a merge. Choose [`Compression::Lz4`] for rows that are deleted
    /// soon after they are written, or that are often read without being cached: it takes less
    /// processor time in merges and in reads that miss the cache, but makes the files larger.
    pub compression: Option<Compression>,
}

impl KeyspaceOptions {
    /// Checks the options that are set. Errors: as [`Config::check`].
    pub(crate) fn check(&self) -> Result<()> {
        self.memtable_bytes_max.map_or(Ok(()), check_memtable)?;
        self.block_bytes.map_or(Ok(()), check_block)?;
        self.sstable_bytes.map_or(Ok(()), check_sstable)?;
        self.tombstone_percent_max.map_or(Ok(()), |percent| {
            check_bounds("tombstone_percent_max", percent, 1..=100)
        })
    }
}

//! RocksDB, tuned as users tune it for such work: four memtables, two background jobs, 4 KiB blocks
//! with a hash index, bloom filters of 10 bits, HyperClockCache with index and filters inside,
//! dynamic level sizes, LZ4 below level 1; values from 4 KiB up in blob files, with LZ4 and garbage
//! collection.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ChecksumType, DB, DBCompressionType, DataBlockIndexType, Options,
    ReadOptions, WriteBatch, WriteOptions,
};

use lazurite_bench_common::Outcome;

use crate::engine::{Engine, Row, Setup};

const LEVELS: usize = 7;

/// An open database.
pub(super) struct Rocksdb {
    db: DB,
    put: WriteOptions,
    unsynced: WriteOptions,
}

impl Rocksdb {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Outcome<Rocksdb> {
        let mut put = WriteOptions::default();
        put.set_sync(setup.is_synced);
        Ok(Rocksdb {
            db: DB::open(&options(setup), directory)?,
            put,
            unsynced: WriteOptions::default(),
        })
    }
}

fn options(setup: &Setup) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(setup.memtable_bytes);
    options.set_max_write_buffer_number(4);
    options.set_max_background_jobs(2);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_bytes_per_sync(1 << 20);
    let mut compression = [DBCompressionType::Lz4; LEVELS];
    compression[..2].fill(DBCompressionType::None);
    options.set_compression_per_level(&compression);
    options.set_block_based_table_factory(&blocks(setup));
    if setup.has_large_values {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(4096);
        options.set_blob_compression_type(DBCompressionType::Lz4);
        options.set_enable_blob_gc(true);
    }
    options
}

fn blocks(setup: &Setup) -> BlockBasedOptions {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(4096);
    blocks.set_format_version(6);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    blocks.set_checksum_type(ChecksumType::XXH3);
    blocks.set_block_cache(&Cache::new_hyper_clock_cache(setup.cache_bytes, 0));
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks
}

impl Engine for Rocksdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.db.put_opt(key, value, &self.put)?)
    }

    fn put_many(&self, rows: &[Row]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        rows.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.db.write_opt(batch, &self.unsynced)?)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        Ok(self.db.delete_opt(key, &self.unsynced)?)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(start, end);
        Ok(self.db.write_opt(batch, &self.unsynced)?)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.db.get_pinned(key)?;
        Ok(value.inspect(|value| see(value)).is_some())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(end);
        let mut rows = self.db.raw_iterator_opt(options);
        rows.seek(start);
        while let Some((key, value)) = rows.item() {
            if !see(key, value) {
                return Ok(());
            }
            rows.next();
        }
        Ok(rows.status()?)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.db.flush()?)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.db.flush_wal(true)?;
        drop(self);
        Ok(())
    }
}

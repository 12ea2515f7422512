//! Settings: random options of a store, mostly absurdly small ones, so that minutes of testing
//! cover hours of use.

use crate::model::KEYSPACES;
use lazurite_engine::Choices;
use lazurite_engine::{Compression, Config, Durability, KeyspaceOptions};

/// Least length at which a value of a batch may go to the value log.
pub const VALUE_BYTES_SEPARATED_MIN: u32 = 40;

/// Options for a store at that durability.
pub fn config(choices: &mut Choices, durability: Durability) -> Config {
    // Sometimes sizes close to those of a small server: then each file holds more, and many frames
    // share a segment.
    let times = if choices.one_in(5) {
        1 << choices.below(7)
    } else {
        1
    };
    Config {
        durability,
        memtable_bytes_max: times << (9 + choices.below(7)),
        memory_bytes_max: times << (14 + choices.below(5)),
        cache_bytes_max: 1 << (8 + choices.below(12)),
        open_files_max: 1 + choices.index(8),
        wal_segment_bytes: times << (9 + choices.below(7)),
        wal_bytes_max: (times as u64) << (12 + choices.below(6)),
        manifest_bytes_min: 1 << (9 + choices.below(6)),
        block_bytes: 1 << (5 + choices.below(7)),
        sstable_bytes: 1 << (9 + choices.below(6)),
        level_bytes_base: 1 << (10 + choices.below(6)),
        level_ratio: 2 + choices.below(5),
        level0_files_max: 1 + choices.index(5),
        level0_files_stop: 6 + choices.index(10),
        value_bytes_separated: VALUE_BYTES_SEPARATED_MIN as usize + choices.index(200),
        value_chunk_bytes: 16 + choices.index(200),
        value_segment_bytes: (times as u64) << (9 + choices.below(6)),
        sync_milliseconds: 1 + choices.below(50),
        memtable_seconds_max: choices.pick(&[0, 1, 10]),
        merges_inherited: !choices.one_in(3),
        ..Config::default()
    }
}

/// The durability of a store that outlives its process.
pub fn durability(choices: &mut Choices) -> Durability {
    choices.pick(&[Durability::Process, Durability::Disk])
}

/// The options of a keyspace, which differ from keyspace to keyspace.
pub fn keyspace_options(config: &Config, index: usize) -> KeyspaceOptions {
    let is_last = index + 1 == KEYSPACES.len();
    KeyspaceOptions {
        memtable_bytes_max: (index == 1).then_some(config.memtable_bytes_max / 2),
        block_bytes: is_last.then_some(config.block_bytes * 2),
        sstable_bytes: is_last.then_some(config.sstable_bytes * 2),
        tombstone_percent_max: is_last.then_some(10),
        compression: is_last.then_some(Compression::Lz4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_within_its_bounds() {
        for seed in 0..1000 {
            let mut choices = Choices::new(seed);
            let durability = durability(&mut choices);
            config(&mut choices, durability).check().unwrap();
        }
    }
}

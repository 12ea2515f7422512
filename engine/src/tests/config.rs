//! Settings that cannot work are refused, by each way to open a store.

use crate::{Config, Durability, Environment, Error, KeyspaceOptions};

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    Config::default().check().unwrap();
    type Change = fn(&mut Config);
    let wrong: [(&str, Change); 16] = [
        ("memtable_bytes_max", |config| config.memtable_bytes_max = 0),
        ("memtable_bytes_max", |config| {
            config.memtable_bytes_max = usize::MAX;
        }),
        ("wal_segment_bytes", |config| {
            config.wal_segment_bytes = (1 << 30) + 1;
        }),
        ("block_bytes", |config| config.block_bytes = 2 << 20),
        ("sstable_bytes", |config| config.sstable_bytes = 0),
        ("level_ratio", |config| config.level_ratio = 1),
        ("level0_files_max", |config| config.level0_files_max = 0),
        ("level0_files_stop", |config| config.level0_files_stop = 8),
        ("value_chunk_bytes", |config| {
            config.value_chunk_bytes = (16 << 20) + 1;
        }),
        ("value_segment_bytes", |config| {
            config.value_segment_bytes = 1 << 48;
        }),
        ("sync_milliseconds", |config| config.sync_milliseconds = 0),
        ("memory_bytes_max", |config| config.memory_bytes_max = 0),
        ("open_files_max", |config| config.open_files_max = 0),
        ("wal_bytes_max", |config| config.wal_bytes_max = 0),
        ("quota_bytes", |config| config.quota_bytes = Some(0)),
        ("value_bytes_separated", |config| {
            config.value_bytes_separated = 0;
        }),
    ];
    for (expected, change) in wrong {
        let mut config = Config {
            durability: Durability::Memory,
            ..Config::default()
        };
        change(&mut config);
        assert_refused(expected, &config);
    }
}

/// Asserts that each way to open a store refuses the option `expected`.
fn assert_refused(expected: &str, config: &Config) {
    let path = "/data".as_ref();
    let environment = Environment::system(Durability::Memory);
    let unread = crate::Db::verify_directory(path, config.clone(), environment).map(drop);
    let opened = crate::Db::open(path, config.clone()).map(drop);
    for refused in [unread, opened] {
        assert!(
            matches!(&refused, Err(Error::InvalidOption { option, .. }) if *option == expected),
            "{expected}: {refused:?}"
        );
    }
}

#[test]
fn refusal_of_a_setting_names_the_values_that_work() {
    let refused = |config: Config| config.check().unwrap_err().to_string();
    let open_ended = Config {
        sync_milliseconds: 0,
        ..Config::default()
    };
    assert_eq!(
        refused(open_ended),
        "sync_milliseconds cannot be 0: it must be at least 1"
    );
    let bounded = Config {
        block_bytes: 0,
        ..Config::default()
    };
    assert_eq!(
        refused(bounded),
        "block_bytes cannot be 0: it must be from 1 to 1048576"
    );
}

#[test]
fn options_of_a_keyspace_that_cannot_work_are_refused() {
    let config = Config {
        durability: Durability::Memory,
        ..Config::default()
    };
    let db = crate::Db::open("/data".as_ref(), config).unwrap();
    let options = KeyspaceOptions {
        block_bytes: Some(0),
        ..KeyspaceOptions::default()
    };
    let refused = db.keyspace("a", options).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "block_bytes cannot be 0: it must be from 1 to 1048576"
    );
}

//! The bytes on disk: golden files open, other format versions are refused, and damage to any file
//! is noticed.

mod common;

use common::{Change, DIRECTORY, Model, Store, open};
use lazurite_engine::fs::{Clock, DiskFs, Fs, Keep, MemoryFs, SystemClock};
use lazurite_engine::{
    Background, Batch, Config, CutOff, CutReason, Db, Durability, Environment, Error,
    KEY_BYTES_MAX, KeyRange, KeyspaceOptions, Result,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Files = Vec<(PathBuf, Vec<u8>)>;

fn config() -> Config {
    Config {
        durability: Durability::Disk,
        block_bytes: 128,
        wal_segment_bytes: 8 << 10,
        sstable_bytes: 2 << 10,
        level0_files_max: 100,
        level0_files_stop: 200,
        value_bytes_separated: 200,
        value_chunk_bytes: 100,
        value_segment_bytes: 500,
        ..Config::default()
    }
}

/// Returns the batches of a history that leaves files of every kind.
fn example() -> Vec<Vec<Change>> {
    let put = |keyspace, key: &str, value: &[u8]| Change::Put(keyspace, key.into(), value.to_vec());
    let mut history = Vec::new();
    for i in 0..40u8 {
        history.push(vec![
            put(0, &format!("row/{i:03}"), &[i; 20]),
            put(1, &format!("copy/{i:03}"), format!("text {i}").as_bytes()),
        ]);
    }
    history.push(vec![
        put(0, "large", &[7; 450]),
        put(1, "other large", &[8; 333]),
    ]);
    history.push(vec![Change::Delete(0, b"row/003".to_vec())]);
    history.push(vec![Change::DeleteRange(0, KeyRange::prefix(b"row/01"))]);
    history.push(vec![
        put(2, "after", b"the flush"),
        put(0, "row/001", b"again"),
    ]);
    history.push(vec![put(0, "large", &[9; 250])]);
    history.push(vec![put(2, "last", b"batch")]);
    history
}

/// Writes the history with flushes, a compaction, and a last flush after the deletions, so that
/// some of it is in SSTables of two levels and some in the log.
fn write_example(fs: &MemoryFs, durability: Durability) -> (Store, Vec<Model>) {
    let config = Config {
        durability,
        ..config()
    };
    let store = open(Arc::new(fs.clone()), &config).unwrap();
    let mut models = vec![Model::default()];
    for (index, changes) in example().into_iter().enumerate() {
        store.write(&changes).unwrap();
        let mut model = models[index].clone();
        model.apply(&changes);
        models.push(model);
        match index {
            10 | 20 => store.db.flush(&store.keyspaces[0]).unwrap(),
            30 => store.db.compact(&store.keyspaces[0]).unwrap(),
            42 => store
                .keyspaces
                .iter()
                .for_each(|keyspace| store.db.flush(keyspace).unwrap()),
            _ => {}
        }
    }
    (store, models)
}

/// The files of a store that was closed, and of one whose process died; and what both hold.
fn examples() -> (Files, Files, Vec<Model>) {
    let fs = MemoryFs::crashable();
    let (store, models) = write_example(&fs, Durability::Disk);
    let unclean = fs.crash(1, Keep::Everything).files();
    store.db.close().unwrap();
    (fs.files(), unclean, models)
}

fn fs_of(files: &Files) -> MemoryFs {
    let fs = MemoryFs::volatile();
    fs.create_directory(Path::new(DIRECTORY)).unwrap();
    for (path, bytes) in files {
        fs.create(path).unwrap().write_at(bytes, 0).unwrap();
    }
    fs
}

/// Whether a verification finds fault with the files. It changes none of them.
fn is_damaged(files: &Files) -> bool {
    let fs = fs_of(files);
    let environment = common::environment(Arc::new(fs.clone()));
    let verified = Db::verify_directory(Path::new(DIRECTORY), config(), environment);
    let after = fs.files();
    let unchanged = files.iter().all(|file| after.contains(file));
    assert!(unchanged, "a verification changes nothing");
    verified.map_or(true, |verified| !verified.damages.is_empty())
}

/// Opens the files and reads everything, once all at once and then key by key.
fn read(files: &Files, models: &[Model], context: &str) -> Result<()> {
    let store = open(Arc::new(fs_of(files)), &config())?;
    let last = &models[models.len() - 1];
    // A read of a single key must also give the right value or an error.
    for (keyspace, map) in last.maps.iter().enumerate() {
        for key in map.keys() {
            let found = store.db.get(&store.keyspaces[keyspace], key);
            let right = |found: &Option<bytes::Bytes>| {
                models.iter().any(|model| {
                    model.maps[keyspace].get(key).map(|value| &value[..]) == found.as_deref()
                })
            };
            if let Ok(found) = &found {
                assert!(
                    right(found),
                    "{context}: wrong value of {:?}",
                    String::from_utf8_lossy(key)
                );
            }
        }
    }
    let found = store.dump()?;
    assert!(
        models.contains(&found),
        "{context}: the store is wrong, and no check found it"
    );
    Ok(())
}

/// Reads the files. An error must be a refusal that names a file.
fn check_damaged(files: &Files, models: &[Model], context: &str) {
    match read(files, models, context) {
        Ok(()) | Err(Error::Corrupt { .. } | Error::UnknownFormat { .. }) => {}
        Err(other) => panic!("{context}: {other}"),
    }
}

/// Damages each file in every way. `models` are the states that may be found, `cut` those that a
/// shortened log may leave.
fn damage_everything(files: &Files, models: &[Model], cut: &[Model]) {
    for index in 0..files.len() {
        let name = files[index].0.display().to_string();
        let mut damaged = files.clone();
        for offset in 0..files[index].1.len() {
            let bit = 1 << (offset % 8);
            damaged[index].1[offset] ^= bit;
            check_damaged(
                &damaged,
                models,
                &format!("{name}: bit {bit} of byte {offset} flipped"),
            );
            damaged[index].1[offset] ^= bit;
        }
        for start in (0..files[index].1.len()).step_by(64) {
            let mut damaged = files.clone();
            damaged[index].1.truncate(start);
            let after_cut = if name.ends_with(".wal") { cut } else { models };
            check_damaged(&damaged, after_cut, &format!("{name}: cut at {start}"));
            let mut damaged = files.clone();
            damaged[index].1[start..]
                .iter_mut()
                .take(64)
                .for_each(|byte| *byte = 0);
            check_damaged(&damaged, after_cut, &format!("{name}: zeros at {start}"));
        }
        let mut damaged = files.clone();
        damaged.remove(index);
        check_damaged(&damaged, models, &format!("{name}: removed"));
    }
}

#[test]
fn damage_to_a_closed_store_is_noticed() {
    let (clean, _, models) = examples();
    read(&clean, &models[models.len() - 1..], "whole").unwrap();
    damage_everything(&clean, &models[models.len() - 1..], &[]);
}

#[test]
fn a_verification_finds_any_flipped_bit_of_a_closed_store_and_changes_nothing() {
    let (clean, unclean, _) = examples();
    assert!(!is_damaged(&clean) && !is_damaged(&unclean));
    let names = |path: &Path| !path.ends_with("LOCK");
    for (index, (path, bytes)) in clean.iter().enumerate().filter(|(_, file)| names(&file.0)) {
        for offset in 0..bytes.len() {
            let mut damaged = clean.clone();
            damaged[index].1[offset] ^= 1 << (offset % 8);
            assert!(is_damaged(&damaged), "{}: byte {offset}", path.display());
        }
    }
}

#[test]
fn a_verification_reports_every_damaged_place_with_file_and_offset() {
    let (clean, ..) = examples();
    let (killed, _) = killed_at_rest(Durability::Disk);
    // Each offset is that of the first unit after the header, or of the first batch of the log.
    for (mut files, kind, unit) in [
        (clean.clone(), "sst", 48),
        (clean, "vlog", 48),
        (killed, "wal", 96),
    ] {
        let mut expected = Vec::new();
        for (path, bytes) in &mut files {
            if path.extension().is_some_and(|found| found == kind) {
                bytes[unit + 13] ^= 1;
                expected.push((path.clone(), unit as u64));
            }
        }
        let environment = common::environment(Arc::new(fs_of(&files)));
        let verified = Db::verify_directory(Path::new(DIRECTORY), config(), environment);
        let named = |damage: &Error| match damage {
            Error::Corrupt { path, offset, .. } => (path.clone(), *offset),
            other => panic!("{other}"),
        };
        let found: Vec<_> = verified.unwrap().damages.iter().map(named).collect();
        assert!(!expected.is_empty(), "{kind}");
        for place in expected {
            assert!(found.contains(&place), "{place:?} in {found:?}");
        }
    }
}

#[test]
fn damage_to_a_store_that_was_not_closed_is_noticed_but_for_its_last_batch() {
    let (_, unclean, models) = examples();
    read(&unclean, &models[models.len() - 1..], "whole").unwrap();
    // The flush after change 42 made everything before it durable; a log that is cut after that
    // point looks torn.
    damage_everything(&unclean, &models[models.len() - 2..], &models[43..]);
}

/// The files of a store that was killed after it came to rest, and what it holds.
fn killed_at_rest(durability: Durability) -> (Files, Model) {
    let fs = MemoryFs::crashable();
    let (store, models) = write_example(&fs, durability);
    store.db.sync().unwrap();
    let killed = fs.crash(1, Keep::Everything).files();
    (killed, models[models.len() - 1].clone())
}

#[test]
fn damage_to_a_store_that_was_killed_at_rest_is_never_answered_with_older_content() {
    for durability in [Durability::Process, Durability::Disk] {
        let (killed, last) = killed_at_rest(durability);
        let last = [last];
        read(&killed, &last, "whole").unwrap();
        damage_everything(&killed, &last, &last);
    }
}

#[test]
fn damage_before_the_end_of_a_durable_log_names_the_segment_and_the_record() {
    let (killed, _) = killed_at_rest(Durability::Process);
    let index = killed.iter().position(|(path, bytes)| {
        path.extension().is_some_and(|kind| kind == "wal") && holds(bytes, b"batch")
    });
    let index = index.unwrap();
    let (path, bytes) = &killed[index];
    let value = bytes.windows(5).position(|window| window == b"batch");
    // Before the value are a header of 16 bytes, the tag, keyspace, length, "last", and length.
    let record = value.unwrap() - 16 - 8;
    let damages: [fn(&mut Vec<u8>, usize); 3] = [
        |bytes, at| bytes[at] ^= 1,
        |bytes, at| bytes[at..].fill(0),
        |bytes, at| bytes.truncate(at),
    ];
    for damage in damages {
        let mut damaged = killed.clone();
        damage(&mut damaged[index].1, value.unwrap());
        match open(Arc::new(fs_of(&damaged)), &config()) {
            Err(Error::Corrupt {
                path: named,
                offset,
                ..
            }) => assert_eq!((&named, offset), (path, record as u64)),
            other => panic!("{other:?}"),
        }
        assert!(is_damaged(&damaged));
    }
}

#[test]
fn a_store_comes_to_rest_by_itself_and_damage_shows_from_then_on() {
    for durability in [Durability::Process, Durability::Disk] {
        let fs = MemoryFs::crashable();
        let environment = Environment {
            background: Background::Threads,
            clock: Arc::new(SystemClock::default()),
            ..common::environment(Arc::new(fs.clone()))
        };
        let config = Config {
            durability,
            ..config()
        };
        let path = Path::new(DIRECTORY);
        let store = common::open_with(path, &config, environment).unwrap();
        let put = |value: &[u8]| vec![Change::Put(0, b"key".to_vec(), value.to_vec())];
        store.write(&put(b"older")).unwrap();
        store.write(&put(b"newer")).unwrap();
        let clock = SystemClock::default();
        loop {
            let mut killed = fs.crash(1, Keep::Everything).files();
            let wal = killed.iter_mut().find(|(_, bytes)| holds(bytes, b"newer"));
            let bytes = &mut wal.unwrap().1;
            let at = bytes.windows(5).position(|window| window == b"newer");
            bytes[at.unwrap()] ^= 1;
            match open(Arc::new(fs_of(&killed)), &config) {
                Err(Error::Corrupt { .. }) => break,
                Err(other) => panic!("{other}"),
                Ok(_) => assert!(clock.now().as_secs() < 30, "{durability:?}"),
            }
            std::thread::yield_now();
        }
        store.db.close().unwrap();
    }
}

#[test]
fn a_checkpoint_takes_no_damage_for_a_torn_tail() {
    let fs = MemoryFs::crashable();
    let (store, models) = write_example(&fs, Durability::Process);
    store.db.checkpoint(Path::new("/copy")).unwrap();
    let mut copy = fs.crash(1, Keep::Everything).files();
    copy.retain(|(path, _)| path.starts_with("/copy"));
    for (path, _) in &mut copy {
        *path = Path::new(DIRECTORY).join(path.file_name().unwrap());
    }
    let last = &models[models.len() - 1..];
    read(&copy, last, "whole").unwrap();
    damage_everything(&copy, last, last);
}

/// The dump of a file, and the number of damages that it counts.
fn dumped(files: &Files, index: usize) -> (String, u64) {
    let fs: Arc<dyn Fs> = Arc::new(fs_of(files));
    let mut out = Vec::new();
    let damages = lazurite_engine::dump_file(&fs, &files[index].0, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), damages)
}

#[test]
fn a_dump_shows_every_unit_of_a_file_and_continues_behind_damage() {
    let (clean, ..) = examples();
    let (killed, _) = killed_at_rest(Durability::Process);
    let mut shown = String::new();
    for (files, is_closed) in [(&clean, true), (&killed, false)] {
        for index in 0..files.len() {
            let name = files[index].0.display().to_string();
            let (text, damages) = dumped(files, index);
            assert_eq!(damages, 0, "{name}: {text}");
            shown += &text;
            if name.ends_with("LOCK") {
                continue;
            }
            for offset in 0..files[index].1.len() {
                let mut damaged = files.clone();
                damaged[index].1[offset] ^= 1 << (offset % 8);
                let (text, damages) = dumped(&damaged, index);
                assert!(damages > 0 || !is_closed, "{name}: {offset}: {text}");
            }
        }
    }
    for unit in [
        "header: Wal, version 5, store 00000000000000000000000000000001",
        "beginning: 32 bytes, base #0, durable #0",
        "put \"last\", 5 bytes",
        "delete range \"row/01\" to \"row/02\"",
        "333 bytes in the value log: 300 in 2 at 228, 33 in 8 at 48",
        "keyspace 0 is \"a\"",
        "is durable up to",
        "the store was closed",
        "data block: ",
        "filter: 64 bytes, 64 before compression, checksum ok",
        "chunk: 100 bytes, checksum ok",
        "lazurite 5 MANIFEST-",
    ] {
        assert!(shown.contains(unit), "{unit} in {shown}");
    }
    let is_log =
        |(path, _): &(PathBuf, Vec<u8>)| path.extension().is_some_and(|kind| kind == "wal");
    let index = killed.iter().position(is_log).unwrap();
    let mut damaged = killed.clone();
    damaged[index].1[200] ^= 1;
    let (text, damages) = dumped(&damaged, index);
    assert!(
        damages == 1 && text.contains("put \"last\", 5 bytes"),
        "{text}"
    );
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_torn_tail_is_reported_with_file_offset_batches_and_bytes() {
    let opened = |files: &Files| {
        let store = open(Arc::new(fs_of(files)), &config()).unwrap();
        store.db.recovered().cut_off.clone()
    };
    for durability in [Durability::Process, Durability::Disk] {
        let fs = MemoryFs::crashable();
        let (store, _) = write_example(&fs, durability);
        let mut killed = fs.crash(1, Keep::Everything).files();
        drop(store);
        assert!(opened(&killed).is_empty(), "{durability:?}");
        let wal = killed
            .iter_mut()
            .find(|(_, bytes)| holds(bytes, b"\x04last\x05batch"));
        let (path, bytes) = wal.unwrap();
        let value = bytes.windows(5).rposition(|window| window == b"batch");
        bytes[value.unwrap()] ^= 1;
        let lost = CutOff {
            path: path.clone(),
            offset: value.unwrap() as u64 - 24,
            batches: 1,
            bytes: 29,
            reason: CutReason::TornRecord,
        };
        assert_eq!(opened(&killed), [lost]);
    }
}

/// The error of an open if the file `name` is missing.
fn error_without(files: &Files, name: &str) -> String {
    let is_gone = |path: &Path| path.ends_with(name);
    let mut files = files.clone();
    files.retain(|(path, _)| !is_gone(path));
    let opened = open(Arc::new(fs_of(&files)), &config());
    opened.unwrap_err().to_string()
}

#[test]
fn error_about_a_missing_file_has_its_contents_and_advice() {
    let (clean, ..) = examples();
    let (killed, _) = killed_at_rest(Durability::Disk);
    for files in [&clean, &killed] {
        for (path, _) in files.iter().filter(|(path, _)| !path.ends_with("LOCK")) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let error = error_without(files, name);
            let held = match name.rsplit('.').next().unwrap() {
                "sst" => "the file is missing; the file holds ",
                "vlog" => "the file is missing; the file holds large values",
                "wal" => "the file is missing; the file holds the last writes to all keyspaces",
                "CURRENT" => "nothing says which files belong to the store",
                _ => "the file lists all files of the store",
            };
            let advice = "Restore the whole directory from a backup or a checkpoint";
            for part in [&path.display().to_string(), held, advice] {
                assert!(error.contains(part), "{part} in {error}");
            }
        }
    }
    let values = error_without(&clean, "000008.vlog");
    assert!(values.contains("bytes of keyspace \"b\""), "{values}");
    let rows = error_without(&clean, "000013.sst");
    assert!(rows.contains("2 rows of keyspace \"a\""), "{rows}");
}

#[test]
fn files_of_another_store_are_refused() {
    let (clean, unclean, models) = examples();
    for (index, (path, _)) in clean.iter().enumerate() {
        if path.extension().is_none() {
            continue;
        }
        let mut mixed = clean.clone();
        // The store id is at offset 16 of every header; the checksum is made to fit.
        let foreign = with_store_id(&mixed[index].1, 99);
        mixed[index].1 = foreign;
        check_damaged(
            &mixed,
            &models[models.len() - 1..],
            &format!("{} of another store", path.display()),
        );
        assert!(
            read(&mixed, &models[models.len() - 1..], "whole").is_err(),
            "{}",
            path.display()
        );
    }
    drop(unclean);
}

fn with_store_id(bytes: &[u8], id: u128) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[16..32].copy_from_slice(&id.to_le_bytes());
    let number = u64::from_le_bytes(bytes[32..40].try_into().unwrap());
    let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..40], seed);
    bytes[40..48].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_missing_current_beside_data_is_not_an_empty_directory() {
    let (clean, ..) = examples();
    let files = clean
        .into_iter()
        .filter(|(path, _)| !path.ends_with("CURRENT"))
        .collect();
    let refused = open(Arc::new(fs_of(&files)), &config());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

/// Returns keys of the greatest length, one for each file of a compaction, with `inside` after
/// their first byte.
fn hostile_keys(inside: &[u8]) -> Vec<Vec<u8>> {
    let key = |index: u8| {
        let mut key = [&[b'a' + index], inside].concat();
        key.resize(KEY_BYTES_MAX, index + 1);
        key
    };
    (0..16).map(key).collect()
}

/// Cuts the power in the middle of a compaction's edit. Returns the files before the edit, the
/// manifest after it, and the contents of the store.
fn torn_compaction(keys: &[Vec<u8>]) -> (Files, Vec<u8>, Model) {
    let config = Config {
        sstable_bytes: 1,
        manifest_bytes_min: 64 << 20,
        ..Config::default()
    };
    let fs = MemoryFs::crashable();
    let store = open(Arc::new(fs.clone()), &config).unwrap();
    let put = |key: &Vec<u8>| Change::Put(0, key.clone(), b"value".to_vec());
    let changes: Vec<Change> = keys.iter().map(put).collect();
    store.write(&changes).unwrap();
    store.db.flush(&store.keyspaces[0]).unwrap();
    let before = fs.crash(1, Keep::Everything).files();
    store.db.compact(&store.keyspaces[0]).unwrap();
    let after = fs.crash(1, Keep::Everything).files();
    let is_manifest = |path: &Path| path.display().to_string().contains("MANIFEST");
    let (_, manifest) = after
        .into_iter()
        .find(|(path, _)| is_manifest(path))
        .unwrap();
    let mut model = Model::default();
    model.apply(&changes);
    (before, manifest, model)
}

/// Zeroes every fifth page of the compaction's edit, one at a time, and expects each store to open
/// without the edit.
fn check_torn_pages((before, manifest, model): (Files, Vec<u8>, Model)) {
    let is_manifest = |path: &Path| path.display().to_string().contains("MANIFEST");
    let index = before
        .iter()
        .position(|(path, _)| is_manifest(path))
        .unwrap();
    let first = before[index].1.len().next_multiple_of(4096);
    assert!(
        manifest.len() > first + 1_000_000,
        "{} bytes behind {first}",
        manifest.len()
    );
    for page in (first..manifest.len() - 4096).step_by(5 * 4096) {
        let mut torn = before.clone();
        torn[index].1 = manifest.clone();
        torn[index].1[page..page + 4096].fill(0);
        read(&torn, std::slice::from_ref(&model), "whole")
            .unwrap_or_else(|error| panic!("page at {page}: {error}"));
    }
}

#[test]
fn keys_that_look_like_very_many_manifest_records_do_not_keep_a_torn_store_from_opening() {
    // The beginning of a record with very many fields, the last of which hides the next beginning.
    let record = [
        &[0x7f, 0x7f, 3, 0][..],
        &[0; 8],
        &[11],
        &[8; 16],
        &[3, 0, 12],
    ]
    .concat();
    check_torn_pages(torn_compaction(&hostile_keys(&record.repeat(1000))));
}

// Golden files: one directory for each state of a store, written by the first program that had this
// format version.

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

#[allow(
    clippy::disallowed_methods,
    reason = "golden files are read as files, not as a store"
)]
fn read_golden(name: &str) -> Files {
    let entries = std::fs::read_dir(golden(name)).unwrap();
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        (Path::new(DIRECTORY).join(path.file_name().unwrap()), bytes)
    };
    entries.map(file).collect()
}

#[test]
fn golden_files_open() {
    let (.., models) = examples();
    for name in ["v5-closed", "v5-killed"] {
        let files = read_golden(name);
        read(&files, &models[models.len() - 1..], "whole")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Sets the first line of `CURRENT` to that of another format version.
fn with_version(files: &Files, version: u32) -> Files {
    let mut files = files.clone();
    let is_current = |(path, _): &&mut (PathBuf, Vec<u8>)| path.ends_with("CURRENT");
    let (_, bytes) = files.iter_mut().find(is_current).unwrap();
    let line = String::from_utf8(std::mem::take(bytes)).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let summed = format!("lazurite {version} {} {} ", words[2], words[3]);
    let sum = xxhash_rust::xxh3::xxh3_64_with_seed(summed.as_bytes(), 0);
    *bytes = format!("{summed}{sum:016x}\n").into_bytes();
    files
}

#[test]
fn a_store_of_another_format_version_is_refused_with_both_versions_and_advice() {
    let (clean, ..) = examples();
    assert_eq!(with_version(&clean, 5), clean);
    for version in [2, 3, 4, 6] {
        let refused = open(Arc::new(fs_of(&with_version(&clean, version))), &config());
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::UnknownFormat { .. }));
        let message = refused.to_string();
        for part in [
            &format!("CURRENT has format version {version}, "),
            "it reads format version 5: ",
            "export the data with the program that wrote it, or remove the directory",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }
}

/// The bytes that a line of an example in `FORMAT.md` begins with.
fn hex_at_start(line: &str) -> Vec<u8> {
    let byte = |word: &str| {
        let is_byte = word.len() == 2;
        is_byte.then(|| u8::from_str_radix(word, 16).ok())?
    };
    // Three spaces separate the bytes from their explanation.
    let bytes = line.trim_start().split("   ").next().unwrap_or_default();
    bytes.split_whitespace().map_while(byte).collect()
}

#[test]
fn hex_examples_of_the_documentation_are_in_the_golden_files() {
    let files: Vec<Vec<u8>> = ["v5-closed", "v5-killed"]
        .iter()
        .flat_map(|name| read_golden(name))
        .map(|(_, bytes)| bytes)
        .collect();
    let examples = include_str!("../FORMAT.md").split("```text\n").skip(1);
    let examples = examples.map(|rest| rest.split("```").next().unwrap());
    let mut count = 0;
    for line in examples.flat_map(str::lines) {
        let bytes = if line.starts_with("lazurite") {
            line.as_bytes().to_vec()
        } else {
            hex_at_start(line)
        };
        if bytes.len() > 1 {
            assert!(files.iter().any(|file| holds(file, &bytes)), "{line}");
            count += 1;
        }
    }
    assert!(count > 25, "{count} lines have bytes");
}

/// Writes the golden files of the current version; run by hand once per version, before its
/// release.
#[test]
#[ignore = "writes into the source tree"]
#[allow(
    clippy::disallowed_methods,
    reason = "golden files are written as files, not as a store"
)]
fn write_golden_files() {
    let (clean, ..) = examples();
    let (killed, _) = killed_at_rest(Durability::Disk);
    for (name, files) in [("v5-closed", clean), ("v5-killed", killed)] {
        std::fs::create_dir_all(golden(name)).unwrap();
        for (path, bytes) in files.iter().filter(|(path, _)| !path.ends_with("LOCK")) {
            std::fs::write(golden(name).join(path.file_name().unwrap()), bytes).unwrap();
        }
    }
}

#[test]
fn whole_chunks_of_streamed_values_lie_in_whole_pages() {
    const HEADER: usize = 12;
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        value_chunk_bytes: 2 * 4096 - HEADER,
        ..Config::default()
    };
    let db = Db::open(directory.path(), config).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let value = |length: usize| -> Vec<u8> { (0..length).map(|at| (at / 5) as u8).collect() };
    // The values between the long ones end anywhere in a page, also just before its end.
    let lengths = [30_000, 8_180, 4_000, 100_000, 4_073, 20_000, 8_179, 25_000];
    for length in lengths {
        let mut writer = db.value_writer().unwrap();
        for piece in value(length).chunks(3_000) {
            writer.write(piece).unwrap();
        }
        let mut batch = Batch::new();
        batch.put_large(&keyspace, &length.to_be_bytes(), writer.finish().unwrap());
        db.write(batch).unwrap().wait().unwrap();
    }
    for length in lengths {
        let read = db.get(&keyspace, &length.to_be_bytes()).unwrap();
        assert!(read.unwrap() == value(length), "{length} bytes");
    }
    db.close().unwrap();

    let whole_chunk = 2 * 4096 - HEADER;
    let records = value_log_records(directory.path());
    let found = records.iter().filter(|(_, length)| *length == whole_chunk);
    let places: Vec<usize> = found.map(|(at, _)| *at).collect();
    assert!(places.iter().all(|at| at % 4096 == 0), "{places:?}");
    let whole = lengths.iter().map(|length| length / whole_chunk);
    assert_eq!(places.len(), whole.sum::<usize>());
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let verified = db.verify().unwrap();
    assert_eq!(verified.damages.len(), 0);
    assert_eq!(verified.value_bytes, lengths.iter().sum::<usize>() as u64);
}

/// Returns the offsets of the records of all segments of a closed store, and the lengths of their
/// payloads. Checks that the segments contain nothing else.
fn value_log_records(directory: &Path) -> Vec<(usize, usize)> {
    let disk = DiskFs::default();
    let mut records = Vec::new();
    let names = disk.list(directory).unwrap();
    for name in names.iter().filter(|name| name.ends_with(".vlog")) {
        let file = disk.open(&directory.join(name)).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        let mut at = 48;
        while at < bytes.len() {
            let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            records.push((at, length));
            at += 12 + length;
        }
        assert_eq!(at, bytes.len());
    }
    records
}

#[test]
fn many_small_values_that_are_written_together_lie_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    // The last group takes several writes.
    let groups = [15, 5, 40, 16, 100].map(|count| vec![vec![count as u8; 4100]; count]);
    for (at, group) in groups.iter().enumerate() {
        let values: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
        let mut batch = Batch::new();
        for (index, value) in (0u32..).zip(db.write_values(&values).unwrap()) {
            batch.put_large(
                &keyspace,
                &[&[at as u8][..], &index.to_be_bytes()].concat(),
                value,
            );
        }
        db.write(batch).unwrap().wait().unwrap();
    }
    for (at, group) in groups.iter().enumerate() {
        for (index, value) in (0u32..).zip(group) {
            let key = [&[at as u8][..], &index.to_be_bytes()].concat();
            assert_eq!(db.get(&keyspace, &key).unwrap().unwrap(), value[..]);
        }
    }
    db.close().unwrap();
    let records = value_log_records(directory.path());
    assert_eq!(records.len(), 176);
    assert!(records.iter().all(|(_, length)| *length == 4100));
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let verified = db.verify().unwrap();
    assert_eq!((verified.rows, verified.damages.len()), (176, 0));
}

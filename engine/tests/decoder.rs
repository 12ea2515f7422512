//! Checks that FORMAT.md is enough to read a store: `decoder/decode.py`, which was written from
//! FORMAT.md alone, reads directories of closed stores and of killed processes, and finds every
//! row.

#![cfg(target_os = "linux")]

mod common;

use common::{Change, KEYSPACES, Model, Store, open, random_changes, tiny_config};
use lazurite_engine::fs::{Keep, MemoryFs};
use lazurite_engine::{Choices, Config, Durability};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Parts of the format that the decoder must have met, in all of the directories together.
const PARTS: [&str; 8] = [
    "zstd",
    "lz4",
    "partitioned indexes",
    "range tombstones",
    "extents",
    "log segments",
    "changes of the log",
    "values moved since the log",
];

/// Writes random batches, with background work in between.
fn write(store: &Store, choices: &mut Choices) -> Model {
    let mut model = Model::default();
    for number in 0..400 {
        let mut changes = random_changes(choices);
        // Many of these values in a block compress well.
        let (keyspace, key) = (choices.below(3) as usize, [choices.next().to_le_bytes()]);
        changes.push(Change::Put(keyspace, key.concat(), vec![number as u8; 40]));
        store.write(&changes).unwrap();
        model.apply(&changes);
        if choices.one_in(3) {
            store.db.step().unwrap();
        }
        if choices.one_in(60) {
            let keyspace = &store.keyspaces[choices.below(3) as usize];
            store.db.compact(keyspace).unwrap();
        }
    }
    model
}

/// Copies the files of a disk in memory to a real directory.
#[allow(
    clippy::disallowed_methods,
    reason = "another program reads them as files"
)]
fn export(files: Vec<(PathBuf, Vec<u8>)>, to: &Path) {
    for (path, bytes) in files {
        std::fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
    }
}

/// The rows that the decoder prints, and how often it has met each part of the format.
fn decode(files: Vec<(PathBuf, Vec<u8>)>) -> (Model, BTreeMap<String, u64>) {
    let place = tempfile::tempdir().unwrap();
    export(files, place.path());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decoder/decode.py");
    let output = Command::new("python3")
        .arg(program)
        .arg(place.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 is needed (on Debian and Ubuntu: apt install python3)");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let rows = String::from_utf8(output.stdout).unwrap();
    let met = errors.lines().map(|line| {
        let (count, part) = line.split_once(' ').unwrap();
        (part.to_owned(), count.parse().unwrap())
    });
    (rows.lines().fold(Model::default(), add_row), met.collect())
}

fn add_row(mut model: Model, line: &str) -> Model {
    let mut fields = line.split(' ');
    let name = fields.next().unwrap();
    let [key, value] = [(); 2].map(|()| bytes_of_hex(fields.next().unwrap()));
    let keyspace = KEYSPACES.iter().position(|known| *known == name);
    model.maps[keyspace.unwrap()].insert(key, value);
    model
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let digits = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
    digits
        .map(|digits| u8::from_str_radix(digits, 16).unwrap())
        .collect()
}

#[test]
fn a_decoder_written_from_the_documentation_reads_every_row() {
    let mut met = BTreeMap::<String, u64>::new();
    for seed in 1..=4 {
        let mut choices = Choices::new(seed);
        let durability = [Durability::Process, Durability::Disk][seed as usize % 2];
        let config = Config {
            block_bytes: 64 << (2 * seed % 6),
            ..tiny_config(&mut choices, durability)
        };
        let fs = MemoryFs::crashable();
        let store = open(Arc::new(fs.clone()), &config).unwrap();
        let model = write(&store, &mut choices);
        let killed = fs.crash(seed, Keep::Everything).files();
        store.db.close().unwrap();
        drop(store);
        for (files, end) in [(killed, "killed"), (fs.files(), "closed")] {
            let (rows, parts) = decode(files);
            assert!(rows == model, "{end}, seed {seed}");
            for (part, count) in parts {
                *met.entry(part).or_default() += count;
            }
        }
    }
    let missing = PARTS.iter().find(|part| !met.contains_key(**part));
    assert_eq!(missing, None, "the decoder has only met {met:?}");
}

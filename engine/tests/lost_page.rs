//! A page of the mapped log that cannot be had fails the store instead of killing the process.
//!
//! The child is this binary once more.
#![cfg(target_os = "linux")]

use lazurite_engine::{Batch, Config, Db, Error, Keyspace, KeyspaceOptions};
use std::path::Path;
use std::process::{Command, ExitStatus};
use tempfile::TempDir;

const CHILD_DIRECTORY: &str = "LAZURITE_LOST_PAGE_IN";

/// On a file system where the log is mapped.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Runs a test of this binary in a process of its own.
fn run(child: &str, directory: &Path) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args([child, "--exact", "--ignored", "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .status()
        .unwrap()
}

fn open() -> (Db, Keyspace) {
    let directory = std::env::var_os(CHILD_DIRECTORY).unwrap();
    let db = Db::open(Path::new(&directory), Config::default()).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    put(&db, &keyspace, 0).unwrap();
    (db, keyspace)
}

fn put(db: &Db, keyspace: &Keyspace, number: u64) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.put(keyspace, &number.to_be_bytes(), &[1; 100]);
    db.write(batch)?.wait()
}

#[test]
fn a_log_that_is_cut_short_under_the_store_fails_it_and_reads_go_on() {
    let directory = directory();
    let status = run("child_whose_log_is_cut_short", directory.path());
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "the child of a_log_that_is_cut_short_under_the_store_fails_it_and_reads_go_on"]
#[allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "cuts a file behind the back of the store"
)]
fn child_whose_log_is_cut_short() {
    let (db, keyspace) = open();
    let directory = std::env::var_os(CHILD_DIRECTORY).unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "wal") {
            let log = std::fs::File::options().write(true).open(path).unwrap();
            log.set_len(0).unwrap();
        }
    }
    let refused = (1..1000).find_map(|number| put(&db, &keyspace, number).err());
    assert!(matches!(refused, Some(Error::Io { .. })), "{refused:?}");
    let failure = db.failure().unwrap().to_string();
    assert!(
        failure.contains("page of the mapped log is lost"),
        "{failure}"
    );
    let read = db.get(&keyspace, &0u64.to_be_bytes()).unwrap();
    assert_eq!(read.unwrap(), [1; 100][..]);
}

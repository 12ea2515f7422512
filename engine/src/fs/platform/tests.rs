//! Tests of files on disk, as Linux keeps them.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the tests look at the files that the seam makes"
)]

use crate::fs::{DiskFs, Fs, LogWrites};
use std::fs;
use std::path::Path;

#[test]
fn files_of_a_store_are_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/data");
    let db = crate::Db::open(&path, crate::Config::default()).unwrap();
    let keyspace = db.keyspace("a", Default::default()).unwrap();
    let mut batch = crate::Batch::new();
    batch.put(&keyspace, b"small", b"value");
    batch.put(&keyspace, b"large", &[1; 100_000]);
    db.write(batch).unwrap().wait().unwrap();
    db.flush(&keyspace).unwrap();
    db.checkpoint(&directory.path().join("copy")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for created in ["new", "new/data", "copy"] {
        assert_eq!(mode(&directory.path().join(created)), 0o700, "{created}");
    }
    let mut kinds = std::collections::BTreeSet::new();
    for entry in fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        let kind = file
            .extension()
            .or(file.file_name())
            .map(|kind| kind.to_owned());
        kinds.extend(kind);
    }
    assert!(kinds.len() >= 6, "{kinds:?}");
}

#[test]
fn a_lock_file_that_is_a_symbolic_link_is_refused_and_its_target_is_unharmed() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    fs::write(&other, "precious").unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink(&other, data.join("LOCK")).unwrap();
    let opened = crate::Db::open(&data, crate::Config::default());
    assert!(matches!(opened, Err(crate::Error::Io { .. })), "{opened:?}");
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
}

#[test]
fn a_log_that_grows_keeps_its_contents() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut expected = Vec::new();
    for length in [5_000, 40_000, 100_000] {
        let fs = DiskFs::default();
        let file = fs.open_log(&path, length, LogWrites::AtOnce).unwrap();
        expected.resize(length as usize, 0);
        let mut bytes = vec![1; expected.len()];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        assert!(bytes == expected, "{length} bytes long");
        let end = expected.len() - 10;
        expected[end..].fill(7);
        file.write_at(&expected[end..], end as u64).unwrap();
    }
}

//! Renames of directories: paths that become longer than new ones may be, and merges of layers that
//! are under way below a directory.

use super::path_tests::lake;
use super::tests::*;
use crate::*;
use lazurite_engine::{Direction, KeyRange};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A path of this many segments of 15 characters.
fn deep(name: char, segments: usize) -> String {
    vec![name.to_string().repeat(15); segments].join("/")
}

#[test]
fn paths_below_a_renamed_directory_may_be_longer_than_new_ones() {
    let store = lake();
    let (top, below) = (deep('t', 35), deep('b', 34));
    store.put(&format!("{below}/file"), b"deep").unwrap();
    store.create_at(PathKind::Directory, &top).unwrap();
    let first = below.split('/').next().unwrap();
    store.rename(first, &format!("{top}/{first}")).unwrap();
    let file = format!("{top}/{below}/file");
    assert!(file.len() > 1100 && file.split('/').count() == 70);
    assert_eq!(store.read(&file).unwrap(), b"deep");
    store.put(&file, b"again").unwrap();
    store.append_at(&file, 5, b"!").unwrap();
    store.flush_at(&file, 6, false).unwrap();
    assert_eq!(store.read(&file).unwrap(), b"again!");
    for page in [1, 7, 5000] {
        let request = ListPaths {
            directory: top.clone(),
            recursive: true,
            ..ListPaths::default()
        };
        let paths = store.paths(&request, page).unwrap();
        assert_eq!((paths.len(), paths.last()), (35, Some(&file)));
    }
    let inner = ListPaths {
        directory: format!("{top}/{below}"),
        ..ListPaths::default()
    };
    assert_eq!(store.paths(&inner, 10).unwrap(), [&file[..]]);
    let long = |result: Result<Written>| assert_err!(result, Error::OutOfRangeInput { .. });
    long(
        store
            .put(&format!("{file}-2"), b"")
            .map(|outcome| outcome.written),
    );
    long(store.create_at(PathKind::File, &format!("{file}-2")));
    long(store.rename(&file, &format!("{file}-2")));
    assert_err!(store.read(&format!("{file}-2")), Error::BlobNotFound);
    store.rename(&file, "short").unwrap();
    long(store.rename("short", &file));
    store.delete_at("short", false).unwrap();
    store.delete_at(&format!("{top}/{below}"), false).unwrap();
    store.delete_at(&format!("{top}/{first}"), true).unwrap();
    assert!(store.read(&"x/".repeat(1025)).is_err());
}

#[test]
fn the_limits_of_new_paths_are_exact() {
    let store = lake();
    let units = |count: usize| format!("{}/{}", "a".repeat(500), "b".repeat(count - 501));
    store.create_at(PathKind::File, &units(1024)).unwrap();
    let slashes = format!("//{}//", units(1024));
    store.create_at(PathKind::File, &slashes).unwrap();
    let longer = store.create_at(PathKind::File, &units(1025));
    assert_err!(longer, Error::OutOfRangeInput { .. });
    let segments = |count| vec!["c"; count].join("/");
    store.create_at(PathKind::File, &segments(63)).unwrap();
    let more = store.create_at(PathKind::File, &format!("d/{}", segments(63)));
    assert_err!(more, Error::OutOfRangeInput { .. });
}

#[test]
fn a_merge_below_a_directory_that_moves_to_another_container_leaves_nothing() {
    let store = lake();
    let second = |blob| BlobAddress {
        container: "second",
        ..address(blob)
    };
    let settings = ContainerSettings {
        hierarchical: true,
        ..ContainerSettings::default()
    };
    let made = store.create_container_with(ACCOUNT, "second", settings);
    made.unwrap().1.wait().unwrap();
    let merges = || {
        let snapshot = store.service.db.snapshot();
        let merges = &store.service.keyspaces.merges;
        let mut rows = snapshot.scan(merges, KeyRange::all(), Direction::Forward);
        let mut keys = Vec::new();
        while rows.advance().unwrap() {
            keys.push(rows.key().to_vec());
        }
        keys
    };
    store.put_append_blob("d/log");
    let (mut all, mut snapshots) = (Vec::new(), Vec::new());
    for number in 0..24 {
        let body = vec![number; 300 << 10];
        store.append("d/log", &body).unwrap();
        all.extend(body);
        snapshots.push(store.snapshot("d/log").unwrap());
    }
    while merges().is_empty() {
        assert_eq!(store.at(at(9)).sweep(1).unwrap().steps, 1);
    }
    // Snapshots do not move to another container.
    for moment in snapshots {
        let state = BlobState::Snapshot(moment);
        let deleted = store.delete_with("d/log", state, DeleteBlob::default());
        deleted.unwrap();
    }
    assert!(!merges().is_empty());
    let renamed = store.rename_path(&address("d"), &second("d"), &RenamePath::default());
    renamed.unwrap().1.wait().unwrap();
    assert!(merges().is_empty());
    let swept = store.at(at(9)).sweep(100_000).unwrap();
    assert!(swept.failures.is_empty(), "{:?}", swept.failures);
    assert!(merges().is_empty());
    let body = store.get_blob(&second("d/log"), None, &Conditions::default());
    assert!(drain(body.unwrap().body, 1 << 20) == all);
}

#[test]
fn a_row_that_an_operation_holds_is_swept_soon_and_is_no_failure() {
    let store = lake();
    store.put("d/f", b"1").unwrap();
    let id = store.properties("d").unwrap().directory().unwrap();
    let service = &store.service;
    let key = keys::container(ACCOUNT, CONTAINER);
    let home = service.keyspaces.container(&service.db, &key).unwrap().id;
    store.delete_at("d", true).unwrap();
    let row = keys::blob(home, &directory::stored_name(id, "f"));
    store.at(at(9));
    let (locks, is_locked) = channel();
    let (releases, is_released) = channel::<()>();
    let (sweeps, is_swept) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut held = service.db.begin().unwrap();
            held.lock([(&service.keyspaces.blobs, &row[..])]).unwrap();
            locks.send(()).unwrap();
            is_released.recv().unwrap_err();
        });
        is_locked.recv().unwrap();
        scope.spawn(move || sweeps.send(service.sweep(100).unwrap()).unwrap());
        // By the order of the locks, which is random, the sweep puts the row off or waits for it.
        let early = is_swept.recv_timeout(Duration::from_millis(300)).ok();
        if early.is_some() {
            assert_eq!(store.filed(), (0, 1));
        }
        drop(releases);
        let swept = early.unwrap_or_else(|| is_swept.recv().unwrap());
        assert!(swept.failures.is_empty(), "{:?}", swept.failures);
    });
    store.at(at(11)).sweep(100).unwrap();
    assert_eq!(store.filed(), (0, 0));
}

//! Trimming: contents that no list names are removed, whatever number of records share their file.

use crate::operations::kept_tests::{keeping, soft_delete, versions};
use crate::operations::tests::*;
use crate::*;
use std::collections::{BTreeMap, BTreeSet};

const IDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn put_blocks(store: &Store, name: &str) {
    for (number, id) in IDS.iter().enumerate() {
        let body = pattern(500, number as u8);
        store.put_block(name, id, &body).unwrap();
    }
    store.commit(name, latest(&IDS)).unwrap();
}

impl Store {
    fn delete_snapshot(&self, name: &str, moment: SnapshotTime) {
        let state = BlobState::Snapshot(moment);
        self.delete_with(name, state, DeleteBlob::default())
            .unwrap();
    }

    fn contents(&self) -> usize {
        self.filed().1
    }
}

#[test]
fn blocks_that_only_a_deleted_snapshot_listed_are_removed_while_several_records_share_the_file() {
    let store = store();
    put_blocks(&store, "name");
    let mut snapshots = vec![store.snapshot("name").unwrap()];
    for number in 1..4 {
        store.commit("name", latest(&IDS[number..])).unwrap();
        snapshots.push(store.snapshot("name").unwrap());
    }
    for (number, moment) in snapshots.into_iter().enumerate() {
        store.at(at(6)).sweep(100).unwrap();
        assert_eq!(store.contents(), 8 - number);
        store.delete_snapshot("name", moment);
    }
    store.at(at(6)).sweep(100).unwrap();
    assert_eq!(store.contents(), 5);
    let expected: Vec<u8> = (3..8).flat_map(|number| pattern(500, number)).collect();
    assert_eq!(store.read("name").unwrap(), expected);
}

#[test]
fn blocks_that_only_the_deleted_source_listed_are_removed_while_several_copies_share_the_file() {
    let store = store();
    put_blocks(&store, "name");
    for (number, copy) in ["one", "two", "three"].into_iter().enumerate() {
        store.copy("name", copy).unwrap();
        store.commit(copy, latest(&IDS[number..=number])).unwrap();
    }
    store.at(at(6)).sweep(100).unwrap();
    assert_eq!(store.contents(), 8);
    store.delete("name").unwrap();
    store.at(at(6)).sweep(100).unwrap();
    assert_eq!(store.contents(), 3);
    for (number, copy) in ["one", "two", "three"].into_iter().enumerate() {
        assert_eq!(store.read(copy).unwrap(), pattern(500, number as u8));
    }
}

/// Makes random lists, snapshots, copies and deletions. Once the sweep is done, each content must
/// be listed by a record or be uncommitted.
#[test]
fn every_content_is_listed_after_any_changes() {
    let policies = [AccountPolicy::default(), versions(), soft_delete(1)];
    for (seed, policy) in (1..).zip(policies.into_iter().cycle().take(9)) {
        let store = keeping(policy);
        let mut state: u64 = seed;
        let mut random = |limit: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        let names = ["x", "y", "z"];
        let mut snapshots: BTreeSet<(&str, SnapshotTime)> = BTreeSet::new();
        for step in 0..400 {
            let name = names[random(3)];
            match random(100) {
                0..25 => {
                    let id = IDS[random(IDS.len())];
                    let body = pattern(100 + random(100), step as u8);
                    store.put_block(name, id, &body).unwrap();
                }
                25..50 => {
                    let ids: Vec<&str> = IDS.into_iter().filter(|_| random(2) == 0).collect();
                    let _ = store.commit(name, latest(&ids));
                }
                50..65 => {
                    if let Ok(moment) = store.snapshot(name) {
                        snapshots.insert((name, moment));
                    }
                }
                65..78 => drop(store.copy(name, names[random(3)])),
                78..90 => {
                    let of_name = snapshots.iter().filter(|(of, _)| *of == name);
                    let of_name: Vec<_> = of_name.copied().collect();
                    if !of_name.is_empty() {
                        let (name, moment) = of_name[random(of_name.len())];
                        store.delete_snapshot(name, moment);
                        snapshots.remove(&(name, moment));
                    }
                }
                90 => {
                    let include = with_snapshots(DeleteSnapshots::Include);
                    let deleted = store.delete_with(name, BlobState::Current, include);
                    if deleted.is_ok() {
                        snapshots.retain(|(of, _)| *of != name);
                    }
                }
                _ => {
                    store.at(at(6)).sweep(1000).unwrap();
                    check_all_listed(&store, &format!("seed {seed}, step {step}"));
                }
            }
        }
    }
}

fn check_all_listed(store: &Store, when: &str) {
    let service = &store.service;
    let keyspaces = &service.keyspaces;
    let snapshot = service.db.snapshot();
    let mut listed = BTreeSet::new();
    let mut staged = BTreeMap::new();
    for keyspace in [&keyspaces.blobs, &keyspaces.history] {
        let all = lazurite_engine::KeyRange::all();
        let mut rows = snapshot.scan(keyspace, all, lazurite_engine::Direction::Forward);
        while rows.advance().unwrap() {
            let home = keys::container_of(rows.key()).unwrap();
            if *keyspace == keyspaces.history && keys::is_uncommitted_marker(rows.key()) {
                let id = codec::decode_uncommitted(&rows.value().unwrap()).unwrap();
                staged.insert(id, home);
                continue;
            }
            let blob = codec::decode_blob(&rows.value().unwrap(), home).unwrap();
            staged.extend(blob.staging.map(|id| (id, home)));
            if let Some(file) = super::new_list::listed_file(&blob) {
                for block in service.blocks(&snapshot, file.committed_from(0)).unwrap() {
                    listed.insert((block.file.unwrap_or(file), block.content));
                }
            }
        }
    }
    for (id, home) in staged {
        let file = keys::File { home, id };
        for block in service.blocks(&snapshot, file.all_uncommitted()).unwrap() {
            listed.insert((file, block.content));
        }
    }
    let all = lazurite_engine::KeyRange::all();
    let contents = &keyspaces.content;
    let mut rows = snapshot.scan(contents, all, lazurite_engine::Direction::Forward);
    let mut present = BTreeSet::new();
    while rows.advance().unwrap() {
        let file = keys::File::of(&rows.key()[..32]).unwrap();
        present.insert((file, keys::block_content_id(rows.key()).unwrap()));
    }
    assert_eq!(present, listed, "{when}");
}

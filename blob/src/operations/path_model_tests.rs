//! A hierarchical container beside a plain tree: random operations have the same outcomes, and leave
//! the same paths. Threads that rename, delete, write and list at once leave neither orphans nor
//! doubles.

use super::path_tests::{create, lake};
use super::tests::*;
use crate::*;
use lazurite_engine::{Choices, test_seeds};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Paths and contents; directories have none.
#[derive(Default)]
struct Model(BTreeMap<String, Option<Vec<u8>>>);

/// The outcomes that the model tells apart.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Conflict,
    Missing,
    IsDirectory,
    NotEmpty,
    IntoItself,
    OtherKind,
    NoParent,
}

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Outcome {
        match result {
            Ok(()) => Outcome::Done,
            Err(Error::PathConflict) => Outcome::Conflict,
            Err(Error::BlobNotFound | Error::SourcePathNotFound) => Outcome::Missing,
            Err(Error::OperationNotSupportedOnDirectory) => Outcome::IsDirectory,
            Err(Error::DirectoryNotEmpty) => Outcome::NotEmpty,
            Err(Error::InvalidRenameSourcePath) => Outcome::IntoItself,
            Err(Error::InvalidSourceOrDestinationResourceType) => Outcome::OtherKind,
            Err(Error::RenameDestinationParentPathNotFound) => Outcome::NoParent,
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// The directories that a path is in, from the root's first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

impl Model {
    fn is_below_file(&self, path: &str) -> bool {
        parents(path).any(|parent| matches!(self.0.get(parent), Some(Some(_))))
    }

    fn below(&self, path: &str) -> Vec<String> {
        let start = format!("{path}/");
        let paths = self.0.keys().filter(|other| other.starts_with(&start));
        paths.cloned().collect()
    }

    fn put(&mut self, path: &str, node: Option<Vec<u8>>) -> Outcome {
        if self.is_below_file(path) {
            return Outcome::Conflict;
        }
        match (self.0.get(path), &node) {
            (Some(None), Some(_)) => return Outcome::IsDirectory,
            (Some(Some(_)), None) => return Outcome::Conflict,
            _ => {}
        }
        for parent in parents(path) {
            self.0.entry(parent.to_string()).or_insert(None);
        }
        self.0.insert(path.to_string(), node);
        Outcome::Done
    }

    fn delete(&mut self, path: &str, recursive: bool) -> Outcome {
        let below = self.below(path);
        match self.0.get(path) {
            None => return Outcome::Missing,
            Some(None) if !recursive && !below.is_empty() => return Outcome::NotEmpty,
            Some(_) => {}
        }
        self.0.remove(path);
        for path in below {
            self.0.remove(&path);
        }
        Outcome::Done
    }

    fn rename(&mut self, source: &str, destination: &str, mode: RenameMode) -> Outcome {
        let Some(node) = self.0.get(source) else {
            return Outcome::Missing;
        };
        if self.is_below_file(destination) {
            return Outcome::Conflict;
        }
        let is_directory = node.is_none();
        let inside = destination.starts_with(&format!("{source}/"));
        if source == destination || (is_directory && inside) {
            return Outcome::IntoItself;
        }
        if parents(destination).any(|parent| !self.0.contains_key(parent)) {
            return Outcome::NoParent;
        }
        match self.0.get(destination) {
            Some(None) if is_directory && mode == RenameMode::Posix => {
                let last = source.rsplit('/').next().unwrap();
                let inside = format!("{destination}/{last}");
                return self.rename(source, &inside, RenameMode::Legacy);
            }
            Some(there) if there.is_none() != is_directory => return Outcome::OtherKind,
            Some(None) if !self.below(destination).is_empty() => return Outcome::NotEmpty,
            _ => {}
        }
        for path in self.below(source).into_iter().chain([source.to_string()]) {
            let node = self.0.remove(&path).unwrap();
            let moved = format!("{destination}{}", &path[source.len()..]);
            self.0.insert(moved, node);
        }
        Outcome::Done
    }

    /// What a listing of a directory returns; `None` if there is no such directory.
    fn list(&self, directory: &str, recursive: bool) -> Option<Vec<String>> {
        let start = match directory {
            "" => String::new(),
            _ => format!("{directory}/"),
        };
        if !start.is_empty() && self.0.get(directory) != Some(&None) {
            return None;
        }
        let shown = |(path, node): (&String, &Option<Vec<u8>>)| {
            let rest = path.strip_prefix(&start)?;
            let is_shown = recursive || !rest.contains('/');
            let slash = if node.is_none() { "/" } else { "" };
            is_shown.then(|| format!("{path}{slash}"))
        };
        Some(self.0.iter().filter_map(shown).collect())
    }
}

fn random_path(random: &mut Choices) -> String {
    const SEGMENTS: [&str; 6] = ["a", "a-", "a-b", "b", "b!", "é"];
    let depth = 1 + random.below(4);
    (0..depth)
        .map(|_| random.pick(&SEGMENTS))
        .collect::<Vec<_>>()
        .join("/")
}

fn step(store: &Store, model: &mut Model, random: &mut Choices) {
    let (path, other) = (random_path(random), random_path(random));
    let body = vec![random.below(256) as u8; 1 + random.index(8)];
    let what = random.below(100);
    let (found, expected): (Result<()>, _) = match what {
        0..25 => {
            let put = store.put(&path, &body).map(drop);
            (put, model.put(&path, Some(body)))
        }
        25..40 => {
            let made = store.create_at(PathKind::Directory, &path).map(drop);
            (made, model.put(&path, None))
        }
        40..55 => {
            let before = match model.0.get(&path) {
                Some(Some(before)) => before.clone(),
                _ => return,
            };
            let end = (before.len() + body.len()) as u64;
            store.append_at(&path, before.len() as u64, &body).unwrap();
            let flushed = store.flush_at(&path, end, false).map(drop);
            (flushed, model.put(&path, Some([before, body].concat())))
        }
        55..85 => {
            let mode = random.pick(&[RenameMode::Legacy, RenameMode::Posix]);
            let request = RenamePath {
                mode,
                ..RenamePath::default()
            };
            let renamed = store.rename_with(&path, &other, &request).map(drop);
            (renamed, model.rename(&path, &other, mode))
        }
        85..92 => {
            let recursive = random.below(2) == 0;
            let deleted = store.delete_at(&path, recursive);
            (deleted, model.delete(&path, recursive))
        }
        92..95 => {
            store.service.sweep(random.below(5) as u32).unwrap();
            return;
        }
        _ => {
            let request = ListPaths {
                directory: if random.below(2) == 0 {
                    String::new()
                } else {
                    path.clone()
                },
                recursive: random.below(2) == 0,
                ..ListPaths::default()
            };
            let found = store.paths(&request, 1 + random.below(6) as u32).ok();
            assert_eq!(
                found,
                model.list(&request.directory, request.recursive),
                "{request:?}"
            );
            return;
        }
    };
    assert_eq!(Outcome::from(found), expected, "{what} {path} {other}");
}

/// Checks the contents of all files, and that nothing else is stored once the sweep is done.
fn check_all(store: &Store, model: &Model) {
    assert_eq!(store.all_paths(), model.list("", true).unwrap());
    for (path, node) in &model.0 {
        if let Some(content) = node {
            assert_eq!(&store.read(path).unwrap(), content, "{path}");
        }
    }
    while store.service.sweep(100).unwrap().steps > 0 {}
    assert_eq!(store.rows(&store.service.keyspaces.blobs), model.0.len());
    assert_eq!(store.rows(&store.service.keyspaces.history), 0);
    let contents = store.rows(&store.service.keyspaces.content);
    let files = model.0.values().filter(|node| node.is_some()).count();
    assert!(contents >= files);
}

#[test]
fn random_operations_leave_the_paths_of_a_plain_tree() {
    for seed in test_seeds(6) {
        let mut random = Choices::new(seed);
        let (store, mut model) = (lake(), Model::default());
        for _ in 0..400 {
            step(&store, &mut model, &mut random);
        }
        check_all(&store, &model);
    }
}

#[test]
fn threads_under_one_root_leave_no_orphans_and_no_doubles() {
    let store = &lake();
    let service = &store.service;
    for directory in ["still", "moving/a", "moving/b"] {
        store.create_at(PathKind::Directory, directory).unwrap();
    }
    for file in 0..40 {
        store.put(&format!("still/{file:02}"), b"1").unwrap();
    }
    let is_over = AtomicBool::new(false);
    let over = &is_over;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..64u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Choices::new(thread);
                    for _ in 0..100 {
                        let (path, other) = (random_path(&mut random), random_path(&mut random));
                        let (path, other) = (format!("moving/{path}"), format!("moving/{other}"));
                        let none = Conditions::default();
                        // Any of these may find the path gone, or another kind of it there.
                        match random.below(4) {
                            0 => drop(service.rename_path(
                                &address(&path),
                                &address(&other),
                                &RenamePath::default(),
                            )),
                            1 => drop(service.delete_path(&address(&path), true, &none)),
                            2 => drop(
                                service.create_path(&address(&path), create(PathKind::Directory)),
                            ),
                            _ => drop(service.create_path(&address(&path), create(PathKind::File))),
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                drop(service.sweep(3));
            }
        });
        let lister = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // What stands still is listed once, whatever moves beside it.
                let request = ListPaths {
                    recursive: true,
                    ..ListPaths::default()
                };
                let paths = store.paths(&request, 7).unwrap();
                let still = paths
                    .iter()
                    .filter(|path| path.starts_with("still/"))
                    .count();
                assert_eq!(still, 41);
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        lister.join().unwrap();
        while service.sweep(100).unwrap().steps > 0 {}
        // Each row is on a path: none is an orphan.
        assert_eq!(
            store.all_paths().len(),
            store.rows(&service.keyspaces.blobs)
        );
    });
}

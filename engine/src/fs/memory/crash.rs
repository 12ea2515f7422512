//! Power cuts for files in memory: which operations survive.

use crate::base::mutex::lock;
use crate::fs::memory::image::{Change, Image};
use crate::fs::memory::{Contents, Directory, MemoryFs, Names, Node, State, apply_name};
use crate::fs::testing::Choices;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// Bytes that a disk writes or loses as one.
const SECTOR_BYTES: usize = 512;

/// The operations that survive although they were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// No unsynced operation.
    Nothing,
    /// A random number of the first operations on each file and directory, and a part of the next
    /// write to each file.
    Prefix,
    /// Random sectors of the writes to each file, and random changes of its length; a random number
    /// of the first operations on each directory.
    Sectors,
    /// All operations, as when only the process died.
    Everything,
}

/// Whether a directory that is not durable survives.
fn keeps_directory(keep: Keep, choices: &mut Choices) -> bool {
    match keep {
        Keep::Nothing => false,
        Keep::Everything => true,
        Keep::Prefix | Keep::Sectors => choices.one_in(2),
    }
}

impl MemoryFs {
    /// Returns a copy as a power cut now would leave it. The same seed makes the same choices. No
    /// lock survives.
    pub fn crash(&self, seed: u64, keep: Keep) -> MemoryFs {
        let mut choices = Choices::new(seed);
        let state = lock(&self.state);
        let mut copies = HashMap::new();
        let mut directories = BTreeMap::new();
        // In the order of paths, parents come first.
        for (path, directory) in &state.directories {
            let is_kept = directory.is_durable || keeps_directory(keep, &mut choices);
            let is_reachable = |parent| directories.contains_key(parent);
            if !is_kept || !path.parent().is_none_or(is_reachable) {
                continue;
            }
            let names = surviving_names(directory, keep, &mut choices);
            let names: Names = names
                .into_iter()
                .map(|(name, node)| {
                    let copy = copies
                        .entry(Arc::as_ptr(&node))
                        .or_insert_with(|| Arc::new(surviving_node(&node, keep, &mut choices)));
                    (name, copy.clone())
                })
                .collect();
            let copy = Directory {
                is_durable: true,
                now: names.clone(),
                durable: names,
                unsynced: Vec::new(),
            };
            directories.insert(path.clone(), copy);
        }
        MemoryFs {
            crashable: true,
            room: Arc::default(),
            state: Arc::new(Mutex::new(State {
                directories,
                locks: HashSet::new(),
            })),
        }
    }
}

fn surviving_names(directory: &Directory, keep: Keep, choices: &mut Choices) -> Names {
    let count = directory.unsynced.len();
    let kept = match keep {
        Keep::Nothing => 0,
        Keep::Everything => count,
        Keep::Prefix | Keep::Sectors => choices.below(count as u64 + 1) as usize,
    };
    let mut names = directory.durable.clone();
    for change in &directory.unsynced[..kept] {
        apply_name(&mut names, change);
    }
    names
}

fn surviving_node(node: &Node, keep: Keep, choices: &mut Choices) -> Node {
    let contents = lock(&node.contents);
    let mut image = contents.durable.clone();
    let count = contents.unsynced.len();
    match keep {
        Keep::Nothing => {}
        Keep::Everything => image = contents.now.clone(),
        Keep::Prefix => {
            let kept = choices.below(count as u64 + 1) as usize;
            contents.unsynced[..kept]
                .iter()
                .for_each(|change| image.apply(change));
            if let Some(Change::Write(offset, bytes)) = contents.unsynced.get(kept) {
                let torn = choices.below(bytes.len() as u64 + 1) as usize;
                image.write(&bytes[..torn], *offset);
            }
        }
        Keep::Sectors => {
            for change in &contents.unsynced {
                keep_sectors(&mut image, change, choices);
            }
        }
    }
    Node {
        crashable: true,
        room: Arc::default(),
        contents: Mutex::new(Contents {
            now: image.clone(),
            durable: image,
            unsynced: Vec::new(),
            allocated: 0,
        }),
    }
}

fn keep_sectors(image: &mut Image, change: &Change, choices: &mut Choices) {
    match change {
        Change::Length(_) if choices.below(2) == 0 => image.apply(change),
        Change::Length(_) => {}
        Change::Write(offset, bytes) => {
            let mut done = 0;
            while done < bytes.len() {
                let at = offset + done as u64;
                let sector_left = SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize;
                let part = sector_left.min(bytes.len() - done);
                if choices.below(2) == 0 {
                    image.write(&bytes[done..done + part], at);
                }
                done += part;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{File, Fs};
    use std::path::Path;

    fn fs_with_file(path: &Path) -> (MemoryFs, Arc<dyn File>) {
        let fs = MemoryFs::crashable();
        fs.create_directory(Path::new("/d")).unwrap();
        fs.sync_directory(Path::new("/")).unwrap();
        let file = fs.create(path).unwrap();
        (fs, file)
    }

    fn contents(fs: &MemoryFs, path: &Path) -> Option<Vec<u8>> {
        fs.files()
            .into_iter()
            .find(|(found, _)| found == path)
            .map(|(_, bytes)| bytes)
    }

    #[test]
    fn a_power_cut_takes_unsynced_changes() {
        let path = Path::new("/d/f");
        let (fs, file) = fs_with_file(path);
        file.write_at(b"synced", 0).unwrap();
        file.sync().unwrap();
        assert_eq!(contents(&fs.crash(1, Keep::Nothing), path), None);
        fs.sync_directory(Path::new("/d")).unwrap();
        file.write_at(b"lost", 6).unwrap();
        assert_eq!(
            contents(&fs.crash(1, Keep::Nothing), path).unwrap(),
            b"synced"
        );
        assert_eq!(
            contents(&fs.crash(1, Keep::Everything), path).unwrap(),
            b"syncedlost"
        );
    }

    #[test]
    fn a_power_cut_takes_a_directory_whose_name_was_not_synced_and_all_in_it() {
        let fs = MemoryFs::crashable();
        let (outer, inner) = (Path::new("/a"), Path::new("/a/b"));
        fs.create_directory(inner).unwrap();
        let file = fs.create(&inner.join("f")).unwrap();
        file.sync().unwrap();
        fs.sync_directory(inner).unwrap();
        fs.sync_directory(outer).unwrap();
        assert!(fs.crash(1, Keep::Nothing).list(inner).is_err());
        fs.sync_directory(Path::new("/")).unwrap();
        assert_eq!(fs.crash(1, Keep::Nothing).list(inner).unwrap(), ["f"]);
    }

    #[test]
    fn the_same_seed_leaves_the_same_bytes() {
        let path = Path::new("/d/f");
        let (fs, file) = fs_with_file(path);
        fs.sync_directory(Path::new("/d")).unwrap();
        for i in 0..20u64 {
            file.write_at(&[i as u8; 700], i * 700).unwrap();
        }
        for keep in [Keep::Prefix, Keep::Sectors] {
            assert_eq!(
                contents(&fs.crash(7, keep), path),
                contents(&fs.crash(7, keep), path)
            );
        }
    }
}

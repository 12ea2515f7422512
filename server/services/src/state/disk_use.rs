//! Measures the disk space of a data directory, including files that are not the server's.

use crate::platform;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Bytes of disk below a directory. A file with several names counts once: stores share files by
/// hard links. Unreadable files, such as one that is removed meanwhile, do not count. Blocks for
/// the disk.
pub fn bytes_below(root: &Path) -> u64 {
    let mut bytes = 0;
    let mut counted = HashSet::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            let Ok(found) = entry.metadata() else {
                continue;
            };
            if found.is_dir() {
                directories.push(entry.path());
                continue;
            }
            let (used, identity) = platform::disk_use(&found);
            if identity.is_none_or(|identity| counted.insert(identity)) {
                bytes += used;
            }
        }
    }
    bytes
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn file_with_two_names_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, vec![1; 100_000]).unwrap();
        let before = bytes_below(directory.path());
        assert!((100_000..200_000).contains(&before), "{before}");
        fs::create_dir(directory.path().join("snapshot")).unwrap();
        fs::hard_link(&file, directory.path().join("snapshot/file")).unwrap();
        assert_eq!(bytes_below(directory.path()), before);
    }
}

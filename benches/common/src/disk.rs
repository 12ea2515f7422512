//! The disk space that a directory takes.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit in which the system counts the blocks of a file.
const BLOCK_BYTES: u64 = 512;

/// Returns the bytes of the allocated blocks of all files below a directory; a file with several
/// names counts once. A file that is removed meanwhile counts as 0.
pub fn allocated_bytes(directory: &Path) -> u64 {
    let (mut bytes, mut seen) = (0, HashSet::new());
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => directories.push(entry.path()),
                Ok(found) if seen.insert(found.ino()) => bytes += found.blocks() * BLOCK_BYTES,
                _ => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_with_two_names_counts_once_and_a_hole_not_at_all() {
        let scratch = tempfile::TempDir::new().unwrap();
        let directory = scratch.path();
        fs::create_dir(directory.join("below")).unwrap();
        let file = directory.join("file");
        fs::write(&file, vec![1; 100_000]).unwrap();
        fs::hard_link(&file, directory.join("below/again")).unwrap();
        let hole = fs::File::create(directory.join("hole")).unwrap();
        hole.set_len(1 << 30).unwrap();
        // Some file systems allocate blocks when they write a file back.
        fs::File::open(&file).unwrap().sync_all().unwrap();
        let bytes = allocated_bytes(directory);
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
    }
}

//! Linux: logs through a mapping or past the page cache, and by plain writes where blocks cannot be
//! allocated ahead.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the seam that the rest of the engine goes through"
)]

use crate::fs::direct::DirectFile;
use crate::fs::disk_file::{DiskFile, WRITE_BYTES};
use crate::fs::log_file::GatheredFile;
use crate::fs::map::LogMap;
use crate::fs::platform::allocate;
use crate::fs::{File, LogWrites};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes of one write when a log to be mapped is filled with zeros. Each such write creates a page
/// of this length in the cache, and a long page is mapped at once. The price: a sync writes 16 KiB
/// even for a single row.
const LOG_WRITE_BYTES: usize = 16 << 10;

pub(in crate::fs) fn open_log(
    file: fs::File,
    path: &Path,
    present: u64,
    length: u64,
    writes: LogWrites,
) -> io::Result<Arc<dyn File>> {
    open_log_with(allocate, file, path, present, length, writes)
}

/// Like [`open_log`]. `allocate` returns whether it could allocate the blocks of the file.
fn open_log_with(
    allocate: impl FnOnce(&fs::File, u64) -> io::Result<bool>,
    file: fs::File,
    path: &Path,
    present: u64,
    length: u64,
    writes: LogWrites,
) -> io::Result<Arc<dyn File>> {
    // A file that already has this length may have holes, if the file system could not allocate.
    let is_allocated = length > 0 && allocate(&file, length)?;
    if writes == LogWrites::AtSync {
        return Ok(match DirectFile::open(file, path) {
            Ok(file) => Arc::new(GatheredFile::new(file, present, length)?),
            Err(file) => Arc::new(DiskFile::new(file, WRITE_BYTES)),
        });
    }
    let map = is_allocated.then(|| LogMap::new(&file, length)).flatten();
    Ok(match map {
        Some(map) => {
            let file = DiskFile::new(file, LOG_WRITE_BYTES);
            fill(&file, present, length)?;
            Arc::new(MappedFile { file, length, map })
        }
        None => Arc::new(DiskFile::new(file, WRITE_BYTES)),
    })
}

/// Writes zeros after the present contents, up to `length`.
fn fill(file: &DiskFile, present: u64, length: u64) -> io::Result<()> {
    let zeros = [0; LOG_WRITE_BYTES];
    let first = present.next_multiple_of(LOG_WRITE_BYTES as u64);
    (first..length)
        .step_by(LOG_WRITE_BYTES)
        .try_for_each(|offset| {
            let count = (length - offset).min(LOG_WRITE_BYTES as u64);
            file.write_at(&zeros[..count as usize], offset)
        })
}

/// A log segment: writes within its length go through a mapping, those after it through the file.
#[derive(Debug)]
struct MappedFile {
    file: DiskFile,
    length: u64,
    map: LogMap,
}

impl File for MappedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let inside = self.length.saturating_sub(offset).min(bytes.len() as u64);
        let (mapped, behind) = bytes.split_at(inside as usize);
        if !behind.is_empty() {
            self.file.write_at(behind, offset + inside)?;
        }
        if !mapped.is_empty() {
            self.map.write(mapped, offset as usize);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.map.release_written();
        // The kernel writes the dirty pages of a mapping with those of the file, and reports their
        // errors here.
        self.file.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length.max(self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{DiskFs, Fs};
    use std::process::Command;

    const LENGTH: u64 = 1 << 20;

    fn open(path: &Path) -> fs::File {
        let mut options = fs::File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        options.open(path).unwrap()
    }

    /// Whether the process maps the file.
    fn is_mapped(path: &Path) -> bool {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.contains(path.to_str().unwrap())
    }

    #[test]
    fn a_log_whose_blocks_cannot_be_allocated_is_not_mapped_and_keeps_its_writes() {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.unwrap();
        for (name, is_allocated) in [("allocated", true), ("refused", false)] {
            let path = directory.path().join(name);
            for present in [0, LENGTH] {
                let allocate = |file: &fs::File, length| {
                    let allocated = allocate(file, length)?;
                    Ok(allocated && is_allocated)
                };
                let writes = LogWrites::AtOnce;
                let log = open_log_with(allocate, open(&path), &path, present, LENGTH, writes);
                let log = log.unwrap();
                assert!(is_allocated || !is_mapped(&path), "{name}, {present}");
                // The second write crosses the end of the allocated bytes.
                for offset in [100, LENGTH - 3] {
                    log.write_at(b"record", offset).unwrap();
                    let mut bytes = [0; 6];
                    assert_eq!(log.read_at(&mut bytes, offset).unwrap(), 6);
                    assert_eq!(&bytes, b"record");
                }
                log.sync().unwrap();
            }
        }
    }

    #[test]
    fn a_refusal_to_allocate_for_lack_of_space_is_the_error_of_the_opening() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for writes in [LogWrites::AtOnce, LogWrites::AtSync] {
            let refuse = |_: &fs::File, _| Err(io::ErrorKind::StorageFull.into());
            let opened = open_log_with(refuse, open(&path), &path, 0, LENGTH, writes);
            assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }

    /// A file system of 4 MiB in memory, mounted until this is dropped.
    struct SmallDisk(tempfile::TempDir);

    impl SmallDisk {
        /// Mounts a file system in memory; `None` without the right to mount.
        fn mount() -> Option<SmallDisk> {
            let disk = SmallDisk(tempfile::tempdir().unwrap());
            let mut mount = Command::new("mount");
            let mount = mount.args(["-t", "tmpfs", "-o", "size=4m", "none"]);
            let mounted = mount.arg(disk.0.path()).output();
            mounted
                .is_ok_and(|tried| tried.status.success())
                .then_some(disk)
        }

        /// Takes all the space that is left.
        fn fill(&self) {
            let filler = DiskFs::default().create(&self.0.path().join("filler"));
            let (filler, page) = (filler.unwrap(), [1; 4096]);
            let filled = (0..).find_map(|at| filler.write_at(&page, at * 4096).err());
            assert_eq!(filled.unwrap().kind(), io::ErrorKind::StorageFull);
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
        }
    }

    #[test]
    fn a_log_on_a_disk_that_is_full_takes_all_its_bytes_and_the_next_one_is_refused() {
        let Some(disk) = SmallDisk::mount() else {
            eprintln!("skipped: it takes the right to mount");
            return;
        };
        for (name, writes) in [("once", LogWrites::AtOnce), ("sync", LogWrites::AtSync)] {
            let path = disk.0.path().join(name);
            let log = DiskFs::default().open_log(&path, LENGTH, writes).unwrap();
            disk.fill();
            let record = [7; 1000];
            // A write to a mapped page without a block would kill the process here.
            for offset in (0..LENGTH - 1000).step_by(1000) {
                log.write_at(&record, offset).unwrap();
            }
            log.sync().unwrap();
            let next = DiskFs::default().open_log(&disk.0.path().join("next"), LENGTH, writes);
            assert_eq!(next.unwrap_err().kind(), io::ErrorKind::StorageFull);
            fs::remove_file(disk.0.path().join("filler")).unwrap();
        }
    }
}

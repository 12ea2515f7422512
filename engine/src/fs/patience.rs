//! Patience with file operations whose failure passes by itself.
//!
//! Two causes pass. The process or the system has no free file handle, because the connections of
//! clients hold them all for a short time. And on Windows another program may hold a file without
//! sharing it: virus scanners, indexers and backups do so for milliseconds, most often just after
//! the file was written. A compaction that failed for such a reason would stop all writing.
#![allow(
    clippy::disallowed_methods,
    reason = "the system cannot say when a file or a handle is free, so the wait is a sleep"
)]

use crate::base::error::lacks_handle;
use crate::fs::platform;
use std::io;
use std::time::Duration;

/// The longest wait for a free file handle.
const HANDLE_PATIENCE: Duration = Duration::from_secs(30);
/// Interval between attempts to get a file handle.
const HANDLE_STEP: Duration = Duration::from_millis(20);
/// No wait for the holder of a file begins once the waits so far come to this. Each wait is one
/// step longer than all waits before it together, so the last one ends after 1.023 seconds. Short,
/// because the same error may mean that access is denied for good.
const HOLDER_PATIENCE: Duration = Duration::from_secs(1);
/// The first wait for the holder of a file.
const HOLDER_STEP: Duration = Duration::from_millis(1);

/// Repeats a file operation while its failure may pass: for 30 seconds if there is no free file
/// handle, on Windows for a second if another program holds the file. Errors: that of the last
/// attempt. The operation must change nothing if it fails.
pub fn patiently<T>(operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    Patience::default().keep(operation)
}

/// How failures are recognized and waited for. Tests replace both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The system's error numbers for a file that another program may hold.
    held: &'static [i32],
    wait: fn(Duration),
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            held: platform::HELD_BY_OTHERS,
            wait: std::thread::sleep,
        }
    }
}

impl Patience {
    /// See [`patiently`].
    pub(super) fn keep<T>(self, mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut waited = Duration::ZERO;
        loop {
            match operation() {
                Err(error) => match next_wait(&error, waited, self.held) {
                    Some(wait) => {
                        (self.wait)(wait);
                        waited += wait;
                    }
                    None => return Err(error),
                },
                done => return done,
            }
        }
    }
}

/// The wait before the next attempt, after waits of `waited` in all. `None`: give up.
fn next_wait(error: &io::Error, waited: Duration, held: &[i32]) -> Option<Duration> {
    let is_held = error.raw_os_error().is_some_and(|it| held.contains(&it));
    if error.kind() == io::ErrorKind::Interrupted {
        Some(Duration::ZERO)
    } else if lacks_handle(error) {
        (waited < HANDLE_PATIENCE).then_some(HANDLE_STEP)
    } else if is_held {
        (waited < HOLDER_PATIENCE).then(|| waited + HOLDER_STEP)
    } else {
        None
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_types,
    reason = "the tests hinder the calls of the seam"
)]
mod tests {
    use super::*;
    use crate::fs::disk_file::DiskFile;
    use crate::fs::{DiskFs, File, Fs, LogWrites};
    use std::cell::RefCell;
    use std::fs;
    use std::path::Path;

    /// The errors of [`OPERATIONS`] before [`free`] was called, on Unix and on Windows: no such
    /// file or directory (2, 3), and it exists already (17, 183).
    const HELD: &[i32] = &[2, 3, 17, 183];

    type Operation = fn(&DiskFs, &Path) -> io::Result<()>;

    const OPERATIONS: [(&str, Operation); 11] = [
        ("create_directory", |fs, at| {
            fs.create_directory(&at.join("taken"))
        }),
        ("list", |fs, at| fs.list(&at.join("there")).map(drop)),
        ("create", |fs, at| {
            fs.create(&at.join("there/new")).map(drop)
        }),
        ("open", |fs, at| fs.open(&at.join("there/file")).map(drop)),
        ("open_log", |fs, at| {
            let log = fs.open_log(&at.join("there/log"), 5000, LogWrites::AtOnce);
            log.map(drop)
        }),
        ("rename", |fs, at| {
            fs.rename(&at.join("there/file"), &at.join("there/other"))
        }),
        ("link", |fs, at| {
            fs.link(&at.join("there/file"), &at.join("there/other"))
        }),
        ("remove", |fs, at| fs.remove(&at.join("there/file"))),
        ("remove_directory", |fs, at| {
            fs.remove_directory(&at.join("there/directory"))
        }),
        ("used", |fs, at| fs.used(&at.join("there")).map(drop)),
        ("lock", |fs, at| fs.lock(&at.join("there/LOCK")).map(drop)),
    ];

    /// Makes room for every one of [`OPERATIONS`].
    fn free(at: &Path) {
        fs::create_dir_all(at.join("there/directory")).unwrap();
        fs::write(at.join("there/file"), "").unwrap();
        fs::remove_file(at.join("taken")).unwrap();
    }

    thread_local! {
        static WAITS: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
        /// Called by the third wait.
        static REMEDY: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    fn note(wait: Duration) {
        let waits = WAITS.with_borrow_mut(|waits| {
            waits.push(wait);
            waits.len()
        });
        if waits == 3
            && let Some(remedy) = REMEDY.take()
        {
            remedy();
        }
    }

    fn milliseconds_waited() -> Vec<u128> {
        WAITS.take().iter().map(Duration::as_millis).collect()
    }

    fn hindered(held: &'static [i32]) -> (tempfile::TempDir, DiskFs) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("taken"), "").unwrap();
        (directory, DiskFs::patient(Patience { held, wait: note }))
    }

    #[test]
    fn every_operation_outlasts_a_short_hindrance() {
        for (name, operation) in OPERATIONS {
            let (directory, disk) = hindered(HELD);
            let place = directory.path().to_path_buf();
            REMEDY.set(Some(Box::new(move || free(&place))));
            operation(&disk, directory.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(milliseconds_waited(), [1, 2, 4], "{name}");
        }
    }

    /// Not one of [`OPERATIONS`]: some systems do not open directories.
    #[test]
    fn opening_a_directory_outlasts_a_short_hindrance() {
        let (directory, disk) = hindered(HELD);
        let place = directory.path().join("there");
        let opens = platform::open_directory(&place).is_err();
        let made = place.clone();
        REMEDY.set(Some(Box::new(move || fs::create_dir(made).unwrap())));
        disk.open_directory(&place).unwrap();
        let expected: &[u128] = if opens { &[1, 2, 4] } else { &[] };
        assert_eq!(milliseconds_waited(), expected);
    }

    #[test]
    fn every_operation_gives_up_after_a_second_with_the_original_error() {
        for (name, operation) in OPERATIONS {
            let (directory, disk) = hindered(HELD);
            let error = operation(&disk, directory.path()).unwrap_err();
            let number = error.raw_os_error().unwrap();
            assert!(HELD.contains(&number), "{name}: {error}");
            assert_eq!(milliseconds_waited().iter().sum::<u128>(), 1023, "{name}");
        }
    }

    #[test]
    fn a_file_that_may_only_be_read_is_opened_with_the_same_patience() {
        let denied = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        let read_only = |_: &Path| Err(io::ErrorKind::ReadOnlyFilesystem.into());
        let open: [fn(&Path) -> io::Result<fs::File>; 2] = [denied, read_only];
        for open in open {
            let (directory, disk) = hindered(HELD);
            let place = directory.path().to_path_buf();
            REMEDY.set(Some(Box::new(move || free(&place))));
            disk.open_or_read(&directory.path().join("there/file"), open)
                .unwrap();
            assert_eq!(milliseconds_waited(), [1, 2, 4]);
        }
        let (directory, disk) = hindered(&[]);
        let broken = |_: &Path| Err(io::ErrorKind::InvalidData.into());
        let error = disk.open_or_read(&directory.path().join("taken"), broken);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_length_of_a_file_is_set_with_patience() {
        // The errors of a file that is open for reading only, on Unix and on Windows.
        const READ_ONLY: &[i32] = &[22, 5];
        let (directory, _) = hindered(READ_ONLY);
        let path = directory.path().join("taken");
        let patience = Patience {
            held: READ_ONLY,
            wait: note,
        };
        let file = DiskFile::new(fs::File::open(&path).unwrap(), 1).patient(patience);
        let error = file.set_length(3).unwrap_err();
        assert!(
            READ_ONLY.contains(&error.raw_os_error().unwrap()),
            "{error}"
        );
        assert_eq!(milliseconds_waited().iter().sum::<u128>(), 1023);
        assert_eq!(file.length().unwrap(), 0);
        let writable = fs::File::options().write(true).open(&path).unwrap();
        DiskFile::new(writable, 1).set_length(3).unwrap();
        assert_eq!(file.length().unwrap(), 3);
    }

    #[test]
    fn other_errors_are_reported_at_once() {
        for (name, operation) in OPERATIONS {
            let (directory, disk) = hindered(&[]);
            operation(&disk, directory.path()).unwrap_err();
            assert_eq!(milliseconds_waited(), [], "{name}");
        }
    }

    #[test]
    fn each_error_has_its_patience() {
        let held = [5, 32, 33, 1224];
        let wait = |number, waited| {
            let error = io::Error::from_raw_os_error(number);
            next_wait(&error, Duration::from_millis(waited), &held)
        };
        for number in held {
            assert_eq!(wait(number, 0), Some(HOLDER_STEP), "{number}");
            assert_eq!(wait(number, 511), Some(Duration::from_millis(512)));
            assert_eq!(wait(number, 1023), None, "{number}");
        }
        for number in crate::base::error::TOO_MANY_OPEN_FILES {
            assert_eq!(wait(*number, 29_999), Some(HANDLE_STEP), "{number}");
            assert_eq!(wait(*number, 30_000), None, "{number}");
        }
        assert_eq!(wait(2, 0), None);
        let interrupted = io::ErrorKind::Interrupted.into();
        let wait = next_wait(&interrupted, Duration::MAX, &held);
        assert_eq!(wait, Some(Duration::ZERO));
    }
}

//! The history of requests: files of the data directory from which the next start fills the ring.
//!
//! A task looks at the ring once a second and appends the newest records to a file: at most a fixed number of them, whatever the rate of
//! requests, and nothing if there are none. Requests do nothing for it, and the lock of the ring is not held over I/O. Requests of forks,
//! which end with the process, are left out, and so are bodies. Secrets are cut as on the pages.
//!
//! The file is replaced when it has grown; one older file is kept. Neither takes the room that the store reserves for deletions. Nothing is
//! synced: a power cut takes more than a kill, and costs no request but those of the history. A file that does not begin as the history
//! does is left alone, and no history is kept.

mod bytes;

use crate::platform;
use crate::requests::{Record, Ring};
use bytes::{Frames, HEADER, MAGIC_BYTES, push_frame};
use lazurite_engine::fs::Fs;
use lazurite_engine::{Config, Durability, Environment};
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The file that grows, and the one before it. A new store may lie beside files with this ending.
const FILE: &str = "REQUESTS.log";
const FILE_OLDER: &str = "REQUESTS.older.log";
/// A longer file is replaced before the next record.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// How often the ring is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Records that are looked at each time: the newest.
const RECORDS_MAX: usize = 500;
/// Bytes of memory after which no more records are written at a time.
const WRITE_BYTES_MAX: usize = 512 << 10;
/// How long the last write may take.
const END_MAX: Duration = Duration::from_secs(1);

/// The task that writes the history. See the head of this file.
pub struct History {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl History {
    /// Fills the ring from the files of a data directory, and writes them from now on, on the runtime of the caller. Before the first
    /// request. Blocks for the disk. `None` if a file is not ours, which is logged.
    pub fn start(directory: &Path, ring: Arc<Ring>) -> Option<History> {
        let writer = match Writer::open(directory, ring) {
            Ok(writer) => writer,
            Err(reason) => {
                tracing::warn!("no history of requests is kept: {reason}");
                return None;
            }
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(keep(writer, stopped));
        Some(History { stop, task })
    }

    /// Writes the last records, unless the disk takes too long.
    pub async fn end(self) {
        let _ = self.stop.send(());
        let _ = timeout(END_MAX, self.task).await;
    }
}

async fn keep(mut writer: Writer, mut stopped: oneshot::Receiver<()>) {
    let mut interval = interval(LOOK_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_last = tokio::select! {
            _ = interval.tick() => false,
            _ = &mut stopped => true,
        };
        let (newest, records) = writer.next_records();
        if newest > writer.position {
            let writing = spawn_blocking(move || {
                writer.write(newest, &records);
                writer
            });
            match writing.await {
                Ok(same) => writer = same,
                Err(panic) => {
                    tracing::error!(%panic, "the history of requests stopped on an assertion");
                    return;
                }
            }
        }
        if is_last {
            return;
        }
    }
}

struct Writer {
    ring: Arc<Ring>,
    directory: PathBuf,
    /// Answers how much space there is.
    fs: Arc<dyn Fs>,
    /// The position in the ring up to which records are written, or left out.
    position: u64,
    /// Bytes of the file that are ours and whole.
    length: u64,
    has_failed: bool,
}

impl Writer {
    /// Fills the ring. The error is a sentence.
    fn open(directory: &Path, ring: Arc<Ring>) -> Result<Writer, String> {
        let mut length = 0;
        for name in [FILE_OLDER, FILE] {
            length = fill(&directory.join(name), &ring)?;
        }
        Ok(Writer {
            position: ring.totals().newest,
            ring,
            directory: directory.to_owned(),
            fs: Environment::system(Durability::Process).fs,
            length,
            has_failed: false,
        })
    }

    /// The newest records that are to be written, oldest first, and the position of the newest of all.
    fn next_records(&self) -> (u64, Vec<Arc<Record>>) {
        let is_kept = |record: &Record| !record.is_of_fork;
        let (newest, mut records) = self.ring.newest(self.position, RECORDS_MAX, is_kept);
        let mut bytes = 0;
        let fits = |record: &&Arc<Record>| {
            bytes += record.bytes();
            bytes <= WRITE_BYTES_MAX
        };
        let count = records.iter().take_while(fits).count();
        records.truncate(count);
        records.reverse();
        (newest, records)
    }

    /// Writes the records up to position `newest`. If that fails, the next look takes them again. Logs the first of several failures in a
    /// row.
    fn write(&mut self, newest: u64, records: &[Arc<Record>]) {
        let written = self.append(records);
        let failed_before = std::mem::replace(&mut self.has_failed, written.is_err());
        match written {
            Ok(()) => self.position = newest,
            Err(error) if !failed_before => {
                tracing::warn!(%error, "the history of requests is not written");
            }
            Err(_) => {}
        }
    }

    fn append(&mut self, records: &[Arc<Record>]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        if self.length >= FILE_BYTES_MAX {
            match fs::rename(self.directory.join(FILE), self.directory.join(FILE_OLDER)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => self.length = 0,
            }
        }
        if !self.has_room() {
            let error = "the rest of the disk is reserved for the store";
            return Err(io::Error::new(ErrorKind::StorageFull, error));
        }
        let mut file = self.opened()?;
        let mut frames = Vec::new();
        for record in records {
            let offset = self.length + frames.len() as u64;
            push_frame(record, offset, &mut frames);
        }
        let written = file.write_all(&frames);
        if written.is_ok() {
            self.length += frames.len() as u64;
        } else {
            // The room that a part of the frames took.
            let _ = file.set_len(self.length);
        }
        written
    }

    /// Whether a write leaves the reserve of the store free: a store without it cannot give back the space of what is deleted.
    fn has_room(&self) -> bool {
        let reserve_bytes = Config::default().reserve_bytes;
        let space = self.fs.space(&self.directory);
        space
            .is_none_or(|space| space.free >= space.reserve(reserve_bytes) + WRITE_BYTES_MAX as u64)
    }

    /// The file with nothing but its whole frames. It is opened for each write: in between, a user may have emptied or removed it.
    fn opened(&mut self) -> io::Result<File> {
        let mut file = platform::append_private(&self.directory.join(FILE), false)?;
        let found = file.metadata()?.len();
        if found < self.length {
            self.length = 0;
        }
        if found != self.length {
            file.set_len(self.length)?;
        }
        if self.length == 0 {
            file.write_all(&HEADER)?;
            self.length = HEADER.len() as u64;
        }
        Ok(file)
    }
}

/// Fills the ring from a file, and returns where its last whole frame ends; 0 if there is no file. The error is a sentence: the file is
/// not ours.
fn fill(path: &Path, ring: &Ring) -> Result<u64, String> {
    let read = read(path, |_, record| ring.restore(record));
    let refused = |reason| format!("{}: {reason}", path.display());
    let (offset, damage) = read.map_err(refused)?;
    // A copy of the directory may have wider rights.
    match File::open(path).and_then(|file| platform::make_private(&file)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(refused(error.to_string()));
        }
        _ => {}
    }
    if let Some(reason) = damage {
        tracing::info!(path = %path.display(), offset, "the history of requests ends early: {reason}");
    }
    Ok(offset)
}

/// Hands the records of a file to `take`, each with the offset behind it. Returns where the last whole frame ends, and what is wrong there
/// if the file does not end there, too. The error is a sentence: the file is not ours.
pub fn read(
    path: &Path,
    mut take: impl FnMut(u64, Record),
) -> Result<(u64, Option<&'static str>), String> {
    let Some(mut frames) = open(path)? else {
        return Ok((0, None));
    };
    loop {
        match frames.next_record() {
            Ok(Some(record)) => take(frames.offset(), record),
            Ok(None) => return Ok((frames.offset(), None)),
            Err(reason) => return Ok((frames.offset(), Some(reason))),
        }
    }
}

type FileFrames = Frames<BufReader<io::Take<File>>>;

/// The frames of a file; `None` if there is none, or not even its header. The error is a sentence: the file is not ours.
fn open(path: &Path) -> Result<Option<FileFrames>, String> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| error.to_string())?,
    };
    // A pipe could make the start wait.
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    // The last write begins before the limit.
    let file = file.take(FILE_BYTES_MAX + WRITE_BYTES_MAX as u64);
    let mut file = BufReader::new(file);
    let mut header = Vec::new();
    let mut start = file.by_ref().take(HEADER.len() as u64);
    start
        .read_to_end(&mut header)
        .map_err(|error| error.to_string())?;
    if header == HEADER {
        return Ok(Some(Frames::new(file)));
    }
    if HEADER.starts_with(&header) {
        return Ok(None);
    }
    Err(if header.starts_with(&HEADER[..MAGIC_BYTES]) {
        "a later release of Lazurite wrote it".to_owned()
    } else {
        "another program wrote it".to_owned()
    })
}

/// Whether a file has the name of one of the history.
pub fn is_history(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| [FILE, FILE_OLDER].contains(&name))
}

#[cfg(test)]
mod tests {
    use super::bytes::tests::record;
    use super::*;
    use lazurite_engine::fs::MemoryFs;
    use std::io::Seek;
    use std::ops::Range;
    use tempfile::TempDir;

    fn ring() -> Arc<Ring> {
        Arc::new(Ring::new(100_000, usize::MAX))
    }

    /// Serves requests with these numbers.
    fn serve(ring: &Ring, numbers: Range<usize>) {
        for number in numbers {
            ring.restore(record(&number.to_string()));
        }
    }

    /// Writes what is new, as the task does.
    fn look(writer: &mut Writer) -> usize {
        let (newest, records) = writer.next_records();
        writer.write(newest, &records);
        assert!(!writer.has_failed);
        records.len()
    }

    /// The ids of the requests that the next start finds.
    fn kept(directory: &Path) -> Vec<String> {
        let ring = ring();
        Writer::open(directory, ring.clone()).unwrap();
        let records = ring.latest(usize::MAX, |record| record.is_earlier);
        let ids = records.iter().rev().map(|record| record.request_id.clone());
        ids.collect()
    }

    fn ids(numbers: Range<usize>) -> Vec<String> {
        numbers.map(|number| number.to_string()).collect()
    }

    #[test]
    fn each_look_writes_the_newest_requests_and_none_twice() {
        let directory = TempDir::new().unwrap();
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        assert_eq!(look(&mut writer), 0);
        assert!(!directory.path().join(FILE).exists());
        serve(&ring, 0..3);
        assert_eq!(look(&mut writer), 3);
        assert_eq!(look(&mut writer), 0);
        serve(&ring, 3..4);
        ring.restore(Record {
            is_of_fork: true,
            ..record("fork")
        });
        assert_eq!(look(&mut writer), 1);
        assert_eq!(kept(directory.path()), ids(0..4));
        serve(&ring, 4..10 * RECORDS_MAX);
        assert_eq!(look(&mut writer), RECORDS_MAX);
        assert_eq!(look(&mut writer), 0);
        let newest = ids(9 * RECORDS_MAX..10 * RECORDS_MAX);
        assert_eq!(kept(directory.path())[4..], newest);
    }

    #[test]
    fn requests_of_a_busy_fork_do_not_displace_those_of_the_store() {
        let directory = TempDir::new().unwrap();
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        serve(&ring, 0..1);
        for _ in 0..2 * RECORDS_MAX {
            ring.restore(Record {
                is_of_fork: true,
                ..record("fork")
            });
        }
        assert_eq!(look(&mut writer), 1);
        assert_eq!(kept(directory.path()), ids(0..1));
    }

    #[test]
    fn the_reserve_of_the_store_stays_free_and_requests_follow_once_there_is_room() {
        let directory = TempDir::new().unwrap();
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        let disk = Arc::new(MemoryFs::volatile_up_to(16 << 20));
        writer.fs = disk.clone();
        serve(&ring, 0..1);
        assert_eq!(look(&mut writer), 1);
        disk.create_directory("/data".as_ref()).unwrap();
        let store = disk.create("/data/1".as_ref()).unwrap();
        store.write_at(&vec![0; 15 << 20], 0).unwrap();
        serve(&ring, 1..3);
        let (newest, records) = writer.next_records();
        writer.write(newest, &records);
        assert!(writer.has_failed);
        assert_eq!(kept(directory.path()), ids(0..1));
        store.set_length(0).unwrap();
        serve(&ring, 3..4);
        assert_eq!(look(&mut writer), 3);
        assert_eq!(kept(directory.path()), ids(0..4));
    }

    #[test]
    fn requests_that_could_not_be_written_are_written_later() {
        let directory = TempDir::new().unwrap();
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        fs::create_dir(directory.path().join(FILE)).unwrap();
        serve(&ring, 0..2);
        let (newest, records) = writer.next_records();
        writer.write(newest, &records);
        assert!(writer.has_failed);
        fs::remove_dir(directory.path().join(FILE)).unwrap();
        assert_eq!(look(&mut writer), 2);
        assert_eq!(look(&mut writer), 0);
        assert_eq!(kept(directory.path()), ids(0..2));
    }

    #[test]
    fn a_file_that_is_emptied_or_removed_while_the_server_runs_is_begun_again() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join(FILE);
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        serve(&ring, 0..1);
        look(&mut writer);
        File::create(&path).unwrap();
        serve(&ring, 1..2);
        look(&mut writer);
        assert_eq!(kept(directory.path()), ids(1..2));
        fs::remove_file(&path).unwrap();
        serve(&ring, 2..3);
        look(&mut writer);
        assert_eq!(kept(directory.path()), ids(2..3));
    }

    #[test]
    fn requests_of_earlier_runs_count_in_no_figure() {
        let directory = TempDir::new().unwrap();
        let before = ring();
        let mut writer = Writer::open(directory.path(), before.clone()).unwrap();
        serve(&before, 0..5);
        look(&mut writer);
        let ring = Arc::new(Ring::new(3, usize::MAX));
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        let totals = ring.totals();
        assert_eq!((totals.seen, totals.errors), (0, 0));
        assert_eq!((totals.kept, totals.kept_earlier), (3, 3));
        assert_eq!(look(&mut writer), 0, "they are in the file");
    }

    #[test]
    fn a_file_that_has_grown_is_replaced_and_one_older_file_stays() {
        let directory = TempDir::new().unwrap();
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        let length =
            |name: &str| fs::metadata(directory.path().join(name)).map(|found| found.len());
        let mut number = 0;
        for _ in 0..3 {
            let mut is_replaced = false;
            while !is_replaced {
                serve(&ring, number..number + RECORDS_MAX);
                number += RECORDS_MAX;
                let before = writer.length;
                look(&mut writer);
                is_replaced = writer.length < before;
            }
        }
        let most = FILE_BYTES_MAX + WRITE_BYTES_MAX as u64;
        assert!((FILE_BYTES_MAX..most).contains(&length(FILE_OLDER).unwrap()));
        assert_eq!(length(FILE).unwrap(), writer.length);
        let found = kept(directory.path());
        let first = found[0].parse().unwrap();
        assert_eq!(found, ids(first..number));
        assert!(first > 0);
    }

    #[test]
    fn what_stands_behind_the_last_whole_frame_is_cut_before_the_next_write() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join(FILE);
        let before = ring();
        let mut writer = Writer::open(directory.path(), before.clone()).unwrap();
        serve(&before, 0..2);
        look(&mut writer);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"torn").unwrap();
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        serve(&ring, 2..3);
        look(&mut writer);
        assert_eq!(kept(directory.path()), ids(0..3));
        // Damage in the middle ends the file there.
        let second = fs::read(&path).unwrap().len() as u64 / 2;
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(io::SeekFrom::Start(second)).unwrap();
        file.write_all(&[0xff; 9]).unwrap();
        let ring = super::tests::ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        serve(&ring, 3..4);
        look(&mut writer);
        assert_eq!(kept(directory.path()), ["0", "3"]);
    }

    #[test]
    fn files_that_are_not_ours_are_left_alone() {
        for name in [FILE, FILE_OLDER] {
            let directory = TempDir::new().unwrap();
            let path = directory.path().join(name);
            for (content, reason) in [
                (&b"a log of another program\n"[..], "another program"),
                (b"LZREQLOG\x02\0\0\0", "later release"),
            ] {
                fs::write(&path, content).unwrap();
                let refused = Writer::open(directory.path(), ring()).err().unwrap();
                assert!(refused.contains(reason), "{refused}");
                assert_eq!(fs::read(&path).unwrap(), content);
            }
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            assert!(Writer::open(directory.path(), ring()).is_err());
        }
        // A file that was cut off in its header is ours.
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join(FILE), &HEADER[..5]).unwrap();
        let ring = ring();
        let mut writer = Writer::open(directory.path(), ring.clone()).unwrap();
        serve(&ring, 0..1);
        look(&mut writer);
        assert_eq!(kept(directory.path()), ids(0..1));
    }

    #[test]
    fn a_file_longer_than_any_is_read_up_to_the_limit() {
        let directory = TempDir::new().unwrap();
        let mut content = HEADER.to_vec();
        while content.len() < 20 << 20 {
            let offset = content.len() as u64;
            push_frame(&record("x"), offset, &mut content);
        }
        fs::write(directory.path().join(FILE), &content).unwrap();
        let ring = ring();
        let writer = Writer::open(directory.path(), ring.clone()).unwrap();
        assert!(writer.length <= FILE_BYTES_MAX + WRITE_BYTES_MAX as u64);
        assert!(ring.totals().kept > 0);
    }
}

//! The journal of a copy, one JSON object on each line. With it, an interrupted copy continues
//! where it stopped.
//!
//! A line records that an item is about to be written, or that it is complete. If the program was
//! killed, the last line may be cut: unreadable lines are skipped, and their items are copied
//! again. Memory holds only hashes of the names and ETags of blobs.

use crate::error::{Error, Result};
use lazurite_base::locks::lock;
use lazurite_services::platform::patiently;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use xxhash_rust::xxh3::xxh3_128;

/// The format version of the journal.
const FORMAT: u64 = 1;
/// Maximum length of a line in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// How far a table was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePlace {
    /// The parameters of the source's next page; `None` if the table is complete.
    pub next: Option<String>,
    pub entities: u64,
}

impl TablePlace {
    /// The place before the first page.
    pub fn beginning() -> TablePlace {
        TablePlace {
            next: Some(String::new()),
            entities: 0,
        }
    }
}

/// The addresses of a source's or a destination's services, for messages.
fn place_of(services: &Value) -> String {
    let services = services.as_object().into_iter().flatten();
    let places = services.filter_map(|(_, place)| place.as_str());
    Vec::from_iter(places).join(", ")
}

/// The progress of earlier runs of a copy, and the file that records the progress of this run.
#[derive(Default)]
pub struct Journal {
    path: PathBuf,
    /// `None`: nothing is recorded.
    file: Option<Mutex<File>>,
    /// Containers, queues and tables that this copy has begun, such as `container photos`.
    begun: HashSet<String>,
    /// Hashes of container and name of blobs that this copy has begun to write.
    begun_blobs: HashSet<u128>,
    /// By the hash of container and name: the hash of the ETags in source and destination.
    blobs: HashMap<u128, u128>,
    /// The queues that were copied, with their numbers of messages.
    queues: HashMap<String, usize>,
    tables: HashMap<String, TablePlace>,
}

impl Journal {
    /// Opens a journal, or makes one. `places` names source and destination. Error: the file is not
    /// a journal, or belongs to another copy.
    pub fn open(path: &Path, places: &Value) -> Result<Journal> {
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let file = patiently(|| options.open(path));
        let mut file = file.map_err(|error| Error::of_file(path, error))?;
        file.try_lock()
            .map_err(|error| format!("{}: another copy may have it: {error}", path.display()))?;
        let mut journal = Journal {
            path: path.to_path_buf(),
            ..Journal::default()
        };
        if journal.read(&file, places)? {
            end_cut_line(&mut file).map_err(|error| Error::of_file(path, error))?;
        } else {
            let head = json!({ "format": FORMAT, "copy": places });
            writeln!(file, "{head}").map_err(|error| Error::of_file(path, error))?;
        }
        journal.file = Some(Mutex::new(file));
        Ok(journal)
    }

    /// Reads the recorded progress. False if the file is empty.
    fn read(&mut self, file: &File, places: &Value) -> Result<bool> {
        let mut reader = BufReader::new(file);
        let mut is_first = true;
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut reader).take(LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut line);
            if read.map_err(|error| Error::of_file(&self.path, error))? == 0 {
                return Ok(!is_first);
            }
            let line: Value = serde_json::from_slice(&line).unwrap_or_default();
            if std::mem::take(&mut is_first) {
                self.check_head(&line, places)?;
            } else {
                self.take_line(&line);
            }
        }
    }

    fn check_head(&self, head: &Value, places: &Value) -> Result<()> {
        let path = self.path.display();
        if head["format"].as_u64() != Some(FORMAT) {
            return Err(format!("{path}: it is no journal of a copy").into());
        }
        if head["copy"] != *places {
            let place = |side: &str| place_of(&head["copy"][side]);
            let (from, to) = (place("from"), place("to"));
            let reason = format!("it is the journal of another copy, from {from} to {to}");
            return Err(format!("{path}: {reason}").into());
        }
        Ok(())
    }

    fn take_line(&mut self, line: &Value) {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        if let Some(name) = text("begun") {
            self.begun.insert(name);
        } else if let Some(name) = text("queue") {
            let messages = line["messages"].as_u64().unwrap_or(0);
            self.queues.insert(name, messages as usize);
        } else if let Some(name) = text("table") {
            let place = TablePlace {
                next: text("next"),
                entities: line["entities"].as_u64().unwrap_or(0),
            };
            self.tables.insert(name, place);
        } else if let (Some(name), Some(etag), Some(copy)) =
            (text("blob"), text("etag"), text("copyEtag"))
        {
            self.blobs.insert(hash(&name), hash_of_etags(&etag, &copy));
        } else if let Some(name) = text("blob") {
            self.begun_blobs.insert(hash(&name));
        }
    }

    fn note(&self, line: &Value) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut file = lock(file);
        // With one call, so that a kill leaves complete lines except perhaps the last.
        file.write_all(format!("{line}\n").as_bytes())
            .map_err(|error| Error::of_file(&self.path, error))
    }

    /// Whether this copy has begun a resource, such as `container photos`.
    pub fn has_begun(&self, resource: &str) -> bool {
        self.begun.contains(resource)
    }

    /// Records that a container, a queue or a table is begun.
    pub fn begin(&self, resource: &str) -> Result<()> {
        if self.has_begun(resource) {
            return Ok(());
        }
        self.note(&json!({ "begun": resource }))
    }

    /// Whether this copy, in this or an earlier run, has begun to write a blob with this name.
    pub fn has_begun_blob(&self, name: &str) -> bool {
        self.begun_blobs.contains(&hash(name)) || self.knows_blob(name)
    }

    /// Records that a blob is about to be written. After a kill, this shows that the blob is ours.
    pub fn begin_blob(&self, name: &str) -> Result<()> {
        if self.has_begun_blob(name) {
            return Ok(());
        }
        self.note(&json!({ "blob": name }))
    }

    /// Whether a blob with this name was copied.
    pub fn knows_blob(&self, name: &str) -> bool {
        self.blobs.contains_key(&hash(name))
    }

    /// Whether the blob with these ETags in source and destination was copied.
    pub fn has_blob(&self, name: &str, etag: &str, copy_etag: &str) -> bool {
        self.blobs.get(&hash(name)) == Some(&hash_of_etags(etag, copy_etag))
    }

    pub fn note_blob(&self, name: &str, etag: &str, copy_etag: &str) -> Result<()> {
        self.note(&json!({ "blob": name, "etag": etag, "copyEtag": copy_etag }))
    }

    /// The number of messages copied into a queue; `None` if it was not copied completely.
    pub fn queue(&self, queue: &str) -> Option<usize> {
        self.queues.get(queue).copied()
    }

    pub fn note_queue(&self, queue: &str, messages: usize) -> Result<()> {
        self.note(&json!({ "queue": queue, "messages": messages }))
    }

    /// How far a table was copied; `None` if the copy was not begun.
    pub fn table(&self, table: &str) -> Option<&TablePlace> {
        self.tables.get(table)
    }

    pub fn note_table(&self, table: &str, place: &TablePlace) -> Result<()> {
        self.note(&json!({ "table": table, "next": place.next, "entities": place.entities }))
    }
}

fn hash(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

fn hash_of_etags(etag: &str, copy: &str) -> u128 {
    hash(&format!("{etag}\n{copy}"))
}

/// Ends an incomplete last line, which a kill has left.
fn end_cut_line(file: &mut File) -> std::io::Result<()> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(());
    }
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_goes_on_after_a_cut_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let places = json!({ "from": "a", "to": "b" });
        let journal = Journal::open(&path, &places).unwrap();
        journal.begin("container c").unwrap();
        journal.note_blob("c/one", "1", "2").unwrap();
        journal.begin_blob("c/begun").unwrap();
        let place = TablePlace {
            next: Some("&NextRowKey=r".to_owned()),
            entities: 7,
        };
        journal.note_table("T", &place).unwrap();
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"blob\":\"c/tw").unwrap();
        drop(file);
        let journal = Journal::open(&path, &places).unwrap();
        journal.note_queue("q", 3).unwrap();
        drop(journal);
        let journal = Journal::open(&path, &places).unwrap();
        assert!(journal.has_begun("container c") && journal.queue("q") == Some(3));
        assert!(journal.has_blob("c/one", "1", "2") && !journal.has_blob("c/one", "1", "3"));
        assert!(!journal.knows_blob("c/two") && !journal.has_begun_blob("c/two"));
        assert!(!journal.knows_blob("c/begun") && journal.has_begun_blob("c/begun"));
        assert_eq!(journal.table("T"), Some(&place));
    }

    #[test]
    fn journal_of_another_copy_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        drop(Journal::open(&path, &json!({ "from": "a" })).unwrap());
        let refused = |places: &Value| Journal::open(&path, places).err().unwrap().to_string();
        assert!(refused(&json!({ "from": "b" })).contains("another copy"));
        std::fs::write(&path, "text\n").unwrap();
        assert!(refused(&json!({ "from": "a" })).contains("no journal"));
    }
}

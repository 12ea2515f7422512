//! The lines that a conversion makes, in files of the layout of an export, one directory for each
//! account.

use crate::fields::at;
use crate::files::without_devices;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

pub struct Staging<'a> {
    root: &'a Path,
    /// The path and file of the last line. Consecutive lines are mostly for the same file.
    open: Option<(String, BufWriter<File>)>,
}

impl Staging<'_> {
    /// `root` must be an empty directory.
    pub fn new(root: &Path) -> Staging<'_> {
        Staging { root, open: None }
    }

    /// Writes the settings of a container, queue or table; a later call replaces those of an
    /// earlier one. `path` must consist of checked names.
    pub fn write_settings(
        &mut self,
        path: &str,
        settings: Map<String, Value>,
    ) -> Result<(), String> {
        self.write(path, Value::from(settings).to_string().as_bytes())
    }

    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.root.join(without_devices(path));
        make_parent(&path)?;
        fs::write(&path, bytes).map_err(|error| at(&path, error))
    }

    /// Appends a line to a file. The names in the path must have been checked.
    pub fn add_line(&mut self, path: &str, line: &str) -> Result<(), String> {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            self.flush()?;
            let whole = self.root.join(without_devices(path));
            make_parent(&whole)?;
            let file = OpenOptions::new().create(true).append(true).open(&whole);
            let file = file.map_err(|error| at(&whole, error))?;
            self.open = Some((path.to_owned(), BufWriter::new(file)));
        }
        let Some((_, file)) = &mut self.open else {
            return Ok(());
        };
        writeln!(file, "{line}").map_err(|error| format!("{path}: {error}"))
    }

    /// A collection of lines that are sorted before they are written to their files.
    pub fn sorted_lines(&self) -> Result<SortedLines, String> {
        let file = tempfile::tempfile_in(self.root).map_err(|error| at(self.root, error))?;
        Ok(SortedLines {
            file: BufWriter::new(file),
            end: 0,
            paths: BTreeMap::new(),
            order: Vec::new(),
        })
    }

    pub fn flush(&mut self) -> Result<(), String> {
        match self.open.take() {
            Some((path, mut file)) => file.flush().map_err(|error| format!("{path}: {error}")),
            None => Ok(()),
        }
    }
}

/// Lines in an unnamed file. Memory holds only the place of each.
pub struct SortedLines {
    file: BufWriter<File>,
    end: u64,
    /// The paths and their indices.
    paths: BTreeMap<String, usize>,
    order: Vec<Place>,
}

/// The place of a line. Places sort by path, then by time, then in the order of adding.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    path: usize,
    time: SystemTime,
    start: u64,
    length: usize,
}

impl SortedLines {
    pub fn add(&mut self, path: String, time: SystemTime, line: &str) -> Result<(), String> {
        let next = self.paths.len();
        let path = *self.paths.entry(path).or_insert(next);
        self.order.push(Place {
            path,
            time,
            start: self.end,
            length: line.len(),
        });
        self.end += line.len() as u64;
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| error.to_string())
    }

    /// Appends the sorted lines to their files.
    pub fn write(mut self, staging: &mut Staging<'_>) -> Result<(), String> {
        let unread = |error: std::io::Error| error.to_string();
        self.order.sort();
        self.file.flush().map_err(unread)?;
        let mut file = self.file.get_ref();
        let paths: BTreeMap<_, _> = self
            .paths
            .iter()
            .map(|(path, number)| (number, path))
            .collect();
        for place in &self.order {
            let mut line = vec![0; place.length];
            file.seek(SeekFrom::Start(place.start)).map_err(unread)?;
            file.read_exact(&mut line).map_err(unread)?;
            let line = String::from_utf8(line).map_err(|error| error.to_string())?;
            if let Some(path) = paths.get(&place.path) {
                staging.add_line(path, &line)?;
            }
        }
        Ok(())
    }
}

fn make_parent(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(|error| at(parent, error)),
        None => Ok(()),
    }
}

//! Extents: files with the contents of many blobs or messages.

use crate::azurite::conversion::Conversion;
use crate::azurite::documents;
use crate::blobs::content::Part;
use crate::fields::at;
use crate::files::Source;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// The id of an extent that has only zeros and no file.
const ZEROS: &str = "*ZERO*";

/// A range of an extent.
#[derive(Deserialize)]
pub struct Range {
    id: String,
    offset: u64,
    pub count: u64,
}

/// The extents of a service.
pub struct Extents {
    directory: &'static str,
    /// The paths of extents whose file is not named after the id.
    paths: HashMap<String, String>,
    /// The lengths of the files found so far, by path.
    lengths: HashMap<String, u64>,
    /// Number of bytes of all files.
    bytes: u64,
}

impl Range {
    /// Whether the range has zeros that no file stores.
    pub fn is_of_zeros(&self) -> bool {
        self.id == ZEROS && self.count > 0
    }
}

#[derive(Deserialize)]
struct Extent {
    id: String,
    path: Option<String>,
}

impl Extents {
    /// Reads the database of a service's extents. Extents that it lacks are found by their id.
    pub fn read(
        conversion: &mut Conversion<'_>,
        database: &str,
        directory: &'static str,
    ) -> Result<Extents, String> {
        let bytes = match bytes_in(&conversion.source.root.join(directory)) {
            Ok(bytes) => bytes,
            Err(error) => {
                conversion.leave_out_unopened(error)?;
                0
            }
        };
        let mut paths = HashMap::new();
        conversion.read(database, &mut |conversion, document| {
            let extent = documents::parse::<Extent>(document);
            if let Some(extent) = conversion.or_leave_out(|| document.place.clone(), extent)
                && let Some(path) = extent.path.filter(|path| *path != extent.id)
            {
                paths.insert(extent.id, path);
            }
            Ok(())
        })?;
        Ok(Extents {
            directory,
            paths,
            lengths: HashMap::new(),
            bytes,
        })
    }

    /// The part of a file that a range names. Error: the extent is missing, cannot be opened, or
    /// ends before the range does.
    pub fn part(&mut self, source: &Source<'_>, range: &Range) -> Result<Part, String> {
        let part = |path| Part {
            path,
            offset: range.offset,
            count: range.count,
        };
        if range.id == ZEROS || range.count == 0 {
            return Ok(part(None));
        }
        let path = self.path(&range.id);
        let length = match self.lengths.get(&path) {
            Some(length) => *length,
            None => {
                let file = open(source, &path, &range.id)?;
                let length = file
                    .metadata()
                    .map_err(|error| format!("{path}: {error}"))?;
                *self.lengths.entry(path.clone()).or_insert(length.len())
            }
        };
        let end = range.offset.checked_add(range.count);
        match end {
            Some(end) if end <= length => Ok(part(Some(path))),
            _ => Err(format!(
                "its extent {:?} has {length} bytes, and it needs {} from byte {} on",
                range.id, range.count, range.offset
            )),
        }
    }

    /// Fails if the parts have more bytes than all extents: some parts then name the same bytes.
    pub fn check(&self, parts: &[Part]) -> Result<(), String> {
        let parts = parts.iter().filter(|part| part.path.is_some());
        let bytes = parts.fold(0u64, |bytes, part| bytes.saturating_add(part.count));
        if bytes > self.bytes {
            return Err(format!(
                "its parts have {bytes} bytes, and all extents have {}",
                self.bytes
            ));
        }
        Ok(())
    }

    /// The bytes of a range. Errors: those of [`Extents::part`]; more than `most` bytes.
    pub fn bytes(
        &mut self,
        source: &Source<'_>,
        range: &Range,
        most: u64,
    ) -> Result<Vec<u8>, String> {
        if range.count > most {
            return Err(format!(
                "it has {} bytes, and {most} are allowed",
                range.count
            ));
        }
        let part = self.part(source, range)?;
        let Some(path) = part.path else {
            let count = usize::try_from(range.count).unwrap_or_default();
            return Ok(vec![0; count]);
        };
        let mut file = open(source, &path, &range.id)?;
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(range.offset))
            .and_then(|_| file.take(range.count).read_to_end(&mut bytes));
        read.map_err(|error| format!("{path}: {error}"))?;
        Ok(bytes)
    }

    fn path(&self, id: &str) -> String {
        let name = self.paths.get(id).map_or(id, String::as_str);
        format!("{}/{name}", self.directory)
    }
}

/// Number of bytes in the files of a directory; 0 if absent. Error: unreadable, or a link.
fn bytes_in(directory: &Path) -> Result<u64, String> {
    let unread = |error| at(directory, error);
    match fs::symlink_metadata(directory) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(format!("{}: it is no directory", directory.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(unread(error)),
    }
    let mut bytes = 0u64;
    for entry in fs::read_dir(directory).map_err(unread)? {
        let metadata = entry.and_then(|entry| entry.metadata()).map_err(unread)?;
        if metadata.is_file() {
            bytes = bytes.saturating_add(metadata.len());
        }
    }
    Ok(bytes)
}

fn open(source: &Source<'_>, path: &str, id: &str) -> Result<File, String> {
    let opened = source.open(path)?;
    opened.ok_or_else(|| format!("its extent {id:?} is missing"))
}

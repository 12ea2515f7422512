//! Extents: the files that hold the contents of blobs and messages, many in one.

use super::super::content::Part;
use super::super::files::Source;
use super::{Conversion, documents};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// The id of zeros that are in no file.
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
    /// Paths of extents that are not their ids.
    paths: HashMap<String, String>,
    /// Lengths of files that were found.
    lengths: HashMap<String, u64>,
}

#[derive(Deserialize)]
struct Extent {
    id: String,
    path: Option<String>,
}

impl Extents {
    /// Reads the database of a service's extents. What it does not name is looked for by its id.
    pub fn read(
        conversion: &mut Conversion<'_>,
        database: &str,
        directory: &'static str,
    ) -> Result<Extents, String> {
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
        })
    }

    /// Where a range lies. Error: the extent is missing, cannot be opened, or ends before the range does.
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

    /// The bytes of a range. Error: as of [`Extents::part`]; there are more than `most`.
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

fn open(source: &Source<'_>, path: &str, id: &str) -> Result<File, String> {
    let opened = source.open(path)?;
    opened.ok_or_else(|| format!("its extent {id:?} is missing"))
}

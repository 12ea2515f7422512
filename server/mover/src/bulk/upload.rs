//! Puts the files of a directory as blobs.

use crate::blobs::content_type::content_type;
use crate::blobs::file::{NewBlob, put_file};
use crate::bulk::place::Place;
use crate::bulk::work::{Outcome, Work};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::parallel::{Hand, in_parallel};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum depth of directories, because they are walked by recursion. A name of 1,024 characters
/// has at most this many segments that are not empty.
const DEPTH_MAX: usize = 512;

/// The files below a directory.
pub struct FileCount {
    pub files: u64,
    pub bytes: u64,
}

/// Counts the files that [`upload`] would put. Error: a directory that cannot be read.
pub fn count_files(directory: &Path) -> Result<FileCount> {
    let mut count = FileCount { files: 0, bytes: 0 };
    walk(directory, "", DEPTH_MAX, &mut |entry| {
        if let Entry::File(file) = entry {
            count.files += 1;
            count.bytes += file.bytes;
        }
        Ok(())
    })?;
    Ok(count)
}

/// Puts each file as a block blob, under its path below the directory, with the content type of
/// its name unless `kind` says another. With `keeps_existing`, blobs that are there stay. Links and
/// names that are no text are left out.
pub fn upload(
    client: &Client,
    directory: &Path,
    to: &Place,
    kind: Option<&str>,
    keeps_existing: bool,
    work: Work,
) -> Outcome {
    let produce = |hand: &mut Hand<'_, FoundFile>| {
        walk(directory, "", DEPTH_MAX, &mut |entry| {
            work.check()?;
            match entry {
                Entry::File(file) => hand(file),
                Entry::Other(sentence) => {
                    work.leave_out(sentence);
                    Ok(())
                }
            }
        })
    };
    let uploaded = in_parallel(produce, |file: FoundFile| {
        work.check()?;
        let place = Place {
            container: to.container.clone(),
            name: format!("{}{}", to.directory(), file.name),
        };
        let blob = NewBlob {
            resource: &place.resource(),
            content_type: kind.unwrap_or_else(|| content_type(&file.name)),
            keeps_existing,
        };
        match put_file(client, &file.path, blob) {
            Ok(bytes) => work.add(bytes),
            Err(error) if error.code() == "BlobAlreadyExists" => work.skip(),
            // The next file would meet it too.
            Err(error) if error.code() == "ContainerNotFound" => return Err(error),
            Err(error) => work.fail(&place.to_string(), error)?,
        }
        Ok(())
    });
    work.end(uploaded, Vec::new())
}

/// A file below the directory.
struct FoundFile {
    path: PathBuf,
    /// Its path below the directory, with slashes.
    name: String,
    bytes: u64,
}

enum Entry {
    File(FoundFile),
    /// A sentence about what is not put.
    Other(String),
}

/// Passes all entries below a directory to `take`, in the order of their names. Holds the names of
/// one directory of each level in memory.
fn walk(
    directory: &Path,
    below: &str,
    depth_left: usize,
    take: &mut dyn FnMut(Entry) -> Result<()>,
) -> Result<()> {
    let unread = |error| Error::of_file(directory, error);
    if depth_left == 0 {
        return Err(format!("{}: the directories are too deep", directory.display()).into());
    }
    let entries = fs::read_dir(directory).map_err(unread)?;
    let names: Result<Vec<OsString>, _> = entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect();
    let mut names = names.map_err(unread)?;
    names.sort();
    for name in names {
        let path = directory.join(&name);
        let other = |reason: &str| Entry::Other(format!("{}: {reason}", path.display()));
        let Some(name) = name.to_str() else {
            take(other("its name is no text"))?;
            continue;
        };
        let metadata = fs::symlink_metadata(&path);
        let metadata = metadata.map_err(|error| Error::of_file(&path, error))?;
        let name = format!("{below}{name}");
        if metadata.is_dir() {
            walk(&path, &format!("{name}/"), depth_left - 1, take)?;
        } else if metadata.is_file() {
            take(Entry::File(FoundFile {
                bytes: metadata.len(),
                name,
                path,
            }))?;
        } else if metadata.is_symlink() {
            take(other("it is a link, and links are not followed"))?;
        } else {
            take(other("it is no file"))?;
        }
    }
    Ok(())
}

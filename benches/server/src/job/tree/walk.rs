//! The directory tree on disk, and the listings by prefix and delimiter that follow from it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lazurite_bench_common::Outcome;

use crate::installed::call;

/// Directories left out: `__pycache__` changes as programs run, `site-packages` is not the standard
/// library.
const SKIPPED: [&str; 2] = ["__pycache__", "site-packages"];

/// A regular file below the root.
pub(crate) struct File {
    /// Path below the root, with `/` between its parts.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) length: u64,
}

/// The directory of python3's own standard library.
pub(super) fn standard_library() -> Outcome<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let path = call(Command::new("python3").args(["-c", ask])).map_err(|error| {
        format!("no tree of files: {error}. python3 on the PATH names its standard library; --tree DIR names another directory")
    })?;
    Ok(path.trim().into())
}

/// The regular files below `root`, in byte order of their names; symbolic links are not followed.
pub(super) fn walk(root: &Path) -> Outcome<Vec<File>> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                directories.push(path);
            } else if kind.is_file() {
                let name = path.strip_prefix(root)?.to_str();
                let name = name
                    .ok_or_else(|| format!("{}: the name is not UTF-8", path.display()))?
                    .to_owned();
                files.push(File {
                    name,
                    length: entry.metadata()?.len(),
                    path,
                });
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Every directory of the tree as a prefix that ends in `/`, and the root as the empty prefix.
/// Sorted.
pub(super) fn directories(files: &[File]) -> Vec<String> {
    let mut found = BTreeSet::from([String::new()]);
    for file in files {
        let ends = file
            .name
            .match_indices('/')
            .map(|(at, _)| file.name[..=at].to_owned());
        found.extend(ends);
    }
    found.into_iter().collect()
}

/// All names that begin with `prefix`, sorted.
pub(super) fn below<'f>(files: &'f [File], prefix: &str) -> &'f [File] {
    let start = files.partition_point(|file| &*file.name < prefix);
    let length = files[start..].partition_point(|file| file.name.starts_with(prefix));
    &files[start..start + length]
}

/// The entries of `directory`: files, and directories as prefixes. Each sorted.
pub(super) fn children<'f>(files: &'f [File], directory: &str) -> (Vec<&'f File>, Vec<String>) {
    let (mut blobs, mut prefixes) = (Vec::new(), Vec::<String>::new());
    for file in below(files, directory) {
        match file.name[directory.len()..].find('/') {
            None => blobs.push(file),
            Some(at) => {
                let prefix = &file.name[..=directory.len() + at];
                if prefixes.last().is_none_or(|last| last != prefix) {
                    prefixes.push(prefix.to_owned());
                }
            }
        }
    }
    (blobs, prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Vec<File> {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "b.py",
            "a/x.py",
            "a/c/y.py",
            "a-1.py",
            "a/__pycache__/x.pyc",
            "B.py",
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        walk(root.path()).unwrap()
    }

    #[test]
    fn the_walk_is_in_byte_order_and_skips_caches() {
        let files = tree();
        let names: Vec<_> = files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["B.py", "a-1.py", "a/c/y.py", "a/x.py", "b.py"]);
        assert_eq!(files[2].length, 8);
    }

    #[test]
    fn children_are_the_blobs_and_prefixes_of_a_delimited_listing() {
        let files = tree();
        assert_eq!(directories(&files), ["", "a/", "a/c/"]);
        let (blobs, prefixes) = children(&files, "");
        assert_eq!(blobs.len(), 3);
        assert_eq!(prefixes, ["a/"]);
        let (blobs, prefixes) = children(&files, "a/");
        assert_eq!(blobs[0].name, "a/x.py");
        assert_eq!(prefixes, ["a/c/"]);
        assert_eq!(below(&files, "a").len(), 3);
        assert!(below(&files, "zz").is_empty());
    }
}

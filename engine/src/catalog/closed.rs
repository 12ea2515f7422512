//! Copies by hard links, and removal, of stores that are not open.
//!
//! The files of a closed store can be linked as they are: opening a store creates new files, and
//! writes to none of the existing ones except LOCK, which is not linked.

use crate::fs::Fs;
use crate::fs::directory::Directory;
use crate::fs::name::FileName;
use crate::{Durability, Result};
use std::path::Path;
use std::sync::Arc;

/// Copies the store in `source`, which must not be open, to `target` by hard links. `target` must
/// be on the same file system, and either absent or empty. The copy is durable on return unless it
/// is for a store at [`Durability::Memory`]. After an error the links made so far are removed if
/// possible.
pub fn copy_store(
    fs: &Arc<dyn Fs>,
    source: &Path,
    target: &Path,
    durability: Durability,
) -> Result<()> {
    let source = Directory::new(fs.clone(), source).at(durability);
    let target = source.beside(target);
    target.make_empty()?;
    let made = target
        .sync_ancestors()
        .and_then(|()| link_all(&source, &target))
        .and_then(|()| target.sync());
    if made.is_err() {
        let _ = remove_files(&target, |_| true);
    }
    made
}

/// Removes all files of the store in `directory`, which must not be open, except LOCK: for a caller
/// that holds the lock and continues to use the directory. Errors: as [`remove_store`].
pub fn clear_store(fs: &Arc<dyn Fs>, directory: &Path) -> Result<()> {
    let directory = Directory::new(fs.clone(), directory);
    remove_files(&directory, |name| name != FileName::Lock)
}

/// Removes the store in `directory`, which must not be open, and the directory itself unless it
/// contains anything else. Tries every file. Errors: that of the first file that could not be
/// removed.
pub fn remove_store(fs: &Arc<dyn Fs>, directory: &Path) -> Result<()> {
    let directory = Directory::new(fs.clone(), directory);
    remove_files(&directory, |_| true)?;
    if directory.list()?.is_empty() {
        directory.remove_self()?;
    }
    Ok(())
}

fn link_all(source: &Directory, target: &Directory) -> Result<()> {
    for name in names(source)? {
        if !matches!(name, FileName::Lock | FileName::CurrentNew) {
            source.link(name, target)?;
        }
    }
    Ok(())
}

/// Removes CURRENT first: a directory without it is no store, even if other files are left.
fn remove_files(directory: &Directory, is_removed: impl Fn(FileName) -> bool) -> Result<()> {
    let mut names = names(directory)?;
    names.retain(|name| is_removed(*name));
    names.sort_by_key(|name| *name != FileName::Current);
    let mut removed = Ok(());
    for name in names {
        removed = removed.and(directory.remove(name));
    }
    removed
}

fn names(directory: &Directory) -> Result<Vec<FileName>> {
    let listed = directory.list()?;
    let names = listed.iter().filter_map(|name| FileName::parse(name));
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemoryFs;
    use crate::fs::environment::Environment;
    use crate::{Batch, Config, Db, KeyspaceOptions};

    fn open(fs: &Arc<dyn Fs>, path: &str) -> Db {
        let environment = Environment::stepped(fs.clone());
        Db::open_with(path.as_ref(), Config::default(), environment).unwrap()
    }

    fn put(db: &Db, key: &[u8], value: &[u8]) {
        let keyspace = db.keyspace("k", KeyspaceOptions::default()).unwrap();
        let mut batch = Batch::new();
        batch.put(&keyspace, key, value);
        db.write(batch).unwrap().wait().unwrap();
    }

    fn get(db: &Db, key: &[u8]) -> Option<Vec<u8>> {
        let keyspace = db.keyspace("k", KeyspaceOptions::default()).unwrap();
        db.get(&keyspace, key).unwrap().map(|value| value.to_vec())
    }

    #[test]
    fn a_copy_of_a_closed_store_and_its_source_do_not_see_each_other() {
        let fs: Arc<dyn Fs> = Arc::new(MemoryFs::volatile());
        let first = open(&fs, "first");
        put(&first, b"small", b"1");
        put(&first, b"large", &[7; 100_000]);
        // The store is neither flushed nor closed, so the copy needs a log.
        first.checkpoint("second".as_ref()).unwrap();
        let durability = Durability::Process;
        copy_store(&fs, "second".as_ref(), "third".as_ref(), durability).unwrap();
        let third = open(&fs, "third");
        put(&third, b"small", b"3");
        for number in 0..2000_u32 {
            put(&third, &number.to_be_bytes(), &[3; 4096]);
        }
        third.close().unwrap();
        let second = open(&fs, "second");
        assert_eq!(get(&second, b"small").unwrap(), b"1");
        assert_eq!(get(&second, b"large").unwrap(), [7; 100_000]);
        assert_eq!(get(&second, &7_u32.to_be_bytes()), None);
        assert!(second.verify().unwrap().damages.is_empty());
        put(&second, b"small", b"2");
        second.close().unwrap();
        assert_eq!(get(&open(&fs, "third"), b"small").unwrap(), b"3");
        assert_eq!(get(&first, b"small").unwrap(), b"1");
    }

    #[test]
    fn a_removed_store_leaves_only_files_of_others() {
        let fs: Arc<dyn Fs> = Arc::new(MemoryFs::volatile());
        for path in ["own", "shared", "locked"] {
            put(&open(&fs, path), b"k", b"v");
        }
        fs.create("shared/notes".as_ref()).unwrap();
        clear_store(&fs, "locked".as_ref()).unwrap();
        assert_eq!(fs.list("locked".as_ref()).unwrap(), ["LOCK"]);
        remove_store(&fs, "own".as_ref()).unwrap();
        remove_store(&fs, "shared".as_ref()).unwrap();
        assert!(fs.list("own".as_ref()).is_err());
        assert_eq!(fs.list("shared".as_ref()).unwrap(), ["notes"]);
    }
}

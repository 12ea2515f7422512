//! LiveFile: an SSTable that a version lists, with its reader.

use crate::Result;
use crate::format::edit::FileMeta;
use crate::tree::cache::Cache;
use crate::tree::sstable::SstableReader;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A live SSTable. Once it is marked obsolete, the drop of the last reference discards its file.
#[derive(Debug)]
pub(crate) struct LiveFile {
    pub(crate) meta: FileMeta,
    obsolete: AtomicBool,
    cache: Arc<Cache>,
    reader: OnceLock<Arc<SstableReader>>,
}

impl LiveFile {
    pub(crate) fn new(meta: FileMeta, cache: Arc<Cache>) -> LiveFile {
        LiveFile {
            meta,
            obsolete: AtomicBool::new(false),
            cache,
            reader: OnceLock::new(),
        }
    }

    /// Call this when no version contains the file any more and the manifest records that durably.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// The reader of the file, opened on the first call.
    pub(crate) fn reader(&self) -> Result<&Arc<SstableReader>> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let opened = Arc::new(SstableReader::open(&self.cache, &self.meta)?);
        let reader = self.reader.get_or_init(|| opened.clone());
        if !Arc::ptr_eq(reader, &opened) {
            // Another thread was faster. Its reservation in the cache suffices.
            self.cache.unpin(opened.pinned_bytes());
        }
        Ok(reader)
    }
}

impl LiveFile {
    /// Opens the file and reads its index now, so that the first reader need not.
    pub(crate) fn warm(&self) {
        // The first reader reports an error of the file.
        if let Ok(reader) = self.reader() {
            reader.warm(&self.cache);
        }
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.get() {
            self.cache.unpin(reader.pinned_bytes());
        }
        if self.obsolete.load(Ordering::Acquire) {
            self.cache.discard(self.meta.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{FaultFs, MemoryFs, Operation};
    use crate::{Batch, Config, Db, Environment, KeyspaceOptions};

    #[test]
    fn two_threads_that_open_a_file_at_once_take_no_memory_for_good() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let environment = Environment::stepped(Arc::new(disk.clone()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        let mut batch = Batch::new();
        batch.put(&keyspace, b"key", b"value");
        drop(db.write(batch).unwrap());
        db.flush(&keyspace).unwrap();
        let meta = keyspace.tree().view().version.levels[0][0].meta.clone();
        let cache = &db.parts().cache;
        let before = cache.figures().0;
        let file = LiveFile::new(meta, cache.clone());
        disk.hold(Some(Operation::Read));
        std::thread::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(|| file.reader().unwrap())));
            while disk.held() < 2 {
                std::thread::yield_now();
            }
            disk.hold(None);
        });
        let pinned = file.reader().unwrap().pinned_bytes();
        assert_eq!(cache.figures().0, before + pinned);
        drop(file);
        assert_eq!(cache.figures().0, before);
    }
}

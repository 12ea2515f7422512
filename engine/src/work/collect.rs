//! Collection: removes value-log segments that nothing refers to.

use crate::Result;
use crate::base::mutex::lock;
use crate::work::Work;

impl Work {
    /// Seals full value-log segments and removes unreferenced ones. Returns whether it did either.
    pub(super) fn collect(&self) -> Result<bool> {
        if !self.parts.value_log.take_collection_request() {
            return Ok(false);
        }
        let collected = self.collect_requested();
        if collected.is_err() {
            self.parts.value_log.request_collection();
        }
        collected
    }

    fn collect_requested(&self) -> Result<bool> {
        let sealed = self.parts.value_log.seal_retired()?;
        let unpinned = self.parts.value_log.unpinned();
        let references = self.parts.trees.value_references();
        self.parts
            .value_log
            .retire_wasteful(&references, self.garbage_percent_max());
        let dead: Vec<u64> = unpinned
            .into_iter()
            .filter(|number| !references.contains_key(number))
            .collect();
        if dead.is_empty() {
            return Ok(sealed);
        }
        // The changes that hide the values of these segments may be only in the log. They must not
        // be lost after the segments are gone, and a replay must not take the log for torn where it
        // points to the segments.
        let sync = self.parts.log.sync();
        sync.sync_all()?;
        let (_, mark) = sync.durable_end();
        let removed = {
            let _removing = lock(&self.removing);
            self.parts.value_log.remove(&dead, mark)?
        };
        tracing::info!(
            segments = removed,
            "removed value-log segments that nothing refers to"
        );
        Ok(sealed || removed > 0)
    }
}

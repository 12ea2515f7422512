//! Checkpoint: a directory of hard links that is a store of its own.
//!
//! SSTables and sealed value-log segments are never written again. A full log segment may be
//! reused, but not once it is linked. So a link to any of them is as good as a copy. The log and
//! the value log first begin new segments. The segments in use until then are linked once their
//! last writers are done. Only background work removes files, and it removes none during a
//! checkpoint.

use crate::base::key::SequenceNumber;
use crate::catalog::manifest::Manifest;
use crate::catalog::parts::Parts;
use crate::catalog::state::ManifestState;
use crate::format::edit::WalMeta;
use crate::fs::directory::Directory;
use crate::fs::name::{FileKind, FileName};
use crate::{Durability, Result};
use std::path::Path;

impl Parts {
    /// Returns the directory at `path` for a checkpoint that will be opened at this durability;
    /// creates it if it is absent. Errors: `UnknownFormat` if it is not empty.
    pub(crate) fn checkpoint_target(
        &self,
        path: &Path,
        durability: Durability,
    ) -> Result<Directory> {
        let target = self.directory.beside(path).at(durability);
        target.make_empty()?;
        Ok(target)
    }

    /// Makes a checkpoint in `target`. The caller must prevent flushes and the removal of files
    /// meanwhile. A compaction that ends meanwhile is not in the copy. `flushed` is `Some` if the
    /// store has no log: the last sequence number in its SSTables.
    pub(crate) fn checkpoint(
        &self,
        target: &Directory,
        flushed: Option<SequenceNumber>,
    ) -> Result<()> {
        let mut state = match flushed {
            Some(last) => self.flushed_state(last),
            None => self.cut(),
        };
        self.value_log
            .seal_all()
            .inspect_err(|error| self.health.note(error))?;
        {
            // Take the current segments and file counter: `seal_all` may have sealed segments that
            // were created after the cut, and `next_file` must be above their numbers.
            let present = &self.catalog.lock().state;
            state.segments = present.segments.clone();
            state.next_file = present.next_file;
        }
        self.log.sync().sync_all()?;
        let made = target
            .sync_ancestors()
            .and_then(|()| self.link(&state, target))
            .and_then(|()| Manifest::draft(target, self.store_id, 0, state).write_new());
        if made.is_err() {
            clear(target);
        }
        made
    }

    /// Ends the log segment in use, and returns the manifest's state for everything before its end.
    /// The copy's manifest names that end, so the caller must make the log durable before it writes
    /// the manifest. If SSTables hold everything, the copy has no log.
    fn cut(&self) -> ManifestState {
        self.log.with_log(|log| {
            log.end_segment();
            if self.trees.are_flushed() {
                return self.flushed_state(log.last_sequence);
            }
            let mut state = self.catalog.lock().state.clone();
            let kept = self.log.segments().keep_used();
            let (last, end) = log.last_batch;
            state
                .wals
                .retain(|number, _| kept.contains(number) && *number <= last);
            if let Some(meta) = state.wals.get_mut(&last) {
                *meta = WalMeta::ended(end);
            }
            state
        })
    }

    /// The state to write to the manifest of a copy whose SSTables hold all changes up to `last`.
    fn flushed_state(&self, last: SequenceNumber) -> ManifestState {
        let mut state = self.catalog.lock().state.clone();
        state.wals.clear();
        state.last_sequence = last;
        state
    }

    fn link(&self, state: &ManifestState, target: &Directory) -> Result<()> {
        let sstables = state
            .keyspaces
            .values()
            .flat_map(|keyspace| keyspace.files.keys());
        // The state lists sealed segments only. Others are still being written.
        let segments = state
            .segments
            .keys()
            .map(|&number| FileName::Numbered(FileKind::ValueLog, number));
        let names = sstables
            .map(|&number| FileName::Numbered(FileKind::Sstable, number))
            .chain(
                state
                    .wals
                    .keys()
                    .map(|&number| FileName::Numbered(FileKind::Wal, number)),
            )
            .chain(segments);
        for name in names {
            self.directory.link(name, target)?;
        }
        Ok(())
    }
}

/// Empties the directory after a failure, so that the next attempt can use it. Files that cannot be
/// removed are left to the operator.
fn clear(target: &Directory) {
    for name in target.list().unwrap_or_default() {
        if let Some(name) = FileName::parse(&name) {
            let _ = target.remove(name);
        }
    }
}

//! Trimming: a file of blocks that several records name keeps every block that one of them lists. When only one record is left, the
//! blocks that it does not list are removed.

use super::new_list::listed_file;
use super::permit::Action;
use super::permit::RecordSlot;
use super::write::BlobWrite;
use crate::error::Result;
use crate::error::corrupt_record;
use crate::keys::Timer;
use crate::keys::{self, File, History};
use crate::model::{Blob, Content, Layer};
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Direction, KeyRange};
use std::collections::HashSet;

impl BlobWrite<'_> {
    /// A record is removed for good. Sets a timer for the sweep to find files that only one record still names.
    pub(crate) fn trim_later(&mut self, kind: History, moment: SnapshotTime, gone: &Blob) {
        if matches!(gone.content, Content::Blocks { .. })
            && gone.layers.iter().any(|layer| layer.shared)
        {
            let key = keys::history(self.home(), kind, &self.name, moment);
            self.set_timer(self.now, Timer::Trim, &key);
        }
    }

    /// Trims the files of the records next to a removed one. A block is listed by consecutive records of a name, so the last record
    /// that names the file is one of them, or a copy under another name, for which `files.rs` sets a timer.
    pub(crate) fn trim_around(&mut self, gone: SnapshotTime) -> Result<()> {
        self.trim_record(RecordSlot::Current)?;
        for kind in [History::Snapshot, History::Version, History::Deleted] {
            for direction in [Direction::Forward, Direction::Backward] {
                if let Some(moment) = self.next_moment(kind, gone, direction)? {
                    self.trim_record(RecordSlot::Past(kind, moment))?;
                }
            }
        }
        Ok(())
    }

    /// The moment of this kind that is nearest to a removed one.
    fn next_moment(
        &self,
        kind: History,
        gone: SnapshotTime,
        direction: Direction,
    ) -> Result<Option<SnapshotTime>> {
        let all = KeyRange::prefix(&keys::history_of(self.home(), kind, &self.name));
        let key = keys::history(self.home(), kind, &self.name, gone);
        let range = match direction {
            Direction::Forward => KeyRange { start: key, ..all },
            Direction::Backward => KeyRange {
                end: Some(key),
                ..all
            },
        };
        let history = &self.service.keyspaces.history;
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(history, range, direction);
        if !rows.advance()? {
            return Ok(None);
        }
        let name = keys::history_name(rows.key());
        let moment = name.and_then(|(_, moment)| moment);
        moment.map(Some).ok_or_else(corrupt_record)
    }

    fn trim_record(&mut self, place: RecordSlot) -> Result<()> {
        let Some(mut blob) = self.past(place)? else {
            return Ok(());
        };
        let Some(listed) = listed_file(&blob) else {
            return Ok(());
        };
        let service = self.service;
        let mut list = None;
        let mut trimmed = false;
        for layer in &mut blob.layers {
            if !layer.shared || service.is_shared(layer)? {
                continue;
            }
            let snapshot = service.db.snapshot();
            if list.is_none() {
                list = Some(service.blocks(&snapshot, listed.committed_from(0))?);
            }
            let blocks = list.iter().flatten();
            let named = blocks.filter(|block| block.file.unwrap_or(listed) == layer.file);
            let mut named: HashSet<u128> = named.map(|block| block.content).collect();
            // Blocks that were put since, and are not listed yet.
            let staged = service.blocks(&snapshot, layer.file.all_uncommitted())?;
            named.extend(staged.iter().map(|block| block.content));
            if layer.file != listed {
                let rows = layer.file.committed_from(0);
                self.rows().delete_blocks(rows);
            }
            self.trim_file(layer, &named)?;
            trimmed = true;
        }
        if trimmed {
            let permit = self.permit(Action::Refile, place, Some(&blob))?;
            self.put(&permit, &blob);
        }
        Ok(())
    }

    /// Drops the contents of a file that are not in `named`; there may be as many as the file ever had blocks. The caller holds the
    /// lock of the only record that names the file. From now on the record's layer says that it is not shared.
    pub(super) fn trim_file(&mut self, layer: &mut Layer, named: &HashSet<u128>) -> Result<()> {
        let keyspaces = &self.service.keyspaces;
        let file: File = layer.file;
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(&keyspaces.content, file.all(), Direction::Forward);
        while rows.advance()? {
            let content = keys::block_content_id(rows.key());
            if content.is_none_or(|content| !named.contains(&content)) {
                self.rows().delete_content(rows.key());
            }
        }
        self.rows()
            .delete_references(KeyRange::prefix(&file.references()));
        // Blocks are put into files of the own container only.
        layer.shared = file.home != self.home();
        Ok(())
    }
}

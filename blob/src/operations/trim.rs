//! Trimming of files of blocks. A file keeps every block that a record lists. When a record is
//! removed, the sweep removes those blocks of its files that no other record lists. When only one
//! record still names a file of its own container, the record's layer is marked as not shared
//! again.

use crate::codec;
use crate::error::{Result, corrupt_record};
use crate::keys::{self, File, History, Timer};
use crate::keyspaces::Source;
use crate::model::{Blob, Content, Layer};
use crate::operations::new_list::listed_file;
use crate::operations::permit::{Action, RecordSlot};
use crate::operations::write::{BlobWrite, LAST};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Direction, KeyRange, Snapshot};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A trim reads no further records once it has read more than this number.
const RECORDS_MAX: usize = 4096;
/// A trim reads no further block lists once it has found more listed blocks than this. The unlisted
/// blocks of the file then stay until fewer records name the file.
const LISTED_MAX: usize = 1 << 18;

/// A record and its place.
type PlacedRecord = (RecordSlot, Box<Blob>);

/// The records that name files, as of a snapshot.
struct Namers<'s> {
    service: &'s BlobService,
    snapshot: Snapshot,
    /// The records of each name, with their places. The key has the id of the container.
    names: HashMap<(u128, String), Vec<PlacedRecord>>,
    records: usize,
    /// The blocks that are named by the lists read so far.
    listed: HashSet<(File, u128)>,
    lists: HashSet<File>,
}

impl BlobService {
    /// Returns the keys of contents that are neither listed by a record nor uncommitted. `gone` is
    /// the moment of a removed record: searches the files of the records around it, or, for
    /// [`LAST`], the files of all records of the name. Needs no lock: no record lists such a
    /// content again.
    pub(crate) fn unlisted_contents(
        &self,
        (home, name): (u128, &str),
        gone: SnapshotTime,
    ) -> Result<Vec<Vec<u8>>> {
        let mut namers = Namers {
            service: self,
            snapshot: self.db.snapshot(),
            names: HashMap::new(),
            records: 0,
            listed: HashSet::new(),
            lists: HashSet::new(),
        };
        namers.read(home, name)?;
        let mut keys = Vec::new();
        for file in namers.files_around(home, name, gone) {
            if namers.read_lists_of(file)? {
                namers.collect_unlisted(file, &mut keys)?;
            }
        }
        Ok(keys)
    }
}

impl Namers<'_> {
    /// Reads the records of a name.
    fn read(&mut self, home: u128, name: &str) -> Result<()> {
        let id = (home, name.to_string());
        if self.names.contains_key(&id) {
            return Ok(());
        }
        let keyspaces = &self.service.keyspaces;
        let current = keyspaces.record(&self.snapshot, home, &keys::blob(home, name))?;
        let mut records = Vec::new();
        if let Some(blob) = current {
            records.push((RecordSlot::Current, blob));
        }
        for kind in [History::Snapshot, History::Version, History::Deleted] {
            let range = KeyRange::prefix(&keys::history_of(home, kind, name));
            let mut rows = self
                .snapshot
                .scan(&keyspaces.history, range, Direction::Forward);
            while self.records + records.len() <= RECORDS_MAX && rows.advance()? {
                let moment = keys::history_name(rows.key()).and_then(|(_, moment)| moment);
                let slot = RecordSlot::Past(kind, moment.ok_or_else(corrupt_record)?);
                records.push((slot, codec::decode_blob(&rows.value()?, home)?));
            }
        }
        self.records += records.len();
        self.names.insert(id, records);
        Ok(())
    }

    /// The shared files of the current blob and of the records next to `gone`; for [`LAST`], those
    /// of all records of the name.
    fn files_around(&self, home: u128, name: &str, gone: SnapshotTime) -> BTreeSet<File> {
        let records = self.names.get(&(home, name.to_string()));
        let records = records.map_or(&[][..], |records| records);
        let is_next = |at: usize, kind: History, moment: SnapshotTime| {
            let beside = match moment.cmp(&gone) {
                Ordering::Less => records.get(at + 1),
                _ => at.checked_sub(1).and_then(|before| records.get(before)),
            };
            match beside {
                Some((RecordSlot::Past(other, beside), _)) if *other == kind => {
                    (moment < gone) != (*beside < gone)
                }
                _ => true,
            }
        };
        let mut files = BTreeSet::new();
        for (at, (slot, blob)) in records.iter().enumerate() {
            let is_around = match *slot {
                RecordSlot::Current => true,
                RecordSlot::Past(kind, moment) => gone == LAST || is_next(at, kind, moment),
            };
            if is_around && matches!(blob.content, Content::Blocks { .. }) {
                let shared = blob.layers.iter().filter(|layer| layer.shared);
                files.extend(shared.map(|layer| layer.file));
            }
        }
        files
    }

    /// Reads the lists of all records that name the file. Returns `false` if the records are not
    /// counted, if not all of them are found, or if the lists are too long.
    fn read_lists_of(&mut self, file: File) -> Result<bool> {
        let keyspaces = &self.service.keyspaces;
        let count = Source::get(&self.snapshot, &keyspaces.references, &file.references())?;
        let Some(count) = count.map(|value| codec::decode_count(&value)).transpose()? else {
            return Ok(false);
        };
        let mut rows = self
            .snapshot
            .scan(&keyspaces.references, file.namers(), Direction::Forward);
        while self.records <= RECORDS_MAX && rows.advance()? {
            let key = keys::namer(rows.key()).ok_or_else(corrupt_record)?;
            let home = keys::container_of(key).ok_or_else(corrupt_record)?;
            let name = keys::blob_name(key).ok_or_else(corrupt_record)?;
            self.read(home, &name)?;
        }
        let names_it = |blob: &&Blob| blob.layers.iter().any(|layer| layer.file == file);
        let records = self.names.values().flatten().map(|(_, blob)| &**blob);
        let records: Vec<&Blob> = records.filter(names_it).collect();
        if records.len() as u64 != count {
            return Ok(false);
        }
        let lists: BTreeSet<File> = records.into_iter().filter_map(listed_file).collect();
        for list in lists {
            if self.listed.len() > LISTED_MAX {
                return Ok(false);
            }
            if self.lists.insert(list) {
                let blocks = self
                    .service
                    .blocks(&self.snapshot, list.committed_from(0))?;
                let listed = blocks.iter();
                let listed = listed.map(|block| (block.file.unwrap_or(list), block.content));
                self.listed.extend(listed);
            }
        }
        Ok(true)
    }

    fn collect_unlisted(&self, file: File, keys: &mut Vec<Vec<u8>>) -> Result<()> {
        let service = self.service;
        let staged = service.blocks(&self.snapshot, file.all_uncommitted())?;
        let staged: HashSet<u128> = staged.iter().map(|block| block.content).collect();
        let content = &service.keyspaces.content;
        let mut rows = self.snapshot.scan(content, file.all(), Direction::Forward);
        while rows.advance()? {
            if let Some(id) = keys::block_content_id(rows.key())
                && !staged.contains(&id)
                && !self.listed.contains(&(file, id))
            {
                keys.push(rows.key().to_vec());
            }
        }
        Ok(())
    }
}

impl BlobWrite<'_> {
    /// Call this when a record is removed for good. Sets a timer for the sweep to trim its files,
    /// unless a trim would find nothing.
    pub(crate) fn trim_later(&mut self, kind: History, moment: SnapshotTime, gone: &Blob) {
        // If the current blob lists the same blocks, a trim would find nothing.
        let is_same_list =
            moment != LAST && self.current().and_then(listed_file) == listed_file(gone);
        if matches!(gone.content, Content::Blocks { .. })
            && gone.layers.iter().any(|layer| layer.shared)
            && !is_same_list
        {
            let key = keys::history(self.home(), kind, &self.name, moment);
            self.set_timer(self.now, Timer::Trim, &key);
        }
    }

    /// Trims the files of the records next to a removed one. A block is listed by consecutive
    /// records of a name, so the last record that names the file is next to the removed one, or it
    /// is a copy under another name, for which `files.rs` sets a timer.
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

    /// The moment of this kind that is nearest to `gone` in one direction.
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
            // Uncommitted blocks are not listed yet, but must stay.
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

    /// Drops the contents of a file that are not in `named`, however many they are. Marks the
    /// record's layer as not shared if the file belongs to the blob's container. The caller must
    /// hold the lock of the blob, whose record must be the only one that names the file.
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
        // Blocks are put only into files of the blob's own container.
        layer.shared = file.home != self.home();
        Ok(())
    }
}

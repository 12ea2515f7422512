//! The walk of a listing of blobs: rows of the requested kinds, merged by name and moment.

use crate::codec;
use crate::error::Result;
use crate::error::corrupt_record;
use crate::keys::{self, History};
use crate::keyspaces::Keyspaces;
use crate::listing::entries::{Entries, Position, Step};
use crate::listing::entry::{BlobEntry, ListBlobs, ListedBlob};
use crate::model::{Blob, PreviousState};
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Direction, KeyRange, Scan, Snapshot};
use std::time::SystemTime;

/// The order of kinds at one moment: kinds of the history by their number, then the current blob.
fn rank(kind: Option<History>) -> u8 {
    kind.map_or(u8::MAX, |kind| kind as u8)
}

/// The moment of the current blob in a position: after all snapshots and versions of the name.
const LAST: SnapshotTime = SnapshotTime(u64::MAX);

impl ListBlobs {
    /// The cursors of the page: one for each kind of rows that the request needs.
    fn cursors(
        &self,
        snapshot: &Snapshot,
        keyspaces: &Keyspaces,
        container_id: u128,
        prefix: &str,
    ) -> Vec<Cursor> {
        let versions = self.versions || self.deleted_with_versions;
        let all = !self.only_deleted;
        let wanted = [
            (Some(History::Snapshot), all && self.snapshots),
            (Some(History::Version), all && versions),
            (Some(History::Deleted), self.deleted || self.only_deleted),
            (Some(History::Uncommitted), all && self.uncommitted),
            (None, all),
        ];
        let cursor = |kind: Option<History>| {
            let (keyspace, start) = match kind {
                Some(kind) => (
                    &keyspaces.history,
                    keys::history_start(container_id, kind, prefix),
                ),
                None => (
                    &keyspaces.blobs,
                    keys::blob_name_start(container_id, prefix),
                ),
            };
            Cursor {
                kind,
                container_id,
                rows: snapshot.scan(keyspace, KeyRange::prefix(&start), Direction::Forward),
                head: None,
                ended: false,
            }
        };
        let wanted = wanted.into_iter().filter(|(_, wanted)| *wanted);
        wanted.map(|(kind, _)| cursor(kind)).collect()
    }
}

/// A walk over the rows of one kind.
struct Cursor {
    /// The kind of the rows; `None` for the current blobs.
    kind: Option<History>,
    container_id: u128,
    rows: Scan,
    head: Option<Position>,
    ended: bool,
}

impl Cursor {
    /// Moves to the next row, unless the cursor is on one already.
    fn load(&mut self, rows_examined: &mut u64) -> Result<()> {
        if self.head.is_some() || self.ended {
            return Ok(());
        }
        if !self.rows.advance()? {
            self.ended = true;
            return Ok(());
        }
        *rows_examined += 1;
        let position = match self.kind {
            Some(_) => keys::history_name(self.rows.key()),
            None => keys::blob_name(self.rows.key()).map(|name| (name, None)),
        };
        let (name, moment) = position.ok_or_else(corrupt_record)?;
        self.head = Some((name, Some((moment.unwrap_or(LAST), rank(self.kind)))));
        Ok(())
    }

    /// Moves to this position or the first one after it; never backwards.
    fn seek(&mut self, to: &Position) {
        let (name, moment) = to;
        let key = match (self.kind, moment) {
            (None, _) => keys::blob_name_start(self.container_id, name),
            (Some(History::Uncommitted), _) => {
                keys::history_start(self.container_id, History::Uncommitted, name)
            }
            (Some(kind), None) => keys::history_start(self.container_id, kind, name),
            (Some(kind), Some((moment, from))) => {
                let moment = if kind as u8 >= *from {
                    *moment
                } else {
                    moment.next()
                };
                keys::history(self.container_id, kind, name, moment)
            }
        };
        self.seek_key(&key);
    }

    /// Moves to the first row of the next name. For histories only.
    fn seek_past_name(&mut self, name: &str) {
        let kind = self.kind.expect("the rows of a history");
        let rows = keys::history_of(self.container_id, kind, name);
        let end = KeyRange::prefix(&rows).end;
        self.seek_key(&end.expect("a name's end is not FF"));
    }

    fn seek_past(&mut self, prefix: &str) {
        let start = match self.kind {
            Some(kind) => keys::history_start(self.container_id, kind, prefix),
            None => keys::blob_name_start(self.container_id, prefix),
        };
        let end = KeyRange::prefix(&start).end;
        let end = end.expect("a key of text has a byte below FF, so it has a successor");
        self.seek_key(&end);
    }

    fn seek_key(&mut self, key: &[u8]) {
        self.rows.seek(key);
        self.head = None;
    }
}

/// A walk over the rows of a container that yields entries.
pub(super) struct Walk<'a> {
    request: &'a ListBlobs,
    snapshot: &'a Snapshot,
    keyspaces: &'a Keyspaces,
    container_id: u128,
    prefix_bytes: usize,
    now: SystemTime,
    /// One cursor for each kind that is read. That of the current blobs, if there is one, is last.
    cursors: Vec<Cursor>,
    pub(super) rows_examined: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        request: &'a ListBlobs,
        (snapshot, keyspaces, container_id): (&'a Snapshot, &'a Keyspaces, u128),
        prefix: &str,
        now: SystemTime,
    ) -> Walk<'a> {
        Walk {
            request,
            snapshot,
            keyspaces,
            container_id,
            prefix_bytes: prefix.len(),
            now,
            cursors: request.cursors(snapshot, keyspaces, container_id, prefix),
            rows_examined: 0,
        }
    }
}

impl Entries for Walk<'_> {
    fn seek(&mut self, to: &Position) -> Result<()> {
        for cursor in &mut self.cursors {
            let stands_for_all = cursor.kind == Some(History::Version) && !self.request.versions;
            match to {
                (name, Some(_)) if stands_for_all => {
                    // All versions of a name are one entry, at the position of the first.
                    cursor.seek(&(name.clone(), None));
                    cursor.load(&mut self.rows_examined)?;
                    if cursor.head.as_ref().is_some_and(|first| first < to) {
                        cursor.seek_past_name(name);
                    }
                }
                _ => cursor.seek(to),
            }
        }
        Ok(())
    }

    /// After a prefix, the walk seeks past all names that begin with the prefix.
    fn next(&mut self) -> Result<Option<(Position, Step)>> {
        let Some(at) = self.first()? else {
            return Ok(None);
        };
        let cursor = &mut self.cursors[at];
        let position = cursor
            .head
            .take()
            .expect("the first cursor stands on a row");
        let kind = cursor.kind;
        let record = match kind {
            Some(History::Uncommitted) => None,
            _ => {
                let value = cursor.rows.value_in_place()?;
                Some(codec::decode_blob(&value, cursor.container_id)?)
            }
        };
        let Some(listed) = self.listed(kind, &position, record)? else {
            return Ok(Some((position, Step::Skipped)));
        };
        let name = &position.0;
        if let Some(group) = group_of(name, self.prefix_bytes, &self.request.delimiter) {
            let group = group.to_string();
            self.seek_past(&group);
            let entry = BlobEntry::Prefix(group.clone());
            return Ok(Some(((group, None), Step::Entry(entry))));
        }
        Ok(Some((position, Step::Entry(BlobEntry::Blob(listed)))))
    }

    fn rows_examined(&self) -> u64 {
        self.rows_examined
    }
}

impl Walk<'_> {
    /// The cursor with the first position; `None` at the end of the walk.
    fn first(&mut self) -> Result<Option<usize>> {
        for cursor in &mut self.cursors {
            cursor.load(&mut self.rows_examined)?;
        }
        let heads = self.cursors.iter().enumerate();
        let heads = heads.filter_map(|(at, cursor)| Some((at, cursor.head.as_ref()?)));
        let first = heads.min_by_key(|(_, position)| *position);
        Ok(first.map(|(at, _)| at))
    }

    /// The entry of a row; `None` if the row is not listed.
    fn listed(
        &mut self,
        kind: Option<History>,
        position: &Position,
        record: Option<Box<Blob>>,
    ) -> Result<Option<ListedBlob>> {
        let listed = ListedBlob {
            name: position.0.clone(),
            blob: None,
            is_current: kind.is_none(),
            deletion_id: match kind {
                Some(History::Deleted) => position.1.map(|(moment, _)| moment),
                _ => None,
            },
            has_versions_only: false,
        };
        match record {
            None => Ok(Some(listed)),
            Some(blob) => self.committed(kind, position, listed, blob),
        }
    }

    /// Completes the entry of a committed blob.
    fn committed(
        &mut self,
        kind: Option<History>,
        position: &Position,
        mut listed: ListedBlob,
        mut blob: Box<Blob>,
    ) -> Result<Option<ListedBlob>> {
        let name = &position.0;
        let gone = blob
            .deleted
            .is_some_and(|deleted| deleted.until <= self.now);
        if gone || blob.is_expired(self.now) {
            return Ok(None);
        }
        match kind {
            Some(History::Version) if !self.request.versions => {
                self.seek_past_versions(name);
                if self.stands_on_current(name) {
                    return Ok(None);
                }
                listed.has_versions_only = true;
            }
            // Another blob has the name now, so the deleted one is listed like a deleted snapshot.
            Some(History::Deleted)
                if blob.previous_state() == PreviousState::Blob && self.has_current(name)? =>
            {
                blob.snapshot = position.1.map(|(moment, _)| moment);
            }
            _ => {}
        }
        if !self.request.metadata {
            blob.metadata.clear();
        }
        blob.is_current = listed.is_current;
        listed.blob = Some(blob);
        Ok(Some(listed))
    }

    /// Whether there is a current blob of that name, listed or not.
    fn has_current(&self, name: &str) -> Result<bool> {
        if !self.request.only_deleted {
            return Ok(self.stands_on_current(name));
        }
        let key = keys::blob(self.container_id, name);
        Ok(self.snapshot.get(&self.keyspaces.blobs, &key)?.is_some())
    }

    /// Whether there is a current blob of that name that the walk has not reached yet.
    fn stands_on_current(&self, name: &str) -> bool {
        let current = self.cursors.last().and_then(|cursor| cursor.head.as_ref());
        current.is_some_and(|(current, _)| current == name)
    }

    fn seek_past_versions(&mut self, name: &str) {
        for cursor in &mut self.cursors {
            if cursor.kind == Some(History::Version) {
                cursor.seek_past_name(name);
            }
        }
    }

    fn seek_past(&mut self, group: &str) {
        for cursor in &mut self.cursors {
            let beyond = |(name, _): &Position| !name.starts_with(group);
            if !cursor.head.as_ref().is_some_and(beyond) {
                cursor.seek_past(group);
            }
        }
    }
}

/// The part of `name` up to and including the first delimiter after the prefix.
fn group_of<'n>(name: &'n str, prefix_bytes: usize, delimiter: &str) -> Option<&'n str> {
    if delimiter.is_empty() {
        return None;
    }
    let at = name.get(prefix_bytes..)?.find(delimiter)?;
    Some(&name[..prefix_bytes + at + delimiter.len()])
}

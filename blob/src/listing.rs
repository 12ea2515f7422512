//! Listings: one page at a time in byte order of names, by prefix, and by delimiter with a seek past each group.

use crate::Keyspaces;
use crate::codec;
use crate::error::{Error, Result};
use crate::keys::{self, History};
use crate::model::{Blob, BlobRecord, Container};
use crate::moment::Moment;
use crate::names;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazurite_engine::{Direction, KeyRange, Keyspace, Scan, Snapshot};
use std::time::SystemTime;

/// Most entries of a page, and how many a page has when the request does not say. Source: List Blobs, `maxresults`.
pub const PAGE_ENTRIES_MAX: u32 = 5000;
/// A page ends early once its names and metadata have this many bytes: names and metadata can be long.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// The request of List Containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListContainers {
    /// Only names that begin with this.
    pub prefix: String,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Most entries of the page, from 1; more than [`PAGE_ENTRIES_MAX`] count as that.
    pub max_results: Option<u32>,
    /// Whether to answer metadata.
    pub metadata: bool,
    /// Whether to list the service's own containers, such as `$logs`.
    pub system: bool,
    /// Whether to list deleted containers that can be restored, after those of their name that are there.
    pub deleted: bool,
}

/// The answer of List Containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListContainersPage {
    /// Name and container, by name. Metadata is empty unless asked for.
    pub containers: Vec<(String, Container)>,
    /// What to ask the next page with; `None` if there is none.
    pub next_marker: Option<String>,
}

/// The request of List Blobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListBlobs {
    /// Only names that begin with this.
    pub prefix: String,
    /// Names that share all up to and including the first of these after the prefix become one entry. Empty: none.
    pub delimiter: String,
    /// Only names from this one on.
    pub start_from: String,
    /// Only names before this one. Empty: all.
    pub end_before: String,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Most entries of the page, blobs and prefixes alike, from 1; more than [`PAGE_ENTRIES_MAX`] count as that.
    pub max_results: Option<u32>,
    /// Whether to answer metadata.
    pub metadata: bool,
    /// Whether to list blobs that have only uncommitted blocks.
    pub uncommitted: bool,
    /// Whether to list snapshots, before the blob of their name.
    pub snapshots: bool,
    /// Whether to list versions that are not the current one, before the blob of their name.
    pub versions: bool,
    /// Whether to list deleted blobs, snapshots and versions that are still kept.
    pub deleted: bool,
    /// Whether to list names that have versions and no blob, once each.
    pub deleted_with_versions: bool,
    /// Whether to list nothing but what is deleted and still kept: `showonly=deleted`. Looks at nothing else.
    pub only_deleted: bool,
}

/// The answer of List Blobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListBlobsPage {
    /// Blobs and prefixes in one sequence, in byte order.
    pub entries: Vec<BlobEntry>,
    /// What to ask the next page with; `None` if there is none. Good for as long as the container is.
    pub next_marker: Option<String>,
    /// Rows of the store that were looked at: what the page cost.
    pub rows_examined: u64,
}

/// One entry of a listing of blobs.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are blobs: a box would cost more than it saves"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobEntry {
    /// A blob.
    Blob(ListedBlob),
    /// What the names of one or more blobs begin with, delimiter included.
    Prefix(String),
}

/// A blob in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBlob {
    /// Its name.
    pub name: String,
    /// The blob; `None` if it has only uncommitted blocks. Metadata is empty unless asked for.
    pub blob: Option<Blob>,
    /// Whether it is the current one of its name, and not a snapshot, an older version or deleted.
    pub is_current: bool,
    /// Whether it stands for a name that has versions and no blob.
    pub has_versions_only: bool,
}

impl ListContainers {
    /// One page of the containers of an account, as of `snapshot`.
    pub(crate) fn page(
        &self,
        snapshot: &Snapshot,
        containers: &Keyspace,
        account: &str,
        now: SystemTime,
    ) -> Result<ListContainersPage> {
        let account_start = keys::account_start(account);
        let range = KeyRange::prefix(&keys::container(account, &self.prefix));
        let mut rows = snapshot.scan(containers, range, Direction::Forward);
        match read_marker(self.marker.as_deref())? {
            Some((name, None)) => rows.seek(&keys::container(account, &name)),
            Some((name, Some(at))) => rows.seek(&keys::deleted_container(account, &name, at)),
            None => {}
        }
        let mut page = Page::new(self.max_results)?;
        while rows.advance()? {
            let key = keys::container_name(rows.key(), &account_start);
            let (name, deleted) = key.ok_or_else(unreadable)?;
            let hidden = names::is_system_container(&name) && !self.system;
            if hidden || (deleted.is_some() && !self.deleted) {
                continue;
            }
            let mut container = codec::decode_container(&rows.value()?)?;
            if container.deleted.is_some_and(|kept| kept.until <= now) {
                continue;
            }
            if !self.metadata {
                container.metadata.clear();
            }
            let position = (name.clone(), deleted);
            let bytes = metadata_bytes(&container.metadata);
            if !page.push((name, container), position, bytes) {
                break;
            }
        }
        Ok(ListContainersPage {
            containers: page.entries,
            next_marker: page.next_marker,
        })
    }
}

impl ListBlobs {
    /// One page of the blobs of a container, as of `snapshot`.
    pub(crate) fn page(
        &self,
        snapshot: &Snapshot,
        keyspaces: &Keyspaces,
        container_id: u128,
        now: SystemTime,
    ) -> Result<ListBlobsPage> {
        let prefix = names::slashes(&self.prefix);
        let mut walk = Walk {
            request: self,
            snapshot,
            keyspaces,
            container_id,
            prefix_bytes: prefix.len(),
            now,
            cursors: self.cursors(snapshot, keyspaces, container_id, &prefix),
            rows_examined: 0,
        };
        let start = (names::slashes(&self.start_from).into_owned(), None);
        let marker = read_marker(self.marker.as_deref())?;
        for from in [Some(start), marker].into_iter().flatten() {
            if !from.0.is_empty() {
                walk.cursors
                    .iter_mut()
                    .for_each(|cursor| cursor.seek(&from));
            }
        }
        let end = names::slashes(&self.end_before).into_owned();
        let mut page = Page::new(self.max_results)?;
        while let Some((entry, position)) = walk.next()? {
            if !end.is_empty() && position.0 >= end {
                break;
            }
            let bytes = match &entry {
                BlobEntry::Blob(ListedBlob {
                    blob: Some(blob), ..
                }) => metadata_bytes(&blob.metadata),
                _ => 0,
            };
            if !page.push(entry, position, bytes) {
                break;
            }
        }
        Ok(ListBlobsPage {
            entries: page.entries,
            next_marker: page.next_marker,
            rows_examined: walk.rows_examined,
        })
    }

    /// What the page is merged from. What is not asked for is not walked.
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

/// Where in a listing something stands: by name, then by moment. Without a moment it is before all of that name.
type Position = (String, Option<Moment>);

/// Where among those of its name the blob itself stands: after its snapshots and versions.
const LAST: Moment = Moment(u64::MAX);

/// A walk over the rows of one kind.
struct Cursor {
    /// `None` for the current blobs.
    kind: Option<History>,
    container_id: u128,
    rows: Scan,
    head: Option<Position>,
    ended: bool,
}

impl Cursor {
    /// Stands on the next row, unless it stands on one already.
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
        let (name, moment) = position.ok_or_else(unreadable)?;
        self.head = Some((name, moment.or(Some(LAST))));
        Ok(())
    }

    /// Goes to what stands at this position or after it; never backwards.
    fn seek(&mut self, to: &Position) {
        let (name, moment) = to;
        let key = match (self.kind, moment) {
            (None, _) => keys::blob_name_start(self.container_id, name),
            (Some(History::Uncommitted), _) => {
                keys::history_start(self.container_id, History::Uncommitted, name)
            }
            (Some(kind), None) => keys::history_start(self.container_id, kind, name),
            (Some(kind), Some(moment)) => keys::history(self.container_id, kind, name, *moment),
        };
        self.seek_key(&key);
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
struct Walk<'a> {
    request: &'a ListBlobs,
    snapshot: &'a Snapshot,
    keyspaces: &'a Keyspaces,
    container_id: u128,
    prefix_bytes: usize,
    now: SystemTime,
    /// The current blobs come last, if they are listed.
    cursors: Vec<Cursor>,
    rows_examined: u64,
}

impl Walk<'_> {
    /// The next entry. After a prefix the walk stands beyond all names that begin with it, without having seen them.
    fn next(&mut self) -> Result<Option<(BlobEntry, Position)>> {
        while let Some(at) = self.first()? {
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
                continue;
            };
            let name = &position.0;
            if let Some(group) = group_of(name, self.prefix_bytes, &self.request.delimiter) {
                let group = group.to_string();
                self.seek_past(&group);
                return Ok(Some((BlobEntry::Prefix(group.clone()), (group, None))));
            }
            return Ok(Some((BlobEntry::Blob(listed), position)));
        }
        Ok(None)
    }

    /// The cursor that stands first.
    fn first(&mut self) -> Result<Option<usize>> {
        for cursor in &mut self.cursors {
            cursor.load(&mut self.rows_examined)?;
        }
        let heads = self.cursors.iter().enumerate();
        let heads = heads.filter_map(|(at, cursor)| Some((at, cursor.head.as_ref()?)));
        let first = heads.min_by_key(|(_, position)| *position);
        Ok(first.map(|(at, _)| at))
    }

    /// What a row stands for, if it is listed.
    fn listed(
        &mut self,
        kind: Option<History>,
        position: &Position,
        record: Option<BlobRecord>,
    ) -> Result<Option<ListedBlob>> {
        let name = &position.0;
        let mut listed = ListedBlob {
            name: name.clone(),
            blob: None,
            is_current: kind.is_none(),
            has_versions_only: false,
        };
        let mut blob = match record {
            None => return Ok(Some(listed)),
            Some(BlobRecord::Uncommitted { .. }) => {
                return Ok(self.request.uncommitted.then_some(listed));
            }
            Some(BlobRecord::Committed(blob)) => blob,
        };
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
            // Another blob has the name since: now it is as if it had been a snapshot.
            Some(History::Deleted)
                if blob.snapshot.is_none()
                    && blob.version.is_none()
                    && self.has_current(name)? =>
            {
                blob.snapshot = position.1;
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

    /// Whether there is a current blob of that name, be it listed or not.
    fn has_current(&self, name: &str) -> Result<bool> {
        if !self.request.only_deleted {
            return Ok(self.stands_on_current(name));
        }
        let key = keys::blob(self.container_id, name);
        Ok(self.snapshot.get(&self.keyspaces.blobs, &key)?.is_some())
    }

    /// Whether there is a current blob of that name, for which the walk has not come yet.
    fn stands_on_current(&self, name: &str) -> bool {
        let current = self.cursors.last().and_then(|cursor| cursor.head.as_ref());
        current.is_some_and(|(current, _)| current == name)
    }

    fn seek_past_versions(&mut self, name: &str) {
        for cursor in &mut self.cursors {
            if cursor.kind == Some(History::Version) {
                let rows = keys::history_of(cursor.container_id, History::Version, name);
                let end = KeyRange::prefix(&rows).end;
                cursor.seek_key(&end.expect("a name's end is not FF"));
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

fn metadata_bytes(metadata: &[(String, String)]) -> usize {
    let bytes = |(name, value): &(String, String)| name.len() + value.len();
    metadata.iter().map(bytes).sum()
}

/// The part of `name` up to and including the first delimiter after the prefix.
fn group_of<'n>(name: &'n str, prefix_bytes: usize, delimiter: &str) -> Option<&'n str> {
    if delimiter.is_empty() {
        return None;
    }
    let at = name.get(prefix_bytes..)?.find(delimiter)?;
    Some(&name[..prefix_bytes + at + delimiter.len()])
}

/// A page as it fills.
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    entries_max: usize,
    bytes: usize,
    pub(crate) next_marker: Option<String>,
}

impl<T> Page<T> {
    pub(crate) fn new(max_results: Option<u32>) -> Result<Page<T>> {
        let entries_max = match max_results.unwrap_or(PAGE_ENTRIES_MAX) {
            0 => {
                return Err(Error::OutOfRangeQueryParameterValue {
                    parameter: "maxresults",
                    value: "0".to_string(),
                    minimum: 1,
                    maximum: PAGE_ENTRIES_MAX.into(),
                });
            }
            some => some.min(PAGE_ENTRIES_MAX) as usize,
        };
        Ok(Page {
            entries: Vec::new(),
            entries_max,
            bytes: 0,
            next_marker: None,
        })
    }

    /// Takes the entry, or if the page is full notes that the next one begins at its position and answers `false`. `bytes` is
    /// what it has besides its name.
    fn push(&mut self, entry: T, position: Position, bytes: usize) -> bool {
        if self.is_full() {
            self.next_marker = Some(write_marker(&position));
            return false;
        }
        self.bytes += position.0.len() + bytes;
        self.entries.push(entry);
        true
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == self.entries_max || self.bytes >= PAGE_BYTES_MAX
    }
}

/// Markers begin with one of these, so that those of another making are told apart: a name, or a name and a moment.
const MARKER_OF_NAME: &str = "1!";
const MARKER_OF_MOMENT: &str = "2!";

/// A marker says at which position the next page begins, in characters that need no escape in a URL.
fn write_marker((name, moment): &Position) -> String {
    let name = URL_SAFE_NO_PAD.encode(name);
    match moment {
        None => format!("{MARKER_OF_NAME}{name}"),
        Some(moment) => format!("{MARKER_OF_MOMENT}{:016x}{name}", moment.0),
    }
}

fn read_marker(marker: Option<&str>) -> Result<Option<Position>> {
    let Some(marker) = marker.filter(|marker| !marker.is_empty()) else {
        return Ok(None);
    };
    let position = parse_marker(marker);
    position
        .map(Some)
        .ok_or_else(|| Error::InvalidQueryParameterValue {
            parameter: "marker",
            value: marker.to_string(),
            reason: "it is not the NextMarker of a page",
        })
}

fn parse_marker(marker: &str) -> Option<Position> {
    let (moment, encoded) = match marker.strip_prefix(MARKER_OF_MOMENT) {
        Some(rest) => {
            let (ticks, encoded) = rest.split_at_checked(16)?;
            let hex = ticks.bytes().all(|byte| byte.is_ascii_hexdigit());
            let ticks = hex.then(|| u64::from_str_radix(ticks, 16).ok())??;
            (Some(Moment(ticks)), encoded)
        }
        None => (None, marker.strip_prefix(MARKER_OF_NAME)?),
    };
    let name = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
    Some((name, moment))
}

pub(crate) fn unreadable() -> Error {
    Error::InternalError {
        reason: "a row's key is not one of this service".to_string(),
    }
}

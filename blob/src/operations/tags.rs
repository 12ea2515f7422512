//! Get and Set Blob Tags, Find Blobs by Tags.

use crate::codec;
use crate::conditions::Conditions;
use crate::error::corrupt_record;
use crate::error::{Error, Result};
use crate::keys::{self, History, Tagged};
use crate::lease::Leased;
use crate::listing::PAGE_ENTRIES_MAX;
use crate::model::{Blob, BlobAddress, BlobState, Container, Tags};
use crate::names;
use crate::operations::permit::Action;
use crate::operations::permit::RecordSlot;
use crate::pager::{Marker, Pager};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use crate::tags::{self, Operator, TagQuery};
use lazurite_engine::{Direction, KeyRange, Scan, Snapshot, Ticket};
use std::time::SystemTime;

/// The request of Find Blobs by Tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindBlobsByTags {
    /// The query: `where`.
    pub query: TagQuery,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Maximum number of blobs of the page, at least 1. A value above [`PAGE_ENTRIES_MAX`] is
    /// lowered to it.
    pub max_results: Option<u32>,
    /// Whether to search versions that are not the current one as well.
    pub versions: bool,
}

/// A found blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedBlob {
    /// The container's name.
    pub container: String,
    /// The blob's name.
    pub name: String,
    /// The version of the blob; `None` if the account kept no versions at the write.
    pub version: Option<SnapshotTime>,
    /// Whether the blob is the current one of its name.
    pub is_current: bool,
    /// The tags of the blob that the search compares.
    pub tags: Tags,
}

/// The answer of Find Blobs by Tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindBlobsByTagsPage {
    /// The blobs, ordered by container, then by the value of the leading tag, then by name;
    /// versions before the current blob.
    pub blobs: Vec<TaggedBlob>,
    /// The marker of the next page; `None` on the last.
    pub next_marker: Option<String>,
    /// Rows of the store that were read: the cost of the page.
    pub rows_examined: u64,
}

impl BlobService {
    /// Returns the blob's tags, by name. Errors: invalid names; `ContainerNotFound`,
    /// `BlobNotFound`; those of read conditions; a lease id that does not match.
    pub fn get_blob_tags(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
    ) -> Result<Tags> {
        Ok(self.find_for_read(address, conditions)?.blob.tags)
    }

    /// Replaces the tags of a blob or of a version. ETag and Last-Modified stay as they are.
    /// Errors: invalid names or tags; `InvalidOperation` for a snapshot; `ContainerNotFound`,
    /// `BlobNotFound`; those of write conditions and leases; `PendingCopyOperation`.
    pub fn set_blob_tags(
        &self,
        address: &BlobAddress<'_>,
        tags: Tags,
        conditions: &Conditions,
    ) -> Result<Ticket> {
        let tags = tags::checked(tags)?;
        let condition = conditions.for_write()?;
        if let BlobState::Snapshot(_) = address.state {
            return Err(Error::InvalidOperation {
                reason: "tags of a snapshot are not set",
            });
        }
        let mut write = self.begin_any_write(address)?;
        let (place, mut blob) = write.find_for_change(address.state, condition)?;
        let permit = write.permit(Action::Set, place, Some(&blob))?;
        conditions.check_tags(&blob.tags)?;
        blob.lease
            .check_write(conditions.lease_id, write.now, Leased::Blob)?;
        if let RecordSlot::Past(_, moment) = place {
            write.index(&blob.tags, &tags, Some(moment));
        }
        blob.tags = tags;
        write.put(&permit, &blob);
        write.commit()
    }

    /// Returns one page of the account's blobs that match the query. The cost grows with the number
    /// of blobs that match the leading comparison. If the query has a comparison for equality, that
    /// is the leading one. Errors: an invalid container name; `OutOfRangeQueryParameterValue`;
    /// `InvalidQueryParameterValue` for a malformed marker; `FeatureNotSupportedInHierarchy` if one of
    /// the containers is hierarchical.
    pub fn find_blobs_by_tags(
        &self,
        account: &str,
        request: &FindBlobsByTags,
    ) -> Result<FindBlobsByTagsPage> {
        let mut search = Search::new(self, request)?;
        let account_start = keys::account_start(account);
        let containers = &self.keyspaces.containers;
        let range = searched_containers(account, &request.query)?;
        let mut rows = search.snapshot.scan(containers, range, Direction::Forward);
        if let Some((container, _)) = &search.from {
            rows.seek(&keys::container(account, container));
        }
        while rows.advance()? {
            let (name, deleted) =
                keys::container_name(rows.key(), &account_start).ok_or_else(corrupt_record)?;
            // A container without a row of the index costs a read as well.
            search.page.rows_examined += 1;
            let here = || Marker::Tag(name.clone(), Vec::new());
            if deleted.is_none() && search.page.is_cut_short(here) {
                break;
            }
            if deleted.is_none() {
                let container = codec::decode_container(&rows.value()?)?;
                check_indexed(&container)?;
                if !search.container(&name, container.id)? {
                    break;
                }
            }
        }
        Ok(FindBlobsByTagsPage {
            blobs: search.page.entries,
            next_marker: search.page.next_marker,
            rows_examined: search.page.rows_examined,
        })
    }

    /// Like [`BlobService::find_blobs_by_tags`], in one container. Error: `ContainerNotFound`.
    pub fn find_blobs_by_tags_in_container(
        &self,
        account: &str,
        container: &str,
        request: &FindBlobsByTags,
    ) -> Result<FindBlobsByTagsPage> {
        self.get_container_properties(account, container)?;
        let mut request = request.clone();
        request.query.container = Some(container.to_string());
        self.find_blobs_by_tags(account, &request)
    }
}

/// Fails for a hierarchical container, which has no index of tags: nothing in it would be found.
fn check_indexed(container: &Container) -> Result<()> {
    match container.hierarchical {
        true => Err(Error::FeatureNotSupportedInHierarchy {
            feature: "a search for tags",
        }),
        false => Ok(()),
    }
}

/// The container that the query names, or all containers of the account.
fn searched_containers(account: &str, query: &TagQuery) -> Result<KeyRange> {
    let Some(name) = &query.container else {
        return Ok(KeyRange::prefix(&keys::account_start(account)));
    };
    names::check_container_name(name)?;
    let start = keys::container(account, name);
    let end = Some([&start[..], &[0]].concat());
    Ok(KeyRange { start, end })
}

/// A page ends once it has examined more rows than this, of containers and of the index.
const ROWS_MAX: u64 = if cfg!(test) { 100 } else { 50_000 };

/// A search in progress.
struct Search<'a> {
    service: &'a BlobService,
    request: &'a FindBlobsByTags,
    snapshot: Snapshot,
    now: SystemTime,
    /// Where the page begins: a container, and a row of the index there. Without a row, it begins
    /// at the first one.
    from: Option<(String, Option<IndexRow>)>,
    page: Pager<TaggedBlob>,
}

impl<'a> Search<'a> {
    fn new(service: &'a BlobService, request: &'a FindBlobsByTags) -> Result<Search<'a>> {
        let page = Pager::new(request.max_results, PAGE_ENTRIES_MAX, ROWS_MAX)?;
        let of_search = |marker| match marker {
            Marker::Tag(container, key) if key.is_empty() => Some((container, None)),
            Marker::Tag(container, key) => Some((container, Some(IndexRow::read(&key)?))),
            _ => None,
        };
        Ok(Search {
            service,
            request,
            snapshot: service.db.snapshot(),
            now: service.now(),
            from: Marker::read(request.marker.as_deref(), of_search)?,
            page,
        })
    }

    /// Adds the matches of a container; `false` once the page is full.
    fn container(&mut self, name: &str, home: u128) -> Result<bool> {
        let marked = self.from.take_if(|(container, _)| container == name);
        let from = marked.and_then(|(_, row)| row);
        let mut cursors = vec![self.cursor(home, Tagged::Current, from.as_ref())];
        if self.request.versions {
            cursors.push(self.cursor(home, Tagged::Versions, from.as_ref()));
        }
        while let Some(row) = self.first(&mut cursors)? {
            let marker = || Marker::Tag(name.to_string(), row.key.clone());
            if self.page.is_cut_short(marker) {
                return Ok(false);
            }
            let Some(found) = self.matching(name, home, &row)? else {
                continue;
            };
            let bytes = found.name.len() + found.container.len();
            if !self.page.push(found, bytes, marker) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A walk over the rows that may match the leading comparison.
    fn cursor(&self, home: u128, of: Tagged, from: Option<&IndexRow>) -> Cursor {
        let query = &self.request.query;
        let leading = query.narrowest();
        let values = |value: &str| keys::tag_values(home, of, &leading.name, value);
        let mut range = KeyRange::prefix(&values(""));
        if leading.operator == Operator::Equal {
            let all = [&values(&leading.value)[..], &[0, 1]].concat();
            range = KeyRange::prefix(&all);
        } else {
            let lower = query
                .of_same_name(leading)
                .filter(|one| one.is_lower_bound());
            let starts = lower.map(|one| values(&one.value));
            range.start = starts.fold(range.start, Vec::max);
        }
        if let Some(IndexRow {
            value,
            blob,
            version,
            ..
        }) = from
        {
            let moment = version.unwrap_or(LAST);
            let version = (of == Tagged::Versions).then_some(moment);
            let key = keys::tag(home, &leading.name, value, blob, version);
            range.start = range.start.max(key);
        }
        let tags = &self.service.keyspaces.tags;
        Cursor {
            rows: self.snapshot.scan(tags, range, Direction::Forward),
            head: None,
            ended: false,
        }
    }

    /// Takes the first row of all cursors; `None` at the end.
    fn first(&mut self, cursors: &mut [Cursor]) -> Result<Option<IndexRow>> {
        for cursor in cursors.iter_mut() {
            self.page.rows_examined += u64::from(cursor.load(&self.request.query)?);
        }
        let heads = cursors.iter().enumerate();
        let heads = heads.filter_map(|(at, cursor)| Some((at, cursor.head.as_ref()?.place())));
        let first = heads.min_by_key(|(_, place)| *place).map(|(at, _)| at);
        Ok(first.and_then(|at| cursors[at].head.take()))
    }

    fn matching(&self, container: &str, home: u128, row: &IndexRow) -> Result<Option<TaggedBlob>> {
        let keyspaces = &self.service.keyspaces;
        let blob = match row.version {
            Some(moment) => {
                let key = keys::history(home, History::Version, &row.blob, moment);
                keyspaces.past(&self.snapshot, home, &key)?
            }
            None => keyspaces.record(&self.snapshot, home, &keys::blob(home, &row.blob))?,
        };
        let query = &self.request.query;
        let found = |blob: &Blob| !blob.is_expired(self.now) && query.holds(&blob.tags);
        Ok(blob.filter(|blob| found(blob)).map(|blob| TaggedBlob {
            container: container.to_string(),
            name: row.blob.clone(),
            version: blob.version,
            is_current: row.version.is_none(),
            tags: query.compared(&blob.tags),
        }))
    }
}

/// The moment of the current blob in the order of a name: after all versions.
const LAST: SnapshotTime = SnapshotTime(u64::MAX);

/// A row of the index of tags.
#[derive(Debug)]
struct IndexRow {
    key: Vec<u8>,
    value: String,
    blob: String,
    /// The moment of the version; `None` for the current blob.
    version: Option<SnapshotTime>,
}

impl IndexRow {
    fn read(key: &[u8]) -> Option<IndexRow> {
        let (value, blob, version) = keys::tagged(key)?;
        Some(IndexRow {
            key: key.to_vec(),
            value,
            blob,
            version,
        })
    }

    fn place(&self) -> (&str, &str, u64) {
        (&self.value, &self.blob, self.version.unwrap_or(LAST).0)
    }
}

/// A walk over the rows of one kind.
struct Cursor {
    rows: Scan,
    head: Option<IndexRow>,
    ended: bool,
}

impl Cursor {
    /// Moves to the next row, unless the cursor is on one already. Returns whether it has read one.
    fn load(&mut self, query: &TagQuery) -> Result<bool> {
        if self.head.is_some() || self.ended {
            return Ok(false);
        }
        if !self.rows.advance()? {
            self.ended = true;
            return Ok(false);
        }
        let row = IndexRow::read(self.rows.key()).ok_or_else(corrupt_record)?;
        // Values ascend: after a value past the comparison's bound, all are past it.
        let mut upper = query
            .of_same_name(query.narrowest())
            .filter(|one| one.is_upper_bound());
        self.ended = upper.any(|one| !one.admits(&row.value));
        self.head = Some(row).filter(|_| !self.ended);
        Ok(true)
    }
}

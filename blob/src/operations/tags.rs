//! Get and Set Blob Tags, Find Blobs by Tags.

use crate::BlobService;
use crate::codec;
use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::keys;
use crate::lease::Leased;
use crate::listing::{PAGE_ENTRIES_MAX, unreadable};
use crate::model::{BlobAddress, BlobRecord, BlobState, Tags};
use crate::names;
use crate::tags::{self, Operator, TagQuery};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazurite_engine::{Direction, KeyRange, Snapshot, Ticket};
use std::time::SystemTime;

/// The request of Find Blobs by Tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindBlobsByTags {
    /// What is searched for: `where`.
    pub query: TagQuery,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Most blobs of the page, from 1; more than [`PAGE_ENTRIES_MAX`] count as that.
    pub max_results: Option<u32>,
}

/// A blob that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedBlob {
    /// The container's name.
    pub container: String,
    /// The blob's name.
    pub name: String,
    /// Those of its tags that the search compares.
    pub tags: Tags,
}

/// The answer of Find Blobs by Tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindBlobsByTagsPage {
    /// By container, then in the order of the tag that the search is led by.
    pub blobs: Vec<TaggedBlob>,
    /// What to ask the next page with; `None` if there is none.
    pub next_marker: Option<String>,
    /// Rows of the store that were looked at: what the page cost.
    pub rows_examined: u64,
}

impl BlobService {
    /// The blob's tags, by name. Of the conditions, a read's and the tags' count.
    /// Errors: as [`BlobService::get_blob_properties`].
    pub fn get_blob_tags(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<Tags> {
        let (_, _, blob) = self.find_for_read(address, conditions, now)?;
        Ok(blob.tags)
    }

    /// Replaces the tags of a blob or of a version. Its validators stay as they are.
    /// Errors: of the names and tags; `InvalidOperation` for a snapshot; `ContainerNotFound`, `BlobNotFound`; those of the
    /// conditions of a write and of leases.
    pub fn set_blob_tags(
        &self,
        address: &BlobAddress<'_>,
        tags: Tags,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<Ticket> {
        let tags = tags::checked(tags)?;
        let condition = conditions.for_write()?;
        if let BlobState::Snapshot(_) = address.state {
            return Err(Error::InvalidOperation {
                reason: "tags of a snapshot are not set",
            });
        }
        let mut write = self.begin_any_write(address, now)?;
        let (place, mut blob) = write.find_for_change(address.state, condition)?;
        conditions.check_tags(&blob.tags)?;
        blob.lease
            .check_write(conditions.lease_id, now, Leased::Blob)?;
        blob.tags = tags;
        write.put(place, &blob);
        write.commit()
    }

    /// One page of the account's current blobs whose tags are as searched for. Costs in proportion to the blobs that meet the
    /// comparison which the search is led by: one for equality if there is any.
    /// Errors: of the container's name; `OutOfRangeQueryParameterValue`; `InvalidQueryParameterValue` for a marker that is none.
    pub fn find_blobs_by_tags(
        &self,
        account: &str,
        request: &FindBlobsByTags,
        now: SystemTime,
    ) -> Result<FindBlobsByTagsPage> {
        let mut search = Search::new(self, request, now)?;
        let account_start = keys::account_start(account);
        let containers = &self.keyspaces.containers;
        let range = match &request.query.container {
            Some(name) => {
                names::check_container_name(name)?;
                let key = keys::container(account, name);
                let end = [&key[..], &[0]].concat();
                KeyRange {
                    start: key,
                    end: Some(end),
                }
            }
            None => KeyRange::prefix(&account_start),
        };
        let mut rows = search.snapshot.scan(containers, range, Direction::Forward);
        if let Some((container, _)) = &search.from {
            rows.seek(&keys::container(account, container));
        }
        while rows.advance()? {
            let (name, deleted) =
                keys::container_name(rows.key(), &account_start).ok_or_else(unreadable)?;
            if deleted.is_none() {
                let container = codec::decode_container(&rows.value()?)?;
                if !search.container(&name, container.id)? {
                    break;
                }
            }
        }
        Ok(search.page)
    }

    /// As [`BlobService::find_blobs_by_tags`], in one container. Error: `ContainerNotFound`.
    pub fn find_blobs_by_tags_in_container(
        &self,
        account: &str,
        container: &str,
        request: &FindBlobsByTags,
        now: SystemTime,
    ) -> Result<FindBlobsByTagsPage> {
        self.get_container_properties(account, container)?;
        let mut request = request.clone();
        request.query.container = Some(container.to_string());
        self.find_blobs_by_tags(account, &request, now)
    }
}

/// A search under way.
struct Search<'a> {
    service: &'a BlobService,
    request: &'a FindBlobsByTags,
    snapshot: Snapshot,
    now: SystemTime,
    /// The container, and the key in the index, at which the page begins.
    from: Option<(String, Vec<u8>)>,
    blobs_max: usize,
    page: FindBlobsByTagsPage,
}

impl<'a> Search<'a> {
    fn new(
        service: &'a BlobService,
        request: &'a FindBlobsByTags,
        now: SystemTime,
    ) -> Result<Search<'a>> {
        if request.max_results == Some(0) {
            return Err(Error::OutOfRangeQueryParameterValue {
                parameter: "maxresults",
                value: "0".to_string(),
                minimum: 1,
                maximum: PAGE_ENTRIES_MAX.into(),
            });
        }
        Ok(Search {
            service,
            request,
            snapshot: service.db.snapshot(),
            now,
            from: read_marker(request.marker.as_deref())?,
            blobs_max: request
                .max_results
                .unwrap_or(u32::MAX)
                .min(PAGE_ENTRIES_MAX) as usize,
            page: FindBlobsByTagsPage::default(),
        })
    }

    /// Adds what is found in the container; `false` once the page is full.
    fn container(&mut self, name: &str, home: u128) -> Result<bool> {
        let leading = self.request.query.narrowest();
        let exact = match leading.operator {
            Operator::Equal => Some(&leading.value),
            _ => None,
        };
        let mut start = keys::tag_values(home, &leading.name, exact.map_or("", |value| value));
        if exact.is_some() {
            start.extend_from_slice(&[0, 1]);
        }
        let tags = &self.service.keyspaces.tags;
        let range = KeyRange::prefix(&start);
        let mut rows = self.snapshot.scan(tags, range, Direction::Forward);
        let lowest = match leading.operator {
            Operator::Greater | Operator::GreaterOrEqual => {
                Some(keys::tag_values(home, &leading.name, &leading.value))
            }
            _ => None,
        };
        let marked = self.from.take_if(|(container, _)| container == name);
        if let Some(key) = marked.map(|(_, key)| key).max(lowest) {
            rows.seek(&key);
        }
        while rows.advance()? {
            self.page.rows_examined += 1;
            let (value, blob) = keys::tagged(rows.key()).ok_or_else(unreadable)?;
            let beyond = matches!(leading.operator, Operator::Less | Operator::LessOrEqual);
            if beyond && !leading.admits(&value) {
                break;
            }
            let Some(found) = self.matching(name, home, blob)? else {
                continue;
            };
            if self.page.blobs.len() == self.blobs_max {
                self.page.next_marker = Some(write_marker(name, rows.key()));
                return Ok(false);
            }
            self.page.blobs.push(found);
        }
        Ok(true)
    }

    fn matching(&self, container: &str, home: u128, name: String) -> Result<Option<TaggedBlob>> {
        let key = keys::blob(home, &name);
        let keyspaces = &self.service.keyspaces;
        let Some(BlobRecord::Committed(blob)) = keyspaces.record(&self.snapshot, home, &key)?
        else {
            return Ok(None);
        };
        if blob.is_expired(self.now) || !self.request.query.holds(&blob.tags) {
            return Ok(None);
        }
        Ok(Some(TaggedBlob {
            container: container.to_string(),
            name,
            tags: self.request.query.compared(&blob.tags),
        }))
    }
}

/// What a marker of a search begins with.
const MARKER_VERSION: &str = "1!";

fn write_marker(container: &str, key: &[u8]) -> String {
    format!(
        "{MARKER_VERSION}{container}!{}",
        URL_SAFE_NO_PAD.encode(key)
    )
}

fn read_marker(marker: Option<&str>) -> Result<Option<(String, Vec<u8>)>> {
    let Some(marker) = marker.filter(|marker| !marker.is_empty()) else {
        return Ok(None);
    };
    let parse = || {
        let (container, key) = marker.strip_prefix(MARKER_VERSION)?.split_once('!')?;
        let key = URL_SAFE_NO_PAD.decode(key).ok()?;
        Some((container.to_string(), key))
    };
    parse()
        .map(Some)
        .ok_or_else(|| Error::InvalidQueryParameterValue {
            parameter: "marker",
            value: marker.to_string(),
            reason: "it is not the NextMarker of a page",
        })
}

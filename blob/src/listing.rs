//! Listings: one page at a time in byte order of names, by prefix, and by delimiter with a seek past each group.

use crate::codec;
use crate::error::{Error, Result};
use crate::keys;
use crate::model::{Blob, BlobRecord, Container};
use crate::names;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazurite_engine::{Direction, KeyRange, Keyspace, Scan, Snapshot};

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
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Most entries of the page, blobs and prefixes alike, from 1; more than [`PAGE_ENTRIES_MAX`] count as that.
    pub max_results: Option<u32>,
    /// Whether to answer metadata.
    pub metadata: bool,
    /// Whether to list blobs that have only uncommitted blocks.
    pub uncommitted: bool,
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
}

impl ListContainers {
    /// One page of the containers of an account, as of `snapshot`.
    pub(crate) fn page(
        &self,
        snapshot: &Snapshot,
        containers: &Keyspace,
        account: &str,
    ) -> Result<ListContainersPage> {
        let account_start = keys::account_start(account);
        let range = KeyRange::prefix(&keys::container(account, &self.prefix));
        let mut rows = snapshot.scan(containers, range, Direction::Forward);
        if let Some(name) = read_marker(self.marker.as_deref())? {
            rows.seek(&keys::container(account, &name));
        }
        let mut page = Page::new(self.max_results)?;
        while rows.advance()? {
            let name = keys::container_name(rows.key(), &account_start).ok_or_else(unreadable)?;
            if names::is_system_container(&name) && !self.system {
                continue;
            }
            let mut container = codec::decode_container(&rows.value()?)?;
            if !self.metadata {
                container.metadata.clear();
            }
            if !page.push((name, container)) {
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
        blobs: &Keyspace,
        container_id: u128,
    ) -> Result<ListBlobsPage> {
        let prefix = names::slashes(&self.prefix);
        let range = KeyRange::prefix(&keys::blob_name_start(container_id, &prefix));
        let mut walk = Walk {
            request: self,
            prefix_bytes: prefix.len(),
            container_id,
            rows: snapshot.scan(blobs, range, Direction::Forward),
            rows_examined: 0,
        };
        if let Some(name) = read_marker(self.marker.as_deref())? {
            walk.rows.seek(&keys::blob_name_start(container_id, &name));
        }
        let mut page = Page::new(self.max_results)?;
        while let Some(entry) = walk.next()? {
            if !page.push(entry) {
                break;
            }
        }
        Ok(ListBlobsPage {
            entries: page.entries,
            next_marker: page.next_marker,
            rows_examined: walk.rows_examined,
        })
    }
}

/// A walk over the rows of a container that yields entries.
struct Walk<'a> {
    request: &'a ListBlobs,
    prefix_bytes: usize,
    container_id: u128,
    rows: Scan,
    rows_examined: u64,
}

impl Walk<'_> {
    /// The next entry. After a prefix the walk stands beyond all names that begin with it, without having seen them.
    fn next(&mut self) -> Result<Option<BlobEntry>> {
        while self.rows.advance()? {
            self.rows_examined += 1;
            let name = keys::blob_name(self.rows.key()).ok_or_else(unreadable)?;
            let record = codec::decode_blob(&self.rows.value()?)?;
            if record.committed().is_none() && !self.request.uncommitted {
                continue;
            }
            if let Some(group) = group_of(&name, self.prefix_bytes, &self.request.delimiter) {
                self.seek_past(group);
                return Ok(Some(BlobEntry::Prefix(group.to_string())));
            }
            return Ok(Some(BlobEntry::Blob(self.listed(name, record))));
        }
        Ok(None)
    }

    fn listed(&self, name: String, record: BlobRecord) -> ListedBlob {
        let mut blob = match record {
            BlobRecord::Committed(blob) => Some(blob),
            BlobRecord::Uncommitted { .. } => None,
        };
        if let (Some(blob), false) = (&mut blob, self.request.metadata) {
            blob.metadata.clear();
        }
        ListedBlob { name, blob }
    }

    fn seek_past(&mut self, group: &str) {
        let members = KeyRange::prefix(&keys::blob_name_start(self.container_id, group));
        let end = members
            .end
            .expect("a key of text has a byte below FF, so it has a successor");
        self.rows.seek(&end);
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

/// What can stand in a page.
trait Entry {
    fn name(&self) -> &str;
    fn metadata(&self) -> &[(String, String)];
}

impl Entry for BlobEntry {
    fn name(&self) -> &str {
        match self {
            BlobEntry::Blob(listed) => &listed.name,
            BlobEntry::Prefix(prefix) => prefix,
        }
    }

    fn metadata(&self) -> &[(String, String)] {
        match self {
            BlobEntry::Blob(ListedBlob {
                blob: Some(blob), ..
            }) => &blob.metadata,
            _ => &[],
        }
    }
}

impl Entry for (String, Container) {
    fn name(&self) -> &str {
        &self.0
    }

    fn metadata(&self) -> &[(String, String)] {
        &self.1.metadata
    }
}

/// A page as it fills.
struct Page<T> {
    entries: Vec<T>,
    entries_max: usize,
    bytes: usize,
    next_marker: Option<String>,
}

impl<T: Entry> Page<T> {
    fn new(max_results: Option<u32>) -> Result<Page<T>> {
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

    /// Takes the entry, or if the page is full notes that the next one begins there and answers `false`.
    fn push(&mut self, entry: T) -> bool {
        if self.entries.len() == self.entries_max || self.bytes >= PAGE_BYTES_MAX {
            self.next_marker = Some(write_marker(entry.name()));
            return false;
        }
        let metadata = entry.metadata().iter();
        self.bytes += metadata
            .map(|(name, value)| name.len() + value.len())
            .sum::<usize>();
        self.bytes += entry.name().len();
        self.entries.push(entry);
        true
    }
}

/// Markers begin with this, so that those of another making are told apart.
const MARKER_VERSION: &str = "1!";

/// A marker says at which name the next page begins, in characters that need no escape in a URL.
fn write_marker(name: &str) -> String {
    format!("{MARKER_VERSION}{}", URL_SAFE_NO_PAD.encode(name))
}

fn read_marker(marker: Option<&str>) -> Result<Option<String>> {
    let Some(marker) = marker.filter(|marker| !marker.is_empty()) else {
        return Ok(None);
    };
    let name = marker
        .strip_prefix(MARKER_VERSION)
        .and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok());
    name.map(Some)
        .ok_or_else(|| Error::InvalidQueryParameterValue {
            parameter: "marker",
            value: marker.to_string(),
            reason: "it is not the NextMarker of a page",
        })
}

fn unreadable() -> Error {
    Error::InternalError {
        reason: "a row's key is not one of this service".to_string(),
    }
}

//! Listings: one page at a time in byte order of names, by prefix, and by delimiter with a seek
//! past each group.

mod entries;
mod entry;
mod tree;
mod walk;

pub use entry::{BlobEntry, ListBlobs, ListPaths, ListedBlob, PathKind};

use crate::access::Caller;
use crate::codec;
use crate::error::{Error, Result, corrupt_record};
use crate::keys;
use crate::keyspaces::Keyspaces;
use crate::model::{Blob, BlobAddress, Container};
use crate::names;
use crate::pager::{Marker, Pager};
use crate::service::BlobService;
use entries::{Entries, Position, Step};
use lazurite_engine::{Direction, KeyRange, Keyspace, Snapshot};
use std::time::SystemTime;
pub(crate) use tree::check_listable;
use tree::{Shown, Tree, TreeWalk};
use walk::Walk;

/// Maximum number of entries per page; also the number if the request gives none. Source: List
/// Blobs, `maxresults`.
pub const PAGE_ENTRIES_MAX: u32 = 5000;

/// A page ends once it has examined more rows than this, listed or not.
const ROWS_MAX: u64 = if cfg!(test) { 1000 } else { 50_000 };

/// The request of List Containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListContainers {
    /// Only names that begin with this prefix.
    pub prefix: String,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Maximum number of entries of the page, at least 1. A value above [`PAGE_ENTRIES_MAX`] is
    /// lowered to it.
    pub max_results: Option<u32>,
    /// Whether to return metadata.
    pub metadata: bool,
    /// Whether to list the service's own containers, such as `$logs`.
    pub system: bool,
    /// Also list deleted containers that can be restored, after the existing ones of their name.
    pub deleted: bool,
}

/// The answer of List Containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListContainersPage {
    /// Name and container, by name. Metadata is empty unless requested.
    pub containers: Vec<(String, Container)>,
    /// The marker of the next page; `None` on the last.
    pub next_marker: Option<String>,
}

/// The answer of List Blobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListBlobsPage {
    /// Blobs and prefixes in one sequence, in byte order.
    pub entries: Vec<BlobEntry>,
    /// The marker of the next page; `None` on the last. Valid as long as the container exists.
    pub next_marker: Option<String>,
    /// Rows of the store that were read: the cost of the page.
    pub rows_examined: u64,
}

/// What [`BlobService::visit_paths`] comes to.
pub(crate) enum Visited<'a> {
    /// A file or directory, with its path.
    Path(&'a str, &'a Blob),
    /// A directory that the caller may not list, by its path with a slash at the end.
    Unlisted(&'a str),
}

/// How [`BlobService::visit_paths`] goes on.
pub(crate) enum Next {
    /// To the next path.
    On,
    /// To the next path; the visited directory was changed, and has this record now.
    Below(Box<Blob>),
    /// Nowhere.
    Stop,
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
        match Marker::read(self.marker.as_deref(), position)? {
            Some((name, None)) => rows.seek(&keys::container(account, &name)),
            Some((name, Some((at, _)))) => {
                rows.seek(&keys::deleted_container(account, &name, at));
            }
            None => {}
        }
        let mut page = Pager::new(self.max_results, PAGE_ENTRIES_MAX, ROWS_MAX)?;
        while rows.advance()? {
            page.rows_examined += 1;
            let key = keys::container_name(rows.key(), &account_start);
            let (name, deleted) = key.ok_or_else(corrupt_record)?;
            let marker = || Marker::Name(name.clone(), deleted.map(|at| (at, 0)));
            if page.is_cut_short(marker) {
                break;
            }
            let hidden = names::is_system_container(&name) && !self.system;
            if hidden || (deleted.is_some() && !self.deleted) {
                continue;
            }
            let Some(container) = self.listed(&rows.value()?, now)? else {
                continue;
            };
            let bytes = name.len() + metadata_bytes(&container.metadata);
            if !page.push((name.clone(), container), bytes, marker) {
                break;
            }
        }
        Ok(ListContainersPage {
            containers: page.entries,
            next_marker: page.next_marker,
        })
    }

    /// The container of a row; `None` if it was deleted and can no longer be restored.
    fn listed(&self, value: &[u8], now: SystemTime) -> Result<Option<Container>> {
        let mut container = codec::decode_container(value)?;
        if container.deleted.is_some_and(|kept| kept.until <= now) {
            return Ok(None);
        }
        if !self.metadata {
            container.metadata.clear();
        }
        Ok(Some(container))
    }
}

impl ListBlobs {
    /// Moves to where the page begins: `startFrom` or the marker, whichever is later.
    fn seek_start(&self, walk: &mut impl Entries) -> Result<()> {
        let start = (names::slashes(&self.start_from).into_owned(), None);
        let marker = Marker::read(self.marker.as_deref(), position)?;
        match marker.map_or(start.clone(), |marker| marker.max(start)) {
            from if from.0.is_empty() => Ok(()),
            from => walk.seek(&from),
        }
    }

    /// One page of the blobs of a container, as of `snapshot`.
    pub(crate) fn page(
        &self,
        snapshot: &Snapshot,
        keyspaces: &Keyspaces,
        container_id: u128,
        now: SystemTime,
    ) -> Result<ListBlobsPage> {
        let prefix = names::slashes(&self.prefix);
        let walk = Walk::new(self, (snapshot, keyspaces, container_id), &prefix, now);
        self.fill(walk)
    }

    /// Fills one page with the entries of a walk.
    fn fill(&self, mut walk: impl Entries) -> Result<ListBlobsPage> {
        self.seek_start(&mut walk)?;
        let end = names::slashes(&self.end_before).into_owned();
        let mut page = Pager::new(self.max_results, PAGE_ENTRIES_MAX, ROWS_MAX)?;
        while let Some(((name, moment), step)) = walk.next()? {
            page.rows_examined = walk.rows_examined();
            if !end.is_empty() && name >= end {
                break;
            }
            let marker = || Marker::Name(name.clone(), moment);
            if page.is_cut_short(marker) {
                break;
            }
            let Step::Entry(entry) = step else {
                continue;
            };
            let bytes = name.len() + bytes_of_metadata(&entry);
            if !page.push(entry, bytes, marker) {
                break;
            }
        }
        Ok(ListBlobsPage {
            entries: page.entries,
            next_marker: page.next_marker,
            rows_examined: walk.rows_examined(),
        })
    }
}

impl BlobService {
    /// One page of the blobs of a hierarchical container.
    pub(crate) fn tree_page(
        &self,
        snapshot: &Snapshot,
        container: &Container,
        request: &ListBlobs,
    ) -> Result<ListBlobsPage> {
        if !matches!(&request.delimiter[..], "" | "/") {
            return Err(Error::InvalidQueryParameterValue {
                parameter: "delimiter",
                value: request.delimiter.clone(),
                reason: "a container with a hierarchical namespace is listed by / only",
            });
        }
        let prefix = names::slashes(&request.prefix);
        let (directory, prefix) = prefix.rsplit_once('/').unwrap_or(("", &prefix));
        let caller = request.caller.as_ref();
        let found = self.find_directory(snapshot, container, directory, caller);
        let base = match found {
            Ok(base) => base,
            Err(Error::BlobNotFound | Error::PathConflict) => return Ok(ListBlobsPage::default()),
            Err(error) => return Err(error),
        };
        let shown = Shown {
            recursive: request.delimiter.is_empty(),
            grouped: !request.delimiter.is_empty(),
            only: request.only,
            only_deleted: request.only_deleted,
            caller,
            goes_on: false,
        };
        self.walk_tree((snapshot, container), request, shown, base, prefix)
    }

    /// Returns one page of what is in a directory of a hierarchical container, in byte order of
    /// paths: files, and directories before what is below them. A page reads a bounded number of
    /// rows. Errors: an invalid name; `ContainerNotFound`, `NotHierarchical`; `BlobNotFound` if
    /// there is no such directory, `PathConflict` if it is a file;
    /// `AuthorizationPermissionMismatch`; as [`BlobService::list_containers`].
    pub fn list_paths(
        &self,
        account: &str,
        container: &str,
        request: &ListPaths,
    ) -> Result<ListBlobsPage> {
        names::check_container_name(container)?;
        let snapshot = self.db.snapshot();
        let key = keys::container(account, container);
        let container = self.keyspaces.container(&snapshot, &key)?;
        if !container.hierarchical {
            return Err(Error::NotHierarchical);
        }
        let caller = request.caller.as_ref();
        let directory = names::slashes(&request.directory);
        let base = self.find_directory(&snapshot, &container, &directory, caller)?;
        let list = ListBlobs {
            start_from: match &request.begin_from[..] {
                "" => String::new(),
                from => format!("{}{from}", base.0),
            },
            marker: request.marker.clone(),
            max_results: request.max_results,
            metadata: true,
            ..ListBlobs::default()
        };
        let shown = Shown {
            recursive: request.recursive,
            grouped: false,
            only: None,
            only_deleted: false,
            caller,
            goes_on: false,
        };
        self.walk_tree((&snapshot, &container), &list, shown, base, "")
    }

    /// Visits what is below a directory, in byte order of paths, as of one snapshot: from `marker`
    /// on, at most `paths_max` paths, and a bounded number of rows. Directories that the caller may
    /// not list are visited as [`Visited::Unlisted`] instead of what is in them. Returns the marker
    /// of the next visits; `None` at the end. Errors: as [`BlobService::list_paths`], and those of
    /// `visit`.
    pub(crate) fn visit_paths(
        &self,
        address: &BlobAddress<'_>,
        marker: Option<&str>,
        paths_max: u32,
        visit: &mut dyn FnMut(Visited<'_>) -> Result<Next>,
    ) -> Result<Option<String>> {
        let mut page = Pager::new(Some(paths_max), paths_max, ROWS_MAX)?;
        let snapshot = self.db.snapshot();
        let key = keys::container(address.account, address.container);
        let container = self.keyspaces.container(&snapshot, &key)?;
        let directory = names::slashes(address.blob);
        let base = self.find_directory(&snapshot, &container, &directory, address.caller)?;
        let list = ListBlobs {
            marker: marker.map(str::to_string),
            ..ListBlobs::default()
        };
        let shown = Shown {
            recursive: true,
            grouped: false,
            only: None,
            only_deleted: false,
            caller: address.caller,
            goes_on: true,
        };
        let tree = self.tree(&snapshot, &container);
        let mut walk = TreeWalk::new(tree, &list, shown, (base.0, &base.1), "")?;
        list.seek_start(&mut walk)?;
        loop {
            let next = walk.next()?;
            for directory in std::mem::take(&mut walk.unlisted) {
                if let Next::Stop = visit(Visited::Unlisted(&directory))? {
                    return Ok(None);
                }
            }
            let Some(((name, moment), step)) = next else {
                return Ok(None);
            };
            page.rows_examined = walk.rows_examined();
            let marker = || Marker::Name(name.clone(), moment);
            if page.is_cut_short(marker) {
                return Ok(page.next_marker);
            }
            let Step::Entry(BlobEntry::Blob(listed)) = step else {
                continue;
            };
            let Some(blob) = listed.blob else {
                continue;
            };
            if !page.push((), 0, marker) {
                return Ok(page.next_marker);
            }
            match visit(Visited::Path(&name, &blob))? {
                Next::On => {}
                Next::Below(directory) => walk.enters_as(&name, directory),
                Next::Stop => return Ok(None),
            }
        }
    }

    fn tree<'s>(&'s self, snapshot: &'s Snapshot, container: &Container) -> Tree<'s> {
        Tree {
            snapshot,
            keyspaces: &self.keyspaces,
            container_id: container.id,
            now: self.now(),
        }
    }

    fn walk_tree(
        &self,
        (snapshot, container): (&Snapshot, &Container),
        request: &ListBlobs,
        shown: Shown<'_>,
        (base, directory): (String, Box<Blob>),
        prefix: &str,
    ) -> Result<ListBlobsPage> {
        let tree = self.tree(snapshot, container);
        let rows = ListBlobs {
            // To find what was deleted below a directory, the walk reads the directories.
            only_deleted: request.only_deleted && !shown.recursive,
            deleted: request.deleted || request.only_deleted,
            versions: false,
            deleted_with_versions: false,
            ..request.clone()
        };
        let rows = ListBlobs {
            delimiter: String::new(),
            ..rows
        };
        let walk = TreeWalk::new(tree, &rows, shown, (base, &directory), prefix)?;
        request.fill(walk)
    }

    /// The directory at a path, with the path that its entries begin with. Errors: as
    /// [`BlobService::list_paths`].
    fn find_directory(
        &self,
        snapshot: &Snapshot,
        container: &Container,
        path: &str,
        caller: Option<&Caller>,
    ) -> Result<(String, Box<Blob>)> {
        let segments = names::path_segments(path)?;
        let found = self.path(snapshot, None, container, path, caller)?;
        let key = keys::blob(container.id, &found.stored_name);
        let blob = match segments.is_empty() {
            true => Some(self.root(snapshot, container)?),
            false => self.keyspaces.record(snapshot, container.id, &key)?,
        };
        let blob = blob.ok_or(Error::BlobNotFound)?;
        if !blob.is_directory() {
            return Err(Error::PathConflict);
        }
        let mut base = segments.join("/");
        if !base.is_empty() {
            base.push('/');
        }
        Ok((base, blob))
    }
}

fn position(marker: Marker) -> Option<Position> {
    match marker {
        Marker::Name(name, moment) => Some((name, moment)),
        _ => None,
    }
}

fn bytes_of_metadata(entry: &BlobEntry) -> usize {
    match entry {
        BlobEntry::Blob(ListedBlob {
            blob: Some(blob), ..
        })
        | BlobEntry::Directory(ListedBlob {
            blob: Some(blob), ..
        }) => metadata_bytes(&blob.metadata),
        _ => 0,
    }
}

fn metadata_bytes(metadata: &[(String, String)]) -> usize {
    let bytes = |(name, value): &(String, String)| name.len() + value.len();
    metadata.iter().map(bytes).sum()
}

//! The walk of a listing of a hierarchical container: the rows of directories, one walk each, in the
//! byte order of paths.
//!
//! In that order a directory `a` and what is below it do not follow one another: `a-b` is before
//! `a/x`. So a directory that was passed waits until the walk comes to a path beyond `a/`. Those that
//! wait are prefixes of one name, and the open ones are on one path: memory is bounded by the length
//! of a path.

use crate::access::{Caller, Rights};
use crate::directory::{ROOT, segment, stored_name};
use crate::error::{Error, Result, corrupt_record};
use crate::keys;
use crate::keyspaces::Keyspaces;
use crate::listing::entries::{Entries, Position, Step};
use crate::listing::entry::{BlobEntry, ListBlobs, ListedBlob, PathKind};
use crate::listing::walk::Walk;
use crate::model::Blob;
use crate::names::BLOB_NAME_UNITS_MAX;
use crate::operations::check_access;
use lazurite_engine::Snapshot;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// What a walk reads.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) keyspaces: &'a Keyspaces,
    pub(super) container_id: u128,
    pub(super) now: SystemTime,
}

/// Which entries a walk yields, and how.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    /// Whether what is below directories is listed, too.
    pub(super) recursive: bool,
    /// Whether directories are entries of a listing by delimiter.
    pub(super) grouped: bool,
    /// Only files, or only directories.
    pub(super) only: Option<PathKind>,
    /// Only deleted files and directories.
    pub(super) only_deleted: bool,
    /// Whose rights on directories are checked.
    pub(super) caller: Option<&'a Caller>,
    /// Whether the walk goes on beside a directory that the caller may not list: see
    /// [`TreeWalk::unlisted`]. Otherwise such a directory ends it.
    pub(super) goes_on: bool,
}

/// A walk below one directory.
pub(super) struct TreeWalk<'a> {
    tree: Tree<'a>,
    request: &'a ListBlobs,
    shown: Shown<'a>,
    /// The path of the first directory; empty for the root, otherwise with a slash at the end.
    base: String,
    /// The directories on the path of the walk.
    open: Vec<OpenDirectory<'a>>,
    /// Directories that were passed and not opened, by their path with a slash at the end.
    waiting: BTreeMap<String, Box<Blob>>,
    /// Directories that the walk came to and passed over, because the caller may not list them, by
    /// their path with a slash at the end. The owner of the walk takes them.
    pub(super) unlisted: Vec<String>,
    /// Rows that closed walks have examined.
    rows_examined: u64,
}

/// A directory whose rows are being walked.
struct OpenDirectory<'a> {
    path: String,
    id: u128,
    walk: Walk<'a>,
    next: Option<(Position, Step)>,
}

impl<'a> TreeWalk<'a> {
    /// A walk over what is in a directory and begins with `prefix`. `request` has what is listed,
    /// without prefix and delimiter.
    pub(super) fn new(
        tree: Tree<'a>,
        request: &'a ListBlobs,
        shown: Shown<'a>,
        (base, directory): (String, &Blob),
        prefix: &str,
    ) -> Result<TreeWalk<'a>> {
        let mut walk = TreeWalk {
            tree,
            request,
            shown,
            base: base.clone(),
            open: Vec::new(),
            waiting: BTreeMap::new(),
            unlisted: Vec::new(),
            rows_examined: 0,
        };
        walk.enter(base, directory, prefix)?;
        Ok(walk)
    }

    /// What is below a directory at this path is walked as this record of the directory says: it
    /// was changed since the walk began.
    pub(super) fn enters_as(&mut self, path: &str, directory: Box<Blob>) {
        if let Some(waiting) = self.waiting.get_mut(&format!("{path}/")) {
            *waiting = directory;
        }
    }

    /// Opens a directory, for names that begin with `prefix`. Returns whether it is open.
    fn enter(&mut self, path: String, directory: &Blob, prefix: &str) -> Result<bool> {
        match check_listable(directory, self.shown.caller) {
            Err(Error::AuthorizationPermissionMismatch) if self.shown.goes_on => {
                self.unlisted.push(path);
                return Ok(false);
            }
            checked => checked?,
        }
        let id = directory.directory().ok_or_else(corrupt_record)?;
        let Tree {
            snapshot,
            keyspaces,
            container_id,
            now,
        } = self.tree;
        let rows = (snapshot, keyspaces, container_id);
        let walk = Walk::new(self.request, rows, &stored_name(id, prefix), now);
        self.open.push(OpenDirectory {
            path,
            id,
            walk,
            next: None,
        });
        Ok(true)
    }

    fn child(&self, directory: u128, segment: &str) -> Result<Option<Box<Blob>>> {
        let Tree {
            snapshot,
            keyspaces,
            container_id,
            ..
        } = self.tree;
        let key = keys::blob(container_id, &stored_name(directory, segment));
        keyspaces.record(snapshot, container_id, &key)
    }

    /// Lets those directories wait that are before this name, while what is below them is after it.
    fn wait_before(&mut self, path: &str, id: u128, name: &str) -> Result<()> {
        // The marker of a request may be longer than any segment.
        let ends = name.char_indices().skip(1).take(BLOB_NAME_UNITS_MAX);
        for (end, _) in ends.filter(|(end, _)| name.as_bytes()[*end] < b'/') {
            if let Some(blob) = self
                .child(id, &name[..end])?
                .filter(|blob| blob.is_directory())
            {
                self.waiting
                    .insert(format!("{path}{}/", &name[..end]), blob);
            }
        }
        Ok(())
    }

    /// The entry as it is shown; `None` if it is not.
    fn shown(&self, mut listed: ListedBlob, path: &str) -> Option<BlobEntry> {
        let is_directory = listed.blob.as_deref().is_some_and(Blob::is_directory);
        let is_deleted = listed
            .blob
            .as_ref()
            .is_some_and(|blob| blob.deleted.is_some());
        let is_kind = match self.shown.only {
            None => true,
            Some(kind) => is_directory == (kind == PathKind::Directory),
        };
        if !is_kind || (self.shown.only_deleted && !is_deleted) {
            return None;
        }
        listed.name = path.to_string();
        if is_directory && self.shown.grouped && !is_deleted {
            listed.name.push('/');
            return Some(BlobEntry::Directory(listed));
        }
        Some(BlobEntry::Blob(listed))
    }
}

/// Fails unless the caller may list what is in a directory.
pub(crate) fn check_listable(directory: &Blob, caller: Option<&Caller>) -> Result<()> {
    check_access(directory, caller, Rights::READ.and(Rights::EXECUTE))
}

impl OpenDirectory<'_> {
    /// Moves to the next row, unless the walk is on one already. Skips the row of the root itself.
    fn load(&mut self) -> Result<()> {
        while self.next.is_none() {
            let Some(((name, moment), step)) = self.walk.next()? else {
                return Ok(());
            };
            let segment = segment(&name).ok_or_else(corrupt_record)?;
            if self.id != ROOT || !segment.is_empty() {
                let path = format!("{}{segment}", self.path);
                self.next = Some(((path, moment), step));
            }
        }
        Ok(())
    }
}

impl Entries for TreeWalk<'_> {
    fn seek(&mut self, (to, moment): &Position) -> Result<()> {
        let Some(mut rest) = to.strip_prefix(&self.base[..]) else {
            if *to > self.base {
                self.open.clear();
            }
            return Ok(());
        };
        self.waiting.clear();
        self.open.truncate(1);
        while let Some(top) = self.open.last_mut() {
            let (path, id) = (top.path.clone(), top.id);
            let Some((name, below)) = rest.split_once('/') else {
                top.walk.seek(&(stored_name(id, rest), *moment))?;
                if self.shown.recursive {
                    self.wait_before(&path, id, rest)?;
                }
                break;
            };
            // What is between the directory and what is below it has been passed.
            top.walk
                .seek(&(stored_name(id, &format!("{name}/")), None))?;
            if !self.shown.recursive {
                break;
            }
            self.wait_before(&path, id, name)?;
            let Some(directory) = self.child(id, name)?.filter(|blob| blob.is_directory()) else {
                break;
            };
            if !self.enter(format!("{path}{name}/"), &directory, "")? {
                break;
            }
            rest = below;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Position, Step)>> {
        loop {
            let top = match self.open.last_mut() {
                Some(top) => {
                    top.load()?;
                    if top.next.is_none() {
                        self.rows_examined += top.walk.rows_examined;
                        self.open.pop();
                        continue;
                    }
                    Some(top)
                }
                None => None,
            };
            let head = top.as_ref().and_then(|top| top.next.as_ref());
            let is_first = |waiting: &String| head.is_none_or(|((path, _), _)| waiting < path);
            if self
                .waiting
                .first_key_value()
                .is_some_and(|(waiting, _)| is_first(waiting))
            {
                if let Some((path, directory)) = self.waiting.pop_first() {
                    self.enter(path, &directory, "")?;
                }
                continue;
            }
            let Some((position, step)) = top.and_then(|top| top.next.take()) else {
                return Ok(None);
            };
            let Step::Entry(BlobEntry::Blob(listed)) = step else {
                return Ok(Some((position, step)));
            };
            if let Some(blob) = listed.blob.as_ref().filter(|_| listed.is_current)
                && blob.is_directory()
                && self.shown.recursive
            {
                self.waiting
                    .insert(format!("{}/", position.0), blob.clone());
            }
            let entry = self.shown(listed, &position.0);
            return Ok(Some((position, entry.map_or(Step::Skipped, Step::Entry))));
        }
    }

    fn rows_examined(&self) -> u64 {
        let open = self.open.iter().map(|open| open.walk.rows_examined);
        self.rows_examined + open.sum::<u64>()
    }
}

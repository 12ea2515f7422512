//! Where a path of a hierarchical container leads, and the locks of a write there.
//!
//! A write locks the row of every directory on its path, shared, and its own row. Renaming or
//! removing a directory locks the directory's row, exclusively. So the directories of a path stay
//! where they are until the write is committed, and nothing is added to a directory that is gone.
//! The locks of a write are taken in one call: no two writes wait for each other.

use crate::access::{AccessControl, Caller, Rights};
use crate::directory::{self, stored_name};
use crate::directory_cache::{Directory, Moves};
use crate::error::{Error, Result};
use crate::keys;
use crate::keyspaces::Source;
use crate::model::{Blob, BlobAddress, Container, Content, Encryption, Written};
use crate::names;
use crate::service::BlobService;
use lazurite_engine::Transaction;
use std::sync::Arc;

/// Number of directories on a path that are looked up in the cache, from the end: each reads
/// the whole path before it.
const CACHED_SEGMENTS_MAX: usize = 64;

/// What a write is about to do with the path: which rights its caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Read a file: the source of a copy.
    Read,
    /// Change a file, or make one.
    Write,
    /// Change a file or directory, or make one.
    WriteAny,
    /// Delete or rename a file or directory.
    Remove,
    /// Put a file or directory in the place of another, or where there is none: a rename.
    Replace,
    /// Restore a deleted file or directory.
    Restore,
    /// Set owner, group or rights.
    SetAccess,
}

/// Where a path leads. In a container without hierarchy the stored name is the blob's name, and all
/// else is empty.
#[derive(Debug, Default)]
pub(crate) struct Path {
    /// The name that the blob or directory is filed under.
    pub(crate) stored_name: String,
    /// The last directory on the path that exists; `None` for the root.
    pub(crate) parent: Option<Arc<Directory>>,
    /// The directories on the path that do not exist, with the ids that they get.
    pub(crate) missing: Vec<(u128, String)>,
    pub(crate) is_hierarchical: bool,
    /// Why nothing new may be made at the path, because of its length.
    pub(crate) too_long: Option<&'static str>,
}

impl Path {
    fn flat(name: String) -> Path {
        Path {
            stored_name: name,
            ..Path::default()
        }
    }

    /// Whether the directory that the path is in does not exist.
    pub(crate) fn lacks_parent(&self) -> bool {
        !self.missing.is_empty()
    }

    /// The directories on the path that exist, the last one first.
    fn directories(&self) -> impl Iterator<Item = &Arc<Directory>> {
        std::iter::successors(self.parent.as_ref(), |directory| directory.above.as_ref())
    }

    /// Whether the path leads through the directory with this id.
    pub(crate) fn is_below(&self, id: u128) -> bool {
        self.directories().any(|directory| directory.id == id)
    }

    /// The id of the last directory on the path that exists.
    fn parent_id(&self) -> u128 {
        self.parent
            .as_ref()
            .map_or(directory::ROOT, |parent| parent.id)
    }

    /// The row that a write to the path changes first: its own, or that of the first directory that
    /// it makes.
    fn first_row(&self, home: u128) -> Vec<u8> {
        match self.missing.first() {
            None => keys::blob(home, &self.stored_name),
            Some((_, segment)) => keys::blob(home, &stored_name(self.parent_id(), segment)),
        }
    }

    /// Whether both lead the same way. The ids of missing directories may differ.
    fn is_same(&self, other: &Path) -> bool {
        let directories = |path: &Path| {
            let rows = path
                .directories()
                .map(|directory| (directory.id, directory.key.clone()));
            rows.collect::<Vec<_>>()
        };
        let segments = self.missing.iter().map(|(_, segment)| segment);
        directories(self) == directories(other)
            && segments.eq(other.missing.iter().map(|(_, segment)| segment))
    }
}

impl BlobService {
    /// Finds the directories on a path. `moves` was read before `source` was: see
    /// [`DirectoryCache`]. Errors: an invalid name; `PathConflict` if one of them is a file;
    /// `AuthorizationPermissionMismatch` if the caller may not pass through one of them.
    ///
    /// [`DirectoryCache`]: crate::directory_cache::DirectoryCache
    pub(crate) fn path(
        &self,
        source: &impl Source,
        moves: Option<Moves>,
        container: &Container,
        name: &str,
        caller: Option<&Caller>,
    ) -> Result<Path> {
        if !container.hierarchical {
            return Ok(Path::flat(names::blob_name(name)?.into_owned()));
        }
        let name = names::slashes(name);
        let segments = names::path_segments(&name)?;
        let mut path = Path {
            is_hierarchical: true,
            too_long: names::too_long(&segments),
            ..Path::default()
        };
        let Some((last, parents)) = segments.split_last() else {
            path.stored_name = stored_name(directory::ROOT, "");
            return Ok(path);
        };
        let found = self.find_parents(source, moves, container.id, parents, &mut path);
        if let Some(caller) = caller.filter(|caller| !caller.has_all_rights) {
            let passes = |blob: &Blob| check_access(blob, Some(caller), Rights::EXECUTE);
            passes(&*self.root(source, container)?)?;
            path.directories()
                .try_for_each(|directory| passes(&directory.blob))?;
        }
        // After the rights: without them, nobody learns what is there.
        found?;
        let parent = path.missing.last().map_or(path.parent_id(), |(id, _)| *id);
        path.stored_name = stored_name(parent, last);
        Ok(path)
    }

    /// Finds the directories with these segments, one in the other. Error: `PathConflict`.
    fn find_parents(
        &self,
        source: &impl Source,
        moves: Option<Moves>,
        home: u128,
        segments: &[&str],
        path: &mut Path,
    ) -> Result<()> {
        let joined = segments.join("/");
        let mut ends: Vec<usize> = Vec::with_capacity(segments.len());
        for segment in segments {
            ends.push(ends.last().map_or(0, |end| end + 1) + segment.len());
        }
        let first = segments.len().saturating_sub(CACHED_SEGMENTS_MAX);
        let known = moves.and_then(|moves| {
            let known = |&at: &usize| self.directories.get(home, &joined[..ends[at]], moves);
            (first..segments.len())
                .rev()
                .find_map(|at| Some((at + 1, known(&at)?)))
        });
        let (first, mut parent) = match known {
            Some((first, directory)) => (first, Some(directory)),
            None => (0, None),
        };
        for at in first..segments.len() {
            let id = parent.as_ref().map_or(directory::ROOT, |parent| parent.id);
            let key = keys::blob(home, &stored_name(id, segments[at]));
            let Some(blob) = self.keyspaces.record(source, home, &key)? else {
                let missing = segments[at..].iter();
                let missing = missing.map(|segment| (self.ids.next_id(), segment.to_string()));
                path.missing.extend(missing);
                break;
            };
            let Some(id) = blob.directory() else {
                path.parent = parent;
                return Err(Error::PathConflict);
            };
            let found = Arc::new(Directory {
                id,
                key,
                blob,
                above: parent,
            });
            if let Some(moves) = moves {
                self.directories
                    .put(home, &joined[..ends[at]], moves, found.clone());
            }
            parent = Some(found);
        }
        path.parent = parent;
        Ok(())
    }

    /// The record of the root directory, which has a row only once it was changed.
    pub(crate) fn root(&self, source: &impl Source, container: &Container) -> Result<Box<Blob>> {
        let key = keys::blob(container.id, &stored_name(directory::ROOT, ""));
        let stored = self.keyspaces.record(source, container.id, &key)?;
        Ok(stored.unwrap_or_else(|| root_of(container)))
    }

    /// Locks a blob of a container without hierarchy for a write. Error: an invalid name.
    pub(crate) fn lock_name(
        &self,
        transaction: &mut Transaction<'_>,
        container: &Container,
        name: &str,
    ) -> Result<Path> {
        let name = names::blob_name(name)?.into_owned();
        let key = keys::blob(container.id, &name);
        transaction.lock([(&self.keyspaces.blobs, &key[..])])?;
        Ok(Path::flat(name))
    }

    /// Finds a path and locks it for a write. Errors: as [`BlobService::path`].
    pub(crate) fn lock_path(
        &self,
        transaction: &mut Transaction<'_>,
        container: &Container,
        address: &BlobAddress<'_>,
        purpose: Purpose,
    ) -> Result<Path> {
        let target = (container, address.blob, address.caller);
        match self.lock_paths(transaction, [target]) {
            Ok([path]) => Ok(path),
            // Nothing is below a file.
            Err(Error::PathConflict) if matches!(purpose, Purpose::Remove | Purpose::SetAccess) => {
                Err(Error::BlobNotFound)
            }
            Err(error) => Err(error),
        }
    }

    /// Finds paths and locks them for writes. The containers are locked already, shared.
    pub(crate) fn lock_paths<const N: usize>(
        &self,
        transaction: &mut Transaction<'_>,
        targets: [(&Container, &str, Option<&Caller>); N],
    ) -> Result<[Path; N]> {
        let blobs = &self.keyspaces.blobs;
        let find = |moves| -> Result<Vec<Path>> {
            let find = |&(container, name, caller): &(&Container, &str, Option<&Caller>)| {
                self.path(&self.db, moves, container, name, caller)
            };
            targets.iter().map(find).collect()
        };
        loop {
            let moves = self.directories.moves();
            let mut paths = find(moves)?;
            let rows = paths.iter().zip(&targets);
            let rows: Vec<_> = rows
                .map(|(path, target)| path.first_row(target.0.id))
                .collect();
            let directories = paths.iter().flat_map(Path::directories);
            transaction.lock_both(
                directories.map(|directory| (blobs, &directory.key[..])),
                rows.iter().map(|row| (blobs, &row[..])),
            )?;
            // Moves of directories that are locked now have ended.
            let is_settled = moves.is_some() && self.directories.moves() == moves;
            let is_current = !paths.iter().any(|path| path.is_hierarchical)
                || (is_settled && !paths.iter().any(Path::lacks_parent))
                || {
                    let before = std::mem::replace(&mut paths, find(None)?);
                    before
                        .iter()
                        .zip(&paths)
                        .all(|(before, now)| before.is_same(now))
                };
            if is_current {
                return Ok(paths.try_into().expect("one path for each target"));
            }
            transaction.unlock_from(blobs);
        }
    }
}

/// Fails if the caller lacks these rights on a blob or directory.
pub(crate) fn check_access(blob: &Blob, caller: Option<&Caller>, wanted: Rights) -> Result<()> {
    match (caller, &blob.access) {
        (Some(caller), Some(access)) if !access.allows(caller, wanted) => {
            Err(Error::AuthorizationPermissionMismatch)
        }
        _ => Ok(()),
    }
}

/// The root directory of a container, until it is changed.
pub(crate) fn root_of(container: &Container) -> Box<Blob> {
    let access = AccessControl::of_root();
    new_directory(container, directory::ROOT, container.written(), access)
}

/// The record of a new directory.
pub(crate) fn new_directory(
    container: &Container,
    id: u128,
    written: Written,
    access: AccessControl,
) -> Box<Blob> {
    let scope = container.default_encryption_scope.clone();
    let content = Content::Directory { id };
    Box::new(Blob {
        encryption: scope.map_or(Encryption::None, Encryption::Scope),
        access: Some(Box::new(access)),
        ..Blob::empty(content, written.etag, written.last_modified)
    })
}

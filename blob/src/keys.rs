//! Converts names to engine keys and back; the only module that knows the layout of keys. This file
//! has the keys of accounts, containers, blobs, their history and timers; `keys/tags.rs` those of
//! the index of tags, `keys/file.rs` those of blocks, contents and references.
//!
//! ```text
//! blob.accounts
//!   01 account                             service properties, as the server wrote them
//!   02 account                             AccountPolicy
//!   03                                     an upper bound of the ETags handed out
//! blob.containers
//!   account 00 01 container                Container
//!   account 00 01 container 00 deleted-at  Container (deleted, to be restored or purged)
//! blob.blobs
//!   container-id name 00 01 FF             Blob (the current one)
//! blob.history
//!   container-id 01 name 00 01             Uncommitted (the name has uncommitted blocks only)
//!   container-id kind name 00 01 moment    Blob; kind 02 snapshot, 03 version, 04 deleted
//! blob.blocks
//!   file 00                                Staging
//!   file 01 block-id                       BlobBlock (uncommitted)
//!   file 02 end-offset                     BlobBlock (committed, or appended)
//!   file 03 level:1 place:8 node-id        Branch, or Leaf on level 0: the trees of pages
//!   file 04 node-id or content-id          number of references to it, if more than one
//!   file 05 level:1 place:8 node-id        empty: the node has no references, and is to be
//!                                          deleted
//! blob.content
//!   file                                   the bytes of a Put Blob
//!   file content-id                        the bytes of a block
//!   file FF*16 window content-id           the bytes of an extent of pages
//! blob.protected
//!   container-id                           00: no record was ever protected; otherwise, or
//!                                          without a row: one may have had a policy or a hold
//! blob.references
//!   file                                   number of records that name the file, once a second
//!                                          record did
//!   file 00 blob-key                       key of the container's row: blocks were copied from
//!                                          the blob or to it, so a record of it may name the file
//!   container-id                           number of foreign references: from its records to
//!                                          files of other containers, and from foreign records
//!                                          to its files
//! blob.moved
//!   container-id                           key of the container's row, if it was renamed: replaces
//!                                          the key in rows that name an earlier one
//! blob.timers
//!   due kind subject                       key of the container's row, or empty; kinds:
//!                                          `keys/timer.rs`
//! blob.copies
//!   key of a blob in blob.blobs            key of the container's row: a copy to it is under way
//! blob.merges
//!   key of a blob in blob.blobs            Merge: layers of it are being copied to one file
//! blob.tags
//!   container-id tag-name 00 01 tag-value 00 01 blob-name 00 01
//!                                          empty: a tag of the current blob
//!   container-id FF tag-name 00 01 tag-value 00 01 blob-name 00 01 moment
//!                                          empty: a tag of a version
//! ```
//!
//! A file is `container-id file-id`: the container in which it was created and its own id. Ids are
//! 16 bytes, offsets, moments and times 8, big-endian. In a hierarchical container the name of a blob
//! or directory is the id of the directory that it is in, as text, and the last segment of its path:
//! see `directory.rs`. In names `00` becomes `00 FF`, and `00 01`
//! ends a name, so that the order of keys is the byte order of names. The rows of a container, and
//! those of a file, are one range of each keyspace, so one range deletion drops them.

mod file;
mod tags;
mod timer;

pub(crate) use file::{ContentName, File, block_content_id, dropped_node, end_offset, namer};
pub(crate) use tags::{Tagged, tag, tag_values, tagged};
pub(crate) use timer::Timer;

use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{KeyRange, escape};

const SERVICE_PROPERTIES: u8 = 1;
const ACCOUNT_POLICY: u8 = 2;
/// In `blob.accounts`: the record of the clock of ETags.
pub(crate) const ETAG_BOUND: &[u8] = &[3];
const BASE_BLOB: u8 = 0xff;

/// The name that starts `key`, and the bytes after it.
fn take_name(key: &[u8]) -> Option<(String, &[u8])> {
    let (name, rest) = escape::take_component(key)?;
    Some((String::from_utf8(name.into_owned()).ok()?, rest))
}

/// The key of the row of an account's service properties.
pub(crate) fn service_properties(account: &str) -> Vec<u8> {
    [&[SERVICE_PROPERTIES], account.as_bytes()].concat()
}

/// The key of the row of an account's retention policy.
pub(crate) fn account_policy(account: &str) -> Vec<u8> {
    [&[ACCOUNT_POLICY], account.as_bytes()].concat()
}

/// The key of the row of a container.
pub(crate) fn container(account: &str, container: &str) -> Vec<u8> {
    let mut key = account_start(account);
    key.extend_from_slice(container.as_bytes());
    key
}

/// The common prefix of the keys of an account's containers.
pub(crate) fn account_start(account: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(account.len() + 66);
    escape::put_component(&mut key, account.as_bytes());
    key
}

/// The key of a deleted container's row: a name has one for each time it was deleted.
pub(crate) fn deleted_container(
    account: &str,
    container: &str,
    deleted_at: SnapshotTime,
) -> Vec<u8> {
    let mut key = self::container(account, container);
    key.push(0);
    key.extend_from_slice(&deleted_at.0.to_be_bytes());
    key
}

/// Returns the key that the row of a deleted container had before the deletion. `key` is the key of
/// the row after the deletion.
pub(crate) fn undeleted_container(key: &[u8]) -> Option<&[u8]> {
    let (row, moment) = key.split_at_checked(key.len().checked_sub(9)?)?;
    (moment[0] == 0).then_some(row)
}

/// Returns the container's name in a key that begins with [`account_start`] of `account`, and the
/// time of its deletion if it was deleted.
pub(crate) fn container_name(
    key: &[u8],
    account_start: &[u8],
) -> Option<(String, Option<SnapshotTime>)> {
    let rest = key.strip_prefix(account_start)?;
    let (name, moment) = match rest.iter().position(|&byte| byte == 0) {
        None => (rest, None),
        Some(at) => {
            let ticks = rest[at + 1..].try_into().ok()?;
            (&rest[..at], Some(SnapshotTime(u64::from_be_bytes(ticks))))
        }
    };
    Some((String::from_utf8(name.to_vec()).ok()?, moment))
}

/// The range of all rows of a container, in a keyspace whose keys begin with the container's id.
pub(crate) fn all_of_container(container_id: u128) -> KeyRange {
    KeyRange::prefix(&container_id.to_be_bytes())
}

/// Whether a row of the history marks a name that has uncommitted blocks only.
pub(crate) fn is_uncommitted_marker(key: &[u8]) -> bool {
    key.get(16) == Some(&(History::Uncommitted as u8))
}

/// The key of the row of the current blob.
pub(crate) fn blob(container_id: u128, name: &str) -> Vec<u8> {
    let mut key = blob_name_start(container_id, name);
    key.extend_from_slice(&escape::END);
    key.push(BASE_BLOB);
    key
}

/// Returns the common prefix of the rows of blobs whose names begin with `prefix`; also the place
/// to seek to for names from `prefix` on.
pub(crate) fn blob_name_start(container_id: u128, prefix: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(16 + prefix.len() + 3);
    key.extend_from_slice(&container_id.to_be_bytes());
    escape::put(&mut key, prefix.as_bytes());
    key
}

/// The blob's name in a key of `blob.blobs`; `None` if this service cannot have written it.
pub(crate) fn blob_name(key: &[u8]) -> Option<String> {
    let (name, rest) = take_name(key.get(16..)?)?;
    (rest == [BASE_BLOB]).then_some(name)
}

/// The kinds of rows in `blob.history`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum History {
    /// The name has uncommitted blocks and no current blob.
    Uncommitted = 1,
    /// A snapshot.
    Snapshot = 2,
    /// A version that is not the current one.
    Version = 3,
    /// A deleted blob, snapshot or version that is still kept.
    Deleted = 4,
}

impl History {
    pub(crate) const ALL: [History; 4] = [
        History::Uncommitted,
        History::Snapshot,
        History::Version,
        History::Deleted,
    ];
}

/// In `blob.history`: the row of the snapshot, version or deleted blob of that moment.
pub(crate) fn history(
    container_id: u128,
    kind: History,
    name: &str,
    moment: SnapshotTime,
) -> Vec<u8> {
    let mut key = history_of(container_id, kind, name);
    key.extend_from_slice(&moment.0.to_be_bytes());
    key
}

/// Returns, in `blob.history`, the common prefix of the rows of this kind and name; for
/// [`History::Uncommitted`], its only row.
pub(crate) fn history_of(container_id: u128, kind: History, name: &str) -> Vec<u8> {
    let mut key = history_start(container_id, kind, name);
    key.extend_from_slice(&escape::END);
    key
}

/// In `blob.history`: the common prefix of the rows of this kind whose names begin with `prefix`.
pub(crate) fn history_start(container_id: u128, kind: History, prefix: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(17 + prefix.len() + 10);
    key.extend_from_slice(&container_id.to_be_bytes());
    key.push(kind as u8);
    escape::put(&mut key, prefix.as_bytes());
    key
}

/// The name and the moment in a key of `blob.history`; an uncommitted name has no moment.
pub(crate) fn history_name(key: &[u8]) -> Option<(String, Option<SnapshotTime>)> {
    let (name, rest) = take_name(key.get(17..)?)?;
    let moment = match rest {
        [] => None,
        ticks => Some(SnapshotTime(u64::from_be_bytes(ticks.try_into().ok()?))),
    };
    Some((name, moment))
}

/// In `blob.timers`: the row that makes the service look at `subject` when it is due.
pub(crate) fn timer(due: SnapshotTime, timer: Timer, subject: &[u8]) -> Vec<u8> {
    let mut key = due.0.to_be_bytes().to_vec();
    key.push(timer as u8);
    key.extend_from_slice(subject);
    key
}

/// The due time, the kind and the subject in a key of `blob.timers`.
pub(crate) fn timed(key: &[u8]) -> Option<(SnapshotTime, u8, &[u8])> {
    let (due, rest) = key.split_first_chunk()?;
    let (&kind, subject) = rest.split_first()?;
    Some((SnapshotTime(u64::from_be_bytes(*due)), kind, subject))
}

/// The id of the container in a key that begins with it.
pub(crate) fn container_of(key: &[u8]) -> Option<u128> {
    Some(u128::from_be_bytes(key.get(..16)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blob_keys_sort_as_names_and_give_them_back(a in ".{0,12}|[\0\u{1}ab/]{0,6}", b in ".{0,12}|[\0\u{1}ab/]{0,6}") {
            let (key_a, key_b) = (blob(7, &a), blob(7, &b));
            prop_assert_eq!(key_a.cmp(&key_b), a.as_bytes().cmp(b.as_bytes()));
            prop_assert_eq!(blob_name(&key_a), Some(a));
        }

        #[test]
        fn history_keys_sort_by_name_then_moment(a in "[\0\u{1}ab/]{0,4}", b in "[\0\u{1}ab/]{0,4}", s: u64, t: u64) {
            let key = |name: &str, ticks| history(7, History::Snapshot, name, SnapshotTime(ticks));
            let order = (a.as_bytes(), s).cmp(&(b.as_bytes(), t));
            prop_assert_eq!(key(&a, s).cmp(&key(&b, t)), order);
            prop_assert_eq!(history_name(&key(&a, s)), Some((a, Some(SnapshotTime(s)))));
        }

        #[test]
        fn prefix_of_name_is_prefix_of_key(name in "[\0\u{1}ab/]{0,6}", prefix in "[\0\u{1}ab/]{0,3}") {
            let starts = blob(7, &name).starts_with(&blob_name_start(7, &prefix));
            prop_assert_eq!(starts, name.starts_with(&prefix));
        }

        #[test]
        fn container_keys_of_one_account_never_lie_in_anothers(a in "[\0\u{1}a]{0,4}", b in "[\0\u{1}a]{0,4}") {
            let inside = container(&a, "name").starts_with(&account_start(&b));
            prop_assert_eq!(inside, a == b);
        }

        #[test]
        fn no_bytes_of_a_key_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            let _ = (blob_name(&bytes), end_offset(&bytes), history_name(&bytes), container_of(&bytes));
            let _ = (container_name(&bytes, b""), dropped_node(&bytes), File::of(&bytes), tagged(&bytes));
        }
    }
}

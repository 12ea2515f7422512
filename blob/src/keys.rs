//! Names to engine keys and back; the only file that knows their layout.
//!
//! ```text
//! blob.accounts     01 account                             -> service properties, as the server wrote them
//!                   02 account                             -> AccountPolicy
//! blob.containers   account 00 01 container                -> Container
//!                   account 00 01 container 00 deleted-at  -> Container (deleted, to be restored or purged)
//! blob.blobs        container-id name 00 01 FF             -> Blob (the current one)
//! blob.history      container-id 01 name 00 01             -> Uncommitted (the name has uncommitted blocks only)
//!                   container-id kind name 00 01 moment    -> Blob; kind 02 snapshot, 03 version, 04 deleted
//! blob.blocks       file 00                                -> Staging
//!                   file 01 block-id                       -> BlobBlock (uncommitted)
//!                   file 02 end-offset                     -> BlobBlock (committed, or appended)
//!                   file 03 end-offset                     -> PageExtent: cleared, or of stores without windows
//!                   file 04 window ~epoch                  -> the extents that begin in the window, as of the epoch
//!                   file 05 epoch window                   -> empty: the window was changed in the epoch
//! blob.content      file                                   -> the bytes of a Put Blob
//!                   file content-id                        -> the bytes of a block
//!                   file FF*16 window content-id           -> the bytes of an extent of pages
//! blob.references   file                                   -> how many records name the file, if ever it was more than one
//!                   file 00                                -> empty: of this file the epochs are counted as well
//!                   file 01 epoch                          -> how many records name the file as of the epoch
//!                   container-id                           -> empty: files of it are named elsewhere, or the reverse
//! blob.timers       due kind subject                       -> key of the container's row; `sweep.rs` says what is due
//! blob.copies       key of a blob in blob.blobs            -> key of the container's row: a copy to it is under way
//! blob.tags         container-id tag-name 00 01 tag-value 00 01 blob-name 00 01            -> empty: of the current one
//!                   container-id FF tag-name 00 01 tag-value 00 01 blob-name 00 01 moment  -> empty: of a version
//! ```
//!
//! A file is `container-id file-id`: the container it was made in and an id of its own. Ids are 16 bytes, offsets, moments
//! and times 8, big-endian. In names `00` becomes `00 FF` and `00 01` ends them, so that the order of keys is the byte order
//! of names. All of a container, and all of a file, are one range of each keyspace: dropping them is one record.
//!
//! Stores of before there was `blob.history` have names with uncommitted blocks only in `blob.blobs`, and the bytes of a blob
//! under the id that its record gives it: that is a file of its container.

use crate::moment::Moment;
use crate::sweep::Timer;
use lazurite_engine::KeyRange;

const SERVICE_PROPERTIES: u8 = 1;
const ACCOUNT_POLICY: u8 = 2;
const NAME_END: [u8; 2] = [0, 1];
const BASE_BLOB: u8 = 0xff;
const STAGING: u8 = 0;
const UNCOMMITTED: u8 = 1;
const COMMITTED: u8 = 2;
const EXTENT: u8 = 3;
const WINDOW: u8 = 4;
const CHANGED: u8 = 5;
/// No text begins with this byte.
const OF_VERSIONS: u8 = 0xff;
const COUNTED: u8 = 0;
const EPOCH: u8 = 1;
/// What no content has as its id.
const NO_CONTENT: [u8; 16] = [0xff; 16];

/// The row of an account's service properties.
pub(crate) fn service_properties(account: &str) -> Vec<u8> {
    [&[SERVICE_PROPERTIES], account.as_bytes()].concat()
}

/// The row of what an account does with what is deleted or overwritten.
pub(crate) fn account_policy(account: &str) -> Vec<u8> {
    [&[ACCOUNT_POLICY], account.as_bytes()].concat()
}

/// The row of a container.
pub(crate) fn container(account: &str, container: &str) -> Vec<u8> {
    let mut key = account_start(account);
    key.extend_from_slice(container.as_bytes());
    key
}

/// What the rows of all containers of an account begin with.
pub(crate) fn account_start(account: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(account.len() + 66);
    escape(&mut key, account);
    key.extend_from_slice(&NAME_END);
    key
}

/// The row of a deleted container: a name has one for each time it was deleted.
pub(crate) fn deleted_container(account: &str, container: &str, deleted_at: Moment) -> Vec<u8> {
    let mut key = self::container(account, container);
    key.push(0);
    key.extend_from_slice(&deleted_at.0.to_be_bytes());
    key
}

/// The row that a deleted container had before, by that of the deleted one.
pub(crate) fn undeleted_container(key: &[u8]) -> Option<&[u8]> {
    let (row, moment) = key.split_at_checked(key.len().checked_sub(9)?)?;
    (moment[0] == 0).then_some(row)
}

/// The container's name in a key that begins with [`account_start`] of `account`, and when it was deleted if it was.
pub(crate) fn container_name(key: &[u8], account_start: &[u8]) -> Option<(String, Option<Moment>)> {
    let rest = key.strip_prefix(account_start)?;
    let (name, moment) = match rest.iter().position(|&byte| byte == 0) {
        None => (rest, None),
        Some(at) => {
            let ticks = rest[at + 1..].try_into().ok()?;
            (&rest[..at], Some(Moment(u64::from_be_bytes(ticks))))
        }
    };
    Some((String::from_utf8(name.to_vec()).ok()?, moment))
}

/// Everything of a container in any keyspace but `blob.containers`.
pub(crate) fn all_of_container(container_id: u128) -> KeyRange {
    KeyRange::prefix(&container_id.to_be_bytes())
}

/// The row of the blob itself.
pub(crate) fn blob(container_id: u128, name: &str) -> Vec<u8> {
    let mut key = blob_name_start(container_id, name);
    key.extend_from_slice(&NAME_END);
    key.push(BASE_BLOB);
    key
}

/// What the rows of all blobs begin with whose names begin with `prefix`; also the place to seek to for names from
/// `prefix` on.
pub(crate) fn blob_name_start(container_id: u128, prefix: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(16 + prefix.len() + 3);
    key.extend_from_slice(&container_id.to_be_bytes());
    escape(&mut key, prefix);
    key
}

/// The blob's name in a key of `blob.blobs`; `None` if this service cannot have written it.
pub(crate) fn blob_name(key: &[u8]) -> Option<String> {
    let (name, rest) = unescape(key.get(16..)?)?;
    (rest == [BASE_BLOB]).then_some(name)
}

/// What of a name stands in `blob.history`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum History {
    /// It has uncommitted blocks and no current blob.
    Uncommitted = 1,
    /// A snapshot.
    Snapshot = 2,
    /// A version that is not the current one.
    Version = 3,
    /// Deleted, but not yet gone.
    Deleted = 4,
}

/// In `blob.history`: the snapshot, version or deleted blob of that moment.
pub(crate) fn history(container_id: u128, kind: History, name: &str, moment: Moment) -> Vec<u8> {
    let mut key = history_of(container_id, kind, name);
    key.extend_from_slice(&moment.0.to_be_bytes());
    key
}

/// In `blob.history`: what all rows of this kind and name begin with; for [`History::Uncommitted`], the one there is.
pub(crate) fn history_of(container_id: u128, kind: History, name: &str) -> Vec<u8> {
    let mut key = history_start(container_id, kind, name);
    key.extend_from_slice(&NAME_END);
    key
}

/// In `blob.history`: what the rows of this kind begin with whose names begin with `prefix`.
pub(crate) fn history_start(container_id: u128, kind: History, prefix: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(17 + prefix.len() + 10);
    key.extend_from_slice(&container_id.to_be_bytes());
    key.push(kind as u8);
    escape(&mut key, prefix);
    key
}

/// The name and the moment in a key of `blob.history`; no moment of an uncommitted one.
pub(crate) fn history_name(key: &[u8]) -> Option<(String, Option<Moment>)> {
    let (name, rest) = unescape(key.get(17..)?)?;
    let moment = match rest {
        [] => None,
        ticks => Some(Moment(u64::from_be_bytes(ticks.try_into().ok()?))),
    };
    Some((name, moment))
}

/// Which blobs the rows of a range of `blob.tags` are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagged {
    Current,
    Versions,
}

/// In `blob.tags`: the blob of that name, or that version of it, has that tag.
pub(crate) fn tag(
    container_id: u128,
    tag: &str,
    value: &str,
    blob: &str,
    version: Option<Moment>,
) -> Vec<u8> {
    let of = version.map_or(Tagged::Current, |_| Tagged::Versions);
    let mut key = tag_values(container_id, of, tag, value);
    key.extend_from_slice(&NAME_END);
    escape(&mut key, blob);
    key.extend_from_slice(&NAME_END);
    if let Some(moment) = version {
        key.extend_from_slice(&moment.0.to_be_bytes());
    }
    key
}

/// In `blob.tags`: what the rows begin with whose tag of that name has a value that begins with `prefix`.
pub(crate) fn tag_values(container_id: u128, of: Tagged, tag: &str, prefix: &str) -> Vec<u8> {
    let mut key = container_id.to_be_bytes().to_vec();
    if of == Tagged::Versions {
        key.push(OF_VERSIONS);
    }
    escape(&mut key, tag);
    key.extend_from_slice(&NAME_END);
    escape(&mut key, prefix);
    key
}

/// The value, the blob's name and, of a version, its moment in a key of `blob.tags`.
pub(crate) fn tagged(key: &[u8]) -> Option<(String, String, Option<Moment>)> {
    let rest = key.get(16..)?;
    let (of, rest) = match rest.strip_prefix(&[OF_VERSIONS]) {
        Some(rest) => (Tagged::Versions, rest),
        None => (Tagged::Current, rest),
    };
    let (_, rest) = unescape(rest)?;
    let (value, rest) = unescape(rest)?;
    let (blob, rest) = unescape(rest)?;
    match (of, rest) {
        (Tagged::Current, []) => Some((value, blob, None)),
        (Tagged::Current, _) => None,
        (Tagged::Versions, moment) => {
            let moment = u64::from_be_bytes(moment.try_into().ok()?);
            Some((value, blob, Some(Moment(moment))))
        }
    }
}

/// In `blob.timers`: look at the subject when it is due.
pub(crate) fn timer(due: Moment, timer: Timer, subject: &[u8]) -> Vec<u8> {
    let mut key = due.0.to_be_bytes().to_vec();
    key.push(timer as u8);
    key.extend_from_slice(subject);
    key
}

/// When it is due, the kind and the subject in a key of `blob.timers`.
pub(crate) fn timed(key: &[u8]) -> Option<(Moment, u8, &[u8])> {
    let (due, rest) = key.split_first_chunk()?;
    let (&kind, subject) = rest.split_first()?;
    Some((Moment(u64::from_be_bytes(*due)), kind, subject))
}

/// The id of the container whose row in any keyspace but `blob.containers` this is.
pub(crate) fn container_of(key: &[u8]) -> Option<u128> {
    Some(u128::from_be_bytes(key.get(..16)?.try_into().ok()?))
}

/// The name that ends here, and what comes after it.
fn unescape(mut rest: &[u8]) -> Option<(String, &[u8])> {
    let mut name = Vec::with_capacity(rest.len());
    loop {
        match rest {
            [0, 0xff, tail @ ..] => {
                name.push(0);
                rest = tail;
            }
            [0, 1, tail @ ..] => return Some((String::from_utf8(name).ok()?, tail)),
            [0, ..] | [] => return None,
            [byte, tail @ ..] => {
                name.push(*byte);
                rest = tail;
            }
        }
    }
}

fn escape(key: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
}

/// Where blocks and contents are filed: a range of `blob.blocks` and one of `blob.content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct File {
    /// The id of the container it was made in.
    pub(crate) home: u128,
    pub(crate) id: u128,
}

impl File {
    /// Everything of the file in `blob.blocks`, or in `blob.content`.
    pub(crate) fn all(&self) -> KeyRange {
        KeyRange::prefix(&self.start())
    }

    /// In `blob.blocks`: what is known of the uncommitted blocks together.
    pub(crate) fn staging(&self) -> Vec<u8> {
        self.key(&[STAGING])
    }

    /// In `blob.blocks`: one uncommitted block.
    pub(crate) fn uncommitted(&self, block_id: &[u8]) -> Vec<u8> {
        let mut key = self.key(&[UNCOMMITTED]);
        key.extend_from_slice(block_id);
        key
    }

    /// In `blob.blocks`: the uncommitted blocks and what is known of them together.
    pub(crate) fn all_staged(&self) -> KeyRange {
        KeyRange {
            start: self.staging(),
            end: Some(self.key(&[COMMITTED])),
        }
    }

    /// In `blob.blocks`: the uncommitted blocks, by id.
    pub(crate) fn all_uncommitted(&self) -> KeyRange {
        KeyRange::prefix(&self.key(&[UNCOMMITTED]))
    }

    /// In `blob.blocks`: the committed block whose last byte is just before `end_offset`.
    pub(crate) fn committed(&self, end_offset: u64) -> Vec<u8> {
        let mut key = self.key(&[COMMITTED]);
        key.extend_from_slice(&end_offset.to_be_bytes());
        key
    }

    /// In `blob.blocks`: the committed blocks that hold the byte at `offset` or one after it, in order.
    pub(crate) fn committed_from(&self, offset: u64) -> KeyRange {
        KeyRange {
            start: self.committed(offset.saturating_add(1)),
            end: KeyRange::prefix(&self.key(&[COMMITTED])).end,
        }
    }

    /// In `blob.content`: the bytes of a blob put whole.
    pub(crate) fn whole_content(&self) -> Vec<u8> {
        self.start().to_vec()
    }

    /// In `blob.content`: the bytes of a block.
    pub(crate) fn block_content(&self, content_id: u128) -> Vec<u8> {
        self.key(&content_id.to_be_bytes())
    }

    /// In `blob.blocks`: the extent of pages whose last byte is just before `end_offset`.
    pub(crate) fn extent(&self, end_offset: u64) -> Vec<u8> {
        let mut key = self.key(&[EXTENT]);
        key.extend_from_slice(&end_offset.to_be_bytes());
        key
    }

    /// In `blob.blocks`: the extents that hold the byte at `offset` or one after it, in order.
    pub(crate) fn extents_from(&self, offset: u64) -> KeyRange {
        KeyRange {
            start: self.extent(offset.saturating_add(1)),
            end: KeyRange::prefix(&self.key(&[EXTENT])).end,
        }
    }

    /// In `blob.blocks`: a window of pages as of an epoch. Of one window, later epochs come first.
    pub(crate) fn window(&self, window: u64, epoch: u64) -> Vec<u8> {
        self.key(&tagged_pair(WINDOW, window, !epoch))
    }

    /// In `blob.blocks`: all windows from the first of the range to before its end, in all epochs.
    pub(crate) fn windows(&self, windows: std::ops::Range<u64>) -> KeyRange {
        KeyRange {
            start: self.window(windows.start, u64::MAX),
            end: Some(self.window(windows.end, u64::MAX)),
        }
    }

    /// In `blob.blocks`: the window was changed in the epoch.
    pub(crate) fn changed(&self, epoch: u64, window: u64) -> Vec<u8> {
        self.key(&tagged_pair(CHANGED, epoch, window))
    }

    /// In `blob.blocks`: windows that were changed in an epoch of the range.
    pub(crate) fn changes(&self, epochs: std::ops::Range<u64>) -> KeyRange {
        KeyRange {
            start: self.changed(epochs.start, 0),
            end: Some(self.changed(epochs.end, 0)),
        }
    }

    /// In `blob.content`: the bytes of an extent of pages.
    pub(crate) fn page_content(&self, window: u64, content_id: u128) -> Vec<u8> {
        let mut key = self.key(&NO_CONTENT);
        key.extend_from_slice(&window.to_be_bytes());
        key.extend_from_slice(&content_id.to_be_bytes());
        key
    }

    /// In `blob.content`: the bytes of all extents of these windows.
    pub(crate) fn page_contents(&self, windows: std::ops::Range<u64>) -> KeyRange {
        KeyRange {
            start: self.page_content(windows.start, 0),
            end: Some(self.page_content(windows.end, 0)),
        }
    }

    /// In `blob.references`: how many records name the file.
    pub(crate) fn references(&self) -> Vec<u8> {
        self.start().to_vec()
    }

    /// In `blob.references`: that the epochs of the file are counted.
    pub(crate) fn counted(&self) -> Vec<u8> {
        self.key(&[COUNTED])
    }

    /// In `blob.references`: how many records name the file as of an epoch.
    pub(crate) fn epoch(&self, epoch: u64) -> Vec<u8> {
        let mut key = self.key(&[EPOCH]);
        key.extend_from_slice(&epoch.to_be_bytes());
        key
    }

    /// In `blob.references`: the epochs of the range.
    pub(crate) fn epochs(&self, epochs: std::ops::Range<u64>) -> KeyRange {
        KeyRange {
            start: self.epoch(epochs.start),
            end: Some(self.epoch(epochs.end)),
        }
    }

    /// The file whose key, of 32 bytes, this is.
    pub(crate) fn of(key: &[u8]) -> Option<File> {
        let (home, id) = key.split_first_chunk()?;
        Some(File {
            home: u128::from_be_bytes(*home),
            id: u128::from_be_bytes(id.try_into().ok()?),
        })
    }

    fn start(&self) -> [u8; 32] {
        let mut start = [0; 32];
        start[..16].copy_from_slice(&self.home.to_be_bytes());
        start[16..].copy_from_slice(&self.id.to_be_bytes());
        start
    }

    fn key(&self, tail: &[u8]) -> Vec<u8> {
        [&self.start()[..], tail].concat()
    }
}

fn tagged_pair(tag: u8, first: u64, second: u64) -> [u8; 17] {
    let mut key = [tag; 17];
    key[1..9].copy_from_slice(&first.to_be_bytes());
    key[9..].copy_from_slice(&second.to_be_bytes());
    key
}

fn pair(key: &[u8], tag: u8) -> Option<(u64, u64)> {
    let (first, second) = key.get(32..)?.strip_prefix(&[tag])?.split_first_chunk()?;
    let second = second.try_into().ok()?;
    Some((u64::from_be_bytes(*first), u64::from_be_bytes(second)))
}

/// In `blob.blocks`: the window and the epoch of this key.
pub(crate) fn window_and_epoch(key: &[u8]) -> Option<(u64, u64)> {
    pair(key, WINDOW).map(|(window, epoch)| (window, !epoch))
}

/// In `blob.blocks`: the epoch of this key, and the window that was changed in it.
pub(crate) fn epoch_and_window(key: &[u8]) -> Option<(u64, u64)> {
    pair(key, CHANGED)
}

/// In `blob.references`: the epoch of this key.
pub(crate) fn epoch(key: &[u8]) -> Option<u64> {
    let epoch = key.get(32..)?.strip_prefix(&[EPOCH])?;
    Some(u64::from_be_bytes(epoch.try_into().ok()?))
}

/// In `blob.blocks`: the offset at which the committed block or the extent of this key ends.
pub(crate) fn end_offset(key: &[u8]) -> Option<u64> {
    match key.get(32..)? {
        [COMMITTED | EXTENT, offset @ ..] => Some(u64::from_be_bytes(offset.try_into().ok()?)),
        _ => None,
    }
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
            let key = |name: &str, ticks| history(7, History::Snapshot, name, Moment(ticks));
            let order = (a.as_bytes(), s).cmp(&(b.as_bytes(), t));
            prop_assert_eq!(key(&a, s).cmp(&key(&b, t)), order);
            prop_assert_eq!(history_name(&key(&a, s)), Some((a, Some(Moment(s)))));
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
        fn any_bytes_as_key_are_answered_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            let _ = (blob_name(&bytes), end_offset(&bytes), history_name(&bytes), container_of(&bytes));
            let _ = (container_name(&bytes, b""), window_and_epoch(&bytes), epoch_and_window(&bytes), epoch(&bytes), File::of(&bytes), tagged(&bytes));
        }
    }

    #[test]
    fn committed_blocks_are_found_by_any_offset_inside() {
        let files = File { home: 1, id: 2 };
        let range = files.committed_from(9);
        assert!(files.committed(9) < range.start);
        assert_eq!(files.committed(10), range.start);
        assert_eq!(end_offset(&files.committed(10)), Some(10));
    }
}

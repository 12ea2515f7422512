//! Names to engine keys and back; the only file that knows their layout.
//!
//! ```text
//! blob.accounts     01 account                                            -> service properties, as the server wrote them
//! blob.containers   account 00 01 container                              -> Container
//! blob.blobs        container-id name 00 01 FF                           -> BlobRecord
//! blob.blocks       container-id blob-id 00                              -> Staging
//!                   container-id blob-id 01 block-id                     -> BlobBlock (uncommitted)
//!                   container-id blob-id 02 end-offset                   -> BlobBlock (committed)
//! blob.content      container-id blob-id                                 -> the bytes of a Put Blob
//!                   container-id blob-id content-id                      -> the bytes of a Put Block
//! ```
//!
//! Ids are 16 bytes and offsets 8, big-endian. In names `00` becomes `00 FF` and `00 01` ends them, so that the order of
//! keys is the byte order of names. The `FF` after a blob's name leaves room before it for what else has that name.
//! All of a container, and all blocks and contents of a blob, are one range of each keyspace: dropping them is one record.

use lazurite_engine::KeyRange;

const SERVICE_PROPERTIES: u8 = 1;
const NAME_END: [u8; 2] = [0, 1];
const BASE_BLOB: u8 = 0xff;
const STAGING: u8 = 0;
const UNCOMMITTED: u8 = 1;
const COMMITTED: u8 = 2;

/// The row of an account's service properties.
pub(crate) fn service_properties(account: &str) -> Vec<u8> {
    [&[SERVICE_PROPERTIES], account.as_bytes()].concat()
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

/// The container's name in a key that begins with [`account_start`] of `account`.
pub(crate) fn container_name(key: &[u8], account_start: &[u8]) -> Option<String> {
    String::from_utf8(key.strip_prefix(account_start)?.to_vec()).ok()
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
    let mut rest = key.get(16..)?;
    let mut name = Vec::with_capacity(rest.len());
    loop {
        match rest {
            [0, 0xff, tail @ ..] => {
                name.push(0);
                rest = tail;
            }
            [0, 1, BASE_BLOB] => return String::from_utf8(name).ok(),
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

/// Where the blocks and contents of one blob are filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobFiles {
    pub(crate) container_id: u128,
    pub(crate) blob_id: u128,
}

impl BlobFiles {
    /// Everything of the blob in `blob.blocks`, or in `blob.content`.
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

    fn start(&self) -> [u8; 32] {
        let mut start = [0; 32];
        start[..16].copy_from_slice(&self.container_id.to_be_bytes());
        start[16..].copy_from_slice(&self.blob_id.to_be_bytes());
        start
    }

    fn key(&self, tail: &[u8]) -> Vec<u8> {
        [&self.start()[..], tail].concat()
    }
}

/// In `blob.blocks`: the offset at which the committed block of this key ends.
pub(crate) fn end_offset(key: &[u8]) -> Option<u64> {
    match key.get(32..)? {
        [COMMITTED, offset @ ..] => Some(u64::from_be_bytes(offset.try_into().ok()?)),
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
            let _ = (blob_name(&bytes), end_offset(&bytes));
        }
    }

    #[test]
    fn committed_blocks_are_found_by_any_offset_inside() {
        let files = BlobFiles {
            container_id: 1,
            blob_id: 2,
        };
        let range = files.committed_from(9);
        assert!(files.committed(9) < range.start);
        assert_eq!(files.committed(10), range.start);
        assert_eq!(end_offset(&files.committed(10)), Some(10));
    }
}

//! Keys of a file: its rows in `blob.blocks`, `blob.content` and `blob.references`.

use crate::place::Place;
use lazurite_engine::KeyRange;

// Suffixes of a file's keys in `blob.blocks`.
const STAGING: u8 = 0;
const UNCOMMITTED: u8 = 1;
const COMMITTED: u8 = 2;
const NODE: u8 = 3;
const REFERENCE: u8 = 4;
const DROPPED: u8 = 5;

// Suffix of a file's keys in `blob.references`.
const NAMER: u8 = 0;

/// The id of no content.
const NO_CONTENT: [u8; 16] = [0xff; 16];

/// Where blocks and contents are filed: a range of `blob.blocks` and one of `blob.content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct File {
    /// The id of the container that the file was made in.
    pub(crate) home: u128,
    pub(crate) id: u128,
}

/// Identifies a content in `blob.content`. The order is that of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContentName {
    pub(crate) file: File,
    /// The window of an extent of pages; `None` for a block.
    pub(crate) window: Option<u64>,
    pub(crate) content: u128,
}

impl ContentName {
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(72);
        self.write_key(&mut key);
        key
    }

    /// Writes the key of the content to `key`, whose memory is reused.
    pub(crate) fn write_key(&self, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.file.start());
        if let Some(window) = self.window {
            key.extend_from_slice(&NO_CONTENT);
            key.extend_from_slice(&window.to_be_bytes());
        }
        key.extend_from_slice(&self.content.to_be_bytes());
    }
}

impl File {
    /// Everything of the file in `blob.blocks`, or in `blob.content`.
    pub(crate) fn all(&self) -> KeyRange {
        KeyRange::prefix(&self.start())
    }

    /// In `blob.blocks`: the record of all uncommitted blocks together.
    pub(crate) fn staging(&self) -> Vec<u8> {
        self.key(&[STAGING])
    }

    /// In `blob.blocks`: one uncommitted block.
    pub(crate) fn uncommitted(&self, block_id: &[u8]) -> Vec<u8> {
        let mut key = self.key(&[UNCOMMITTED]);
        key.extend_from_slice(block_id);
        key
    }

    /// In `blob.blocks`: the uncommitted blocks, and the record about all of them.
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

    /// In `blob.blocks`: the committed blocks that end after `offset`, in order.
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
        let name = ContentName {
            file: *self,
            window: None,
            content: content_id,
        };
        name.key()
    }

    /// In `blob.blocks`: a node of a tree of pages.
    pub(crate) fn node(&self, place: Place, id: u128) -> Vec<u8> {
        self.key(&tagged_node(NODE, place, id))
    }

    /// In `blob.blocks`: the number of references to a node or a content of pages.
    pub(crate) fn reference(&self, id: u128) -> Vec<u8> {
        let mut key = self.key(&[REFERENCE]);
        key.extend_from_slice(&id.to_be_bytes());
        key
    }

    /// In `blob.blocks`: the note that a node has no references and is to be deleted.
    pub(crate) fn dropped(&self, place: Place, id: u128) -> Vec<u8> {
        self.key(&tagged_node(DROPPED, place, id))
    }

    /// In `blob.blocks`: all rows of [`File::dropped`], those of leaves first.
    pub(crate) fn all_dropped(&self) -> KeyRange {
        KeyRange::prefix(&self.key(&[DROPPED]))
    }

    /// In `blob.content`: the bytes of an extent of pages.
    pub(crate) fn page_content(&self, window: u64, content_id: u128) -> Vec<u8> {
        let name = ContentName {
            file: *self,
            window: Some(window),
            content: content_id,
        };
        name.key()
    }

    /// In `blob.references`: the number of records that name the file.
    pub(crate) fn references(&self) -> Vec<u8> {
        self.start().to_vec()
    }

    /// In `blob.references`: the row which says that a record of a blob names the file, or named
    /// it. `blob_key` is the key of the blob in `blob.blobs`.
    pub(crate) fn namer(&self, blob_key: &[u8]) -> Vec<u8> {
        let mut key = self.key(&[NAMER]);
        key.extend_from_slice(blob_key);
        key
    }

    /// In `blob.references`: all rows of [`File::namer`].
    pub(crate) fn namers(&self) -> KeyRange {
        KeyRange::prefix(&self.key(&[NAMER]))
    }

    /// The file with this key, of 32 bytes.
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

/// Returns the id in a key of `blob.content` if it belongs to a block; `None` for the content of a
/// blob put whole, or of pages.
pub(crate) fn block_content_id(key: &[u8]) -> Option<u128> {
    Some(u128::from_be_bytes(key.get(32..)?.try_into().ok()?))
}

fn tagged_node(tag: u8, place: Place, id: u128) -> [u8; 26] {
    let mut key = [tag; 26];
    key[1] = place.level;
    key[2..10].copy_from_slice(&place.number.to_be_bytes());
    key[10..].copy_from_slice(&id.to_be_bytes());
    key
}

/// In `blob.blocks`: the node of a key of [`File::dropped`].
pub(crate) fn dropped_node(key: &[u8]) -> Option<(Place, u128)> {
    let (&level, rest) = key.get(32..)?.strip_prefix(&[DROPPED])?.split_first()?;
    let (number, id) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(*number);
    let id = u128::from_be_bytes(id.try_into().ok()?);
    Some((Place::of(level, number)?, id))
}

/// In `blob.references`: the key of the blob in a key of [`File::namer`].
pub(crate) fn namer(key: &[u8]) -> Option<&[u8]> {
    key.get(32..)?.strip_prefix(&[NAMER])
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

    #[test]
    fn committed_blocks_are_found_by_any_offset_inside() {
        let files = File { home: 1, id: 2 };
        let range = files.committed_from(9);
        assert!(files.committed(9) < range.start);
        assert_eq!(files.committed(10), range.start);
        assert_eq!(end_offset(&files.committed(10)), Some(10));
    }
}

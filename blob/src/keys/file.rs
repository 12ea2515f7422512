//! Keys of a file: its rows in `blob.blocks`, `blob.content` and `blob.references`.

use lazurite_engine::KeyRange;

// Suffixes of a file's keys in `blob.blocks`.
const STAGING: u8 = 0;
const UNCOMMITTED: u8 = 1;
const COMMITTED: u8 = 2;
const EXTENT: u8 = 3;
const WINDOW: u8 = 4;
const CHANGED: u8 = 5;

// And in `blob.references`.
const COUNTED: u8 = 0;
const EPOCH: u8 = 1;
const NAMER: u8 = 2;

/// The id of no content.
const NO_CONTENT: [u8; 16] = [0xff; 16];

/// Where blocks and contents are filed: a range of `blob.blocks` and one of `blob.content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct File {
    /// The id of the container it was made in.
    pub(crate) home: u128,
    pub(crate) id: u128,
}

/// The name of a content in `blob.content`, in key order.
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

    /// Makes `key` the key, in the memory that it has.
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
        let name = ContentName {
            file: *self,
            window: None,
            content: content_id,
        };
        name.key()
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
        let name = ContentName {
            file: *self,
            window: Some(window),
            content: content_id,
        };
        name.key()
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

    /// In `blob.references`: that a record of the blob with this key in `blob.blobs` names the file, or did.
    pub(crate) fn namer(&self, blob_key: &[u8]) -> Vec<u8> {
        let mut key = self.key(&[NAMER]);
        key.extend_from_slice(blob_key);
        key
    }

    /// In `blob.references`: all rows of [`File::namer`].
    pub(crate) fn namers(&self) -> KeyRange {
        KeyRange::prefix(&self.key(&[NAMER]))
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

/// The id in a key of the bytes of a block in `blob.content`; `None` for those of a blob put whole, or of pages.
pub(crate) fn block_content_id(key: &[u8]) -> Option<u128> {
    Some(u128::from_be_bytes(key.get(32..)?.try_into().ok()?))
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

/// In `blob.references`: the key of the blob in a key of [`File::namer`].
pub(crate) fn namer(key: &[u8]) -> Option<&[u8]> {
    key.get(32..)?.strip_prefix(&[NAMER])
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

    #[test]
    fn committed_blocks_are_found_by_any_offset_inside() {
        let files = File { home: 1, id: 2 };
        let range = files.committed_from(9);
        assert!(files.committed(9) < range.start);
        assert_eq!(files.committed(10), range.start);
        assert_eq!(end_offset(&files.committed(10)), Some(10));
    }
}

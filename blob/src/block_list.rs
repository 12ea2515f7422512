//! Block lists: the contents of a new list, and the contents that are no longer referred to. Pure,
//! no store.

use crate::error::{Error, Result};
use crate::keys::File;
use crate::model::BlobBlock;
use std::collections::{HashMap, HashSet};

/// Maximum number of blocks of a committed list. Source: Put Block List, "Remarks".
pub const COMMITTED_BLOCKS_MAX: usize = 50_000;
/// Maximum number of uncommitted blocks of one blob. Source: Put Block, "Remarks".
pub(crate) const UNCOMMITTED_BLOCKS_MAX: u32 = 100_000;
/// Maximum number of bytes of a block id, decoded.
const BLOCK_ID_BYTES_MAX: usize = 64;

/// One element of a Put Block List body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockChoice {
    /// From the element's name: `Committed`, `Uncommitted` or `Latest`.
    pub source: BlockSource,
    /// The id of the block, decoded from base64.
    pub id: Vec<u8>,
}

/// Where Put Block List looks for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSource {
    /// Among the committed blocks.
    Committed,
    /// Among the uncommitted blocks.
    Uncommitted,
    /// Among the uncommitted blocks, then the committed ones.
    Latest,
}

/// The lists that Get Block List returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockListType {
    /// The committed list.
    #[default]
    Committed,
    /// The uncommitted list.
    Uncommitted,
    /// Both lists.
    All,
}

/// The result of Put Block List.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewList {
    /// The blocks in the order of the content.
    pub(crate) blocks: Vec<BlobBlock>,
    /// Length of all blocks together, in bytes.
    pub(crate) length: u64,
    /// Contents that no block of the new list refers to, with their files.
    pub(crate) unreferenced: Vec<(File, u128)>,
}

/// Fails unless `id` may be a block's: 1 to 64 bytes.
pub(crate) fn check_block_id(id: &[u8]) -> Result<()> {
    match id.len() {
        0 => Err(Error::InvalidBlockId),
        1..=BLOCK_ID_BYTES_MAX => Ok(()),
        _ => Err(Error::OutOfRangeInput {
            reason: "a block id has at most 64 bytes before base64",
        }),
    }
}

/// Looks up the chosen blocks, in order. Contents that no chosen block refers to are returned as
/// `unreferenced`, for the caller to drop. Error: `InvalidBlockList` for a block that is not found.
pub(crate) fn resolve(
    choices: &[BlockChoice],
    committed: &[BlobBlock],
    uncommitted: &[BlobBlock],
) -> Result<NewList> {
    let (in_committed, in_uncommitted) = (by_id(committed), by_id(uncommitted));
    let find = |choice: &BlockChoice| {
        let id = &choice.id[..];
        let found = match choice.source {
            BlockSource::Committed => in_committed.get(id),
            BlockSource::Uncommitted => in_uncommitted.get(id),
            BlockSource::Latest => in_uncommitted.get(id).or_else(|| in_committed.get(id)),
        };
        found
            .map(|&block| block.clone())
            .ok_or(Error::InvalidBlockList)
    };
    let blocks = choices.iter().map(find).collect::<Result<Vec<_>>>()?;
    let length = blocks
        .iter()
        .try_fold(0u64, |sum, block| sum.checked_add(block.length))
        .ok_or(Error::InvalidBlockList)?;
    let referenced: HashSet<u128> = blocks.iter().map(|block| block.content).collect();
    let before: HashSet<(File, u128)> = contents(committed).chain(contents(uncommitted)).collect();
    let is_unreferenced = |(_, content): &(File, u128)| !referenced.contains(content);
    Ok(NewList {
        unreferenced: before.into_iter().filter(is_unreferenced).collect(),
        blocks,
        length,
    })
}

/// The contents of blocks, with their files. Blocks without a file are left out.
pub(crate) fn contents(blocks: &[BlobBlock]) -> impl Iterator<Item = (File, u128)> {
    let content = |block: &BlobBlock| Some((block.file?, block.content));
    blocks.iter().filter_map(content)
}

/// Blocks by id. If a committed list has an id twice, the first counts.
fn by_id(blocks: &[BlobBlock]) -> HashMap<&[u8], &BlobBlock> {
    let mut map = HashMap::with_capacity(blocks.len());
    for block in blocks {
        map.entry(&block.id[..]).or_insert(block);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use BlockSource::{Committed, Latest, Uncommitted};

    fn block(id: &str, length: u64, content: u128) -> BlobBlock {
        BlobBlock {
            id: id.as_bytes().to_vec(),
            length,
            content,
            file: Some(File { home: 1, id: 2 }),
        }
    }

    fn choices(choices: &[(BlockSource, &str)]) -> Vec<BlockChoice> {
        let own = |&(source, id): &(BlockSource, &str)| BlockChoice {
            source,
            id: id.as_bytes().to_vec(),
        };
        choices.iter().map(own).collect()
    }

    /// Resolves a list. Committed are `a` with content 10 and `b` with content 11; uncommitted are
    /// `b` with content 21 and `c` with content 22. Returns the contents chosen, the length, and
    /// the contents dropped.
    fn resolved(list: &[(BlockSource, &str)]) -> Result<(Vec<u128>, u64, Vec<u128>)> {
        let committed = [block("a", 1, 10), block("b", 2, 11)];
        let uncommitted = [block("b", 3, 21), block("c", 4, 22)];
        let list = resolve(&choices(list), &committed, &uncommitted)?;
        let mut unreferenced: Vec<u128> = list.unreferenced.iter().map(|(_, id)| *id).collect();
        unreferenced.sort_unstable();
        let contents = list.blocks.iter().map(|block| block.content).collect();
        Ok((contents, list.length, unreferenced))
    }

    #[test]
    fn each_source_looks_where_it_says() {
        let found = |source, id| {
            resolved(&[(source, id)])
                .ok()
                .map(|(contents, ..)| contents[0])
        };
        for (source, a, b, c) in [
            (Committed, Some(10), Some(11), None),
            (Uncommitted, None, Some(21), Some(22)),
            (Latest, Some(10), Some(21), Some(22)),
        ] {
            assert_eq!(found(source, "a"), a, "{source:?} a");
            assert_eq!(found(source, "b"), b, "{source:?} b");
            assert_eq!(found(source, "c"), c, "{source:?} c");
            assert_eq!(found(source, "d"), None, "{source:?} d");
        }
    }

    #[test]
    fn order_and_repetition_are_kept_and_the_rest_is_dropped() {
        let list = [
            (Uncommitted, "c"),
            (Committed, "b"),
            (Latest, "b"),
            (Latest, "c"),
        ];
        let (contents, length, unreferenced) = resolved(&list).unwrap();
        assert_eq!(contents, [22, 11, 21, 22]);
        assert_eq!(length, 4 + 2 + 3 + 4);
        assert_eq!(unreferenced, [10]);
    }

    #[test]
    fn empty_list_drops_everything() {
        assert_eq!(resolved(&[]).unwrap(), (vec![], 0, vec![10, 11, 21, 22]));
    }

    #[test]
    fn lengths_that_overflow_are_refused() {
        let committed = [block("a", u64::MAX, 10)];
        let twice = choices(&[(Committed, "a"), (Committed, "a")]);
        assert!(matches!(
            resolve(&twice, &committed, &[]),
            Err(Error::InvalidBlockList)
        ));
    }

    #[test]
    fn block_ids_have_1_to_64_bytes() {
        assert!(check_block_id(&[0; 64]).is_ok());
        assert!(matches!(check_block_id(&[]), Err(Error::InvalidBlockId)));
        assert!(matches!(
            check_block_id(&[0; 65]),
            Err(Error::OutOfRangeInput { .. })
        ));
    }
}

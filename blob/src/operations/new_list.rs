//! What Put Block List does to the blocks of a blob: which rows and contents stay, which go, and in whose file the list lies.

use super::encryption::RequestEncryption;
use super::write::{BlobWrite, LAST, RetireReason};
use crate::block_list::{self, BlockChoice, NewList};
use crate::codec;
use crate::error::{Error, Result};
use crate::keys::{File, History};
use crate::model::{Blob, BlobBlock, Content, Layer};
use lazurite_engine::KeyRange;
use std::collections::{BTreeSet, HashSet};

impl BlobWrite<'_> {
    /// Puts the rows of a new list in place of those there are, and drops the contents that nobody refers to. Answers the list
    /// and the files that the blob names from now on.
    pub(super) fn replace_blocks(
        &mut self,
        choices: &[BlockChoice],
        brought: &RequestEncryption,
    ) -> Result<(NewList, Vec<Layer>)> {
        let service = self.service;
        let snapshot = service.db.snapshot();
        let staging = self.staging().map(|id| self.file(id));
        let filed = |file: Option<File>, range: fn(&File) -> KeyRange| {
            let Some(file) = file else {
                return Ok(Vec::new());
            };
            let mut blocks = service.blocks(&snapshot, range(&file))?;
            for block in &mut blocks {
                block.file = block.file.or(Some(file));
            }
            Ok::<_, Error>(blocks)
        };
        let listed = self.current().and_then(listed_file);
        let committed = filed(listed, |file| file.committed_from(0))?;
        let uncommitted = filed(staging, File::all_uncommitted)?;
        let list = block_list::resolve(choices, &committed, &uncommitted)?;
        let staged: HashSet<u128> = uncommitted.iter().map(|block| block.content).collect();
        self.check_encryption_of_blocks(&list, &staged, brought)?;
        drop(snapshot);

        let mut exclusive = HashSet::new();
        if !self.keeps_retired() {
            for layer in self.current().iter().flat_map(|blob| &blob.layers) {
                if !service.is_shared(layer)? {
                    exclusive.insert(layer.file);
                }
            }
        }
        let own = self.current().and_then(|blob| blob.layers.first());
        let own = own
            .map(|layer| layer.file)
            .filter(|file| exclusive.contains(file));
        let target = match staging {
            // Blocks put beside a file that stays cannot be listed in it.
            Some(staging) if own == Some(staging) || !self.names(staging) => staging,
            Some(_) => self.new_file(),
            None => own.unwrap_or_else(|| self.new_file()),
        };
        self.drop_staged_rows(staging);
        for (file, content) in &list.unreferenced {
            if staged.contains(content) || exclusive.contains(file) {
                let key = file.block_content(*content);
                self.rows().delete_content(&key);
            }
        }
        let layers = self.rearrange(&list, target, &exclusive)?;
        let layers = self.trim_layers(layers, &list.blocks, &exclusive)?;
        self.put_list(&list, target);
        Ok((list, layers))
    }

    /// Fails unless all blocks that are listed are encrypted with what the request brought. `staged` are the contents of those
    /// that were not committed.
    fn check_encryption_of_blocks(
        &self,
        list: &NewList,
        staged: &HashSet<u128>,
        brought: &RequestEncryption,
    ) -> Result<()> {
        let is_staged = |block: &BlobBlock| staged.contains(&block.content);
        if list.blocks.iter().any(is_staged)
            && let Some(id) = self.staging()
        {
            let service = self.service;
            let row = self.file(id).staging();
            if let Some(value) = service.db.get(&service.keyspaces.blocks, &row)? {
                brought.check(&codec::decode_staging(&value)?.encryption)?;
            }
        }
        match self.current() {
            Some(blob) if !list.blocks.iter().all(is_staged) => brought.check(&blob.encryption),
            _ => Ok(()),
        }
    }

    /// Of files that others named before and nobody else names now, what the list does not name goes as well.
    fn trim_layers(
        &mut self,
        mut layers: Vec<Layer>,
        blocks: &[BlobBlock],
        exclusive: &HashSet<File>,
    ) -> Result<Vec<Layer>> {
        for layer in &mut layers {
            if layer.shared && exclusive.contains(&layer.file) {
                let named = blocks.iter().filter(|block| block.file == Some(layer.file));
                let named = named.map(|block| block.content).collect();
                self.trim_file(layer, &named)?;
            }
        }
        Ok(layers)
    }

    /// Whether the stored blob names the file.
    fn names(&self, file: File) -> bool {
        let mut layers = self.current().into_iter().flat_map(|blob| &blob.layers);
        layers.any(|layer| layer.file == file)
    }

    fn drop_staged_rows(&mut self, staging: Option<File>) {
        if let Some(staging) = staging {
            self.rows().delete_blocks(staging.all_staged());
        }
    }

    /// The files that the blob names with its new list in `target`; lets go of those it named before and needs no more.
    fn rearrange(
        &mut self,
        list: &NewList,
        target: File,
        exclusive: &HashSet<File>,
    ) -> Result<Vec<Layer>> {
        let needed: BTreeSet<File> = list.blocks.iter().filter_map(|block| block.file).collect();
        let before = self
            .current()
            .map_or(Vec::new(), |blob| blob.layers.clone());
        let whole = self
            .current()
            .is_some_and(|blob| blob.content == Content::Whole);
        if self.keeps_retired() {
            self.share_layers(|file| needed.contains(&file) && file != target);
            let _ = self.retire_blob(RetireReason::Overwritten)?;
        } else {
            if let Some(blob) = self.current().cloned() {
                self.trim_later(History::Snapshot, LAST, &blob);
            }
            for layer in &before {
                let stays = layer.file == target || needed.contains(&layer.file);
                if whole && layer.file == target {
                    let key = layer.file.whole_content();
                    self.rows().delete_content(&key);
                } else if !stays {
                    self.unname_file(layer);
                } else if exclusive.contains(&layer.file) {
                    let list = layer.file.committed_from(0);
                    self.rows().delete_blocks(list);
                }
            }
        }
        let kept = self
            .current()
            .map_or(Vec::new(), |blob| blob.layers.clone());
        let others = needed.iter().filter(|file| **file != target);
        let layer = |file: File| Layer {
            file,
            shared: kept.iter().any(|layer| layer.file == file && layer.shared),
            end: list.length,
            windowed: false,
        };
        Ok(std::iter::once(target)
            .chain(others.copied())
            .map(layer)
            .collect())
    }

    fn put_list(&mut self, list: &NewList, target: File) {
        let mut end_offset = 0;
        for block in &list.blocks {
            end_offset += block.length;
            let block = BlobBlock {
                file: block.file.filter(|file| *file != target),
                ..block.clone()
            };
            let value = codec::encode_block(&block);
            self.rows().put_block(&target.committed(end_offset), &value);
        }
    }
}

/// The file that has the committed list of the blob, if it has one.
pub(super) fn listed_file(blob: &Blob) -> Option<File> {
    let has_blocks = matches!(blob.content, Content::Blocks { count: 1.. });
    Some(blob.layers.first().filter(|_| has_blocks)?.file)
}

//! Put Block List: which rows and contents of a blob stay, which are removed, and which file holds
//! the new list.

use crate::block_list::{self, BlockChoice, NewList};
use crate::codec;
use crate::error::Result;
use crate::keys::{File, History};
use crate::model::{Blob, BlobBlock, Content, Layer};
use crate::operations::encryption::RequestEncryption;
use crate::operations::write::{BlobWrite, LAST, RetireReason};
use std::collections::{BTreeSet, HashSet};

impl BlobWrite<'_> {
    /// Replaces the rows of the block list, and drops contents that are no longer referred to.
    /// Returns the list and the files that the blob names from now on.
    pub(super) fn replace_blocks(
        &mut self,
        choices: &[BlockChoice],
        brought: &RequestEncryption,
    ) -> Result<(NewList, Vec<Layer>)> {
        let service = self.service;
        let snapshot = service.db.snapshot();
        let staging = self.staging().map(|id| self.file(id));
        let listed = self.current().and_then(listed_file);
        let committed = service.filed(&snapshot, listed, |file| file.committed_from(0))?;
        let uncommitted = service.filed(&snapshot, staging, File::all_uncommitted)?;
        let list = block_list::resolve(choices, &committed, &uncommitted)?;
        let staged: HashSet<u128> = uncommitted.iter().map(|block| block.content).collect();
        self.check_encryption_of_blocks(&list, &staged, brought)?;
        drop(snapshot);

        let exclusive = self.exclusive_files()?;
        let own = self.current().and_then(|blob| blob.layers.first());
        let own = own
            .map(|layer| layer.file)
            .filter(|file| exclusive.contains(file));
        let target = match staging {
            // If other records need the blob's own file, blocks in it cannot be listed there.
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

    /// Fails unless all listed blocks are encrypted with the key or scope of the request. `staged`:
    /// the contents of uncommitted blocks.
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

    /// Trims files that other records named before, and no longer name, to the blocks of the list.
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

    /// The files that only the replaced record names; none if that record is kept.
    fn exclusive_files(&self) -> Result<HashSet<File>> {
        let mut exclusive = HashSet::new();
        if !self.keeps(RetireReason::Overwritten) {
            for layer in self.current().iter().flat_map(|blob| &blob.layers) {
                if !self.service.is_shared(layer)? {
                    exclusive.insert(layer.file);
                }
            }
        }
        Ok(exclusive)
    }

    /// Returns the layers that the blob has once its list is in `target`. Releases the files that
    /// the blob no longer needs.
    fn rearrange(
        &mut self,
        list: &NewList,
        target: File,
        exclusive: &HashSet<File>,
    ) -> Result<Vec<Layer>> {
        let needed: BTreeSet<File> = list.blocks.iter().filter_map(|block| block.file).collect();
        if self.keeps(RetireReason::Overwritten) {
            self.share_layers(|file| needed.contains(&file) && file != target);
            let _ = self.retire_blob(RetireReason::Overwritten)?;
        } else {
            self.drop_replaced(target, &needed, exclusive);
        }
        let kept = self
            .current()
            .map_or(Vec::new(), |blob| blob.layers.clone());
        let others = needed.iter().filter(|file| **file != target);
        let layer = |file: File| Layer {
            shared: kept.iter().any(|layer| layer.file == file && layer.shared),
            ..Layer::new(file, list.length)
        };
        Ok(std::iter::once(target)
            .chain(others.copied())
            .map(layer)
            .collect())
    }

    /// Drops the files and rows of the replaced record that the new list does not need.
    fn drop_replaced(&mut self, target: File, needed: &BTreeSet<File>, exclusive: &HashSet<File>) {
        let Ok(replaced) = self.existing() else {
            return;
        };
        self.trim_later(History::Snapshot, LAST, &replaced);
        let whole = replaced.content == Content::Whole;
        for layer in &replaced.layers {
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

    pub(super) fn put_list(&mut self, list: &NewList, target: File) {
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

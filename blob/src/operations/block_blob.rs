//! Operations on block blobs: a body put whole, or blocks put one by one and a list that makes them a blob.

use super::Found;
use super::new_blob::{BlobSettings, NewBlob};
use super::write::{BlobWrite, Retired};
use crate::BlobService;
use crate::block_list::{
    self, BlockChoice, BlockListType, COMMITTED_BLOCKS_MAX, NewList, UNCOMMITTED_BLOCKS_MAX,
};
use crate::checksum::Checksums;
use crate::cipher::CustomerKey;
use crate::codec;
use crate::conditions::{Conditions, Validators, WriteKind};
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::keys::{self, File, History};
use crate::lease::Leased;
use crate::model::{
    Blob, BlobAddress, BlobBlock, BlobHeaders, BlobState, BlobType, BlockList, Content, Encryption,
    Layer, Metadata, Staging, Tags, Written,
};
use crate::names;
use crate::sweep::{STAGING_LIFETIME, Timer};
use crate::upload::{Upload, UploadKind};
use lazurite_engine::{Direction, KeyRange, Snapshot, Ticket};
use std::collections::{BTreeSet, HashSet};
use std::time::SystemTime;

/// The request of Put Blob for a block blob.
#[derive(Debug)]
pub struct PutBlob {
    /// The body, begun as [`UploadKind::PutBlob`] and written to its end.
    pub upload: Upload,
    /// Headers of the blob. An MD5 among them must be the body's, and is checked instead of `Content-MD5`; without one
    /// the MD5 of the body is stored.
    pub headers: BlobHeaders,
    /// Metadata of the blob.
    pub metadata: Metadata,
    /// What else the blob is made with.
    pub settings: BlobSettings,
    /// What must hold of the blob before.
    pub conditions: Conditions,
}

/// The answer of Put Blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutBlobOutcome {
    /// The blob's validators.
    pub written: Written,
    /// Of the body: MD5 always, CRC64 if the client sent one.
    pub checksums: Checksums,
}

/// The request of Put Block List.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutBlockList {
    /// The blocks, in the order of the content; may be empty.
    pub blocks: Vec<BlockChoice>,
    /// Headers of the blob. An MD5 among them is stored and not checked.
    pub headers: BlobHeaders,
    /// Metadata of the blob.
    pub metadata: Metadata,
    /// What else the blob is made with.
    pub settings: BlobSettings,
    /// What must hold of the blob before.
    pub conditions: Conditions,
}

impl BlobService {
    /// Begins a body, which the caller writes to the upload and then gives to the operation it is for. Nothing of it is
    /// visible before, and dropping it leaves nothing. `claimed` is what the request says of its body: `Content-MD5` or
    /// `x-ms-content-crc64`. Errors: `BothCrc64AndMd5HeaderPresent`.
    pub fn begin_upload(&self, kind: UploadKind, claimed: Checksums) -> Result<Upload> {
        Upload::begin(self, kind, claimed, None)
    }

    /// As [`BlobService::begin_upload`] of a body that is stored encrypted with a key which the client brings.
    pub fn begin_encrypted_upload(
        &self,
        kind: UploadKind,
        claimed: Checksums,
        key: CustomerKey,
    ) -> Result<Upload> {
        Upload::begin(self, kind, claimed, Some(key))
    }

    /// Fails as Put Blob or Put Block List would now for reasons that need no body: for a server that decides before it
    /// takes one. They check again themselves. Errors: of the names; those of the conditions of a write and of leases,
    /// `BlobAlreadyExists` for `If-None-Match: *`; `ContainerNotFound`.
    pub fn check_put(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<()> {
        let condition = conditions.for_write()?;
        let found = self.find(address, now)?;
        let blob = found.blob.as_ref();
        condition.check(WriteKind::Create, blob.map(Validators::from))?;
        conditions.check_tags(blob.map_or(&Tags::new(), |blob| &blob.tags))?;
        let lease = blob.map(|blob| blob.lease).unwrap_or_default();
        lease.check_write(conditions.lease_id, now, Leased::Blob)
    }

    /// Makes a block blob of one body, in place of whatever has the name, its uncommitted blocks included.
    /// Errors: of the names, metadata and tags; those of the conditions of a write and of leases, `BlobAlreadyExists` for
    /// `If-None-Match: *`; `Md5Mismatch`, `Crc64Mismatch`; `ContainerNotFound`; `PendingCopyOperation`,
    /// `BlobImmutableDueToPolicy`.
    pub fn put_blob(
        &self,
        address: &BlobAddress<'_>,
        request: PutBlob,
        now: SystemTime,
    ) -> Result<(PutBlobOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        names::check_metadata(&request.metadata)?;
        let settings = request.settings.checked(BlobType::BlockBlob)?;
        let mut headers = request.headers;
        let body = request
            .upload
            .finish(UploadKind::PutBlob, headers.content_md5)?;
        let (length, checksums) = (body.length, body.checksums);
        headers.content_md5 = checksums.md5;

        let mut write = self.begin_write(address, now)?;
        write.check(condition, &request.conditions, WriteKind::Create)?;
        write.check_scope(&settings)?;
        let encryption = Encryption::of(body.key.as_ref());
        let file = match write.replaceable_file()? {
            Some(file) if body.key.is_none() => file,
            _ => {
                write.retire(Retired::Overwritten)?;
                // An encrypted body is encrypted for this id.
                write.file(body.content())
            }
        };
        let (content, key) = (&self.keyspaces.content, file.whole_content());
        match length {
            0 => write.batch.delete(content, &key),
            _ => body.put(&mut write.batch, content, &key),
        }
        let blob = write.new_blob(NewBlob {
            content: Content::Whole,
            layers: vec![Layer {
                file,
                shared: false,
                end: length,
                windowed: false,
            }],
            length,
            headers,
            metadata: request.metadata,
            settings,
            encryption,
        });
        let written = blob.written();
        write.put_current(&blob);
        Ok((PutBlobOutcome { written, checksums }, write.commit()?))
    }

    /// Puts an uncommitted block, in place of the uncommitted one of that id. The blob itself stays as it is; if there is
    /// none there is none afterwards, but Get Block List knows the name. `upload` was begun as [`UploadKind::PutBlock`].
    /// Answers the checksums of the body: CRC64 always, MD5 if the client sent one.
    /// Errors: of the names; `InvalidBlockId`, `OutOfRangeInput` for an id over 64 bytes, `InvalidBlobOrBlock` for one of
    /// another length than the blob's others; `InvalidHeaderValue` for an empty body; `Md5Mismatch`, `Crc64Mismatch`;
    /// `BlockCountExceedsLimit`; `ContainerNotFound`; `InvalidBlobType`; those of leases.
    pub fn put_block(
        &self,
        address: &BlobAddress<'_>,
        block_id: &[u8],
        upload: Upload,
        lease_id: Option<Guid>,
        now: SystemTime,
    ) -> Result<(Checksums, Ticket)> {
        block_list::check_block_id(block_id)?;
        if upload.length() == 0 {
            return Err(Error::InvalidHeaderValue {
                header: "Content-Length",
                value: "0".to_string(),
            });
        }
        let body = upload.finish(UploadKind::PutBlock, None)?;
        let (length, checksums) = (body.length, body.checksums);

        let mut write = self.begin_write(address, now)?;
        write.check_type(BlobType::BlockBlob)?;
        write.check_lease(lease_id)?;
        let file = write.staging_file()?;
        let replaced = self.uncommitted_block(&file, block_id)?;
        let key = body.key.as_ref();
        let staging = write.staging_with(&file, block_id, replaced.is_some(), key)?;
        let block = BlobBlock {
            id: block_id.to_vec(),
            length,
            content: body.content(),
            file: None,
        };
        let (content, blocks) = (&self.keyspaces.content, &self.keyspaces.blocks);
        let batch = &mut write.batch;
        if let Some(replaced) = replaced {
            batch.delete(content, &file.block_content(replaced.content));
        }
        body.put(batch, content, &file.block_content(block.content));
        let value = codec::encode_block(&block);
        batch.put(blocks, &file.uncommitted(block_id), &value);
        batch.put(blocks, &file.staging(), &codec::encode_staging(&staging));
        write.note_staging(file);
        Ok((checksums, write.commit()?))
    }

    /// Makes the blob the sequence of these blocks. All uncommitted blocks and all content that is not listed are dropped.
    /// Errors: of the names, metadata and tags; `BlockListTooLong`; `InvalidBlockList` for a block that is not there; those of
    /// the conditions of a write and of leases, `BlobAlreadyExists` for `If-None-Match: *`; `ContainerNotFound`;
    /// `InvalidBlobType`; `PendingCopyOperation`, `BlobImmutableDueToPolicy`, `BlobArchived`, `BlobBeingRehydrated`.
    pub fn put_block_list(
        &self,
        address: &BlobAddress<'_>,
        request: PutBlockList,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        let condition = request.conditions.for_write()?;
        names::check_metadata(&request.metadata)?;
        let settings = request.settings.checked(BlobType::BlockBlob)?;
        if request.blocks.len() > COMMITTED_BLOCKS_MAX {
            return Err(Error::BlockListTooLong {
                limit: COMMITTED_BLOCKS_MAX,
            });
        }
        let mut write = self.begin_write(address, now)?;
        write.check_type(BlobType::BlockBlob)?;
        write.check(condition, &request.conditions, WriteKind::Create)?;
        write.check_scope(&settings)?;
        write.check_online()?;
        let key = request.conditions.customer_key.as_ref();
        let (list, layers) = write.replace_blocks(&request.blocks, key)?;
        let blob = write.new_blob(NewBlob {
            content: Content::Blocks {
                count: list.blocks.len() as u32,
            },
            layers,
            length: list.length,
            headers: request.headers,
            metadata: request.metadata,
            settings,
            encryption: Encryption::of(request.conditions.customer_key.as_ref()),
        });
        let written = blob.written();
        write.put_current(&blob);
        Ok((written, write.commit()?))
    }

    /// The blob's block lists. Of the conditions the tags and the lease count.
    /// Errors: of the names; `ContainerNotFound`, `BlobNotFound`, `InvalidBlobType`, `ConditionNotMet`; of a lease id that does
    /// not match.
    pub fn get_block_list(
        &self,
        address: &BlobAddress<'_>,
        list_type: BlockListType,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<BlockList> {
        let found = self.find(address, now)?;
        let staging = self.staging_of(&found, address.state)?;
        if let Some(blob) = &found.blob {
            if blob.blob_type() != BlobType::BlockBlob {
                return Err(Error::InvalidBlobType);
            }
            conditions.check_tags(&blob.tags)?;
            blob.lease
                .check_read(conditions.lease_id, now, Leased::Blob)?;
        } else if staging.is_none() {
            return Err(Error::BlobNotFound);
        }
        let read = |wanted: bool, range: Option<KeyRange>| match range {
            Some(range) if wanted => self.blocks(&found.snapshot, range),
            _ => Ok(Vec::new()),
        };
        let listed = found.blob.as_ref().and_then(|blob| blob.layers.first());
        let committed = listed.map(|layer| layer.file.committed_from(0));
        let uncommitted = staging.map(|file| file.all_uncommitted());
        Ok(BlockList {
            committed: read(list_type != BlockListType::Uncommitted, committed)?,
            uncommitted: read(list_type != BlockListType::Committed, uncommitted)?,
            blob: found.blob,
        })
    }

    /// The file of the uncommitted blocks of what was found.
    fn staging_of(&self, found: &Found, state: BlobState) -> Result<Option<File>> {
        if state != BlobState::Current {
            return Ok(None);
        }
        let home = found.container.id;
        let id = match (&found.blob, found.uncommitted) {
            (Some(blob), _) => blob.staging,
            (None, Some(id)) => Some(id),
            (None, None) => self
                .keyspaces
                .uncommitted(&found.snapshot, home, &found.name)?,
        };
        Ok(id.map(|id| File { home, id }))
    }

    fn uncommitted_block(&self, file: &File, block_id: &[u8]) -> Result<Option<BlobBlock>> {
        let key = file.uncommitted(block_id);
        let value = self.db.get(&self.keyspaces.blocks, &key)?;
        value.map(|value| codec::decode_block(&value)).transpose()
    }

    pub(crate) fn blocks(&self, snapshot: &Snapshot, range: KeyRange) -> Result<Vec<BlobBlock>> {
        let mut rows = snapshot.scan(&self.keyspaces.blocks, range, Direction::Forward);
        let mut blocks = Vec::new();
        while rows.advance()? {
            blocks.push(codec::decode_block(&rows.value()?)?);
        }
        Ok(blocks)
    }
}

impl BlobWrite<'_> {
    /// Fails if there is a blob of another type.
    pub(crate) fn check_type(&self, wanted: BlobType) -> Result<()> {
        match self.current() {
            Some(blob) if blob.blob_type() != wanted => Err(Error::InvalidBlobType),
            _ => Ok(()),
        }
    }

    fn check_online(&self) -> Result<()> {
        match self.current() {
            Some(blob) => super::checks::check_online(blob, self.now),
            None => Ok(()),
        }
    }

    /// The file of a blob put whole that nobody else names and that nothing is kept of: its one content is put anew.
    fn replaceable_file(&self) -> Result<Option<File>> {
        match self.current() {
            Some(blob)
                if blob.content == Content::Whole
                    && blob.staging.is_none()
                    && blob.encryption == Encryption::None
                    && !self.keeps_retired() =>
            {
                let layer = blob.layers.first();
                Ok(layer.filter(|layer| !layer.shared).map(|layer| layer.file))
            }
            _ => Ok(None),
        }
    }

    /// Where an uncommitted block goes: to those there are, or to the file of the blob if that is going to be replaced by
    /// the list, or to a new one.
    fn staging_file(&self) -> Result<File> {
        if let Some(id) = self.staging() {
            return Ok(self.file(id));
        }
        let own = self.current().and_then(|blob| blob.layers.first());
        match own {
            Some(layer) if !layer.shared && !self.keeps_retired() => Ok(layer.file),
            _ => Ok(self.new_file()),
        }
    }

    /// Says in the record that there are uncommitted blocks, and sees to it that they go after a week.
    fn note_staging(&mut self, file: File) {
        if self.staging() == Some(file.id) {
            return;
        }
        let key = self.key.clone();
        self.set_timer(self.now + STAGING_LIFETIME, Timer::Staging, &key);
        match self.current().cloned() {
            Some(mut blob) => {
                blob.staging = Some(file.id);
                self.put_current(&blob);
            }
            None => {
                let marker = keys::history_of(self.home(), History::Uncommitted, &self.name);
                let value = codec::encode_uncommitted(file.id);
                self.batch
                    .put(&self.service.keyspaces.history, &marker, &value);
            }
        }
    }

    /// What is known of the uncommitted blocks once the one of this id is among them.
    fn staging_with(
        &self,
        file: &File,
        block_id: &[u8],
        replaces: bool,
        key: Option<&CustomerKey>,
    ) -> Result<Staging> {
        let id_bytes = block_id.len() as u8;
        let service = self.service;
        let staged = service.db.get(&service.keyspaces.blocks, &file.staging())?;
        let count = match staged {
            Some(value) => {
                let staging = codec::decode_staging(&value)?;
                if staging.id_bytes != id_bytes {
                    return Err(Error::InvalidBlobOrBlock);
                }
                staging.encryption().check(key)?;
                staging.count
            }
            None => {
                self.check_against_committed(block_id)?;
                0
            }
        };
        if !replaces && count >= UNCOMMITTED_BLOCKS_MAX {
            return Err(Error::BlockCountExceedsLimit {
                which: "uncommitted",
                limit: UNCOMMITTED_BLOCKS_MAX,
            });
        }
        Ok(Staging {
            count: if replaces { count } else { count + 1 },
            id_bytes,
            touched_at: self.now,
            key_sha256: key.map(CustomerKey::sha256),
        })
    }

    /// The first uncommitted block must have an id as long as those of the committed ones.
    fn check_against_committed(&self, block_id: &[u8]) -> Result<()> {
        let Some(file) = self.current().and_then(listed_file) else {
            return Ok(());
        };
        let blocks = &self.service.keyspaces.blocks;
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(blocks, file.committed_from(0), Direction::Forward);
        if rows.advance()? && codec::decode_block(&rows.value()?)?.id.len() != block_id.len() {
            return Err(Error::InvalidBlobOrBlock);
        }
        Ok(())
    }

    /// Fails unless all blocks that are listed are encrypted with what the request brought. `staged` are the contents of those
    /// that were not committed.
    fn check_keys_of_blocks(
        &self,
        list: &NewList,
        staged: &HashSet<u128>,
        key: Option<&CustomerKey>,
    ) -> Result<()> {
        let is_staged = |block: &BlobBlock| staged.contains(&block.content);
        if list.blocks.iter().any(is_staged)
            && let Some(id) = self.staging()
        {
            let service = self.service;
            let row = self.file(id).staging();
            if let Some(value) = service.db.get(&service.keyspaces.blocks, &row)? {
                codec::decode_staging(&value)?.encryption().check(key)?;
            }
        }
        match self.current() {
            Some(blob) if !list.blocks.iter().all(is_staged) => blob.encryption.check(key),
            _ => Ok(()),
        }
    }

    /// Puts the rows of a new list in place of those there are, and drops the contents that nobody refers to. Answers the list
    /// and the files that the blob names from now on.
    fn replace_blocks(
        &mut self,
        choices: &[BlockChoice],
        key: Option<&CustomerKey>,
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
        self.check_keys_of_blocks(&list, &staged, key)?;
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
                self.batch.delete(&service.keyspaces.content, &key);
            }
        }
        let layers = self.rearrange(&list, target, &exclusive)?;
        self.put_list(&list, target);
        Ok((list, layers))
    }

    /// Whether the stored blob names the file.
    fn names(&self, file: File) -> bool {
        let mut layers = self.current().into_iter().flat_map(|blob| &blob.layers);
        layers.any(|layer| layer.file == file)
    }

    fn drop_staged_rows(&mut self, staging: Option<File>) {
        if let Some(staging) = staging {
            let blocks = &self.service.keyspaces.blocks;
            self.batch.delete_range(blocks, staging.all_staged());
        }
    }

    /// The files that the blob names with its new list in `target`; lets go of those it named before and needs no more.
    fn rearrange(
        &mut self,
        list: &NewList,
        target: File,
        exclusive: &HashSet<File>,
    ) -> Result<Vec<Layer>> {
        let keyspaces = &self.service.keyspaces;
        let needed: BTreeSet<File> = list.blocks.iter().filter_map(|block| block.file).collect();
        let before = self
            .current()
            .map_or(Vec::new(), |blob| blob.layers.clone());
        let whole = self
            .current()
            .is_some_and(|blob| blob.content == Content::Whole);
        if self.keeps_retired() {
            self.share_layers(|file| needed.contains(&file) && file != target);
            self.retire_blob(Retired::Overwritten)?;
        } else {
            for layer in &before {
                let stays = layer.file == target || needed.contains(&layer.file);
                match stays {
                    _ if whole && layer.file == target => {
                        let key = layer.file.whole_content();
                        self.batch.delete(&keyspaces.content, &key);
                    }
                    true if exclusive.contains(&layer.file) => {
                        let list = layer.file.committed_from(0);
                        self.batch.delete_range(&keyspaces.blocks, list);
                    }
                    true => {}
                    false => self.files.remove(keyspaces, &mut self.batch, layer),
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
            self.batch.put(
                &self.service.keyspaces.blocks,
                &target.committed(end_offset),
                &codec::encode_block(&block),
            );
        }
    }
}

/// The file that has the committed list of the blob, if it has one.
fn listed_file(blob: &Blob) -> Option<File> {
    let has_blocks = matches!(blob.content, Content::Blocks { count: 1.. });
    Some(blob.layers.first().filter(|_| has_blocks)?.file)
}

impl Staging {
    fn encryption(&self) -> Encryption {
        let key = self.key_sha256;
        key.map_or(Encryption::None, Encryption::CustomerKey)
    }
}

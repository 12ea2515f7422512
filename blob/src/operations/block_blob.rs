//! Operations on block blobs: a body put whole, or blocks put one by one and a list that makes them a blob.

use super::{BlobWrite, Found};
use crate::BlobService;
use crate::block_list::{
    self, BlockChoice, BlockListType, COMMITTED_BLOCKS_MAX, NewList, UNCOMMITTED_BLOCKS_MAX,
};
use crate::checksum::Checksums;
use crate::codec;
use crate::conditions::{Conditions, Validators, WriteKind};
use crate::error::{Error, Result};
use crate::keys::BlobFiles;
use crate::model::{
    Blob, BlobAddress, BlobBlock, BlobHeaders, BlobRecord, BlockList, Content, Metadata, Staging,
    Written,
};
use crate::names;
use crate::upload::{Upload, UploadKind};
use lazurite_engine::{Batch, Db, Direction, KeyRange, Snapshot, Ticket};
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
    /// What must hold of the blob before.
    pub conditions: Conditions,
}

impl BlobService {
    /// Begins a body, which the caller writes to the upload and then gives to the operation it is for. Nothing of it is
    /// visible before, and dropping it leaves nothing. `claimed` is what the request says of its body: `Content-MD5` or
    /// `x-ms-content-crc64`. Errors: `BothCrc64AndMd5HeaderPresent`.
    pub fn begin_upload(&self, kind: UploadKind, claimed: Checksums) -> Result<Upload> {
        Upload::begin(&self.db, kind, claimed)
    }

    /// Fails as Put Blob or Put Block List would now for reasons that need no body: for a server that decides before it
    /// takes one. They check again themselves. Errors: of the names; those of the conditions of a write,
    /// `BlobAlreadyExists` for `If-None-Match: *`; `ContainerNotFound`.
    pub fn check_put(&self, address: &BlobAddress<'_>, conditions: &Conditions) -> Result<()> {
        let condition = conditions.for_write()?;
        let found = self.find(address)?;
        let blob = found.record.as_ref().and_then(BlobRecord::committed);
        condition.check(WriteKind::Create, blob.map(Validators::from))
    }

    /// Makes a block blob of one body, in place of whatever has the name, its uncommitted blocks included.
    /// Errors: of the names and metadata; those of the conditions of a write, `BlobAlreadyExists` for `If-None-Match: *`;
    /// `Md5Mismatch`, `Crc64Mismatch`; `ContainerNotFound`.
    pub fn put_blob(
        &self,
        address: &BlobAddress<'_>,
        request: PutBlob,
        now: SystemTime,
    ) -> Result<(PutBlobOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        names::check_metadata(&request.metadata)?;
        let mut headers = request.headers;
        let body = request
            .upload
            .finish(UploadKind::PutBlob, headers.content_md5)?;
        let (length, checksums) = (body.length, body.checksums);
        headers.content_md5 = checksums.md5;

        let write = self.begin_write(address)?;
        write.check(condition, WriteKind::Create)?;
        let mut batch = Batch::new();
        write.discard_blocks(&mut batch)?;
        let id = write.blob_id();
        if length > 0 {
            let key = write.files(id).whole_content();
            body.put(&mut batch, &self.keyspaces.content, &key);
        } else {
            write.discard_whole(&mut batch);
        }
        let content = NewContent {
            id,
            content: Content::Whole,
            length,
        };
        let blob = write.new_blob(content, headers, request.metadata, now);
        let written = blob.written();
        write.put_record(&mut batch, &BlobRecord::Committed(blob));
        Ok((PutBlobOutcome { written, checksums }, write.commit(batch)?))
    }

    /// Puts an uncommitted block, in place of the uncommitted one of that id. The blob itself stays as it is; if there is
    /// none there is none afterwards, but Get Block List knows the name. `upload` was begun as [`UploadKind::PutBlock`].
    /// Answers the checksums of the body: CRC64 always, MD5 if the client sent one.
    /// Errors: of the names; `InvalidBlockId`, `OutOfRangeInput` for an id over 64 bytes, `InvalidBlobOrBlock` for one of
    /// another length than the blob's others; `InvalidHeaderValue` for an empty body; `Md5Mismatch`, `Crc64Mismatch`;
    /// `BlockCountExceedsLimit`; `ContainerNotFound`.
    pub fn put_block(
        &self,
        address: &BlobAddress<'_>,
        block_id: &[u8],
        upload: Upload,
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

        let write = self.begin_write(address)?;
        let blob_id = write.blob_id();
        let files = write.files(blob_id);
        let replaced = self.uncommitted_block(&files, block_id)?;
        let staging = write.staging_with(&files, block_id, replaced.is_some(), now)?;
        let block = BlobBlock {
            id: block_id.to_vec(),
            length,
            content: self.ids.next_id(),
        };

        let mut batch = Batch::new();
        let content = &self.keyspaces.content;
        if let Some(replaced) = replaced {
            batch.delete(content, &files.block_content(replaced.content));
        }
        body.put(&mut batch, content, &files.block_content(block.content));
        let blocks = &self.keyspaces.blocks;
        batch.put(
            blocks,
            &files.uncommitted(block_id),
            &codec::encode_block(&block),
        );
        batch.put(blocks, &files.staging(), &codec::encode_staging(&staging));
        if write.record.is_none() {
            write.put_record(&mut batch, &BlobRecord::Uncommitted { id: blob_id });
        }
        Ok((checksums, write.commit(batch)?))
    }

    /// Makes the blob the sequence of these blocks. All uncommitted blocks and all content that is not listed are dropped.
    /// Errors: of the names and metadata; `BlockListTooLong`; `InvalidBlockList` for a block that is not there; those of
    /// the conditions of a write, `BlobAlreadyExists` for `If-None-Match: *`; `ContainerNotFound`.
    pub fn put_block_list(
        &self,
        address: &BlobAddress<'_>,
        request: PutBlockList,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        let condition = request.conditions.for_write()?;
        names::check_metadata(&request.metadata)?;
        if request.blocks.len() > COMMITTED_BLOCKS_MAX {
            return Err(Error::BlockListTooLong {
                limit: COMMITTED_BLOCKS_MAX,
            });
        }
        let write = self.begin_write(address)?;
        write.check(condition, WriteKind::Create)?;
        let id = write.blob_id();
        let files = write.files(id);
        let snapshot = self.db.snapshot();
        let list = block_list::resolve(
            &request.blocks,
            &self.blocks(&snapshot, files.committed_from(0))?,
            &self.blocks(&snapshot, files.all_uncommitted())?,
        )?;
        drop(snapshot);

        let mut batch = Batch::new();
        write.replace_blocks(&mut batch, &files, &list);
        let content = Content::Blocks {
            count: list.blocks.len() as u32,
        };
        let content = NewContent {
            id,
            content,
            length: list.length,
        };
        let blob = write.new_blob(content, request.headers, request.metadata, now);
        let written = blob.written();
        write.put_record(&mut batch, &BlobRecord::Committed(blob));
        Ok((written, write.commit(batch)?))
    }

    /// The blob's block lists. Errors: of the names; `ContainerNotFound`, `BlobNotFound`.
    pub fn get_block_list(
        &self,
        address: &BlobAddress<'_>,
        list_type: BlockListType,
    ) -> Result<BlockList> {
        let Found {
            snapshot,
            container_id,
            record,
        } = self.find(address)?;
        let record = record.ok_or(Error::BlobNotFound)?;
        let files = BlobFiles {
            container_id,
            blob_id: record.id(),
        };
        let read = |wanted: bool, range: KeyRange| match wanted {
            true => self.blocks(&snapshot, range),
            false => Ok(Vec::new()),
        };
        let committed = read(
            list_type != BlockListType::Uncommitted,
            files.committed_from(0),
        )?;
        let uncommitted = read(
            list_type != BlockListType::Committed,
            files.all_uncommitted(),
        )?;
        let blob = record.committed().cloned();
        Ok(BlockList {
            blob,
            committed,
            uncommitted,
        })
    }

    fn uncommitted_block(&self, files: &BlobFiles, block_id: &[u8]) -> Result<Option<BlobBlock>> {
        let value = self
            .db
            .get(&self.keyspaces.blocks, &files.uncommitted(block_id))?;
        value.map(|value| codec::decode_block(&value)).transpose()
    }

    fn blocks(&self, snapshot: &Snapshot, range: KeyRange) -> Result<Vec<BlobBlock>> {
        let mut rows = snapshot.scan(&self.keyspaces.blocks, range, Direction::Forward);
        let mut blocks = Vec::new();
        while rows.advance()? {
            blocks.push(codec::decode_block(&rows.value()?)?);
        }
        Ok(blocks)
    }
}

/// What a write makes the content of a blob.
struct NewContent {
    id: u128,
    content: Content,
    length: u64,
}

impl BlobWrite<'_> {
    /// The record of a blob that is made, or made anew, now. Being overwritten keeps the time of creation.
    fn new_blob(
        &self,
        content: NewContent,
        headers: BlobHeaders,
        metadata: Metadata,
        now: SystemTime,
    ) -> Blob {
        let written = self.service.stamp(now, self.validators());
        Blob {
            id: content.id,
            content: content.content,
            etag: written.etag,
            last_modified: written.last_modified,
            created_at: self
                .committed()
                .map_or(written.last_modified, |blob| blob.created_at),
            length: content.length,
            headers,
            metadata,
        }
    }

    /// What is known of the uncommitted blocks once the one of this id is among them.
    fn staging_with(
        &self,
        files: &BlobFiles,
        block_id: &[u8],
        replaces: bool,
        now: SystemTime,
    ) -> Result<Staging> {
        let id_bytes = block_id.len() as u8;
        let db = &self.service.db;
        let count = match db.get(&self.service.keyspaces.blocks, &files.staging())? {
            Some(value) => {
                let staging = codec::decode_staging(&value)?;
                if staging.id_bytes != id_bytes {
                    return Err(Error::InvalidBlobOrBlock);
                }
                staging.count
            }
            None => {
                self.check_against_committed(db, files, block_id)?;
                0
            }
        };
        if !replaces && count >= UNCOMMITTED_BLOCKS_MAX {
            return Err(Error::BlockCountExceedsLimit {
                limit: UNCOMMITTED_BLOCKS_MAX,
            });
        }
        Ok(Staging {
            count: if replaces { count } else { count + 1 },
            id_bytes,
            touched_at: now,
        })
    }

    /// The first uncommitted block must have an id as long as those of the committed ones.
    fn check_against_committed(&self, db: &Db, files: &BlobFiles, block_id: &[u8]) -> Result<()> {
        if !self.has_committed_blocks() {
            return Ok(());
        }
        let blocks = &self.service.keyspaces.blocks;
        let mut rows = db
            .snapshot()
            .scan(blocks, files.committed_from(0), Direction::Forward);
        if rows.advance()? && codec::decode_block(&rows.value()?)?.id.len() != block_id.len() {
            return Err(Error::InvalidBlobOrBlock);
        }
        Ok(())
    }

    /// Puts the rows of the new list in place of all rows there are, and drops the contents nobody refers to.
    fn replace_blocks(&self, batch: &mut Batch, files: &BlobFiles, list: &NewList) {
        let keyspaces = &self.service.keyspaces;
        if self.record.is_some() {
            batch.delete_range(&keyspaces.blocks, files.all_staged());
        }
        if self.has_committed_blocks() {
            batch.delete_range(&keyspaces.blocks, files.committed_from(0));
        }
        self.discard_whole(batch);
        for content in &list.unreferenced {
            batch.delete(&keyspaces.content, &files.block_content(*content));
        }
        let mut end_offset = 0;
        for block in &list.blocks {
            end_offset += block.length;
            batch.put(
                &keyspaces.blocks,
                &files.committed(end_offset),
                &codec::encode_block(block),
            );
        }
    }
}

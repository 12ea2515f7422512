//! Operations on block blobs: a body put whole, or blocks put one by one and a list that turns them
//! into a blob.

use crate::access::Rights;
use crate::block_list::{self, BlockChoice, BlockListType, COMMITTED_BLOCKS_MAX};
use crate::checksum::Checksums;
use crate::cipher::CustomerKey;
use crate::codec;
use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::keys::File;
use crate::lease::Leased;
use crate::md5::Md5;
use crate::model::{
    Blob, BlobAddress, BlobBlock, BlobHeaders, BlobType, BlockList, Content, CopyState, Encryption,
    Layer, Metadata, Written,
};
use crate::operations::check_access;
use crate::operations::checks::check_may_create;
use crate::operations::new_blob::{BlobSettings, NewBlob};
use crate::operations::permit::Action;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use crate::upload::{Upload, UploadKind, Uploaded};
use lazurite_engine::{Direction, KeyRange, Snapshot, Ticket};

/// The request of Put Blob for a block blob.
#[derive(Debug)]
pub struct PutBlob {
    /// The body, begun as [`UploadKind::PutBlob`] and written to its end.
    pub upload: Upload,
    /// Headers of the blob. An MD5 among them must be the body's, and is checked instead of
    /// `Content-MD5`. Without it, the MD5 of the body is stored.
    pub headers: BlobHeaders,
    /// Metadata of the blob.
    pub metadata: Metadata,
    /// Other settings of the new blob.
    pub settings: BlobSettings,
    /// Conditions on the current blob.
    pub conditions: Conditions,
}

impl PutBlob {
    /// Puts the body alone, unconditionally.
    pub fn of(upload: Upload) -> PutBlob {
        PutBlob {
            upload,
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            settings: BlobSettings::default(),
            conditions: Conditions::default(),
        }
    }
}

/// The answer of Put Blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBlobOutcome {
    /// The blob's validators.
    pub written: Written,
    /// Checksums of the body: MD5 always, CRC64 if the client sent one.
    pub checksums: Checksums,
}

/// The answer of Put Block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBlockOutcome {
    /// Checksums of the body: CRC64 always, MD5 if the client sent one.
    pub checksums: Checksums,
    /// The encryption scope that the block is in.
    pub encryption_scope: Option<String>,
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
    /// Other settings of the new blob.
    pub settings: BlobSettings,
    /// Conditions on the current blob.
    pub conditions: Conditions,
}

/// Maximum number of blocks of a list that counts as short: a longer one takes milliseconds to read
/// and write.
const LONG_LIST: usize = 500;

impl BlobService {
    /// Begins a body. The caller writes the body to the upload, and passes the upload to the
    /// operation; until then the body is invisible. Dropping the upload removes the body.
    /// `claimed`: the checksums in the request, `Content-MD5` or `x-ms-content-crc64`. Errors:
    /// `BothCrc64AndMd5HeaderPresent`.
    pub fn begin_upload(&self, kind: UploadKind, claimed: Checksums) -> Result<Upload> {
        Upload::begin(self, kind, claimed, None)
    }

    /// Like [`BlobService::begin_upload`], for a body that is stored encrypted with the client's
    /// key.
    pub fn begin_encrypted_upload(
        &self,
        kind: UploadKind,
        claimed: Checksums,
        key: CustomerKey,
    ) -> Result<Upload> {
        Upload::begin(self, kind, claimed, Some(key))
    }

    /// Makes a block blob of one body. Replaces any blob that has the name, with its uncommitted
    /// blocks. Errors: invalid names or tags; `InvalidOperation` for a snapshot or version;
    /// `InvalidBlobTier`; `InvalidHeaderValue` for an MD5 that does not have sixteen bytes; those
    /// of write conditions and leases, `BlobAlreadyExists` for `If-None-Match: *`; `Md5Mismatch`,
    /// `Crc64Mismatch`; `ContainerNotFound`; `PendingCopyOperation`, `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`, `BlobArchived`, `BlobBeingRehydrated`;
    /// `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn put_blob(
        &self,
        address: &BlobAddress<'_>,
        request: PutBlob,
    ) -> Result<(PutBlobOutcome, Ticket)> {
        let given = given_md5(&request.headers)?;
        let (blob, checksums, ticket) = self.put_whole(address, request, given, None)?;
        let written = blob.written();
        Ok((PutBlobOutcome { written, checksums }, ticket))
    }

    /// Runs Put Blob, and copies of fetched content. A copy has `copied_from`, the URL of its
    /// source, and its MD5 header is stored unchecked. The body is completed, and its checksums are
    /// compared, before the blob is read.
    pub(super) fn put_whole(
        &self,
        address: &BlobAddress<'_>,
        request: PutBlob,
        given: Option<Md5>,
        copied_from: Option<String>,
    ) -> Result<(Box<Blob>, Checksums, Ticket)> {
        let condition = request.conditions.for_write()?;
        let settings = request.settings.checked(BlobType::BlockBlob)?;
        let mut headers = request.headers;
        let body = request.upload.finish(UploadKind::PutBlob, given)?;
        let length = body.length;
        let checksums = body.checksums;
        let computed = checksums.md5.map(Vec::from);

        let mut write = self.begin_write(address)?;
        if copied_from.is_some() {
            write.check_type(BlobType::BlockBlob)?;
            headers.content_md5 = headers.content_md5.or(computed);
        } else {
            headers.content_md5 = computed;
        }
        write.check(condition, &request.conditions, WriteKind::Create)?;
        let brought = write.brought(body.key.as_ref(), &request.conditions)?;
        let permit = write.permit_current(Action::Replace)?;
        let file = write.file_for(&body)?;
        let key = file.whole_content();
        match length {
            0 => write.rows().delete_content(&key),
            _ => body.put(&mut write.rows(), &key),
        }
        let mut blob = write.new_blob(NewBlob {
            content: Content::Whole,
            layers: vec![Layer::new(file, length)],
            length,
            headers,
            metadata: request.metadata,
            settings,
            encryption: brought.encryption,
        })?;
        blob.copy =
            copied_from.map(|url| CopyState::completed(self.new_guid(), url, length, write.now));
        write.put(&permit, &blob);
        Ok((blob, checksums, write.commit()?))
    }

    /// Puts an uncommitted block; replaces an uncommitted one with the same id. The blob itself
    /// does not change, and is not created, but Get Block List knows the name. `upload` must have
    /// been begun as [`UploadKind::PutBlock`]. Of the conditions, the lease id, the encryption
    /// scope and `must_be_new` are used. With `must_be_new`, there must be neither a blob nor an
    /// uncommitted block of this id. The first uncommitted block sets the key or the scope for all.
    /// Errors: invalid names; `InvalidOperation` for a snapshot or version; `InvalidBlockId`,
    /// `OutOfRangeInput` for an id over 64 bytes, `InvalidBlobOrBlock` for an id of another length
    /// than the blob's other uncommitted ones; `InvalidHeaderValue` for an empty body;
    /// `Md5Mismatch`, `Crc64Mismatch`; `BlockCountExceedsLimit`; `ContainerNotFound`;
    /// `InvalidBlobType`; `BlobAlreadyExists`; those of leases; `BlobArchived`,
    /// `BlobBeingRehydrated`; `BlobUsesCustomerSpecifiedEncryption` and similar ones;
    /// `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn put_block(
        &self,
        address: &BlobAddress<'_>,
        block_id: &[u8],
        upload: Upload,
        conditions: &Conditions,
    ) -> Result<(PutBlockOutcome, Ticket)> {
        block_list::check_block_id(block_id)?;
        upload.check_not_empty()?;
        let body = upload.finish(UploadKind::PutBlock, None)?;

        let mut write = self.begin_write(address)?;
        write.check_type(BlobType::BlockBlob)?;
        check_may_create(conditions, write.current())?;
        write.check_lease(conditions.lease_id)?;
        // Source: recorded answers to Put Block (azcopy, issues 993 and 1688).
        write.check_online()?;
        let outcome = write.put_staged(block_id, body, conditions)?;
        Ok((outcome, write.commit()?))
    }

    /// Makes the listed blocks, in their order, the content of the blob. Removes all other blocks
    /// from the blob, uncommitted ones included. Errors: invalid names or tags; `InvalidOperation`
    /// for a snapshot or version; `InvalidBlobTier`; `BlockListTooLong`; `InvalidBlockList` for a
    /// block that does not exist; those of write conditions and leases, `BlobAlreadyExists` for
    /// `If-None-Match: *`; `ContainerNotFound`; `InvalidBlobType`; `PendingCopyOperation`,
    /// `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`, `BlobArchived`,
    /// `BlobBeingRehydrated`; `BlobUsesCustomerSpecifiedEncryption` and similar ones;
    /// `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn put_block_list(
        &self,
        address: &BlobAddress<'_>,
        request: PutBlockList,
    ) -> Result<(Written, Ticket)> {
        let condition = request.conditions.for_write()?;
        let settings = request.settings.checked(BlobType::BlockBlob)?;
        if request.blocks.len() > COMMITTED_BLOCKS_MAX {
            return Err(Error::BlockListTooLong {
                limit: COMMITTED_BLOCKS_MAX,
            });
        }
        let mut write = self.begin_write(address)?;
        write.check_type(BlobType::BlockBlob)?;
        write.check(condition, &request.conditions, WriteKind::Create)?;
        let key = request.conditions.customer_key.as_ref();
        let brought = write.brought(key, &request.conditions)?;
        let permit = write.permit_current(Action::Replace)?;
        let listed = write.current().map_or(0, count_blocks);
        let is_long = listed.max(request.blocks.len()) > LONG_LIST;
        let _long = is_long.then(|| self.begin_long_operation());
        let (list, layers) = write.replace_blocks(&request.blocks, &brought)?;
        let blob = write.new_blob(NewBlob {
            content: Content::Blocks {
                count: list.blocks.len() as u32,
            },
            layers,
            length: list.length,
            headers: request.headers,
            metadata: request.metadata,
            settings,
            encryption: brought.encryption,
        })?;
        let written = blob.written();
        write.put(&permit, &blob);
        Ok((written, write.commit()?))
    }

    /// Returns the blob's block lists. Of the conditions, only the one on tags and the lease id are
    /// used. Errors: invalid names; `ContainerNotFound`, `BlobNotFound`, `InvalidBlobType`,
    /// `ConditionNotMet`; a lease id that does not match.
    pub fn get_block_list(
        &self,
        address: &BlobAddress<'_>,
        list_type: BlockListType,
        conditions: &Conditions,
    ) -> Result<BlockList> {
        let found = self.find(address)?;
        let staging = self.staging_of(&found, address.state)?;
        if let Some(blob) = &found.blob {
            if blob.blob_type() != BlobType::BlockBlob {
                return Err(Error::InvalidBlobType);
            }
            check_access(blob, address.caller, Rights::READ)?;
            conditions.check_tags(&blob.tags)?;
            blob.lease
                .check_read(conditions.lease_id, found.now, Leased::Blob)?;
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

    /// The blocks of a file, each with the file that its content is in; no blocks for `None`.
    pub(super) fn filed(
        &self,
        snapshot: &Snapshot,
        file: Option<File>,
        range: fn(&File) -> KeyRange,
    ) -> Result<Vec<BlobBlock>> {
        let Some(file) = file else {
            return Ok(Vec::new());
        };
        let mut blocks = self.blocks(snapshot, range(&file))?;
        for block in &mut blocks {
            block.file = block.file.or(Some(file));
        }
        Ok(blocks)
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

/// The MD5 that the body must have: `x-ms-blob-content-md5`.
fn given_md5(headers: &BlobHeaders) -> Result<Option<Md5>> {
    let given = headers.content_md5.as_deref();
    let given = given.map(Md5::try_from).transpose();
    given.map_err(|_| Error::InvalidHeaderValue {
        header: "x-ms-blob-content-md5",
        value: "not sixteen bytes".to_owned(),
    })
}

/// The length of the committed block list; 0 if the blob has none.
fn count_blocks(blob: &Blob) -> usize {
    match blob.content {
        Content::Blocks { count } => count as usize,
        _ => 0,
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

    pub(super) fn check_online(&self) -> Result<()> {
        match self.current() {
            Some(blob) => super::permit::check_online(blob, self.now),
            None => Ok(()),
        }
    }

    /// Writes a body as a list of one block in a new file.
    pub(super) fn put_block_of_body(&mut self, body: Uploaded) -> Result<(Content, File)> {
        let length = body.length;
        let file = self.new_file();
        if length == 0 {
            return Ok((Content::Blocks { count: 0 }, file));
        }
        let block = BlobBlock {
            id: vec![0; 8],
            length,
            content: body.content(),
            file: None,
        };
        let mut rows = self.rows();
        body.put(&mut rows, &file.block_content(block.content));
        rows.put_block(&file.committed(length), &codec::encode_block(&block));
        Ok((Content::Blocks { count: 1 }, file))
    }

    /// Returns the file for the body of a blob: the blob's current file if its content can be
    /// replaced there, otherwise a new one, after retiring the blob.
    fn file_for(&mut self, body: &Uploaded) -> Result<File> {
        match self.replaceable_file()? {
            Some(file) if body.key.is_none() => Ok(file),
            _ => {
                let _ = self.retire(RetireReason::Overwritten)?;
                // The file gets the id of the content, because the body was encrypted for that id.
                Ok(self.file(body.content()))
            }
        }
    }

    /// Puts a body as an uncommitted block. Errors: as [`BlobService::put_block`], for the block.
    pub(super) fn put_staged(
        &mut self,
        block_id: &[u8],
        body: Uploaded,
        conditions: &Conditions,
    ) -> Result<PutBlockOutcome> {
        let checksums = body.checksums;
        let brought = self.brought(body.key.as_ref(), conditions)?;
        let file = self.staging_file()?;
        let replaced = self.service.uncommitted_block(&file, block_id)?;
        if conditions.must_be_new && replaced.is_some() {
            return Err(Error::BlobAlreadyExists);
        }
        let staging = self.staging_with(&file, block_id, replaced.is_some(), brought)?;
        self.put_uncommitted(&file, block_id, replaced, body);
        let value = codec::encode_staging(&staging);
        self.rows().put_block(&file.staging(), &value);
        self.note_staging(file)?;
        Ok(PutBlockOutcome {
            checksums,
            encryption_scope: staging.encryption.scope().map(str::to_string),
        })
    }

    /// Writes the rows of an uncommitted block, in place of an earlier one with the same id.
    fn put_uncommitted(
        &mut self,
        file: &File,
        block_id: &[u8],
        replaced: Option<BlobBlock>,
        body: Uploaded,
    ) {
        let block = BlobBlock {
            id: block_id.to_vec(),
            length: body.length,
            content: body.content(),
            file: None,
        };
        let mut rows = self.rows();
        if let Some(replaced) = replaced {
            rows.delete_content(&file.block_content(replaced.content));
        }
        body.put(&mut rows, &file.block_content(block.content));
        rows.put_block(&file.uncommitted(block_id), &codec::encode_block(&block));
    }

    /// Returns the file of a blob that was put whole, if its only content can be replaced: no other
    /// record names the file, the account does not keep the replaced blob, and the blob has neither
    /// uncommitted blocks nor a key or scope.
    fn replaceable_file(&self) -> Result<Option<File>> {
        match self.current() {
            Some(blob)
                if blob.content == Content::Whole
                    && blob.staging.is_none()
                    && blob.encryption == Encryption::None
                    && !self.keeps(RetireReason::Overwritten) =>
            {
                let layer = blob.layers.first();
                Ok(layer.filter(|layer| !layer.shared).map(|layer| layer.file))
            }
            _ => Ok(None),
        }
    }
}

//! Operations on append blobs.

use crate::checksum::Checksums;
use crate::codec;
use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::keys::File;
use crate::model::{
    Blob, BlobAddress, BlobBlock, BlobHeaders, BlobType, Content, Layer, Metadata, Written,
};
use crate::operations::new_blob::{BlobSettings, NewBlob};
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use crate::upload::{Upload, UploadKind, Uploaded};
use lazurite_engine::Ticket;

/// Maximum number of appends of one blob. Source: Append Block, "Remarks".
const APPENDS_MAX: u32 = 50_000;

/// The request of Put Blob for an append blob, which is made empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutAppendBlob {
    /// Headers of the blob.
    pub headers: BlobHeaders,
    /// Metadata of the blob.
    pub metadata: Metadata,
    /// Other settings of the new blob.
    pub settings: BlobSettings,
    /// Conditions on the current blob. A customer-provided key among them encrypts the appends.
    pub conditions: Conditions,
}

/// The request of Append Block.
#[derive(Debug)]
pub struct AppendBlock {
    /// The body, begun as [`UploadKind::AppendBlock`] and written to its end.
    pub upload: Upload,
    /// `x-ms-blob-condition-maxsize`: maximum length of the blob after the append.
    pub max_size: Option<u64>,
    /// `x-ms-blob-condition-appendpos`: the length that the blob must have before the append.
    pub append_position: Option<u64>,
    /// Conditions on the current blob.
    pub conditions: Conditions,
}

/// The answer of Append Block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendBlockOutcome {
    /// The blob's validators.
    pub written: Written,
    /// Checksums of the body: CRC64 always, MD5 if the client sent one.
    pub checksums: Checksums,
    /// The offset of the body in the blob: `x-ms-blob-append-offset`.
    pub offset: u64,
    /// Appends so far: `x-ms-blob-committed-block-count`.
    pub committed_block_count: u32,
}

impl BlobService {
    /// Makes an empty append blob, in place of any blob that has the name. Errors: as
    /// [`BlobService::put_blob`].
    pub fn put_append_blob(
        &self,
        address: &BlobAddress<'_>,
        request: PutAppendBlob,
    ) -> Result<(Written, Ticket)> {
        let condition = request.conditions.for_write()?;
        let settings = request.settings.checked(BlobType::AppendBlob)?;
        let mut write = self.begin_write(address)?;
        write.check(condition, &request.conditions, WriteKind::Create)?;
        let key = request.conditions.customer_key.as_ref();
        let brought = write.brought(key, &request.conditions)?;
        let permit = write.retire(RetireReason::Overwritten)?;
        let blob = write.new_blob(NewBlob {
            content: Content::Appends {
                count: 0,
                sealed: false,
            },
            layers: Vec::new(),
            length: 0,
            headers: request.headers,
            metadata: request.metadata,
            settings,
            encryption: brought.encryption,
        })?;
        write.put(&permit, &blob);
        Ok((blob.written(), write.commit()?))
    }

    /// Appends a body to an append blob, whole or not at all. Appends to one blob run one after the
    /// other. Errors: invalid names; `InvalidOperation` for a snapshot or version;
    /// `ContainerNotFound`, `BlobNotFound`, `InvalidBlobType`; `InvalidHeaderValue` for an empty
    /// body; `Md5Mismatch`, `Crc64Mismatch`; those of write conditions and leases; `BlobIsSealed`,
    /// `AppendPositionConditionNotMet`, `MaxBlobSizeConditionNotMet`, `BlockCountExceedsLimit`;
    /// `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`, `PendingCopyOperation`;
    /// `BlobUsesCustomerSpecifiedEncryption` and similar ones,
    /// `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn append_block(
        &self,
        address: &BlobAddress<'_>,
        request: AppendBlock,
    ) -> Result<(AppendBlockOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        request.upload.check_not_empty()?;
        let body = request.upload.finish(UploadKind::AppendBlock, None)?;
        let length = body.length;
        let checksums = body.checksums;
        let mut write = self.begin_write(address)?;
        write.check_type(BlobType::AppendBlob)?;
        write.check(condition, &request.conditions, WriteKind::Change)?;
        let (permit, mut blob) = write.changeable()?;
        let brought = write.brought(body.key.as_ref(), &request.conditions)?;
        brought.check(&blob.encryption)?;
        let offset = blob.length;
        let end = blob.length.saturating_add(length);
        let count = unsealed(&blob)?;
        check_position(&blob, request.append_position)?;
        check_room(count, end, request.max_size)?;
        let file = write.layer_to_append(&mut blob)?;
        write.put_append(&file, end, body);
        blob.set_length_of_appends(end);
        blob.content = Content::Appends {
            count: count + 1,
            sealed: false,
        };
        let written = write.touch(&mut blob);
        write.put(&permit, &blob);
        let outcome = AppendBlockOutcome {
            written,
            checksums,
            offset,
            committed_block_count: count + 1,
        };
        Ok((outcome, write.commit()?))
    }

    /// Append Blob Seal: allows no more appends. Sealing again changes only the ETag and
    /// Last-Modified. Errors: invalid names; `InvalidOperation` for a snapshot or version;
    /// `ContainerNotFound`, `BlobNotFound`, `InvalidBlobType`; those of write conditions and
    /// leases; `AppendPositionConditionNotMet`; `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`, `PendingCopyOperation`.
    pub fn append_blob_seal(
        &self,
        address: &BlobAddress<'_>,
        append_position: Option<u64>,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        let write = self.begin_change(address, Some(BlobType::AppendBlob), conditions)?;
        let (permit, mut blob) = write.changeable()?;
        check_position(&blob, append_position)?;
        let count = blob.committed_block_count().unwrap_or_default();
        blob.content = Content::Appends {
            count,
            sealed: true,
        };
        write.commit_changed(&permit, blob)
    }
}

/// The number of appends of a blob that is not sealed.
pub(super) fn unsealed(blob: &Blob) -> Result<u32> {
    match blob.content {
        Content::Appends {
            count,
            sealed: false,
        } => Ok(count),
        Content::Appends { sealed: true, .. } => Err(Error::BlobIsSealed),
        _ => Err(Error::InvalidBlobType),
    }
}

fn check_position(blob: &Blob, position: Option<u64>) -> Result<()> {
    match position {
        Some(position) if position != blob.length => Err(Error::AppendPositionConditionNotMet),
        _ => Ok(()),
    }
}

/// Fails if one more append would exceed `max_size` or the maximum number of appends. `end` is the
/// length of the blob after the append.
fn check_room(count: u32, end: u64, max_size: Option<u64>) -> Result<()> {
    if max_size.is_some_and(|max| end > max) {
        return Err(Error::MaxBlobSizeConditionNotMet);
    }
    if count >= APPENDS_MAX {
        return Err(Error::BlockCountExceedsLimit {
            which: "committed",
            limit: APPENDS_MAX,
        });
    }
    Ok(())
}

impl Blob {
    fn set_length_of_appends(&mut self, length: u64) {
        self.length = length;
        if let Some(layer) = self.layers.last_mut() {
            layer.end = length;
        }
    }
}

impl BlobWrite<'_> {
    /// Writes the rows of an append that ends at offset `end`.
    fn put_append(&mut self, file: &File, end: u64, body: Uploaded) {
        let block = BlobBlock {
            id: Vec::new(),
            length: body.length,
            content: body.content(),
            file: None,
        };
        let mut rows = self.rows();
        body.put(&mut rows, &file.block_content(block.content));
        rows.put_block(&file.committed(end), &codec::encode_block(&block));
    }

    /// Returns the file to append to. It is the file of the last layer, or, if other records name
    /// that file even after a merge of layers, the file of a new layer.
    pub(crate) fn layer_to_append(&mut self, blob: &mut Blob) -> Result<File> {
        for may_merge in [true, false] {
            if let Some(layer) = blob.layers.last()
                && !self.service.is_shared(layer)?
            {
                return Ok(layer.file);
            }
            if may_merge {
                self.merge_appends(blob)?;
            }
        }
        let file = self.new_file();
        blob.layers.push(Layer::new(file, blob.length));
        self.merge_later(blob.layers.len());
        Ok(file)
    }
}

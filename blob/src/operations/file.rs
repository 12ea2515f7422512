//! Files of a hierarchical container: data appended at a position, and the flush that makes it the
//! file's content. Appended data is an uncommitted block whose id is the position.

use crate::block_list::NewList;
use crate::checksum::{Checksummer, Checksums};
use crate::codec;
use crate::conditions::{Conditions, WriteKind};
use crate::download::BlobReader;
use crate::error::{Error, Result};
use crate::keys::File;
use crate::lease::LeaseSteps;
use crate::model::{Blob, BlobAddress, BlobBlock, BlobHeaders, BlobType, Content, Layer, Written};
use crate::operations::PutBlockOutcome;
use crate::operations::copy::check_needs_no_key;
use crate::operations::new_list::listed_file;
use crate::operations::path::Purpose;
use crate::operations::permit::{Action, Permit};
use crate::operations::write::BlobWrite;
use crate::service::BlobService;
use crate::upload::{Upload, UploadKind, Uploaded};
use lazurite_engine::Ticket;

/// Number of bytes that are read at a time to compare content.
const COMPARED_BYTES: usize = 256 << 10;

/// The request of Path - Update, `action=flush`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlushData {
    /// `position`: the length of the file after the flush.
    pub position: u64,
    /// `retainUncommittedData`: whether data after the position stays, to be flushed later.
    pub retain_uncommitted: bool,
    /// Headers of the file that replace those before; an absent one stays as it is.
    pub headers: BlobHeaders,
    /// What happens to the lease of the file.
    pub lease: LeaseSteps,
    /// Conditions on the file.
    pub conditions: Conditions,
}

impl BlobService {
    /// Puts data at a position of a file, to be flushed. The file itself does not change but for its
    /// lease, nor does its ETag. Data put again at a position replaces the data before. `upload`
    /// must have been begun as [`UploadKind::PutBlock`]. Of the conditions, the lease id, the key
    /// and the scope are used. Errors: invalid names; `NotHierarchical`; `ContainerNotFound`,
    /// `BlobNotFound`, `OperationNotSupportedOnDirectory`, `InvalidBlobType`; those of leases; and as
    /// [`BlobService::put_block`].
    pub fn append_data(
        &self,
        address: &BlobAddress<'_>,
        position: u64,
        upload: Upload,
        conditions: &Conditions,
        lease: &LeaseSteps,
    ) -> Result<(PutBlockOutcome, Ticket)> {
        upload.check_not_empty()?;
        let body = upload.finish(UploadKind::PutBlock, None)?;
        let mut write = self.begin_append(address, conditions, lease)?;
        let outcome = write.put_staged(&position.to_be_bytes(), body, conditions)?;
        write.put_lease_after(lease)?;
        Ok((outcome, write.commit()?))
    }

    /// Appends data to a file, and flushes it, with the data appended before it, before another write
    /// to the file. Data appended beyond it stays. Errors: as [`BlobService::append_data`] and
    /// [`BlobService::flush_data`]; `InvalidFlushPosition` for a gap before it, and within the
    /// content unless the same bytes are there: then nothing changes.
    pub fn append_and_flush(
        &self,
        address: &BlobAddress<'_>,
        position: u64,
        upload: Upload,
        conditions: &Conditions,
        lease: &LeaseSteps,
    ) -> Result<((PutBlockOutcome, Written), Ticket)> {
        upload.check_not_empty()?;
        let body = upload.finish(UploadKind::PutBlock, None)?;
        let flush_to = |position| FlushData {
            position,
            retain_uncommitted: true,
            ..FlushData::default()
        };
        let request = flush_to(position.saturating_add(body.length));
        let mut write = self.begin_append(address, conditions, lease)?;
        let (_, blob) = write.changeable()?;
        let brought = write.brought(body.key.as_ref(), conditions)?;
        brought.check(&blob.encryption)?;
        if position < blob.length {
            // A client that lost the answer sends the data again. Source: the test of
            // `append_data` with lease actions in Microsoft's client for Python.
            write.check_is_content(&blob, position, &body)?;
            let outcome = PutBlockOutcome {
                checksums: body.checksums,
                encryption_scope: blob.encryption.scope().map(str::to_string),
            };
            write.put_lease_after(lease)?;
            return Ok(((outcome, blob.written()), write.commit()?));
        }
        // Before anything is written: what was appended before must reach up to the position.
        let _ = write.appended(&blob, &flush_to(position))?;
        let outcome = write.put_staged(&position.to_be_bytes(), body, conditions)?;
        write.commit_step()?;
        let current = self.keyspaces.record(&self.db, write.home(), &write.key)?;
        let mut current = current.ok_or(Error::BlobNotFound)?;
        lease.before(&mut current.lease, write.now)?;
        write.set_current(current);
        let (permit, mut blob) = write.changeable()?;
        let appended = write.appended(&blob, &request)?;
        write.take_appended(&mut blob, appended)?;
        let (written, ticket) = write.commit_with_lease(&permit, blob, lease)?;
        Ok(((outcome, written), ticket))
    }

    /// Begins to put data at a position of a file, which must be a block blob with a list.
    fn begin_append(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
        lease: &LeaseSteps,
    ) -> Result<BlobWrite<'_>> {
        let mut write = self.begin_path_write(address, Purpose::Write)?;
        write.check_hierarchical()?;
        while let Content::Whole = write.existing()?.content {
            // The ticket of the append covers this write.
            drop(write.commit_as_block()?);
            write = self.begin_path_write(address, Purpose::Write)?;
        }
        write.check_type(BlobType::BlockBlob)?;
        write.begin_lease(lease)?;
        write.check_lease(conditions.lease_id)?;
        write.check_online()?;
        Ok(write)
    }

    /// Makes the data up to a position the content of the file. It must follow the content without a
    /// gap; the position must be where a piece of it ends. The position of the end of the content
    /// changes only headers. Errors: invalid names; `NotHierarchical`; `ContainerNotFound`,
    /// `BlobNotFound`, `OperationNotSupportedOnDirectory`, `InvalidBlobType`;
    /// `InvalidFlushPosition`; those of write conditions and leases; `PendingCopyOperation`,
    /// `BlobArchived`, `BlobBeingRehydrated`, `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`; those of keys and scopes.
    pub fn flush_data(
        &self,
        address: &BlobAddress<'_>,
        request: &FlushData,
    ) -> Result<(Written, Ticket)> {
        let condition = request.conditions.for_write()?;
        let mut write = self.begin_path_write(address, Purpose::Write)?;
        write.check_hierarchical()?;
        write.check_type(BlobType::BlockBlob)?;
        write.begin_lease(&request.lease)?;
        write.check(condition, &request.conditions, WriteKind::Change)?;
        let (permit, mut blob) = write.changeable()?;
        let key = request.conditions.customer_key.as_ref();
        let brought = write.brought(key, &request.conditions)?;
        brought.check(&blob.encryption)?;
        let appended = write.appended(&blob, request)?;
        write.take_appended(&mut blob, appended)?;
        blob.headers.replace_with(&request.headers);
        write.commit_with_lease(&permit, blob, &request.lease)
    }
}

impl BlobHeaders {
    /// Replaces those headers that `newer` has.
    pub(super) fn replace_with(&mut self, newer: &BlobHeaders) {
        for (header, newer) in [
            (&mut self.content_type, &newer.content_type),
            (&mut self.content_encoding, &newer.content_encoding),
            (&mut self.content_language, &newer.content_language),
            (&mut self.cache_control, &newer.cache_control),
            (&mut self.content_disposition, &newer.content_disposition),
        ] {
            if newer.is_some() {
                header.clone_from(newer);
            }
        }
        if newer.content_md5.is_some() {
            self.content_md5.clone_from(&newer.content_md5);
        }
    }
}

/// The appended data of a file.
struct Appended {
    /// The file of it; `None` if there is none.
    file: Option<File>,
    /// What a flush makes content, in order.
    taken: Vec<BlobBlock>,
    /// What stays appended.
    kept: Vec<BlobBlock>,
    /// What is dropped.
    dropped: Vec<BlobBlock>,
}

impl BlobWrite<'_> {
    /// Acquires the lease that the write is made under. It is stored with the write.
    fn begin_lease(&mut self, lease: &LeaseSteps) -> Result<()> {
        if lease.acquire.is_some() {
            let mut blob = self.existing()?;
            lease.before(&mut blob.lease, self.now)?;
            self.set_current(blob);
        }
        Ok(())
    }

    /// Puts the lease as it is after a write that leaves the file itself as it is.
    fn put_lease_after(&mut self, lease: &LeaseSteps) -> Result<()> {
        if *lease == LeaseSteps::NONE {
            return Ok(());
        }
        let mut blob = self.existing()?;
        blob.staging = self.staging();
        let permit = self.permit_current(Action::Set)?;
        lease.after(&mut blob.lease, self.now)?;
        self.put(&permit, &blob);
        Ok(())
    }

    /// Like [`BlobWrite::commit_changed`], with the lease as it is after the write.
    fn commit_with_lease(
        mut self,
        permit: &Permit,
        mut blob: Box<Blob>,
        lease: &LeaseSteps,
    ) -> Result<(Written, Ticket)> {
        let written = self.touch(&mut blob);
        lease.after(&mut blob.lease, self.now)?;
        self.put(permit, &blob);
        Ok((written, self.commit()?))
    }

    /// Files the content of a blob that was put whole as one block, and commits. Takes as long as the
    /// content is. Errors: those of reading and writing; `BlobUsesCustomerSpecifiedEncryption`.
    fn commit_as_block(mut self) -> Result<Ticket> {
        let _long = self.service.begin_long_operation();
        let mut blob = self.existing()?;
        check_needs_no_key(&blob)?;
        let snapshot = self.service.db.snapshot();
        let keyspaces = &self.service.keyspaces;
        let mut reader = BlobReader::open(keyspaces, snapshot, &blob, 0..blob.length, None)?;
        let kind = UploadKind::PutBlock;
        let mut upload = Upload::begin(self.service, kind, Checksums::default(), None)?;
        upload.write_from(&mut reader)?;
        let body = upload.finish(kind, None)?;
        let permit = self.permit_current(Action::Refile)?;
        self.forget(&blob);
        let (content, file) = self.put_block_of_body(body)?;
        blob.content = content;
        blob.layers = vec![Layer::new(file, blob.length)];
        self.put(&permit, &blob);
        self.commit()
    }

    /// Fails unless the content has the bytes of the body at this position, by their CRC64. Error:
    /// `InvalidFlushPosition`.
    fn check_is_content(&self, blob: &Blob, position: u64, body: &Uploaded) -> Result<()> {
        let end = position.saturating_add(body.length);
        if end > blob.length {
            return Err(Error::InvalidFlushPosition);
        }
        let snapshot = self.service.db.snapshot();
        let keyspaces = &self.service.keyspaces;
        let mut reader = BlobReader::open(keyspaces, snapshot, blob, position..end, body.key)?;
        let mut checksummer = Checksummer::new(false, true);
        while let Some(chunk) = reader.next_chunk(COMPARED_BYTES)? {
            checksummer.update(&chunk);
        }
        if checksummer.finish().crc64 != body.checksums.crc64 {
            return Err(Error::InvalidFlushPosition);
        }
        Ok(())
    }

    /// The appended data, as a flush finds it. Error: `InvalidFlushPosition`.
    fn appended(&self, blob: &Blob, request: &FlushData) -> Result<Appended> {
        let file = self.staging().map(|id| self.file(id));
        let snapshot = self.service.db.snapshot();
        let blocks = self.service.filed(&snapshot, file, File::all_uncommitted)?;
        let mut appended = Appended {
            file,
            taken: Vec::new(),
            kept: Vec::new(),
            dropped: Vec::new(),
        };
        let mut end = blob.length;
        // Ids are positions, big-endian: the blocks are in order.
        for block in blocks {
            let position = <[u8; 8]>::try_from(&block.id[..]).map(u64::from_be_bytes);
            if position.is_ok_and(|at| at == end) && end < request.position {
                end = end.saturating_add(block.length);
                appended.taken.push(block);
            } else if request.retain_uncommitted {
                appended.kept.push(block);
            } else {
                appended.dropped.push(block);
            }
        }
        match end == request.position {
            true => Ok(appended),
            false => Err(Error::InvalidFlushPosition),
        }
    }

    /// Makes appended data content of the file.
    fn take_appended(&mut self, blob: &mut Blob, appended: Appended) -> Result<()> {
        let Some(staging) = appended.file else {
            return Ok(());
        };
        for block in &appended.dropped {
            self.rows()
                .delete_content(&staging.block_content(block.content));
        }
        if appended.kept.is_empty() {
            self.rows().delete_blocks(staging.all_staged());
            blob.staging = None;
        } else {
            let mut rows = self.rows();
            for block in appended.taken.iter().chain(&appended.dropped) {
                rows.delete_block(&staging.uncommitted(&block.id));
            }
            self.put_staging_count(staging, appended.kept.len())?;
        }
        if appended.taken.is_empty() {
            return Ok(());
        }
        let Content::Blocks { count } = blob.content else {
            return Err(Error::InvalidBlobType);
        };
        let own = blob.layers.first().map(|layer| layer.file);
        if own.is_none_or(|own| own == staging) && !self.shares_first_layer(blob)? {
            self.extend_list(blob, staging, &appended.taken);
        } else {
            self.list_again(blob, staging, &appended)?;
        }
        blob.content = Content::Blocks {
            count: count.saturating_add(appended.taken.len() as u32),
        };
        Ok(())
    }

    fn shares_first_layer(&self, blob: &Blob) -> Result<bool> {
        match blob.layers.first() {
            Some(layer) => self.service.is_shared(layer),
            None => Ok(false),
        }
    }

    /// Adds blocks to the list of the file that they are in: the rows before stay as they are.
    fn extend_list(&mut self, blob: &mut Blob, file: File, taken: &[BlobBlock]) {
        for block in taken {
            blob.length += block.length;
            let block = BlobBlock {
                file: None,
                ..block.clone()
            };
            let row = file.committed(blob.length);
            self.rows().put_block(&row, &codec::encode_block(&block));
        }
        if blob.layers.is_empty() {
            blob.layers.push(Layer::new(file, blob.length));
        }
        for layer in &mut blob.layers {
            layer.end = blob.length;
        }
    }

    /// Writes the whole list into another file, because other records need the one that it is in.
    fn list_again(&mut self, blob: &mut Blob, staging: File, appended: &Appended) -> Result<()> {
        let snapshot = self.service.db.snapshot();
        let committed = listed_file(blob);
        let mut blocks = self
            .service
            .filed(&snapshot, committed, |file| file.committed_from(0))?;
        blocks.extend(appended.taken.iter().cloned());
        let length = blocks.iter().map(|block| block.length).sum();
        let list = NewList {
            blocks,
            length,
            unreferenced: Vec::new(),
        };
        let names = |file: File| blob.layers.iter().any(|layer| layer.file == file);
        let target = if names(staging) {
            self.new_file()
        } else {
            staging
        };
        let mut layers = vec![Layer::new(target, length)];
        layers.extend(blob.layers.iter().map(|layer| Layer {
            end: length,
            ..*layer
        }));
        // The list of a file that only this record names is not needed there any more.
        for layer in &blob.layers {
            if Some(layer.file) == committed && !self.service.is_shared(layer)? {
                let list = layer.file.committed_from(0);
                self.rows().delete_blocks(list);
            }
        }
        self.put_list(&list, target);
        (blob.layers, blob.length) = (layers, length);
        Ok(())
    }
}

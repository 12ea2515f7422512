//! Uncommitted blocks: the file they are in, their common record, and their end after a week.

use crate::block_list::UNCOMMITTED_BLOCKS_MAX;
use crate::codec;
use crate::error::{Error, Result};
use crate::files::FileRows;
use crate::keys::File;
use crate::keys::Timer;
use crate::model::{BlobBlock, BlobState, Staging};
use crate::operations::BlobLookup;
use crate::operations::encryption::RequestEncryption;
use crate::operations::permit::Action;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use std::time::Duration;

/// Time that uncommitted blocks stay after the last one was put. Source: Put Block, "Remarks".
pub(crate) const STAGING_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl BlobService {
    /// The file of the uncommitted blocks of a found name.
    pub(super) fn staging_of(&self, found: &BlobLookup, state: BlobState) -> Result<Option<File>> {
        if state != BlobState::Current {
            return Ok(None);
        }
        let home = found.container.id;
        let keyspaces = &self.keyspaces;
        let id = match &found.blob {
            Some(blob) => blob.staging,
            None => keyspaces.uncommitted(&found.snapshot, home, &found.name)?,
        };
        Ok(id.map(|id| File { home, id }))
    }

    /// Drops the uncommitted blocks of a file, and keeps its other contents. Returns the number of
    /// dropped blocks.
    pub(crate) fn drop_staged(&self, rows: &mut FileRows<'_>, file: File) -> Result<usize> {
        let staged = self.blocks(&self.db.snapshot(), file.all_uncommitted())?;
        for block in &staged {
            let key = file.block_content(block.content);
            rows.delete_content(&key);
        }
        rows.delete_blocks(file.all_staged());
        Ok(staged.len())
    }

    pub(super) fn uncommitted_block(
        &self,
        file: &File,
        block_id: &[u8],
    ) -> Result<Option<BlobBlock>> {
        let key = file.uncommitted(block_id);
        let value = self.db.get(&self.keyspaces.blocks, &key)?;
        value.map(|value| codec::decode_block(&value)).transpose()
    }
}

impl BlobWrite<'_> {
    /// Returns the file for an uncommitted block: the file of the other uncommitted blocks if there
    /// are any; the blob's file if only this blob names it and a new list would replace its
    /// content; otherwise a new one.
    pub(super) fn staging_file(&self) -> Result<File> {
        if let Some(id) = self.staging() {
            return Ok(self.file(id));
        }
        let own = self.current().and_then(|blob| blob.layers.first());
        match own {
            Some(layer) if !layer.shared && !self.keeps(RetireReason::Overwritten) => {
                Ok(layer.file)
            }
            _ => Ok(self.new_file()),
        }
    }

    /// Notes that there are uncommitted blocks, and sets the timer that drops them after a week.
    pub(super) fn note_staging(&mut self, file: File) -> Result<()> {
        if self.staging() == Some(file.id) {
            return Ok(());
        }
        let key = self.key.clone();
        self.set_timer(self.now + STAGING_LIFETIME, Timer::Staging, &key);
        if let Ok(mut blob) = self.existing() {
            blob.staging = Some(file.id);
            let permit = self.permit_current(Action::Refile)?;
            self.put(&permit, &blob);
            self.set_current(blob);
        } else {
            self.put_uncommitted_marker(file);
        }
        Ok(())
    }

    /// Sets how many uncommitted blocks there are, after some of them were removed.
    pub(super) fn put_staging_count(&mut self, file: File, count: usize) -> Result<()> {
        let service = self.service;
        let Some(value) = service.db.get(&service.keyspaces.blocks, &file.staging())? else {
            return Ok(());
        };
        let staging = Staging {
            count: count as u32,
            ..codec::decode_staging(&value)?
        };
        let value = codec::encode_staging(&staging);
        self.rows().put_block(&file.staging(), &value);
        Ok(())
    }

    /// Returns the record of the blob's uncommitted blocks, with this id added. The ids of all
    /// uncommitted blocks have one length. Ids of committed blocks may have another, so that one
    /// tool can overwrite a blob that another uploaded. Source: Put Block, "Remarks".
    pub(super) fn staging_with(
        &self,
        file: &File,
        block_id: &[u8],
        replaces: bool,
        brought: RequestEncryption,
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
                brought.check(&staging.encryption)?;
                staging.count
            }
            None => 0,
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
            encryption: brought.encryption,
        })
    }
}

//! The record of a blob that a write creates or replaces.

use crate::access::NewAccess;
use crate::conditions::Validators;
use crate::error::Result;
use crate::model::{
    Blob, BlobHeaders, BlobType, Content, Encryption, ImmutabilityPolicy, Layer, Metadata, Tags,
    Written,
};
use crate::operations::state::check_tier;
use crate::operations::write::BlobWrite;
use crate::snapshot_time::SnapshotTime;
use crate::tags;
use crate::tier::{AccessTier, Tiering};

/// Settings of a new blob of any type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobSettings {
    /// `x-ms-tags`.
    pub tags: Tags,
    /// `x-ms-access-tier`; `None` leaves it to the account.
    pub tier: Option<AccessTier>,
    /// Until when the blob must not be changed or deleted.
    pub immutability: Option<ImmutabilityPolicy>,
    /// Whether the blob has a legal hold.
    pub legal_hold: bool,
}

impl BlobSettings {
    /// Sorts the tags and checks the settings. Errors: invalid tags; `InvalidBlobTier` if blobs of
    /// this type cannot have the tier.
    pub(crate) fn checked(mut self, blob_type: BlobType) -> Result<BlobSettings> {
        self.tags = tags::checked(self.tags)?;
        if let Some(tier) = self.tier {
            check_tier(blob_type, tier)?;
        }
        Ok(self)
    }
}

/// The parts of a new blob.
pub(crate) struct NewBlob {
    pub(crate) content: Content,
    pub(crate) layers: Vec<Layer>,
    pub(crate) length: u64,
    pub(crate) headers: BlobHeaders,
    pub(crate) metadata: Metadata,
    pub(crate) settings: BlobSettings,
    pub(crate) encryption: Encryption,
}

impl NewBlob {
    /// A blob like `source`, except for its settings.
    pub(crate) fn copy_of(source: &Blob, encryption: Encryption) -> NewBlob {
        NewBlob {
            content: source.content,
            layers: source.layers.clone(),
            length: source.length,
            headers: source.headers.clone(),
            metadata: source.metadata.clone(),
            settings: BlobSettings::default(),
            encryption,
        }
    }
}

impl BlobWrite<'_> {
    /// Returns the record of a blob that is created or replaced now. A replaced blob's time of
    /// creation and active lease are kept.
    pub(crate) fn new_blob(&self, new: NewBlob) -> Result<Box<Blob>> {
        let written = self.service.stamp(self.now, self.validators());
        let current = self.current();
        let kept = current.map(|blob| (blob.created_at, blob.lease.after_write(self.now)));
        let (created_at, lease) = kept.unwrap_or((written.last_modified, Default::default()));
        let blank = Blob::empty(new.content, written.etag, written.last_modified);
        Ok(Box::new(Blob {
            created_at,
            lease,
            layers: new.layers,
            length: new.length,
            headers: new.headers,
            metadata: new.metadata,
            tags: new.settings.tags,
            tiering: Tiering::new(new.settings.tier, self.now),
            immutability: new.settings.immutability,
            legal_hold: new.settings.legal_hold,
            encryption: new.encryption,
            access: match current {
                Some(blob) => blob.access.clone(),
                None => self.new_access(false, &NewAccess::default())?,
            },
            version: self.new_version(written)?,
            ..blank
        }))
    }

    /// The version that a write makes, if the account keeps versions.
    pub(crate) fn new_version(&self, written: Written) -> Result<Option<SnapshotTime>> {
        if !self.policy.versioning {
            return Ok(None);
        }
        // This moment may be later than the ETag: a snapshot makes a later version, the clock may
        // have been set back, and deleted versions may be restored.
        self.after_all_moments(SnapshotTime(written.etag.0))
            .map(Some)
    }

    /// Gives the blob the validators of a change made now. Removes an ended lease.
    pub(crate) fn touch(&self, blob: &mut Blob) -> Written {
        let written = self.service.stamp(self.now, Some(Validators::from(&*blob)));
        blob.etag = written.etag;
        blob.last_modified = written.last_modified;
        blob.lease = blob.lease.after_write(self.now);
        blob.written()
    }
}

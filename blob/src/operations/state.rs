//! Tier, expiry, immutability policy and legal hold of a blob.

use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::etag::whole_seconds;
use crate::keys::Timer;
use crate::lease::Leased;
use crate::model::{Blob, BlobAddress, BlobType, ImmutabilityMode, ImmutabilityPolicy, Written};
use crate::operations::permit::Action;
use crate::operations::permit::RecordSlot;
use crate::operations::write::BlobWrite;
use crate::service::BlobService;
use crate::tier::{AccessTier, RehydratePriority, Rehydration, Tiering};
use lazurite_engine::Ticket;
use std::time::{Duration, SystemTime};

/// The result of Set Blob Tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierOutcome {
    /// The blob has the new tier.
    Set,
    /// The blob will have the new tier once it is rehydrated.
    Pending,
}

/// When a blob expires. Source: Set Blob Expiry, `x-ms-expiry-option`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// This long after the blob was created.
    RelativeToCreation(Duration),
    /// This long from now.
    RelativeToNow(Duration),
    /// This time, in whole seconds.
    Absolute(SystemTime),
    /// The blob never expires.
    Never,
}

impl Expiry {
    /// The time at which a blob expires; `None` for never. Error: `InvalidHeaderValue`.
    pub(crate) fn time(self, blob: &Blob, now: SystemTime) -> Result<Option<SystemTime>> {
        let at = match self {
            Expiry::Never => return Ok(None),
            Expiry::RelativeToCreation(time) => blob.created_at.checked_add(time),
            Expiry::RelativeToNow(time) => now.checked_add(time),
            Expiry::Absolute(time) => Some(time),
        };
        // At the time of its expiry a blob has already expired, so the expiry must be later than
        // now.
        let is_possible = |at: &SystemTime| *at > now && *at < SystemTime::UNIX_EPOCH + YEAR_10000;
        at.filter(is_possible).map(Some).ok_or_else(not_an_expiry)
    }
}

impl BlobService {
    /// Set Blob Tier of a blob, snapshot or version. ETag and Last-Modified stay as they are. Of
    /// the conditions, only the one on tags and the lease id are used. Errors: invalid names;
    /// `ContainerNotFound`, `BlobNotFound`; `PendingCopyOperation`; `ConditionNotMet`; those of
    /// leases; `InvalidBlobTier` for a tier that blobs of its type cannot have,
    /// `CannotChangeToLowerTier` and `BlobTierInadequateForContentLength` for a tier that this page
    /// blob cannot have; `BlobBeingRehydrated`.
    pub fn set_blob_tier(
        &self,
        address: &BlobAddress<'_>,
        tier: AccessTier,
        priority: RehydratePriority,
        conditions: &Conditions,
    ) -> Result<(TierOutcome, Ticket)> {
        let mut write = self.begin_any_write(address)?;
        let now = write.now;
        let (place, mut blob) = write.find(address.state)?;
        let permit = write.permit(Action::Set, place, Some(&blob))?;
        conditions.check_tags(&blob.tags)?;
        write.check_lease_at(place, &blob, conditions)?;
        check_tier(blob.blob_type(), tier)?;
        check_premium(&blob, tier)?;
        let outcome = match blob.tiering.rehydrating(now) {
            // Setting the same tier again may only raise the priority. Source: Blob rehydration,
            // "Rehydration priority".
            Some((target, before)) if target != tier || priority < before => {
                return Err(Error::BlobBeingRehydrated);
            }
            Some(_) => {
                blob.tiering.rehydration = blob.tiering.rehydration.map(|pending| Rehydration {
                    priority,
                    ..pending
                });
                TierOutcome::Pending
            }
            None if blob.tiering.is_archived(now) && tier != AccessTier::Archive => {
                blob.tiering = write.rehydrating(tier, priority);
                TierOutcome::Pending
            }
            None => {
                blob.tiering = Tiering::new(Some(tier), now);
                TierOutcome::Set
            }
        };
        write.put(&permit, &blob);
        Ok((outcome, write.commit()?))
    }

    /// Set Blob Expiry: once it has expired, the blob does not exist. Errors: invalid names;
    /// `InvalidOperation` for a snapshot or version; `ContainerNotFound`, `BlobNotFound`; those of
    /// write conditions and leases; `PendingCopyOperation`; `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`; `InvalidHeaderValue` for a time that is not in the future, or
    /// after the year 9999.
    pub fn set_blob_expiry(
        &self,
        address: &BlobAddress<'_>,
        expiry: Expiry,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        let condition = conditions.for_write()?;
        let mut write = self.begin_write(address)?;
        write.check(condition, conditions, WriteKind::Change)?;
        let mut blob = write.existing()?;
        let now = write.now;
        let permit = write.permit_current(Action::SetExpiry)?;
        blob.expires_at = expiry.time(&blob, now)?;
        write.set_expiry_timer(&blob);
        write.commit_changed(&permit, blob)
    }

    /// Set Blob Immutability Policy of a blob, snapshot or version. A locked policy can only be
    /// extended. The server passes only `If-Unmodified-Since`. Errors: invalid names;
    /// `ContainerNotFound`, `BlobNotFound`; `ConditionNotMet`; `InvalidHeaderValue` for a time that
    /// has passed; `PendingCopyOperation`; `BlobImmutableDueToPolicy` for changes that a locked
    /// policy does not allow.
    pub fn set_blob_immutability_policy(
        &self,
        address: &BlobAddress<'_>,
        policy: ImmutabilityPolicy,
        conditions: &Conditions,
    ) -> Result<(ImmutabilityPolicy, Ticket)> {
        let condition = conditions.for_write()?;
        let policy = ImmutabilityPolicy {
            until: whole_seconds(policy.until),
            ..policy
        };
        let mut write = self.begin_any_write(address)?;
        if policy.until <= write.now {
            return Err(Error::InvalidHeaderValue {
                header: "x-ms-immutability-policy-until-date",
                value: crate::SnapshotTime::at(policy.until).to_string(),
            });
        }
        let (place, mut blob) = write.find_for_change(address.state, condition)?;
        let permit = write.permit(Action::Set, place, Some(&blob))?;
        if let Some(before) = blob.immutability
            && before.mode == ImmutabilityMode::Locked
            && (policy.until < before.until || policy.mode != ImmutabilityMode::Locked)
        {
            return Err(Error::BlobImmutableDueToPolicy);
        }
        blob.immutability = Some(policy);
        write.put(&permit, &blob);
        Ok((policy, write.commit()?))
    }

    /// Delete Blob Immutability Policy, which must not be locked. Errors: invalid names;
    /// `ContainerNotFound`, `BlobNotFound`; `PendingCopyOperation`, `BlobImmutableDueToPolicy`.
    pub fn delete_blob_immutability_policy(&self, address: &BlobAddress<'_>) -> Result<Ticket> {
        let mut write = self.begin_any_write(address)?;
        let (place, mut blob) = write.find(address.state)?;
        let permit = write.permit(Action::Set, place, Some(&blob))?;
        let mode = blob.immutability.map(|policy| policy.mode);
        if mode == Some(ImmutabilityMode::Locked) {
            return Err(Error::BlobImmutableDueToPolicy);
        }
        blob.immutability = None;
        write.put(&permit, &blob);
        write.commit()
    }

    /// Set Blob Legal Hold of a blob, snapshot or version. Errors: invalid names;
    /// `ContainerNotFound`, `BlobNotFound`; `PendingCopyOperation`.
    pub fn set_blob_legal_hold(
        &self,
        address: &BlobAddress<'_>,
        legal_hold: bool,
    ) -> Result<Ticket> {
        let mut write = self.begin_any_write(address)?;
        let (place, mut blob) = write.find(address.state)?;
        let permit = write.permit(Action::Set, place, Some(&blob))?;
        blob.legal_hold = legal_hold;
        write.put(&permit, &blob);
        write.commit()
    }
}

/// The end of the year 9999, since 1970: years on the wire have four digits.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

fn not_an_expiry() -> Error {
    Error::InvalidHeaderValue {
        header: "x-ms-expiry-time",
        value: "a time that has passed, or after the year 9999".to_string(),
    }
}

/// Fails unless blobs of this type can have this tier.
pub fn check_tier(blob_type: BlobType, tier: AccessTier) -> Result<()> {
    let premium = matches!(tier, AccessTier::Premium(_));
    match blob_type {
        BlobType::BlockBlob if !premium => Ok(()),
        BlobType::PageBlob if premium => Ok(()),
        _ => Err(Error::InvalidBlobTier),
    }
}

/// Checks that the tier of a page blob does not fall, and that a blob of its length fits in the new
/// tier. Source: Set Blob Tier, "Remarks".
fn check_premium(blob: &Blob, tier: AccessTier) -> Result<()> {
    let Some(limit) = tier.bytes_max() else {
        return Ok(());
    };
    let before = blob.tiering.explicit.and_then(AccessTier::bytes_max);
    if before.is_some_and(|before| limit < before) {
        Err(Error::CannotChangeToLowerTier)
    } else if limit < blob.length {
        Err(Error::BlobTierInadequateForContentLength)
    } else {
        Ok(())
    }
}

/// Fails if a page blob of this tier cannot be that long.
pub(crate) fn check_tier_holds(tier: Option<AccessTier>, length: u64) -> Result<()> {
    match tier.and_then(AccessTier::bytes_max) {
        Some(limit) if length > limit => Err(Error::ContentLengthLargerThanTierLimit),
        _ => Ok(()),
    }
}

impl BlobWrite<'_> {
    /// The tiering of a blob that is rehydrated to this tier.
    pub(crate) fn rehydrating(&self, tier: AccessTier, priority: RehydratePriority) -> Tiering {
        let wait = Duration::from_secs(self.policy.rehydrate_seconds.into());
        Tiering {
            rehydration: Some(Rehydration {
                to: tier,
                priority,
                ready_at: self.now + wait,
            }),
            ..Tiering::new(Some(AccessTier::Archive), self.now)
        }
    }

    /// Sets the timer of the blob's expiry, if the blob has one.
    pub(crate) fn set_expiry_timer(&mut self, blob: &Blob) {
        if let Some(at) = blob.expires_at {
            let key = self.key.clone();
            self.set_timer(at, Timer::Expiry, &key);
        }
    }

    fn check_lease_at(
        &self,
        place: RecordSlot,
        blob: &Blob,
        conditions: &Conditions,
    ) -> Result<()> {
        match place {
            RecordSlot::Current => {
                let lease = blob.lease;
                lease.check_write(conditions.lease_id, self.now, Leased::Blob)
            }
            RecordSlot::Past(..) => Ok(()),
        }
    }
}

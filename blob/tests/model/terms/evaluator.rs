//! Blobs as the protocol describes them: plain values, and the errors that refuse a request.

use super::lease::Lease;
use lazurite_blob::*;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Why a request is refused: each reason with its rank. The service may return any reason of the
/// lowest rank, which the protocol checks first.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<(Rank, String)>);

/// The checks of a request, in order. Source: observed order of the service's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Syntax,
    Existence,
    Type,
    Lease,
    State,
}

impl Refusals {
    pub(super) fn add(&mut self, rank: Rank, code: impl Into<Option<String>>) {
        self.0.extend(code.into().map(|code| (rank, code)));
    }

    pub(super) fn add_if(&mut self, refused: bool, rank: Rank, code: &str) {
        self.add(rank, refused.then(|| code.to_string()));
    }

    /// Removes the ranks, for requests about two blobs: the protocol does not order their checks.
    pub(super) fn unranked(self) -> Refusals {
        Refusals(
            self.0
                .into_iter()
                .map(|(_, code)| (Rank::Syntax, code))
                .collect(),
        )
    }

    /// Whether nothing refuses the request.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `code` may be the answer: a refusal of the first check that fails.
    pub(super) fn admit(&self, code: &str) -> bool {
        let first = self.0.iter().map(|(rank, _)| *rank).min();
        let mut codes = self.0.iter();
        codes.any(|(rank, admitted)| Some(*rank) == first && admitted == code)
    }
}

/// The encryption of content.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum Secret {
    #[default]
    Nothing,
    Key(u8),
    Scope(&'static str),
}

impl Secret {
    /// Why a read with this key, or without one, cannot use the content.
    pub(super) fn refuses(self, key: Option<u8>) -> Option<String> {
        let code = match (self, key) {
            (Secret::Key(own), Some(key)) if own == key => return None,
            (Secret::Key(_), Some(_)) => "BlobCustomerSpecifiedEncryptionMismatch",
            (Secret::Key(_), None) => "BlobUsesCustomerSpecifiedEncryption",
            (_, None) => return None,
            (_, Some(_)) => "BlobDoesNotUseCustomerSpecifiedEncryption",
        };
        Some(code.to_string())
    }

    /// Returns why a write that encrypts with `given` cannot add to the content or change
    /// properties; `None` if it can. `named`: the scope comes from the request, not from the
    /// container's default.
    pub(super) fn refuses_write(self, given: Secret, named: bool) -> Option<String> {
        let code = match self {
            _ if self == given => return None,
            Secret::Nothing => "BlobDoesNotUseCustomerSpecifiedEncryption",
            _ if !named => "BlobUsesCustomerSpecifiedEncryption",
            _ => "BlobCustomerSpecifiedEncryptionMismatch",
        };
        Some(code.to_string())
    }

    pub(super) fn key(self) -> Option<u8> {
        match self {
            Secret::Key(key) => Some(key),
            _ => None,
        }
    }
}

/// The access tier, and the tier that the blob is being rehydrated to, with the priority and the
/// time at which the rehydration ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Tier {
    pub(super) set: Option<AccessTier>,
    pub(super) coming: Option<(AccessTier, RehydratePriority, SystemTime)>,
}

impl Tier {
    pub(super) fn new(set: Option<AccessTier>) -> Tier {
        Tier { set, coming: None }
    }

    fn pass(&mut self, now: SystemTime) {
        if let Some((to, _, at)) = self.coming
            && at <= now
        {
            *self = Tier::new(Some(to));
        }
    }

    /// Why the tier keeps the content from being used; `None` if it does not.
    pub(super) fn refuses(self) -> Option<String> {
        match (self.coming, self.set) {
            (Some(_), _) => Some("BlobBeingRehydrated".to_string()),
            (None, Some(AccessTier::Archive)) => Some("BlobArchived".to_string()),
            (None, _) => None,
        }
    }
}

/// Whether blobs of the type have the tier.
pub(super) fn has_tier(kind: BlobType, tier: AccessTier) -> bool {
    match kind {
        BlobType::BlockBlob => !matches!(tier, AccessTier::Premium(_)),
        BlobType::PageBlob => matches!(tier, AccessTier::Premium(_)),
        BlobType::AppendBlob => false,
    }
}

#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) kind: BlobType,
    /// The id and the bytes of each block. Later lists may name the blocks again.
    pub(super) blocks: Vec<(&'static str, Vec<u8>)>,
    pub(super) bytes: Vec<u8>,
    pub(super) etag: ETag,
    pub(super) created_at: SystemTime,
    pub(super) lease: Lease,
    pub(super) tier: Tier,
    pub(super) expires_at: Option<SystemTime>,
    pub(super) secret: Secret,
}

impl Known {
    pub(super) fn has_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// The records under a name, deleted ones in retention included.
#[derive(Debug, Clone, Default)]
pub(super) struct Name {
    pub(super) current: Option<Known>,
    pub(super) snapshots: BTreeMap<SnapshotTime, Known>,
    /// The number of snapshots of blobs that were deleted or overwritten earlier. Nothing else is
    /// known of these snapshots.
    pub(super) others: usize,
    /// Whether a blob of the name became a version.
    pub(super) has_versions: bool,
    pub(super) staged: BTreeMap<&'static str, Vec<u8>>,
    pub(super) staged_secret: Secret,
    pub(super) staged_at: Option<SystemTime>,
    /// For each deleted record, until when it is kept; and the blob, if it was the current one.
    pub(super) kept: Vec<(SystemTime, Option<Known>)>,
}

impl Name {
    /// Whether the current blob has an expiry that has passed.
    pub(super) fn has_expired(&self, now: SystemTime) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|known| known.has_expired(now))
    }

    /// Removes everything that has ended by `now`.
    pub(super) fn pass(&mut self, now: SystemTime) {
        if self.has_expired(now) {
            self.current = None;
            self.snapshots.clear();
            self.others = 0;
            self.unstage();
        }
        let kept = self.kept.iter_mut().filter_map(|kept| kept.1.as_mut());
        let there = self.current.iter_mut().chain(self.snapshots.values_mut());
        for known in there.chain(kept) {
            known.lease.pass(now);
            known.tier.pass(now);
        }
        let gone = |known: &Option<Known>| known.as_ref().is_some_and(|it| it.has_expired(now));
        self.kept
            .retain(|(until, known)| *until > now && !gone(known));
    }

    /// Why the current blob's tier keeps it from being used, or replaced.
    pub(super) fn refuses_use(&self) -> Option<String> {
        self.current.as_ref()?.tier.refuses()
    }

    pub(super) fn unstage(&mut self) {
        self.staged.clear();
        (self.staged_secret, self.staged_at) = (Secret::Nothing, None);
    }

    /// The error of any change of the current blob with this lease id, if any.
    pub(super) fn refusals(&self, kind: Option<BlobType>, lease: Option<Guid>) -> Refusals {
        let mut refusals = Refusals::default();
        let Some(known) = &self.current else {
            refusals.add(Rank::Existence, "BlobNotFound".to_string());
            return refusals;
        };
        let other_kind = kind.is_some_and(|kind| kind != known.kind);
        refusals.add_if(other_kind, Rank::Type, "InvalidBlobType");
        refusals.add(Rank::Lease, known.lease.refuses_write(lease, "Blob"));
        refusals
    }

    /// The lease of the current blob, if there is one.
    pub(super) fn lease(&self) -> Lease {
        self.current
            .as_ref()
            .map(|known| known.lease)
            .unwrap_or_default()
    }
}

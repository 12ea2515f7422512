//! Access tiers, and the time of rehydration from the archive tier. Pure: time is an argument.
//!
//! Source: Set Blob Tier, "Remarks"; Blob rehydration from the archive tier.

use std::fmt;
use std::time::SystemTime;

/// The access tier of a blob, which sets its price in Azure. Displayed and read as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessTier {
    /// Online; the default.
    Hot,
    /// Online.
    Cool,
    /// Online.
    Cold,
    /// Offline: the blob must be rehydrated before it is read.
    Archive,
    /// Online; the service chooses among the other online tiers.
    Smart,
    /// `P4` to `P80`: for page blobs only.
    Premium(u8),
}

/// The tiers of page blobs.
const PREMIUM: [u8; 11] = [4, 6, 10, 15, 20, 30, 40, 50, 60, 70, 80];

impl AccessTier {
    /// Reads a tier; case does not matter. `None` if there is no such tier.
    pub fn parse(text: &str) -> Option<AccessTier> {
        let named = [
            AccessTier::Hot,
            AccessTier::Cool,
            AccessTier::Cold,
            AccessTier::Archive,
            AccessTier::Smart,
        ];
        let premium = PREMIUM.map(AccessTier::Premium);
        let mut all = named.into_iter().chain(premium);
        all.find(|tier| tier.to_string().eq_ignore_ascii_case(text))
    }

    /// Maximum length of a page blob of this tier, in bytes; `None` if the tier sets no limit. Each
    /// tier allows twice as many bytes as the one below. Source: Scalability targets for premium
    /// page blob storage accounts.
    pub(crate) fn bytes_max(self) -> Option<u64> {
        let AccessTier::Premium(number) = self else {
            return None;
        };
        let rank = PREMIUM.iter().position(|known| *known == number)?;
        Some((32 << 30) << rank)
    }
}

impl fmt::Display for AccessTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessTier::Premium(number) => write!(f, "P{number}"),
            named => write!(f, "{named:?}"),
        }
    }
}

/// The priority of a rehydration, the more urgent the greater. Both take the same time here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum RehydratePriority {
    /// The usual priority.
    #[default]
    Standard,
    /// The higher priority.
    High,
}

/// The rehydration of a blob that is on its way back from the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rehydration {
    pub(crate) to: AccessTier,
    pub(crate) priority: RehydratePriority,
    pub(crate) ready_at: SystemTime,
}

/// The access tier of a blob, as stored: [`Tiering::tier`] is the tier at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tiering {
    /// The tier as set; `None` if none was.
    pub(crate) explicit: Option<AccessTier>,
    pub(crate) changed_at: Option<SystemTime>,
    pub(crate) rehydration: Option<Rehydration>,
}

impl Tiering {
    pub(crate) fn new(tier: Option<AccessTier>, now: SystemTime) -> Tiering {
        Tiering {
            explicit: tier,
            changed_at: tier.map(|_| now),
            rehydration: None,
        }
    }

    /// The tier that was set. `None` if none was: the account's applies, which is `Hot`.
    pub fn tier(&self, now: SystemTime) -> Option<AccessTier> {
        match self.rehydration {
            Some(rehydration) if rehydration.ready_at <= now => Some(rehydration.to),
            _ => self.explicit,
        }
    }

    /// When the tier last changed: `x-ms-access-tier-change-time`.
    pub fn changed_at(&self, now: SystemTime) -> Option<SystemTime> {
        match self.rehydration {
            Some(rehydration) if rehydration.ready_at <= now => Some(rehydration.ready_at),
            _ => self.changed_at,
        }
    }

    /// Returns the tier that a blob is being rehydrated to, and the priority:
    /// `x-ms-archive-status`, `x-ms-rehydrate-priority`.
    pub fn rehydrating(&self, now: SystemTime) -> Option<(AccessTier, RehydratePriority)> {
        let rehydration = self.rehydration.filter(|pending| pending.ready_at > now)?;
        Some((rehydration.to, rehydration.priority))
    }

    /// Whether the content cannot be read.
    pub fn is_archived(&self, now: SystemTime) -> bool {
        self.tier(now) == Some(AccessTier::Archive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn tiers_are_read_as_they_are_displayed() {
        for text in ["Hot", "Cool", "Cold", "Archive", "Smart", "P4", "P80"] {
            assert_eq!(AccessTier::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(AccessTier::parse("hOT"), Some(AccessTier::Hot));
        for bad in ["", "Warm", "P5", "P", "Premium(4)"] {
            assert_eq!(AccessTier::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn premium_tiers_hold_twice_as_much_as_the_one_below() {
        assert_eq!(AccessTier::Premium(4).bytes_max(), Some(32 << 30));
        assert_eq!(AccessTier::Premium(60).bytes_max(), Some(8 << 40));
        assert_eq!(AccessTier::Premium(5).bytes_max(), None);
        assert_eq!(AccessTier::Hot.bytes_max(), None);
    }

    #[test]
    fn rehydration_ends_by_itself() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let tiering = Tiering {
            rehydration: Some(Rehydration {
                to: AccessTier::Cool,
                priority: RehydratePriority::High,
                ready_at: at(20),
            }),
            ..Tiering::new(Some(AccessTier::Archive), at(10))
        };
        let pending = Some((AccessTier::Cool, RehydratePriority::High));
        assert_eq!(tiering.rehydrating(at(19)), pending);
        assert!(tiering.is_archived(at(19)) && !tiering.is_archived(at(20)));
        assert_eq!(tiering.tier(at(20)), Some(AccessTier::Cool));
        assert_eq!(tiering.changed_at(at(20)), Some(at(20)));
        assert_eq!(tiering.rehydrating(at(20)), None);
    }
}

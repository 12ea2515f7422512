//! A lease as one of five states, and the effect of each request in each state: the two tables of
//! the protocol.
//!
//! Source: Lease Blob, "Remarks", the tables of outcomes by state.

use lazurite_blob::{Guid, LeaseAction, LeaseDuration, LeaseOutcome, LeaseState};
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum Lease {
    #[default]
    Available,
    Leased(Guid, LeaseDuration, Option<SystemTime>),
    Expired(Guid, LeaseDuration),
    Breaking(Guid, SystemTime),
    Broken(Guid),
}

use Lease::*;

const MISMATCH: &str = "LeaseIdMismatchWithLeaseOperation";
const ABSENT: &str = "LeaseNotPresentWithLeaseOperation";
const PRESENT: &str = "LeaseAlreadyPresent";

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

fn leased(id: Guid, duration: LeaseDuration, now: SystemTime) -> Lease {
    let end = match duration {
        LeaseDuration::Infinite => None,
        LeaseDuration::Seconds(count) => Some(now + seconds(count)),
    };
    Leased(id, duration, end)
}

impl Lease {
    /// Changes the state of a lease or a break period that has ended by `now`.
    pub(super) fn pass(&mut self, now: SystemTime) {
        match *self {
            Leased(id, duration, Some(end)) if end <= now => *self = Expired(id, duration),
            Breaking(id, end) if end <= now => *self = Broken(id),
            _ => {}
        }
    }

    /// Applies a request, and returns its result. `new` is the id if the request proposes none.
    pub(super) fn apply(
        &mut self,
        action: LeaseAction,
        now: SystemTime,
        new: Guid,
    ) -> Result<LeaseOutcome, &'static str> {
        *self = match action {
            LeaseAction::Acquire { duration, proposed } => {
                self.acquired(duration, proposed, now, new)?
            }
            LeaseAction::Renew(id) => self.renewed(id, now)?,
            LeaseAction::Change(from, to) => self.changed(from, to)?,
            LeaseAction::Release(id) => self.released(id)?,
            LeaseAction::Break(period) => self.broken(period, now)?,
        };
        Ok(match *self {
            Leased(id, ..) => LeaseOutcome::Held(id),
            Breaking(_, end) => {
                let left = end.duration_since(now).unwrap();
                LeaseOutcome::Breaking(left.as_secs_f64().ceil() as u32)
            }
            Broken(_) => LeaseOutcome::Breaking(0),
            Available => LeaseOutcome::Released,
            Expired(..) => panic!("nothing makes a lease expire but time"),
        })
    }

    fn acquired(
        self,
        duration: LeaseDuration,
        proposed: Option<Guid>,
        now: SystemTime,
        new: Guid,
    ) -> Result<Lease, &'static str> {
        match (self, proposed) {
            (Leased(id, ..), Some(proposed)) if id == proposed => Ok(leased(id, duration, now)),
            (Breaking(id, _), Some(proposed)) if id == proposed => {
                Err("LeaseIsBreakingAndCannotBeAcquired")
            }
            (Leased(..) | Breaking(..), _) => Err(PRESENT),
            (Available | Expired(..) | Broken(_), id) => {
                Ok(leased(id.unwrap_or(new), duration, now))
            }
        }
    }

    fn renewed(self, given: Guid, now: SystemTime) -> Result<Lease, &'static str> {
        match self {
            Leased(id, duration, _) | Expired(id, duration) if id == given => {
                Ok(leased(id, duration, now))
            }
            Breaking(id, _) | Broken(id) if id == given => Err("LeaseIsBrokenAndCannotBeRenewed"),
            _ => Err(MISMATCH),
        }
    }

    fn changed(self, from: Guid, to: Guid) -> Result<Lease, &'static str> {
        match self {
            Leased(id, duration, end) if id == from || id == to => Ok(Leased(to, duration, end)),
            Breaking(id, _) if id == from => Err("LeaseIsBreakingAndCannotBeChanged"),
            Leased(..) | Breaking(..) => Err(MISMATCH),
            Available | Broken(_) | Expired(..) => Err(ABSENT),
        }
    }

    fn released(self, given: Guid) -> Result<Lease, &'static str> {
        match self {
            Leased(id, ..) | Expired(id, _) | Breaking(id, _) | Broken(id) if id == given => {
                Ok(Available)
            }
            _ => Err(MISMATCH),
        }
    }

    fn broken(self, period: Option<u32>, now: SystemTime) -> Result<Lease, &'static str> {
        let asked = period.map(|period| now + seconds(period));
        let (id, end) = match self {
            Available => return Err(ABSENT),
            Leased(id, _, None) => (id, asked.unwrap_or(now)),
            Leased(id, _, Some(end)) | Breaking(id, end) => {
                (id, asked.map_or(end, |asked| asked.min(end)))
            }
            Expired(id, _) | Broken(id) => (id, now),
        };
        if end <= now {
            Ok(Broken(id))
        } else {
            Ok(Breaking(id, end))
        }
    }

    /// Why a write with this id, or without one, is refused. `of` is `Blob` or `Container`.
    pub(super) fn refuses_write(self, given: Option<Guid>, of: &str) -> Option<String> {
        match (self, given) {
            (Leased(..) | Breaking(..), None) => Some("LeaseIdMissing".to_string()),
            _ => self.refuses_read(given, of),
        }
    }

    /// Like [`Lease::refuses_write`], for operations that need no lease id.
    pub(super) fn refuses_read(self, given: Option<Guid>, of: &str) -> Option<String> {
        match self {
            Leased(id, ..) | Breaking(id, _) if id == given? => None,
            Leased(..) | Breaking(..) => Some(format!("LeaseIdMismatchWith{of}Operation")),
            Expired(id, _) | Broken(id) if id == given? => Some("LeaseLost".to_string()),
            Available | Expired(..) | Broken(_) => {
                given.map(|_| format!("LeaseNotPresentWith{of}Operation"))
            }
        }
    }

    /// The lease after a write that changes the ETag: one that has ended is gone.
    pub(super) fn after_write(self) -> Lease {
        match self {
            Leased(..) | Breaking(..) => self,
            Available | Expired(..) | Broken(_) => Available,
        }
    }

    /// The id of the lease that is or was last held; `None` if there is none.
    pub(super) fn id(self) -> Option<Guid> {
        match self {
            Available => None,
            Leased(id, ..) | Expired(id, _) | Breaking(id, _) | Broken(id) => Some(id),
        }
    }

    /// Whether the lease is held and has an end.
    pub(super) fn is_finite(self) -> bool {
        matches!(self, Leased(_, LeaseDuration::Seconds(_), _))
    }

    /// The values of `x-ms-lease-state`, `x-ms-lease-status` and `x-ms-lease-duration`.
    pub(super) fn shown(self) -> (LeaseState, bool, Option<LeaseDuration>) {
        match self {
            Available => (LeaseState::Available, false, None),
            Leased(_, duration, _) => (LeaseState::Leased, true, Some(duration)),
            Expired(..) => (LeaseState::Expired, false, None),
            Breaking(..) => (LeaseState::Breaking, true, None),
            Broken(_) => (LeaseState::Broken, false, None),
        }
    }
}

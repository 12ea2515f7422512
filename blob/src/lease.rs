//! Leases: the state machine that containers and blobs share. Pure: time is an argument, and states
//! are computed from it.
//!
//! ```text
//! available --acquire--> leased --time--> expired
//!                        leased --break--> breaking --time--> broken
//! leased, expired --renew--> leased
//! any state but available --release--> available
//! ```
//!
//! A write to a blob whose lease is expired or broken removes the lease.
//!
//! Source: Lease Blob, "Remarks", the tables of outcomes by state.

use crate::error::{Error, Result};
use crate::guid::Guid;
use std::time::{Duration, SystemTime};

/// Shortest and longest finite lease, in seconds. Source: Lease Blob, `x-ms-lease-duration`.
const LEASE_SECONDS: std::ops::RangeInclusive<u32> = 15..=60;
/// Longest break period, in seconds. Source: Lease Blob, `x-ms-lease-break-period`.
const BREAK_SECONDS_MAX: u32 = 60;

/// The duration of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseDuration {
    /// The lease lasts until it is released or broken.
    Infinite,
    /// The lease lasts 15 to 60 seconds from each acquisition or renewal.
    Seconds(u32),
}

impl LeaseDuration {
    /// Reads `x-ms-lease-duration`: -1, or 15 to 60. Error: `InvalidHeaderValue`.
    pub fn new(seconds: i64) -> Result<LeaseDuration> {
        match (seconds, u32::try_from(seconds)) {
            (-1, _) => Ok(LeaseDuration::Infinite),
            (_, Ok(seconds)) if LEASE_SECONDS.contains(&seconds) => {
                Ok(LeaseDuration::Seconds(seconds))
            }
            _ => Err(Error::InvalidHeaderValue {
                header: "x-ms-lease-duration",
                value: seconds.to_string(),
            }),
        }
    }

    fn end(self, now: SystemTime) -> Option<SystemTime> {
        match self {
            LeaseDuration::Infinite => None,
            LeaseDuration::Seconds(seconds) => Some(now + Duration::from_secs(seconds.into())),
        }
    }
}

/// An action on a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseAction {
    /// `acquire`; without a proposed id the service makes one.
    Acquire {
        /// `x-ms-lease-duration`.
        duration: LeaseDuration,
        /// `x-ms-proposed-lease-id`.
        proposed: Option<Guid>,
    },
    /// `renew` of the lease with this id.
    Renew(Guid),
    /// `change` of the first id into the second.
    Change(Guid, Guid),
    /// `release` of the lease with this id.
    Release(Guid),
    /// `break`, with the break period in seconds if one was given.
    Break(Option<u32>),
}

/// What a write to a file does with its lease, in the same step: `x-ms-lease-action` of Path -
/// Update. A write that fails leaves the lease as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseSteps {
    /// The lease that is acquired before the write: its length and its id.
    pub acquire: Option<(LeaseDuration, Guid)>,
    /// What happens to the lease after the write.
    pub after: AfterWrite,
}

/// What happens to the lease of a file after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterWrite {
    /// It stays as it is.
    #[default]
    Keep,
    /// The lease with this id is renewed.
    Renew(Guid),
    /// The lease with this id is released.
    Release(Guid),
}

impl LeaseSteps {
    /// The steps of most writes.
    pub const NONE: LeaseSteps = LeaseSteps {
        acquire: None,
        after: AfterWrite::Keep,
    };

    /// Acquires the lease that the write is made under. Errors: those of leases.
    pub(crate) fn before(&self, lease: &mut Lease, now: SystemTime) -> Result<()> {
        if let Some((duration, id)) = self.acquire {
            lease.acquire(duration, Some(id), now, || id)?;
        }
        Ok(())
    }

    /// Renews or releases the lease after the write. Errors: those of leases.
    pub(crate) fn after(&self, lease: &mut Lease, now: SystemTime) -> Result<()> {
        match self.after {
            AfterWrite::Keep => Ok(()),
            AfterWrite::Renew(id) => lease.renew(id, now).map(drop),
            AfterWrite::Release(id) => lease.release(id).map(drop),
        }
    }
}

/// The outcome of a lease operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// The lease is held under this id.
    Held(Guid),
    /// The lease was released.
    Released,
    /// The lease was broken, or will be in this many seconds: `x-ms-lease-time`.
    Breaking(u32),
}

/// The state of a lease, named as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// There is no lease.
    Available,
    /// The lease is held.
    Leased,
    /// The lease was not renewed in time.
    Expired,
    /// The lease was broken, and the break period has not ended.
    Breaking,
    /// The lease was broken, and the break period has ended.
    Broken,
}

/// The owner of a lease, which decides the codes of its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leased {
    Blob,
    Container,
}

/// The lease of a container or blob, as stored: [`Lease::state`] is its state at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lease(pub(crate) Option<LeaseHolder>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseHolder {
    pub(crate) id: Guid,
    pub(crate) duration: LeaseDuration,
    /// When the lease ends; `None` for an infinite one.
    pub(crate) until: Option<SystemTime>,
    /// When the break period ends; until then the lease is breaking.
    pub(crate) broken_at: Option<SystemTime>,
}

impl Lease {
    /// The state of the lease at `now`.
    pub fn state(&self, now: SystemTime) -> LeaseState {
        match self.0 {
            None => LeaseState::Available,
            Some(LeaseHolder {
                broken_at: Some(at),
                ..
            }) if at <= now => LeaseState::Broken,
            Some(LeaseHolder {
                broken_at: Some(_), ..
            }) => LeaseState::Breaking,
            Some(LeaseHolder {
                until: Some(until), ..
            }) if until <= now => LeaseState::Expired,
            Some(_) => LeaseState::Leased,
        }
    }

    /// Whether writes need the id of the lease: `x-ms-lease-status` is `locked`.
    pub fn is_locked(&self, now: SystemTime) -> bool {
        matches!(self.state(now), LeaseState::Leased | LeaseState::Breaking)
    }

    /// `x-ms-lease-duration`; `None` unless the lease is held.
    pub fn duration(&self, now: SystemTime) -> Option<LeaseDuration> {
        let held = self.0.filter(|_| self.state(now) == LeaseState::Leased)?;
        Some(held.duration)
    }

    /// Carries out the action, or fails. `new_id` makes the id of an acquisition that proposes
    /// none.
    pub(crate) fn apply(
        &mut self,
        action: LeaseAction,
        now: SystemTime,
        new_id: impl FnOnce() -> Guid,
    ) -> Result<LeaseOutcome> {
        match action {
            LeaseAction::Acquire { duration, proposed } => {
                self.acquire(duration, proposed, now, new_id)
            }
            LeaseAction::Renew(id) => self.renew(id, now),
            LeaseAction::Change(from, to) => self.change(from, to, now),
            LeaseAction::Release(id) => self.release(id),
            LeaseAction::Break(period) => self.break_lease(period, now),
        }
    }

    fn acquire(
        &mut self,
        duration: LeaseDuration,
        proposed: Option<Guid>,
        now: SystemTime,
        new_id: impl FnOnce() -> Guid,
    ) -> Result<LeaseOutcome> {
        let same = self.0.is_some_and(|held| Some(held.id) == proposed);
        match self.state(now) {
            LeaseState::Leased if !same => return Err(Error::LeaseAlreadyPresent),
            LeaseState::Breaking if same => {
                return Err(Error::LeaseIsBreakingAndCannotBeAcquired);
            }
            LeaseState::Breaking => return Err(Error::LeaseAlreadyPresent),
            _ => {}
        }
        let id = proposed.unwrap_or_else(new_id);
        Ok(self.hold(id, duration, now))
    }

    fn hold(&mut self, id: Guid, duration: LeaseDuration, now: SystemTime) -> LeaseOutcome {
        self.0 = Some(LeaseHolder {
            id,
            duration,
            until: duration.end(now),
            broken_at: None,
        });
        LeaseOutcome::Held(id)
    }

    fn renew(&mut self, id: Guid, now: SystemTime) -> Result<LeaseOutcome> {
        let held = self.held_by(id)?;
        if held.broken_at.is_some() {
            return Err(Error::LeaseIsBrokenAndCannotBeRenewed);
        }
        Ok(self.hold(id, held.duration, now))
    }

    fn change(&mut self, from: Guid, to: Guid, now: SystemTime) -> Result<LeaseOutcome> {
        let state = self.state(now);
        let held = match self.0 {
            Some(held) if matches!(state, LeaseState::Leased | LeaseState::Breaking) => held,
            _ => return Err(Error::LeaseNotPresentWithLeaseOperation),
        };
        match state {
            LeaseState::Breaking if held.id == from => {
                return Err(Error::LeaseIsBreakingAndCannotBeChanged);
            }
            // The second id is accepted as well, so that a change whose response was lost can be
            // repeated.
            LeaseState::Leased if held.id == from || held.id == to => {}
            _ => return Err(Error::LeaseIdMismatchWithLeaseOperation),
        }
        self.0 = Some(LeaseHolder { id: to, ..held });
        Ok(LeaseOutcome::Held(to))
    }

    fn release(&mut self, id: Guid) -> Result<LeaseOutcome> {
        self.held_by(id)?;
        self.0 = None;
        Ok(LeaseOutcome::Released)
    }

    fn break_lease(&mut self, period: Option<u32>, now: SystemTime) -> Result<LeaseOutcome> {
        if let Some(period) = period.filter(|&period| period > BREAK_SECONDS_MAX) {
            return Err(Error::InvalidHeaderValue {
                header: "x-ms-lease-break-period",
                value: period.to_string(),
            });
        }
        let mut held = self.0.ok_or(Error::LeaseNotPresentWithLeaseOperation)?;
        let period = period.map(|period| Duration::from_secs(period.into()));
        let left = |end: SystemTime| end.duration_since(now).unwrap_or_default();
        let remaining = match (held.broken_at, held.until) {
            (Some(at), _) => Some(left(at)),
            (None, until) => until.map(left),
        };
        let seconds_left = match (period, remaining) {
            (Some(period), Some(remaining)) => period.min(remaining),
            (period, remaining) => period.or(remaining).unwrap_or_default(),
        };
        held.broken_at = Some(now + seconds_left);
        self.0 = Some(held);
        Ok(LeaseOutcome::Breaking(
            seconds_left.as_millis().div_ceil(1000) as u32,
        ))
    }

    fn held_by(&self, id: Guid) -> Result<LeaseHolder> {
        self.0
            .filter(|held| held.id == id)
            .ok_or(Error::LeaseIdMismatchWithLeaseOperation)
    }

    /// Checks the lease id of a write against the lease.
    pub(crate) fn check_write(
        &self,
        given: Option<Guid>,
        now: SystemTime,
        of: Leased,
    ) -> Result<()> {
        if given.is_none() && self.is_locked(now) {
            return Err(Error::LeaseIdMissing);
        }
        self.check_read(given, now, of)
    }

    /// Checks the lease id of an operation that needs none. A given id must be that of a lease that
    /// is leased or breaking.
    pub(crate) fn check_read(
        &self,
        given: Option<Guid>,
        now: SystemTime,
        of: Leased,
    ) -> Result<()> {
        let Some(given) = given else {
            return Ok(());
        };
        match (self.0, of) {
            (Some(held), _) if self.is_locked(now) && held.id == given => Ok(()),
            (Some(_), Leased::Blob) if self.is_locked(now) => {
                Err(Error::LeaseIdMismatchWithBlobOperation)
            }
            (Some(_), Leased::Container) if self.is_locked(now) => {
                Err(Error::LeaseIdMismatchWithContainerOperation)
            }
            // The lease was broken or has expired. Source: a recorded answer of the hosted service,
            // and the tests of Hadoop's ABFS driver.
            (Some(held), _) if held.id == given => Err(Error::LeaseLost),
            (_, Leased::Blob) => Err(Error::LeaseNotPresentWithBlobOperation),
            (_, Leased::Container) => Err(Error::LeaseNotPresentWithContainerOperation),
        }
    }

    /// The lease after a write: an ended one is removed.
    pub(crate) fn after_write(self, now: SystemTime) -> Lease {
        if self.is_locked(now) {
            self
        } else {
            Lease::default()
        }
    }
}

#[cfg(test)]
mod tests;

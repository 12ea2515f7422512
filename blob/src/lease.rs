//! Leases: the state machine that containers and blobs share. Pure; time is an argument and moves states when looked at.
//!
//! ```text
//! available --acquire--> leased --time--> expired        renew: leased, expired -> leased
//!                        leased --break--> breaking --time--> broken
//! any state but available --release--> available         a write over expired or broken forgets the lease
//! ```
//!
//! Source: Lease Blob, "Remarks", the tables of outcomes by state.

use crate::error::{Error, Result};
use std::fmt;
use std::time::{Duration, SystemTime};

/// Shortest and longest of a lease that ends by itself, in seconds. Source: Lease Blob, `x-ms-lease-duration`.
const LEASE_SECONDS: std::ops::RangeInclusive<u32> = 15..=60;
/// Longest break period, in seconds. Source: Lease Blob, `x-ms-lease-break-period`.
const BREAK_SECONDS_MAX: u32 = 60;

/// The id of a lease or a copy. Displayed in lower case with dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guid(pub u128);

impl Guid {
    /// Reads a GUID in any of its common spellings: with or without dashes, in braces or parentheses. `None` if it is none.
    pub fn parse(text: &str) -> Option<Guid> {
        let text = text.trim();
        let bare = [('{', '}'), ('(', ')')]
            .into_iter()
            .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
            .unwrap_or(text);
        let dashed = bare.len() == 36
            && bare
                .bytes()
                .enumerate()
                .all(|(i, b)| (b == b'-') == matches!(i, 8 | 13 | 18 | 23));
        let digits = match dashed {
            true => bare.replace('-', ""),
            false => bare.to_string(),
        };
        let is_hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = is_hex.then(|| u128::from_str_radix(&digits, 16))?;
        value.ok().map(Guid)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (id >> 96) as u32,
            (id >> 80) as u16,
            (id >> 64) as u16,
            (id >> 48) as u16,
            id & 0xffff_ffff_ffff
        )
    }
}

/// How long a lease is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseDuration {
    /// Until it is released or broken.
    Infinite,
    /// 15 to 60 seconds, from each acquisition or renewal.
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

/// What is wanted of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseAction {
    /// `acquire`; without a proposed id the service makes one.
    Acquire {
        /// How long.
        duration: LeaseDuration,
        /// `x-ms-proposed-lease-id`.
        proposed: Option<Guid>,
    },
    /// `renew`.
    Renew(Guid),
    /// `change` of the first id into the second.
    Change(Guid, Guid),
    /// `release`.
    Release(Guid),
    /// `break`, with the break period in seconds if one was given.
    Break(Option<u32>),
}

/// What a lease operation answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// The lease is held under this id.
    Held(Guid),
    /// It was released.
    Released,
    /// It was broken, or will be in so many seconds: `x-ms-lease-time`.
    Breaking(u32),
}

/// As on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody has it.
    Available,
    /// Someone has it.
    Leased,
    /// It was let run out.
    Expired,
    /// It was broken and still holds for a while.
    Breaking,
    /// It was broken.
    Broken,
}

/// What a lease belongs to, which decides the codes of its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leased {
    Blob,
    Container,
}

/// The lease of a container or blob, as stored: [`Lease::state`] says what it is at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lease(pub(crate) Option<Held>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) id: Guid,
    pub(crate) duration: LeaseDuration,
    /// When a lease that ends by itself does.
    pub(crate) until: Option<SystemTime>,
    /// When it was broken to end; before that it is breaking.
    pub(crate) broken_at: Option<SystemTime>,
}

impl Lease {
    /// What the lease is now.
    pub fn state(&self, now: SystemTime) -> LeaseState {
        match self.0 {
            None => LeaseState::Available,
            Some(Held {
                broken_at: Some(at),
                ..
            }) if at <= now => LeaseState::Broken,
            Some(Held {
                broken_at: Some(_), ..
            }) => LeaseState::Breaking,
            Some(Held {
                until: Some(until), ..
            }) if until <= now => LeaseState::Expired,
            Some(_) => LeaseState::Leased,
        }
    }

    /// Whether writes need its id: `x-ms-lease-status` is `locked`.
    pub fn is_locked(&self, now: SystemTime) -> bool {
        matches!(self.state(now), LeaseState::Leased | LeaseState::Breaking)
    }

    /// `x-ms-lease-duration`, which is told of leased ones only.
    pub fn duration(&self, now: SystemTime) -> Option<LeaseDuration> {
        let held = self.0.filter(|_| self.state(now) == LeaseState::Leased)?;
        Some(held.duration)
    }

    /// Does what is wanted, or says why not. `new_id` is for an acquisition that proposes none.
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
        self.0 = Some(Held {
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
            // The second id counts as well, so that a change whose answer was lost can be tried again.
            LeaseState::Leased if held.id == from || held.id == to => {}
            _ => return Err(Error::LeaseIdMismatchWithLeaseOperation),
        }
        self.0 = Some(Held { id: to, ..held });
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

    fn held_by(&self, id: Guid) -> Result<Held> {
        self.0
            .filter(|held| held.id == id)
            .ok_or(Error::LeaseIdMismatchWithLeaseOperation)
    }

    /// Holds the id a write came with against the lease.
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

    /// Holds the id that came with what needs none: if there is one it must be the lease's.
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
            (_, Leased::Blob) => Err(Error::LeaseNotPresentWithBlobOperation),
            (_, Leased::Container) => Err(Error::LeaseNotPresentWithContainerOperation),
        }
    }

    /// The lease after a write: one that holds no longer is forgotten.
    pub(crate) fn after_write(self, now: SystemTime) -> Lease {
        match self.is_locked(now) {
            true => self,
            false => Lease::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const A: Guid = Guid(0xA);
    const B: Guid = Guid(0xB);
    const C: Guid = Guid(0xC);
    const NEW: Guid = Guid(0xFF);
    const STATES: [&str; 5] = ["available", "leased", "breaking", "broken", "expired"];

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    const NOW: u64 = 1000;

    /// A lease of 30 seconds under A that is in this state at `NOW`.
    fn lease(state: &str) -> Lease {
        let mut lease = Lease::default();
        let mut act = |action, now| lease.apply(action, at(now), || NEW).map(|_| ()).unwrap();
        let acquire = LeaseAction::Acquire {
            duration: LeaseDuration::Seconds(30),
            proposed: Some(A),
        };
        match state {
            "available" => {}
            "leased" => act(acquire, NOW - 10),
            "expired" => act(acquire, NOW - 30),
            "breaking" => {
                act(acquire, NOW - 10);
                act(LeaseAction::Break(Some(15)), NOW - 5);
            }
            "broken" => {
                act(acquire, NOW - 10);
                act(LeaseAction::Break(Some(0)), NOW - 5);
            }
            _ => panic!("{state}"),
        }
        lease
    }

    fn name(state: LeaseState) -> String {
        format!("{state:?}").to_lowercase()
    }

    fn code(error: Error) -> String {
        let text = format!("{error:?}");
        text.split(' ').next().unwrap().to_string()
    }

    #[test]
    fn states_are_those_that_time_makes() {
        for state in STATES {
            assert_eq!(name(lease(state).state(at(NOW))), state);
        }
        assert_eq!(lease("leased").state(at(NOW + 19)), LeaseState::Leased);
        assert_eq!(lease("leased").state(at(NOW + 20)), LeaseState::Expired);
        assert_eq!(lease("breaking").state(at(NOW + 9)), LeaseState::Breaking);
        assert_eq!(lease("breaking").state(at(NOW + 10)), LeaseState::Broken);
    }

    /// Every cell of the table of lease operations by state: outcome and state afterwards, or the code.
    #[test]
    fn lease_operations_meet_the_table() {
        let acquire = |proposed| LeaseAction::Acquire {
            duration: LeaseDuration::Infinite,
            proposed,
        };
        let mismatch = "LeaseIdMismatchWithLeaseOperation";
        let absent = "LeaseNotPresentWithLeaseOperation";
        let present = "LeaseAlreadyPresent";
        let unrenewable = "LeaseIsBrokenAndCannotBeRenewed";
        let rows: [(LeaseAction, [&str; 5]); 12] = [
            (
                acquire(None),
                ["new leased", present, present, "new leased", "new leased"],
            ),
            (
                acquire(Some(A)),
                [
                    "A leased",
                    "A leased",
                    "LeaseIsBreakingAndCannotBeAcquired",
                    "A leased",
                    "A leased",
                ],
            ),
            (
                acquire(Some(B)),
                ["B leased", present, present, "B leased", "B leased"],
            ),
            (
                LeaseAction::Break(Some(0)),
                [absent, "0 broken", "0 broken", "0 broken", "0 broken"],
            ),
            (
                LeaseAction::Break(Some(7)),
                [absent, "7 breaking", "7 breaking", "0 broken", "0 broken"],
            ),
            (
                LeaseAction::Break(Some(60)),
                [absent, "20 breaking", "10 breaking", "0 broken", "0 broken"],
            ),
            (
                LeaseAction::Break(None),
                [absent, "20 breaking", "10 breaking", "0 broken", "0 broken"],
            ),
            (
                LeaseAction::Change(A, B),
                [
                    absent,
                    "B leased",
                    "LeaseIsBreakingAndCannotBeChanged",
                    absent,
                    absent,
                ],
            ),
            (
                LeaseAction::Change(B, A),
                [absent, "A leased", mismatch, absent, absent],
            ),
            (
                LeaseAction::Change(B, C),
                [absent, mismatch, mismatch, absent, absent],
            ),
            (
                LeaseAction::Renew(A),
                [mismatch, "A leased", unrenewable, unrenewable, "A leased"],
            ),
            (
                LeaseAction::Release(A),
                [
                    mismatch,
                    "gone available",
                    "gone available",
                    "gone available",
                    "gone available",
                ],
            ),
        ];
        for (action, cells) in rows {
            for (state, expected) in STATES.into_iter().zip(cells) {
                let mut lease = lease(state);
                let told = match lease.apply(action, at(NOW), || NEW) {
                    Err(error) => code(error),
                    Ok(outcome) => {
                        let outcome = match outcome {
                            LeaseOutcome::Held(A) => "A".to_string(),
                            LeaseOutcome::Held(B) => "B".to_string(),
                            LeaseOutcome::Held(_) => "new".to_string(),
                            LeaseOutcome::Released => "gone".to_string(),
                            LeaseOutcome::Breaking(seconds) => seconds.to_string(),
                        };
                        format!("{outcome} {}", name(lease.state(at(NOW))))
                    }
                };
                assert_eq!(told, expected, "{action:?} on {state}");
            }
        }
        for action in [LeaseAction::Renew(B), LeaseAction::Release(B)] {
            for state in STATES {
                let told = lease(state).apply(action, at(NOW), || NEW).unwrap_err();
                assert_eq!(code(told), mismatch, "{action:?} on {state}");
            }
        }
    }

    /// Every cell of the table of other operations by state.
    #[test]
    fn other_operations_meet_the_table() {
        let (missing, absent) = ("LeaseIdMissing", "LeaseNotPresentWithBlobOperation");
        let mismatch = "LeaseIdMismatchWithBlobOperation";
        let rows = [
            ("write", None, ["ok", missing, missing, "ok", "ok"]),
            ("write", Some(A), [absent, "ok", "ok", absent, absent]),
            (
                "write",
                Some(B),
                [absent, mismatch, mismatch, absent, absent],
            ),
            ("read", None, ["ok", "ok", "ok", "ok", "ok"]),
            ("read", Some(A), [absent, "ok", "ok", absent, absent]),
            (
                "read",
                Some(B),
                [absent, mismatch, mismatch, absent, absent],
            ),
        ];
        for (kind, id, cells) in rows {
            for (state, expected) in STATES.into_iter().zip(cells) {
                let lease = lease(state);
                let check = match kind {
                    "write" => lease.check_write(id, at(NOW), Leased::Blob),
                    _ => lease.check_read(id, at(NOW), Leased::Blob),
                };
                let told = check.map_or_else(code, |()| "ok".to_string());
                assert_eq!(told, expected, "{kind} with {id:?} on {state}");
            }
        }
    }

    #[test]
    fn write_forgets_a_lease_that_holds_no_longer() {
        for (state, kept) in STATES.into_iter().zip([false, true, true, false, false]) {
            let lease = lease(state);
            let after = lease.after_write(at(NOW));
            assert_eq!(
                after,
                if kept { lease } else { Lease::default() },
                "{state}"
            );
        }
    }

    #[test]
    fn infinite_lease_breaks_at_once_or_after_its_period() {
        let infinite = LeaseAction::Acquire {
            duration: LeaseDuration::Infinite,
            proposed: None,
        };
        for (period, expected) in [(None, 0), (Some(0), 0), (Some(25), 25)] {
            let mut lease = Lease::default();
            lease.apply(infinite, at(NOW), || NEW).unwrap();
            assert_eq!(lease.state(at(NOW * 1000)), LeaseState::Leased);
            let outcome = lease.apply(LeaseAction::Break(period), at(NOW), || NEW);
            assert_eq!(outcome.unwrap(), LeaseOutcome::Breaking(expected));
        }
    }

    #[test]
    fn acquiring_again_changes_the_duration_and_renewing_resets_the_clock() {
        let renewed = |state| {
            let mut lease = lease(state);
            lease.apply(LeaseAction::Renew(A), at(NOW), || NEW).unwrap();
            lease
        };
        for state in ["leased", "expired"] {
            let lease = renewed(state);
            assert_eq!(lease.state(at(NOW + 29)), LeaseState::Leased, "{state}");
            assert_eq!(lease.state(at(NOW + 30)), LeaseState::Expired, "{state}");
        }
        let mut lease = lease("leased");
        let longer = LeaseDuration::Seconds(60);
        let acquire = LeaseAction::Acquire {
            duration: longer,
            proposed: Some(A),
        };
        lease.apply(acquire, at(NOW), || NEW).unwrap();
        assert_eq!(lease.duration(at(NOW + 59)), Some(longer));
        assert_eq!(lease.state(at(NOW + 60)), LeaseState::Expired);
    }

    #[test]
    fn numbers_and_ids_without_a_meaning_are_refused() {
        assert!(LeaseDuration::new(-1).is_ok() && LeaseDuration::new(15).is_ok());
        for bad in [0, 14, 61, -2, i64::MAX] {
            assert!(LeaseDuration::new(bad).is_err(), "{bad}");
        }
        let mut leased = lease("leased");
        let error = leased.apply(LeaseAction::Break(Some(61)), at(NOW), || NEW);
        assert!(matches!(error, Err(Error::InvalidHeaderValue { .. })));
        let text = "1f2e3d4c-0000-1111-2222-0123456789ab";
        let id = Guid::parse(text).unwrap();
        assert_eq!(id.to_string(), text);
        let plain = text.replace('-', "");
        let braced = format!("{{{}}}", text.to_uppercase());
        for spelling in [&plain, &braced, &format!("({text})")] {
            assert_eq!(Guid::parse(spelling), Some(id), "{spelling}");
        }
        for bad in [
            "",
            "x",
            &plain[1..],
            &format!("{plain}0"),
            "+f2e3d4c-0000-1111-2222-0123456789ab",
        ] {
            assert_eq!(Guid::parse(bad), None, "{bad}");
        }
    }
}

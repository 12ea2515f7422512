//! Every cell of the tables of leases, on the state machine alone.

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

/// A lease of 30 seconds under the id `A` that is in this state at `NOW`.
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
            let shown = match lease.apply(action, at(NOW), || NEW) {
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
            assert_eq!(shown, expected, "{action:?} on {state}");
        }
    }
    for action in [LeaseAction::Renew(B), LeaseAction::Release(B)] {
        for state in STATES {
            let shown = lease(state).apply(action, at(NOW), || NEW).unwrap_err();
            assert_eq!(code(shown), mismatch, "{action:?} on {state}");
        }
    }
}

/// Every cell of the table of other operations by state.
#[test]
fn other_operations_meet_the_table() {
    let (missing, absent) = ("LeaseIdMissing", "LeaseNotPresentWithBlobOperation");
    let (mismatch, lost) = ("LeaseIdMismatchWithBlobOperation", "LeaseLost");
    let rows = [
        ("write", None, ["ok", missing, missing, "ok", "ok"]),
        ("write", Some(A), [absent, "ok", "ok", lost, lost]),
        (
            "write",
            Some(B),
            [absent, mismatch, mismatch, absent, absent],
        ),
        ("read", None, ["ok", "ok", "ok", "ok", "ok"]),
        ("read", Some(A), [absent, "ok", "ok", lost, lost]),
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
            let shown = check.map_or_else(code, |()| "ok".to_string());
            assert_eq!(shown, expected, "{kind} with {id:?} on {state}");
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
fn numbers_without_a_meaning_are_refused() {
    assert!(LeaseDuration::new(-1).is_ok() && LeaseDuration::new(15).is_ok());
    for bad in [0, 14, 61, -2, i64::MAX] {
        assert!(LeaseDuration::new(bad).is_err(), "{bad}");
    }
    let mut leased = lease("leased");
    let error = leased.apply(LeaseAction::Break(Some(61)), at(NOW), || NEW);
    assert!(matches!(error, Err(Error::InvalidHeaderValue { .. })));
}

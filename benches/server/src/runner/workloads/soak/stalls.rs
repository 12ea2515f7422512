//! The stalls injected into the disk, and the time limits of requests during them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Duration of each sync while syncs are slow.
pub(super) const SLOW_SYNC: Duration = Duration::from_millis(300);
/// Maximum number of slow syncs that a write waits for: two files for the group of writes before
/// its own, two files for its own group, and a new segment of the log.
const SLOW_SYNCS_MAX: u32 = 6;
/// The time that a request may take apart from stalls: it waits for other threads of this machine,
/// and for the sync that was under way when a stall began.
const SLACK: Duration = Duration::from_millis(1000);
/// Maximum number of stalls kept. Every request under way began after the end of any dropped stall.
const STALLS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StallKind {
    /// Syncs block until the stall ends.
    Held,
    /// Each sync takes [`SLOW_SYNC`].
    Slow,
}

struct Stall {
    kind: StallKind,
    began: Instant,
    /// `None` while the stall lasts.
    ended: Option<Instant>,
}

/// The stalls so far, which all threads share.
#[derive(Default)]
pub(super) struct Stalls(Mutex<Vec<Stall>>);

impl Stalls {
    pub(super) fn begin(&self, kind: StallKind) {
        let mut stalls = self.0.lock().expect("no request panics");
        if stalls.len() == STALLS_MAX {
            stalls.remove(0);
        }
        stalls.push(Stall {
            kind,
            began: Instant::now(),
            ended: None,
        });
    }

    pub(super) fn end(&self) {
        let mut stalls = self.0.lock().expect("no request panics");
        if let Some(stall) = stalls.last_mut() {
            stall.ended = Some(Instant::now());
        }
    }

    /// Maximum time of a write between these times: the time for which syncs were held meanwhile,
    /// plus a bound for slow syncs and for the request itself.
    pub(super) fn write_limit(&self, began: Instant, ended: Instant) -> Duration {
        let stalls = self.0.lock().expect("no request panics");
        let mut limit = SLACK;
        let mut is_slow = false;
        for stall in &*stalls {
            let end = stall.ended.unwrap_or(ended).min(ended);
            let overlap = end.saturating_duration_since(stall.began.max(began));
            match stall.kind {
                StallKind::Held => limit += overlap,
                StallKind::Slow => is_slow |= !overlap.is_zero(),
            }
        }
        if is_slow {
            limit += SLOW_SYNC * SLOW_SYNCS_MAX;
        }
        limit
    }

    /// Maximum duration of a read. Reads do not wait for the disk.
    pub(super) fn read_limit(&self) -> Duration {
        SLACK
    }

    /// Whether syncs were slow during the whole time between these instants.
    pub(super) fn is_slow(&self, began: Instant, ended: Instant) -> bool {
        let stalls = self.0.lock().expect("no request panics");
        stalls.iter().any(|stall| {
            let lasted = stall.ended.is_none_or(|end| end >= ended);
            stall.kind == StallKind::Slow && stall.began <= began && lasted
        })
    }

    /// Whether there was a stall at any time between these instants.
    pub(super) fn is_stalled(&self, began: Instant, ended: Instant) -> bool {
        let stalls = self.0.lock().expect("no request panics");
        stalls.iter().any(|stall| {
            stall.began <= ended && stall.ended.is_none_or(|stall_ended| stall_ended >= began)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(kind: StallKind, began: Instant, seconds: u64) -> Stalls {
        let ended = Some(began + Duration::from_secs(seconds));
        Stalls(Mutex::new(vec![Stall { kind, began, ended }]))
    }

    #[test]
    fn write_may_take_only_the_part_of_a_stall_that_it_saw() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let held = stalls(StallKind::Held, after(10), 3);
        assert_eq!(held.write_limit(after(1), after(9)), SLACK);
        assert_eq!(
            held.write_limit(after(1), after(11)),
            SLACK + Duration::from_secs(1)
        );
        assert_eq!(
            held.write_limit(after(12), after(20)),
            SLACK + Duration::from_secs(1)
        );
        assert_eq!(held.write_limit(after(14), after(20)), SLACK);
        let slow = stalls(StallKind::Slow, after(10), 3);
        let several = SLOW_SYNC * SLOW_SYNCS_MAX;
        assert_eq!(slow.write_limit(after(12), after(20)), SLACK + several);
    }

    #[test]
    fn request_counts_as_beside_slow_syncs_if_they_were_slow_throughout() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let slow = stalls(StallKind::Slow, after(10), 3);
        assert!(slow.is_slow(after(11), after(12)));
        assert!(!slow.is_slow(after(9), after(12)));
        assert!(slow.is_stalled(after(9), after(12)));
        assert!(!slow.is_stalled(after(14), after(15)));
    }
}
